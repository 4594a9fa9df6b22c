"""Table aggregates where no recording goes: an adder that gives nothing, and the messages before 3.5."""

from __future__ import annotations

from proof.oracle import Result, Semantics, Topology
from proof.oracle.functions import plus
from proof.oracle.tables.table import TableSource
from proof.oracle.windows.aggregate import GroupTable, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator

FORGETS_X = Aggregator(
    lambda: "0",
    lambda aggregate, value: None if value == "x" else plus(aggregate, value),
    lambda aggregate, value: f"{aggregate}-{value}",
)


def grouped(aggregator: Aggregator, version: str = "4.3.0") -> Topology:
    topology = Topology(Semantics(version))
    source = TableSource(topology)
    topology.source("input", source)
    groups = GroupTable(topology, source, lambda _, value: ("all", value))
    topology.sink(TableAggregate(topology, groups.topic, aggregator))
    return topology


def test_a_subtraction_from_an_absent_aggregate_is_ignored() -> None:
    topology = grouped(FORGETS_X)
    assert topology.pipe("input", "k", "a", 1) == [Result("all", "0+a", 1)]
    assert topology.pipe("input", "k", "x", 2) == [Result("all", None, 2)]
    assert topology.pipe("input", "k", "b", 3) == [Result("all", "0+b", 3)]


def test_before_3_5_a_change_inside_a_group_shows_its_transient_state() -> None:
    current, before = grouped(AGGREGATORS["count"]), grouped(AGGREGATORS["count"], "3.4.0")
    for topology in (current, before):
        topology.pipe("input", "k", "a", 1)
    assert current.pipe("input", "k", "b", 2) == [Result("all", 1, 2)]
    assert before.pipe("input", "k", "b", 2) == [Result("all", 0, 2), Result("all", 1, 2)]
