"""Vectors of tables: sources, filter, mapValues, and unwindowed aggregates.

Owns how the described tables are put together. Law: operators in the order of construction. Called by
`build_vector`.
"""

from __future__ import annotations

from collections.abc import Callable

from millpond.testing.oracle.aggregate import GroupTable, StreamAggregate, TableAggregate
from millpond.testing.oracle.aggregation import AGGREGATORS, Aggregator
from millpond.testing.oracle.graph import Repartition, Topology
from millpond.testing.oracle.records import Key, Value
from millpond.testing.oracle.table import Table, TableSource
from millpond.testing.oracle.table_filter import TableFilter
from millpond.testing.oracle.table_map_values import TableMapValues
from millpond.testing.oracle.topologies import NotBuildableError
from millpond.testing.oracle.vectors import (
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

Selector = Callable[[Key, Value], tuple[Key, Value]]


def _source(topology: Topology, vector: Vector) -> None:
    observe(topology, table_source(topology, vector, "input", 0), vector)


def _probe_mapper(value: Value) -> Value:
    return None if value == "n" else f"{value}!"


def _map_values(topology: Topology, vector: Vector) -> None:
    probe = vector["name"].startswith("OracleProbe")
    source = table_source(topology, vector, "input", 0) if probe else _plain_source(topology)
    for operator in vector["params"]["operators"]:
        mapper = _probe_mapper if probe else int
        node = TableMapValues(source, mapper, materialized=bool(operator.get("materialized")))
        if operator.get("materialized") and not probe:
            cache(topology, node, store(vector, 0))
        observe(topology, node, vector)


def _plain_source(topology: Topology) -> TableSource:
    source = TableSource(topology)
    topology.source("input", source)
    return source


def _predicate(_: Key, value: Value) -> bool:
    """The test's predicates: even numbers, accepted text; the probes keep what contains an x."""
    if isinstance(value, int):
        return value % 2 == 0
    return bool(value.lower() == "accept")


def _filter(topology: Topology, vector: Vector) -> None:
    probe = vector["name"].startswith("OracleProbe")
    operators = vector["params"]["operators"]
    filters = [operator for operator in operators if operator["op"] == "table-filter"]
    stored = len(vector["params"]["stores"]) - sum(bool(operator.get("materialized")) for operator in filters)
    stored -= len(operators) - len(filters)
    source = table_source(topology, vector, "input", 0) if stored > 0 else _plain_source(topology)
    predicate = (lambda _, value: "x" in value) if probe else _predicate
    nodes = [
        TableFilter(
            source,
            predicate,
            negate=operator["type"] == "filterNot",
            materialized=bool(operator.get("materialized")),
        )
        for operator in filters
    ]
    if len(operators) > len(filters):
        groups = GroupTable(topology, nodes[0], lambda key, value: (key, value))
        TableAggregate(topology, groups.topic, AGGREGATORS["reduce"])
    if any(kept["send_old_values"] for kept in vector["params"]["stores"]):
        nodes[0].require_old(force=True)
    if probe:
        observe(topology, nodes[0], vector)
    elif vector["observes_changes"]:
        observe(topology, nodes[0], vector, "proc2")
        observe(topology, source, vector, "proc1")
    else:
        for node, name in zip(nodes, sink_names(vector) * len(nodes), strict=False):
            observe(topology, node, vector, name)


def _map_then_filter(topology: Topology, vector: Vector) -> None:
    """table -> mapValues -> filter, and the table through a topic into another table; each has a sink."""
    source = _plain_source(topology)
    names = sink_names(vector)
    topology.sink(source, names[0])
    mapped = TableMapValues(source, int)
    topology.sink(mapped, names[1])
    topology.sink(TableFilter(mapped, _predicate), names[2])
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


_GROUPINGS: dict[str, tuple[Selector, Aggregator]] = {
    "testAggBasic": (lambda key, value: (key, value), AGGREGATORS["log"]),
    "testCount": (lambda _, value: (value, value), AGGREGATORS["count"]),
    "testCountWithInternalStore": (lambda _, value: (value, value), AGGREGATORS["count"]),
    "testAggRepartition": (_renamed, AGGREGATORS["log"]),
    "testRemoveOldBeforeAddNew": (lambda key, _: (key[0], key[1]), _CONCATENATE),
    "testShouldSendTransientStateWhenUpgrading": (lambda key, value: (key, value), AGGREGATORS["count"]),
    "testShouldNotSendTransientStateIfNotUpgrading": (lambda key, value: (key, value), AGGREGATORS["count"]),
    "groupByAggregate": (_by_bar, AGGREGATORS["log"]),
    "groupByReduce": (_by_bar, AGGREGATORS["reduce"]),
}


def _table_aggregate(topology: Topology, vector: Vector) -> None:
    name = vector["name"].split(".")[-1]
    if name not in _GROUPINGS:
        raise NotBuildableError(f"unknown grouping of {name!r}")
    selector, aggregator = _GROUPINGS[name]
    groups = GroupTable(topology, table_source(topology, vector, "input", 0), selector)
    aggregate: Table = TableAggregate(topology, groups.topic, aggregator)
    cache(topology, aggregate, store(vector, 1))
    observe(topology, aggregate, vector)


def _stream_aggregate(topology: Topology, vector: Vector) -> None:
    observe(topology, StreamAggregate(topology, stream_source(topology, "input"), AGGREGATORS["count"]), vector)


BUILDERS: dict[str, Builder] = {
    "table-source": _source,
    "table-mapValues": _map_values,
    "table-filter": _filter,
    "table-filter+table-aggregate": _filter,
    "table-mapValues+table-filter": _map_then_filter,
    "table-aggregate": _table_aggregate,
    "stream-aggregate": _stream_aggregate,
}
