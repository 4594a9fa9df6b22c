"""table: a table that is kept for its own sake, behind whatever node it is of."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.spec import FOLLOWS, STAMP, Params, Reads, Results, Side, Site, Spec, TableSchema


@dataclass(frozen=True)
class TableParams(Params):
    """Whether null after null is dropped."""

    suppress: tuple[bool] = field(metadata=FOLLOWS)


class Table(Spec[Node]):
    """See `Spec`."""

    stem = "table"
    by_key = True
    keeps_partition = True
    cacheable = True

    def side_of(self, node: Node, input: int) -> int:
        """All inputs come in alike."""
        return 0

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        shape = site.node.shape
        return Reads(shape.key, (Side(shape.value, old="inexact"),))

    def params(self, site: Site[Node]) -> TableParams:
        """See `Spec`."""
        return TableParams((site.node.name in site.rules.suppressing,))

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """See `Spec`."""
        shape = site.node.shape
        name, columns = site.node.store or site.node.name, (("key", shape.key), ("value", shape.value), STAMP)
        return (TableSchema(name, columns, copies=site.node.name),)

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return Results.of_values(site.node.shape.value, old=old)

    def seen_when_sent(self, site: Site[Node]) -> bool:
        """See `Spec`."""
        return True
