"""Hints that answer with a whole recipe: the recipe is taken from the hint, and does what was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.errors import MissingName
from watersmeet.testing.driver import TopologyTestDriver

TEXTS: dict[str, Any] = {"key": "string", "value": "string"}
CLICKS = [("a", "x", 1), ("a", "x", 2), ("b", "x", 3), ("a", "y", 4), ("b", "x", 15)]


def recipe(handle: Any, name: str) -> Any:
    """What the hint for a name says, done with the handle."""
    with pytest.raises(MissingName) as error:
        getattr(handle, name)
    text = str(error.value.hint).removeprefix("Here it is ").split(", which ")[0].rstrip(".")
    return eval(f"handle.{text}", {"wm": wm}, {"handle": handle})


def results(builder: wm.StreamsBuilder, made: Any, topic: str = "in") -> list[tuple[Any, Any, int]]:
    made.to("out", **({"key": "string", "value": "string"} if isinstance(made, wm.KStream) else {}))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic(topic)
        for key, value, ts in CLICKS:
            source.pipe_input(key, value, ts=ts)
        return [(r.key, r.value, r.ts) for r in driver.create_output_topic("out").read_records()]


@pytest.mark.parametrize("name", ["dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark"])
def test_the_hint_for_duplicates_of_a_stream_passes_the_first_record_of_each_key(
    spark: SparkSession, name: str
) -> None:
    builder = wm.StreamsBuilder("recipes")
    stream = builder.stream("in", **TEXTS)
    assert results(builder, recipe(stream, name)) == [("a", "x", 1), ("b", "x", 3)]


def test_the_hint_for_duplicates_of_a_table_gives_the_values_that_stand(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("recipes")
    table = builder.table("in", **TEXTS)
    rows = results(builder, recipe(table, "dropDuplicates"))
    assert {key: value for key, value, _ in rows} == {"x": "x", "y": "y"}


def test_the_hint_for_group_by_key_of_a_windowed_table_puts_the_windows_of_a_key_together(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("recipes")
    windows = builder.stream("in", **TEXTS).group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("10 ms"))
    grouped = recipe(windows.count(), "group_by_key")
    made = grouped.agg(total=wm.sum(lambda count: count)).map_values(lambda row: row["total"])
    assert results(builder, made) == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("a", 3, 4), ("b", 2, 15)]
