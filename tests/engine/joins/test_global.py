"""Joins with global tables: of streams and of tables; what drives them, what they keep, the oracle beside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.tables.global_lookup import GlobalLookup, GlobalTable, GlobalTableLookup
from tests.engine.joins.test_foreign_key import HOW, SHARDS, histories
from tests.engine.kit import (
    PLUS,
    REF,
    Said,
    Step,
    by_step,
    driver_of,
    oracle_says,
    oracle_tables,
    run,
    tables,
)
from tests.lengths import examples
from watersmeet._engine.exchange import Clock, Outlet, stamp_sources
from watersmeet.errors import TopologyError


def looked_up(how: str = "inner", shards: int = 3, *, of: str = "stream", joiner: Any = PLUS) -> EngineDriver:
    """A stream, or a table, joined with a global table by the text before the bar."""

    def build(builder: Any) -> Any:
        right = builder.global_table("global", key="string", value="string")
        left = getattr(builder, of)("left", key="string", value="string")
        method = left.join if how == "inner" else left.left_join
        return method(right, joiner, **{"key" if of == "stream" else "foreign_key": REF})

    return driver_of(build, shards=shards)


def test_only_the_stream_drives_the_join() -> None:
    driver = looked_up()
    steps: list[Step] = [
        ("left", "k", "p|1", 5),
        ("global", "p", "P", 1),
        ("left", "l", "p|2", 3),
        ("global", "p", None, 9),
    ]
    assert run(driver, *steps, ("left", "m", "p|3", 10)) == [("l", "p|2+P", 3)]


def test_a_left_join_keeps_every_record_with_a_value() -> None:
    driver = looked_up("left")
    steps: list[Step] = [
        ("left", None, "p|1", 1),
        ("left", "k", "2", 2),
        ("left", None, "3", 3),
        ("left", "k", None, 4),
    ]
    assert run(driver, ("global", "p", "P", 0), *steps) == [
        (None, "p|1+P", 1),
        ("k", "2+null", 2),
        (None, "3+null", 3),
    ]
    assert driver.drops[("global_lookup-left-global", "null_value")] == 1


def test_an_inner_join_needs_no_key_but_a_mapped_one() -> None:
    driver = looked_up()
    steps: list[Step] = [
        ("global", None, "x", 0),
        ("global", "p", "P", 0),
        ("left", None, "p|1", 1),
        ("left", "k", "2", 2),
    ]
    assert run(driver, *steps) == [(None, "p|1+P", 1)]
    assert driver.drops[("global_lookup-left-global", "null_key")] == 1
    assert driver.drops[("global", "null_key")] == 1


@pytest.mark.parametrize(("shards", "tasks"), [(1, 1), (5, 3)])
def test_every_task_has_the_whole_table_once(shards: int, tasks: int) -> None:
    driver = looked_up(shards=shards)
    run(driver, *(("global", f"p{n}", f"P{n}", 0) for n in range(50)))
    assert driver.rows_in_stores() == 50 * tasks
    steps = [("left", f"k{n}", f"p{n % 50}|{n}", n) for n in range(500)]
    assert run(driver, *steps) == [(k, f"{v}+P{n % 50}", n) for n, (_, k, v, _) in enumerate(steps)]
    run(driver, *(("global", f"p{n}", None, 0) for n in range(50)))
    assert driver.rows_in_stores() == 0


def test_the_joiner_may_take_both_keys() -> None:
    def joiner(key: pa.Array, mapped: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(key, mapped, left, right, " ")

    def with_key(key: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(key, left, right, " ")

    steps: list[Step] = [("global", "p", "P", 0), ("left", "k", "p|1", 1)]
    assert run(looked_up(joiner=joiner), *steps) == [("k", "k p p|1 P", 1)]
    assert run(looked_up(joiner=with_key), *steps) == [("k", "k p|1 P", 1)]


def test_joins_with_two_global_tables_follow_one_another() -> None:
    def build(builder: Any) -> Any:
        first, second = (builder.global_table(n, key="string", value="string") for n in ("one", "two"))
        stream = builder.stream("left", key="string", value="string")
        return stream.join(first, PLUS, key=REF).left_join(second, PLUS, key=REF)

    steps: list[Step] = [
        ("one", "p", "P", 0),
        ("two", "p", "Q", 0),
        ("left", "k", "p|1", 1),
        ("left", "l", "q|1", 1),
    ]
    assert run(driver_of(build), *steps) == [("k", "p|1+P+Q", 1)]


def test_what_does_not_fit_is_refused() -> None:
    builder = arrow_builder("test")
    right = builder.global_table("global", key="long", value="string")
    left = builder.stream("left", key="string", value="string")
    (table,) = tables(builder, "table")
    with pytest.raises(TopologyError, match="needs the key to look up"):
        left.join(right, PLUS)
    with pytest.raises(TopologyError, match="returns another type"):
        left.join(right, PLUS, key=REF)
    with pytest.raises(TopologyError, match="the table 'table' takes no key: key="):
        left.join(table, PLUS, key=REF)
    with pytest.raises(TopologyError, match="has no outer form"):
        table.outer_join(right, PLUS)
    old = arrow_builder("test", generation="old")
    stream = old.stream("left", key="string", value="string")
    copy = old.global_table("global", key="string", value="string")
    with pytest.raises(TopologyError, match="have no global tables"):
        stream.join(copy, PLUS, key=REF)


def test_in_production_a_global_table_stands_before_everything_and_moves_no_time() -> None:
    frame = pa.table(
        {
            "root": [0, 1, 0, 1],
            "partition": [0, 0, 0, 0],
            "offset": [0, 0, 1, 1],
            "ts": [7, 99, 5, 1],
            "key": ["a", "b", "c", "d"],
            "value": ["1", "2", "3", "4"],
        }
    )
    outlet = Outlet("join", 0, 0, "key", "value")
    stamped = stamp_sources(frame, [outlet], Clock(), 1, first=(1,))
    first = int(np.iinfo(np.int64).min)
    assert stamped.column("order_ts").to_pylist() == [7, first, 7, first]


def test_a_snapshot_stands_behind_global_tables_and_before_all_records_and_moves_no_time() -> None:
    frame = pa.table(
        {"root": [0, 0], "partition": [0, 0], "offset": [0, 1], "ts": [99, 0], "key": ["a", "b"], "value": ["1", "2"]}
    )
    outlet, clock = Outlet("join", 0, 0, "key", "value"), Clock()
    stamped = stamp_sources(frame, [outlet], clock, 1, snapshot=True)
    assert stamped.column("order_ts").to_pylist() == [-1, -1]
    assert stamp_sources(frame, [outlet], clock, 1).column("order_ts").to_pylist() == [99, 99]


# -- beside the oracle ---------------------------------------------------------------------------------------


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left", "global")), how=HOW, shards=SHARDS, null_keys=st.sets(st.integers(0, 29)))
def test_a_stream_is_joined_as_the_oracle_joins_it(
    history: tuple[list[Step], set[int]], how: str, shards: int, null_keys: set[int]
) -> None:
    steps, cuts = history
    steps = [(t, None if n in null_keys else k, v, ts) for n, (t, k, v, ts) in enumerate(steps)]
    topology, _ = oracle_tables()
    left, right = Node(), GlobalTable()
    topology.source("left", left)
    topology.source("global", right)
    topology.sink(GlobalLookup(topology, left, right, how, lambda _, value: text.ref(value), text.plus))
    assert by_step(looked_up(how, shards), steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left", "global")), how=HOW, shards=SHARDS)
def test_a_table_is_joined_as_the_oracle_joins_it(history: tuple[list[Step], set[int]], how: str, shards: int) -> None:
    steps, cuts = history
    topology, (left,) = oracle_tables("left")
    right = GlobalTable()
    topology.source("global", right)
    topology.sink(GlobalTableLookup(topology, left, right, how, lambda _, value: text.ref(value), text.plus))
    said: list[Said] = by_step(looked_up(how, shards, of="table"), steps, cuts)
    assert said == oracle_says(topology, steps)


def test_deleted_rows_of_a_table_leave_only_the_copy_of_the_global_one() -> None:
    driver = looked_up("left", shards=2, of="table")
    run(driver, ("global", "p", "P", 0), *(("left", f"k{n}", "p|1", 1) for n in range(200)))
    run(driver, *(("left", f"k{n}", None, 2) for n in range(200)))
    assert driver.rows_in_stores() == 1


@pytest.mark.parametrize("of_table", [True, False], ids=["of a table", "of a stream"])
def test_a_left_join_takes_records_without_a_key_through_a_repartition_where_it_is_one_of_a_stream(
    of_table: bool,
) -> None:
    def build(builder: Any) -> None:
        other = builder.global_table("global", key="string", value="string")
        stream = builder.stream("in", key="string", value="string").repartition()
        stream.to("out")
        left = stream.group_by_key().count().map_values(lambda n: pc.cast(n, pa.string())) if of_table else stream
        left.left_join(other, PLUS, **{"foreign_key" if of_table else "key": REF}).to("joined")

    said = run(driver_of(build), ("in", None, "a|1", 0), ("in", "k", "b|2", 1))
    assert [key for key, _, _ in said] == (["k"] if of_table else [None, "k"])
