"""JSON: exactly one value of the type and Spark's value of it, or a reason; never another value, never a tombstone."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

import watersmeet as wm
from watersmeet._spark import formats as columns
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.io.formats import Format

pytestmark = pytest.mark.usefixtures("spark")
SCHEMA = (
    "l long, i int, s smallint, b tinyint, d double, f float, x decimal(5,2), t string, o boolean, y date, "
    "ts timestamp, ntz timestamp_ntz, bin binary, n struct<v:int>, a array<int>, m map<string,int>"
)
FINE = "fine"


def decoded(form: Format, raws: list[bytes | None]) -> list[tuple[Any, str | None]]:
    """(value, reason) of each, as a source of this format says."""
    serde = formats.serde_of(form)
    read = serde.read(pa.array(raws, pa.binary()))
    values, bad = read.values, read.bad
    assert values.type == arrow_type(formats.type_of(form))
    assert [v is None for v in values.to_pylist()] == [
        raw is None or wrong for raw, wrong in zip(raws, bad, strict=True)
    ]
    faults = [serde.fault(raw) if wrong and raw is not None else None for raw, wrong in zip(raws, bad, strict=True)]
    return list(zip(values.to_pylist(maps_as_pydicts="strict"), faults, strict=True))


def reasons(form: Format, raws: list[bytes]) -> list[str]:
    return [reason or FINE for _, reason in decoded(form, list(raws))]


def test_json_of_each_type_is_read() -> None:
    text = (
        b'{"l":9223372036854775807,"i":-2147483648,"s":32767,"b":-128,"d":1.5,"f":0.5,"x":1.250,"t":"5","o":true,'
        b'"y":"2020-02-29","ts":"2020-01-01T00:00:00.123456789Z","ntz":"2020-01-01 00:00","bin":"AAE=","n":{"v":1},'
        b'"a":[1,null],"m":{"k":1}}'
    )
    ((row, reason),) = decoded(wm.json(SCHEMA), [text])
    assert reason is None
    assert row == {
        **{"l": 2**63 - 1, "i": -(2**31), "s": 32767, "b": -128, "d": 1.5, "f": 0.5, "x": Decimal("1.25")},
        **{"t": "5", "o": True, "y": dt.date(2020, 2, 29), "bin": b"\0\1"},
        **{"ts": dt.datetime(2020, 1, 1, 0, 0, 0, 123456, dt.UTC), "ntz": dt.datetime(2020, 1, 1)},
        **{"n": {"v": 1}, "a": [1, None], "m": {"k": 1}},
    }


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
TOO_LARGE += [b'{"i":2147483648}', b'{"s":32768}', b'{"l":' + b"1" * 2000 + b"}"]

SPLICED = [b'5,"value":6', b'{"l":1},"value":{"l":2}', b'1,"end":11}', b'{"l":1}\n{"l":2}', b'{"l":1},{"l":2}']


def test_json_that_says_what_the_schema_says_has_no_reason() -> None:
    assert reasons(wm.json(SCHEMA), LENIENT) == [FINE] * len(LENIENT)


@pytest.mark.parametrize("raws", [NO_JSON, SPLICED, [b'{"l":1}{', b"[1", b'{"a":}', b'{"d":-}', b'{"t":"\\x"}']])
def test_what_is_no_json_has_a_reason(raws: list[bytes]) -> None:
    found = reasons(wm.json(SCHEMA), raws)
    assert {r[:20] for r in found if " is wanted where " not in r} <= {"not JSON of the type", "it has more than 500"}
    assert FINE not in found


@pytest.mark.parametrize("kind", ["long", "string", "a long", "array<long>", "map<string,long>"])
def test_nothing_put_behind_or_around_a_value_makes_it_another(kind: str) -> None:
    form = wm.json(kind if " " in kind else DataType.fromDDL(kind))
    assert FINE not in reasons(form, SPLICED)


@pytest.mark.parametrize(
    ("raws", "reason"),
    [
        (OTHER_TYPE, ""),
        (TOO_LARGE, "a number does not fit into a"),
        ([b'{"t":5}', b'{"t":true}', b'{"t":{"a":1}}', b'{"t":[1]}', b'{"t":-1.5e3}'], "a string is wanted"),
        ([b'{"ts":5}', b'{"ts":9223372036854775807}', b'{"ntz":5}'], "a timestamp is wanted"),
        ([b'{"ts":"2020-01-01T25:00"}', b'{"ts":"2020-01-32"}', b'{"ts":"10:00"}'], "a timestamp is a string of ISO"),
        ([b'{"ts":"now"}', b'{"ntz":"2020-01-01T00:00Z"}'], "a timestamp is a string of ISO"),
        ([b'{"b":128}', b'{"b":200}', b'{"b":-129}'], "a number does not fit into a tinyint"),
        ([b'{"x":1.255}', b'{"x":1000}', b'{"x":"abc"}', b'{"x":1e9999}'], "a number does not fit its decimal"),
        ([b'{"x":true}'], "a decimal(5,2) is wanted"),
        ([b'{"d":1e400}', b'{"d":-1e400}', b'{"f":1e39}'], "a number is beyond the range"),
        ([b'{"d":NaN}', b'{"u":Infinity}', b'{"d":-Infinity}', b'{"x":1e99999999999999999999}'], ""),
        ([b'{"t":"\xff"}'], "not valid UTF-8"),
        ([b'{"t":"\\ud800"}', b'{"m":{"\\udc00x":1}}', b'{"u":"\\ud800"}'], "not JSON of the type"),
        ([b'{"L":1}', b'{"n":{"V":1}}', b'{"\\u004c":1}', b'{"n":{"v":1},"L":{"l":1}}'], "there is no field '"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_is_no_value_of_the_type_has_a_reason(raws: list[bytes], reason: str) -> None:
    found = reasons(wm.json(SCHEMA), raws)
    # some name the field before it
    assert all(re.match(rf"([\w.]+: )?{re.escape(reason)}", r) for r in found)
    assert FINE not in found


def test_a_text_that_is_null_is_null_and_sends_no_other_another_way() -> None:
    raws = [b"null", b'{"id":1}', b" null\n", None]
    values = formats.serde_of(wm.json("id long")).read(pa.array(raws, pa.binary()))
    assert values.values.to_pylist() == [None, {"id": 1}, None, None]
    assert not values.bad.any()


def test_of_a_name_that_stands_twice_the_last_value_counts() -> None:
    raws = [b'{"l":1,"l":2}', b'{"l":1,"\\u006c":null}', b'{"u":{"v":1,"v":2},"l":3}', b'{"m":{"k":1,"k":2}}']
    assert [(row["l"], row["m"]) for row, _ in decoded(wm.json("l long, m map<string,int>"), list(raws))] == [
        *((2, None), (None, None), (3, None), (None, {"k": 2})),
    ]
    assert reasons(wm.json("l long"), [b'{"l":"1","l":1}']) != [FINE]


def test_a_name_of_any_characters_is_found() -> None:
    names = ['a"b', "a\\b", "a\nb", "", "a.b", "ä", "class", "f0"]
    kind = StructType([StructField(name, StructType([StructField(name, LongType())])) for name in names])
    raws = [json.dumps({name: {name: n}}).encode() for n, name in enumerate(names)]
    found = decoded(wm.json(kind), list(raws))
    assert [row[name] for (row, _), name in zip(found, names, strict=True)] == [{n: i} for i, n in enumerate(names)]
    assert reasons(wm.json(kind), [b'{"a.b":{"a.b":"x"}}']) == ["a.b.a.b: a bigint is wanted where there is a string"]


def test_a_text_that_is_refused_refuses_no_other() -> None:
    form = wm.json("l long, a array<struct<t:timestamp,x:decimal(4,1)>>, m map<string,double>")
    fine = b'{"l":1,"a":[{"t":"2020-01-01","x":1.5},{"x":"2.5"}],"m":{"k":"NaN","j":1}}'
    wrong = [b'{"l":"1"}', b'{"a":[{"t":"x"}]}', b'{"a":[{},{"x":1.25}]}', b'{"m":{"k":"one"}}', b"{", b'{"L":1}']
    raws = [raw for each in wrong for raw in (fine, each)]
    found = decoded(form, [*raws, None, fine])
    assert [reason is None for _, reason in found] == [True, False] * len(wrong) + [True, True]
    assert len({str(value) for value, reason in found if reason is None and value}) == 1


def test_names_are_told_apart_by_case_where_both_are_there() -> None:
    assert decoded(wm.json("id long"), [b'{"id":1,"ID":2}']) == [({"id": 1}, None)]
    assert decoded(wm.json("id long, ID long"), [b'{"id":1}', b'{"ID":2}']) == [
        ({"id": 1, "ID": None}, None),
        ({"id": None, "ID": 2}, None),
    ]


def test_the_same_holds_in_nested_arrays_and_maps() -> None:
    form = wm.json("a struct<x:array<struct<t:string,ts:timestamp,x:decimal(4,1),b:tinyint>>>, m map<string,string>")
    fine = b'{"a":{"x":[{"t":"5"},null,{"ts":"2020-01-01T00:00:00Z","x":1.1,"b":3}]},"m":{"k":"5","l":null}}'
    broken = [b'{"t":"q"},{"t":5}', b'{"ts":5}', b'{"b":200}', b'{"x":1.11}']
    raws = [fine, b'{"m":{"k":5}}', *(b'{"a":{"x":[' + inner + b"]}}" for inner in broken), fine]
    found = reasons(form, raws)
    assert [place for place, reason in enumerate(found) if reason == FINE] == [0, len(raws) - 1]
    assert decoded(form, [None, b'{"m":{"k":"5","l":null},"a":{"x":[{"t":"q"},null]}}'])[1][0] == {
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
def test_a_json_text_need_not_be_an_object(schema: str, fine: bytes, value: Any, broken: bytes) -> None:
    form = wm.json(DataType.fromDDL(schema))
    assert decoded(form, [fine, None, b" " + fine + b"\n"]) == [(value, None), (None, None), (value, None)]
    assert FINE not in reasons(form, [broken, b"", fine + b" " + fine])


def test_what_json_writes_it_reads_again_to_the_last_microsecond(spark: SparkSession) -> None:
    fields = [
        *("'ts', timestamp_micros(1577836800123456)", "'n', timestamp_ntz'2020-01-01 00:00:00.000001'"),
        *("'d', double('NaN')", "'f', float('-inf')", "'x', cast(1.25 as decimal(5,2))", "'t', 'ä\"5'"),
        *("'a', array('x', null)", "'m', map('k', 1)", "'i', cast(null as int)", "'y', date'2020-02-29'"),
        "'bin', cast('ab' as binary)",
    ]
    frame = spark.sql(f"select named_struct({', '.join(fields)}) v")
    form = wm.json(frame.schema["v"].dataType)
    rows = frame.select("v", columns.encode_json(F.col("v")).alias("raw")).toArrow().to_pylist(maps_as_pydicts="strict")
    assert told(decoded(form, [rows[0]["raw"]])[0][0]) == told(rows[0]["v"])


# -- beside Spark's own reader -----------------------------------------------------------------------------


def told(value: Any) -> Any:
    """A value as one that can be compared: NaN equals itself, -0.0 is not 0.0, instants have no zone."""
    if isinstance(value, dict):
        return {name: told(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [told(inner) for inner in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).isoformat()
    return repr(value) if isinstance(value, float) else value


class Texts:
    """Random JSON texts of types."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, kind: DataType) -> str:
        """A text of the type, with white space wherever there may be some."""
        pick = self.random
        if pick.random() < 0.1:
            return "null"
        if isinstance(kind, StructType):
            fields = [f for f in kind.fields if pick.random() < 0.9]
            pick.shuffle(fields)
            return self.object([(f.name, self.of(f.dataType)) for f in fields] + [("other", "[{}, 1e5]")])
        if isinstance(kind, ArrayType):
            return "[" + ",".join(self.space() + self.of(kind.elementType) for _ in range(pick.randrange(3))) + "]"
        if isinstance(kind, MapType):
            return self.object([(f"k{n}", self.of(kind.valueType)) for n in range(pick.randrange(3))])
        return LEAVES[kind.simpleString()](pick)

    def object(self, members: list[tuple[str, str]]) -> str:
        parts = [f"{self.space()}{json.dumps(name)}{self.space()}:{self.space()}{text}" for name, text in members]
        return "{" + ",".join(parts) + self.space() + "}"

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "\n\t"])


def instant(pick: random.Random) -> str:
    at = dt.datetime(1, 1, 2) + dt.timedelta(seconds=pick.randrange(315_000_000_000))
    fraction = pick.choice(["", ".5", ".123456", ".123456789"])
    return at.isoformat(pick.choice("T ")) + fraction


DOUBLES = ['"NaN"', '"-Infinity"', "-0.0", "5e-324", "17976931348623157E292", "9007199254740993"]
FLOATS = ["0.1", "3.4028235E38", "1e-45", "16777217"]
DECIMALS = ["999.99", "-0.01", "1.500", '"1.25"', "1e2"]
LEAVES: dict[str, Callable[[random.Random], str]] = {
    "bigint": lambda r: str(r.choice([0, 2**63 - 1, -(2**63), 2**53 + 1, r.randrange(-(2**63), 2**63)])),
    "int": lambda r: str(r.choice([2**31 - 1, -(2**31), r.randrange(100)])),
    "smallint": lambda r: str(r.randrange(-(2**15), 2**15)),
    "tinyint": lambda r: str(r.randrange(-128, 128)),
    "double": lambda r: r.choice([*DOUBLES, *[repr(r.uniform(-1, 1) * 10.0 ** r.randrange(-300, 300))] * 9]),
    "float": lambda r: r.choice([*FLOATS, str(r.randrange(10**9)), f"{r.uniform(-9, 9):.6}"]),
    "decimal(5,2)": lambda r: r.choice([*DECIMALS, f"{r.uniform(-999, 999):.2f}"]),
    "decimal(38,10)": lambda r: str(Decimal(r.randrange(-(10**38) + 1, 10**38)).scaleb(-10, Context(prec=50))),
    "string": lambda r: json.dumps("".join(r.choices('aé𝄞"\\\n\0/ ', k=r.randrange(5))), ensure_ascii=r.random() < 0.5),
    "boolean": lambda r: r.choice(["true", "false"]),
    "date": lambda r: f'"{dt.date.fromordinal(r.randrange(1, 3_652_000))}"',
    "timestamp": lambda r: f'"{instant(r)}{r.choice(["Z", "", "+02:30", "-0800", "+05"])}"',
    "timestamp_ntz": lambda r: f'"{instant(r)}"',
    "binary": lambda r: json.dumps(r.choice(["", "AAE=", "/+8="])),
}


WIDE = (
    "l long, i int, s smallint, b tinyint, d double, f float, x decimal(5,2), y decimal(38,10), t string, o boolean, "
    "dd date, ts timestamp, ntz timestamp_ntz, bin binary, n struct<v:int,w:array<struct<t:string>>>, a array<long>, "
    "m map<string,struct<x:decimal(5,2)>>"
)


def sparks(spark: SparkSession, kind: StructType, raws: list[bytes]) -> list[Any]:
    """What Spark's reader makes of texts; None where it finds fault with them."""
    read = StructType([*kind.fields, *StructType.fromDDL("corrupt string").fields])
    given = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt", "timeZone": "UTC"}
    frame = spark.createDataFrame([(n, raw) for n, raw in enumerate(raws)], "n int, raw binary")
    value = F.from_json(F.col("raw").cast("string"), read, given)
    rows = frame.select("n", value.alias("value")).toArrow().to_pylist(maps_as_pydicts="lossy")
    found = [row["value"] for row in sorted(rows, key=lambda row: row["n"])]
    return [None if v is None or v.pop("corrupt") is not None else told(v) for v in found]


def test_well_formed_texts_have_sparks_values_and_what_was_damaged_has_them_or_a_reason(spark: SparkSession) -> None:
    kind = StructType.fromDDL(WIDE)
    made = Texts(seed=7)
    fine = [text.encode() for text in (made.of(kind) for _ in range(1_000)) if text != "null"]
    found = decoded(wm.json(WIDE), list(fine))
    assert [reason for _, reason in found if reason] == []
    assert [told(value) for value, _ in found] == sparks(spark, kind, fine)
    damaged = [damage(made.random, raw) for raw in fine]
    found = decoded(wm.json(WIDE), list(damaged))
    kept = [place for place, (_, reason) in enumerate(found) if reason is None]
    assert 0 < len(kept) < len(damaged)
    assert [told(found[place][0]) for place in kept] == sparks(spark, kind, [damaged[place] for place in kept])


def damage(pick: random.Random, raw: bytes) -> bytes:
    """The text with a few bytes taken out, put in, doubled or exchanged."""
    at, to = sorted((pick.randrange(len(raw)), pick.randrange(len(raw))))
    return pick.choice(
        [
            raw[:at] + raw[at + 1 :],
            raw[:at] + pick.choice([b'"', b",", b"}", b"{", b"0", b"-", b" ", b"\xff", b"e", b"]"]) + raw[at:],
            raw[:at] + bytes([pick.randrange(256)]) + raw[at + 1 :],
            raw[:to] + raw[at:],
            raw + raw[at:],
        ]
    )


def test_two_texts_one_behind_the_other_are_never_a_value() -> None:
    made = Texts(seed=8)
    kinds = [
        LongType(),
        StringType(),
        ArrayType(LongType()),
        MapType(StringType(), LongType()),
        StructType.fromDDL(WIDE),
    ]
    for kind in kinds:
        texts = [made.of(kind) for _ in range(100)]
        pairs = [f"{one}{made.random.choice(['', ' ', ','])}{other}" for one, other in pairwise(texts)]
        # two numbers make another number where nothing stands between them
        apart = [pair for pair in pairs if not pair.lstrip("-").isdigit()]
        assert FINE not in reasons(wm.json(kind), [pair.encode() for pair in apart])
