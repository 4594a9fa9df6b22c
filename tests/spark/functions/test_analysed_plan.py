"""Columns read from Spark's analysed plan: what they are read as, and what stays unread, with the reason."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from watersmeet._engine.expressions.evaluate import RowsOfArrays, unsupported
from watersmeet._engine.expressions.tree import Call, Expression, Literal, Operand
from watersmeet._engine.rows import array
from watersmeet._spark.columns import Unread, empty_frame, layers_of
from watersmeet._worker.formats.arrow_types import loosened

DDL = "key string, n int, big long, d double, at timestamp, p struct<name:string,age:long>, parts array<int>"
STAMP = datetime.datetime(2024, 2, 29, 23, 59, 59, 123_456, datetime.UTC)


def read(spark: SparkSession, column: Column) -> Expression | Unread:
    frame = spark.createDataFrame([], DDL)
    (layer,) = layers_of(frame.select(column.alias("it")))
    return layer["it"]


def called(spark: SparkSession, column: Column) -> Call:
    found = read(spark, column)
    assert isinstance(found, Call)
    return found


CONSTANTS: list[tuple[Any, pa.Scalar]] = [
    (True, pa.scalar(True)),
    (7, pa.scalar(7, pa.int32())),
    (2**53 + 1, pa.scalar(2**53 + 1)),
    (1e300, pa.scalar(1e300)),
    (float("-inf"), pa.scalar(float("-inf"))),
    ('it\'s "so"\né\\', pa.scalar('it\'s "so"\né\\')),
    (b"\x00\xff", pa.scalar(b"\x00\xff")),
    (Decimal("-1.50"), pa.scalar(Decimal("-1.50"), pa.decimal128(3, 2))),
    (datetime.date(1582, 1, 1), pa.scalar(datetime.date(1582, 1, 1))),
    (STAMP, pa.scalar(STAMP, pa.timestamp("us", "UTC"))),
    (None, pa.scalar(None, pa.null())),
]


@pytest.mark.parametrize(("given", "wanted"), CONSTANTS, ids=repr)
def test_a_constant_is_read_with_its_type(spark: SparkSession, given: Any, wanted: pa.Scalar) -> None:
    assert read(spark, F.lit(given)) == Literal(wanted)


def test_zeros_and_what_is_no_number_are_read_to_the_bit(spark: SparkSession) -> None:
    zero, none = read(spark, F.lit(-0.0)), read(spark, F.lit(float("nan")))
    assert isinstance(zero, Literal)
    assert isinstance(none, Literal)
    assert str(zero.value.as_py()) == "-0.0"
    assert none.value.as_py() != none.value.as_py()


def test_functions_are_read_with_types_and_modes(spark: SparkSession) -> None:
    key, number = Operand("key", pa.string()), Operand("n", pa.int32())
    assert read(spark, F.concat("key", F.lit("-"))) == Call(
        "Concat", (key, Literal(pa.scalar("-"))), pa.string(), options=()
    )
    added = called(spark, F.col("n") + F.col("big"))
    assert (added.function, added.type, added.ansi) == ("Add", pa.int64(), True)
    cast = added.arguments[0]
    assert isinstance(cast, Call)
    assert (cast.function, cast.arguments, cast.type) == ("Cast", (number,), pa.int64())
    assert cast.option("timeZoneId") == "America/New_York"
    assert called(spark, F.col("p")["age"]).option("ordinal") == "1"
    assert called(spark, F.col("parts")[0]).option("failOnError") == "true"
    chosen = called(spark, F.when(F.col("n") > 1, "a").when(F.col("n") < 0, "b").otherwise(F.col("key")))
    assert (chosen.function, len(chosen.arguments), chosen.arguments[4]) == ("CaseWhen", 5, key)
    assert called(spark, F.ifnull("key", F.lit(""))).function == "Coalesce"


def test_what_only_tries_is_told_from_what_fails(spark: SparkSession) -> None:
    assert called(spark, F.col("key").cast("int")).option("evalMode") == "ANSI"
    tried = called(spark, F.col("key").try_cast("int"))
    assert (tried.option("evalMode"), tried.ansi) == ("TRY", False)
    assert called(spark, F.try_divide("n", "big")).option("evalMode") == "TRY"
    assert called(spark, F.expr("key like 'a#%' escape '#'")).option("escapeChar") == "#"


def test_what_the_session_decides_is_read_as_it_is_now(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        added = called(spark, F.col("n") + 1)
        assert (added.ansi, added.option("evalMode")) == (False, "LEGACY")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_projections_are_read_one_after_the_other(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "a string").withColumn("b", F.col("a")).withColumn("a", F.lit("x"))
    first, second = layers_of(frame)
    assert first == {"b": Operand("a", pa.string())}
    assert second == {"a": Literal(pa.scalar("x"))}


def test_what_is_not_known_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], StructType([StructField("a", StringType("UTF8_LCASE"))]))
    (layer,) = layers_of(frame.select(F.concat("a", "a").alias("it")))
    assert layer["it"] == Unread("the type string collate UTF8_LCASE")
    assert unsupported(called(spark, F.schema_of_json(F.lit("{}")))) == "SchemaOfJson"
    changed = called(spark, F.col("p").withField("age", F.lit(1)))
    assert (changed.function, changed.type) == ("UpdateFields", pa.struct([("name", pa.string()), ("age", pa.int32())]))


def test_a_frame_that_more_than_projections_made_says_what(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], DDL)
    exploded = frame.select("*", F.posexplode_outer("parts").alias("at", "part")).withColumn("x", F.lit(1))
    made, *_ = layers_of(exploded)
    assert [(name, each.function, each.option("part")) for name, each in made.items() if isinstance(each, Call)] == [
        ("at", "PosExplode", "pos"),
        ("part", "PosExplode", "col"),
    ]
    assert layers_of(frame.select(F.explode("parts")))[0] == {"": Unread("Generate of Explode")}
    ranked = frame.select(F.row_number().over(Window.orderBy("n")).alias("x"))
    assert layers_of(ranked)[0] == {"": Unread("Window")}


def test_where_there_is_no_analysed_plan_nothing_is_read() -> None:
    (layer,) = layers_of(SimpleNamespace())  # type: ignore[arg-type]
    assert layer == {"": Unread("no analysed plan: AttributeError")}


JOINED: dict[str, Callable[[], Column]] = {
    "an operand": lambda: F.col("b"),
    "texts": lambda: F.concat("a", F.concat("b", "b"), F.lit("é"), "a"),
    "a field": lambda: F.concat(F.col("p")["name"], "b"),
    "a record": lambda: F.struct(F.col("a").alias("id"), F.col("p")["age"], F.struct("b", F.lit(None)).alias("in it")),
    "a name with a dot": lambda: F.col("q")["a.b"],
    "a condition": lambda: F.when(F.col("a").isNull() & F.col("b").isNotNull(), F.col("b")).otherwise(
        F.col("p")["name"]
    ),
    "a choice": lambda: F.coalesce("a", "b", F.lit("neither")),
}


@pytest.mark.parametrize("name", JOINED)
def test_arrow_makes_of_a_column_what_spark_makes_of_it(spark: SparkSession, name: str) -> None:
    person = StructType.fromDDL("name string, age long")
    dotted = StructType([StructField("a", StructType.fromDDL("b string")), StructField("a.b", StringType())])
    kinds = StructType.fromDDL("a string, b string").add("p", person).add("q", dotted)
    texts = [None, "", "a, b", "é\x00"]
    people = [None, ("Ann", 2**53 + 1), (None, None), ("", -1)]
    rows = [(a, b, p, (("x",), b)) for a in texts for b in texts for p in people]
    made = spark.createDataFrame(rows, kinds).select("*", JOINED[name]().alias("it"))
    (layer,) = layers_of(spark.createDataFrame([], kinds).select(JOINED[name]().alias("it")))
    expression = layer["it"]
    assert not isinstance(expression, Unread)
    table = loosened(made.toArrow())
    found = RowsOfArrays(len(rows), lambda each: array(table, each)).evaluate(expression)
    assert found.type == table.schema.field("it").type
    assert found.to_pylist() == table.column("it").to_pylist()


def test_a_frame_without_rows_is_that_of_pyspark_also_where_there_is_no_jvm(spark: SparkSession) -> None:
    schema = StructType([StructField("a", LongType(), False), StructField("b", ArrayType(StringType()))])
    made: Any = SimpleNamespace(createDataFrame=lambda rows, schema: (rows, schema))
    assert empty_frame(made, schema) == ([], schema)  # type: ignore[comparison-overlap]
    frame = empty_frame(spark, schema)
    assert (frame.schema, frame.collect()) == (schema, [])
