"""The processors that are recorded beside Kafka Streams (`dev/record/Recorder.java`), for oracle and handles alike.

Owns what each does; what their context does is each side's own. Times are ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


class Dedup:
    """Sends each value of a key once in a while of stream time."""

    stores: Mapping[str, tuple[str, Any, Any]] = {"seen": ("map", "string", "long")}

    def __init__(self, ttl_ms: int) -> None:
        """`ttl_ms` is the store's matter."""

    def init(self, context: Any) -> None:
        """Find the store."""
        self.seen = context.get_store("seen")

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        if record.value is not None and self.seen.get(record.value) is None:
            self.seen.put(record.value, record.timestamp)
            context.forward(value=record.value)


class Reorder:
    """Sends records in the order of their timestamps, some time later; those that are later still at once."""

    stores: Mapping[str, tuple[str, Any, Any]] = {
        "waiting": ("map", "string", "string"),
        "count": ("value", None, "long"),
    }

    def __init__(self, wait_ms: int) -> None:
        """Hold records back for so long."""
        self._wait = wait_ms

    def init(self, context: Any) -> None:
        """Find the stores."""
        self.waiting, self.count = context.get_store("waiting"), context.get_store("count")

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        at = record.timestamp
        if at + self._wait <= context.stream_time:
            context.forward(value=record.value, timestamp=at)
            return
        number = (self.count.get() or 0) + 1
        self.count.put(number)
        self.waiting.put(f"{at:019}/{number:09}", "-" if record.value is None else f"+{record.value}")
        context.set_timer(at + self._wait)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """All of the key that has waited long enough."""
        for place, held in self.waiting.range("", f"{timestamp - self._wait:019}~"):
            self.waiting.delete(place)
            at, _, _ = place.partition("/")
            context.forward(value=None if held == "-" else held[1:], timestamp=int(at))


class Expire:
    """Sends the changes of rows, and deletes a row some time after its last change."""

    stores: Mapping[str, tuple[str, Any, Any]] = {"due": ("value", None, "long")}

    def __init__(self, ttl_ms: int) -> None:
        """Rows last for so long."""
        self._ttl = ttl_ms

    def init(self, context: Any) -> None:
        """Find the store."""
        self.due = context.get_store("due")

    def process(self, record: Any, context: Any) -> None:
        """One change."""
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
            self.due.delete()
        if record.value is not None:
            self.due.put(context.stream_time + self._ttl)
            context.set_timer(context.stream_time + self._ttl)
        context.forward(value=record.value)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """The row is too old."""
        self.due.delete()
        context.forward(value=None)


class Totals:
    """Counts records, and sends the counts that have changed at each tick of the wall clock."""

    stores: Mapping[str, tuple[str, Any, Any]] = {"total": ("value", None, "long")}

    def __init__(self, every_ms: int) -> None:
        """Tick so often."""
        self._every = every_ms

    def init(self, context: Any) -> None:
        """Find the store."""
        self.total = context.get_store("total")

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        self.total.put((self.total.get() or 0) + 1)
        context.set_timer((context.wall_clock // self._every + 1) * self._every, clock="wall")

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """The next tick."""
        context.forward(value=str(self.total.get()), timestamp=context.wall_clock)


RECORDED: dict[str, tuple[Any, str]] = {
    "processor_dedup": (Dedup, "ttl_ms"),
    "processor_reorder": (Reorder, "wait_ms"),
    "processor_expire": (Expire, "ttl_ms"),
    "processor_totals": (Totals, "every_ms"),
}
"""By kind: the class, and its parameter."""
BY_WALL = frozenset({"processor_totals"})
"""Kinds that wait for the wall clock."""


def maker(kind: str, params: Mapping[str, Any]) -> Callable[[], Any]:
    """What makes the processor of a history."""
    made, name = RECORDED[kind]
    return partial(made, params[name])


def ttl_of(kind: str, params: Mapping[str, Any]) -> int | None:
    """For how long the entries of its stores last."""
    return int(params["ttl_ms"]) if kind == "processor_dedup" else None
