"""Joins of several tables by one key: the rows that stand, the oracle, and the chain of joins of two beside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.tables.multi_join import MultiJoin
from tests.engine.joins.test_foreign_key import SHARDS, histories
from tests.engine.kit import LIBRARY, PLUS, Step, by_step, driver_of, oracle_says, oracle_tables, per_key, run, tables
from tests.lengths import examples
from watersmeet.errors import FunctionError, TopologyError

ALL = LIBRARY.lift(text.all_plus, "string")
THREE = ("one", "two", "three")
HOWS = st.one_of(st.lists(st.sampled_from(("inner", "left")), min_size=2, max_size=2), st.just(["outer", "outer"]))


def several(how: Any = "inner", shards: int = 3, names: tuple[str, ...] = THREE, **options: Any) -> EngineDriver:
    """The join of tables of text."""

    def build(builder: Any) -> Any:
        first, *others = tables(builder, *names)
        return first.multi_join(others, ALL, how=how, **options)

    return driver_of(build, shards=shards)


def test_an_inner_join_has_a_row_where_all_tables_have_one() -> None:
    steps: list[Step] = [("one", "k", "a", 5), ("three", "k", "c", 1), ("two", "k", "b", 2), ("three", "k", None, 3)]
    assert by_step(several(), steps) == [[], [], [("k", "a+b+c", 5)], [("k", None, 5)]]


def test_a_left_join_needs_the_first_table_and_those_that_are_inner() -> None:
    steps: list[Step] = [("two", "k", "b", 1), ("one", "k", "a", 2), ("three", "k", "c", 3), ("one", "k", None, 4)]
    assert by_step(several("left"), steps) == [[], [("k", "a+b+null", 2)], [("k", "a+b+c", 3)], [("k", None, 4)]]
    mixed = by_step(several(["left", "inner"]), steps)
    assert mixed == [[], [], [("k", "a+b+c", 3)], [("k", None, 4)]]


def test_an_outer_join_needs_any_table() -> None:
    steps: list[Step] = [("three", "k", "c", 1), ("one", "k", "a", 2), ("three", "k", None, 3), ("one", "k", None, 4)]
    results = [[("k", "null+null+c", 1)], [("k", "a+null+c", 2)], [("k", "a+null+null", 3)], [("k", None, 4)]]
    assert by_step(several("outer"), steps) == results


def test_the_tombstone_of_a_row_that_was_not_there_changes_nothing() -> None:
    assert by_step(several("left"), [("one", "k", "a", 1), ("two", "k", None, 2)]) == [[("k", "a+null+null", 1)], []]


def test_ten_tables_are_one_level() -> None:
    names = tuple(f"t{number}" for number in range(10))
    builder = arrow_builder("test")
    first, *others = tables(builder, *names)
    first.multi_join(others, ALL).to("out")
    topology = builder.build()
    assert topology.physical.levels == 1
    got = run(EngineDriver(topology, shards=2), *((name, "k", name, at) for at, name in enumerate(names)))
    assert got == [("k", "+".join(names), 9)]


def test_the_joiner_may_take_the_key() -> None:
    def build(builder: Any) -> Any:
        first, *others = tables(builder, *THREE)
        return first.multi_join(others, lambda key, one, two, three: ALL(key, one, two, three))

    assert run(driver_of(build), *((name, "k", name, 0) for name in THREE)) == [("k", "k+one+two+three", 0)]


def test_a_join_can_be_kept_filtered_and_joined_again() -> None:
    def build(builder: Any) -> Any:
        first, *others = tables(builder, *THREE)
        kept = first.multi_join(others, ALL, how="left", store="wide")
        even = LIBRARY.lift(lambda value: text.even(None, value), "boolean")
        return kept.filter(even).left_join(others[0], PLUS)

    steps: list[Step] = [("one", "k", "3", 1), ("three", "k", "4", 2), ("three", "k", "5", 3), ("two", "k", "b", 4)]
    assert by_step(driver_of(build), steps) == [[], [("k", "3+null+4+null", 2)], [("k", None, 3)], []]


def test_a_table_of_a_join_can_be_the_store_that_was_asked_for() -> None:
    builder = arrow_builder("test")
    first = builder.table("one", key="string", value="string")
    second = builder.table("two", key="string", value="string", store="seen")
    first.multi_join([second], PLUS, name="j").to("out")
    stores = [store for operator in builder.build().physical.operators for store in operator.stores]
    assert stores == ["j.table0", "seen"]


def test_deletes_leave_no_rows_behind() -> None:
    driver = several("outer")
    run(driver, *((name, f"k{n}", "v", 0) for n in range(500) for name in THREE))
    run(driver, *((name, f"k{n}", None, 1) for n in range(500) for name in THREE))
    assert driver.rows_in_stores() == 0


@settings(max_examples=examples(150), deadline=None)
@given(history=histories(THREE), shards=SHARDS, hows=HOWS)
def test_tables_are_joined_as_the_oracle_joins_them(
    history: tuple[list[Step], set[int]], shards: int, hows: list[str]
) -> None:
    steps, cuts = history
    topology, sides = oracle_tables(*THREE)
    topology.sink(MultiJoin(sides, hows, text.all_plus))
    assert per_key(by_step(several(hows, shards), steps, cuts)) == per_key(oracle_says(topology, steps))


@settings(max_examples=examples(100), deadline=None)
@given(history=histories(THREE), shards=SHARDS, hows=HOWS)
def test_in_the_end_there_is_the_table_of_the_chain_of_joins_of_two(
    history: tuple[list[Step], set[int]], shards: int, hows: list[str]
) -> None:
    steps, cuts = history

    def chain(builder: Any) -> Any:
        joined, *others = tables(builder, *THREE)
        for how, other in zip(hows, others, strict=True):
            method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
            joined = getattr(joined, method)(other, PLUS)
        return joined

    assert standing(by_step(several(hows, shards), steps, cuts)) == standing(
        by_step(driver_of(chain, shards=shards), steps, cuts)
    )


def standing(said: list[Any]) -> dict[Any, Any]:
    """The rows that stand in the end; a chain of outer joins says that two are missing by one null."""
    rows = {key: value for results in said for key, value, _ in results}
    return {key: value.replace("null+null+", "null+") for key, value in rows.items() if value is not None}


@pytest.mark.parametrize(
    ("others", "how", "message"),
    [
        ([], "inner", "needs another one: others=\\[\\]"),
        (["two"], "inner", "takes tables: others has .*'two'"),
        (None, "inner", "takes tables: others has"),
        ("stream", "inner", "others has the stream"),
        ("table", "full", "how='full'"),
        ("table", ["inner", "left"], "has 2 for 1"),
        ("both", ["outer", "left"], "outer with all of them or with none"),
    ],
)
def test_what_does_not_fit_is_refused(others: Any, how: Any, message: str) -> None:
    first, second, third = tables(arrow_builder("test"), *THREE)
    given = {"stream": [second.to_stream()], "table": [second], "both": [second, third]}
    with pytest.raises(TopologyError, match=message):
        first.multi_join(given.get(others, others) if isinstance(others, str) else others, ALL, how=how)


def test_keys_of_other_types_and_joiners_of_other_arity_are_refused() -> None:
    builder = arrow_builder("test")
    (first,) = tables(builder, "one")
    (second,) = tables(builder, "two", key="long")
    with pytest.raises(TopologyError, match="different key types"):
        first.multi_join([second], ALL)
    with pytest.raises(FunctionError, match="takes 1 argument, and gets 2 or 3"):
        first.multi_join([first], lambda one: one)
