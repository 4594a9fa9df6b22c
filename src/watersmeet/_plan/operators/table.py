"""table: a table that is kept for its own sake, behind whatever node it is of."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.spec import (
    FOLLOWS,
    STAMP,
    Params,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
)


@dataclass(frozen=True)
class TableParams(Params):
    """Whether null after null is dropped."""

    suppress: tuple[bool] = field(metadata=FOLLOWS)


class TableSpec(Spec[Node]):
    """See `Spec`."""

    stem = "table"
    by_key = True
    keeps_partition = True
    cacheable = True
    recomputable = True
    replaceable = True

    def side_of(self, node: Node, input: int) -> int:
        """All inputs come in alike."""
        return 0

    def reads(self, site: SpecSite[Node]) -> Reads:
        shape = site.node.shape
        return Reads(shape.key, (SpecSide(shape.value, old="inexact"),))

    def params(self, site: SpecSite[Node]) -> TableParams:
        return TableParams((site.node.name in site.rules.suppressing,))

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        shape = site.node.shape
        name, columns = site.node.store or site.node.name, (("key", shape.key), ("value", shape.value), STAMP)
        return (TableSchema(name, columns, copies=site.node.name),)

    def own_rows(self, site: SpecSite[Node]) -> tuple[int, ...]:
        return (0,)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(site.node.shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        return True
