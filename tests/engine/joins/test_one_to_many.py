"""One-to-many joins: combined keys, who stands and who falls, the oracle and the foreign-key join beside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.one_to_many import OneToManyJoin
from tests.engine.joins.test_foreign_key import SHARDS, histories
from tests.engine.kit import (
    LIBRARY,
    PLUS,
    REF,
    Step,
    by_step,
    driver_of,
    oracle_says,
    oracle_tables,
    run,
    tables,
)
from tests.lengths import examples
from watersmeet.errors import TopologyError


def one_to_many(shards: int = 3, **options: Any) -> EngineDriver:
    """The join of two tables of text."""

    def build(builder: Any) -> Any:
        one, many = tables(builder, "one", "many")
        return one.one_to_many_join(many, PLUS, key=REF, **options)

    return driver_of(build, shards=shards)


def test_the_result_is_keyed_by_both_keys() -> None:
    got = run(one_to_many(), ("many", "k", "p|1", 3), ("one", "p", "P", 2))
    assert got == [({"prefix": "p", "suffix": "k"}, "P+p|1", 3)]


def test_the_old_result_ends_before_the_new_one_comes_also_from_two_shards() -> None:
    driver = one_to_many(shards=8)
    run(driver, *(("one", p, p.upper(), 0) for p in "abcdefgh"))
    got = run(driver, *(("many", "k", f"{p}|{n}", n) for n, p in enumerate("abcdefgh")))
    expected: list[Any] = []
    for number, prefix in enumerate("abcdefgh"):
        if number:
            expected.append(({"prefix": "abcdefgh"[number - 1], "suffix": "k"}, None, number))
        expected.append(({"prefix": prefix, "suffix": "k"}, f"{prefix.upper()}+{prefix}|{number}", number))
    assert got == expected


def test_a_key_made_of_both_keys_takes_the_place_of_the_struct() -> None:
    glued = LIBRARY.lift(lambda prefix, suffix: f"{prefix}-{suffix}", "string")
    driver = one_to_many(result_key=lambda prefix, suffix: glued(prefix, suffix))
    steps: list[Step] = [("one", "p", "P", 0), ("many", "k", "p|1", 1), ("many", "k", None, 2)]
    assert run(driver, *steps) == [("p-k", "P+p|1", 1), ("p-k", None, 2)]


def test_the_joiner_may_take_the_combined_key() -> None:
    def build(builder: Any) -> Any:
        one, many = tables(builder, "one", "many")

        def joiner(key: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
            return pc.binary_join_element_wise(pc.struct_field(key, "suffix"), left, right, " ")

        return one.one_to_many_join(many, joiner, key=REF)

    assert run(driver_of(build), ("one", "p", "P", 0), ("many", "k", "p|1", 1))[0][1] == "k P p|1"


def test_a_result_under_a_new_key_can_be_kept_filtered_and_joined() -> None:
    def build(builder: Any) -> Any:
        one, many, other = tables(builder, "one", "many", "other")
        suffix = one.one_to_many_join(many, PLUS, key=REF, result_key=lambda prefix, suffix: suffix, store="by suffix")
        ends_even = LIBRARY.lift(lambda value: text.even(None, value), "boolean")
        return suffix.filter(ends_even).join(other, PLUS)

    driver = driver_of(build)
    got = run(
        driver,
        ("other", "k", "O", 0),
        ("one", "p", "P", 1),
        ("many", "k", "p|2", 2),
        ("many", "k", "p|3", 3),
        ("many", "k", None, 4),
    )
    assert got == [("k", "P+p|2+O", 2), ("k", None, 3)]


def test_what_does_not_fit_is_refused() -> None:
    builder = arrow_builder("test")
    (one,) = tables(builder, "one", key="long")
    (many,) = tables(builder, "many")
    with pytest.raises(TopologyError, match="key extractor returns another type"):
        one.one_to_many_join(many, PLUS, key=REF)
    with pytest.raises(TopologyError, match="joins two tables"):
        one.one_to_many_join(many.to_stream(), PLUS, key=REF)


def test_deletes_leave_no_rows_behind() -> None:
    driver = one_to_many()
    run(driver, *(("many", f"k{n}", f"p{n % 9}|1", 0) for n in range(500)))
    run(
        driver,
        *(("one", f"p{n}", "P", 1) for n in range(9)),
        *(("many", f"k{n}", "p1|", 1) for n in range(99)),
    )
    run(
        driver,
        *(("many", f"k{n}", None, 2) for n in range(500)),
        *(("one", f"p{n}", None, 3) for n in range(9)),
    )
    assert driver.rows_in_stores() == 0


@settings(max_examples=examples(40), deadline=None)
@given(history=histories(("many", "one")), shards=SHARDS)
def test_a_left_join_also_has_the_rows_to_which_none_refers(history: tuple[list[Step], set[int]], shards: int) -> None:
    steps, cuts = history
    latest = {(topic, key): value for topic, key, value, _ in steps}
    one, many = ({k: v for (t, k), v in latest.items() if t == side and v is not None} for side in ("one", "many"))
    pairs = {(text.ref(value), key): value for key, value in many.items() if text.ref(value) in one}
    expected = {(to, key): text.plus(one[to], value) for (to, key), value in pairs.items()}
    expected |= {(key, None): text.plus(row, None) for key, row in one.items() if key not in {to for to, _ in pairs}}
    assert standing(plain(by_step(one_to_many(shards, how="left"), steps, cuts))) == expected


def test_a_one_to_many_join_has_no_outer_form() -> None:
    one, many = tables(arrow_builder("test"), "one", "many")
    with pytest.raises(TopologyError, match="has no outer form"):
        one.one_to_many_join(many, PLUS, key=REF, how="outer")


def plain(said: list[Any]) -> list[Any]:
    """Results of either kind with their keys as pairs."""
    return [
        [((k["prefix"], k["suffix"]) if isinstance(k, dict) else (k.prefix, k.suffix), v, ts) for k, v, ts in results]
        for results in said
    ]


def standing(said: list[Any]) -> dict[Any, Any]:
    """The rows that stand in the end."""
    rows = {key: value for results in said for key, value, _ in results}
    return {key: value for key, value in rows.items() if value is not None}


@settings(max_examples=examples(120), deadline=None)
@given(history=histories(("many", "one")), shards=SHARDS)
def test_two_tables_are_joined_as_the_oracle_joins_them(history: tuple[list[Step], set[int]], shards: int) -> None:
    steps, cuts = history
    topology, (many, one) = oracle_tables("many", "one")
    topology.sink(OneToManyJoin(topology, many, one, text.ref, text.plus))
    assert plain(by_step(one_to_many(shards), steps, cuts)) == plain(oracle_says(topology, steps))


@settings(max_examples=examples(60), deadline=None)
@given(history=histories(("many", "one")), shards=SHARDS)
def test_grouped_by_its_suffix_it_is_the_inner_foreign_key_join(
    history: tuple[list[Step], set[int]], shards: int
) -> None:
    steps, cuts = history
    topology, (many, one) = oracle_tables("many", "one")
    topology.sink(foreign_key_join(topology, many, one, "inner", text.ref, lambda m, o: text.plus(o, m)))
    foreign = standing(oracle_says(topology, steps))
    combined = standing(plain(by_step(one_to_many(shards), steps, cuts)))
    assert {suffix: value for (_, suffix), value in combined.items()} == foreign


@settings(max_examples=examples(60), deadline=None)
@given(history=histories(("table",)), shards=SHARDS)
def test_a_table_that_refers_to_itself_ends_right(history: tuple[list[Step], set[int]], shards: int) -> None:
    steps, cuts = history

    def build(builder: Any) -> Any:
        (own,) = tables(builder, "table")
        return own.one_to_many_join(own, PLUS, key=REF)

    rows = standing(plain(by_step(driver_of(build, shards=shards), steps, cuts)))
    table = {key: value for _, key, value, _ in steps}
    table = {key: value for key, value in table.items() if value is not None}
    expected = {
        (text.ref(value), key): text.plus(table[text.ref(value)], value)
        for key, value in table.items()
        if text.ref(value) in table
    }
    assert rows == expected
