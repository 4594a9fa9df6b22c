"""Values that are asked for elsewhere (docs/functions.md), of which the answers are known.

Owns the order of the results. Law: they stand where their records do, whichever answer comes first; a record without
a value is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Record, Value


class MapAsync(Node):
    """Each record with the answer for its value."""

    stateful = True

    def __init__(self, topology: Topology, parent: Node, answer: Callable[[Value], Value]) -> None:
        """Read this stream."""
        super().__init__()
        self._topology, self._answer = topology, answer
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Pass a record on with its answer."""
        self.advance_time(self._topology, record.ts, port)
        self.forward(record if record.value is None else replace(record, value=self._answer(record.value)))
