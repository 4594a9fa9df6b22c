"""A stage's stateless nodes over Arrow tables: what Spark columns do in production, for the engine alone.

One function per node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.exchange import extra_column
from watersmeet._engine.keys import equal_keys
from watersmeet._engine.rows import Bools, array, array_of, bools, gather, valid
from watersmeet._plan.declaration import ResultColumns
from watersmeet._plan.nodes import (
    BranchNode,
    FilterNode,
    FlatMapNode,
    MapEachNode,
    MapHeadersNode,
    MapNode,
    MapValuesNode,
    Node,
    PeekNode,
    SelectKeyNode,
)
from watersmeet._plan.operators.aggregates import ArgumentsNode, RegroupNode
from watersmeet._plan.physical import Edge, Flow, Physical
from watersmeet.functions import record_of

Step = Callable[[Physical, Flow, pa.Table], pa.Table]


def run_flow(physical: Physical, flow: Flow, rows: pa.Table) -> pa.Table:
    """The rows of `flow`, from those of its parent."""
    node = physical.node(flow)
    step = _STEPS.get(type(node))
    result = step(flow, node, rows) if step is not None else rows
    if "silent" in flow.ends:
        result = result.filter(pc.invert(result.column("silent"))).drop_columns(["silent"])
    if "null_key" in flow.ends:
        result = result.filter(pa.array(valid(result.column("key"))))
    if "old" not in flow.columns and "old" in result.column_names:
        result = result.drop_columns(["old"])
    return result


def run_root(physical: Physical, flow: Flow, rows: pa.Table) -> pa.Table:
    """The rows of a root flow, from a source's or an operator's: a result gets its value here."""
    if flow.operator is not None:
        rows = _with_made(rows, physical.results(physical.operators[flow.operator]))
    if "null_key" in flow.ends:
        rows = rows.filter(pa.array(valid(rows.column("key"))))
    return rows


def with_extra(physical: Physical, edge: Edge, rows: pa.Table) -> pa.Table:
    """The rows with what the edge carries beside key and value, where it carries anything."""
    side = edge.reads
    if side.function is None:
        return rows
    key, value = array(rows, "key"), array(rows, "value")
    called = np.ones(len(rows), dtype=np.bool_) if side.called_for_deleted else valid(value)
    return rows.append_column(extra_column(edge), _where(called, side.function, key, value))


def _with_made(rows: pa.Table, results: ResultColumns) -> pa.Table:
    """The rows with the columns that functions make of results, in place of those that they are made of."""
    for made in results.made:
        operands = _seeing(made.function, rows, *(array(rows, name) for name in made.operands))
        value = _where(bools(rows, made.flag), made.function, *operands)
        rows = _set(rows, made.column, value)
    used = [name for name, _ in results.columns if results.made and name not in ("value", "old")]
    return rows.drop_columns(used)


def _seeing(function: Any, rows: pa.Table, *arguments: pa.Array) -> tuple[pa.Array, ...]:
    """What a function gets: the arguments, and the record of each row, where it sees that; of its place nothing."""
    kind = record_of(function)
    if kind is None:
        return arguments
    known = {name: array(rows, name) for name in ("ts", "headers") if name in rows.column_names}
    given = {"timestamp": known["ts"], "headers": known.get("headers")}
    parts = [given.get(each.name) for each in kind]
    columns = [
        pa.nulls(len(rows), each.type) if part is None else part.cast(each.type)
        for part, each in zip(parts, kind, strict=True)
    ]
    return (*arguments, pa.StructArray.from_arrays(columns, fields=list(kind)))


def _where(mask: Bools, function: Any, *arguments: pa.Array) -> pa.Array:
    """`function` of the rows that `mask` marks; null elsewhere."""
    rows = np.flatnonzero(mask)
    result = function(*(a.take(pa.array(rows)) for a in arguments))
    pointers = np.full(len(mask), -1, dtype=np.int64)
    pointers[rows] = np.arange(len(rows))
    return gather(result, pointers)


def _set(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, name, column) if at >= 0 else rows.append_column(name, column)


def _holds(node: FilterNode, *arguments: pa.Array) -> Bools:
    held = _where(np.ones(len(arguments[0]), dtype=np.bool_), node.predicate, *arguments)
    flags: Bools = held.fill_null(False).to_numpy(zero_copy_only=False)
    return ~flags if node.negate else flags


def _filter(flow: Flow, node: FilterNode, rows: pa.Table) -> pa.Table:
    key = array(rows, "key")
    if node.shape.kind == "stream":
        return rows.filter(pa.array(_holds(node, *_seeing(node.predicate, rows, key, array(rows, "value")))))
    for name in ("value", "old"):
        if name in rows.column_names:
            value = array(rows, name)
            present = valid(value)
            present[present] = _holds(node, key.filter(pa.array(present)), value.filter(pa.array(present)))
            pointers = np.where(present, np.arange(len(rows)), -1)
            rows = _set(rows, name, gather(value, pointers))
    if flow.suppress:
        kept = pc.or_(rows.column("value").is_valid(), rows.column("old").is_valid())
        if "silent" not in flow.columns:
            return rows.filter(kept)
        marked = [rows.column("silent")] if "silent" in rows.column_names else []
        rows = _set(rows, "silent", reduce(pc.or_, marked, pc.invert(kept)))
    return rows


def _map_values(flow: Flow, node: MapValuesNode | ArgumentsNode, rows: pa.Table) -> pa.Table:
    key = array(rows, "key")
    for name in ("value", "old"):
        if name in rows.column_names:
            value = array(rows, name)
            rows = _set(rows, name, _where(valid(value), node.mapper, *_seeing(node.mapper, rows, key, value)))
    return rows


def _map_each(flow: Flow, node: MapEachNode, rows: pa.Table) -> pa.Table:
    return _set(rows, "value", node.mapper(*_seeing(node.mapper, rows, array(rows, "key"), array(rows, "value"))))


def _map_headers(flow: Flow, node: MapHeadersNode, rows: pa.Table) -> pa.Table:
    return _set(rows, "headers", node.mapper(*_seeing(node.mapper, rows, array(rows, "key"), array(rows, "value"))))


def _map(flow: Flow, node: MapNode, rows: pa.Table) -> pa.Table:
    key, value = node.mapper(*_seeing(node.mapper, rows, array(rows, "key"), array(rows, "value")))
    return _set(_set(rows, "key", key), "value", value)


def _select_key(flow: Flow, node: SelectKeyNode, rows: pa.Table) -> pa.Table:
    return _set(rows, "key", node.selector(*_seeing(node.selector, rows, array(rows, "key"), array(rows, "value"))))


def _flat_map(flow: Flow, node: FlatMapNode, rows: pa.Table) -> pa.Table:
    lists = node.mapper(*_seeing(node.mapper, rows, array(rows, "key"), array(rows, "value")))
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    parents = pc.list_parent_indices(lists)
    items = pc.list_flatten(lists)
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    rows = rows.take(parents)
    rows = rows.append_column(f"index{flow.id}", pa.array(np.arange(len(items)) - starts))
    if node.values_only:
        return _set(rows, "value", items)
    key, value = items.flatten()
    return _set(_set(rows, "key", key), "value", value)


def _regroup(flow: Flow, node: RegroupNode, rows: pa.Table) -> pa.Table:
    new, old = (_grouped(node, array(rows, "key"), array(rows, name)) for name in ("value", "old"))
    stays = valid(new[0]) & valid(old[0])
    stays[stays] = equal_keys(new[0].filter(pa.array(stays)), old[0].filter(pa.array(stays)))
    key, value = new if node.half == "new" else old
    rest = gather(old[1], np.where(stays, np.arange(len(rows)), -1))
    messages = (value, rest) if node.half == "new" else (pa.nulls(len(rows), value.type), value)
    rows = _set(_set(_set(rows, "key", key), "value", messages[0]), "old", messages[1])
    return rows.filter(pa.array(valid(key) & ~(stays & (node.half == "old"))))


def _grouped(node: RegroupNode, key: pa.Array, value: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Group and grouped value of each row; both null where one is."""
    present = np.flatnonzero(valid(value))
    pair = [
        array_of(each, kind)
        for each, kind in zip(
            node.selector(key.take(pa.array(present)), value.take(pa.array(present))),
            (node.shape.key, node.shape.value),
            strict=True,
        )
    ]
    whole = valid(pair[0]) & valid(pair[1])
    pointers = np.full(len(value), -1, dtype=np.int64)
    pointers[present[whole]] = np.flatnonzero(whole)
    return gather(pair[0], pointers), gather(pair[1], pointers)


def _branch(flow: Flow, node: BranchNode, rows: pa.Table) -> pa.Table:
    key, value = array(rows, "key"), array(rows, "value")
    taken = np.ones(len(rows), dtype=np.bool_)
    for predicate in node.earlier:
        taken &= ~_true(predicate, rows, key, value)
    if node.predicate is not None:
        taken &= _true(node.predicate, rows, key, value)
    return rows.filter(pa.array(taken))


def _true(predicate: Any, rows: pa.Table, key: pa.Array, value: pa.Array) -> Bools:
    held = predicate(*_seeing(predicate, rows, key, value))
    flags: Bools = held.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _peek(flow: Flow, node: PeekNode, rows: pa.Table) -> pa.Table:
    # The action is a plain Python function: per record is what it is for.
    for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
        node.action(key, value)
    return rows


_STEPS: dict[type[Node], Any] = {
    FilterNode: _filter,
    MapValuesNode: _map_values,
    MapEachNode: _map_each,
    MapHeadersNode: _map_headers,
    MapNode: _map,
    SelectKeyNode: _select_key,
    FlatMapNode: _flat_map,
    RegroupNode: _regroup,
    ArgumentsNode: _map_values,
    BranchNode: _branch,
    PeekNode: _peek,
}
