"""The spec: what waits lies in a table of its own."""

from __future__ import annotations

from dataclasses import dataclass

from tests.operators.delayed.node import Delayed as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import (
    Params,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)


@dataclass(frozen=True)
class DelayParams(Params):
    """How long records wait, and whether only the last of each key and moment comes."""

    wait: int
    last: bool


class Delayed(Spec[Node]):
    """See `Spec`."""

    stem = "delayed"
    fans_out = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """See `Spec`."""
        shape = site.node.shape
        return Reads(shape.key, (SpecSide(shape.value, drops_null_value=True, looked_up=False),))

    def params(self, site: SpecSite[Node]) -> DelayParams:
        """See `Spec`."""
        return DelayParams(site.node.wait, site.node.last)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The records that wait."""
        node = site.node
        columns = (("value", node.shape.value),)
        return (held_schema(f"{node.name}.held", node.shape.key, columns, replaced=node.last),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        """See `Spec`."""
        return ResultColumns((("value", site.node.shape.value),))

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """See `Spec`."""
        return TimeOfSpec(hold=site.node.wait)
