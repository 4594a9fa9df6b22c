"""Recorded kinds and parameters as topologies of watersmeet's own handles.

Owns the meaning of the kinds whose operators exist, in the order in which the recorded topologies built them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from proof.arrow import arrow_builder
from proof.conformance_runners import untold
from proof.oracle.combinations import cogrouped_folds
from proof.oracle.functions import all_plus
from proof.oracle.streams.recorded_programs import RECORDED, maker, ttl_of
from proof.oracle.topologies import known_kind
from proof.oracle.vectors.untold import IncompleteVectorError
from proof.oracle.windows.wtable_kinds import KINDS as WTABLES
from proof.recordings import History, topology_key
from proof.runners.library import ArrowLibrary, Library, as_written
from proof.runners.pieces import LIMITS, Pieces
from proof.runners.vectors import VectorTopology, unsupported_vector
from proof.runners.wtables import wtable_join
from watersmeet.aggregates.user_defined import python
from watersmeet.api.builder import StreamsBuilder
from watersmeet.errors import WatersmeetError
from watersmeet.processors import MapStore, StoreDeclaration, ValueStore
from watersmeet.windows import TimeWindows

OUTPUT = "out"
GENERATIONS = {"0.10.0.1": "old-0.10.0", "0.10.1.1": "old", "0.10.2.2": "spurious"}
Params = Mapping[str, Any]


def shards_of(history: History, shards: int) -> int:
    """How many shards a history is run on: one, as Kafka Streams' one task, where a buffer is limited (row 33)."""
    return 1 if any(f'"{limit}"' in topology_key(history) for limit in LIMITS) else shards


class Recorded(Pieces):
    """Builds one recorded topology."""

    def build(self, kind: str) -> None:
        """Add the topology of this kind to the builder."""
        KINDS[kind](self)
        self._params.check()

    def _table_table(self) -> None:
        left, right = self._table("left"), self._table("right")
        store = "result" if self._params.get("result_materialized") else None
        joined = self._joined(left, right, self._params["type"], store)
        self._operations(joined, self._params.get("ops", ())).to(OUTPUT)

    def _three_way(self) -> None:
        left, right, third = (self._table(topic) for topic in ("left", "right", "third"))
        first = self._joined(left, right, self._params["type"])
        self._joined(first, third, self._params["type2"]).to(OUTPUT)

    def _multi_join(self) -> None:
        left, right, third = (self._table(topic) for topic in ("left", "right", "third"))
        joiner = self._library.lift(all_plus, "string")
        left.multi_join([right, third], joiner, how=self._params["types"]).to(OUTPUT)

    def _table_chain_same(self) -> None:
        left, right = self._table("left"), self._table("right")
        first = self._joined(left, right, self._params["type"])
        self._joined(first, right, self._params["type2"]).to(OUTPUT)

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

    def _processor(self, *, kind: str) -> None:
        made, ttl = maker(kind, self._params), ttl_of(kind, self._params)
        lasts = None if ttl is None else timedelta(milliseconds=ttl)
        stores: list[StoreDeclaration] = []
        for name, (of, entry, value) in RECORDED[kind][0].stores.items():
            is_map = of == "map"
            stores.append(MapStore(name, entry, value, ttl=lasts) if is_map else ValueStore(name, value, ttl=lasts))
        self._stream("input").process_values(made, value="string", stores=stores).to(OUTPUT)

    def _stream_table(self) -> None:
        self._looked_up().to(OUTPUT)

    def _stream_stream(self) -> None:
        self._joined_streams(self._stream("left"), self._stream("right")).to(OUTPUT)

    def _self_join(self) -> None:
        stream = self._stream("input")
        self._joined_streams(stream, stream).to(OUTPUT)

    def _rekey_stream_stream(self) -> None:
        left = self._stream("left").select_key(self._ref)
        self._joined_streams(left, self._stream("right")).to(OUTPUT)

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

    def _windowed_aggregate(self) -> None:
        self._windowed(self._stream("input").group_by_key()).to_stream().to(OUTPUT)

    def _window_then_aggregate(self) -> None:
        by_start, field = self._params.get("group", "key") == "start", self._builder._construction.functions.field
        shown = self._library.lift(str, "string")

        def group(key: Any) -> Any:
            return shown(field(key, "start")) if by_start else field(key, "key")

        windows = self._windowed(self._stream("input").group_by_key(), "log")
        self._of_grouped(windows.group_by(lambda key, value: (group(key), value))).to(OUTPUT)

    def _cogroup(self) -> None:
        folds = cogrouped_folds(self._params["streams"])
        streams = [self._stream(f"s{number}").group_by_key() for number in range(len(folds))]
        steps = [python(lambda value, aggregate, add=fold.add: add(aggregate, value)) for fold in folds]
        cogrouped: Any = streams[0].cogroup(steps[0])
        for stream, step in zip(streams[1:], steps[1:], strict=True):
            cogrouped = cogrouped.cogroup(stream, step)
        initial, merge = folds[0].initial, folds[0].merge
        assert merge is not None, "sessions are merged"
        if "window" not in self._params:
            cogrouped.aggregate(initial).to(OUTPUT)
            return
        self._params.get("store")
        merged = [python(merge)] if self._params["window"] == "session" else []
        windowed = cogrouped.windowed_by(self._windows_of_aggregate())
        self._suppressed(windowed.aggregate(initial, *merged)).to_stream().to(OUTPUT)

    def _suppress_then_aggregate(self) -> None:
        self._of_table(self._table("input")).to(OUTPUT)

    def _fk_then_suppress(self) -> None:
        self._fk_join()

    def _aggregate_then_fk(self) -> None:
        left = self._of_table(self._table("left"))
        self._foreign(left, self._table("right"), self._params["type"]).to(OUTPUT)

    def _fk_chain_same(self) -> None:
        left, right = self._table("left"), self._table("right")
        first = self._foreign(left, right, self._params["type"])
        self._foreign(first, right, self._params["type2"], "fk2").to(OUTPUT)

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

    def _distinct(self) -> None:
        within = self._params["within_ms"]
        key = self._ref if self._params["by"] == "reference" else None
        lasting = None if within is None else timedelta(milliseconds=within)
        self._stream("input").distinct(key, within=lasting).to(OUTPUT)

    def _expiry(self) -> None:
        ttl, since = timedelta(milliseconds=self._params["ttl_ms"]), self._params["since"]
        self._stream("input").to_table(ttl=ttl, since=since).to(OUTPUT)

    def _rekey_stream_table(self) -> None:
        left = self._stream("left").select_key(self._ref)
        self._joined(left, self._table("right"), self._params["type"]).to(OUTPUT)


KINDS: dict[str, Callable[[Recorded], None]] = {
    **{kind: partial(Recorded._processor, kind=kind) for kind in RECORDED},
    "table_table": Recorded._table_table,
    "three_way": Recorded._three_way,
    "multi_join": Recorded._multi_join,
    "table_chain_same": Recorded._table_chain_same,
    "fk_join": Recorded._fk_join,
    "table_join_then_fk": Recorded._table_join_then_fk,
    "global_join": Recorded._global_join,
    "table_ops": Recorded._table_ops,
    "stream_table": Recorded._stream_table,
    "stream_stream": Recorded._stream_stream,
    "stream_match": Recorded._stream_stream,
    "self_join": Recorded._self_join,
    "rekey_stream_stream": Recorded._rekey_stream_stream,
    "distinct": Recorded._distinct,
    "expiry": Recorded._expiry,
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
    "cogroup": Recorded._cogroup,
    "suppress_then_aggregate": Recorded._suppress_then_aggregate,
    "fk_then_suppress": Recorded._fk_then_suppress,
    "aggregate_then_fk": Recorded._aggregate_then_fk,
    "fk_chain_same": Recorded._fk_chain_same,
    "window_then_aggregate": Recorded._window_then_aggregate,
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
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, WatersmeetError) as error:
        raise IncompleteVectorError(untold(error)) from error
    if reason is not None:
        return reason
    unknown = {step.topic for step in history.steps if step.advance_ms is None} - inputs
    if unknown:
        raise IncompleteVectorError(f"a step's input {sorted(map(str, unknown))[0]!r} is none of the topology's")
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
        raise IncompleteVectorError(f"unknown kind {history.kind!r}")
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
