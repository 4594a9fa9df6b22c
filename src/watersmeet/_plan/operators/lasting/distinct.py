"""distinct: the first record of each key within a while (docs/semantics/distinct.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes import DistinctNode as Node
from watersmeet._plan.operators.spec import (
    FOLLOWS,
    NUMBER,
    STAMP,
    Params,
    Reads,
    ResultColumns,
    Retention,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)

UNTIL = "until"
"""The column with the last moment at which a record of the key is a duplicate; its domain stands beside it."""


@dataclass(frozen=True)
class DistinctParams(Params):
    """How long records of a key are left out behind the first, in ms; None: for ever."""

    within_ms: int | None = field(metadata=FOLLOWS)


class DistinctSpec(Spec[Node]):
    """See `Spec`."""

    stem = "distinct"
    keeps_partition = True
    drop_reasons = ("duplicate",)

    def reads(self, site: SpecSite[Node]) -> Reads:
        """All records, those without a key or a value too."""
        shape = site.input(0).shape
        return Reads(shape.key, (SpecSide(shape.value, drops_null_key=False, looked_up=False, silent="dropped"),))

    def params(self, site: SpecSite[Node]) -> DistinctParams:
        return DistinctParams(site.node.within_ms)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Of each key until when it is known, let go by its domain's time; or the key alone."""
        node = site.node
        name, key = f"{node.name}.seen", ("key", node.shape.key)
        if node.within_ms is None:
            return (TableSchema(name, (key, STAMP), shown=False),)
        columns = (key, (UNTIL, NUMBER), ("domain", NUMBER))
        retention = Retention(UNTIL, "domain")
        return (
            TableSchema(name, columns, identity=(), order=(UNTIL,), retention=retention, appended=True, shown=False),
        )

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns((("value", site.node.shape.value),))

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec | None:
        """By stream time, where a key is forgotten in time; nothing is held back."""
        if site.node.within_ms is None:
            return None
        return TimeOfSpec(hold=None, dropped_move=False, reaches=False, elsewhere=True)
