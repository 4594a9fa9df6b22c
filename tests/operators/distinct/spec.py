"""The spec: what the operator reads, keeps, gives and promises."""

from __future__ import annotations

from tests.operators.distinct.node import Distinct as Node
from watersmeet._plan.operators.spec import STAMP, Reads, ResultColumns, Spec, SpecSide, SpecSite, TableSchema


class Distinct(Spec[Node]):
    """See `Spec`."""

    stem = "distinct"
    keeps_partition = True
    drop_reasons = ("repeated",)

    def reads(self, site: SpecSite[Node]) -> Reads:
        """See `Spec`."""
        shape = site.node.shape
        return Reads(shape.key, (SpecSide(shape.value, drops_null_value=True),))

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The last value of each key."""
        shape = site.node.shape
        return (TableSchema(f"{site.node.name}.last", (("key", shape.key), ("value", shape.value), STAMP)),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        """See `Spec`."""
        return ResultColumns((("value", site.node.shape.value),))
