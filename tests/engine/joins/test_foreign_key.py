"""Foreign-key joins: tables of one source, chains, fan-out, the oracle."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof import engine
from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.table_table import TableTableJoin
from tests.engine.kit import (
    LIBRARY,
    PLUS,
    REF,
    Step,
    by_step,
    driver_of,
    foreign,
    joined,
    oracle_says,
    oracle_tables,
    per_key,
    run,
    tables,
)
from tests.lengths import examples
from watersmeet._engine.operators import foreign_key_join as subscriptions
from watersmeet.errors import TopologyError

# -- what is counted, kept, refused --------------------------------------------------------------------------


def test_a_row_that_refers_to_nothing_is_counted_in_an_inner_join_and_joined_in_a_left_one() -> None:
    inner, left = foreign("inner"), foreign("left")
    steps: list[Step] = [("left", "k", "no reference", 1), ("left", None, "p|1", 2), ("right", None, "P", 3)]
    assert run(inner, *steps) == []
    assert inner.drops[("foreign_key-left-right", "null_foreign_key")] == 1
    assert run(left, *steps) == [("k", "no reference+null", 1)]
    assert ("foreign_key-left-right", "null_foreign_key") not in +left.drops
    for driver in (inner, left):
        assert (driver.drops[("left", "null_key")], driver.drops[("right", "null_key")]) == (1, 1)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_deletes_leave_no_rows_behind(how: str) -> None:
    driver = foreign(how)
    keys = [f"k{n}" for n in range(3_000)]
    run(driver, *(("left", k, f"p{n % 50}|{n}" if n % 3 else "none", 0) for n, k in enumerate(keys)))
    run(driver, *(("right", f"p{n}", "P", 0) for n in range(50)))
    run(driver, *(("left", k, f"p{n % 7}|{n}", 1) for n, k in enumerate(keys)))
    run(driver, *(("left", k, None, 2) for k in keys))
    run(driver, *(("right", f"p{n}", None, 3) for n in range(50)))
    assert driver.rows_in_stores() == 0


def test_rows_put_and_deleted_in_one_batch_write_nothing() -> None:
    driver = foreign()
    run(driver, *(("left", f"k{n}", value, 0) for n in range(100) for value in ("p|1", "q|2", None)))
    assert all(store.get_manifest() is None for store in driver.stores.values())


def test_the_types_of_the_two_keys_may_differ_and_the_extractor_must_fit() -> None:
    builder = arrow_builder("test")
    left = builder.table("left", key="string", value="string")
    right = builder.table("right", key="long", value="string")
    with pytest.raises(TopologyError, match=r"returns another type(.|\n)*string(.|\n)*int64(.|\n)*Hint: Cast"):
        left.join(right, PLUS, foreign_key=REF)
    number = LIBRARY.lift(lambda key, value: len(key) + int(value), "long")
    left.join(right, PLUS, foreign_key=lambda key, value: number(key, value)).to("out")
    driver = EngineDriver(builder.build(), shards=3)
    assert run(driver, ("right", 2**53 + 2, "R", 0), ("left", "k", str(2**53 + 1), 1)) == [("k", f"{2**53 + 1}+R", 1)]


def test_a_composite_key_is_a_reference_like_any_other() -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        pairs = right.to_stream().map(lambda k, v: (pc.make_struct(k, v, field_names=["a", "b"]), v)).to_table()

        def extractor(value: pa.Array) -> pa.Array:
            return pc.make_struct(REF(value), value, field_names=["a", "b"])

        return left.join(pairs, PLUS, foreign_key=extractor)

    got = run(driver_of(build), ("right", "p", "p|1", 0), ("left", "k", "p|1", 1), ("left", "l", "p|2", 2))
    assert got == [("k", "p|1+p|1", 1)]


def test_a_generation_without_foreign_keys_refuses_them() -> None:
    builder = arrow_builder("test", generation="old")
    left, right = tables(builder, "left", "right")
    with pytest.raises(TopologyError, match="no foreign-key join"):
        joined(left, right)


def test_the_topology_says_its_two_operators() -> None:
    said = foreign("left").topology.describe()
    assert "level 1: foreign_key_send foreign_key-left-right (keeps foreign_key-left-right.foreign_keys)" in said
    assert "level 2: foreign_key_receive foreign_key-left-right (keeps foreign_key-left-right.subscriptions, " in said


def test_the_left_side_does_not_wait_for_a_right_side_of_a_later_level() -> None:
    def build(builder: Any) -> Any:
        left, right, third = tables(builder, "left", "right", "third")
        return joined(left, right.join(third, PLUS))

    operators = driver_of(build).topology.physical.operators
    assert {(o.stem, o.level) for o in operators} == {
        ("table_table", 1),
        ("foreign_key_send", 1),
        ("foreign_key_receive", 2),
    }


def test_rows_that_refer_to_nothing_are_spread_over_the_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[int] = Counter()
    whole = engine.run_operator

    def noted(context: Any, inputs: Any, *rest: Any) -> Any:
        seen.update([len(inputs[0])] if context.operator.stem == "foreign_key_receive" else [])
        return whole(context, inputs, *rest)

    monkeypatch.setattr(engine, "run_operator", noted)
    run(foreign("left", shards=4), *(("left", f"k{n}", "none", 0) for n in range(400)))
    assert len(list(seen.elements())) == 4
    assert max(seen) < 200


# -- fan-out -------------------------------------------------------------------------------------------------


def test_a_hot_right_row_fans_out_in_pieces_in_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PIECE", 100)
    driver = foreign("inner")
    keys = [f"k{n}" for n in range(1_000)]
    run(driver, *(("left", key, "p|1", n) for n, key in enumerate(keys[:700])))
    steps = [("left", key, "p|2", 0) for key in keys[500:]]
    got = run(driver, ("right", "p", "P", 1), *steps, ("right", "q", "Q", 1), ("right", "p", None, 2_000))
    assert got[:700] == [(k, "p|1+P", max(int(k[1:]), 1)) for k in sorted(keys[:700])]
    assert got[700:1_200] == [(k, "p|2+P", 1) for k in keys[500:]]
    assert got[1_200:] == [(k, None, 2_000) for k in sorted(keys)]


def test_no_piece_of_a_fan_out_is_larger_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PIECE", 64)
    sizes: list[int] = []
    whole = subscriptions.SubscriberResults

    def noted(*columns: Any) -> Any:
        sizes.append(len(columns[0]))
        return whole(*columns)

    monkeypatch.setattr(subscriptions, "SubscriberResults", noted)
    driver = foreign(shards=1)
    run(driver, *(("left", f"k{n}", f"p{n % 3}|", 0) for n in range(900)))
    run(driver, *(("right", f"p{n}", f"R{batch}", 1) for batch in range(3) for n in range(3)))
    assert sum(sizes) == 2_700
    assert max(sizes) <= 64


def test_a_row_that_flips_thousands_of_times_meets_each_right_row_once() -> None:
    topology, (left, right) = oracle_tables("left", "right")
    topology.sink(foreign_key_join(topology, left, right, "inner", text.ref, text.plus))
    chance = random.Random(3)
    steps: list[Step] = [
        ("left", "k", f"{chance.choice('ab')}|{n}", n) if n % 3 else ("right", chance.choice("ab"), f"R{n}", n)
        for n in range(3_000)
    ]
    assert by_step(foreign(), steps) == oracle_says(topology, steps)


# -- beside the oracle ---------------------------------------------------------------------------------------


KEYS = st.sampled_from(["", "a", "ab", "b"])


@st.composite
def histories(draw: st.DrawFn, topics: tuple[str, ...]) -> tuple[list[Step], set[int]]:
    """Steps whose values differ, and where batches end."""
    count = draw(st.integers(1, 30))
    steps: list[Step] = []
    for number in range(count):
        fk = draw(st.sampled_from(["a", "ab", "b", None, "-"]))
        value = None if fk is None else str(number) if fk == "-" else f"{fk}|{number}"
        steps.append((draw(st.sampled_from(topics)), draw(KEYS), value, draw(st.integers(0, 20))))
    return steps, draw(st.sets(st.integers(1, count), max_size=5))


HOW = st.sampled_from(["inner", "left"])
SHARDS = st.sampled_from([1, 2, 5])


@settings(max_examples=examples(120), deadline=None)
@given(history=histories(("left", "right")), how=HOW, shards=SHARDS)
def test_two_tables_are_joined_as_the_oracle_joins_them(
    history: tuple[list[Step], set[int]], how: str, shards: int
) -> None:
    steps, cuts = history
    topology, (left, right) = oracle_tables("left", "right")
    topology.sink(foreign_key_join(topology, left, right, how, text.ref, text.plus))
    assert by_step(foreign(how, shards), steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left", "right", "third")), how=HOW, then=HOW, shards=SHARDS, first=st.booleans())
def test_chains_are_joined_as_the_oracle_joins_them(
    history: tuple[list[Step], set[int]], how: str, then: str, shards: int, *, first: bool
) -> None:
    steps, cuts = history
    topology, (left, right, third) = oracle_tables("left", "right", "third")

    def oracle(one: Any, other: Any, kind: str) -> Any:
        return foreign_key_join(topology, one, other, kind, text.ref, text.plus)

    def build(builder: Any) -> Any:
        one, two, three = tables(builder, "left", "right", "third")
        if first:
            return joined(joined(one, two, how), three, then)
        return joined(one, joined(two, three, then), how)

    if first:
        topology.sink(oracle(oracle(left, right, how), third, then))
    else:
        topology.sink(oracle(left, oracle(right, third, then), how))
    assert by_step(driver_of(build, shards=shards), steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left",)), how=HOW, shards=SHARDS)
def test_a_table_that_refers_to_itself_tells_each_row_once(
    history: tuple[list[Step], set[int]], how: str, shards: int
) -> None:
    steps, cuts = history
    topology, (table,) = oracle_tables("left")
    topology.sink(foreign_key_join(topology, table, table, how, text.ref, text.plus))

    def build(builder: Any) -> Any:
        (own,) = tables(builder, "left")
        return joined(own, own, how)

    said = by_step(driver_of(build, shards=shards), steps, cuts)
    assert per_key(said) == per_key(oracle_says(topology, steps))


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left", "right")), how=HOW, then=HOW, shards=SHARDS)
def test_a_right_side_made_of_the_left_one_tells_no_stale_row(
    history: tuple[list[Step], set[int]], how: str, then: str, shards: int
) -> None:
    steps, cuts = history
    topology, (left, right) = oracle_tables("left", "right")
    both = TableTableJoin(topology, (left, right), then, text.plus)
    topology.sink(foreign_key_join(topology, right, both, how, text.ref, text.plus))

    def build(builder: Any) -> Any:
        one, two = tables(builder, "left", "right")
        return joined(two, (one.join if then == "inner" else one.left_join)(two, PLUS), how)

    said = by_step(driver_of(build, shards=shards), steps, cuts)
    assert per_key(said) == per_key(oracle_says(topology, steps))


def final(said: list[Any]) -> dict[Any, Any]:
    """What stands in the end."""
    rows = {key: value for results in said for key, value, _ in results}
    return {key: value for key, value in rows.items() if value is not None}


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("left", "right")), how=HOW, then=HOW, shards=SHARDS, again=st.booleans())
def test_a_result_joined_with_its_own_side_ends_right(
    history: tuple[list[Step], set[int]], how: str, then: str, shards: int, *, again: bool
) -> None:
    steps, cuts = history
    topology, (left, right) = oracle_tables("left", "right")
    if again:
        result = foreign_key_join(topology, left, right, how, text.ref, text.plus)
        topology.sink(TableTableJoin(topology, (result, left), then, text.plus))
    else:
        both = TableTableJoin(topology, (left, right), then, text.plus)
        topology.sink(foreign_key_join(topology, both, right, how, text.ref, text.plus))

    def build(builder: Any) -> Any:
        one, two = tables(builder, "left", "right")
        if again:
            first = joined(one, two, how)
            return (first.join if then == "inner" else first.left_join)(one, PLUS)
        return joined((one.join if then == "inner" else one.left_join)(two, PLUS), two, how)

    said = by_step(driver_of(build, shards=shards), steps, cuts)
    assert final(said) == final(oracle_says(topology, steps))


@pytest.mark.parametrize("cuts", [set(), {1, 2, 3}])
def test_a_row_goes_with_the_first_deletion_where_kafka_streams_waits_for_a_second(cuts: set[int]) -> None:
    steps: list[Step] = [("left", "b", "b|0", 0), ("right", "b", "a|2", 0), *[("right", "b", None, 0)] * 2]
    topology, (left, right) = oracle_tables("left", "right")
    both = TableTableJoin(topology, (left, right), "left", text.plus)
    topology.sink(foreign_key_join(topology, both, right, "inner", text.ref, text.plus))

    def build(builder: Any) -> Any:
        one, two = tables(builder, "left", "right")
        return joined(one.left_join(two, PLUS), two, "inner")

    said, gone = per_key(by_step(driver_of(build), steps, cuts)), [("b", None, 0)]
    assert said[2:] == [gone, gone]
    assert per_key(oracle_says(topology, steps)) == [*said[:2], [], gone]


def test_a_result_joined_with_its_own_side_keeps_its_tombstone() -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return joined(left, right).join(left, PLUS)

    driver = driver_of(build)
    run(driver, ("right", "p", "P", 0), ("left", "k", "p|1", 1))
    assert run(driver, ("left", "k", None, 2)) == [("k", None, 2)]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_kept_filtered_and_mapped_result_follows_the_oracle_in_its_own_shards(how: str) -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        kept = (left.join if how == "inner" else left.left_join)(right, PLUS, foreign_key=REF, store="kept")
        return kept.filter(LIBRARY.lift(lambda value: text.even(None, value), "boolean"))

    driver = driver_of(build, shards=3)
    got = run(
        driver,
        ("right", "p", "2", 0),
        ("left", "k", "p|1", 1),
        ("left", "k", "p|5", 2),
        ("right", "p", "3", 3),
        ("right", "p", "5", 4),
        ("left", "k", None, 5),
    )
    assert got == [("k", "p|1+2", 1), ("k", "p|5+2", 2), ("k", None, 3)]


def test_a_batch_replayed_after_a_crash_gives_the_same_results() -> None:
    driver = foreign("left", shards=3)
    run(driver, ("right", "p", "P", 0), *(("left", f"k{n}", "p|1", n) for n in range(20)))
    before = {shard: store.snapshot() for shard, store in driver.stores.items()}
    steps: list[Step] = [("left", f"k{n}", f"{'pq'[n % 2]}|2", 30) for n in range(20)]
    steps += [("right", "p", "P2", 31), ("right", "q", "Q", 32), ("left", "k3", None, 33)]
    first = run(driver, *steps)
    # Killed between the levels' commits: whatever had been written, all state goes back to the last batch.
    for shard, store in driver.stores.items():
        store.restore(before[shard] if shard in before else type(store)().snapshot())
    assert run(driver, *steps) == first
    assert Counter(value for _, value, _ in first)["p|2+P"] == 10
