"""The wall clock as an operator knows it that has timers of it.

It comes in rows of a source of the query (`idle`), with offsets in the checkpoint, and never from a worker's clock: a
replayed batch gives the same. A batch gets it at its beginning: rows due by it are at the time `AT_FIRST`, before all
records of the batch.
"""

from __future__ import annotations

from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.state.runs import State

_WALL = "wall"
TURN = -(2**62)
"""Turn of what the wall clock lets go: less than any of stream time, which nothing is to take it for."""


class WallClock:
    """Its time before a batch and in it, in ms; it never goes back.

    Attributes
    ----------
    before, now : as of the batch before, and in this one.
    """

    def __init__(self, context: OperatorContext, state: State, told: int | None) -> None:
        self.before: int = state.get_scalar(_WALL, context.time.wall_ms)
        self.now = self.before if told is None else max(self.before, told)

    def store(self, state: State) -> None:
        """Keep it for the next batch."""
        state.set_scalar(_WALL, self.now)
