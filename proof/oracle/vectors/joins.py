"""Vectors of joins: stream-stream, stream-table, global, table-table, foreign key; and of sets of tables.

Owns how the described joins are put together. Law: operators in the order of `params.operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from proof.oracle.functions import text
from proof.oracle.graph import MapRecord, Node, Repartition, Topology
from proof.oracle.records import Joiner, Key, Record, Value
from proof.oracle.streams.self_join import SelfJoin
from proof.oracle.streams.stream_stream import JoinSpec, StreamStreamJoin
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.global_lookup import GlobalLookup, GlobalTable, GlobalView, Lookup
from proof.oracle.tables.many_to_many import ManyToManyJoin
from proof.oracle.tables.multi_join import MultiJoin
from proof.oracle.tables.one_to_many import OneToManyJoin
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.tables.table_table import table_table_join
from proof.oracle.vectors.untold import IncompleteVectorError, described_value, join_type, predicate
from proof.oracle.vectors.vectors import (
    Builder,
    Vector,
    after_bar,
    cache,
    joiner,
    observe,
    repartitioned,
    store,
    stream_source,
    table_source,
)
from proof.oracle.vectors.windows import windowed_table_join
from proof.oracle.windows.aggregate import GroupTable, TableAggregate
from proof.oracle.windows.aggregation import Aggregator

_LARGE_MS = 1_000_000


_JOINS = (None, "table-table", "stream-table", "stream-stream", "fk-table-table")


def _operators(vector: Vector) -> list[Mapping[str, Any]]:
    operators = list(vector["params"].get("operators") or [{"type": vector["join_type"], **vector["params"]}])
    for operator in operators:
        if operator.get("op") in _JOINS:
            join_type(operator["type"])
    return operators


def window_of(vector: Vector, operator: Mapping[str, Any]) -> Mapping[str, Any]:
    """The window of one of a vector's joins, where the vector tells one."""
    if "before_ms" in operator:
        return operator
    if not str(vector["params"].get("window", "")).startswith("large enough"):
        raise IncompleteVectorError("the recording does not tell its window")
    return {**operator, "before_ms": _LARGE_MS}


def _spec(vector: Vector, operator: Mapping[str, Any], topology: Topology) -> JoinSpec:
    operator = window_of(vector, operator)
    before = operator["before_ms"]
    return JoinSpec(
        how=operator["type"],
        before_ms=before,
        after_ms=operator.get("after_ms", before),
        grace_ms=operator.get("grace_ms", 0),
        eager=not operator.get("spurious_fix", True),
        emit_interval_ms=vector["params"].get("outer_join_emit_interval_ms", 0),
        keeps_all=topology.semantics.eager_only,
    )


def _optimised(vector: Vector) -> bool:
    chosen = {variant.get("topology_optimization", "none") for variant in vector.get("variants", ())}
    return bool(chosen - {"none"}) or "topology.optimization=all" in vector.get("note", "")


def _stream_stream(topology: Topology, vector: Vector) -> None:
    specs = [_spec(vector, operator, topology) for operator in _operators(vector)]
    join = joiner(vector)
    if "both" in vector["inputs"]:
        both = stream_source(topology, "both")
        if _optimised(vector) and not topology.semantics.repaired(8):
            observe(topology, SelfJoin(topology, both, specs[0], join), vector)
        else:
            observe(topology, StreamStreamJoin(topology, (both, both), specs[0], join), vector)
        return
    left, right = (repartitioned(topology, stream_source(topology, side), vector) for side in ("left", "right"))
    for spec in specs:
        left = StreamStreamJoin(topology, (left, right), spec, join)
    observe(topology, left, vector)


def _stream_table(topology: Topology, vector: Vector) -> None:
    left = repartitioned(topology, stream_source(topology, "left"), vector)
    if "repartition()ed" in vector.get("topology_note", ""):
        right: Table = TableSource(topology)
        repartitioned(topology, stream_source(topology, "right"), vector).feed(right)
    else:
        right = table_source(topology, vector, "right", 0)
    operator = _operators(vector)[0]
    if vector.get("right") == "filter":
        right = _filtered(right, vector)
    how, grace = operator["type"], operator.get("grace_ms")
    observe(topology, StreamTableJoin(topology, left, right, how, joiner(vector), grace_ms=grace), vector)


def _filtered(parent: Table, vector: Vector, *, materialized: bool = False) -> Table:
    holds = predicate(vector)
    return TableFilter(parent, lambda _, value: holds(value), materialized=materialized)


def _second_part(_: Key, value: Value) -> Key:
    parts = str(value).split(",")
    return parts[1] if len(parts) > 1 else None


KEY_MAPPERS: dict[str, Callable[[Key, Value], Key]] = {
    "(k, v) -> v": lambda _, value: value,
    "second comma separated part of the stream value, null when absent": _second_part,
    "value itself; null when the value is null or starts with 'n'": lambda _, value: (
        None if value is None or value.startswith("n") else value
    ),
}


def _global(topology: Topology, vector: Vector) -> None:
    left = stream_source(topology, "left")
    _look_up(topology, vector, left, _global_table(topology, "right"))


def _global_view(topology: Topology, vector: Vector) -> None:
    left = stream_source(topology, "left")
    one, two = (_global_table(topology, side) for side in ("one", "two"))
    refers = _foreign_key_of(vector)
    view = GlobalView(one, two, join_type(vector["view_type"]), lambda _, value: refers(value), joiner(vector))
    _look_up(topology, vector, left, view)


def _global_table(topology: Topology, side: str) -> GlobalTable:
    table = GlobalTable()
    topology.source(side, table)
    return table


def _look_up(topology: Topology, vector: Vector, left: Node, right: Lookup) -> None:
    said = described_value(vector, "key_mapper")
    if said not in KEY_MAPPERS:
        raise IncompleteVectorError(f"unknown key mapper {said!r}")
    join = GlobalLookup(topology, left, right, join_type(vector["join_type"]), KEY_MAPPERS[said], joiner(vector))
    observe(topology, join, vector)


def _table_table(topology: Topology, vector: Vector) -> None:
    operators = _operators(vector)
    if operators[0].get("op") == "window-aggregate":
        windowed_table_join(topology, vector)
        return
    node: Table
    if "both" in vector["inputs"]:
        node = right = table_source(topology, vector, "both", 0)
        place = 1
    else:
        node, right = (table_source(topology, vector, side, place) for place, side in enumerate(("left", "right")))
        place = 2
    for operator in operators:
        materialized = bool(operator.get("materialized"))
        if operator.get("op") == "table-filter":
            node = _filtered(node, vector, materialized=materialized)
        else:
            sides = node, right
            node = table_table_join(topology, sides, operator["type"], joiner(vector), materialized=materialized)
        if materialized:
            cache(topology, node, store(vector, place))
            place += 1
    if vector.get("observes_old"):
        node.require_old(force=True)
    observe(topology, node, vector)


FOREIGN_KEYS: dict[str, Callable[[Value], Key]] = {
    "the value is the foreign key": lambda value: value,
    "value.split('|')[1]": after_bar(nulls=()),
    "value.split('|')[1], null when it is 'returnNull'": after_bar(nulls=("returnNull",)),
    "value.split('|')[1], null when absent or 'null'": after_bar(nulls=("null",)),
    "value.split(',')[0], null when empty": lambda value: value.split(",")[0] or None,
    "int(value.split('-')[0])": lambda value: int(value.split("-")[0]),
}


def _foreign_key_of(vector: Vector) -> Callable[[Value], Key]:
    said = described_value(vector, "fk_extractor")
    if said not in FOREIGN_KEYS:
        raise IncompleteVectorError(f"unknown foreign key extractor {said!r}")
    return FOREIGN_KEYS[said]


def _one_to_many(topology: Topology, vector: Vector) -> None:
    if join_type(vector["join_type"]) != "inner":
        raise IncompleteVectorError(f"no one-to-many join of type {vector['join_type']!r}")
    one, many = (table_source(topology, vector, side, place) for place, side in enumerate(("one", "many")))
    result = OneToManyJoin(topology, many, one, _foreign_key_of(vector), joiner(vector))
    named = MapRecord(result, lambda record: replace(record, key=f"{record.key.prefix}/{record.key.suffix}"))
    observe(topology, named, vector)


def _many_to_many(topology: Topology, vector: Vector) -> None:
    left, right = (table_source(topology, vector, side, place) for place, side in enumerate(("left", "right")))
    compared, how = FOREIGN_KEYS[described_value(vector, "compared")], join_type(vector["join_type"])
    result = ManyToManyJoin(topology, left, right, how, (compared, compared), joiner(vector))

    def both(record: Record) -> Record:
        return replace(record, key=f"{text(record.key.prefix)}/{text(record.key.suffix)}")

    observe(topology, MapRecord(result, both), vector)


_MEETING: tuple[str, Joiner] = ("inner", lambda left, right: left)
_ALONE: tuple[str, Joiner] = ("left", lambda left, right: left if right is None else None)
SETS: dict[str, tuple[str, Joiner]] = {
    "semi_join": _MEETING,
    "anti_join": _ALONE,
    "union": ("outer", lambda left, right: right if left is None else left),
    "intersect": _MEETING,
    "subtract": _ALONE,
}
"""Of each method that takes two tables, the join of which it is made."""


def _table_set(topology: Topology, vector: Vector) -> None:
    left = table_source(topology, vector, "left", 0)
    if vector["join_type"] == "distinct":
        observe(topology, _row_counts(topology, left, lambda value: value, shows_value=True), vector)
        return
    (how, join), right = SETS[vector["join_type"]], table_source(topology, vector, "right", 1)
    if "compared" in vector:
        compared = FOREIGN_KEYS[vector["compared"]]
        rows = _row_counts(topology, right, compared)
        observe(topology, foreign_key_join(topology, left, rows, how, compared, join), vector)
    elif "fk_extractor" in vector:
        observe(topology, foreign_key_join(topology, left, right, how, _foreign_key_of(vector), join), vector)
    else:
        observe(topology, MultiJoin((left, right), (how,), join), vector)


def _row_counts(
    topology: Topology, table: Table, function: Callable[[Value], Value], *, shows_value: bool = False
) -> Table:
    """How many rows have each value of a function, under the value; or the value in place of their number."""
    groups = GroupTable(topology, table, lambda key, value: (function(value), value))
    kept = Aggregator(list, lambda rows, row: [*rows, function(row)], lambda rows, row: rows[1:])
    counts = TableAggregate(topology, groups.topic, kept)
    return TableMapValues(counts, lambda rows: (rows[0] if shows_value else str(len(rows))) if rows else None)


def _foreign_key(topology: Topology, vector: Vector) -> None:
    left, right = (table_source(topology, vector, side, place) for place, side in enumerate(("left", "right")))
    operators = _operators(vector)
    how = operators[0]["type"]
    result = foreign_key_join(topology, left, right, how, _foreign_key_of(vector), joiner(vector))
    if len(operators) == 1:
        observe(topology, result, vector)
    elif described_value(vector, "rejoined") == "left with result":
        observe(topology, table_table_join(topology, (left, result), operators[1]["type"], joiner(vector)), vector)
    else:
        # The rejoined table goes to a topic of its own that was not recorded.
        observe(topology, result, vector)
        table_table_join(topology, (result, left), operators[1]["type"], lambda a, b: f"rejoin({text(a)},{text(b)})")


def _twice_repartitioned(topology: Topology, vector: Vector) -> None:
    if "left.repartition().repartition()" not in vector.get("topology_note", ""):
        raise IncompleteVectorError("the recording does not tell its topology")
    node: Node = stream_source(topology, "left")
    for _ in range(2):
        node = Repartition(topology, node)
    observe(topology, node, vector)


BUILDERS: dict[str, Builder] = {
    "stream-stream": _stream_stream,
    "stream-table": _stream_table,
    "stream-globaltable": _global,
    "stream-globalview": _global_view,
    "one-to-many": _one_to_many,
    "many-to-many": _many_to_many,
    "table-set": _table_set,
    "table-table": _table_table,
    "fk-table-table": _foreign_key,
    "fk-table-table+table-table": _foreign_key,
    "other": _twice_repartitioned,
}
