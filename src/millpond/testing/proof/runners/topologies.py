"""Recorded kinds and parameters as topologies of millpond's own handles.

Owns the meaning of the kinds whose operators exist, in the order in which the recorded topologies built them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from millpond.aggregates import python
from millpond.builder import StreamsBuilder
from millpond.errors import MillpondError
from millpond.grouped.streams import KGroupedStream
from millpond.grouped.windowed import SessionWindowedKStream, TimeWindowedKStream
from millpond.kstream import KStream
from millpond.ktable import KTable
from millpond.testing.proof.arrow import arrow_builder
from millpond.testing.proof.conformance_runners import untold
from millpond.testing.proof.oracle import functions as text
from millpond.testing.proof.oracle.parts import Read
from millpond.testing.proof.oracle.topologies import known_kind
from millpond.testing.proof.oracle.vectors.untold import NotToldError
from millpond.testing.proof.oracle.windows.aggregation import AGGREGATORS
from millpond.testing.proof.oracle.windows.wtable_kinds import KINDS as WTABLES
from millpond.testing.proof.recordings import History, topology_key
from millpond.testing.proof.runners.library import ArrowLibrary, Library, as_written
from millpond.testing.proof.runners.vectors import VectorTopology, history, unsupported_vector
from millpond.testing.proof.runners.wtables import wtable_join
from millpond.windows import (
    DAY_MS,
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    Windows,
)

OUTPUT = "out"
GENERATIONS = {"0.10.0.1": "old-0.10.0", "0.10.1.1": "old", "0.10.2.2": "spurious"}
Params = Mapping[str, Any]


class Recorded:
    """Builds one recorded topology."""

    def __init__(self, builder: StreamsBuilder, library: Library, params: Params) -> None:
        self._builder = builder
        self._library = library
        self._params = Read(params)
        self._plus = library.lift(text.plus, "string")
        self._even = library.lift(lambda value: text.even(None, value), "boolean")
        self._mapped = library.lift(text.mapped, "string")
        self._ref = library.lift(text.ref, "string")
        self._payload = library.lift(text.payload, "string")

    def build(self, kind: str) -> None:
        """Add the topology of this kind to the builder."""
        KINDS[kind](self)
        self._params.check()

    def _table(self, topic: str) -> KTable:
        store = f"{topic}-store" if self._params.get(f"{topic}_materialized") else None
        kept = history(self._params.get(f"{topic}_versioned_ms"))
        table = self._builder.table(topic, key="string", value="string", store=store, history=kept)
        return self._operations(table, self._params.get(f"{topic}_ops", ()))

    def _stream(self, topic: str) -> KStream:
        return self._builder.stream(topic, key="string", value="string")

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
                    table = table.suppress(Suppressed(int(op["ms"]), BufferConfig.unbounded()))
                case "to_table":
                    table = table.to_stream().to_table(store=store)
                case unknown:
                    raise NotToldError(f"unknown table operation {unknown!r}")
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

    def _table_table(self) -> None:
        left, right = self._table("left"), self._table("right")
        store = "result" if self._params.get("result_materialized") else None
        joined = self._joined(left, right, self._params["type"], store)
        self._operations(joined, self._params.get("ops", ())).to(OUTPUT)

    def _three_way(self) -> None:
        left, right, third = (self._table(topic) for topic in ("left", "right", "third"))
        first = self._joined(left, right, self._params["type"])
        self._joined(first, third, self._params["type2"]).to(OUTPUT)

    def _table_chain_same(self) -> None:
        left, right = self._table("left"), self._table("right")
        first = self._joined(left, right, self._params["type"])
        self._joined(first, right, self._params["type2"]).to(OUTPUT)

    def _foreign(self, left: KTable, right: KTable, how: str) -> KTable:
        method = left.join if how == "inner" else left.left_join
        return method(right, self._plus, foreign_key=self._ref)

    def _fk_join(self) -> None:
        joined = self._foreign(self._table("left"), self._table("right"), self._params["type"])
        self._operations(joined, self._params.get("ops", ())).to(OUTPUT)

    def _table_join_then_fk(self) -> None:
        left, right, third = (self._table(topic) for topic in ("left", "right", "third"))
        first = self._joined(left, right, self._params["type"])
        self._foreign(first, third, self._params["type2"]).to(OUTPUT)

    def _global_join(self) -> None:
        left = self._stream("left")
        right = self._builder.global_table("right", key="string", value="string")
        method = left.join if self._params["type"] == "inner" else left.left_join
        method(right, self._plus, key=self._ref).to(OUTPUT)

    def _table_ops(self) -> None:
        self._operations(self._table("input"), self._params["ops"]).to(OUTPUT)

    def _right(self) -> KTable:
        if not self._params.get("right_to_table"):
            return self._table("right")
        return self._operations(self._stream("right").to_table(), self._params.get("right_ops", ()))

    def _stream_table(self) -> None:
        self._looked_up().to(OUTPUT)

    def _windows(self) -> JoinWindows:
        params = self._params
        window = JoinWindows(params["before_ms"], params["after_ms"], params.get("grace_ms", DAY_MS))
        # Before 3.1 there was no grace, and stores kept a day.
        return replace(window, eager=bool(params.get("eager")))

    def _joined_streams(self, left: KStream, right: KStream) -> KStream:
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[self._params["type"]]
        joined: KStream = getattr(left, method)(right, self._plus, self._windows())
        return joined

    def _stream_stream(self) -> None:
        self._joined_streams(self._stream("left"), self._stream("right")).to(OUTPUT)

    def _self_join(self) -> None:
        stream = self._stream("input")
        self._joined_streams(stream, stream).to(OUTPUT)

    def _rekey_stream_stream(self) -> None:
        left = self._stream("left").select_key(self._ref)
        self._joined_streams(left, self._stream("right")).to(OUTPUT)

    def _of_stream(self, grouped: KGroupedStream | TimeWindowedKStream | SessionWindowedKStream) -> Any:
        name = self._params.get("agg", "log")
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
        grouped = table.group_by(lambda _, value: (ref(value), payload(value)))
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
            raise NotToldError(f"cannot suppress until {spec['until']!r}")
        limit = int(spec["ms"]) if spec["until"] == "time_limit" else None
        return table.suppress(Suppressed(limit, BufferConfig.unbounded()))

    def _stream_aggregate(self) -> None:
        self._suppressed(self._of_stream(self._stream("input").group_by_key())).to(OUTPUT)

    def _table_aggregate(self) -> None:
        table = self._suppressed(self._of_table(self._table("input")))
        self._operations(table, self._params.get("ops", ())).to(OUTPUT)

    def _fk_then_aggregate(self) -> None:
        joined = self._foreign(self._table("left"), self._table("right"), self._params["type"])
        self._of_table(joined).to(OUTPUT)

    def _stream_table_count(self) -> None:
        self._looked_up().group_by_key().count().to(OUTPUT)

    def _stream_stream_count(self) -> None:
        joined = self._joined_streams(self._stream("left"), self._stream("right"))
        joined.group_by_key().count().to(OUTPUT)

    def _aggregate_join_table(self) -> None:
        aggregate = self._of_stream(self._stream("left").group_by_key())
        self._joined(aggregate, self._table("right"), self._params["type"]).to(OUTPUT)

    def _rekey_count(self) -> None:
        self._of_stream(self._stream("input").group_by(self._ref)).to(OUTPUT)

    def _merge_count(self) -> None:
        merged = self._stream("left").merge(self._stream("right"))
        self._of_stream(merged.group_by_key()).to(OUTPUT)

    def _windows_of_aggregate(self) -> Windows:
        params = self._params
        grace = params.get("grace_ms", 0)
        match params["window"]:
            case "tumbling" | "hopping":
                size = params["size_ms"]
                return TimeWindows(size, params.get("advance_ms", size), grace)
            case "sliding":
                return SlidingWindows(params["difference_ms"], grace)
            case "session":
                return SessionWindows(params["gap_ms"], grace)
            case unknown:
                raise NotToldError(f"unknown window {unknown!r}")

    def _windowed_aggregate(self) -> None:
        # how long Kafka's store keeps windows, where it lies, and how often it looks for closed ones (rows 7, 14 to 16)
        for detail in ("retention_ms", "store", "emit_interval_ms"):
            self._params.get(detail)
        windowed = self._stream("input").group_by_key().windowed_by(self._windows_of_aggregate())
        if self._params.get("emit", "update") == "close":
            windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
        self._suppressed(self._of_stream(windowed)).to_stream().to(OUTPUT)

    def _stream_stream_window(self) -> None:
        joined = self._joined_streams(self._stream("left"), self._stream("right"))
        size, grace = self._params["size_ms"], self._params["window_grace_ms"]
        self._of_stream(joined.group_by_key().windowed_by(TimeWindows(size, size, grace))).to_stream().to(OUTPUT)

    def _wtable(self, kind: str) -> None:
        def side(name: str, shape: str) -> Any:
            if shape == "table":
                return self._table(name)
            stream = self._stream(name)
            if shape == "stream":
                return stream
            return self._of_stream(stream.group_by_key().windowed_by(self._windows_of_aggregate()))

        as_written(wtable_join(kind, self._library, self._params, side)).to(OUTPUT)

    def _rekey_stream_table(self) -> None:
        left = self._stream("left").select_key(self._ref)
        self._joined(left, self._table("right"), self._params["type"]).to(OUTPUT)


KINDS: dict[str, Callable[[Recorded], None]] = {
    "table_table": Recorded._table_table,
    "three_way": Recorded._three_way,
    "table_chain_same": Recorded._table_chain_same,
    "fk_join": Recorded._fk_join,
    "table_join_then_fk": Recorded._table_join_then_fk,
    "global_join": Recorded._global_join,
    "table_ops": Recorded._table_ops,
    "stream_table": Recorded._stream_table,
    "stream_stream": Recorded._stream_stream,
    "self_join": Recorded._self_join,
    "rekey_stream_stream": Recorded._rekey_stream_stream,
    "rekey_stream_table": Recorded._rekey_stream_table,
    "stream_aggregate": Recorded._stream_aggregate,
    "table_aggregate": Recorded._table_aggregate,
    "fk_then_aggregate": Recorded._fk_then_aggregate,
    "stream_table_count": Recorded._stream_table_count,
    "stream_stream_count": Recorded._stream_stream_count,
    "aggregate_join_table": Recorded._aggregate_join_table,
    "rekey_count": Recorded._rekey_count,
    "merge_count": Recorded._merge_count,
    "windowed_aggregate": Recorded._windowed_aggregate,
    "stream_stream_window": Recorded._stream_stream_window,
    **{kind: partial(Recorded._wtable, kind=kind) for kind in WTABLES},
}


def unsupported(history: History) -> str | None:
    """Why a history cannot be run yet; None when it can.

    Raises
    ------
    NotToldError : its topology cannot be set up from what the recording tells.
    """
    try:
        reason = _not_yet(history)
        inputs = _inputs(history) if reason is None else frozenset()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, MillpondError) as error:
        raise NotToldError(untold(error)) from error
    if reason is not None:
        return reason
    unknown = {step.topic for step in history.steps if step.advance_ms is None} - inputs
    if unknown:
        raise NotToldError(f"a step's input {sorted(map(str, unknown))[0]!r} is none of the topology's")
    return None


_INPUTS: dict[str, frozenset[str | None]] = {}
"""Of the topologies that could be built, by their key: thousands of histories have a few hundred of them."""


def _inputs(history: History) -> frozenset[str | None]:
    key = topology_key(history)
    if key not in _INPUTS:
        builder, _ = build_recorded(history, ArrowLibrary(), lambda g: arrow_builder("recorded", generation=g))
        _INPUTS[key] = frozenset(source.input for source in builder.build().plan.sources)
    return _INPUTS[key]


def _not_yet(history: History) -> str | None:
    if history.vector is not None:
        return unsupported_vector(history.vector)
    if not known_kind(history.kind):
        raise NotToldError(f"unknown kind {history.kind!r}")
    if history.kind not in KINDS:
        return f"no operator yet for {history.kind}"
    for name, value in history.params.items():
        if name == "difference_ms" and not value:
            return "refused when it is written down: sliding windows of difference 0"
    return None


def build_recorded(
    history: History, library: Library, make: Callable[[str], StreamsBuilder]
) -> tuple[StreamsBuilder, dict[str, str | None]]:
    """(the builder of a history's topology, recorded sink name of each output).

    `make` gives an empty builder of a generation.
    """
    builder = make(GENERATIONS.get(history.version, "current"))
    if history.vector is not None:
        topology = VectorTopology(builder, library, history)
        topology.build()
        return builder, topology.outputs
    Recorded(builder, library, history.params).build(history.kind)
    return builder, {OUTPUT: None}
