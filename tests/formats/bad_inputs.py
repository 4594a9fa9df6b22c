"""Bytes that are not of a format, by format: the table that every format's tests go through.

A format adds itself to `INPUTS`: what it is, some bytes that are of it, and its bad bytes by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.wrappers_pb2 import StringValue
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

import watersmeet as wm
from watersmeet._worker.formats.json_schema import schema_for
from watersmeet.io.formats import Format

LARGE = 20 << 20
"""Bytes of a large value."""
DEEP = 100_000
"""Levels of a deep one."""
OBJECT = (
    StructType()
    .add("id", LongType())
    .add("n", IntegerType())
    .add("x", ByteType())
    .add("price", DecimalType(5, 2))
    .add("f", DoubleType())
    .add("ok", BooleanType())
    .add("at", TimestampType())
    .add("day", DateType())
    .add("tags", ArrayType(StringType()))
    .add("m", MapType(StringType(), IntegerType()))
    .add("s", StructType().add("a", IntegerType()))
    .add("b", BinaryType())
)


@dataclass(frozen=True)
class Inputs:
    """What is tried of a format.

    Parameters
    ----------
    form : the format.
    good : bytes that are of it; they stand between the bad ones.
    bad : bytes that are not, by what is wrong with them.
    """

    form: Format
    good: tuple[bytes | None, ...]
    bad: Mapping[str, bytes]


NO_TEXTS = {
    "a byte that is never in a text": b"\xff",
    "cut off behind its first byte": b"\xc3",
    "cut off behind its second byte": b"\xe2\x82",
    "an overlong NUL": b"\xc0\x80",
    "an overlong slash": b"\xe0\x80\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "a pair of surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond the last character": b"\xf4\x90\x80\x80",
    "a byte that goes on with nothing": b"a\x80",
    "UTF-16": "aé".encode("utf-16"),
    "Latin-1": "é".encode("latin-1"),
    "bad at the end of 20 MB": b"a" * LARGE + b"\xff",
}


def of_other_widths(width: int) -> dict[str, bytes]:
    """Bytes that are not as many as a number has."""
    lengths = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16} - {width}
    return {f"{n} bytes": bytes(n) for n in sorted(lengths)} | {
        "a number as text": b"1" * (width + 3),
        "a large number of bytes": bytes(LARGE),
    }


NO_BOOLEANS = {"two": b"\2", "all bits": b"\xff", "a text": b"t"}
UUID = b"123e4567-e89b-12d3-a456-426614174000"
NO_UUIDS = {
    "nothing": b"",
    "16 bytes": bytes(16),
    "a digit too few": UUID[:-1],
    "a digit too many": UUID + b"0",
    "a line end behind it": UUID + b"\n",
    "no hyphens": UUID.replace(b"-", b""),
    "braces": b"{" + UUID + b"}",
    "what Java takes for one": b"1-1-1-1-1",
    "a letter that is no digit": b"g" + UUID[1:],
}
NO_DECIMALS = {
    "nothing": b"",
    "a digit too many": b"\x01\x86\xa0",
    "a digit too many below zero": b"\xfe\x79\x60",
    "as many bytes as a decimal ever has": b"\x7f" + b"\xff" * 15,
    "more bytes": b"\1" + bytes(16),
    "a large number of bytes": b"\1" * LARGE,
    "a number as text": b"1.00",
}
NO_JSON = {
    "nothing": b"",
    "white space": b" \n",
    "a NUL": b"\0",
    "cut off at once": b"{",
    "cut off behind a value": b'{"id": 1',
    "cut off in a text": b'{"tags": ["a',
    "a comma too many": b'{"id": 1,}',
    "something behind it": b'{"id": 1} x',
    "two values": b'{"id": 1}{"id": 2}',
    "two lines": b'{"id": 1}\n{"id": 2}',
    "an array": b"[]",
    "a number": b"1",
    "a text": b'"{}"',
    "a boolean": b"true",
    "single quotes": b"{'id': 1}",
    "no quotes": b"{id: 1}",
    "no colon": b'{"id" 1}',
    "a comment": b'{"id": 1} // one',
    "framed by a registry": b'\0\0\0\0\1{"id": 1}',
    "compressed": b"\x1f\x8b\x08\0\0\0\0\0\0\3",
    "a byte order mark": b'\xef\xbb\xbf{"id": 1}',
    "UTF-16": '{"id": 1}'.encode("utf-16"),
    "no UTF-8": b"\xff",
    "no UTF-8 in a text": b'{"tags": ["\xff"]}',
    "an overlong NUL in a text": b'{"tags": ["\xc0\x80"]}',
    "a surrogate in a text": b'{"tags": ["\xed\xa0\x80"]}',
    "half of a pair in a text": b'{"tags": ["\\ud800"]}',
    "half of a pair in a key": b'{"m": {"\\ud800": 1}}',
    "a line end in a text": b'{"tags": ["\n"]}',
    "an unknown escape": b'{"tags": ["\\x"]}',
    "a text for a number": b'{"id": "1"}',
    "a fraction for an integer": b'{"id": 1.5}',
    "beyond a long": b'{"id": 9223372036854775808}',
    "below a long": b'{"id": -9223372036854775809}',
    "beyond an int": b'{"n": 2147483648}',
    "beyond a byte": b'{"x": 128}',
    "beyond a decimal": b'{"price": 1000.00}',
    "a power beyond all": b'{"price": 1e999999999}',
    "beyond a double": b'{"f": 1e999}',
    "an exponent for an integer": b'{"id": 1e400}',
    "5,000 digits": b'{"id": ' + b"9" * 5_000 + b"}",
    "NaN": b'{"f": NaN}',
    "Infinity": b'{"f": -Infinity}',
    "a leading zero": b'{"id": 01}',
    "a plus": b'{"id": +1}',
    "no digit before the point": b'{"f": .5}',
    "a number for a boolean": b'{"ok": 1}',
    "a text for a boolean": b'{"ok": "true"}',
    "a text for an array": b'{"tags": "a"}',
    "numbers for texts": b'{"tags": [1]}',
    "an array for a map": b'{"m": []}',
    "texts for a map's numbers": b'{"m": {"a": "b"}}',
    "a number for a struct": b'{"s": 1}',
    "a text within a struct": b'{"s": {"a": "b"}}',
    "no time": b'{"at": "yesterday"}',
    "a thirteenth month": b'{"at": "2026-13-01T00:00:00Z"}',
    "a day that is not there": b'{"day": "2026-02-30"}',
    "a number for a day": b'{"day": 7}',
    "no base 64": b'{"b": "***"}',
    "deep arrays": b"[" * DEEP,
    "deep arrays where nobody looks": b'{"other": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "20 MB cut off": b'{"tags": ["' + b"a" * LARGE,
}

_DERIVED = schema_for(StructType([each for each in OBJECT.fields if each.name != "price"]), "object")
SCHEMA = _DERIVED | {
    "properties": _DERIVED["properties"]
    | {
        "state": {"enum": ["NEW", "PAID"]},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "all": {"type": "array", "items": {"type": "integer"}},
    }
}
OF_PRICE = ("beyond a decimal", "a power beyond all")
NO_JSON_OF_THE_SCHEMA = {name: raw for name, raw in NO_JSON.items() if name not in OF_PRICE} | {
    "the text null": b"null",
    "none of an enum": b'{"state": "GONE"}',
    "an enum in another case": b'{"state": "new"}',
    "what has to be there": b'{"who": {}}',
    "null where it may not be": b'{"who": {"name": null}}',
    "null in an array": b'{"all": [1, null]}',
    "a word for a number": b'{"f": "NaN"}',
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "rush", "type": "boolean"},
    ],
}
NO_AVRO = {
    "nothing": b"",
    "cut off": b"\x02\x00\x00",
    "a byte too many": b"\x02\x00\x00\x01\x00",
    "a symbol below the first": b"\x02\x01\x00\x01",
    "a symbol behind the last": b"\x02\x04\x00\x01",
    "a branch below the first": b"\x02\x00\x01\x01",
    "a branch behind the last": b"\x02\x00\x04\x01",
    "a boolean of seven": b"\x02\x00\x00\x07",
    "a number of more than 64 bits": b"\xff" * 9 + b"\x7f\x00\x00\x01",
    "a number without an end": b"\xff" * 100,
    "a text longer than the bytes": b"\x02\x00\x02\x04a",
    "a text of a length below zero": b"\x02\x00\x02\x01a\x01",
    "a text of a huge length": b"\x02\x00\x02" + b"\xfe\xff\xff\xff\x7f",
    "no UTF-8": b"\x02\x00\x02\x02\xff\x01",
    "framed by a registry": b"\0\0\0\0\1\x02\x00\x00\x01",
    "20 MB behind it": b"\x02\x00\x00\x01" + bytes(LARGE),
}
NO_MESSAGES = {
    "cut off behind a tag": b"\x0a",
    "cut off in a text": b"\x0a\x05a",
    "no UTF-8": b"\x0a\x01\xff",
    "the field zero": b"\x02\x00",
    "a wire type that is not there": b"\x0e",
    "a group that ends": b"\x0c",
    "a group that does not end": b"\x13",
    "a number without an end": b"\x10" + b"\xff" * 11,
    "a text of a huge length": b"\x0a\xff\xff\xff\xff\x0f",
    "20 MB cut off": b"\x0a\x81\x80\x80\x0a" + b"a" * LARGE,
}

INPUTS = {
    "string": Inputs(Format("string"), ("é𝄞".encode(), b"", None), NO_TEXTS),
    "int": Inputs(Format("int"), (b"\xff" * 4, bytes(4), None), of_other_widths(4)),
    "long": Inputs(Format("long"), (b"\x80" + bytes(7), bytes(8), None), of_other_widths(8)),
    "short": Inputs(Format("short"), (b"\x80\0", bytes(2), None), of_other_widths(2)),
    "float": Inputs(Format("float"), (b"\x7f\x80\0\0", bytes(4), None), of_other_widths(4)),
    "double": Inputs(Format("double"), (b"\xff\xf0" + bytes(6), bytes(8), None), of_other_widths(8)),
    "boolean": Inputs(Format("boolean"), (b"\1", b"\0", None), of_other_widths(1) | NO_BOOLEANS),
    "uuid": Inputs(Format("uuid"), (UUID, UUID.upper(), None), NO_TEXTS | NO_UUIDS),
    "decimal": Inputs(wm.decimal(5, 2), (b"\xff", b"\x01\x86\x9f", None), NO_DECIMALS),
    "json": Inputs(wm.json(OBJECT), (b'{"id": 1, "tags": ["\xc3\xa9"]}', b"{}", None), NO_JSON),
    "json_schema": Inputs(
        wm.json_schema(SCHEMA), (b'{"id": 1, "state": "NEW", "who": null}', b"{}", None), NO_JSON_OF_THE_SCHEMA
    ),
    "avro": Inputs(wm.avro(ORDER), (b"\x02\x00\x00\x01", b"\x01\x02\x02\x02a\x00", None), NO_AVRO),
    "protobuf": Inputs(wm.protobuf(StringValue), (b"\x0a\x01a", b"", None), NO_MESSAGES),
}
"""By name; "bytes" has no bad ones."""
