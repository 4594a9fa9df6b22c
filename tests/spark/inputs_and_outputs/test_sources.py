"""DataFrames as sources: columns, order, timestamps, static copies; and what is said when they do not fit."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from watersmeet._plan.nodes import Shape, SourceNode
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.sources.rows import Scan, row_types
from watersmeet._spark.sources.sources import describe_origin, scan
from watersmeet.errors import ChangedTopology, ConfigError, TopologyError
from watersmeet.io.formats import json
from watersmeet.io.inputs import Rows
from watersmeet.io.policies import DeadLetter
from watersmeet.io.topics import Topic


def source(name: str, origin: Rows | Topic) -> SourceNode:
    key, value = row_types(origin) if isinstance(origin, Rows) else (StringType(), StringType())
    return SourceNode(name, (), Shape("table", key, value), input=name, origin=origin)


def drained(scanned: Scan, name: str) -> list[Row]:
    """All rows that a scan's stream has now, batch by batch in one list."""
    query = scanned.frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return scanned.frame.sparkSession.table(name).collect()


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(1, "a", 10, 100), (2, "b", None, 50), (1, "c", 30, -5), (3, None, 40, None)],
        "id int, name string, amount int, changed long",
    )


def test_a_rows_source_has_the_columns_of_a_scan_in_its_types(orders: DataFrame, tmp_path: Path) -> None:
    origin = Rows(orders, key="id", value="name", timestamp="changed", order="amount")
    (scanned,) = scan(orders.sparkSession, [source("orders", origin)], None, Folder(orders.sparkSession, str(tmp_path)))
    kinds = dict(scanned.frame.dtypes)
    assert kinds == {
        **{"root": "int", "ts": "bigint", "partition": "int", "offset": "bigint", "reason": "tinyint"},
        **{"s0_key": "int", "s0_value": "string", "order_0": "int"},
    }
    assert (scanned.roots, scanned.order) == (("orders",), ("order_0",))


def test_the_number_of_a_source_is_its_place_in_the_plan(orders: DataFrame, tmp_path: Path) -> None:
    origin = Rows(orders, key="id", value="name", timestamp="changed", order="amount")
    first, second = scan(
        orders.sparkSession,
        [source("one", origin), source("two", origin)],
        None,
        Folder(orders.sparkSession, str(tmp_path)),
    )
    assert {row["root"] for row in drained(second, "second")} == {1}
    assert "s1_key" in second.frame.columns
    assert "s0_key" in first.frame.columns


def test_without_a_value_it_is_a_struct_of_all_other_columns(orders: DataFrame) -> None:
    key, value = row_types(Rows(orders, key=["id", "name"], timestamp="changed", order="id"))
    assert key.simpleString() == "struct<id:int,name:string>"
    assert value.simpleString() == "struct<amount:int>"
    _, value = row_types(Rows(orders, key="id", timestamp=F.col("changed"), order=["amount"]))
    assert value.simpleString() == "struct<name:string,changed:bigint>"


def test_a_null_value_is_a_tombstone_and_null_timestamps_and_negative_ones_have_a_reason(
    orders: DataFrame, tmp_path: Path
) -> None:
    origin = Rows(orders, key="id", value="amount", timestamp="changed", order="id")
    (scanned,) = scan(orders.sparkSession, [source("orders", origin)], None, Folder(orders.sparkSession, str(tmp_path)))
    found = {(r["s0_key"], r["s0_value"], r["ts"], r["reason"]) for r in drained(scanned, "tombstones")}
    assert found == {(1, 10, 100, 0), (2, None, 50, 0), (1, 30, -5, 1), (3, 40, -1, 1)}


def test_timestamps_become_milliseconds_whatever_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("k", 1_577_836_800_123_456)], "k string, micros long")
    frame = frame.withColumn("at", F.timestamp_micros("micros"))
    origin = Rows(frame, key="k", value=F.col("micros"), timestamp="at", order="micros")
    (scanned,) = scan(spark, [source("stamps", origin)], None, Folder(spark, str(tmp_path)))
    assert [row["ts"] for row in drained(scanned, "stamps")] == [1_577_836_800_123]


def test_parquet_files_bring_their_own_order(spark: SparkSession, orders: DataFrame, tmp_path: Path) -> None:
    folder = str(tmp_path / "files")
    orders.coalesce(1).write.parquet(folder)
    stream = spark.readStream.schema(orders.schema).parquet(folder)
    read = spark.read.parquet(folder)
    for frame in (stream, read.filter("id > 0").withColumn("more", F.lit(1))):
        origin = Rows(frame, key="id", value="name", timestamp="changed")
        (scanned,) = scan(
            spark, [source("files", origin)], None, Folder(spark, str(tmp_path / f"c{frame.isStreaming}"))
        )
        assert scanned.order == ("order_0", "order_1", "order_2")
        rows = drained(scanned, f"files_{frame.isStreaming}")
        ordered = sorted(rows, key=lambda row: [row[name] for name in scanned.order])
        assert [row["s0_value"] for row in ordered] == ["a", "b", "c", None]
        assert [row["order_2"] for row in ordered] == [0, 1, 2, 3]


def test_other_rows_need_an_order_and_the_error_names_the_columns(
    spark: SparkSession, orders: DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "json")
    orders.write.json(folder)
    read = spark.read.schema(orders.schema).json(folder)
    for frame in (orders, read, orders.groupBy("id").agg(F.max("changed").alias("changed"))):
        with pytest.raises(TopologyError, match=r"need an order(.|\n)*Hint: (.|\n)*id, ") as error:
            row_types(Rows(frame, key="id", value="id", timestamp="changed"))
        assert error.value.given is not None
    # finding out is not an error, and must not look like one on the user's screen
    assert "AnalysisException" not in capfd.readouterr().err


def test_all_rows_of_a_batch_are_in_one_task(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 100, numPartitions=7).withColumn("at", F.col("id"))
    origin = Rows(frame, key="id", value="id", timestamp="at", order="id")
    (scanned,) = scan(spark, [source("many", origin)], None, Folder(spark, str(tmp_path)))
    marked = Scan(scanned.frame.withColumn("task", F.spark_partition_id()), scanned.roots)
    rows = drained(marked, "one_task")
    assert {row["task"] for row in rows} == {0}
    assert sorted(row["s0_key"] for row in rows) == list(range(100))


def test_a_static_frame_is_copied_in_its_order_and_the_copy_holds_once_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = Folder(spark, str(tmp_path / "checkpoint"))

    def started(frame: DataFrame, *, begun: bool = True) -> list[Row]:
        origin = Rows(frame, key="id", value="place", timestamp=F.lit(5).cast("long"), order="place")
        (scanned,) = scan(spark, [source("a/b ü", origin)], None, folder, started_sources=["a/b ü"] if begun else [])
        return drained(scanned, "static")

    frame = spark.createDataFrame([(i, 100 - i) for i in range(100)], "id int, place int").repartition(5)
    # as rows are numbered, those without a place come last
    unplaced = started(frame.withColumn("place", F.expr("nullif(place, 50)")), begun=False)
    assert unplaced[-1]["s0_key"] == 50
    # a start that came to nothing binds nobody
    assert len(started(frame.limit(5), begun=False)) == 5
    first = started(frame, begun=False)
    assert [row["order_0"] for row in first] == list(range(1, 101))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert started(frame.repartition(2)) == first
    for changed, what in (
        (frame.where("id < 99"), "99 rows, 100 in the copy"),
        (frame.withColumn("place", F.expr("if(id = 3, 0, place)")), "as many rows, others"),
    ):
        with pytest.warns(
            UserWarning, match=rf"has changed since the first start \({what}\), which has a copy .*\nHint: "
        ):
            assert started(changed) == first
    with pytest.raises(ChangedTopology, match=r"Given: .*s0_value string.*; the copy has .*s0_value int.*\nHint: "):
        started(frame.withColumn("place", F.col("place").cast("string")))


def test_a_copy_that_was_broken_off_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).withColumn("at", F.col("id"))
    folder = tmp_path / "watersmeet" / "static" / "broken"
    frame.limit(1).write.parquet(str(folder))
    origin = Rows(frame, key="id", value="id", timestamp="at", order="id")
    (scanned,) = scan(spark, [source("broken", origin)], None, Folder(spark, str(tmp_path)))
    assert len(drained(scanned, "broken")) == 3


def test_a_column_that_is_not_there_is_an_error_that_names_those_that_are(orders: DataFrame) -> None:
    given: dict[str, Any]
    for given in (
        {"key": "idd"},
        {"key": ["id", "nam"]},
        {"value": F.col("amont") + 1},
        {"timestamp": "change"},
        {"order": ["id", "sequence"]},
    ):
        with pytest.raises(TopologyError, match=r"Hint: (.|\n)*Its columns are id, name, amount, changed\."):
            row_types(Rows(orders, **{"key": "id", "timestamp": "changed", "order": "id", **given}))


@pytest.mark.parametrize("kind", ["string", "date", "int", "timestamp_ntz"])
def test_a_timestamp_of_another_type_is_refused_with_a_cast_to_make(spark: SparkSession, kind: str) -> None:
    frame = spark.sql(f"select 1 id, 2 n, cast(null as {kind}) at")
    with pytest.raises(TopologyError, match=rf"timestamp(.|\n)* is {kind}\.\nHint: (.|\n)*cast\("):
        row_types(Rows(frame, key="id", timestamp="at", order="id"))


def test_names_with_dots_are_columns_where_there_are_such_and_fields_otherwise(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as `a.b`, named_struct('c', 'x') as s, 5L as at")
    key, value = row_types(Rows(frame, key="a.b", value="s.c", timestamp="at", order="at"))
    assert (key, value) == (IntegerType(), StringType())


def test_a_frame_for_which_nothing_is_left_as_value_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TopologyError, match="no column left for the value"):
        row_types(Rows(spark.range(1), key="id", timestamp="id", order="id"))


def test_topics_without_a_connection_are_an_error_that_says_how_to_give_one(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"kafka= is left out: orders\.\nHint: (.|\n)*kafka=wm\.Kafka"):
        scan(spark, [source("orders", Topic("orders", "string", "string"))])


def test_an_origin_is_described_the_same_at_every_start_and_without_its_rows(orders: DataFrame) -> None:
    at = F.col("changed") + 0
    first = Rows(orders, key="id", timestamp=at, order=["id", "name"])
    assert describe_origin(first) == (
        "static DataFrame (key id, value by default, timestamp of an expression, order id+name)"
    )
    schema = StructType([StructField("a", IntegerType(), False)])
    for value in (json(schema), json("a int")):
        topic = Topic("orders", key="long", value=value, on_undecodable=DeadLetter("bad"), headers=True)
        assert describe_origin(topic) == ("topic orders (key long, value json(struct<a:int>), headers)")


def test_milliseconds_may_be_a_column_expression(spark: SparkSession, tmp_path: Path) -> None:
    at = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    frame = spark.createDataFrame([(1, at)], "id int, at timestamp")
    origin = Rows(frame, key="id", value="id", timestamp=F.unix_millis("at") + 7, order="id")
    (scanned,) = scan(spark, [source("expression", origin)], None, Folder(spark, str(tmp_path)))
    assert [row["ts"] for row in drained(scanned, "expression")] == [1_577_836_800_007]
