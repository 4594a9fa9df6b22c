"""Formats: bytes to values and back, and the reasons of bytes that are not of their format."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

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
    StructField,
    StructType,
)

from millpond import options
from millpond._spark import formats
from millpond._spark.settings import overridden
from millpond.errors import TopologyError
from millpond.options import Format

SCHEMA = (
    "l long, i int, s smallint, b tinyint, d double, f float, x decimal(5,2), t string, o boolean, y date, "
    "ts timestamp, bin binary, n struct<v:int>, a array<int>, m map<string,int>"
)
FINE = "fine"


def decoded(spark: SparkSession, form: Format, raws: list[bytes | None]) -> list[tuple[Any, str | None]]:
    rows = [(i, raw) for i, raw in enumerate(raws)]
    frame = spark.createDataFrame(rows, "i int, raw binary").repartition(1)
    value, reason = formats.decode(form, F.col("raw"))
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
    frame = spark.createDataFrame([(value,) for value in values], StructType([StructField("v", formats.type_of(form))]))
    with overridden(spark, formats.ENCODING):
        encoded = frame.repartition(1).select(formats.encode(form, F.col("v")))
    assert sorted(bytes(row[0]) for row in encoded.collect()) == sorted(as_java_writes)


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


@pytest.mark.parametrize(
    "form",
    [*map(Format, ("bytes", "string", "int", "long")), options.json("a long"), options.json("array<int>")],
    ids=str,
)
def test_null_is_a_tombstone_in_every_format_and_both_ways(spark: SparkSession, form: Format) -> None:
    assert decoded(spark, form, [None]) == [(None, None)]
    kind = formats.type_of(form)
    frame = spark.createDataFrame([(None,)], StructType([StructField("v", kind)]))
    with overridden(spark, formats.ENCODING):
        assert frame.select(formats.encode(form, F.col("v"))).collect()[0][0] is None


def test_json_of_each_type_is_read(spark: SparkSession) -> None:
    text = (
        b'{"l":9223372036854775807,"i":-2147483648,"s":32767,"b":-128,"d":1.5,"f":0.5,"x":1.250,"t":"5","o":true,'
        b'"y":"2020-02-29","ts":"2020-01-01T00:00:00.123456Z","bin":"AAE=","n":{"v":1},"a":[1,null],"m":{"k":1}}'
    )
    ((row, reason),) = decoded(spark, options.json(SCHEMA), [text])
    assert reason is None
    assert row.asDict(recursive=True) == {
        **{"l": 2**63 - 1, "i": -(2**31), "s": 32767, "b": -128, "d": 1.5, "f": 0.5, "x": Decimal("1.25")},
        **{"t": "5", "o": True, "y": dt.date(2020, 2, 29), "bin": bytearray(b"\0\1")},
        **{"ts": row["ts"], "n": {"v": 1}, "a": [1, None], "m": {"k": 1}},
    }
    micros = spark.createDataFrame([(row["ts"],)], "t timestamp").select(F.unix_micros("t")).collect()[0][0]
    assert micros == 1_577_836_800_123_456


LENIENT = [b"{}", b' {"l":1} ', b'{"unknown":[1]}', b'{"l":null}', b'{"t":"true"}', b'{"t":"{}"}', b'{"d":1}']
LENIENT += [b'{"d":"NaN"}', b'{"d":"-Infinity"}', b'{"x":"1.25"}', b'{"n":null}', b'{"t":null,"x":1}']
NO_JSON = [
    b"",
    b" ",
    b"{",
    b'{"l":1',
    b'{"l":1,}',
    b"{'l':1}",
    b"{l:1}",
    b'{"l":01}',
    b'{"l":1}x',
    b'{"l":1}{}',
]
NO_JSON += [
    b'{"l":1}}',
    b'[{"l":1}]',
    b"5",
    b'"x"',
    b'\xef\xbb\xbf{"l":1}',
    b'// x\n{"l":1}',
    b'{"t":"a\nb"}',
]
NO_JSON += [b'{"l":1},"end":true}', b'{"l":1},"end":7}', b'{"u":' + b"[" * 2000 + b"]" * 2000 + b"}"]
NO_JSON += [b'{"l":' + b"1" * 2000 + b"}"]
OTHER_TYPE = [
    b'{"l":"1"}',
    b'{"l":1.0}',
    b'{"l":1e2}',
    b'{"l":true}',
    b'{"l":""}',
    b'{"d":"1.5"}',
    b'{"o":1}',
]
OTHER_TYPE += [b'{"o":"true"}', b'{"n":[]}', b'{"n":""}', b'{"n":{"v":"1"}}', b'{"a":5}', b'{"a":[1,"2"]}']
OTHER_TYPE += [
    b'{"m":{"k":"1"}}',
    b'{"y":"2020-02-30"}',
    b'{"y":18000}',
    b'{"ts":"yesterday"}',
    b'{"bin":"?"}',
]
TOO_LARGE = [b'{"l":9223372036854775808}', b'{"l":-9223372036854775809}', b'{"l":1234567890123456789012345}']
TOO_LARGE += [b'{"i":2147483648}', b'{"s":32768}']


def test_json_that_says_what_the_schema_says_has_no_reason(spark: SparkSession) -> None:
    assert reasons(spark, options.json(SCHEMA), LENIENT) == [FINE] * len(LENIENT)


@pytest.mark.parametrize("raws", [NO_JSON, OTHER_TYPE, TOO_LARGE], ids=["no json", "other type", "too large"])
def test_json_that_does_not_parse_as_the_schema_has_a_reason(spark: SparkSession, raws: list[bytes]) -> None:
    found = reasons(spark, options.json(SCHEMA), raws)
    assert [r[:20] for r in found] == ["not JSON of the type"] * len(raws)


@pytest.mark.parametrize(
    ("raws", "reason"),
    [
        ([b'{"t":5}', b'{"t":true}', b'{"t":{"a":1}}', b'{"t":[1]}', b'{"t":-1.5e3}'], "a string is wanted"),
        ([b'{"ts":5}', b'{"ts":9223372036854775807}'], "a timestamp is a string"),
        ([b'{"b":128}', b'{"b":200}', b'{"b":-129}'], "a number does not fit into a byte"),
        ([b'{"x":1.255}', b'{"x":1000}', b'{"x":"abc"}', b'{"x":true}'], "a number does not fit its decimal"),
        ([b'{"d":1e400}', b'{"d":-1e400}', b'{"f":1e39}'], "a number is beyond the range"),
        ([b"null", b" null "], "the JSON text null"),
        ([b'{"t":"\xff"}'], "not valid UTF-8"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_sparks_json_reader_would_change_in_silence_has_a_reason(
    spark: SparkSession, raws: list[bytes], reason: str
) -> None:
    found = reasons(spark, options.json(SCHEMA), raws)
    assert [r[: len(reason)] for r in found] == [reason] * len(raws)


def test_the_same_holds_in_nested_arrays_and_maps(spark: SparkSession) -> None:
    form = options.json(
        "a struct<x:array<struct<t:string,ts:timestamp,x:decimal(4,1),b:tinyint>>>, m map<string,string>"
    )
    fine = b'{"a":{"x":[{"t":"5"},null,{"ts":"2020-01-01T00:00:00Z","x":1.1,"b":3}]},"m":{"k":"5","l":null}}'
    broken = [b'{"t":"q"},{"t":5}', b'{"ts":5}', b'{"b":200}', b'{"x":1.11}']
    raws = [fine, b'{"m":{"k":5}}', *(b'{"a":{"x":[' + inner + b"]}}" for inner in broken)]
    found = reasons(spark, form, raws)
    assert found[0] == FINE
    assert FINE not in found[1:]
    assert decoded(spark, form, [b'{"m":{"k":"5","l":null},"a":{"x":[{"t":"q"},null]}}'])[0][0].asDict(True) == {
        "m": {"k": "5", "l": None},
        "a": {"x": [{"t": "q", "ts": None, "x": None, "b": None}, None]},
    }


@pytest.mark.parametrize(
    ("schema", "fine", "value", "broken"),
    [
        ("long", b"5", 5, b'"5"'),
        ("string", b'"5"', "5", b"5"),
        ("array<int>", b"[1,2]", [1, 2], b"{}"),
        ("map<string,int>", b'{"a":1}', {"a": 1}, b"[]"),
        ("decimal(3,1)", b"1.5", Decimal("1.5"), b"1.55"),
    ],
)
def test_a_json_text_need_not_be_an_object(
    spark: SparkSession, schema: str, fine: bytes, value: Any, broken: bytes
) -> None:
    form = options.json(DataType.fromDDL(schema))
    assert decoded(spark, form, [fine]) == [(value, None)]
    assert FINE not in reasons(spark, form, [broken, b"null", b"", fine + b" " + fine])


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_session_with_or_without_ansi_reads_the_same(spark: SparkSession, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert FINE not in reasons(spark, options.json(SCHEMA), [*TOO_LARGE, b'{"x":1000}', b'{"b":200}'])
        assert FINE not in reasons(spark, Format("long"), [b"", bytes(9)])
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_what_json_writes_it_reads_again_to_the_last_microsecond(spark: SparkSession) -> None:
    fields = [
        *("'ts', timestamp_micros(1577836800123456)", "'n', timestamp_ntz'2020-01-01 00:00:00.000001'"),
        *("'d', double('NaN')", "'f', float('-inf')", "'x', cast(1.25 as decimal(5,2))", "'t', 'ä\"5'"),
        *("'a', array('x', null)", "'m', map('k', 1)", "'i', cast(null as int)", "'y', date'2020-02-29'"),
        "'bin', cast('ab' as binary)",
    ]
    frame = spark.sql(f"select named_struct({', '.join(fields)}) v")
    form = options.json(frame.schema["v"].dataType)
    frame = frame.select("v", formats.encode(form, F.col("v")).alias("raw"))
    frame = frame.select("v", formats.decode(form, F.col("raw"))[0].alias("again"))
    before, after = frame.select(*[F.struct(c).cast("string") for c in ("v", "again")]).collect()[0]
    assert before == after


def test_a_null_field_is_written_as_null_and_not_left_out(spark: SparkSession) -> None:
    frame = spark.sql("select named_struct('a', 1, 'b', cast(null as int)) v")
    assert bytes(frame.select(formats.encode(options.json(), F.col("v"))).collect()[0][0]) == b'{"a":1,"b":null}'


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
    with pytest.raises(TopologyError, match=r"'int' does not write the keys of x(.|\n)*bigint(.|\n)*\"long\""):
        formats.check_writable(Format("int"), LongType(), "keys of x")
    with pytest.raises(TopologyError, match=r"Hint: .*mp\.json\(\)"):
        formats.check_writable(options.json("a long"), StructType([]), "values")


@pytest.mark.parametrize("schema", ["a lung", "a map<int,int>", "a interval day to second", "a variant", "a void"])
def test_a_schema_that_json_cannot_be_read_with_is_refused_with_a_hint(schema: str) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        formats.type_of(options.json(schema))


def test_the_type_of_a_format_is_the_type_of_what_it_decodes(spark: SparkSession) -> None:
    for form in (Format("int"), Format("long"), options.json(SCHEMA), options.json("a long not null")):
        value, _ = formats.decode(form, F.lit(b"").cast("binary"))
        assert spark.range(1).select(value.alias("v")).schema["v"].dataType == formats.type_of(form)
