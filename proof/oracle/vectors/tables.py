"""Vectors of tables: sources, filter, mapValues, and unwindowed aggregates.

Owns how the described tables are put together. Law: operators in the order of construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proof.oracle.graph import Repartition, Topology
from proof.oracle.records import Key, Value
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.vectors.untold import IncompleteVectorError, described_value, mapper, predicate
from proof.oracle.vectors.vectors import (
    Builder,
    Vector,
    after_bar,
    cache,
    observe,
    sink_names,
    store,
    stream_source,
    table_source,
)
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator

Selector = Callable[[Key, Value], tuple[Key, Value]]


def _source(topology: Topology, vector: Vector) -> None:
    observe(topology, table_source(topology, vector, "input", 0), vector)


def _map_values(topology: Topology, vector: Vector) -> None:
    function, _ = mapper(vector)
    stores = _stores(vector)
    source = table_source(topology, vector, "input", 0) if _source_is_stored(vector) else _plain_source(topology)
    for operator in described_value(vector["params"], "operators"):
        node = TableMapValues(source, function, materialized=bool(operator.get("materialized")))
        if operator.get("materialized") and stores:
            cache(topology, node, stores[-1])
        observe(topology, node, vector)


def _stores(vector: Vector) -> Sequence[Mapping[str, Any]]:
    stores: Sequence[Mapping[str, Any]] = vector["params"].get("stores", ())
    return stores


def _source_is_stored(vector: Vector) -> bool:
    """Whether there is a store more than the operators have."""
    operators = vector["params"]["operators"]
    own = [o for o in operators if o.get("materialized") or o["op"] == "table-aggregate"]
    return len(_stores(vector)) > len(own)


def _plain_source(topology: Topology) -> TableSource:
    source = TableSource(topology)
    topology.source("input", source)
    return source


def _filter(topology: Topology, vector: Vector) -> None:
    operators = described_value(vector["params"], "operators")
    filters = [operator for operator in operators if operator["op"] == "table-filter"]
    source = table_source(topology, vector, "input", 0) if _source_is_stored(vector) else _plain_source(topology)
    holds = predicate(vector)
    nodes = [
        TableFilter(
            source,
            lambda _, value: holds(value),
            negate=operator["type"] == "filterNot",
            materialized=bool(operator.get("materialized")),
        )
        for operator in filters
    ]
    if len(operators) > len(filters):
        groups = GroupTable(topology, nodes[0], lambda key, value: (key, value))
        TableAggregate(topology, groups.topic, AGGREGATORS["reduce"])
    if any(kept["send_old_values"] for kept in _stores(vector)):
        nodes[0].require_old(force=True)
    if vector["observes_changes"]:
        observe(topology, nodes[0], vector, "proc2")
        observe(topology, source, vector, "proc1")
    else:
        for node, name in zip(nodes, sink_names(vector) * len(nodes), strict=False):
            observe(topology, node, vector, name)


def _map_then_filter(topology: Topology, vector: Vector) -> None:
    """table -> mapValues -> filter, and the table through a topic into another table; each has a sink."""
    described_value(vector, "shape")
    source = _plain_source(topology)
    names = sink_names(vector)
    topology.sink(source, names[0])
    (function, _), holds = mapper(vector), predicate(vector)
    mapped = TableMapValues(source, function)
    topology.sink(mapped, names[1])
    topology.sink(TableFilter(mapped, lambda _, value: holds(value)), names[2])
    again = TableSource(topology)
    Repartition(topology, source, null_keys=True).feed(again)
    topology.sink(again, names[3])


def _without(aggregate: Value, value: Value) -> Value:
    return aggregate.replace(value, "")


_CONCATENATE = Aggregator(lambda: "", lambda aggregate, value: aggregate + value, _without)


def _by_bar(_: Key, value: Value) -> tuple[Key, Value]:
    return after_bar(nulls=("null",))(value), str(value).split("|")[0]


def _renamed(key: Key, value: Value) -> tuple[Key, Value]:
    return (None if key in ("null", "NULL") else value), value


def _same(key: Key, value: Value) -> tuple[Key, Value]:
    return key, value


def _by_value(_: Key, value: Value) -> tuple[Key, Value]:
    return value, value


def _first_two(key: Key, _: Value) -> tuple[Key, Value]:
    return key[0], key[1]


_LOG = 'aggregate init "0", adder agg+"+"+v, subtractor agg+"-"+v'
_RENAMED = 'groupBy: key "null" -> (null, v); key "NULL" -> no pair at all; any other key -> (v, v)'
_GROUPINGS: dict[str, tuple[Selector, Aggregator]] = {
    f"groupBy((k,v) -> (k, v)); {_LOG}": (_same, AGGREGATORS["log"]),
    "groupBy((k,v) -> (k, v)); count()": (_same, AGGREGATORS["count"]),
    "groupBy((k,v) -> (k, v)); count(); values are empty strings": (_same, AGGREGATORS["count"]),
    "groupBy((k,v) -> (v, v)); count()": (_by_value, AGGREGATORS["count"]),
    f"{_RENAMED}; {_LOG}": (_renamed, AGGREGATORS["log"]),
    'groupBy((k,v) -> (k[0], k[1])); init "", adder agg+v, subtractor agg with every v removed': (
        _first_two,
        _CONCATENATE,
    ),
}


def grouping(vector: Vector) -> tuple[Selector, Aggregator]:
    """Selector and aggregate of a grouped table.

    Raises
    ------
    NotToldError : the vector does not tell them.
    """
    said = described_value(vector, "grouping")
    if said == "probe":
        return _by_bar, fold_of(vector)
    if said not in _GROUPINGS:
        raise IncompleteVectorError(f"unknown grouping {said!r}")
    return _GROUPINGS[said]


def _table_aggregate(topology: Topology, vector: Vector) -> None:
    selector, aggregator = grouping(vector)
    groups = GroupTable(topology, table_source(topology, vector, "input", 0), selector)
    aggregate: Table = TableAggregate(topology, groups.topic, aggregator)
    cache(topology, aggregate, store(vector, 1))
    observe(topology, aggregate, vector)


def _stream_aggregate(topology: Topology, vector: Vector) -> None:
    fold = fold_of(vector, "count")
    observe(topology, StreamAggregate(topology, stream_source(topology, "input"), fold), vector)


def fold_of(vector: Vector, default: str | None = None) -> Aggregator:
    """The fold that a vector's first operator names; `default` where there is none."""
    operators = vector["params"].get("operators") or ([{"type": default}] if default else [])
    kind = described_value({"operators": operators}, "operators")[0]["type"]
    return AGGREGATORS["log" if kind == "aggregate" else kind]


BUILDERS: dict[str, Builder] = {
    "table-source": _source,
    "table-mapValues": _map_values,
    "table-filter": _filter,
    "table-filter+table-aggregate": _filter,
    "table-mapValues+table-filter": _map_then_filter,
    "table-aggregate": _table_aggregate,
    "stream-aggregate": _stream_aggregate,
}
