"""The declaration: what the user declares, and what the operator reads, keeps and promises."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.declaration import STAMP, OperatorNode, OperatorSide, Reads, TableSchema, row_ends
from watersmeet._plan.logical import Plan
from watersmeet._plan.reasons import Reason

REPEATED = Reason("repeated", "the record before has its value")


@dataclass(frozen=True)
class Distinct(OperatorNode):
    """The records of a stream whose value is another than that of the record before of their key."""

    stem = "distinct"
    in_place = True

    def reads(self, plan: Plan) -> Reads:
        """Records with a value."""
        return Reads(self.shape.key, (OperatorSide(self.shape.value, ends=row_ends(null_value=True)),))

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The last value of each key."""
        return (TableSchema(f"{self.name}.last", (("key", self.shape.key), ("value", self.shape.value), STAMP)),)
