"""Global tables beside tables (KIP-99, in no release): driven by the table alone; and views of two."""

from __future__ import annotations

from proof.oracle import Result, Semantics, Topology
from proof.oracle.functions import plus, ref
from proof.oracle.graph import Node
from proof.oracle.tables.global_lookup import (
    GlobalLookup,
    GlobalTable,
    GlobalTableLookup,
    GlobalView,
)
from proof.oracle.tables.table import TableSource


def table_with_global(how: str) -> Topology:
    topology = Topology(Semantics())
    left, right = TableSource(topology), GlobalTable()
    topology.source("left", left)
    topology.source("global", right)
    topology.sink(GlobalTableLookup(topology, left, right, how, lambda _, value: ref(value), plus))
    return topology


STEPS = [
    ("left", "k", "p|a", 1),
    ("global", "p", "P", 2),
    ("left", "k", "p|b", 3),
    ("global", "p", None, 4),
    ("left", "k", "p|c", 5),
    ("left", "k", None, 6),
    ("left", "k", None, 7),
]


def test_an_inner_result_ends_only_when_the_table_changes() -> None:
    topology = table_with_global("inner")
    assert [topology.pipe(*step) for step in STEPS] == [
        [],
        [],
        [Result("k", "p|b+P", 3)],
        [],
        [Result("k", None, 5)],
        [],
        [],
    ]


def test_a_left_result_stands_while_the_row_stands() -> None:
    topology = table_with_global("left")
    assert [topology.pipe(*step) for step in STEPS] == [
        [Result("k", "p|a+null", 1)],
        [],
        [Result("k", "p|b+P", 3)],
        [],
        [Result("k", "p|c+null", 5)],
        [Result("k", None, 6)],
        [],
    ]


def test_a_view_of_two_global_tables_is_resolved_at_each_lookup() -> None:
    topology = Topology(Semantics())
    stream, first, second = Node(), GlobalTable(), GlobalTable()
    for topic, node in (("stream", stream), ("first", first), ("second", second)):
        topology.source(topic, node)
    view = GlobalView(first, second, "inner", lambda _, value: ref(value), plus)
    topology.sink(GlobalLookup(topology, stream, view, "inner", lambda _, value: value, plus))
    topology.pipe("first", "p", "q|1", 0)
    assert topology.pipe("stream", "k", "p", 5) == []
    assert topology.pipe("second", "q", "Q", 0) == []
    assert topology.pipe("stream", "k", "p", 6) == [Result("k", "p+q|1+Q", 6)]
