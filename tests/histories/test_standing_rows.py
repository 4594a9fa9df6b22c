"""The rows that stand behind each record are those that the latest rows of the inputs give (docs/soak.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proof.histories import Case, Input, Op, check
from proof.histories.blueprint import Blueprint
from proof.histories.check import cuts_of, driver_of, run_engine, topology_of
from proof.histories.recomputation import recomputed, wrong_row
from proof.histories.report import page
from proof.histories.subjects.self_joins import self_joined_case_of
from proof.oracle.records import Result
from tests.engine.kit import LIBRARY, PLUS, by_step
from tests.engine.kit import driver_of as kit_driver
from tests.histories.ops import op
from watersmeet._engine.operators import aggregate
from watersmeet._engine.operators.foreign_key_join import Subscriptions

BOSS, WORKER, GONE = Input("n0", "a", "1", 0), Input("n0", "b", "a|4", 1), Input("n0", "a", None, 2)
WITH_BOSS = (op("table"), op("foreign_key", 0, 0, how="left"))
REFERS = (op("foreign_key", 2, 0, how="inner"), op("table_to", 3))
LOST: dict[str, tuple[Op, ...]] = {
    f"{how} join, inputs {sides}": (*WITH_BOSS, op("table_table", *sides, how=how), *REFERS)
    for how in ("inner", "left", "outer")
    for sides in ((0, 1), (1, 0))
}
LEFT, RIGHT, RIGHT_GONE = Input("n0", "b", "a|1", 0), Input("n1", "a", "x", 1), Input("n1", "a", None, 3)
X = (op("table"), op("table"), op("foreign_key", 0, 1, how="inner"))
SHARED: dict[str, tuple[tuple[Op, ...], tuple[Input, ...]]] = {
    "a lookup joined with its own join with its left table": (
        (*X, op("table_table", 2, 0, how="inner"), op("table_table", 2, 3, how="inner"), op("table_to", 4)),
        (LEFT, RIGHT, LEFT._replace(value="a|2", ts=2), RIGHT_GONE, RIGHT._replace(ts=4)),
    ),
    "a table joined with itself and with its lookup": (
        (*X, op("table_table", 0, 0, how="left"), op("table_table", 3, 2, how="inner"), op("table_to", 4)),
        (LEFT, RIGHT, LEFT._replace(value="a|2", ts=2), RIGHT_GONE, RIGHT._replace(ts=4)),
    ),
    "groups of a lookup in a lookup: no group stays that never stood": (
        (*WITH_BOSS, op("foreign_key", 0, 1, how="inner"), op("table_aggregate", 2, fold="count"), op("table_to", 3)),
        (Input("n0", "a", "a|1", 1), Input("n0", "a", "b|4", 2)),
    ),
    "groups of a lookup joined with its table: no group stays that never stood": (
        (*WITH_BOSS, op("table_table", 1, 0, how="left"), op("table_aggregate", 2, fold="count"), op("table_to", 3)),
        (Input("n0", "a\x00", "a|b|7", 20), Input("n0", "a\x00", "1", 26)),
    ),
}


def run(case: Case) -> list[list[Result]]:
    return run_engine(case, driver_of(case, topology_of(case.blueprint)), cuts_of(case))


@pytest.mark.parametrize("name", list(LOST))
@pytest.mark.parametrize("cuts", [(), (1, 2)])
def test_a_row_goes_with_the_row_that_it_refers_to_behind_a_self_join(name: str, cuts: tuple[int, ...]) -> None:
    case = Case(Blueprint(LOST[name]), (BOSS, WORKER, GONE), cuts, shards=3)
    *_, before, after = recomputed(case)
    assert (len(before), len(after)) == (1, 0)
    found = check(case)
    assert found is None, page(found)
    *_, last = run(case)
    assert [(result.key, result.value) for result in last] == [("b", None)]


@pytest.mark.parametrize("name", list(SHARED))
def test_rows_of_joins_that_share_an_input_are_right(name: str) -> None:
    ops, records = SHARED[name]
    for cuts in ((), tuple(range(1, len(records)))):
        found = check(Case(Blueprint(ops), records, cuts))
        assert found is None, page(found)


def test_a_group_that_has_gone_stands_no_more_in_the_batch_that_it_stood_in() -> None:
    ops = (op("table"), op("one_to_many", 0, 0), op("value_set", 1, 1, method="anti_join", way="on"), op("table_to", 2))
    records = tuple(
        Input("n0", key, value, ts)
        for ts, (key, value) in enumerate([("a", "a|b|7"), ("a", None), ("b", "b|5"), ("b", "a|4")])
    )
    for cuts in ((), (2,), (1, 2, 3)):
        found = check(Case(Blueprint(ops), records, cuts))
        assert found is None, page(found)


def test_random_tables_joined_with_themselves_have_the_right_rows() -> None:
    for number in range(160):
        found = check(self_joined_case_of(1, number))
        assert found is None, page(found)


def test_a_deletion_that_is_told_to_nobody_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscriptions, "_unanswered", lambda *arguments: arguments[-1])
    found = check(Case(Blueprint(next(iter(LOST.values()))), (BOSS, WORKER, GONE)))
    assert found is not None
    assert found.check == "rows"
    assert (found.step, found.message) == (2, "('n4', 'b') is 'a|4+a|4+1+1', not None")


def test_a_group_that_never_stood_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate, "_come_and_go", lambda events, *_: np.zeros(len(events), dtype=np.bool_))
    ops, records = SHARED["groups of a lookup joined with its table: no group stays that never stood"]
    found = check(Case(Blueprint(ops), records))
    assert found is not None
    assert found.check == "rows"


def test_a_row_that_stays_as_in_kafka_streams_is_wrong_in_today_s_generation_alone() -> None:
    ops = op("table"), op("table_table", 0, 0, how="inner", stored=True), op("table_to", 1)
    today, earlier = (Case(Blueprint(ops, "string", name), (BOSS, GONE)) for name in ("current", "spurious"))
    lost = run(earlier)
    assert lost[1] == []
    assert check(earlier) is None
    assert check(today) is None
    assert wrong_row(earlier, lost) is None
    assert wrong_row(today, lost) == (1, "('n2', 'a') is '1+1', not None")


@pytest.mark.parametrize("cuts", [frozenset(), frozenset({1, 2, 3})])
def test_of_a_versioned_table_the_row_with_the_largest_timestamp_stands_in_a_join_with_itself(
    cuts: frozenset[int],
) -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string", history="1 hour")
        return table.join(table.filter(LIBRARY.lift(lambda value: value != "none", "boolean")), PLUS)

    steps = [("in", "a", "new", 20), ("in", "a", "late", 10), ("in", "a", None, 5), ("in", "a", None, 30)]
    said = by_step(kit_driver(build), steps, cuts)
    rows = {key: value for results in said[:3] for key, value, _ in results}
    assert rows == {"a": "new+new"}
    assert [(key, value) for key, value, _ in said[3]] == [("a", None)]


def test_a_foreign_key_join_sends_nothing_for_right_rows_that_a_filter_leaves_out() -> None:
    ops = (op("table"), op("table"), op("table_filter", 1, negate=False), op("foreign_key", 0, 2, how="inner"))
    records = Input("n0", "x", "a|1", 0), Input("n1", "a", "1", 1), Input("n1", "a", None, 2)
    case = Case(Blueprint((*ops, op("table_to", 3))), records)
    assert run(case) == [[], [], []]
    assert check(case) is None


def test_a_repartition_leaves_null_keys_out_whatever_joins_read_its_table() -> None:
    ops = (
        op("stream"),
        op("repartition", 0),
        op("select_key", 1),
        op("stream_aggregate", 2, fold="count"),
        op("stream_table", 0, 3, how="left"),
        op("table_to", 3),
        op("to", 4),
    )
    case = Case(Blueprint(ops), (Input("n0", None, "a|1", 0), Input("n0", "a", "a|2", 1)))
    assert [result.value for results in run(case) for result in results if result.sink == "n5"] == ["1"]
    assert check(case) is None


FIRST, SECOND = Input("n0", "a", "1", 0), Input("n0", "b", "2", 9)
WAITS: dict[str, tuple[tuple[Op, ...], tuple[int, str]]] = {
    "suppress": (
        (op("table"), op("suppress", 0, ms=5), op("table_to", 1)),
        (1, "n1, which waits: 'a' is None, not one of ['1', '1']"),
    ),
    "ttl": (
        (op("table"), op("to_stream", 0), op("expiring", 1, ttl=5, record=False), op("table_to", 2)),
        (1, "n2, which waits: 'a' is '1', not one of [None]"),
    ),
}


@pytest.mark.parametrize("name", list(WAITS))
def test_a_table_that_waits_must_show_a_row_in_time(name: str) -> None:
    ops, wrong = WAITS[name]
    case = Case(Blueprint(ops), (FIRST, SECOND))
    assert check(case) is None
    right = run(case)
    sent = (1, [("a", "1" if name == "suppress" else None)])
    assert sent == (1, [(result.key, result.value) for result in right[1] if result.key == "a"])
    kept = [result for result in right[1] if result.key != "a"]
    assert wrong_row(case, [right[0], kept]) == wrong


@pytest.mark.parametrize("name", list(WAITS))
def test_a_join_with_a_table_that_waits_is_made_of_what_stands_there(name: str) -> None:
    ops, _ = WAITS[name]
    number = len(ops)
    joined = (*ops, op("table_table", number - 2, 0, how="inner"), op("table_to", number))
    case = Case(Blueprint(joined), (FIRST, SECOND, FIRST._replace(value="3", ts=12)))
    assert check(case) is None
    steps = run(case)
    place = (f"n{number + 1}", "a")
    standing = [result.value for step in steps for result in step if (result.sink, result.key) == place]
    assert standing[-1] == ("1+3" if name == "suppress" else "3+3")
    lost = [[result for result in step if (result.sink, result.key) != place] for step in steps]
    found = wrong_row(case, lost)
    assert found is not None
    assert str(place) in found[1]


def test_what_a_stream_of_a_versioned_table_brings_late_is_not_taken_for_wrong() -> None:
    late = Input("n0", "a", "1", 5), Input("n0", "a", "2", 3)
    ops = (op("table", history=30), op("to_stream", 0), op("to_table", 1), op("to", 1), op("table_to", 2))
    assert check(Case(Blueprint(ops), late)) is None


def test_what_stands_between_two_records_below_suppress_is_not_taken_for_wrong() -> None:
    ops = (
        *(op("table", history=200), op("suppress", 0, ms=5), op("table_to", 1)),
        *(op("table_table", 0, 1, how="outer"), op("suppress", 3, ms=0), op("table_to", 4)),
    )
    records = Input("n0", "b", "a|4", 0), Input("n0", "b", "1", 124)
    assert check(Case(Blueprint(ops), records)) is None
