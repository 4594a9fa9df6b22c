"""Tables that remember their past, beside the oracle, whatever the batches and shards (KIP-889, KIP-914, KIP-923)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.tables.table_table import TableTableJoin
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS
from tests.engine.kit import LIBRARY, PLUS, REF, by_step, driver_of, oracle_says, run
from tests.lengths import examples
from watersmeet._plan.explain import functions_in_state
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import TopologyError

KEYS = st.sampled_from(["a", "b", "ab", None])
VALUES = st.sampled_from(["a|1", "b|2", "a|3", "b|4", "none", None])
CUTS = st.frozensets(st.integers(0, 40))
EVEN = LIBRARY.lift(lambda value: text.even(None, value), "boolean")
MAPPED = LIBRARY.lift(text.mapped, "string")
JOINS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def steps(*topics: str, most: int = 40) -> Any:
    return st.lists(st.tuples(st.sampled_from(topics), KEYS, VALUES, st.integers(0, 80)), max_size=most)


def table_of(topology: Topology, name: str, history: int | None) -> TableSource:
    source = TableSource(topology, history_ms=history)
    topology.source(name, source)
    return source


def derived(table: Any, derive: str) -> Any:
    """What a table becomes on its way into a join: ours."""
    if derive == "filter":
        return table.filter(EVEN)
    return table.map_values(MAPPED) if derive == "map_values" else table


def derived_node(table: Table, derive: str) -> Table:
    """The same of the oracle."""
    if derive == "filter":
        return TableFilter(table, text.even)
    return TableMapValues(table, text.mapped) if derive == "map_values" else table


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=steps("s", "t"),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    how=st.sampled_from(["inner", "left"]),
    history=st.sampled_from([0, 5, 30, 200]),
    derive=st.sampled_from(["", "filter", "map_values"]),
    observed=st.booleans(),
)
def test_a_stream_finds_what_was_valid_at_its_own_time_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, how: str, history: int, derive: str, observed: bool
) -> None:
    topology = Topology(Semantics(faithful=False))
    stream = Node()
    topology.source("s", stream)
    table = table_of(topology, "t", history)
    topology.sink(StreamTableJoin(topology, stream, derived_node(table, derive), how, text.plus))

    def build(builder: Any) -> Any:
        stream = builder.stream("s", key="string", value="string")
        table = builder.table("t", key="string", value="string", history=f"{history} ms")
        if observed:  # it is an operator of its own then
            table.to("changes")
        return getattr(stream, JOINS[how])(derived(table, derive), PLUS)

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=steps("s", "t"),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    how=st.sampled_from(["inner", "left"]),
    grace=st.sampled_from([0, 1, 7, 30]),
    history=st.sampled_from([30, 200]),
)
def test_records_are_held_back_for_the_grace_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, how: str, grace: int, history: int
) -> None:
    topology = Topology(Semantics(faithful=False))
    stream = Node()
    topology.source("s", stream)
    table = table_of(topology, "t", history)
    topology.sink(StreamTableJoin(topology, stream, table, how, text.plus, grace_ms=grace))

    def build(builder: Any) -> Any:
        stream = builder.stream("s", key="string", value="string")
        table = builder.table("t", key="string", value="string", history=f"{history} ms")
        return getattr(stream, JOINS[how])(table, PLUS, grace=f"{grace} ms")

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(
    steps=steps("l", "r"),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    how=st.sampled_from(["inner", "left", "outer"]),
    histories=st.tuples(*[st.sampled_from([None, 0, 20, 200])] * 2),
    derive=st.sampled_from(["", "filter", "map_values"]),
)
def test_joins_of_tables_leave_out_what_is_not_the_latest_of_a_versioned_side(
    steps: Any, cuts: Any, shards: int, how: str, histories: Any, derive: str
) -> None:
    topology = Topology(Semantics(faithful=False))
    left, right = (table_of(topology, name, history) for name, history in zip("lr", histories, strict=True))
    topology.sink(TableTableJoin(topology, (derived_node(left, derive), right), how, text.plus))

    def build(builder: Any) -> Any:
        kept = [None if history is None else f"{history} ms" for history in histories]
        left, right = (
            builder.table(name, key="string", value="string", history=history)
            for name, history in zip("lr", kept, strict=True)
        )
        return getattr(derived(left, derive), JOINS[how])(right, PLUS)

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(
    steps=steps("l", "r"),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    how=st.sampled_from(["inner", "left"]),
    histories=st.tuples(*[st.sampled_from([None, 0, 20, 200])] * 2),
)
def test_foreign_key_joins_leave_out_what_is_not_the_latest_of_a_versioned_side(
    steps: Any, cuts: Any, shards: int, how: str, histories: Any
) -> None:
    topology = Topology(Semantics(faithful=False))
    left, right = (table_of(topology, name, history) for name, history in zip("lr", histories, strict=True))
    topology.sink(foreign_key_join(topology, left, right, how, text.ref, text.plus))

    def build(builder: Any) -> Any:
        kept = [None if history is None else f"{history} ms" for history in histories]
        left, right = (
            builder.table(name, key="string", value="string", history=history)
            for name, history in zip("lr", kept, strict=True)
        )
        return getattr(left, JOINS[how])(right, PLUS, foreign_key=REF)

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(steps=steps("t"), cuts=CUTS, shards=st.sampled_from([1, 3]), history=st.sampled_from([0, 20, 200]))
def test_groups_of_a_versioned_table_leave_out_what_is_not_the_latest(
    steps: Any, cuts: Any, shards: int, history: int
) -> None:
    topology = Topology(Semantics(faithful=False))
    table = table_of(topology, "t", history)
    groups = GroupTable(topology, table, lambda _, value: (text.ref(value), text.payload(value)))
    topology.sink(TableAggregate(topology, groups.topic, AGGREGATORS["count"]))
    payload = LIBRARY.lift(text.payload, "string")

    def build(builder: Any) -> Any:
        table = builder.table("t", key="string", value="string", history=f"{history} ms")
        return table.group_by(lambda _, value: (REF(value), payload(value))).count()

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=steps("s", "t"),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    history=st.sampled_from([0, 5, 30, 200]),
    of_table=st.booleans(),
    looked_up=st.booleans(),
)
def test_an_aggregate_remembers_its_past_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, history: int, of_table: bool, looked_up: bool
) -> None:
    topology = Topology(Semantics(faithful=False))
    stream, source = Node(), Node()
    topology.source("s", stream)
    fold = AGGREGATORS["log"]
    if of_table:
        groups = GroupTable(topology, table_of(topology, "t", None), lambda key, value: (key, value))
        aggregate: Table = TableAggregate(topology, groups.topic, fold, history_ms=history)
    else:
        topology.source("t", source)
        aggregate = StreamAggregate(topology, source, fold, history_ms=history)
    topology.sink(StreamTableJoin(topology, stream, aggregate, "left", text.plus) if looked_up else aggregate)
    add, subtract = (python(lambda value, total, f=f: f(total, value)) for f in (fold.add, fold.subtract))

    def build(builder: Any) -> Any:
        stream = builder.stream("s", key="string", value="string")
        kept = {"history": f"{history} ms"}
        if of_table:
            grouped = builder.table("t", key="string", value="string").group_by(lambda key, value: (key, value))
            table = grouped.aggregate(fold.initial, add, subtract, **kept)
        else:
            table = (
                builder.stream("t", key="string", value="string").group_by_key().aggregate(fold.initial, add, **kept)
            )
        return stream.left_join(table, PLUS) if looked_up else table

    driver = driver_of(build, shards=shards)
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


def test_a_record_that_an_aggregates_history_has_passed_is_not_counted_in() -> None:
    def build(builder: Any) -> Any:
        return builder.stream("t", key="string", value="string").group_by_key().count(history="50 ms", name="count")

    driver = driver_of(build)
    got = run(driver, ("t", "k", "x", 10), ("t", "j", "x", 100), ("t", "k", "late", 49), ("t", "k", "x", 50))
    assert got == [("k", 1, 10), ("j", 1, 100), ("k", 2, 50)]
    # its aggregate is younger than the history, so a late record counts
    assert run(driver, ("t", "k", "late", 20)) == [("k", 3, 50)]
    assert driver.drops[("count", "expired_version")] == 1


def stream_and_table(history: str, **options: Any) -> Any:
    """A left join of the stream "s" with the versioned table "t"."""

    def build(builder: Any) -> Any:
        stream = builder.stream("s", key="string", value="string")
        table = builder.table("t", key="string", value="string", history=history)
        return stream.left_join(table, PLUS, **options)

    return driver_of(build)


def test_a_change_older_than_the_history_is_dropped_and_counted_and_changes_nothing() -> None:
    driver = stream_and_table("50 ms")
    run(driver, ("t", "k", "A", 10), ("t", "j", "B", 100))
    assert run(driver, ("t", "k", "late", 49), ("t", "k", "in time", 50), ("s", "k", "x", 49)) == [("k", "x+null", 49)]
    assert run(driver, ("s", "k", "x", 50), ("s", "k", "x", 300)) == [("k", "x+in time", 50), ("k", "x+in time", 300)]
    assert driver.drops[("stream_table-s-t", "expired_version")] == 1


def test_out_of_reach_of_the_history_the_latest_value_alone_is_found() -> None:
    driver = stream_and_table("50 ms")
    got = run(driver, ("t", "k", "A", 10), ("t", "j", "B", 10), ("t", "j", "C", 200), ("s", "k", "x", 12))
    assert got + run(driver, ("s", "j", "x", 12)) == [("k", "x+A", 12), ("j", "x+null", 12)]


def test_held_back_records_are_released_in_the_order_of_their_timestamps_and_keys() -> None:
    driver = stream_and_table("50 ms", grace="10 ms")
    assert run(driver, ("s", "b", "2", 5), ("s", "a", "1", 5), ("s", "c", "0", 3), ("t", "a", "A", 4)) == []
    assert run(driver, ("s", "z", "9", 15)) == [("c", "0+null", 3), ("a", "1+A", 5), ("b", "2+null", 5)]
    # later than the grace: joined at once
    assert run(driver, ("s", "a", "3", 4)) == [("a", "3+A", 4)]


@pytest.mark.parametrize("cut", range(6))
def test_what_a_grace_lets_go_sees_what_came_before_the_record_that_moves_time_wherever_a_batch_ends(cut: int) -> None:
    builder = arrow_builder("grace")
    table = builder.table("t", key="string", value="string", history="1 minute")
    builder.stream("s", key="string", value="string").join(table, PLUS, grace="500 ms").to("out")
    driver = EngineDriver(builder.build(), shards=2, partitioned=True)
    steps = [("t", "k", "old", 0), ("s", "k", "s", 100), ("t", "else", "x", 700), ("t", "k", "new", 50)]
    for number, (topic, key, value, ts) in enumerate([*steps, ("s", "else", "end", 1000)]):
        if number == cut:
            driver.run_batch()
        driver.pipe(topic, key, value, ts=ts)
    driver.run_batch()
    assert [(r.key, r.value, r.ts) for r in driver.read("out")] == [("k", "s+new", 100)]


def test_changes_of_the_table_do_not_move_the_time_of_a_grace() -> None:
    driver = stream_and_table("50 ms", grace="10 ms")
    assert run(driver, ("s", "a", "1", 5), ("t", "a", "far ahead", 5_000)) == []
    assert run(driver, ("s", "a", "2", 15)) == [("a", "1+null", 5)]


def test_a_tombstone_at_the_timestamp_of_the_latest_value_is_remembered() -> None:
    driver = stream_and_table("1 second")
    run(driver, ("t", "k", "A", 10), ("t", "k", None, 10))
    assert run(driver, ("t", "k", "B", 5), ("s", "k", "x", 7), ("s", "k", "y", 11)) == [
        ("k", "x+B", 7),
        ("k", "y+null", 11),
    ]


def test_changes_that_are_not_the_latest_are_counted_where_they_end() -> None:
    def build(builder: Any) -> Any:
        left = builder.table("l", key="string", value="string", history="1 second")
        return left.join(builder.table("r", key="string", value="string"), PLUS, name="joined")

    driver = driver_of(build)
    run(driver, ("l", "k", "B", 20), ("r", "k", "x", 0), ("l", "k", "A", 10))
    assert driver.drops[("joined", "out_of_order")] == 1
    # one of the latest timestamp takes its place
    assert run(driver, ("l", "k", "C", 20)) == [("k", "C+x", 20)]
    assert driver.drops[("joined", "out_of_order")] == 1


def test_a_stream_of_a_versioned_table_has_its_late_changes_too_but_none_beyond_the_history() -> None:
    driver = driver_of(lambda builder: builder.table("t", key="string", value="string", history="50 ms"))
    got = run(driver, ("t", "k", "B", 80), ("t", "k", "A", 40), ("t", "k", "lost", 29), ("t", "k", None, 30))
    assert got == [("k", "B", 80), ("k", "A", 40), ("k", None, 30)]
    assert driver.drops[("t", "expired_version")] == 1


def test_a_table_made_of_a_stream_remembers_its_past_too() -> None:
    def build(builder: Any) -> Any:
        changes = builder.stream("t", key="string", value="string").select_key(REF)
        stream = builder.stream("s", key="string", value="string")
        return stream.join(changes.to_table(history="1 second"), PLUS)

    got = run(driver_of(build), ("t", "x", "a|1", 10), ("t", "y", "a|2", 30), ("s", "a", "v", 20), ("s", "a", "v", 40))
    assert got == [("a", "v+a|1", 20), ("a", "v+a|2", 40)]


def test_a_store_of_a_filter_ends_the_past() -> None:
    def build(builder: Any) -> Any:
        table = builder.table("t", key="string", value="string", history="1 second").filter(EVEN, store="even")
        return builder.stream("s", key="string", value="string").join(table, PLUS)

    assert run(driver_of(build), ("t", "k", "b2", 10), ("t", "k", "b4", 30), ("s", "k", "x", 20)) == [("k", "x+b4", 20)]


def test_what_is_versioned_says_so_in_its_description() -> None:
    builder = arrow_builder("test")
    table = builder.table("t", key="string", value="string", store="kept", history="1 hour")
    builder.stream("s", key="string", value="string").join(table, PLUS, grace="1 minute").to("out")
    text = builder.build().describe()
    assert "source t: table of string -> string, input t, store kept, versioned with a history of 3600000 ms" in text
    assert "type inner, generation current, history 3600000 ms, grace 60000 ms" in text
    assert "level 1: stream_table_grace stream_table-s-t (keeps kept, stream_table-s-t.held)" in text


def test_a_grace_asks_for_a_history_that_is_as_long() -> None:
    builder = arrow_builder("test")
    stream = builder.stream("s", key="string", value="string")
    plain, short = builder.table("p", key="string", value="string"), builder.stream("q", key="string", value="string")
    with pytest.raises(TopologyError, match="must be versioned") as plainly:
        stream.join(plain, PLUS, grace="1 minute")
    assert "history=" in str(plainly.value)
    with pytest.raises(TopologyError, match="at least as long as the grace"):
        stream.join(short.to_table(history="59 seconds"), PLUS, grace="1 minute")
    with pytest.raises(TopologyError, match="must not be negative"):
        stream.join(plain, PLUS, grace="-1 ms")
    with pytest.raises(TopologyError, match="takes no grace: grace='1 ms'"):
        stream.join(builder.global_table("g", key="string", value="string"), PLUS, key=REF, grace="1 ms")
    kept = builder.table("v", key="string", value="string", history="1 minute").filter(EVEN, store="even")
    with pytest.raises(TopologyError, match="must be versioned"):
        stream.join(kept, PLUS, grace="1 ms")


def test_state_depends_on_the_functions_of_records_that_are_held_back() -> None:
    def kept(**options: Any) -> frozenset[tuple[str, str]]:
        builder = arrow_builder("test")
        stream = builder.stream("s", key="string", value="string").map_values(MAPPED, name="mapped")
        stream.join(builder.table("t", key="string", value="string", history="1 hour"), PLUS, **options).to("out")
        return functions_in_state(builder.build().physical)

    assert ("mapped", "mapper") not in kept()
    assert ("mapped", "mapper") in kept(grace="1 minute")


def test_a_history_is_a_duration_that_is_not_negative() -> None:
    builder = arrow_builder("test")
    with pytest.raises(TopologyError, match="must not be negative"):
        builder.table("t", key="string", value="string", history="-1 day")
    with pytest.raises(TopologyError, match="history must be a duration"):
        builder.table("t", key="string", value="string", history="soon")
    with pytest.raises(TopologyError, match="have no versioned tables"):
        arrow_builder("test", generation="old").table("t", key="string", value="string", history="1 day")
