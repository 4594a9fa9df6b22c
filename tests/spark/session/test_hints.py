"""Hints about Columns, DataFrames and formats are followed: what each says to write is written, and it works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import WatersmeetError

ROW = wm.json("id long, name string")


class Names:
    """A stream of structs, a DataFrame, and the builder that they belong to."""

    def __init__(self, spark: SparkSession) -> None:
        self.builder = wm.StreamsBuilder("hints")
        self.stream = self.builder.stream("stream", key="long", value=ROW)
        self.frame: DataFrame = spark.createDataFrame([], "id long, at string, day date, n int, name string")

    def read(self, **options: Any) -> wm.KStream:
        """The DataFrame as an input."""
        given = {"name": "rows", "key": "id", "timestamp": F.to_timestamp("at"), "order": ["n"]}
        return self.builder.stream(self.frame, **{**given, **options})


Act = Callable[[Names], Any]
FOLLOWED: list[tuple[Act, str, Act]] = [
    (
        lambda n: n.stream.map_values(lambda value: "constant"),
        "F.lit(",
        lambda n: n.stream.map_values(lambda value: F.lit("constant")),
    ),
    (
        lambda n: n.stream.map_values(lambda value: {"name": value["name"]}),
        "F.struct(",
        lambda n: n.stream.map_values(lambda value: F.struct(value["name"])),
    ),
    (
        lambda n: n.stream.filter(lambda value: value["id"]),
        "Return a boolean Column",
        lambda n: n.stream.filter(lambda value: value["id"] > 0),
    ),
    (
        lambda n: n.stream.map(lambda value: value["id"]),
        "return key, value",
        lambda n: n.stream.map(lambda value: (value["id"], value["name"])),
    ),
    (
        lambda n: n.stream.flat_map_values(lambda value: value["name"]),
        "F.array(...)",
        lambda n: n.stream.flat_map_values(lambda value: F.array(value["name"])),
    ),
    (
        lambda n: n.stream.flat_map(lambda value: F.array(value["name"])),
        "F.array(F.struct(key, value), ...)",
        lambda n: n.stream.flat_map(lambda key, value: F.array(F.struct(key, value))),
    ),
    (
        lambda n: n.stream.flat_map(lambda value: F.array(value["name"])),
        "flat_map_values keeps the key",
        lambda n: n.stream.flat_map_values(lambda value: F.array(value["name"])),
    ),
    (lambda n: n.read(order=None), "order=[...]", lambda n: n.read(order=["day", "n"])),
    (lambda n: n.read(key="ids"), "Its columns are id, at", lambda n: n.read(key="id")),
    (lambda n: n.read(key=5), "Its columns are id, at", lambda n: n.read(key=["id", "n"])),
    (lambda n: n.read(timestamp="at"), 'F.to_timestamp("name")', lambda n: n.read(timestamp=F.to_timestamp("at"))),
    (
        lambda n: n.read(timestamp="day"),
        '.cast("timestamp")',
        lambda n: n.read(timestamp=F.col("day").cast("timestamp")),
    ),
    (lambda n: n.read(name=None), "name='orders'", lambda n: n.read(name="other")),
    (lambda n: wm.Rows(n.frame, timestamp="at"), "key='id'", lambda n: wm.Rows(n.frame, key="id", timestamp="at")),
    (
        lambda n: wm.Rows(n.frame, "id", timestamp="at", order=1),
        "order=",
        lambda n: wm.Rows(n.frame, "id", timestamp="at", order=["day", "n"]),
    ),
    (
        lambda n: n.builder.stream("x", key="long", value=wm.json("id lng")),
        '"id long, name string"',
        lambda n: n.builder.stream("x", key="long", value=wm.json("id long, name string")),
    ),
    (
        lambda n: n.builder.stream("x", key="long", value=wm.json()),
        'wm.json("id long, name string")',
        lambda n: n.builder.stream("x", key="long", value=wm.json("id long, name string")),
    ),
    (
        lambda n: n.builder.stream("x", key="long", value=wm.json("map<int, string>")),
        "Maps need string keys",
        lambda n: n.builder.stream("x", key="long", value=wm.json("map<string, string>")),
    ),
]


@pytest.mark.parametrize(("mistake", "hint", "followed"), FOLLOWED, ids=[hint for _, hint, _ in FOLLOWED])
def test_a_hint_that_is_followed_works(mistake: Act, hint: str, followed: Act, spark: SparkSession) -> None:
    with pytest.raises(WatersmeetError) as error:
        mistake(Names(spark))
    assert hint in (error.value.hint or "")
    names = Names(spark)
    followed(names)
    names.builder.build()


def test_the_hints_of_a_start_are_followed_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    names = Names(spark)
    with pytest.raises(WatersmeetError, match=r"stream\.to\(\.\.\.\)"):
        names.builder.build().start(spark, checkpoint=tmp_path / "cp")
    names = Names(spark)
    names.stream.to("out")
    topology = names.builder.build()
    with pytest.raises(WatersmeetError, match=r"topology\.start\(spark, checkpoint='\.\.\.'\)"):
        topology.start(spark, checkpoint="")
    with pytest.raises(WatersmeetError, match=r'kafka=wm\.Kafka\("host:9092"\)'):
        topology.start(spark, checkpoint=str(tmp_path / "cp"))
    with pytest.raises(WatersmeetError, match=r"kafka=wm\.Kafka\('localhost:9092'\)"):
        topology.start(spark, checkpoint=tmp_path / "cp", kafka="localhost:9092")  # type: ignore[arg-type]
    with pytest.raises(WatersmeetError, match=r"Give more shards, or fewer tasks"):
        topology.start(spark, checkpoint=tmp_path / "cp", kafka=wm.Kafka("localhost:1"), shards=1, tasks=2)
