"""Builds the oracle's topology for a recorded kind and its parameters.

Owns the meaning of every kind of history. Law: operators are built in the order in which the recorded
topology built them, since materialisation depends on it; what cannot be built is refused with a reason,
never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from proof.oracle import combinations
from proof.oracle.functions import all_plus, plus, ref
from proof.oracle.graph import MapRecord, Node, Repartition, Topology
from proof.oracle.parts import (
    Params,
    Read,
    aggregated,
    aggregator,
    cached,
    grouped,
    operations,
    stream,
    suppressed,
    table,
    window_aggregate,
)
from proof.oracle.records import Key, Value
from proof.oracle.semantics import Semantics
from proof.oracle.streams.distinct import distinct
from proof.oracle.streams.expiry import expiry
from proof.oracle.streams.self_join import SelfJoin
from proof.oracle.streams.stream_match import MatchSpec, StreamMatch
from proof.oracle.streams.stream_stream import JoinSpec, StreamStreamJoin
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.global_lookup import GlobalLookup, GlobalTable
from proof.oracle.tables.multi_join import MultiJoin
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.tables.table_table import table_table_join
from proof.oracle.vectors.untold import IncompleteVectorError
from proof.oracle.windows.aggregation import AGGREGATORS
from proof.oracle.windows.wtable_kinds import KINDS as WTABLES
from proof.oracle.windows.wtable_kinds import wtable_join


def build(kind: str, params: Params, semantics: Semantics) -> Topology:
    """The topology of a history, ready to pipe."""
    if kind not in _KINDS:
        raise IncompleteVectorError(f"unknown kind {kind!r}")
    topology = Topology(semantics, caching=params.get("cache_max_bytes", 0) > 0)
    read = Read(params)
    _KINDS[kind](topology, read)
    read.check()
    return topology


def known_kind(kind: str) -> bool:
    """Whether histories of this kind are known."""
    return kind in _KINDS


def _table_table(topology: Topology, params: Params) -> None:
    sides = table(topology, params, "left"), table(topology, params, "right")
    materialized = bool(params.get("result_materialized"))
    join: Table = table_table_join(topology, sides, params["type"], plus, materialized=materialized)
    if materialized:
        join = cached(topology, join)
    topology.sink(operations(topology, join, params.get("ops", ())))


def _three_way(topology: Topology, params: Params) -> None:
    left, right, third = (table(topology, params, topic) for topic in ("left", "right", "third"))
    first = table_table_join(topology, (left, right), params["type"], plus)
    topology.sink(table_table_join(topology, (first, third), params["type2"], plus))


def _multi_join(topology: Topology, params: Params) -> None:
    sides = [table(topology, params, topic) for topic in ("left", "right", "third")]
    topology.sink(MultiJoin(sides, params["types"], all_plus))


def _table_chain_same(topology: Topology, params: Params) -> None:
    left, right = table(topology, params, "left"), table(topology, params, "right")
    first = table_table_join(topology, (left, right), params["type"], plus)
    topology.sink(table_table_join(topology, (first, right), params["type2"], plus))


def _table_ops(topology: Topology, params: Params) -> None:
    topology.sink(operations(topology, table(topology, params, "input"), params["ops"]))


def _stream_table(topology: Topology, params: Params) -> None:
    topology.sink(stream_table(topology, params))


def stream_table(topology: Topology, params: Params) -> StreamTableJoin:
    """A stream joined with a table, which may come from a stream."""
    left = stream(topology, "left")
    if params.get("right_to_table"):
        right: Table = TableSource(topology, cached=topology.caching)
        stream(topology, "right").feed(right)
        right = operations(topology, right, params.get("right_ops", ()))
    else:
        right = table(topology, params, "right")
    return StreamTableJoin(topology, left, right, params["type"], plus, grace_ms=params.get("grace_ms"))


def join_spec(params: Params, semantics: Semantics) -> JoinSpec:
    """The window of a stream-stream join; the generations before 3.1 kept a day and knew no grace."""
    return JoinSpec(
        how=params["type"],
        before_ms=params["before_ms"],
        after_ms=params["after_ms"],
        grace_ms=params.get("grace_ms", 0),
        eager=bool(params.get("eager")),
        emit_interval_ms=params.get("emit_interval_ms", 0),
        keeps_all=semantics.eager_only,
    )


def _stream_stream(topology: Topology, params: Params) -> None:
    topology.sink(stream_stream(topology, params))


def stream_stream(topology: Topology, params: Params) -> StreamStreamJoin:
    """Two streams joined within a window."""
    sides = stream(topology, "left"), stream(topology, "right")
    return StreamStreamJoin(topology, sides, join_spec(params, topology.semantics), plus)


def _stream_match(topology: Topology, params: Params) -> None:
    lengths = params["before_ms"], params["after_ms"], params["grace_ms"]
    spec = MatchSpec(params["type"], *lengths, params["match"])
    topology.sink(StreamMatch(topology, (stream(topology, "left"), stream(topology, "right")), spec, plus))


def _self_join(topology: Topology, params: Params) -> None:
    source = stream(topology, "input")
    spec = join_spec(params, topology.semantics)
    optimised = params.get("optimization", "none") != "none" and not topology.semantics.repaired(8)
    if optimised:
        topology.sink(SelfJoin(topology, source, spec, plus))
    else:
        topology.sink(StreamStreamJoin(topology, (source, source), spec, plus))


def _fk_join(topology: Topology, params: Params) -> None:
    topology.sink(operations(topology, fk_join(topology, params), params.get("ops", ())))


def fk_join(topology: Topology, params: Params) -> Table:
    """Two tables joined on the foreign key in the left value."""
    left, right = table(topology, params, "left"), table(topology, params, "right")
    return foreign_key_join(topology, left, right, params["type"], ref, plus)


def _global_join(topology: Topology, params: Params) -> None:
    left = stream(topology, "left")
    right = GlobalTable()
    topology.source("right", right)
    topology.sink(GlobalLookup(topology, left, right, params["type"], lambda _, value: ref(value), plus))


def _stream_aggregate(topology: Topology, params: Params) -> None:
    source = stream(topology, "input")
    aggregate = aggregated(topology, source, aggregator(params))
    topology.sink(suppressed(topology, aggregate, params))


def _table_aggregate(topology: Topology, params: Params) -> None:
    aggregate = grouped(topology, table(topology, params, "input"), params)
    topology.sink(operations(topology, suppressed(topology, aggregate, params), params.get("ops", ())))


def _stream_table_count(topology: Topology, params: Params) -> None:
    topology.sink(aggregated(topology, stream_table(topology, params), AGGREGATORS["count"]))


def _stream_stream_count(topology: Topology, params: Params) -> None:
    topology.sink(aggregated(topology, stream_stream(topology, params), AGGREGATORS["count"]))


def _table_join_then_fk(topology: Topology, params: Params) -> None:
    left, right, third = (table(topology, params, topic) for topic in ("left", "right", "third"))
    joined = table_table_join(topology, (left, right), params["type"], plus)
    topology.sink(foreign_key_join(topology, joined, third, params["type2"], ref, plus))


def _fk_then_aggregate(topology: Topology, params: Params) -> None:
    topology.sink(grouped(topology, fk_join(topology, params), params))


def _aggregate_join_table(topology: Topology, params: Params) -> None:
    aggregate = aggregated(topology, stream(topology, "left"), AGGREGATORS["log"])
    right = table(topology, params, "right")
    topology.sink(table_table_join(topology, (aggregate, right), params["type"], plus))


def _rekeyed(topology: Topology, topic: str, *, null_keys: bool) -> Node:
    selected = MapRecord(stream(topology, topic), lambda record: replace(record, key=ref(record.value)))
    # With row 21 repaired there is no topic before the operator that would keep its time from a null key.
    return Repartition(topology, selected, null_keys=null_keys or topology.semantics.repaired(21))


def _rekey_count(topology: Topology, params: Params) -> None:
    topology.sink(aggregated(topology, _rekeyed(topology, "input", null_keys=False), aggregator(params)))


def _rekey_stream_stream(topology: Topology, params: Params) -> None:
    left = _rekeyed(topology, "left", null_keys=params["type"] != "inner")
    sides = left, stream(topology, "right")
    topology.sink(StreamStreamJoin(topology, sides, join_spec(params, topology.semantics), plus))


def _rekey_stream_table(topology: Topology, params: Params) -> None:
    left = _rekeyed(topology, "left", null_keys=params["type"] == "left")
    topology.sink(StreamTableJoin(topology, left, table(topology, params, "right"), params["type"], plus))


def _merge_count(topology: Topology, params: Params) -> None:
    merged = Node()
    for topic in ("left", "right"):
        stream(topology, topic).feed(merged)
    topology.sink(aggregated(topology, merged, aggregator(params)))


def _windowed_aggregate(topology: Topology, params: Params) -> None:
    aggregate: Table = window_aggregate(topology, stream(topology, "input"), params, aggregator(params))
    if params.get("emit", "update") != "close":
        aggregate = cached(topology, aggregate)
    topology.sink(suppressed(topology, aggregate, params))


def _stream_stream_window(topology: Topology, params: Params) -> None:
    window = {"window": "tumbling", "size_ms": params["size_ms"], "grace_ms": params["window_grace_ms"]}
    joined = stream_stream(topology, params)
    topology.sink(cached(topology, window_aggregate(topology, joined, window, AGGREGATORS["log"])))


def _distinct(topology: Topology, params: Params) -> None:
    topology.sink(distinct(topology, stream(topology, "input"), params["within_ms"], _KEYS[params["by"]]))


def _expiry(topology: Topology, params: Params) -> None:
    of_record = params["since"] == "record"
    table = TableSource(topology)
    expiry(topology, stream(topology, "input"), params["ttl_ms"], of_record=of_record).feed(table)
    topology.sink(table)


_KEYS: dict[str, Callable[[Value], Key] | None] = {"key": None, "reference": ref}
"""What records are told apart by."""


def _wtable(topology: Topology, params: Params, kind: str) -> None:
    def side(name: str, shape: str) -> Node:
        if shape == "table":
            return table(topology, params, name)
        source = stream(topology, name)
        return source if shape == "stream" else window_aggregate(topology, source, params, aggregator(params))

    topology.sink(wtable_join(kind, topology, params, side))


_KINDS: dict[str, Callable[[Topology, Params], None]] = {
    "table_table": _table_table,
    "three_way": _three_way,
    "multi_join": _multi_join,
    "table_chain_same": _table_chain_same,
    "table_ops": _table_ops,
    "stream_table": _stream_table,
    "stream_stream": _stream_stream,
    "stream_match": _stream_match,
    "self_join": _self_join,
    "fk_join": _fk_join,
    "global_join": _global_join,
    "stream_aggregate": _stream_aggregate,
    "table_aggregate": _table_aggregate,
    "stream_table_count": _stream_table_count,
    "stream_stream_count": _stream_stream_count,
    "table_join_then_fk": _table_join_then_fk,
    "fk_then_aggregate": _fk_then_aggregate,
    "aggregate_join_table": _aggregate_join_table,
    "rekey_count": _rekey_count,
    "rekey_stream_stream": _rekey_stream_stream,
    "distinct": _distinct,
    "expiry": _expiry,
    "rekey_stream_table": _rekey_stream_table,
    "merge_count": _merge_count,
    "windowed_aggregate": _windowed_aggregate,
    "stream_stream_window": _stream_stream_window,
    **combinations.KINDS,
    **{kind: partial(_wtable, kind=kind) for kind in WTABLES},
}
