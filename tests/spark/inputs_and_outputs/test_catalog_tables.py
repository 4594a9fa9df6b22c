"""Tables in catalogs as far as the daily Spark has them: columns, the last changes, what is refused at the start.

Delta and Iceberg are made for other versions of Spark; `dev/catalog_trial.py` tries them there (`make versions`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._engine.database_rows import columns_of
from watersmeet._spark.outputs.databases import MergedTable, last_of_each_key
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError, TopologyError


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
