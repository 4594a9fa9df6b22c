"""What the specs of windowed aggregates share: rows come in by the key alone, results are keyed by key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from millpond._plan.nodes import WindowAggregate
from millpond._plan.operators.aggregates.aggregate import AggregateParams, AggregateSpec, records
from millpond._plan.operators.spec import Reads, Site
from millpond.windows import Windows

N = TypeVar("N", bound=WindowAggregate)


@dataclass(frozen=True)
class WindowParams(AggregateParams):
    """Of a windowed aggregate: its windows, and whether results come when they close."""

    windows: Windows
    on_close: bool


class WindowSpec(AggregateSpec[N]):
    """What windowed aggregates share; see `Spec`."""

    # a windowed key's rows all come from the partition of its key
    keeps_partition = True
    fans_out = True
    drop_reasons = ("expired_window",)

    def reads(self, site: Site[N]) -> Reads:
        """Records with key and value: null values are left out, too (row 10 of section A)."""
        return Reads(site.input(0).shape.key, records(site))

    def params(self, site: Site[N]) -> WindowParams:
        """See `Spec`."""
        return WindowParams(site.node.fold, site.node.windows, site.node.on_close)
