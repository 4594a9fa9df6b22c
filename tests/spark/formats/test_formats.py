"""Formats: bytes to values and back, and the reasons of bytes that are not of their format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

import watersmeet as wm
from watersmeet._spark import formats as columns
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format

FINE = "fine"


def decoded(spark: SparkSession, form: Format, raws: list[bytes | None]) -> list[tuple[Any, str | None]]:
    rows = [(i, raw) for i, raw in enumerate(raws)]
    frame = spark.createDataFrame(rows, "i int, raw binary").repartition(1)
    reason = columns.reason_of(form, F.col("raw"))
    value = columns.value_of(form, F.col("raw"), reason)
    found = frame.select("i", value.alias("value"), reason.alias("reason")).orderBy("i").collect()
    return [(row["value"], row["reason"]) for row in found]


def reasons(spark: SparkSession, form: Format, raws: list[bytes]) -> list[str]:
    """The reason of each, or FINE; a value beside a reason, or neither of both, is an error."""
    found = decoded(spark, form, list(raws))
    assert all((value is None) == (reason is not None) for value, reason in found)
    return [reason or FINE for _, reason in found]


@pytest.mark.parametrize(
    ("kind", "width", "values"),
    [
        ("int", 4, [0, 1, -1, 255, -256, 2**31 - 1, -(2**31)]),
        ("long", 8, [0, 1, -1, 255, -256, 2**31, 2**63 - 1, -(2**63)]),
    ],
)
def test_numbers_are_written_and_read_as_kafkas_serializers_do(
    spark: SparkSession, kind: str, width: int, values: list[int]
) -> None:
    as_java_writes = [value.to_bytes(width, "big", signed=True) for value in values]
    form = Format(kind)
    assert decoded(spark, form, as_java_writes) == [(value, None) for value in values]
    raw = formats.serde_of(form).write(pa.array(values, arrow_type(formats.type_of(form))))
    assert raw.cast(pa.binary()).to_pylist() == as_java_writes


def test_a_number_of_another_width_has_a_reason_that_says_so(spark: SparkSession) -> None:
    assert reasons(spark, Format("long"), [b"", bytes(4), bytes(9)]) == [
        f"long takes 8 bytes, there are {n}" for n in (0, 4, 9)
    ]
    assert reasons(spark, Format("int"), [b"", bytes(3), bytes(8)]) == [
        f"int takes 4 bytes, there are {n}" for n in (0, 3, 8)
    ]


def test_bytes_that_are_not_utf8_have_a_reason_and_no_replacement_characters(spark: SparkSession) -> None:
    fine = [b"", "ä€😀".encode(), b"a\0b"]
    broken = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80"]
    assert decoded(spark, Format("string"), list(fine)) == [(raw.decode(), None) for raw in fine]
    assert reasons(spark, Format("string"), broken) == ["not valid UTF-8"] * 4


@pytest.mark.parametrize("form", [*map(Format, ("bytes", "string", "int", "long"))], ids=str)
def test_null_is_a_tombstone_in_every_format_and_both_ways(spark: SparkSession, form: Format) -> None:
    assert decoded(spark, form, [None]) == [(None, None)]
    nothing = pa.nulls(1, arrow_type(formats.type_of(form)))
    assert formats.serde_of(form).write(nothing).to_pylist() == [None]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_session_with_or_without_ansi_reads_the_same(spark: SparkSession, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert FINE not in reasons(spark, Format("long"), [b"", bytes(9)])
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_a_null_field_is_written_as_null_and_not_left_out(spark: SparkSession) -> None:
    frame = spark.sql("select named_struct('a', 1, 'b', cast(null as int)) v")
    assert bytes(frame.select(columns.encode_json(F.col("v"))).collect()[0][0]) == b'{"a":1,"b":null}'


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (StringType(), "string"),
        (IntegerType(), "int"),
        (LongType(), "long"),
        (BinaryType(), "bytes"),
        (BooleanType(), "json"),
        (ArrayType(StringType()), "json"),
        (StructType([]), "json"),
    ],
    ids=str,
)
def test_a_sink_without_a_format_takes_the_one_of_its_type(kind: DataType, name: str) -> None:
    form = formats.format_for(kind)
    assert form.kind == name
    formats.check_writable(form, kind, "values")


def test_a_format_that_cannot_write_a_type_says_which_could() -> None:
    with pytest.raises(TopologyError, match=r"'int' cannot write the keys of x(.|\n)*bigint(.|\n)*\"long\""):
        formats.check_writable(Format("int"), LongType(), "keys of x")
    with pytest.raises(TopologyError, match=r"Hint: .*wm\.json\(\)"):
        formats.check_writable(wm.json("a long"), StructType([]), "values")


@pytest.mark.parametrize("schema", ["a lung", "a map<int,int>", "a interval day to second", "a variant", "a void"])
def test_a_schema_that_json_cannot_be_read_with_is_refused_with_a_hint(schema: str) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        formats.type_of(wm.json(schema))


def test_the_type_of_a_format_is_the_type_of_what_it_decodes(spark: SparkSession) -> None:
    for form in map(Format, ("int", "long", "string", "bytes")):
        raw = F.lit(b"").cast("binary")
        value = columns.value_of(form, raw, columns.reason_of(form, raw))
        assert spark.range(1).select(value.alias("v")).schema["v"].dataType == formats.type_of(form)
