"""Datetimes without a zone, which would be read in the machine's zone: refused wherever a user can give one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType, TimestampNTZType, TimestampType

import watersmeet as wm
from watersmeet._engine.rows import WITH_ZONE
from watersmeet._spark.serving.client import _millis, key_as_json
from watersmeet.errors import ConfigError, FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
NAIVE, ZONED = datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)


def orders(builder: wm.StreamsBuilder) -> Any:
    return builder.stream("orders", key="string", value=wm.json("at timestamp, n int"))


FUNCTIONS: dict[str, Callable[[Any, datetime], Any]] = {
    "a comparison": lambda stream, time: stream.filter(lambda v: v["at"] >= time),
    "a literal": lambda stream, time: stream.map_values(lambda v: F.lit(time)),
    "one of a list": lambda stream, time: stream.filter(lambda v: v["at"].isin([time])),
    "a value of when": lambda stream, time: stream.map_values(lambda v: F.when(v["n"] > 1, time)),
    "a key": lambda stream, time: stream.group_by(lambda k, v: F.greatest(v["at"], F.lit(time))),
    "a time of its own": lambda stream, time: stream.to_table().filter(lambda v: v["at"].between(time, time)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_naive_datetime_in_a_function_of_columns_is_refused_on_the_users_line(function: Any) -> None:
    stream = orders(wm.StreamsBuilder("app"))
    with pytest.raises(FunctionError) as caught:
        function(stream, NAIVE)
    assert "datetime.datetime(2026, 1, 1, 0, 0)" in str(caught.value)
    assert f"Hint: {WITH_ZONE}" in str(caught.value)
    assert "test_naive_times.py" in str(caught.value)
    function(stream, ZONED)
    # outside of a function of ours PySpark does as it does
    assert F.lit(NAIVE) is not None


def test_a_piped_timestamp_needs_its_zone_wherever_it_lies_and_one_without_zone_has_none() -> None:
    builder = wm.StreamsBuilder("app")
    kind = "at timestamp, many array<timestamp>, by map<string,timestamp>, here timestamp_ntz"
    builder.stream("in", key="string", value=wm.json(kind)).to("out")
    driver = TopologyTestDriver(builder.build())
    for value, place in (
        ({"at": NAIVE}, "value.at"),
        ({"many": [ZONED, NAIVE]}, r"value.many\[1\]"),
        ({"by": {"a": NAIVE}}, r"value.by\['a'\]"),
    ):
        with pytest.raises(TopologyError, match=rf"{place}.*a time needs its zone"):
            driver.pipe("in", "k", value, ts=0)
    driver.pipe("in", "k", {"at": ZONED, "here": NAIVE}, ts=0)
    assert len(driver.read("out")) == 1


def test_results_that_come_back_are_piped_as_they_are() -> None:
    builder = wm.StreamsBuilder("app")
    stream = builder.stream("in", key="string", value=wm.json("at timestamp, n int"))
    again = stream.filter(lambda v: v["n"] < 2).map_values(
        lambda v: F.struct(v["at"], (v["n"] + 1).cast("int").alias("n"))
    )
    again.to("in", feedback=True)
    stream.map_values(lambda v: F.unix_millis(v["at"])).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", {"at": ZONED, "n": 0}, ts=0)
        assert [each.value for each in driver.read("out")] == [int(ZONED.timestamp() * 1_000)] * 3


def test_a_question_to_a_served_table_takes_times_with_a_zone_alone() -> None:
    with pytest.raises(ConfigError, match="without a zone"):
        _millis("as_of", NAIVE)
    assert (
        _millis("as_of", ZONED) == _millis("as_of", ZONED.astimezone(timezone(timedelta(hours=5)))) == 1_767_225_600_000
    )
    for kind, given in (
        (TimestampType(), NAIVE),
        (StructType([StructField("at", TimestampType()), StructField("n", LongType())]), {"at": NAIVE, "n": 1}),
        (ArrayType(TimestampType()), [NAIVE]),
    ):
        with pytest.raises(ConfigError, match=r"has no zone(.|\n)*tzinfo="):
            key_as_json(kind, given)
    assert key_as_json(TimestampType(), ZONED) == "2026-01-01T00:00:00.000000Z"
    assert key_as_json(TimestampNTZType(), NAIVE) == "2026-01-01T00:00:00.000000"
