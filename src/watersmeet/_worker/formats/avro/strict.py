"""Whether bytes are an Avro value of a schema, to the letter: slow, for those that fastavro's word is not enough of.

fastavro takes a negative number for the last symbol or branch, wraps what is beyond 64 bits, and takes any byte for
true. Each value that it reads is written once more, and if the bytes differ, they are checked here (law 6). Others than
fastavro would write may be right: blocks with their size, numbers with more bytes than they need.

Its code in C goes as deep as a value does, and makes as many elements as an array says that it has. Where a schema
bounds neither, bytes are looked at here before (`budgets`); so this keeps the levels in a list of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet._worker.formats.avro.bounds import schema_is_empty
from watersmeet._worker.formats.avro.types import Schema, base, kind_of
from watersmeet._worker.formats.guarded.budgets import AVRO_LEVELS, EMPTY_VALUES
from watersmeet._worker.formats.registered.language import Refused

_BITS = 64
_WIDTHS = {"float": 4, "double": 8}


@dataclass
class _AvroReader:
    """Bytes, and how far they have been looked at."""

    data: bytes
    at: int = 0

    def long(self) -> int:
        data, at = self.data, self.at
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
        self.at = at
        return (number >> 1) ^ -(number & 1)

    def skip(self, count: int) -> None:
        if count < 0:
            raise Refused("a length is negative")
        if self.at + count > len(self.data):
            raise Refused("the bytes end within a value")
        self.at += count


def check(schema: Schema, names: Mapping[str, Any], data: bytes) -> None:
    """Raise unless the bytes are one value of the schema, within its budgets.

    Raises
    ------
    Refused : they are not.
    """
    reader, empty = _AvroReader(data), 0
    # what is still to be looked at, of each value that others lie within
    levels: list[Iterator[Schema]] = [iter([schema])]
    while levels:
        inner = next(levels[-1], None)
        if inner is None:
            levels.pop()
            continue
        before = reader.at
        inner = base(inner, names)
        if isinstance(inner, list):
            inner = base(inner[_branch(inner, reader)], names)
        kind = kind_of(inner)
        if kind in _LEAVES:
            _LEAVES[kind](inner, reader)
        else:
            levels.append(_WITHIN[kind](inner, reader))
            if len(levels) > AVRO_LEVELS + 1:
                raise Refused(f"it has more than {AVRO_LEVELS} levels")
        if reader.at == before and (kind in _LEAVES or schema_is_empty(inner)):
            empty += 1
            if empty > EMPTY_VALUES:
                raise Refused(f"it has more than {EMPTY_VALUES} values that take no bytes")
    if reader.at != len(data):
        raise Refused(f"{len(data) - reader.at} bytes behind the value")


# -- values with nothing within ------------------------------------------------------------------------------


def _number(schema: Schema, reader: _AvroReader) -> None:
    value = reader.long()
    if kind_of(schema) == "int" and not -(1 << 31) <= value < 1 << 31:
        raise Refused("a number does not fit into an int")


def _boolean(schema: Schema, reader: _AvroReader) -> None:
    reader.skip(1)
    if reader.data[reader.at - 1] > 1:
        raise Refused("a boolean is 0 or 1")


def _bytes(schema: Schema, reader: _AvroReader) -> None:
    reader.skip(reader.long())


def _text(schema: Schema, reader: _AvroReader) -> None:
    length = reader.long()
    start = reader.at
    reader.skip(length)
    try:
        reader.data[start : reader.at].decode()
    except UnicodeDecodeError:
        raise Refused("a string is not valid UTF-8") from None


def _enum(schema: Schema, reader: _AvroReader) -> None:
    number = reader.long()
    if not 0 <= number < len(schema["symbols"]):
        raise Refused(f"{schema['name']} has no symbol of number {number}")


def _branch(schema: Schema, reader: _AvroReader) -> int:
    number = reader.long()
    if not 0 <= number < len(schema):
        raise Refused(f"a union has no branch of number {number}")
    return number


_LEAVES: dict[str, Callable[[Any, _AvroReader], None]] = {
    "null": lambda schema, reader: None,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    **{kind: lambda schema, reader, width=width: reader.skip(width) for kind, width in _WIDTHS.items()},  # type: ignore[misc]
    "bytes": _bytes,
    "string": _text,
    "fixed": lambda schema, reader: reader.skip(schema["size"]),
    "enum": _enum,
}


# -- values with others within: the schemas of those, each asked for when the one before has been looked at ----


def _record(schema: Schema, reader: _AvroReader) -> Iterator[Schema]:
    return (field["type"] for field in schema["fields"])


def _blocks(schema: Schema, reader: _AvroReader) -> Iterator[Schema]:
    keys: set[bytes] = set()
    inner = schema.get("items", schema.get("values"))
    while True:
        count = reader.long()
        if not count:
            return
        end = None
        if count < 0:
            size = reader.long()
            start = reader.at
            reader.skip(size)
            reader.at, end = start, reader.at
        for _ in range(abs(count)):
            if "values" in schema:
                _key(keys, reader)
            yield inner
        if end is not None and reader.at != end:
            raise Refused("a block has another length than it declares")


def _key(keys: set[bytes], reader: _AvroReader) -> None:
    start = reader.at
    _text("string", reader)
    key = reader.data[start : reader.at]
    if key in keys:
        raise Refused("a map has a key twice")
    keys.add(key)


_WITHIN: dict[str, Callable[[Any, _AvroReader], Iterator[Schema]]] = {
    "record": _record,
    "error": _record,
    "array": _blocks,
    "map": _blocks,
}
