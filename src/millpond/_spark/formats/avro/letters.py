"""Whether bytes are an Avro value of a schema, to the letter: slow, for those that fastavro's word is not enough of.

fastavro takes a negative number for the last symbol or branch, wraps what is beyond 64 bits, and takes any byte for
true. What it reads is written once more, and where that gives other bytes, they are looked at here (law 6). Others than
fastavro would write may be right: blocks with their size, numbers with more bytes than they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millpond._spark.formats.avro.types import Schema, base, kind_of
from millpond._spark.formats.registered.language import Refused

_BITS = 64
_WIDTHS = {"float": 4, "double": 8}


def check(schema: Schema, names: Mapping[str, Any], data: bytes) -> None:
    """Raise unless the bytes are one value of the schema.

    Raises
    ------
    Refused : they are not.
    """
    end = _end(schema, names, data, 0)
    if end != len(data):
        raise Refused(f"{len(data) - end} bytes behind the value")


def _end(schema: Schema, names: Mapping[str, Any], data: bytes, at: int) -> int:
    """Where the value ends that begins at `at`."""
    schema = base(schema, names)
    return _ENDS[kind_of(schema)](schema, names, data, at)


def _long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data):
            raise Refused("the bytes end within a value")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= _BITS + 6:
            raise Refused("a number has more than 64 bits")
    if number >> _BITS:
        raise Refused("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def _skipped(data: bytes, at: int, count: int) -> int:
    if count < 0:
        raise Refused("a length is negative")
    if at + count > len(data):
        raise Refused("the bytes end within a value")
    return at + count


def _number(schema: Schema, names: Any, data: bytes, at: int) -> int:
    value, at = _long(data, at)
    if kind_of(schema) == "int" and not -(1 << 31) <= value < 1 << 31:
        raise Refused("a number does not fit into an int")
    return at


def _boolean(schema: Schema, names: Any, data: bytes, at: int) -> int:
    end = _skipped(data, at, 1)
    if data[at] > 1:
        raise Refused("a boolean is 0 or 1")
    return end


def _bytes(schema: Schema, names: Any, data: bytes, at: int) -> int:
    length, at = _long(data, at)
    return _skipped(data, at, length)


def _text(schema: Schema, names: Any, data: bytes, at: int) -> int:
    length, at = _long(data, at)
    end = _skipped(data, at, length)
    try:
        data[at:end].decode()
    except UnicodeDecodeError:
        raise Refused("a string is not valid UTF-8") from None
    return end


def _enum(schema: Schema, names: Any, data: bytes, at: int) -> int:
    number, at = _long(data, at)
    if not 0 <= number < len(schema["symbols"]):
        raise Refused(f"{schema['name']} has no symbol of number {number}")
    return at


def _union(schema: Schema, names: Any, data: bytes, at: int) -> int:
    number, at = _long(data, at)
    if not 0 <= number < len(schema):
        raise Refused(f"a union has no branch of number {number}")
    return _end(schema[number], names, data, at)


def _record(schema: Schema, names: Any, data: bytes, at: int) -> int:
    for field in schema["fields"]:
        at = _end(field["type"], names, data, at)
    return at


def _blocks(schema: Schema, names: Any, data: bytes, at: int) -> int:
    keys: set[bytes] = set()
    while True:
        count, at = _long(data, at)
        if not count:
            return at
        end = None
        if count < 0:
            size, at = _long(data, at)
            end = _skipped(data, at, size)
        for _ in range(abs(count)):
            if "values" in schema:
                behind = _text("string", names, data, at)
                key = data[at:behind]
                if key in keys:
                    raise Refused("a key stands twice in a map")
                keys.add(key)
                at = behind
            at = _end(schema.get("items", schema.get("values")), names, data, at)
        if end is not None and at != end:
            raise Refused("a block is not as long as it says")


_ENDS: dict[str, Callable[[Any, Any, bytes, int], int]] = {
    "null": lambda schema, names, data, at: at,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    **{kind: lambda schema, names, data, at, width=width: _skipped(data, at, width) for kind, width in _WIDTHS.items()},  # type: ignore[misc]
    "bytes": _bytes,
    "string": _text,
    "fixed": lambda schema, names, data, at: _skipped(data, at, schema["size"]),
    "enum": _enum,
    "union": _union,
    "record": _record,
    "error": _record,
    "array": _blocks,
    "map": _blocks,
}
