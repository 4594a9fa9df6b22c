"""Recorded kinds in which an operator stands behind another one, and cogroup.

Owns their topologies. Law: as in `topologies`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from proof.oracle.functions import payload, plus, ref, text
from proof.oracle.graph import Topology
from proof.oracle.parts import (
    Params,
    aggregator,
    cached,
    grouped,
    operations,
    stream,
    suppressed,
    table,
    window_aggregate,
)
from proof.oracle.records import Key, Value, Windowed
from proof.oracle.streams.process import Process
from proof.oracle.streams.recorded_programs import BY_WALL, RECORDED, maker, ttl_of
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.table import Table
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator


def payload_ref(value: Value) -> str | None:
    """What the payload of a value refers to."""
    rest = None if value is None else payload(value)
    return None if rest is None else ref(rest)


FOREIGN_KEYS: dict[str, Callable[[Value], str | None]] = {"ref": ref, "payload_ref": payload_ref}


def _times(aggregate: Value, value: Value) -> str:
    return f"{text(aggregate)}*{text(value)}"


def cogrouped_folds(streams: int) -> list[Aggregator]:
    """What each cogrouped stream does to their one aggregate: adds, takes away, multiplies."""
    fold = AGGREGATORS["log"]
    assert fold.subtract is not None, "a log is taken back, too"
    return [replace(fold, add=add) for add in (fold.add, fold.subtract, _times)][:streams]


def _cogroup(topology: Topology, params: Params) -> None:
    folds = cogrouped_folds(params["streams"])
    first, *others = [(stream(topology, f"s{number}"), fold) for number, fold in enumerate(folds)]
    if "window" in params:
        topology.sink(suppressed(topology, window_aggregate(topology, first[0], params, first[1], *others), params))
    else:
        topology.sink(cached(topology, StreamAggregate(topology, *first, *others)))


def _suppress_then_aggregate(topology: Topology, params: Params) -> None:
    topology.sink(grouped(topology, table(topology, params, "input"), params))


def _joined(topology: Topology, left: Table, right: Table, params: Params, how: str, key: str) -> Table:
    foreign_key = FOREIGN_KEYS[params.get(key, "ref")]
    return foreign_key_join(topology, left, right, params[how], foreign_key, plus)


def _fk_then_suppress(topology: Topology, params: Params) -> None:
    left, right = table(topology, params, "left"), table(topology, params, "right")
    joined = _joined(topology, left, right, params, "type", "fk")
    topology.sink(operations(topology, joined, params["ops"]))


def _aggregate_then_fk(topology: Topology, params: Params) -> None:
    left = grouped(topology, table(topology, params, "left"), params)
    topology.sink(_joined(topology, left, table(topology, params, "right"), params, "type", "fk"))


def _fk_chain_same(topology: Topology, params: Params) -> None:
    left, right = table(topology, params, "left"), table(topology, params, "right")
    first = _joined(topology, left, right, params, "type", "fk")
    topology.sink(_joined(topology, first, right, params, "type2", "fk2"))


def _group_by_key(key: Windowed, value: Value) -> tuple[Key, Value]:
    return key.key, value


def _group_by_start(key: Windowed, value: Value) -> tuple[Key, Value]:
    return str(key.start), value


GROUPS = {"key": _group_by_key, "start": _group_by_start}


def _window_then_aggregate(topology: Topology, params: Params) -> None:
    windows = window_aggregate(topology, stream(topology, "input"), params, AGGREGATORS["log"])
    groups = GroupTable(topology, suppressed(topology, windows, params), GROUPS[params.get("group", "key")])
    topology.sink(cached(topology, TableAggregate(topology, groups.topic, aggregator(params))))


def _processor(topology: Topology, params: Params, *, kind: str) -> None:
    made, ttl = maker(kind, params), ttl_of(kind, params)
    stores = {name: (of, ttl) for name, (of, _, _) in RECORDED[kind][0].stores.items()}
    timers, by_wall = hasattr(RECORDED[kind][0], "on_timer"), kind in BY_WALL
    topology.sink(Process(topology, stream(topology, "input"), made, stores, timers=timers, wall_timers=by_wall))


KINDS: dict[str, Callable[[Topology, Params], None]] = {
    **{kind: partial(_processor, kind=kind) for kind in RECORDED},
    "cogroup": _cogroup,
    "suppress_then_aggregate": _suppress_then_aggregate,
    "fk_then_suppress": _fk_then_suppress,
    "aggregate_then_fk": _aggregate_then_fk,
    "fk_chain_same": _fk_chain_same,
    "window_then_aggregate": _window_then_aggregate,
}
