"""The latest row of each key, from the changes that a topology wrote."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

import watersmeet as wm


def test_the_last_change_of_each_key_stands_whatever_its_timestamp_and_tombstones_are_gone(spark: SparkSession) -> None:
    def key(name: str | None) -> Row | None:
        return Row(name=name) if name else None

    changes = [
        (key("a"), "old", 900, 1),
        (key("a"), "new", 100, 1 << 32),
        (key("b"), "here", 5, 7),
        (key("b"), None, 5, 8),
        (None, "of no row", 1, 9),
        (key("c"), "again", 5, 12),
        (key("c"), None, 5, 11),
    ]
    frame = spark.createDataFrame(changes, "key struct<name string>, value string, at long, sequence long")
    rows = sorted((row["key"]["name"], row["value"], row["at"]) for row in wm.latest(frame.repartition(3)).collect())
    assert rows == [("a", "new", 100), ("c", "again", 5)]
    assert wm.latest(frame).columns == frame.columns


def test_a_frame_without_the_columns_and_a_stream_are_refused(spark: SparkSession) -> None:
    with pytest.raises(wm.ConfigError, match=r"missing: value, sequence(.|\n)*Hint: "):
        wm.latest(spark.createDataFrame([(1,)], "key int"))
    rate = spark.readStream.format("rate").load().selectExpr("value as key", "value", "value as sequence")
    with pytest.raises(wm.ConfigError, match="this one is streaming"):
        wm.latest(rate)
