"""The declaration: records come when time has passed theirs by `wait` ms; with `last` only each key's last of a moment.

What waits lies in a table of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.declaration import (
    OperatorNode,
    OperatorSide,
    Params,
    Reads,
    TableSchema,
    TimeBehaviour,
    held_schema,
    row_ends,
)
from watersmeet._plan.logical import Plan


@dataclass(frozen=True)
class DelayParams(Params):
    """How long records wait, and whether only the last of each key and moment comes."""

    wait: int
    last: bool


@dataclass(frozen=True)
class Delayed(OperatorNode):
    """The records of a stream, each when time has passed its own by a while."""

    wait: int = 0
    last: bool = False

    stem = "delayed"
    fans_out = True

    def reads(self, plan: Plan) -> Reads:
        """Records with a value."""
        return Reads(self.shape.key, (OperatorSide(self.shape.value, ends=row_ends(null_value=True), looked_up=False),))

    def params(self, plan: Plan) -> DelayParams:
        """How long they wait."""
        return DelayParams(self.wait, self.last)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The records that wait."""
        columns = (("value", self.shape.value),)
        return (held_schema(f"{self.name}.held", self.shape.key, columns, replaced=self.last),)

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Time lets them go."""
        return TimeBehaviour(hold=self.wait)
