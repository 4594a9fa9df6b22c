"""Stores that processors share, and tables that they read: one sequence, whatever the batches and shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.processors import ListStore, ValueStore

Row = tuple[str, str, str | None, int]
"""Input, key, value, timestamp."""


def results(build: Callable[[Any], Any], rows: Sequence[Row], out: Sequence[str] = ("out",)) -> list[Any]:
    """All results; the same however the rows are cut and sharded."""
    builder = arrow_builder("shared")
    build(builder)
    topology, found = builder.build(), []
    for shards, cuts in ((1, ()), (2, range(1, len(rows))), (3, range(0, len(rows), 2))):
        driver = EngineDriver(topology, shards=shards)
        for begin, end in pairwise(sorted({0, len(rows), *cuts})):
            for name, key, value, ts in rows[begin:end]:
                driver.pipe(name, key, value, ts=ts)
            driver.run_batch()
        found.append([(each.key, each.value, each.ts) for name in out for each in driver.read(name)])
    assert found[1:] == found[:-1]
    return found[0]


def streams(builder: Any, *names: str) -> list[Any]:
    return [builder.stream(name, key="string", value="string") for name in names]


class Put:
    """Keeps what comes."""

    def init(self, context: Any) -> None:
        self.last = context.get_store("last")

    def process(self, record: Any, context: Any) -> None:
        self.last.put(record.value)
        context.forward(value=f"put {record.value}")


class Get:
    """Tells what the other one has kept."""

    def init(self, context: Any) -> None:
        self.last = context.get_store("last")

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=f"{record.value} sees {self.last.get()}")


def test_processors_that_are_given_one_object_share_the_store_and_see_it_in_the_order_of_the_records() -> None:
    def build(builder: Any) -> None:
        last = ValueStore("last", "string")
        one, other = streams(builder, "one", "other")
        one.process_values(Put, value="string", stores=[last], name="put").to("out")
        other.process_values(Get, value="string", stores=[last], name="get").to("seen")

    rows = [
        ("other", "a", "1", 0),
        ("one", "a", "2", 1),
        ("other", "a", "3", 2),
        ("other", "b", "4", 3),
        ("one", "b", "5", 4),
        ("one", "a", "6", 5),
        ("other", "a", "7", 6),
        ("other", "b", "8", 6),
    ]
    assert results(build, rows, ["seen"]) == [
        ("a", "1 sees None", 0),
        ("a", "3 sees 2", 2),
        ("b", "4 sees None", 3),
        ("a", "7 sees 6", 6),
        ("b", "8 sees 5", 6),
    ]
    assert results(build, rows, ["out"]) == [("a", "put 2", 1), ("b", "put 5", 4), ("a", "put 6", 5)]


def test_of_one_record_that_comes_to_both_the_one_that_was_declared_first_sees_it_first() -> None:
    def build(builder: Any) -> None:
        last = ValueStore("last", "string")
        (one,) = streams(builder, "one")
        read = one.process_values(Get, value="string", stores=[last])
        written = one.process_values(Put, value="string", stores=[last])
        read.merge(written).merge(one.process_values(Get, value="string", stores=[last], name="behind")).to("out")

    assert [value for _, value, _ in results(build, [("one", "a", "1", 0), ("one", "a", "2", 1)])] == [
        "1 sees None",
        "put 1",
        "1 sees 1",
        "2 sees 1",
        "put 2",
        "2 sees 2",
    ]


class Wait:
    """Collects, and sends all by a timer."""

    def __init__(self, every: int, sign: str) -> None:
        self._every, self._sign = every, sign

    def init(self, context: Any) -> None:
        self.all = context.get_store("all")

    def process(self, record: Any, context: Any) -> None:
        self.all.append(record.value)
        context.set_timer(record.timestamp + self._every)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.all.append(self._sign)
        context.forward(value=f"{self._sign} {''.join(self.all.get())}", key=f"{key}{self._sign}")


def test_timers_of_processors_that_share_a_store_fire_in_one_order_and_send_keys_of_their_own() -> None:
    def build(builder: Any) -> None:
        kept = ListStore("all", "string")
        one, other = streams(builder, "one", "other")
        for number, (stream, sign) in enumerate(((one, "+"), (other, "-"))):
            made = lambda number=number, sign=sign: Wait(10 - 5 * number, sign)  # noqa: E731
            stream.process(made, value="string", stores=[kept], name=f"wait-{number}").to("out")

    rows = [("one", "a", "1", 0), ("other", "a", "2", 5), ("one", "a", "3", 5), ("one", "b", "4", 100)]
    assert results(build, rows) == [
        ("a+", "+ 123+", 10),
        ("a-", "- 123+-", 10),
        ("a+", "+ 123+-+", 15),
    ]


class Look:
    """Tells what the table holds, now and by a timer."""

    def init(self, context: Any) -> None:
        self.table = context.table("table")

    def process(self, record: Any, context: Any) -> None:
        context.set_timer(record.timestamp + 10)
        context.forward(value=f"{record.value} sees {self.table.get()}")

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=f"timer sees {self.table.get()}")


def test_a_processor_sees_the_row_of_its_key_where_its_record_or_its_timer_stands() -> None:
    def build(builder: Any) -> None:
        table = builder.table("rows", key="string", value="string", store="kept")
        (one,) = streams(builder, "one")
        one.process_values(Look, value="string", tables={"table": table}).to("out")

    rows = [
        ("one", "a", "1", 0),
        ("rows", "a", "A", 1),
        ("rows", "b", "B", 1),
        ("one", "a", "2", 2),
        ("rows", "a", "AA", 9),
        ("rows", "a", "AAA", 10),
        ("rows", "a", None, 11),
        ("rows", "c", "C", 20),
        ("one", "a", "3", 21),
        ("one", "b", "4", 22),
    ]
    assert results(build, rows) == [
        ("a", "1 sees None", 0),
        ("a", "2 sees A", 2),
        ("a", "timer sees AA", 10),
        ("a", "timer sees None", 12),
        ("a", "3 sees None", 21),
        ("b", "4 sees B", 22),
    ]


def test_of_one_record_that_changes_the_table_and_comes_to_the_processor_the_change_is_seen_as_a_join_sees_it() -> None:
    class Beside(Look):
        def process(self, record: Any, context: Any) -> None:
            context.forward(value=f"{record.value}{self.table.get()}")

    def build(builder: Any) -> None:
        (one,) = streams(builder, "one")
        filtered = one.filter(lambda value: pc.not_equal(value, "2"))
        tables = [one.to_table(), filtered.to_table(), one.map_values(lambda value: pc.utf8_upper(value)).to_table()]
        both = lambda left, right: pc.binary_join_element_wise(left, right, "")  # noqa: E731
        for number, table in enumerate(tables):
            one.process_values(Beside, value="string", tables={"table": table}).to(f"seen-{number}")
            one.left_join(table, both).to(f"joined-{number}")

    rows = [("one", "a", "1", 0), ("one", "a", "2", 1), ("one", "b", "3", 2), ("one", "a", "x", 2)]
    for number, told in enumerate(("11 22 33 xx", "11 21 33 xx", "11 22 33 xX")):
        seen = results(build, rows, [f"seen-{number}"])
        assert " ".join(value for _, value, _ in seen) == told
        assert seen == results(build, rows, [f"joined-{number}"])


class AsOf:
    """Tells what a versioned table held at its own time, and at another one."""

    def init(self, context: Any) -> None:
        self.table = context.table("table")

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=f"{self.table.get()} {self.table.get(as_of=int(record.value))}")


def test_a_versioned_table_is_read_as_of_the_records_time_or_of_any_other() -> None:
    def build(builder: Any) -> None:
        table = builder.table("rows", key="string", value="string", history="20 milliseconds")
        (one,) = streams(builder, "one")
        one.process_values(AsOf, value="string", tables={"table": table}).to("out")

    rows = [
        ("rows", "a", "A", 0),
        ("rows", "a", "B", 10),
        ("one", "a", "9", 10),
        ("one", "a", "10", 5),
        ("rows", "a", None, 15),
        ("one", "a", "14", 15),
        ("rows", "a", "C", 40),
        ("rows", "a", "late", 12),
        ("one", "a", "21", 41),
        ("one", "a", "16", 12),
    ]
    assert [value for _, value, _ in results(build, rows)] == ["B A", "A B", "None B", "C None", "None None"]


class Rate:
    """Converts by a rate of any currency."""

    def init(self, context: Any) -> None:
        self.rates = context.global_table("rates")

    def process(self, record: Any, context: Any) -> None:
        context.set_timer(record.timestamp + 5)
        context.forward(value=f"{self.rates.get('usd')} {self.rates.get(record.value)} {self.rates.get(None)}")

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=f"timer {self.rates.get('usd')}")


def test_a_global_table_is_read_by_any_key_and_its_changes_are_seen_by_what_stands_behind_them() -> None:
    def build(builder: Any) -> None:
        rates = builder.global_table("rates", key="string", value="string", store="rates")
        (one,) = streams(builder, "one")
        one.process_values(Rate, value="string", tables=[rates]).to("out")

    rows = [
        ("one", "a", "usd", 0),
        ("rates", "usd", "1", 0),
        ("rates", "eur", "2", 0),
        ("one", "b", "eur", 1),
        ("rates", "usd", None, 2),
        ("one", "a", "usd", 3),
        ("rates", "usd", "3", 4),
        ("one", "c", "eur", 20),
    ]
    assert [(key, value) for key, value, _ in results(build, rows)] == [
        ("a", "None None None"),
        ("b", "1 2 None"),
        ("a", "None None None"),
        ("a", "timer 3"),
        ("b", "timer 3"),
        ("a", "timer 3"),
        ("c", "3 2 None"),
    ]


# -- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda one, table: one.process_values(Look, value="string", tables=table), "come by name: tables="),
        (lambda one, table: one.process_values(Look, value="string", tables=[table]), "has no store, and so no name"),
        (lambda one, table: one.process_values(Look, value="string", tables={"table": one}), "not the stream 'one'"),
        (lambda one, table: one.process_values(Look, value="string", tables={"": table}), "must be a text"),
        (
            lambda one, table: one.select_key(lambda value: pc.utf8_length(value)).process_values(
                Look, value="string", tables={"table": table}
            ),
            "have different key types",
        ),
    ],
)
def test_what_cannot_be_read_is_said_where_it_is_given(wrong: Callable[..., Any], said: str) -> None:
    builder = arrow_builder("wrong")
    table = builder.table("rows", key="string", value="string")
    with pytest.raises(TopologyError) as raised:
        wrong(*streams(builder, "one"), table)
    assert said in str(raised.value)


def test_two_stores_of_one_name_are_shared_only_where_they_are_one_object() -> None:
    builder = arrow_builder("wrong")
    (one,) = streams(builder, "one")
    one.process_values(Put, value="string", stores=[ValueStore("last", "string")])
    with pytest.raises(TopologyError, match="Two processors have stores of one name, 'last', and do not share one"):
        one.process_values(Get, value="string", stores=[ValueStore("last", "string")])


def test_a_processor_behind_one_that_it_shares_a_store_with_is_refused() -> None:
    builder, last = arrow_builder("wrong"), ValueStore("last", "string")
    (one,) = streams(builder, "one")
    put = one.process_values(Put, value="string", stores=[last], name="put")
    put.filter(lambda value: pc.equal(value, "a")).process_values(Get, value="string", stores=[last], name="get")
    with pytest.raises(TopologyError, match="'get' shares a store with 'put', and stands behind it"):
        builder.build()


def test_processors_that_share_a_store_have_keys_of_one_type() -> None:
    builder, last = arrow_builder("wrong"), ValueStore("last", "string")
    (one,) = streams(builder, "one")
    one.process_values(Put, value="string", stores=[last], name="put")
    one.select_key(lambda value: pc.utf8_length(value)).process_values(Get, value="string", stores=[last], name="get")
    with pytest.raises(TopologyError, match="share a store, and their keys have different types"):
        builder.build()


def test_a_table_that_is_not_read_is_asked_for_in_vain() -> None:
    builder = arrow_builder("wrong")
    table = builder.table("rows", key="string", value="string")
    (one,) = streams(builder, "one")
    one.process_values(Look, value="string", tables={"other": table}).to("out")
    driver = EngineDriver(builder.build())
    driver.pipe("one", "a", "1", ts=0)
    with pytest.raises(FunctionError, match=r"does not read a table 'table'"):
        driver.run_batch()


def test_what_a_table_gives_is_the_processors_own() -> None:
    class Change:
        def init(self, context: Any) -> None:
            self.table = context.table("table")

        def process(self, record: Any, context: Any) -> None:
            self.table.get().append(9)
            context.forward(value=f"{self.table.get()}")

    class Listed:
        def process(self, record: Any, context: Any) -> None:
            context.forward(value=[1])

    builder = arrow_builder("own")
    rows, one = streams(builder, "rows", "one")
    table = rows.process_values(Listed, value=pa.list_(pa.int64())).to_table()
    one.process_values(Change, value="string", tables={"table": table}).to("out")
    driver = EngineDriver(builder.build())
    driver.pipe("rows", "a", "1", ts=0)
    driver.pipe("one", "a", "1", ts=1)
    driver.run_batch()
    assert [each.value for each in driver.read("out")] == ["[1]"]
