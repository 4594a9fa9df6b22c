"""Stream time: each operator's own, or that of the sources (row 21).

Owns what "now" means to an operator. Law, faithful: the largest timestamp among the records the operator
accepted. Law, repaired: an operator behind another stateful one takes the time of the sources less what the
operators above it can hold back, and a result that was held back stands at the moment it was let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proof.oracle.graph import Node, Topology


class Clock:
    """The stream time of one operator."""

    def __init__(self, topology: Topology, node: Node, on_tick: Callable[[], None]) -> None:
        """`on_tick` is called when the time of the sources has moved without a record for this operator."""
        self.time = -1
        self._topology = topology
        self._node = node
        self._on_tick = on_tick
        self._repaired = topology.semantics.repaired(21)
        if self._repaired:
            topology.on_tick(self._tick)

    def move(self, ts: int, port: int = 0) -> bool:
        """A record was accepted on this input; whether time moved."""
        self._node.advance_time(self._topology, ts, port)
        lag = self._lag()
        return self._set(ts if lag is None else self._topology.now - lag)

    @contextmanager
    def letting_go(self, local: int) -> Iterator[None]:
        """Forward inside this: the results stand at this moment of the operator's time, not now."""
        present = self._topology.now
        if self._repaired:
            self._topology.now = min(present, local + (self._lag() or 0))
        yield
        self._topology.now = present

    def _lag(self) -> int | None:
        return self._node.lag_above() if self._repaired else None

    def _tick(self) -> None:
        lag = self._lag()
        if lag is not None and self._set(self._topology.now - lag):
            self._on_tick()

    def _set(self, time: int) -> bool:
        moved = time > self.time
        self.time = max(self.time, time)
        return moved
