"""The record cache, join by join: of all that a key goes through in a batch, one change is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from tests.engine.kit import LIBRARY, PLUS, REF, Step, joined, run, tables
from watersmeet._plan.physical import with_record_cache


def cached(build: Callable[[Any], Any]) -> EngineDriver:
    """A driver of the topology that `build` writes down, with the record cache."""
    builder = arrow_builder("cached")
    build(builder).to("out")
    return EngineDriver(builder.build(), shards=3, record_cache=True)


def two(how: str = "join") -> EngineDriver:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return getattr(left, how)(right, PLUS)

    return cached(build)


def by_reference(how: str = "inner") -> EngineDriver:
    return cached(lambda builder: joined(*tables(builder, "left", "right"), how))


def test_the_last_result_of_a_batch_is_sent_with_its_own_time() -> None:
    driver = two()
    steps: list[Step] = [("left", "k", "a", 5), ("right", "k", "x", 1), ("left", "k", "b", 9), ("left", "k", "c", 2)]
    assert run(driver, *steps) == [("k", "c+x", 2)]
    assert run(driver, ("right", "k", "y", 3), ("right", "k", None, 4)) == [("k", None, 4)]


def test_what_comes_and_goes_in_one_batch_is_never_seen() -> None:
    driver = two("outer_join")
    assert run(driver, ("left", "k", "a", 1), ("left", "k", None, 2), ("right", "j", None, 3)) == []


def test_a_tombstone_is_sent_once_and_keeps_the_place_of_the_change_that_made_it() -> None:
    driver = two()
    run(driver, ("left", "k", "a", 1), ("right", "k", "x", 1))
    # the change behind it has no result of its own
    assert run(driver, ("right", "k", None, 7), ("left", "k", "b", 9)) == [("k", None, 7)]


def starts_with_a(table: Any, **options: Any) -> Any:
    return table.filter(LIBRARY.lift(lambda value: value.startswith("a"), "boolean"), **options)


def of_join(builder: Any) -> Any:
    left, right = (builder.table(name, key="string", value="string", store=name) for name in ("in", "right"))
    return left.left_join(right, PLUS)


def of_stored_join(builder: Any) -> Any:
    left, right = tables(builder, "in", "right")
    return left.left_join(right, PLUS, store="both")


def of_stored_table(builder: Any) -> Any:
    table = builder.table("in", key="string", value="string", store="in")
    return table.map_values(LIBRARY.lift(lambda value: f"{value}+null", "string"))


@pytest.mark.parametrize("stored", [{}, {"store": "filtered"}])
@pytest.mark.parametrize("table", [of_join, of_stored_join, of_stored_table])
def test_a_filter_knows_what_was_before_the_batch(table: Callable[[Any], Any], stored: dict[str, str]) -> None:
    driver = cached(lambda builder: starts_with_a(table(builder), **stored))
    assert run(driver, ("in", "k", "b", 1), ("in", "k", "a", 2), ("in", "k", "c", 3)) == []
    assert run(driver, ("in", "k", "c", 4), ("in", "k", "a", 5)) == [("k", "a+null", 5)]
    assert run(driver, ("in", "k", "c", 6), ("in", "k", "d", 7)) == [("k", None, 7)]
    assert run(driver, ("in", "k", "a", 8), ("in", "k", "e", 9)) == []
    assert run(driver, ("in", "k", "a", 10)) == [("k", "a+null", 10)]
    assert run(driver, ("in", "k", None, 11), ("in", "k", "d", 12)) == [("k", None, 12)]


def test_a_stored_table_hands_on_one_change() -> None:
    driver = cached(lambda builder: builder.table("in", key="string", value="string", store="kept"))
    assert run(driver, ("in", "k", "a", 1), ("in", "k", "b", 2), ("in", "j", "c", 3), ("in", "j", None, 4)) == [
        ("k", "b", 2)
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_both_sides_of_a_reference_may_change_in_a_batch_and_there_is_one_result(how: str) -> None:
    driver = by_reference(how)
    steps: list[Step] = [
        ("left", "k", "p|1", 1),
        ("right", "p", "P", 9),
        ("left", "k", "p|2", 3),
        ("right", "p", "Q", 4),
    ]
    assert run(driver, *steps) == [("k", "p|2+Q", 4)]
    assert run(driver, ("right", "p", "R", 10), ("left", "k", "p|3", 11)) == [("k", "p|3+R", 11)]
    assert run(driver, ("right", "p", "S", 12), ("right", "p", "T", 13)) == [("k", "p|3+T", 13)]


def test_a_row_that_turns_to_another_one_has_the_result_of_that_one_alone() -> None:
    driver = by_reference()
    run(driver, ("left", "k", "p|1", 1), ("right", "p", "P", 1), ("right", "q", "Q", 1))
    steps: list[Step] = [
        ("right", "p", "R", 2),
        ("left", "k", "q|2", 3),
        ("left", "k", "p|2", 4),
        ("left", "k", "q|3", 5),
    ]
    assert run(driver, *steps) == [("k", "q|3+Q", 5)]


def test_a_row_whose_reference_goes_in_the_same_batch_loses_its_result_once() -> None:
    driver = by_reference()
    run(driver, ("left", "k", "p|1", 1), ("right", "p", "P", 1))
    assert run(driver, ("left", "k", "p|2", 2), ("right", "p", None, 3)) == [("k", None, 3)]
    # nobody keeps what a row's result was: as without the cache, its deletion is told
    assert run(driver, ("left", "k", None, 4), ("right", "p", "P", 5), ("right", "p", None, 6)) == [("k", None, 4)]


def test_a_row_that_turns_to_one_that_is_then_deleted_loses_its_result() -> None:
    driver = by_reference()
    run(driver, ("left", "k", "q|1", 1), ("right", "q", "Q", 1), ("right", "p", "P", 1))
    assert run(driver, ("left", "k", "p|2", 2), ("right", "p", None, 3)) == [("k", None, 3)]


def test_a_new_row_whose_reference_is_then_deleted_stands_alone_in_a_left_join() -> None:
    driver = by_reference("left")
    assert run(driver, ("right", "p", "P", 1)) == []
    assert run(driver, ("left", "k", "p|1", 2), ("right", "p", None, 3)) == [("k", "p|1+null", 3)]


def test_a_referred_row_that_comes_and_goes_in_one_batch_is_never_seen() -> None:
    driver = by_reference("left")
    assert run(driver, ("left", "k", "p|1", 1)) == [("k", "p|1+null", 1)]
    assert run(driver, ("right", "p", "P", 2), ("right", "p", None, 3)) == []


def one_to_many() -> EngineDriver:
    def build(builder: Any) -> Any:
        one, many = tables(builder, "one", "many")
        made = LIBRARY.lift(lambda prefix, suffix: f"{prefix}/{suffix}", "string")
        return one.one_to_many_join(many, PLUS, key=REF, result_key=made)

    return cached(build)


def test_a_pair_that_never_stood_between_batches_is_not_deleted() -> None:
    driver = one_to_many()
    assert run(driver, ("many", "m", "p|1", 1)) == []
    assert run(driver, ("one", "p", "P", 2), ("one", "p", None, 3)) == []
    assert run(driver, ("one", "p", "P", 2), ("many", "m", None, 3)) == []
    assert run(driver, ("many", "m", "p|2", 4), ("one", "p", "Q", 5)) == [("p/m", "Q+p|2", 5)]


def test_a_pair_that_would_have_stood_within_the_batch_alone_is_not_deleted() -> None:
    driver = one_to_many()
    run(driver, ("many", "m", "q|1", 1), ("one", "q", "Q", 1), ("one", "p", "P", 1))
    assert run(driver, ("many", "m", "p|2", 2), ("one", "p", None, 3)) == [("q/m", None, 2)]


@pytest.mark.parametrize("leaves", [("many", "m", None, 3), ("one", "p", None, 3)])
def test_a_pair_of_which_one_goes_and_the_other_changes_is_deleted_once(leaves: Step) -> None:
    driver = one_to_many()
    run(driver, ("many", "m", "p|1", 1), ("one", "p", "P", 1))
    other: Step = ("one", "p", "Q", 4) if leaves[0] == "many" else ("many", "m", "p|2", 4)
    assert [(key, value) for key, value, _ in run(driver, leaves, other)] == [("p/m", None)]


def test_a_tombstone_has_the_time_of_the_later_of_both_sides() -> None:
    driver = by_reference()
    run(driver, ("left", "k", "p|1", 1), ("right", "p", "P", 1))
    assert run(driver, ("left", "k", "p|2", 9), ("right", "p", None, 3)) == [("k", None, 9)]


def test_a_row_that_finds_its_reference_deleted_has_no_result_and_no_tombstone() -> None:
    driver = by_reference()
    assert run(driver, ("right", "p", "P", 1)) == []
    assert run(driver, ("left", "k", "p|1", 2), ("right", "p", None, 3)) == []


def test_a_result_stands_where_the_later_of_both_sides_stands() -> None:
    def build(builder: Any) -> Any:
        left, right, other = tables(builder, "left", "right", "other")
        return joined(left, right).to_stream().join(other, PLUS)

    steps: list[Step] = [("left", "k", "p|1", 1), ("other", "k", "t", 2), ("right", "p", "P", 3)]
    assert run(cached(build), *steps) == [("k", "p|1+P+t", 3)]

    def by_group(builder: Any) -> Any:
        made = joined(*tables(builder, "left", "right")).to_stream().select_key(LIBRARY.lift(lambda _: "g", "string"))
        return made.to_table(store="latest")

    steps = [("right", "q", "Q", 0), ("left", "k1", "p|1", 1), ("left", "k2", "q|2", 2), ("right", "p", "P", 3)]
    assert run(cached(by_group), *steps) == [("g", "p|1+P", 3)]


def test_a_stream_that_looks_up_what_became_of_a_table_sees_each_change() -> None:
    def build(builder: Any) -> Any:
        table = joined(*tables(builder, "left", "right")).to_stream().to_table()
        return builder.stream("in", key="string", value="string").join(table, PLUS)

    steps: list[Step] = [("left", "k", "p|1", 1), ("in", "k", "1", 2), ("right", "p", "P", 3), ("in", "k", "2", 4)]
    assert run(cached(build), *steps, ("right", "p", "Q", 5)) == [("k", "2+p|1+P", 4)]


def test_a_join_that_one_record_moves_on_both_sides_hears_of_every_change() -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return left.join(right, PLUS).join(right, PLUS)

    driver = cached(build)
    run(driver, ("left", "k", "a1", 1), ("right", "k", "b1", 1))
    results = run(driver, ("left", "k", None, 2), ("right", "k", "b2", 3), ("left", "k", None, 4))
    assert {value for _, value, _ in results} == {None}


def test_a_join_of_a_table_with_a_global_one_is_cached() -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string")
        return table.join(builder.global_table("all", key="string", value="string"), PLUS, foreign_key=REF)

    driver = cached(build)
    steps: list[Step] = [("all", "p", "P", 0), ("in", "k", "p|1", 1), ("in", "k", "p|2", 2), ("in", "j", "p|1", 3)]
    assert sorted(run(driver, *steps)) == [("j", "p|1+P", 3), ("k", "p|2+P", 2)]
    assert run(driver, ("in", "k", "none|1", 4), ("in", "k", "p|3", 5), ("in", "k", "none|2", 6)) == [("k", None, 6)]


def test_what_a_stream_looks_up_is_there_at_its_time() -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return builder.stream("in", key="string", value="string").join(left.join(right, PLUS), PLUS)

    driver = cached(build)
    steps: list[Step] = [("left", "k", "a", 1), ("right", "k", "x", 1), ("in", "k", "1", 2), ("left", "k", "b", 3)]
    assert run(driver, *steps, ("in", "k", "2", 4)) == [("k", "1+a+x", 2), ("k", "2+b+x", 4)]


def _cached_operators(join: Callable[[Any, Any], Any]) -> list[str]:
    builder = arrow_builder("itself")
    (table,) = tables(builder, "in")
    join(table, table.map_values(LIBRARY.lift(text.mapped, "string"))).to("out")
    return [operator.node for operator in with_record_cache(builder.build().physical).operators if operator.cached]


def test_a_foreign_key_join_of_a_table_with_itself_is_not_cached() -> None:
    assert _cached_operators(lambda left, right: left.join(right, PLUS, foreign_key=REF)) == []


def test_a_join_by_key_of_a_table_with_itself_is_one_operator_that_is_cached() -> None:
    assert len(_cached_operators(lambda left, right: left.join(right, PLUS))) == 1
