"""What the fuzzer of decoders draws: types, values up to their limits, and what is read by whom."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import types as t

import watersmeet as wm
from tests.formats.bad_inputs import INPUTS
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.avro import schema_for
from watersmeet._worker.formats.json_schema import schema_for as json_schema_for
from watersmeet._worker.formats.protobuf import message_of
from watersmeet._worker.formats.serdes import Serde
from watersmeet.errors import WatersmeetError
from watersmeet.io.formats import Format


class Draw(random.Random):
    """What decides.

    Attributes
    ----------
    wide : whether times lie in any year that there is, or in those of four digits, which is what texts have.
    """

    wide = True


MIN, MAX = -(1 << 63), (1 << 63) - 1
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
DAYS = (-719_162, 2_932_896)
MICROS = [MIN, MIN + 1, MIN // 1000, -1, 0, 1, 999, 10**15, YEAR_1, YEAR_1 - 1, YEAR_9999, YEAR_9999 + 1, MAX // 1000]
MICROS += [MAX - 1, MAX]
INTS = {8: t.ByteType(), 16: t.ShortType(), 32: t.IntegerType(), 64: t.LongType()}
TEXTS = ["", "a", "é𝄞", "\x00", "null", "NaN", "a" * 300, '"\\', "__debezium_unavailable_value", "1"]
BYTES = [b"", b"\0", b"\xff\xfe", bytes(17), b"a" * 300]
FLOATS = [0.0, -0.0, 1.5, -1e308, 5e-324, 3.4e38, float("inf"), float("-inf"), float("nan")]


@dataclass(frozen=True)
class Subject:
    """What is fuzzed.

    Parameters
    ----------
    name : its format.
    serde : what reads.
    good : bytes that are of the format.
    values : what they are, where that is known: a column.
    hostile : bytes that are made to break it.
    bad : bytes that are none of the format, for certain.
    """

    name: str
    serde: Serde
    good: list[bytes]
    values: pa.Array | None = None
    hostile: list[bytes] = field(default_factory=list)
    bad: list[bytes] = field(default_factory=list)


# -- types and values ----------------------------------------------------------------------------------------

_PLAIN = (t.FloatType(), t.DoubleType(), t.BooleanType(), t.StringType(), t.BinaryType())
_TIMES = (t.DateType(), t.TimestampType())
_WIDE = (t.IntegerType(), t.LongType())
LEAVES: dict[str, list[t.DataType]] = {
    "protobuf": [*_WIDE, *_PLAIN, t.TimestampType(), t.DayTimeIntervalType(), t.DecimalType(20, 0)],
    "avro": [*_WIDE, *_PLAIN, *_TIMES, t.TimestampNTZType(), t.DecimalType(38, 10)],
    "json": [*INTS.values(), *_PLAIN, *_TIMES, t.TimestampNTZType(), t.DecimalType(38, 10), t.DecimalType(3, 3)],
    "json_schema": [*INTS.values(), *_PLAIN, *_TIMES],
}


def kind_of(draw: Draw, language: str, depth: int = 2) -> t.DataType:
    """A type."""
    pick = draw.random()
    if not depth or pick < 0.5:
        return draw.choice(LEAVES[language])
    if pick < 0.65:
        return t.ArrayType(_inner(draw, language, depth - 1))
    if pick < 0.8:
        return t.MapType(t.StringType(), _inner(draw, language, depth - 1))
    return struct_of(draw, language, depth - 1)


def _inner(draw: Draw, language: str, depth: int) -> t.DataType:
    """Of elements and of a map's values; a message has no arrays or maps of such."""
    if language != "protobuf":
        return kind_of(draw, language, depth)
    return draw.choice(LEAVES[language]) if draw.random() < 0.7 else struct_of(draw, language, 0)


def struct_of(draw: Draw, language: str, depth: int = 2) -> t.StructType:
    """A type of objects."""
    fields = [t.StructField(f"f{n}", kind_of(draw, language, depth)) for n in range(draw.randint(1, 4))]
    return t.StructType(fields)


def column_of(draw: Draw, kind: t.DataType, count: int) -> pa.Array:
    """So many values of a type, some null."""
    target = arrow_type(kind)
    if isinstance(kind, t.StructType):
        inner = [column_of(draw, each.dataType, count) for each in kind.fields]
        return pa.StructArray.from_arrays(inner, fields=list(target))
    if isinstance(kind, t.ArrayType):
        offsets = pa.array([0, *_ends(draw, count)], pa.int32())
        elements = column_of(draw, kind.elementType, offsets[-1].as_py())
        return pa.ListArray.from_arrays(offsets, elements).cast(target)
    if isinstance(kind, t.MapType):
        offsets = pa.array([0, *_ends(draw, count)], pa.int32())
        total = offsets[-1].as_py()
        keys = pa.array([f"k{n:06}" for n in range(total)], pa.string())
        return pa.MapArray.from_arrays(offsets, keys, column_of(draw, kind.valueType, total)).cast(target)
    given = [None if draw.random() < 0.1 else _leaf(draw, kind) for _ in range(count)]
    if pa.types.is_temporal(target):
        bits = pa.int32() if pa.types.is_date32(target) else pa.int64()
        return pa.array(given, bits).view(target)
    return (
        pa.array(given, pa.float64()).cast(target, safe=False)
        if pa.types.is_float32(target)
        else pa.array(given, target)
    )


def _ends(draw: Draw, count: int) -> list[int]:
    at, ends = 0, []
    for _ in range(count):
        at += draw.choice([0, 1, 2, 5])
        ends.append(at)
    return ends


def _leaf(draw: Draw, kind: t.DataType) -> Any:
    for bits, each in INTS.items():
        if kind == each:
            return draw.choice([-(1 << (bits - 1)), (1 << (bits - 1)) - 1, 0, -1, 7])
    if isinstance(kind, t.BooleanType):
        return draw.random() < 0.5
    if isinstance(kind, t.StringType):
        return draw.choice(TEXTS)
    if isinstance(kind, t.BinaryType):
        return draw.choice(BYTES)
    if isinstance(kind, t.DateType):
        return draw.choice([0, *DAYS] + ([-(1 << 31), (1 << 31) - 1, DAYS[0] - 1, DAYS[1] + 1] if draw.wide else []))
    if isinstance(kind, t.DecimalType):
        return _decimal(draw, kind)
    if isinstance(kind, t.FloatType | t.DoubleType):
        return draw.choice(FLOATS)
    return draw.choice(MICROS if draw.wide else [each for each in MICROS if YEAR_1 <= each <= YEAR_9999])


def _decimal(draw: Draw, kind: t.DecimalType) -> Any:
    most = (1 << 64) - 1 if (kind.precision, kind.scale) == (20, 0) else 10**kind.precision - 1
    digits = draw.choice([0, 1, most])
    sign = 1 if kind.scale == 0 else draw.choice([-1, 1])
    return Decimal(sign * digits).scaleb(-kind.scale, Context(prec=60))


# -- formats -------------------------------------------------------------------------------------------------


def written(serde: Serde, values: pa.Array) -> tuple[list[bytes], pa.Array]:
    """The bytes of those values that the format writes, and the values."""
    kept, raw = [], []
    for at in range(len(values)):
        try:
            made = serde.write(values[at : at + 1])[0].as_py()
        except WatersmeetError:
            # beyond what the format has, such as the year 294247
            continue
        if made is not None:
            kept.append(at)
            raw.append(bytes(made))
    return raw, values.take(pa.array(kept, pa.int64()))


def _message(kind: t.StructType) -> Any:
    """A class of messages of a type: a field that may be null must be optional."""
    file = descriptor_pb2.FileDescriptorProto(name="fuzz.proto", package="fuzz", syntax="proto3")
    file.dependency.extend(each.DESCRIPTOR.name for each in (timestamp_pb2, duration_pb2, wrappers_pb2))
    _fields(file.message_type.add(name="M"), kind, ".fuzz.M")
    pool = DescriptorPool()
    for each in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("fuzz.M"))


_NUMBERS = {t.IntegerType: 5, t.LongType: 3, t.FloatType: 2, t.DoubleType: 1, t.BooleanType: 8, t.StringType: 9}
_NUMBERS |= {t.BinaryType: 12, t.DecimalType: 4}
_WELL_KNOWN = {t.TimestampType: ".google.protobuf.Timestamp", t.DayTimeIntervalType: ".google.protobuf.Duration"}


def _fields(message: Any, kind: t.StructType, path: str) -> None:
    for number, each in enumerate(kind.fields, 1):
        inner, repeated = each.dataType, isinstance(each.dataType, t.ArrayType)
        if isinstance(inner, t.MapType):
            entry = message.nested_type.add(name=f"F{number - 1}Entry")
            entry.options.map_entry = True
            pair = [t.StructField("key", t.StringType()), t.StructField("value", inner.valueType)]
            _fields(entry, t.StructType(pair), f"{path}.{entry.name}")
            made = message.field.add(name=each.name, number=number, label=3, type=11, type_name=f"{path}.{entry.name}")
            continue
        while isinstance(inner, t.ArrayType):
            inner = inner.elementType
        made = message.field.add(name=each.name, number=number, label=3 if repeated else 1)
        if isinstance(inner, t.StructType):
            nested = message.nested_type.add(name=f"N{number}")
            _fields(nested, inner, f"{path}.{nested.name}")
            made.type, made.type_name = 11, f"{path}.{nested.name}"
        elif type(inner) in _WELL_KNOWN:
            made.type, made.type_name = 11, _WELL_KNOWN[type(inner)]
        else:
            made.type = _NUMBERS.get(type(inner), 9)
            if not repeated and not message.options.map_entry:
                made.oneof_index, made.proto3_optional = len(message.oneof_decl), True
                message.oneof_decl.add(name=f"_{each.name}")


def protobuf(draw: Draw) -> Subject:
    """Messages of a type made by chance."""
    form = wm.protobuf(_message(struct_of(draw, "protobuf")))
    kind = formats.type_of(form)
    reads, writes = formats.serde_of(form), formats.serde_of(form, kind)
    good, values = written(writes, column_of(draw, kind, 12))
    deep = [b"\x0b" * n + b"\x0c" * n for n in (99, 100, 5_000)] + [b"\x13" * 100_000]
    times = [b"\x0a" + bytes([len(body)]) + body for body in (_moment(s, n) for s in SECONDS for n in NANOS)]
    assert message_of(form.schema) is not None
    return Subject("protobuf", reads, good, values, deep + times)


SECONDS = [0, 1, -1, 253_402_300_799, 253_402_300_800, -62_135_596_800, -62_135_596_801, 1 << 62, MIN, MAX // 10**6]
NANOS = [0, 999_999_999, 10**9, 2 * 10**9, -1, -(1 << 31)]


def varint(number: int) -> bytes:
    """A number as Protobuf writes it."""
    number, made = number & ((1 << 64) - 1), bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    return varint((number << 1) ^ (number >> 63))


def _moment(seconds: int, nanos: int) -> bytes:
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)


def avro(draw: Draw) -> Subject:
    """Values of a schema made by chance."""
    kind = struct_of(draw, "avro")
    text = json.dumps(schema_of_avro(kind))
    form = wm.avro(text)
    good, values = written(formats.serde_of(form, kind), column_of(draw, kind, 12))
    # by each number every field that is a time or a day
    hostile = [(b"\2" + zigzag(n)) * len(kind.fields) for n in (*MICROS, 1 << 31, -(1 << 31), 1 << 40)]
    hostile += [zigzag(n) * 3 for n in (MIN, MAX, 1 << 40, -1)] + [b"\x02" * 3_000, b"\xff" * 40]
    return Subject("avro", formats.serde_of(form), good, values, hostile)


def schema_of_avro(kind: t.StructType, name: str = "R") -> Any:
    """A schema of Avro; times of the outermost fields are in milliseconds."""
    made = schema_for(kind, name)
    for each in made["fields"]:
        inner = each["type"][1]
        if isinstance(inner, dict) and "micros" in inner.get("logicalType", ""):
            inner["logicalType"] = inner["logicalType"].replace("micros", "millis")
    return made


def json_subject(draw: Draw) -> Subject:
    """JSON of a type made by chance, with and without what the type does not name."""
    draw.wide = False
    kind = struct_of(draw, "json")
    form = wm.json(kind)
    serde = formats.serde_of(form)
    good, values = written(serde, column_of(draw, kind, 12))
    return Subject("json", serde, good, values, hostile_json(draw))


def hostile_json(draw: Draw) -> list[bytes]:
    """Texts that ask for work, where nobody looks and elsewhere."""
    deep = draw.choice([90, 400, 600, 990, 5_000, 100_000])
    own = ",".join(f'"u{draw.randrange(10**9)}":{n}' for n in range(50))
    texts = ['{"x":' + "[" * deep + "]" * deep + "}", '{"x":' + '{"a":' * deep + "1" + "}" * deep + "}", "[" * deep]
    texts += [f'{{"x":{{{own}}}}}', f"{{{own}}}", '{"f0":' + "9" * draw.choice([19, 400, 5_000]) + "}"]
    texts += ['{"f0":1e999999}', '{"x":NaN}', '{"x":{"a":1,"a":2}}', '{"F0":1}', '{"x":"\\ud800"}', '{"f0":"\\ud800"}']
    texts += ['{"x":' + "1" * 5_000 + "}", '{"f0":[' + "[]," * 20_000 + "[]]}", '{"f0":"' + "a" * 30 + '!"}']
    return [each.encode() for each in texts]


MAP_OF_INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}


def json_schema(draw: Draw) -> Subject:
    """JSON by a schema made by chance, looked at by all that it says."""
    draw.wide = False
    kind = struct_of(draw, "json_schema")
    schema = json_schema_for(kind, "fuzz")
    more = {
        "a": {"type": "string", "pattern": draw.choice(["^(a+)+$", r"^(\w|\d)*x$", "(.*)*y", r"^(([a-z])+.)+[A-Z]$"])},
        "u": {
            "type": "array",
            "uniqueItems": True,
            "items": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "n": {"type": "number", "multipleOf": draw.choice([0.1, 3, 1e-300]), "minimum": 0},
    }
    schema["properties"] |= {name: {"oneOf": [{"type": "null"}, each]} for name, each in more.items()}
    if draw.random() < 0.5:
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        schema["unevaluatedProperties"] = schema.pop("additionalProperties")
    form = wm.json_schema(schema, validate=True)
    reads, made = formats.serde_of(form), formats.type_of(form)
    writes = formats.serde_of(form, made)
    good, values = written(writes, column_of(draw, made, 12))
    size = draw.choice([10, 3_000])
    hostile = ['{"a":"' + "a" * size + '!"}', '{"u":[' + ",".join(f'{{"x":{n}}}' for n in range(size)) + "]}"]
    hostile += [
        '{"n":1e308}',
        '{"n":' + "9" * 4_000 + "}",
        '{"n":-1}',
        '{"a":"' + "x1" * size + '"}',
        '{"u":[{"x":1},{"x":1.0}]}',
    ]
    return Subject("json_schema", reads, good, values, [*map(str.encode, hostile), *hostile_json(draw)])


ROW_ID = t.StructType([t.StructField("id", t.LongType())])
ROW = t.StructType([*ROW_ID.fields, t.StructField("name", t.StringType())])


def primitive(draw: Draw) -> Subject:
    """What Kafka's own serializers write."""
    name = draw.choice(["string", "int", "long", "short", "float", "double", "boolean", "uuid", "decimal"])
    given = INPUTS[name]
    bad = [each for each in given.bad.values() if len(each) < 10_000]
    return Subject(name, formats.serde_of(given.form), [each for each in given.good if each is not None], None, bad)


def windowed(draw: Draw) -> Subject:
    """Keys of windows, with keys of any format within."""
    inner = draw.choice([Format("string"), Format("long"), wm.json(ROW_ID), wm.avro('"string"')])
    form: Any = draw.choice([lambda: wm.time_windowed(inner, size="1 minute"), lambda: wm.session_windowed(inner)])()
    kind = formats.type_of(form)
    assert isinstance(kind, t.StructType)
    key = column_of(draw, kind["key"].dataType, 12)
    start = [draw.choice([0, 1, 60_000, MAX - 60_000, MAX - 1, MAX]) for _ in range(12)]
    columns = [key, pa.array(start, pa.int64()), pa.array([min(MAX, each + 60_000) for each in start], pa.int64())]
    values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind)))
    good, values = written(formats.serde_of(form, kind), values)
    return Subject("windowed", formats.serde_of(form), good, None, [zigzag(MIN), b"", b"\xff" * 8, b"\x80" + bytes(15)])


def debezium(draw: Draw) -> Subject:
    """Change events, and their keys, in JSON."""
    if draw.random() < 0.3:
        serde, texts = formats.serde_of(wm.debezium_key(ROW_ID)), ['{"id":1}', '{"schema":null,"payload":{"id":2}}']
    else:
        documents = draw.random() < 0.3
        serde = formats.serde_of(wm.debezium(ROW, documents=documents))
        after = json.dumps('{"id":1}') if documents else '{"id":1,"name":"é"}'
        rows = {"c": after, "r": after, "u": after, "d": "null"}
        texts = [
            f'{{"op":"{op}","after":{row},"source":{{"ts_ms":{ts}}}}}' for op, row in rows.items() for ts in (0, 5, MAX)
        ]
        texts += [f'{{"schema":null,"payload":{each}}}' for each in texts]
    return Subject("debezium", serde, [each.encode() for each in texts], None, hostile_json(draw))


SUBJECTS: dict[str, Callable[[Draw], Subject]] = {
    "json": json_subject,
    "json_schema": json_schema,
    "avro": avro,
    "protobuf": protobuf,
    "primitive": primitive,
    "windowed": windowed,
    "debezium": debezium,
}
