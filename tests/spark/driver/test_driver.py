"""The test driver as its user meets it: both sets of names, types looked at where a record is piped, bytes decoded."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

import watersmeet as wm
from watersmeet._spark.formats import Unfit, fitted
from watersmeet.errors import SourceError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.testing.topics import TestRecord

ORDER = "customer string, amount double, at struct<day: date, sums: array<decimal(5,2)>>"


@pytest.fixture(scope="module")
def topology(spark: SparkSession) -> wm.Topology:
    builder = wm.StreamsBuilder("driver")
    orders = builder.table("orders", key="long", value=wm.json(ORDER))
    clicks = builder.stream("clicks", key="long", value="string", on_undecodable="skip", headers=True)
    clicks.join(orders, lambda click, order: F.concat(click, F.lit(" "), order["customer"])).to("warm")
    orders.map_values(lambda order: F.assert_true(order["amount"] > 0).cast("string")).to("checked")
    orders.map_values(lambda order: order["amount"]).to("amounts")
    return builder.build()


@pytest.fixture
def driver(spark: SparkSession, topology: wm.Topology) -> TopologyTestDriver:
    return TopologyTestDriver(topology, spark)


def test_a_run_has_as_few_tasks_as_its_records_need_whatever_the_session_says(
    spark: SparkSession, topology: wm.Topology
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        driver = TopologyTestDriver(topology, spark)
        driver.pipe("orders", 1, {"amount": 2}, ts=0)
        spark.sparkContext.setJobGroup("few tasks", "")
        assert [record.value for record in driver.read("amounts")] == [2.0]
        assert spark.conf.get("spark.sql.shuffle.partitions") == "200"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("few tasks")]
    stages = [tracker.getStageInfo(stage) for info in infos if info for stage in info.stageIds]
    assert stages
    assert max(stage.numTasks for stage in stages if stage) <= 2


def test_kafkas_names_do_what_pipe_and_read_do(driver: TopologyTestDriver) -> None:
    driver.advance_wall_clock_time("5 seconds")
    orders = driver.create_input_topic("orders")
    clicks = driver.create_input_topic("clicks", start_ts=10, auto_advance="2 ms")
    warm, amounts = driver.create_output_topic("warm"), driver.create_output_topic("amounts")
    orders.pipe_input(1, {"customer": "ann", "amount": 3})
    clicks.pipe_input(1, "home", headers=[("id", b"7")])
    clicks.pipe_key_value_list([(1, "shop"), (2, "lost")])
    clicks.pipe_input("no key")
    clicks.pipe_value_list(["nor here"])
    clicks.pipe_input(TestRecord(1, "exit", 3, (("id", b"8"),)))
    clicks.pipe_input(1, "again", 4)
    clicks.pipe_input(1, "end")
    assert not warm.is_empty()
    assert warm.queue_size() == 5
    first = warm.read_record()
    assert first == TestRecord(1, "home ann", 10, (("id", b"7"),))
    assert warm.read_value() == "shop ann"
    assert [(r.key, r.value, r.ts, r.headers) for r in warm.read_records()] == [
        (1, "exit ann", 3, (("id", b"8"),)),
        (1, "again ann", 4, ()),
        (1, "end ann", 20, ()),
    ]
    assert warm.is_empty()
    assert driver.read("warm") == []
    assert [record.ts for record in driver.read("amounts", limit=1)] == [5_000]
    orders.pipe_key_value_list([(1, {"amount": 4.5}), (2, {"amount": 5}), (1, None)])
    assert amounts.read_key_value() == (1, 4.5)
    assert amounts.read_key_values_to_map() == {2: 5.0, 1: None}
    assert amounts.read_values() == []


def test_an_output_without_a_further_record_says_so(driver: TopologyTestDriver) -> None:
    with pytest.raises(TopologyError, match="no further record") as caught:
        driver.create_output_topic("warm").read_value()
    assert "'warm'" in str(caught.value)


def test_unknown_names_are_refused_with_those_there_are(driver: TopologyTestDriver) -> None:
    for call in (lambda: driver.create_input_topic("order"), lambda: driver.pipe("order", 1, None, ts=0)):
        with pytest.raises(TopologyError, match="Inputs: orders, clicks"):
            call()
    for ask in (lambda: driver.create_output_topic("w"), lambda: driver.read("w")):
        with pytest.raises(TopologyError, match="Outputs: warm, checked, amounts"):
            ask()


def test_a_closed_driver_says_that_it_is(spark: SparkSession, topology: wm.Topology) -> None:
    with TopologyTestDriver(topology, spark) as driver:
        orders, amounts = driver.create_input_topic("orders"), driver.create_output_topic("amounts")
    for call in (lambda: orders.pipe_input(1, None), amounts.is_empty, lambda: driver.advance_wall_clock_time("1 s")):
        with pytest.raises(TopologyError, match="closed"):
            call()


def test_a_record_of_other_types_is_refused_where_it_is_piped_and_leaves_nothing_behind(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("orders", 1, {"amount": 2}, ts=0)
    for key, value, what in (
        ("1", None, "key: '1' is of the type str, not bigint"),
        (1, {"amuont": 2}, "value: there is no field 'amuont'; the fields are customer, amount, at"),
        (1, {"amount": "2"}, "value.amount: '2' is of the type str, not double"),
        (1, {"at": {"sums": [1, "x"]}}, "value.at.sums[1]: 'x' is of the type str"),
        (1, "text", "value: 'text' is of the type str, not struct"),
    ):
        with pytest.raises(TopologyError) as caught:
            driver.pipe("orders", key, value, ts=0)
        assert f"input 'orders': {what}" in str(caught.value)
        assert f"record 1: key={key!r}, value={value!r}" in str(caught.value)
        assert "Hint: ts: ms since 1970; key: bigint; value: struct<" in str(caught.value)
    with pytest.raises(TopologyError, match=r"ts: 1\.5 is of the type float"):
        driver.pipe("orders", 1, None, ts=1.5)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"headers\[0\].value: 'x' is of the type str, not binary"):
        driver.pipe("clicks", 1, None, ts=0, headers=[("a", "x")])  # type: ignore[list-item]
    driver.pipe("orders", 1, Row(customer="ann", amount=3.0, at=None), ts=1)
    driver.pipe("orders", 1, ("ann", 4, (date(2026, 1, 1), [1, Decimal("2.5")])), ts=2)
    assert [record.value for record in driver.read("amounts")] == [2.0, 3.0, 4.0]


def test_bytes_of_a_topic_are_decoded_as_in_production(driver: TopologyTestDriver) -> None:
    orders = driver.create_input_topic("orders")
    text = b'{"amount": 2, "customer": "b\xc3\xa9a", "at": {"day": "2026-01-02", "sums": [1.5]}, "more": 1}'
    orders.pipe_input((7).to_bytes(8, "big"), text)
    with pytest.raises(SourceError, match="topic orders, partition 0, offset 1, value as json: not JSON"):
        orders.pipe_input(7, b'{"amount": 2} 3')
    with pytest.raises(SourceError, match="key as long: long takes 8 bytes, there are 2"):
        orders.pipe_input(b"\x00\x01", None)
    driver.pipe("clicks", 7, b"home", ts=0)
    driver.pipe("clicks", 7, b"\xff", ts=1)
    assert [(r.key, r.value) for r in driver.read("warm")] == [(7, "home béa")]
    assert {reason: count for (_, reason), count in driver.drops.items()} == {"undecodable": 1}


def test_records_on_which_a_function_fails_are_taken_back(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", 1, {"amount": 1}, ts=0)
    assert [record.ts for record in driver.read("checked")] == [0]
    driver.pipe("orders", 1, {"amount": -1}, ts=1)
    driver.pipe("orders", 1, {"amount": 2}, ts=2)
    with pytest.raises(Exception, match="is not true") as caught:
        driver.read("checked")
    assert "2 records piped since the last read" in caught.value.__notes__[0]
    driver.pipe("orders", 1, {"amount": 3}, ts=3)
    assert [record.ts for record in driver.read("checked")] == [3]
    assert [record.value for record in driver.read("amounts")] == [1.0, 3.0]


FITTING: list[tuple[Any, str, Any]] = [
    (True, "boolean", True),
    (127, "tinyint", 127),
    (2**53, "double", float(2**53)),
    (1.5, "float", 1.5),
    (bytearray(b"a"), "binary", b"a"),
    ({"a": 1}, "map<string,double>", {"a": 1.0}),
    (Decimal("-99.90000"), "decimal(3,1)", Decimal("-99.90000")),
    (0, "decimal(1,1)", Decimal(0)),
    (Decimal("1E+2"), "decimal(3,0)", Decimal("1E+2")),
    (datetime(2026, 1, 1), "timestamp", datetime(2026, 1, 1)),
    (date(2026, 1, 1), "date", date(2026, 1, 1)),
    ((), "struct<>", ()),
]


@pytest.mark.parametrize(("value", "kind", "expected"), FITTING)
def test_a_value_that_fits_becomes_one_that_spark_takes(value: Any, kind: str, expected: Any) -> None:
    found = fitted(value, DataType.fromDDL(kind), "value")
    assert found == expected
    assert type(found) in (type(expected), Row)


REFUSED: list[tuple[Any, str, str]] = [
    (1, "boolean", "not boolean"),
    (True, "int", "not int"),
    (128, "tinyint", "limits"),
    (2**63, "bigint", "limits"),
    (2**53 + 1, "double", "the nearest one"),
    (True, "double", "not double"),
    (1.0, "bigint", "not bigint"),
    ("a", "binary", "not binary"),
    (b"a", "string", "not string"),
    (Decimal("100"), "decimal(3,1)", "more digits"),
    (Decimal("0.15"), "decimal(3,1)", "more digits"),
    (Decimal("NaN"), "decimal(3,1)", "is no decimal"),
    (1.5, "decimal(3,1)", "not decimal"),
    (datetime(2026, 1, 1), "date", "not date"),
    (date(2026, 1, 1), "timestamp", "not timestamp"),
    ("ab", "array<string>", "not array"),
    ([1], "map<string,int>", "not map"),
    ({None: 1}, "map<string,int>", "may not be"),
    ({"a": None}, "struct<a: int not null>", "may not be"),
    ((1, 2), "struct<a: int>", "2 values are given for the 1 fields"),
]


@pytest.mark.parametrize(("value", "kind", "fault"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_and_never_changed(value: Any, kind: str, fault: str) -> None:
    with pytest.raises(Unfit) as caught:
        fitted(value, DataType.fromDDL(kind), "value")
    assert fault in caught.value.fault
