"""Partitioners of outputs: what the test driver shows, in its own process and on Spark, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._worker.formats.serdes import UNPLACED, valid_partitions
from watersmeet.errors import FunctionError, SinkError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


def topology(on_error: Any = "fail", **options: Any) -> wm.Topology:
    builder = wm.StreamsBuilder("placed", on_error=on_error)
    stream = builder.stream("in", key="string", value="long")
    by_value = lambda value: F.when(value < 10, value)  # noqa: E731
    stream.to("longs", partitioner=by_value, **options)
    stream.map_values(lambda value: F.struct(value.alias("n"))).to(
        "structs", partitioner=lambda key, value, record: record["offset"].cast("int"), **options
    )
    if on_error != "fail":
        no_3 = lambda value: F.when(value == 3, F.raise_error(F.lit("no 3"))).otherwise(value)  # noqa: E731
        stream.to("refusing", partitioner=no_3)
    stream.to_table().to("table", partitioner=lambda key, value: F.length(key), **options)
    return builder.build()


def fed(driver: TopologyTestDriver, *more: str) -> dict[str, list[tuple[Any, ...]]]:
    for ts, (key, value) in enumerate([("a", 1), ("bb", 30), ("a", 3), ("a", None)]):
        driver.pipe("in", key, value, ts=ts)
    return {name: [(r.key, r.value, r.ts, r.partition) for r in driver.read(name)] for name in (*EXPECTED, *more)}


EXPECTED = {
    "longs": [("a", 1, 0, 1), ("bb", 30, 1, None), ("a", 3, 2, 3), ("a", None, 3, None)],
    "structs": [("a", (1,), 0, 0), ("bb", (30,), 1, 1), ("a", (3,), 2, 2), ("a", None, 3, 3)],
    "table": [("a", 1, 0, 1), ("bb", 30, 1, 2), ("a", 3, 2, 1), ("a", None, 3, 1)],
}


def test_the_driver_shows_the_partition_that_a_partitioner_gives_beside_the_value() -> None:
    driver = TopologyTestDriver(topology())
    assert fed(driver) == EXPECTED
    assert driver.runs_in == "process", driver.why_spark


def test_spark_gives_the_same(spark: SparkSession) -> None:
    with TopologyTestDriver(topology(), spark) as driver:
        assert fed(driver) == EXPECTED


def test_a_record_for_which_a_partitioner_raises_goes_by_on_error() -> None:
    found = fed(TopologyTestDriver(topology(wm.DeadLetter("bad"))), "refusing", "bad")
    assert found["refusing"] == [("a", 1, 0, 1), ("bb", 30, 1, 30), ("a", None, 3, None)]
    assert [(key, value) for key, value, *_ in found["bad"]] == [(b"a", (3).to_bytes(8, "big"))]


def test_a_partition_that_the_topic_has_not_is_what_the_policy_makes_of_it() -> None:
    given, numbers = np.array([0, 2, 3, 7, -1, UNPLACED]), np.zeros(6, dtype=np.int64)

    def by(rule: str) -> list[int]:
        return valid_partitions(given, ["orders"], numbers, np.full(6, 3), {0: rule}).tolist()

    assert by("modulo") == [0, 2, 0, 1, 2, UNPLACED]
    assert by("key") == [0, 2, UNPLACED, UNPLACED, UNPLACED, UNPLACED]
    with pytest.raises(SinkError, match=r"(?s)topic 'orders' has not: 3\..*partitions 0 to 2.*on_invalid_partition="):
        by("fail")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"partitioner": lambda value: value.cast("string")},
            FunctionError,
            "(?s)must give whole numbers, not string.*Hint: partitioner=",
        ),
        ({"partitioner": 3}, FunctionError, "The partitioner must be a function, not 3"),
        ({"on_invalid_partition": "modulo"}, TopologyError, "(?s)has no effect without.*Hint: Give partitioner="),
        (
            {"partitioner": lambda value: value, "on_invalid_partition": "skip"},
            TopologyError,
            '(?s)on_invalid_partition=\'skip\'.*"fail", "modulo" or "key"',
        ),
    ],
)
def test_what_says_no_partition_is_refused_where_it_is_written(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    stream = wm.StreamsBuilder("refused").stream("in", key="string", value="long")
    with pytest.raises(error, match=text):
        stream.to("out", **options)


def test_only_topics_have_partitions() -> None:
    stream = wm.StreamsBuilder("refused").stream("in", key="string", value="long")
    with pytest.raises(TopologyError, match="partitioner"):
        stream.to(wm.Writer("parquet", path="/tmp/x"), name="files", partitioner=lambda value: value)
