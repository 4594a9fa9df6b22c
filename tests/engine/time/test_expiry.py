"""Tables whose rows expire: when and where tombstones come, what joins see, what is kept and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.kit import PLUS
from tests.plans.test_changes import Build, change
from watersmeet.errors import TopologyError, WatersmeetError

Row = tuple[str, str, str | None, int]


def results(build: Callable[[Any], Any], rows: Sequence[Row]) -> list[tuple[Any, Any, int]]:
    """What a topology makes of rows of its inputs, the same however they are cut and sharded."""
    builder = arrow_builder("expiry")
    build(builder).to("out")
    topology, found = builder.build(), []
    for shards, cuts in ((1, ()), (2, range(1, len(rows))), (3, range(0, len(rows), 3))):
        driver = EngineDriver(topology, shards=shards)
        for begin, end in pairwise(sorted({0, len(rows), *cuts})):
            for source, key, value, ts in rows[begin:end]:
                driver.pipe(source, key, value, ts=ts)
            driver.run_batch()
        found.append([(result.key, result.value, result.ts) for result in driver.read("out")])
    assert found[1:] == found[:-1]
    return found[0]


def table(builder: Any, **options: Any) -> Any:
    return builder.table("table", key="string", value="string", **options)


def test_a_join_does_not_find_a_row_that_has_expired() -> None:
    def build(builder: Any) -> Any:
        stream = builder.stream("stream", key="string", value="string")
        return stream.left_join(table(builder, ttl="10 ms"), lambda left, right: pc.coalesce(right, "none"))

    rows: list[Row] = [
        ("table", "a", "x", 0),
        ("stream", "a", "1", 5),
        ("stream", "a", "2", 9),
        ("stream", "a", "3", 10),
        ("table", "a", "y", 11),
        ("stream", "a", "4", 20),
        ("stream", "a", "5", 21),
    ]
    assert [value for _, value, _ in results(build, rows)] == ["x", "x", "none", "y", "none"]


def test_an_aggregate_of_a_table_takes_back_what_expires() -> None:
    def build(builder: Any) -> Any:
        one = lambda value: pa.array(["all"] * len(value), pa.string())  # noqa: E731
        return table(builder, ttl="10 ms").group_by(lambda value: (one(value), value)).count()

    rows: list[Row] = [("table", "a", "x", 0), ("table", "b", "y", 4), ("table", "c", "z", 12), ("table", "c", "z", 14)]
    assert [value for _, value, _ in results(build, rows)] == [1, 2, 1, 2, 1, 1]


def test_a_row_that_is_updated_at_the_same_stream_time_in_another_batch_expires_once() -> None:
    rows: list[Row] = [("table", "a", str(n), 7) for n in range(4)]
    rows += [("table", "b", "x", 7), ("table", "b", "y", 30)]
    found = results(lambda builder: table(builder, ttl="10 ms", store="kept"), rows)
    assert [row for row in found if row[1] is None] == [("a", None, 17), ("b", None, 17)]


def test_a_join_by_foreign_key_deletes_its_results_when_a_side_expires() -> None:
    def build(builder: Any) -> Any:
        left = builder.table("left", key="string", value="string")
        plus = lambda one, other: pc.binary_join_element_wise(one, other, "+")  # noqa: E731
        return left.join(table(builder, ttl="10 ms"), plus, foreign_key=lambda value: value)

    rows: list[Row] = [("left", "1", "a", 0), ("table", "a", "x", 2), ("table", "b", "y", 30)]
    assert results(build, rows) == [("1", "a+x", 2), ("1", None, 12)]


def test_a_computed_table_expires_behind_its_changes() -> None:
    def build(builder: Any) -> Any:
        counts = builder.stream("in", key="string", value="string").group_by_key().count()
        return counts.to_stream().to_table(ttl="10 ms")

    rows: list[Row] = [("in", "a", "x", 0), ("in", "a", "x", 5), ("in", "b", "x", 20), ("in", "a", "x", 21)]
    assert results(build, rows) == [("a", 1, 0), ("a", 2, 5), ("a", None, 15), ("b", 1, 20), ("a", 3, 21)]


def test_a_table_with_a_history_behind_one_that_expires_has_the_end_of_a_row_as_a_version() -> None:
    def build(builder: Any) -> Any:
        lasting = builder.stream("table", key="string", value="string").to_table(ttl="10 ms")
        versions = lasting.to_stream().to_table(history="1 second")
        stream = builder.stream("stream", key="string", value="string")
        return stream.left_join(versions, lambda left, right: pc.coalesce(right, "none"))

    rows: list[Row] = [
        ("table", "a", "x", 0),
        ("table", "other", "moves time", 100),
        ("stream", "a", "as of 9", 9),
        ("stream", "a", "as of 10", 10),
    ]
    assert [value for _, value, _ in results(build, rows)] == ["x", "none"]


@pytest.mark.parametrize(
    ("act", "hint"),
    [
        (lambda b, one, other: one.join(other, PLUS, ttl="1 day"), "to_table(ttl='1 day')"),
        (lambda b, one, other: b.global_table("g", key="string", value="string", ttl="1 day"), "no stream time"),
        (lambda b, one, other: b.table("v", key="string", value="string", ttl="1 day", history="1 day"), "to_stream()"),
    ],
    ids=["join", "global table", "history"],
)
def test_what_cannot_expire_is_refused_and_the_hint_says_what_can(act: Any, hint: str) -> None:
    builder = arrow_builder("expiry")
    one, other = (builder.table(name, key="string", value="string") for name in ("one", "other"))
    with pytest.raises(WatersmeetError) as caught:
        act(builder, one, other)
    assert "ttl=" in str(caught.value)
    assert hint in str(caught.value).partition("Hint:")[2]


def test_rows_that_are_gone_leave_nothing_behind() -> None:
    builder = arrow_builder("expiry")
    table(builder, ttl="10 ms", store="kept").to("out")
    driver = EngineDriver(builder.build())
    for n in range(200):
        driver.pipe("table", f"k{n}", "v", ts=n)
        driver.run_batch()
    assert driver.rows_in_stores() < 100


def expiring(ttl: str) -> Build:
    def build(builder: Any) -> None:
        stream = builder.stream("in", key="string", value="string")
        stream.to_table(ttl=ttl, store="kept").to("out")

    return build


def test_another_ttl_goes_on_with_the_rows_and_their_ends() -> None:
    found = change(expiring("10 ms"), expiring("1 hour"))
    assert found.possible
    assert all(each.table == each.from_table for each in found.continued)
    assert len(found.continued) == 2


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"ttl": "0 ms"}, "ttl='0 ms'", "1 hour"),
        ({"ttl": "soon"}, "'soon'", "timedelta"),
        ({"ttl": "1 hour", "since": "insert"}, "since='insert'", "since='record'"),
        ({"since": "record"}, "since='record'", "ttl="),
        ({"ttl": "1 hour", "history": "1 day"}, "history='1 day'", "history="),
    ],
)
def test_what_says_no_time_to_live_is_refused_with_the_value_and_a_hint(
    options: dict[str, Any], said: str, hint: str
) -> None:
    for make in (
        lambda builder: table(builder, **options),
        lambda builder: builder.stream("in", key="string", value="string").to_table(**options),
    ):
        with pytest.raises(TopologyError) as caught:
            make(arrow_builder("expiry"))
        told, _, cure = str(caught.value).partition("Hint:")
        assert said in told.splitlines()[0]
        assert hint in cure
