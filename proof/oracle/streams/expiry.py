"""Rows that last for a while (docs/semantics/expiry.md): a processor that sets a timer for each key.

Owns when a row ends. Laws: a row lasts from its last update on, by the time at which that comes or by its timestamp;
one that is over when it comes is deleted in place; a tombstone goes directly before the record that moves time there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from proof.oracle.graph import Node, Topology
from proof.oracle.streams.process import Process


class _Expiry:
    def __init__(self, ttl: int, *, of_record: bool) -> None:
        self._ttl, self._of_record = ttl, of_record

    def init(self, context: Any) -> None:
        self._due = context.get_store("due")

    def process(self, record: Any, context: Any) -> None:
        if self._due.get() is not None:
            context.delete_timer(self._due.get())
            self._due.delete()
        due = (record.timestamp if self._of_record else context.stream_time) + self._ttl
        lasts = record.value is not None and due > context.stream_time
        if lasts:
            self._due.put(due)
            context.set_timer(due)
        context.forward(value=record.value if lasts else None)

    def on_timer(self, _key: Any, _timestamp: int, context: Any) -> None:
        self._due.delete()
        context.forward(value=None)


def expiry(topology: Topology, parent: Node, ttl: int, *, of_record: bool) -> Node:
    """The changes of a table whose rows last for so long."""
    make = partial(_Expiry, ttl, of_record=of_record)
    return Process(topology, parent, make, {"due": ("value", None)}, timers=True)
