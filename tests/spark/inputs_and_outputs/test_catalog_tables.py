"""Tables in catalogs as far as the daily Spark has them: columns, the last changes, what is refused at the start.

Delta and Iceberg are made for other versions of Spark; `dev/catalog_trial.py` tries them there (`make versions`).
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.history_trial import changed, recomputed
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._engine.database_rows import columns_of
from watersmeet._spark.outputs.databases import MergedTable, every_change, last_of_each_key, versions_of
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError, TopologyError

KEY = pa.struct([("id", pa.int64()), ("part", pa.string())])


def test_a_start_refuses_a_table_that_is_not_there_or_of_another_format(spark: SparkSession, tmp_path: Path) -> None:
    b = wm.StreamsBuilder("catalog")
    table = b.table(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    table.to(wm.CatalogTable("merged", key="id"))
    topology = b.build()
    assert "merged" in topology.describe()
    put(spark, tmp_path / "in", (1, "a", 1))
    with pytest.raises(
        ConfigError, match=r"(?s)Unknown table.*Create it: CREATE TABLE `merged` \(`id` bigint, `value` string\) USING"
    ):
        topology.start(spark, checkpoint=str(tmp_path / "cp"), available_now=True)
    spark.sql(f"CREATE TABLE merged (id bigint, value string) USING parquet LOCATION '{tmp_path}/merged'")
    try:
        with pytest.raises(ConfigError, match=r"(?s)do not store the batch's number.*parquet.*Delta and Iceberg do"):
            topology.start(spark, checkpoint=str(tmp_path / "cp"), available_now=True)
    finally:
        spark.sql("DROP TABLE merged")
    kinds = [table.key_type, table.value_type]
    with pytest.raises(ConfigError, match=r"(?s)Unknown table.*lake.shop.orders"):
        MergedTable(spark, wm.CatalogTable("lake.shop.orders"), *kinds, "app-1").begin(-1)


def test_a_topology_refuses_what_no_table_of_a_catalog_could_be(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("refused")
    frame = spark.createDataFrame([], "k long, v string, ts long")
    stream = b.stream(frame, name="in", key="k", value="v", timestamp="ts", order="ts")
    table = stream.to_table()
    with pytest.raises(TopologyError, match=r"stream.to_table\(\).to\(...\)"):
        stream.to(wm.CatalogTable("lake.t"))
    with pytest.raises(TopologyError, match=r"(?s)equal values would differ.*select_key"):
        stream.select_key(lambda v: F.lit(0.5)).to_table().to(wm.CatalogTable("lake.t"))
    table.to(wm.CatalogTable("lake.t"))
    with pytest.raises(TopologyError, match="Two outputs write "):
        table.to(wm.CatalogTable("lake.t", key="id"), name="again")


def test_what_is_merged_is_the_last_change_of_each_key_whatever_the_order_of_rows(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            ((1, None), ("a", {"x": 1}), 5),
            ((1, "p"), ("b", None), 3),
            ((1, None), ("last", {"y": None}), 7),
            ((1, None), None, 6),
            ((1, "p"), None, 4),
        ],
        "key struct<`a.b`: long, part: string>, value struct<text: string, tags: map<string, int>>, sequence long",
    )
    target = wm.CatalogTable("t", key=("id", "part"))
    columns = columns_of(target, *(arrow_type(rows.schema[part].dataType) for part in ("key", "value")))
    found = {row["c1"]: row for row in last_of_each_key(rows, columns).collect()}
    assert found.keys() == {None, "p"}
    assert tuple(found[None]) == (1, None, "last", {"y": None}, False)
    assert tuple(found["p"]) == (1, "p", None, None, True)


def merged(table: list[tuple[Any, ...]], rows: DataFrame) -> list[tuple[Any, ...]]:
    """The table behind the merge: what its statement does."""
    changes = [tuple(row) for row in rows.select("c0", "c1", "c2", *times("c3", "c4"), "c5", "deleted").collect()]
    closed = {row[:2]: row[4] for row in changes if row[-1]}
    assert len(closed) == sum(row[-1] for row in changes), "a row would be closed twice"
    ended = [(*row[:4], closed[row[:2]], False) if row[5] and row[:2] in closed else row for row in table]
    return ended + [row[:-1] for row in changes if not row[-1]]


def times(*names: str) -> list[Column]:
    """Milliseconds of timestamps."""
    return [F.unix_millis(name).alias(name) for name in names]


@pytest.mark.parametrize("seed", [1, *range(2, 9)])
def test_the_versions_of_a_row_are_the_same_whatever_batches_its_changes_come_in(
    spark: SparkSession, seed: int
) -> None:
    draw = random.Random(seed)
    columns = columns_of(wm.History("t", key=("id", "part"), value="text"), KEY, pa.string())
    table: list[tuple[Any, ...]] = []
    everything: list[tuple[int, str | None, str | None, int]] = []
    for number in range(1, 4):
        news = changed(draw, number)
        rows = [((id, part), text, at, len(everything) + place) for place, (id, part, text, at) in enumerate(news)]
        draw.shuffle(rows)
        frame = spark.createDataFrame(rows, "key struct<id: long, part: string>, value string, at long, sequence long")
        changes = every_change(frame.withColumn("timestamp", F.timestamp_millis("at")), columns)
        names = "id long, part string, text string, a long, b long, current boolean"
        moments = [F.timestamp_millis("a").alias("valid_from"), F.timestamp_millis("b").alias("valid_to")]
        before = spark.createDataFrame(table, names).select("id", "part", "text", *moments, "current")
        table = merged(table, versions_of(changes, columns, before))
        everything += news
        assert sorted(table, key=repr) == recomputed(everything), everything


def test_a_history_has_columns_of_its_own(spark: SparkSession) -> None:
    names = [column.name for column in columns_of(wm.History("t"), pa.int64(), pa.struct([("price", pa.float64())]))]
    assert names == ["key", "price", "valid_from", "valid_to", "current"]
    assert repr(wm.History("lake.t", key="id")) == "History('lake.t')"
    b = wm.StreamsBuilder("refused")
    frame = spark.createDataFrame([], "k long, current string, ts long")
    table = b.table(frame, name="in", key="k", timestamp="ts", order="ts")
    with pytest.raises(TopologyError, match="Two columns of the table are named 'current'"):
        table.to(wm.History("t"))
    with pytest.raises(TopologyError, match=r"stream.to_table\(\).to\(...\)"):
        table.to_stream().to(wm.History("t"))
