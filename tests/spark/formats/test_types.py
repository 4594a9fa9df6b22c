"""Types: Spark's as Arrow's, what may be null and what may not going together, and what cannot be a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._engine.rows import with_nulls
from watersmeet._worker.formats.arrow_types import arrow_schema, loosened
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
ALL = (
    "bool boolean, b tinyint, s smallint, i int, l long, f float, d double, x decimal(38,10), t string, "
    "y date, ts timestamp, ntz timestamp_ntz, bin binary, iv interval day to second, v void, a array<int>, "
    "m map<string,array<struct<n:int>>>, st struct<k:struct<v:timestamp>>, c string collate UTF8_LCASE"
)


def test_each_type_is_the_one_that_spark_hands_to_workers(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as n, named_struct('a', 1) as q, array(1) as r, map('a', 1) as p")
    frame = frame.join(spark.createDataFrame([], ALL.replace("v void, ", "")).limit(0), F.lit(True), "left")
    assert arrow_schema(frame.schema) == schema_in_workers(frame)


def schema_in_workers(frame: DataFrame) -> pa.Schema:
    """The schema of the batches that a worker gets."""

    def told(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"seen": [batch.schema.remove_metadata().serialize().to_pybytes()]})

    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    frame.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        seen = frame.mapInArrow(told, "seen binary").collect()[0][0]
    finally:
        frame.sparkSession.conf.set("spark.sql.session.timeZone", zone)
    return pa.ipc.read_schema(pa.py_buffer(bytes(seen)))


def test_what_cannot_be_null_goes_together_with_what_can() -> None:
    strict = pa.struct([pa.field("a", pa.list_(pa.field("element", pa.int64(), False)), False)])
    loose = pa.struct([pa.field("a", pa.list_(pa.field("element", pa.int64())))])
    assert with_nulls(strict) == loose
    one, other = (pa.table({"k": pa.array([{"a": [1]}], kind)}) for kind in (strict, loose))
    assert loosened(other) is other
    assert pa.concat_tables([loosened(one), other]).column("k").to_pylist() == [{"a": [1]}] * 2


def test_a_key_made_of_constants_meets_one_that_was_read(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("nulls")
    read = b.table("read", key=wm.json("a long"), value="string")
    numbers = b.stream("made", key="long", value="string")
    made = numbers.select_key(lambda k, v: F.struct(F.coalesce(k, F.lit(0)).alias("a")))
    made.join(read, lambda v, w: F.concat(v, w)).to("out")
    made.merge(read.to_stream()).to("both")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("read", {"a": 1}, "r", ts=0)
    driver.pipe("made", 1, "m", ts=1)
    assert [(record.key["a"], record.value) for record in driver.read("out")] == [(1, "mr")]
    assert [(record.key["a"], record.value) for record in driver.read("both")] == [(1, "r"), (1, "m")]


@pytest.mark.parametrize("kind", ["map<string,int>", "struct<a:array<map<string,int>>>"])
def test_a_map_is_no_key_and_that_is_said_where_it_is_written(kind: str) -> None:
    b = wm.StreamsBuilder("maps")
    value = wm.json(f"id long, m {kind}")
    stream, table = b.stream("s", key="long", value=value), b.table("t", key="long", value=value)
    given: list[Callable[[], Any]] = [
        lambda: b.stream("k", key=wm.json(f"m {kind}"), value="string"),
        lambda: stream.select_key(lambda v: v["m"]),
        lambda: stream.map(lambda k, v: (v["m"], v)),
        lambda: stream.flat_map(lambda k, v: F.array(F.struct(v["m"], v["id"]))),
        lambda: table.join(table, lambda a, c: a, foreign_key=lambda v: v["m"]),
    ]
    for act in given:
        with pytest.raises((FunctionError, TopologyError), match=r"cannot be compared(.|\n)*Hint: "):
            act()
    stream.select_key(lambda v: F.sort_array(F.map_entries(F.map_from_arrays(F.array(F.lit("a")), F.array(v["id"])))))
