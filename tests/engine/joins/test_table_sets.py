"""Semi and anti joins, and union, intersect, subtract and distinct of tables, beside what SQL gives of their rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from tests.engine.joins.test_foreign_key import SHARDS, histories
from tests.engine.joins.test_many_to_many import rows_of
from tests.engine.kit import LIBRARY, REF, Said, Step, by_step, driver_of, run, tables
from tests.lengths import examples
from watersmeet.errors import TopologyError

Rows = dict[str, str]
WAYS: dict[str, dict[str, Any]] = {"key": {}, "foreign key": {"foreign_key": REF}, "value": {"on": REF}}
METHODS = st.sampled_from(["semi_join", "anti_join", "union", "intersect", "subtract", "distinct"])


def driver(method: str, way: str = "key", shards: int = 3, inputs: tuple[str, ...] = ("left", "right")) -> EngineDriver:
    """One of the operators on two tables of text, or on one table and itself."""

    def build(builder: Any) -> Any:
        sides = tables(builder, *inputs)
        others = () if method == "distinct" else (sides[-1],)
        return getattr(sides[0], method)(*others, **(WAYS[way] if method.endswith("join") else {}))

    return driver_of(build, shards=shards)


def standing(said: list[Said]) -> Rows:
    latest = {key: value for results in said for key, value, _ in results}
    return {key: value for key, value in latest.items() if value is not None}


def expected(method: str, way: str, left: Rows, right: Rows) -> Rows:
    """The rows that stand, as SQL has them."""
    if method == "distinct":
        return {value: value for value in left.values()}
    if method == "union":
        return right | left
    others = {text.ref(value) for value in right.values()} if way == "value" else set(right)
    met = {key: key if way == "key" else text.ref(value) for key, value in left.items()}
    exists = method in ("semi_join", "intersect")
    return {key: value for key, value in left.items() if (met[key] is not None and met[key] in others) == exists}


@settings(max_examples=examples(150), deadline=None)
@given(history=histories(("left", "right")), method=METHODS, way=st.sampled_from(list(WAYS)), shards=SHARDS)
def test_what_stands_behind_each_record_is_what_sql_gives_of_the_latest_rows(
    history: tuple[list[Step], set[int]], method: str, way: str, shards: int
) -> None:
    steps, cuts = history
    way = way if method.endswith("join") else "key"
    said = by_step(driver(method, way, shards), steps, cuts)
    for count in range(1, len(steps) + 1):
        left, right = (rows_of(steps[:count], side) for side in ("left", "right"))
        assert standing(said[:count]) == expected(method, way, left, right)


@settings(max_examples=examples(80), deadline=None)
@given(history=histories(("own",)), method=METHODS, way=st.sampled_from(list(WAYS)), shards=SHARDS)
def test_a_table_and_itself_are_right_behind_each_record(
    history: tuple[list[Step], set[int]], method: str, way: str, shards: int
) -> None:
    steps, cuts = history
    way = way if method.endswith("join") else "key"
    said = by_step(driver(method, way, shards, ("own",)), steps, cuts)
    for count in range(1, len(steps) + 1):
        rows = rows_of(steps[:count], "own")
        assert standing(said[:count]) == expected(method, way, rows, rows)


@settings(max_examples=examples(60), deadline=None)
@given(history=histories(("left", "right")), method=METHODS, way=st.sampled_from(list(WAYS)), shards=SHARDS)
def test_nothing_is_stored_of_values_that_have_gone(
    history: tuple[list[Step], set[int]], method: str, way: str, shards: int
) -> None:
    steps, cuts = history
    used = dict.fromkeys((topic, key) for topic, key, _, _ in steps)
    topology = driver(method, way if method.endswith("join") else "key", shards)
    by_step(topology, [*steps, *((topic, key, None, 1_000) for topic, key in used)], cuts)
    assert topology.rows_in_stores() == 0


def test_a_row_without_a_reference_meets_nothing_and_stays_in_an_anti_join() -> None:
    steps: list[Step] = [("right", "p", "x|1", 1), ("left", "a", "no reference", 2), ("left", "b", "x|2", 3)]
    assert run(driver("anti_join", "value"), *steps) == [("a", "no reference", 2), ("b", None, 3)]
    assert run(driver("semi_join", "value"), *steps) == [("b", "x|2", 3)]


def test_names_and_stores_are_those_of_the_last_operator() -> None:
    builder = arrow_builder("test")
    left, right = tables(builder, "left", "right")
    assert left.semi_join(right, on=REF, name="known", store="known-rows").name == "known"
    assert left.distinct(name="values", store="all-values").name == "values"
    assert left.anti_join(right, on=REF).name == "anti_join-left-right"


def test_tables_that_do_not_fit_are_refused() -> None:
    builder = arrow_builder("test")
    left, right = tables(builder, "left", "right")
    number = LIBRARY.lift(lambda value: 1, "long")
    with pytest.raises(TopologyError, match="The two tables of union have values of different types"):
        left.union(right.map_values(number))
    with pytest.raises(TopologyError, match="Values of two types are never equal"):
        left.semi_join(right, on=(REF, number))
    with pytest.raises(TopologyError, match="two ways to say what joins"):
        left.anti_join(right, on=REF, foreign_key=REF)
    with pytest.raises(TopologyError, match="needs the key to look up"):
        left.semi_join(builder.global_table("codes", key="string", value="string"))
