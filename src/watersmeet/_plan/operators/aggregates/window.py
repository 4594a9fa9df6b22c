"""Base of the specs of windowed aggregates: rows come in by the key alone, results are keyed by key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from watersmeet._plan.nodes import WindowAggregateNode
from watersmeet._plan.operators.aggregates.aggregate import AggregateParams, AggregateSpec, records
from watersmeet._plan.operators.spec import NUMBER, STAMP, Reads, Retention, SpecSite, TableSchema, TimeOfSpec
from watersmeet.windows import Windows

N = TypeVar("N", bound=WindowAggregateNode)


@dataclass(frozen=True)
class WindowParams(AggregateParams):
    """Of a windowed aggregate: its windows, and whether results come when they close."""

    windows: Windows
    on_close: bool


class WindowSpec(AggregateSpec[N]):
    """Base of the specs of windowed aggregates; see `Spec`."""

    # a windowed key's rows all come from the partition of its key
    keeps_partition = True
    fans_out = True
    drop_reasons: ClassVar[tuple[str, ...]] = ("expired_window",)

    def reads(self, site: SpecSite[N]) -> Reads:
        """Records with key and value: null values are left out, too (row 10 of section A)."""
        return Reads(site.input(0).shape.key, records(site))

    def params(self, site: SpecSite[N]) -> WindowParams:
        return WindowParams(site.node.fold, site.node.windows, site.node.on_close)

    def keeps(self, site: SpecSite[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The state of each key and window, which the time of its domain lets go.

        With the headers of the record that changed it last, where results come when windows close.
        """
        node = site.node
        columns = (("key", self.reads(site).key), ("start", NUMBER), ("value", node.fold.state), STAMP)
        schema = TableSchema(
            node.store or f"{node.name}.windows",
            (*columns, ("domain", NUMBER), *(site.headers if node.on_close else ())),
            identity=("key", "start"),
            order=("start",),
            retention=Retention("start", "domain"),
            due=() if node.on_close else None,
        )
        return (schema,)

    def timed(self, site: SpecSite[N]) -> TimeOfSpec:
        """Results wait for the windows to close, where they come then."""
        # the last moment at which a window is open
        hold = max(0, self.wait(site) - 1) if site.node.on_close else None
        return TimeOfSpec(hold=hold, dropped_move=False, reaches=False, elsewhere=True)

    def wait(self, site: SpecSite[N]) -> int:
        """From a window's start on until it is closed, in ms."""
        raise NotImplementedError
