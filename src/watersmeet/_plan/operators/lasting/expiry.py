"""expiry: rows that last for a while (docs/semantics/expiry.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes.expiry import ExpiryNode as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import (
    FOLLOWS,
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
class ExpiryParams(Params):
    """For how long a row lasts, in ms, and whether from its record's timestamp on."""

    ttl_ms: int = field(metadata=FOLLOWS)
    of_record: bool = field(metadata=FOLLOWS)


class ExpirySpec(Spec[Node]):
    """See `Spec`."""

    stem = "expiry"
    keeps_partition = True
    fans_out = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Records with a key."""
        shape = site.input(0).shape
        return Reads(shape.key, (SpecSide(shape.value, looked_up=False, silent="dropped"),))

    def params(self, site: SpecSite[Node]) -> ExpiryParams:
        return ExpiryParams(site.node.ttl_ms, site.node.of_record)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Of each key that has a row until when it lasts, as a row that waits for that moment."""
        return (held_schema(f"{site.node.name}.due", site.node.shape.key, (), replaced=True),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns((("value", site.node.shape.value),))

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """A tombstone has the moment at which it comes, so nothing is held back."""
        return TimeOfSpec(hold=0, dropped_move=False, reaches=False)
