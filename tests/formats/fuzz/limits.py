"""The limits of every type that has some: numbers just within, which are read, and just beyond, which never are."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from google.protobuf import duration_pb2, timestamp_pb2
from pyspark.sql import types as t

import watersmeet as wm
from tests.formats.fuzz.draws import MAX, MIN, Draw, Subject, varint, zigzag
from watersmeet._worker.formats import formats

MOST_MILLIS = (1 << 63) // 1_000 - 1
AVRO: dict[str, tuple[str, int, int]] = {
    "": ("int", -(1 << 31), (1 << 31) - 1),
    "date": ("int", -(1 << 31), (1 << 31) - 1),
    "timestamp-millis": ("long", -MOST_MILLIS, MOST_MILLIS),
    "local-timestamp-millis": ("long", -MOST_MILLIS, MOST_MILLIS),
    "timestamp-micros": ("long", MIN, MAX),
}
"""By logical type what lies beneath it, and the least and the most."""
SECONDS: dict[Any, tuple[int, int]] = {
    timestamp_pb2.Timestamp: (-62_135_596_800, 253_402_300_799),
    duration_pb2.Duration: (-315_576_000_000, 315_576_000_000),
}


def _avro(draw: Draw) -> Subject:
    logical = draw.choice(list(AVRO))
    kind, least, most = AVRO[logical]
    inner = {"type": kind, "logicalType": logical} if logical else kind
    form = wm.avro(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": inner}]}))
    good = [least, most, 0, -1, draw.randint(least, most)]
    bad = [n for n in (least - 1, most + 1, MIN, MAX, draw.randint(MIN, MAX)) if not least <= n <= most]
    column = pa.array([n * (1_000 if "millis" in logical else 1) for n in good], pa.int64())
    return _subject("avro", form, column, [zigzag(n) for n in good], [zigzag(n) for n in bad if MIN <= n <= MAX])


def _protobuf(draw: Draw) -> Subject:
    from tests.formats.test_budgets import holding

    kind = draw.choice(list(SECONDS))
    least, most = SECONDS[kind]
    good = [(least, 0), (most, 0), (1, 999_999_999), (draw.randint(1, most), draw.randrange(10**9))]
    bad = [(least - 1, 0), (most + 1, 0), (MIN, 0), (MAX, 0), (1, 10**9), (1, 2 * 10**9), (1, -1), (5, -(1 << 31))]
    raw = [[_message(*each) for each in given] for given in (good, bad)]
    column = pa.array([seconds * 10**6 + nanos // 1_000 for seconds, nanos in good], pa.int64())
    return _subject("protobuf", wm.protobuf(holding(kind)), column, *raw)


def _message(seconds: int, nanos: int) -> bytes:
    body = b"\x08" + varint(seconds) + b"\x10" + varint(nanos)
    return b"\x0a" + bytes([len(body)]) + body


def _json(draw: Draw) -> Subject:
    precision = draw.choice([1, 5, 28, 29, 38])
    scale = draw.randint(0, precision)
    form = wm.json(t.StructType([t.StructField("a", t.DecimalType(precision, scale))]))
    digits = 10**precision - 1
    good, bad = [digits, -digits, 0, 1], [digits + 1, -digits - 1]
    column = pa.array([_scaled(n, scale) for n in good], pa.string()).cast(pa.decimal128(precision, scale))
    texts = [[f'{{"a":{_scaled(n, scale)}}}'.encode() for n in given] for given in (good, bad)]
    serde = formats.serde_of(form)
    return Subject("json", serde, texts[0], pa.StructArray.from_arrays([column], ["a"]), bad=texts[1])


def _scaled(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, rest = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return f"{'-' if number < 0 else ''}{whole}{'.' if rest else ''}{rest}"


def _subject(name: str, form: Any, column: pa.Array, good: list[bytes], bad: list[bytes]) -> Subject:
    serde = formats.serde_of(form)
    target = serde.read(pa.nulls(1, pa.binary())).values.type
    bits = pa.int32() if target[0].type.bit_width == 32 else pa.int64()
    values = pa.StructArray.from_arrays([column.cast(bits).view(target[0].type)], fields=list(target))
    return Subject(name, serde, good, values, bad=bad)


def subject(draw: Draw) -> Subject:
    """One of the types."""
    return draw.choice([_avro, _protobuf, _json])(draw)
