"""expiry: rows that last for a while (docs/semantics/expiry.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes.expiry import Expiry as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import FOLLOWS, Params, Reads, Results, Side, Site, Spec, TableSchema, Timed


@dataclass(frozen=True)
class ExpiryParams(Params):
    """For how long a row lasts, in ms, and whether from its record's timestamp on."""

    ttl_ms: int = field(metadata=FOLLOWS)
    of_record: bool = field(metadata=FOLLOWS)


class Expiry(Spec[Node]):
    """See `Spec`."""

    stem = "expiry"
    keeps_partition = True
    fans_out = True

    def reads(self, site: Site[Node]) -> Reads:
        """Records with a key."""
        shape = site.input(0).shape
        return Reads(shape.key, (Side(shape.value, looked_up=False, silent="dropped"),))

    def params(self, site: Site[Node]) -> ExpiryParams:
        """See `Spec`."""
        return ExpiryParams(site.node.ttl_ms, site.node.of_record)

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Of each key that has a row until when it lasts, as a row that waits for that moment."""
        return (held_schema(f"{site.node.name}.due", site.node.shape.key, (), replaced=True),)

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return Results((("value", site.node.shape.value),))

    def timed(self, site: Site[Node]) -> Timed:
        """A tombstone has the moment at which it comes, so nothing is held back."""
        return Timed(hold=0, dropped_move=False, reaches=False)
