"""The spec: what waits lies in a table of its own."""

from __future__ import annotations

from dataclasses import dataclass

from tests.operators.delayed.node import Delayed as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import Params, Reads, Results, Side, Site, Spec, TableSchema, Timed


@dataclass(frozen=True)
class DelayParams(Params):
    """How long records wait, and whether only the last of each key and moment comes."""

    wait: int
    last: bool


class Delayed(Spec[Node]):
    """See `Spec`."""

    stem = "delayed"
    fans_out = True

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        shape = site.node.shape
        return Reads(shape.key, (Side(shape.value, drops_null_value=True, looked_up=False),))

    def params(self, site: Site[Node]) -> DelayParams:
        """See `Spec`."""
        return DelayParams(site.node.wait, site.node.last)

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The records that wait."""
        node = site.node
        columns = (("value", node.shape.value),)
        return (held_schema(f"{node.name}.held", node.shape.key, columns, replaced=node.last),)

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return Results((("value", site.node.shape.value),))

    def timed(self, site: Site[Node]) -> Timed:
        """See `Spec`."""
        return Timed(hold=site.node.wait)
