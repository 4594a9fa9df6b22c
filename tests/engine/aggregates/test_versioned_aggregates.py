"""Aggregates with a history, whose folds delete them, beside the oracle, whatever the batches and shards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.oracle import Semantics, Topology
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS
from tests.engine.kit import PLUS, Said, by_step, driver_of, oracle_says, run
from tests.lengths import examples
from watersmeet.aggregates.user_defined import python

RESET, SET = AGGREGATORS["reset"], AGGREGATORS["set"]
"""Folds that give null: of a stream for a value that ends with 3, of a table for the last row of a group."""


def folded(function: Any) -> Any:
    return python(lambda value, aggregate: function(aggregate, value))


def resetting(builder: Any, history: int) -> Any:
    stream = builder.stream("t", key="string", value="string")
    return stream.group_by_key().aggregate(RESET.initial, folded(RESET.add), history=f"{history} ms", name="sums")


@settings(max_examples=examples(300), deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("tts"), st.sampled_from("ab"), st.sampled_from(["a1", "b2", "c3"]), st.integers(0, 80)
        ),
        max_size=40,
    ),
    cuts=st.frozensets(st.integers(0, 40)),
    shards=st.sampled_from([1, 3]),
    history=st.sampled_from([0, 5, 15, 30, 200]),
    of_table=st.booleans(),
    looked_up=st.booleans(),
)
def test_an_aggregate_that_its_fold_deletes_begins_anew_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, history: int, of_table: bool, looked_up: bool
) -> None:
    topology = Topology(Semantics(faithful=False))
    stream, source = Node(), Node()
    topology.source("s", stream)
    if of_table:
        steps = [(topic, key, None if value == "c3" else value, ts) for topic, key, value, ts in steps]
        rows = TableSource(topology)
        topology.source("t", rows)
        groups = GroupTable(topology, rows, lambda key, value: (value, key))
        aggregate: Table = TableAggregate(topology, groups.topic, SET, history_ms=history)
    else:
        topology.source("t", source)
        aggregate = StreamAggregate(topology, source, RESET, history_ms=history)
    topology.sink(StreamTableJoin(topology, stream, aggregate, "left", text.plus) if looked_up else aggregate)

    def build(builder: Any) -> Any:
        stream = builder.stream("s", key="string", value="string")
        if of_table:
            grouped = builder.table("t", key="string", value="string").group_by(lambda key, value: (value, key))
            steps = [folded(step) for step in (SET.add, SET.subtract)]
            table = grouped.aggregate(SET.initial, *steps, history=f"{history} ms")
        else:
            table = resetting(builder, history)
        return stream.left_join(table, PLUS) if looked_up else table

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@pytest.mark.parametrize("cut", range(6))
def test_what_the_history_has_passed_behind_a_deletion_is_left_out_wherever_a_batch_ends(cut: int) -> None:
    driver, got = driver_of(lambda builder: resetting(builder, 50)), Said()
    steps = [("k", "a1", 100), ("k", "c3", 100), ("j", "x", 140), ("k", "late", 20), ("k", "b2", 130)]
    for part in (steps[:cut], steps[cut:]):
        got += run(driver, *(("t", *step) for step in part))
    assert got == [("k", "0+a1", 100), ("k", None, 100), ("j", "0+x", 140), ("k", "0+b2", 130)]
    assert driver.drops[("sums", "expired_version")] == 1
