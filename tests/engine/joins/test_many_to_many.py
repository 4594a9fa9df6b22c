"""Many-to-many joins: pairs, rows that stand alone, the oracle and a join of the latest rows beside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.tables.many_to_many import ManyToManyJoin
from tests.engine.joins.test_foreign_key import SHARDS, histories
from tests.engine.joins.test_one_to_many import plain, standing
from tests.engine.kit import LIBRARY, PLUS, REF, Step, by_step, driver_of, oracle_says, oracle_tables, run, tables
from tests.lengths import examples
from watersmeet.errors import TopologyError

HOWS = st.sampled_from(["inner", "left", "outer"])
METHODS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def many_to_many(how: str = "inner", shards: int = 3, inputs: tuple[str, ...] = ("left", "right")) -> EngineDriver:
    """The join of two tables of text by what their values refer to; of one table with itself."""

    def build(builder: Any) -> Any:
        sides = tables(builder, *inputs)
        return getattr(sides[0], METHODS[how])(sides[-1], PLUS, on=REF, name="j")

    return driver_of(build, shards=shards)


def rows_of(steps: list[Step], topic: str) -> dict[str, str]:
    latest = {key: value for name, key, value, _ in steps if name == topic}
    return {key: value for key, value in latest.items() if value is not None}


def joined(left: dict[str, str], right: dict[str, str], how: str) -> dict[Any, str]:
    """The join of the latest rows, as SQL has it."""
    pairs = {
        (a, b): text.plus(x, y)
        for a, x in left.items()
        for b, y in right.items()
        if text.ref(x) is not None and text.ref(x) == text.ref(y)
    }
    met = {a for a, _ in pairs}, {b for _, b in pairs}
    if how != "inner":
        pairs |= {(a, None): text.plus(x, None) for a, x in left.items() if a not in met[0]}
    if how == "outer":
        pairs |= {(None, b): text.plus(None, y) for b, y in right.items() if b not in met[1]}
    return pairs


def test_a_row_that_meets_its_first_one_stands_alone_no_longer() -> None:
    driver = many_to_many("left")
    assert run(driver, ("left", "a", "x|1", 1)) == [({"prefix": "a", "suffix": None}, "x|1+null", 1)]
    assert run(driver, ("right", "p", "x|9", 2)) == [
        ({"prefix": "a", "suffix": None}, None, 2),
        ({"prefix": "a", "suffix": "p"}, "x|1+x|9", 2),
    ]
    assert run(driver, ("right", "p", None, 3)) == [
        ({"prefix": "a", "suffix": "p"}, None, 3),
        ({"prefix": "a", "suffix": None}, "x|1+null", 3),
    ]


@settings(max_examples=examples(200), deadline=None)
@given(history=histories(("left", "right")), how=HOWS, shards=SHARDS)
def test_two_tables_are_joined_as_the_oracle_joins_them(
    history: tuple[list[Step], set[int]], how: str, shards: int
) -> None:
    steps, cuts = history
    topology, (left, right) = oracle_tables("left", "right")
    topology.sink(ManyToManyJoin(topology, left, right, how, (text.ref, text.ref), text.plus))
    assert plain(by_step(many_to_many(how, shards), steps, cuts)) == plain(oracle_says(topology, steps))


@settings(max_examples=examples(150), deadline=None)
@given(history=histories(("left", "right")), how=HOWS, shards=SHARDS)
def test_what_stands_is_the_join_of_the_latest_rows(
    history: tuple[list[Step], set[int]], how: str, shards: int
) -> None:
    steps, cuts = history
    said = standing(plain(by_step(many_to_many(how, shards), steps, cuts)))
    assert said == joined(rows_of(steps, "left"), rows_of(steps, "right"), how)


@settings(max_examples=examples(150), deadline=None)
@given(history=histories(("own",)), how=HOWS, shards=SHARDS)
def test_a_table_that_is_joined_with_itself_ends_right_behind_each_record(
    history: tuple[list[Step], set[int]], how: str, shards: int
) -> None:
    steps, cuts = history
    said = plain(by_step(many_to_many(how, shards, ("own",)), steps, cuts))
    for count in range(1, len(steps) + 1):
        rows = rows_of(steps[:count], "own")
        assert standing(said[:count]) == joined(rows, rows, how)


def test_deletes_leave_no_rows_behind() -> None:
    driver = many_to_many("outer")
    run(driver, *((side, f"{side}{n}", f"p{n % 40}|1", 0) for n in range(200) for side in ("left", "right")))
    run(driver, *(("left", f"left{n}", f"p{n % 3}|", 1) for n in range(99)))
    run(driver, *((side, f"{side}{n}", None, 2) for n in range(200) for side in ("left", "right")))
    assert driver.rows_in_stores() == 0


def test_a_key_made_of_both_keys_takes_the_place_of_the_struct() -> None:
    glued = LIBRARY.lift(lambda left, right: f"{left}-{right}", "string")

    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return left.join(right, PLUS, on=(REF, REF), result_key=lambda a, b: glued(a, b))

    steps: list[Step] = [("left", "a", "x|1", 0), ("right", "b", "x|2", 1), ("left", "a", None, 2)]
    assert run(driver_of(build), *steps) == [("a-b", "x|1+x|2", 1), ("a-b", None, 2)]


def test_what_does_not_fit_is_refused() -> None:
    builder = arrow_builder("test")
    left, right = tables(builder, "left", "right")
    number = LIBRARY.lift(lambda value: 1, "long")
    with pytest.raises(TopologyError, match="Values of two types are never equal"):
        left.join(right, PLUS, on=(REF, number))
    with pytest.raises(
        TopologyError, match=r"on= takes no condition over both sides(.|\n)*Say what each side compares"
    ):
        left.join(right, PLUS, on=lambda left, right: left == right)
    with pytest.raises(TopologyError, match="on= says what is equal on both sides: on=7"):
        left.join(right, PLUS, on=7)
    with pytest.raises(TopologyError, match="result_key= makes the key"):
        left.join(right, PLUS, result_key=lambda a, b: a)
    with pytest.raises(TopologyError, match="two ways to say what joins"):
        left.join(right, PLUS, on=REF, foreign_key=REF)
