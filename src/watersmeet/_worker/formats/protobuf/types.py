"""Protobuf's messages: what types of Spark's they are of, and what may be read as what.

Protobuf itself resolves by numbers alone: a field of another type becomes its default, a longer number is cut off. So
what the writer's message says is compared with the reader's (law 6).
"""

from __future__ import annotations

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from watersmeet._worker.formats.guarded.budgets import SCHEMA_FIELDS
from watersmeet._worker.formats.registered.language import BadSchema

F = FieldDescriptor
_DEEPEST = 100
UNSIGNED_LONG = DecimalType(20, 0)
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WRAPPERS = frozenset(f"google.protobuf.{name}Value" for name in _WRAPPERS)
LEAVES: dict[int, DataType] = {
    F.TYPE_BOOL: BooleanType(),
    F.TYPE_STRING: StringType(),
    F.TYPE_ENUM: StringType(),
    F.TYPE_BYTES: BinaryType(),
    F.TYPE_DOUBLE: DoubleType(),
    F.TYPE_FLOAT: FloatType(),
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), IntegerType()),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT32, F.TYPE_FIXED32), LongType()),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), UNSIGNED_LONG),
}
_WIDER = {
    F.TYPE_INT32: (F.TYPE_INT64,),
    F.TYPE_UINT32: (F.TYPE_UINT64, F.TYPE_INT64),
    F.TYPE_SINT32: (F.TYPE_SINT64,),
    F.TYPE_STRING: (F.TYPE_BYTES,),
}
"""As what else a field may be read: with the same bytes and without another value."""


def message_of(text: str) -> Descriptor:
    """The message of a format's text: its name, and the files that describe it.

    Raises
    ------
    BadSchema : it is not there.
    """
    given = json.loads(text)
    pool = DescriptorPool()
    try:
        for each in given["files"]:
            pool.AddSerializedFile(base64.b64decode(each))
        return pool.FindMessageTypeByName(given["message"])
    except (KeyError, TypeError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None


def type_of_message(message: Descriptor) -> DataType:
    """The Spark type of a message.

    Raises
    ------
    BadSchema : it holds itself, or is too large.
    """
    if _fields(message, (), {}) > SCHEMA_FIELDS:
        raise BadSchema(f"{message.full_name} has more than {SCHEMA_FIELDS} fields")
    return _struct(message, ())


def _fields(message: Descriptor, above: tuple[str, ...], known: dict[str, int]) -> int:
    """How many fields there are, those within messages counted wherever these stand."""
    name = message.full_name
    if name in above:
        raise BadSchema(f"{name} holds itself")
    if name not in known:
        within = [field.message_type for field in message.fields if field.message_type is not None]
        known[name] = len(message.fields) + sum(_fields(each, (*above, name), known) for each in within)
    return known[name]


def _struct(message: Descriptor, above: tuple[str, ...]) -> StructType:
    inner = (*above, message.full_name)
    return StructType([StructField(field.name, _field(field, inner), True) for field in message.fields])


def _field(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_single(entry["key"], above), _single(entry["value"], above))
    made = _single(field, above)
    return ArrayType(made) if field.is_repeated else made


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return LEAVES[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name == DURATION:
        return DayTimeIntervalType()
    if name in WRAPPERS:
        return _single(field.message_type.fields_by_name["value"], above)
    if field.type == F.TYPE_GROUP:
        raise BadSchema(f"{field.full_name} is a group")
    return _struct(field.message_type, above)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class BadIndex(ValueError):
    """The bytes before a registered message are not the index of one; gives the reason."""


def header_of(message: Descriptor) -> bytes:
    """The bytes between the number of a file and a message: the message's index there, the first in one byte."""
    index = index_of(message)
    return b"\0" if index == [0] else b"".join(map(_zigzag, (len(index), *index)))


def payload_of(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The place of a message, and its bytes.

    Raises
    ------
    BadIndex : there is no place.
    """
    count, at = _number(data, 0)
    if not count:
        return (0,), data[at:]
    if not 0 < count <= _DEEPEST:
        raise BadIndex(f"a message's place has {count} numbers")
    found = []
    for _ in range(count):
        number, at = _number(data, at)
        found.append(number)
    return tuple(found), data[at:]


def _zigzag(number: int) -> bytes:
    made, rest = bytearray(), number << 1
    while rest > 0x7F:
        made.append(0x80 | rest & 0x7F)
        rest >>= 7
    return bytes([*made, rest])


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 35:
        if at >= len(data):
            raise BadIndex("the bytes end within the place of a message")
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise BadIndex("a number of a message's place has no end")


# -- the registry's ----------------------------------------------------------------------------------------


def index_of(message: Descriptor) -> list[int]:
    """Where a message stands in its file: its number there, below the one that it is declared in."""
    above = message.containing_type
    if above is None:
        return [next(n for n, each in enumerate(message.file.message_types_by_name.values()) if each is message)]
    return [*index_of(above), next(n for n, each in enumerate(above.nested_types) if each is message)]


def written_by(text: str, references: Sequence[str]) -> WrittenFile:
    """A registered file, as the registry's format "serialized" has it.

    Raises
    ------
    BadSchema : it is none.
    """
    try:
        found = [
            descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(t, validate=True))
            for t in (text, *references)
        ]
    except (DecodeError, NotBase64, ValueError):
        raise BadSchema("the registry does not give it as a descriptor (format=serialized)") from None
    return WrittenFile(found)


class WrittenFile:
    """A file that values were written by, with those that it needs.

    Parameters
    ----------
    files : itself first.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        self._file = files[0]
        self._messages = {name: each for file in files for name, each in _named(file.package, file.message_type)}

    def refuses(self, index: Sequence[int], read: Descriptor) -> str | None:
        """Why what stands at an index cannot be read as this message; None: it can."""
        inner, name = self._file.message_type, self._file.package
        written = None
        for number in index:
            if not 0 <= number < len(inner):
                return f"there is no message of the index {list(index)}"
            written = inner[number]
            inner, name = written.nested_type, f"{name}.{written.name}".lstrip(".")
        if written is None or name != read.full_name:
            return f"it is of the message {name}, not {read.full_name}"
        return self._differs(written, read, set())

    def _differs(self, written: Any, read: Descriptor, seen: set[str]) -> str | None:
        seen.add(read.full_name)
        fields = {each.number: each for each in written.field}
        for field in read.fields:
            other = fields.get(field.number)
            why = None if other is None else self._field_differs(other, field, seen)
            if why is not None:
                return why
        return None

    def _field_differs(self, written: Any, read: FieldDescriptor, seen: set[str]) -> str | None:
        repeated = written.label == F.LABEL_REPEATED
        fits = written.type == read.type or read.type in _WIDER.get(written.type, ())
        if repeated != read.is_repeated or not fits:
            return f"field {read.number} ({read.name}) is of another type there"
        inner = self._messages.get(written.type_name.lstrip("."))
        if inner is None or read.message_type is None or read.message_type.full_name in seen:
            return None
        return self._differs(inner, read.message_type, seen)


def _named(prefix: str, messages: Any) -> Iterator[tuple[str, Any]]:
    for each in messages:
        name = f"{prefix}.{each.name}".lstrip(".")
        yield name, each
        yield from _named(name, each.nested_type)
