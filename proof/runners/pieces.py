"""What recorded topologies are made of, by watersmeet's own handles: inputs, operations, joins, aggregates, suppress.

Owns the meaning of the parameters that several kinds share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from proof.oracle import functions as text
from proof.oracle.combinations import FOREIGN_KEYS
from proof.oracle.parts import Read
from proof.oracle.vectors.untold import IncompleteVectorError
from proof.oracle.windows.aggregation import AGGREGATORS
from proof.runners.library import Library
from proof.runners.vectors import history
from watersmeet.aggregates.user_defined import python
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.grouped import KGroupedStream, KGroupedTable, SessionWindowedKStream, TimeWindowedKStream
from watersmeet.api.streams import KStream
from watersmeet.api.tables import KTable
from watersmeet.windows import (
    DAY_MS,
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

Params = Mapping[str, Any]
LIMITS = ("max_records", "max_bytes")


def buffer_of(spec: Params) -> BufferConfig:
    """The limits of a recorded suppress."""
    records, size = (spec.get(limit) for limit in LIMITS)
    return BufferConfig.unbounded() if records is None and size is None else BufferConfig(records, size)


class Pieces:
    """The pieces of one recorded topology."""

    def __init__(self, builder: StreamsBuilder, library: Library, params: Params) -> None:
        self._builder = builder
        self._library = library
        self._params = Read(params)
        self._plus = library.lift(text.plus, "string")
        self._even = library.lift(lambda value: text.even(None, value), "boolean")
        self._mapped = library.lift(text.mapped, "string")
        self._ref = library.lift(text.ref, "string")
        self._payload = library.lift(text.payload, "string")
        self._told = library.lift(text.extracted_time, "long")

    def _table(self, topic: str) -> KTable:
        store = f"{topic}-store" if self._params.get(f"{topic}_materialized") else None
        kept = history(self._params.get(f"{topic}_versioned_ms"))
        options = self._options()
        table = self._builder.table(topic, key="string", value="string", store=store, history=kept, **options)
        return self._operations(table, self._params.get(f"{topic}_ops", ()))

    def _stream(self, topic: str) -> KStream:
        return self._builder.stream(topic, key="string", value="string", **self._options())

    def _options(self) -> dict[str, Any]:
        """How inputs are read."""
        options: dict[str, Any] = {"headers": True} if self._params.get("headers") else {}
        policy = self._params.get("timestamp")
        if policy is not None:
            options |= {"timestamp": self._told, "on_invalid_timestamp": policy}
        return options

    def _operations(self, table: KTable, ops: Sequence[Params]) -> KTable:
        for number, op in enumerate(ops):
            store = f"{table.name}-{number}" if op.get("materialized") else None
            match op["op"]:
                case "filter":
                    table = table.filter(self._even, store=store)
                case "filter_not":
                    table = table.filter_not(self._even, store=store)
                case "map_values":
                    table = table.map_values(self._mapped, store=store)
                case "suppress":
                    table = table.suppress(Suppressed(int(op["ms"]), buffer_of(op)))
                case "to_table":
                    table = table.to_stream().to_table(store=store)
                case unknown:
                    raise IncompleteVectorError(f"unknown table operation {unknown!r}")
        return table

    def _looked_up(self) -> KStream:
        grace = self._params.get("grace_ms")
        stream, method = self._stream("left"), {"inner": "join", "left": "left_join"}[self._params["type"]]
        options = {} if grace is None else {"grace": timedelta(milliseconds=grace)}
        joined: KStream = getattr(stream, method)(self._right(), self._plus, **options)
        return joined

    def _joined(self, left: Any, right: KTable, how: str, store: str | None = None) -> Any:
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
        options = {} if store is None else {"store": store}
        return getattr(left, method)(right, self._plus, **options)

    def _foreign(self, left: KTable, right: KTable, how: str, key: str = "fk") -> KTable:
        method = left.join if how == "inner" else left.left_join
        refer = self._library.lift(FOREIGN_KEYS[self._params.get(key, "ref")], "string")
        return method(right, self._plus, foreign_key=refer)

    def _right(self) -> KTable:
        if not self._params.get("right_to_table"):
            return self._table("right")
        return self._operations(self._stream("right").to_table(), self._params.get("right_ops", ()))

    def _windows(self) -> JoinWindows:
        params = self._params
        window = JoinWindows(params["before_ms"], params["after_ms"], params.get("grace_ms", DAY_MS))
        # Before 3.1 there was no grace, and stores kept a day.
        return replace(window, eager=bool(params.get("eager")))

    def _joined_streams(self, left: KStream, right: KStream) -> KStream:
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[self._params["type"]]
        match = self._params.get("match")
        options = {} if match is None else {"match": match}
        joined: KStream = getattr(left, method)(right, self._plus, self._windows(), **options)
        return joined

    def _of_stream(
        self, grouped: KGroupedStream | TimeWindowedKStream | SessionWindowedKStream, fold_name: str | None = None
    ) -> Any:
        name = fold_name or self._params.get("agg", "log")
        if name == "count":
            return grouped.count()
        fold = AGGREGATORS[name]
        if fold.initial is None:
            return grouped.reduce(python(fold.add))
        add = python(lambda value, aggregate: fold.add(aggregate, value))
        if isinstance(grouped, SessionWindowedKStream):
            assert fold.merge is not None, "a fold of sessions"
            return grouped.aggregate(fold.initial, add, python(fold.merge))
        return grouped.aggregate(fold.initial, add)

    def _of_table(self, table: KTable) -> KTable:
        ref, payload = self._ref, self._payload
        return self._of_grouped(table.group_by(lambda _, value: (ref(value), payload(value))))

    def _of_grouped(self, grouped: KGroupedTable) -> KTable:
        name = self._params.get("agg", "log")
        if name == "count":
            return grouped.count()
        fold = AGGREGATORS[name]
        assert fold.subtract is not None, "a fold of a table"
        add, subtract = fold.add, fold.subtract
        if fold.initial is None:
            return grouped.reduce(python(add), python(subtract))
        steps = (lambda value, aggregate: add(aggregate, value), lambda value, aggregate: subtract(aggregate, value))
        return grouped.aggregate(fold.initial, *map(python, steps))

    def _suppressed(self, table: Any) -> Any:
        spec = self._params.get("suppress")
        if spec is None:
            return table
        if spec["until"] not in ("time_limit", "window_closes"):
            raise IncompleteVectorError(f"cannot suppress until {spec['until']!r}")
        limit = int(spec["ms"]) if spec["until"] == "time_limit" else None
        return table.suppress(Suppressed(limit, buffer_of(spec)))

    def _windows_of_aggregate(self) -> Windows:
        params = self._params
        grace = params.get("grace_ms", 0)
        match params["window"]:
            case "tumbling" | "hopping":
                size = params["size_ms"]
                return TimeWindows(size, params.get("advance_ms", size), grace)
            case "unlimited":
                return UnlimitedWindows(params.get("start_ms", 0))
            case "sliding":
                return SlidingWindows(params["difference_ms"], grace)
            case "session":
                return SessionWindows(params["gap_ms"], grace)
            case unknown:
                raise IncompleteVectorError(f"unknown window {unknown!r}")

    def _windowed(self, grouped: KGroupedStream, fold_name: str | None = None) -> Any:
        # how long Kafka's store keeps windows, where it lies, and how often it looks for closed ones (rows 7, 14 to 16)
        for detail in ("retention_ms", "store", "emit_interval_ms"):
            self._params.get(detail)
        windowed = grouped.windowed_by(self._windows_of_aggregate())
        if self._params.get("emit", "update") == "close":
            windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
        return self._suppressed(self._of_stream(windowed, fold_name))
