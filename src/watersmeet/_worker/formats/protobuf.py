"""Protobuf values as Arrow columns and back, in the workers: protobuf a message at a time, Arrow a column at a time."""

from __future__ import annotations

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
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

from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json import Flaws
from watersmeet._worker.formats.limits import SCHEMA_FIELDS
from watersmeet._worker.formats.registry import (
    BadSchema,
    Language,
    References,
    Refused,
    SchemaReading,
    Unwritable,
    Writer,
    WriterValues,
)
from watersmeet._worker.formats.serdes import POLICY
from watersmeet.errors import ConfigError, EncodingError

# Protobuf's messages: what types of Spark's they are of, and what may be read as what.
#
# Protobuf itself resolves by numbers alone: a field of another type becomes its default, a longer number is cut off. So
# what the writer's message says is compared with the reader's (law 6).

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
    """The message of a format's text: its name, and the files that describe it."""
    document = json.loads(text)
    pool = DescriptorPool()
    try:
        for file in document["files"]:
            pool.AddSerializedFile(base64.b64decode(file))
        return pool.FindMessageTypeByName(document["message"])
    except (KeyError, TypeError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None


def type_of_message(message: Descriptor) -> DataType:
    if _fields(message, (), {}) > SCHEMA_FIELDS:
        raise BadSchema(f"{message.full_name} has more than {SCHEMA_FIELDS} fields")
    return _types_struct(message, ())


def _fields(message: Descriptor, above: tuple[str, ...], counts: dict[str, int]) -> int:
    """How many fields there are, those within messages counted wherever these stand."""
    name = message.full_name
    if name in above:
        raise BadSchema(f"{name} holds itself")
    if name not in counts:
        children = [field.message_type for field in message.fields if field.message_type is not None]
        counts[name] = len(message.fields) + sum(_fields(child, (*above, name), counts) for child in children)
    return counts[name]


def _types_struct(message: Descriptor, above: tuple[str, ...]) -> StructType:
    inner = (*above, message.full_name)
    return StructType([StructField(field.name, _field(field, inner), True) for field in message.fields])


def _field(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_types_single(entry["key"], above), _types_single(entry["value"], above))
    kind = _types_single(field, above)
    return ArrayType(kind) if field.is_repeated else kind


def _types_single(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return LEAVES[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name == DURATION:
        return DayTimeIntervalType()
    if name in WRAPPERS:
        return _types_single(field.message_type.fields_by_name["value"], above)
    if field.type == F.TYPE_GROUP:
        raise BadSchema(f"{field.full_name} is a group")
    return _types_struct(field.message_type, above)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class BadIndex(ValueError):
    """The bytes before a registered message are not the index of one; gives the reason."""


def header_of(message: Descriptor) -> bytes:
    """The bytes between the number of a file and a message: the message's index there, the first in one byte."""
    index = index_of(message)
    return b"\0" if index == [0] else b"".join(map(_zigzag, (len(index), *index)))


def payload_of(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The place of a message, and its bytes."""
    count, at = _number(data, 0)
    if not count:
        return (0,), data[at:]
    if not 0 < count <= _DEEPEST:
        raise BadIndex(f"a message's place has {count} numbers")
    index = []
    for _ in range(count):
        number, at = _number(data, at)
        index.append(number)
    return tuple(index), data[at:]


def _zigzag(number: int) -> bytes:
    encoded, remaining = bytearray(), number << 1
    while remaining > 0x7F:
        encoded.append(0x80 | remaining & 0x7F)
        remaining >>= 7
    return bytes([*encoded, remaining])


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
        return [next(n for n, sibling in enumerate(message.file.message_types_by_name.values()) if sibling is message)]
    return [*index_of(above), next(n for n, sibling in enumerate(above.nested_types) if sibling is message)]


def written_by(text: str, references: Sequence[str]) -> WrittenFile:
    """A registered file, as the registry's format "serialized" has it."""
    try:
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(t, validate=True))
            for t in (text, *references)
        ]
    except (DecodeError, NotBase64, ValueError):
        raise BadSchema("the registry does not give it as a descriptor (format=serialized)") from None
    return WrittenFile(files)


class WrittenFile:
    """A file that values were written by, with those that it needs.

    Parameters
    ----------
    files : itself first.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        self._file = files[0]
        self._messages = {
            name: message for file in files for name, message in _walk_messages(file.package, file.message_type)
        }

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

    def _differs(self, written: Any, read: Descriptor, visited: set[str]) -> str | None:
        visited.add(read.full_name)
        fields = {descriptor.number: descriptor for descriptor in written.field}
        for field in read.fields:
            counterpart = fields.get(field.number)
            reason = None if counterpart is None else self._field_differs(counterpart, field, visited)
            if reason is not None:
                return reason
        return None

    def _field_differs(self, written: Any, read: FieldDescriptor, visited: set[str]) -> str | None:
        repeated = written.label == F.LABEL_REPEATED
        fits = written.type == read.type or read.type in _WIDER.get(written.type, ())
        if repeated != read.is_repeated or not fits:
            return f"field {read.number} ({read.name}) is of another type there"
        inner = self._messages.get(written.type_name.lstrip("."))
        if inner is None or read.message_type is None or read.message_type.full_name in visited:
            return None
        return self._differs(inner, read.message_type, visited)


def _walk_messages(prefix: str, messages: Any) -> Iterator[tuple[str, Any]]:
    for message in messages:
        name = f"{prefix}.{message.name}".lstrip(".")
        yield name, message
        yield from _walk_messages(name, message.nested_type)


_MICROS, _NANOS = 1_000_000, 1_000
_MOST_NANOS = 999_999_999
_LENGTHENED, _GROUP = 2, 3
"""Types of fields on the wire."""
_NO_TEXT = "a string is not valid UTF-8"
_SECONDS = {TIMESTAMP: (-62_135_596_800, 253_402_300_799), DURATION: (-315_576_000_000, 315_576_000_000)}
"""The ranges that timestamp.proto (the years 1 to 9999) and duration.proto (10,000 years) give."""


class Messages:
    """Reads messages.

    Parameters
    ----------
    message : what they are of.
    """

    def __init__(self, message: Descriptor) -> None:
        self._read = GetMessageClass(message).FromString

    def value(self, data: bytes) -> Any:
        """The message."""
        try:
            message = self._read(data)
        except (DecodeError, UnicodeDecodeError):
            raise Refused("the bytes are no message, or not all of one") from None
        if not message.IsInitialized():
            raise Refused("a required field is not there")
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            _check_unknown(self._read(data))
        return message


def _check_unknown(message: Any) -> None:
    """Refuse what protobuf sets aside and its Java does not: tags of zero in groups, entries of maps with more."""
    maps = {field.number for field in message.DESCRIPTOR.fields if is_map(field)}
    for each in UnknownFieldSet(message):
        if each.field_number in maps and each.wire_type == _LENGTHENED:
            raise Refused("an entry of a map has more than a key and a value, or a number that its enum does not have")
        _check_group(each)
    for field, value in message.ListFields():
        if is_map(field) and field.message_type.fields_by_name["value"].message_type is not None:
            value = [value[key] for key in value if not isinstance(key, bytes)]
        elif field.message_type is None or is_map(field):
            continue
        for each in value if field.is_repeated else [value]:
            _check_unknown(each)


def _check_group(unknown: Any) -> None:
    if unknown.wire_type == _GROUP:
        for each in unknown.data:
            if not each.field_number:
                raise Refused("a tag is zero")
            _check_group(each)


# -- columns -----------------------------------------------------------------------------------------------


def columns_of(message: Descriptor, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The messages as one column; null, and with a reason, where a value is beyond its type."""
    flaws = Flaws()
    column = _values_struct(message, values, range(len(values)), flaws)
    if flaws.found:
        valid = [None if row in flaws.found else value for row, value in enumerate(values)]
        column = _values_struct(message, valid, range(len(valid)), Flaws())
    return column.cast(arrow_type(type_of_message(message))), flaws.found


def _values_struct(message: Descriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    columns = [_column(field, values, rows, flaws) for field in message.fields]
    mask = pa.array([value is None for value in values], pa.bool_())
    if not columns:
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    return pa.StructArray.from_arrays(columns, [field.name for field in message.fields], mask=mask)


def _column(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    name = field.name
    if field.is_repeated:
        return _repeated(field, [None if v is None else getattr(v, name) for v in values], rows, flaws)
    if field.has_presence:
        field_values = [getattr(v, name) if v is not None and v.HasField(name) else None for v in values]
    else:
        field_values = [None if v is None else getattr(v, name) for v in values]
    return _values_single(field, field_values, rows, flaws)


def _repeated(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    if is_map(field):
        values = [_readable(value, row, flaws) for value, row in zip(values, rows, strict=True)]
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    ends = [0, *accumulate(len(value) if value else 0 for value in values)]
    offsets = pa.array([None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32())
    if not is_map(field):
        flat = [item for value in values if value for item in value]
        return pa.ListArray.from_arrays(offsets, _values_single(field, flat, owners, flaws))
    entry = field.message_type.fields_by_name
    # protobuf has maps in an order that a replay need not repeat
    pairs = [(key, value[key]) for value in values if value for key in sorted(value)]
    keys, inner = [key for key, _ in pairs], [item for _, item in pairs]
    return pa.MapArray.from_arrays(
        offsets, _values_single(entry["key"], keys, owners, flaws), _values_single(entry["value"], inner, owners, flaws)
    )


def _readable(value: Any, row: int, flaws: Flaws) -> Any:
    """The map, empty where a key is no text: protobuf gives its bytes, and no value for them."""
    if not value or not any(isinstance(key, bytes) for key in value):
        return value
    flaws.add(row, _NO_TEXT)
    return {}


def _values_single(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    if field.type == F.TYPE_ENUM:
        return _symbols(field, values, rows, flaws)
    if field.type == F.TYPE_STRING:
        return _texts(values, rows, flaws)
    if field.message_type is None:
        return pa.array(values, arrow_type(LEAVES[field.type]))
    name = field.message_type.full_name
    if name in (TIMESTAMP, DURATION):
        return _moments(name, values, rows, flaws)
    if name in WRAPPERS:
        return _values_single(field.message_type.fields_by_name["value"], _unwrap(values), rows, flaws)
    return _values_struct(field.message_type, values, rows, flaws)


def _unwrap(wrappers: Sequence[Any]) -> list[Any]:
    return [None if wrapper is None else wrapper.value for wrapper in wrappers]


def _texts(values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    # protobuf gives a text of proto2 that is none as its bytes
    for row, value in zip(rows, values, strict=True):
        if isinstance(value, bytes):
            flaws.add(row, _NO_TEXT)
    return pa.array(["" if isinstance(value, bytes) else value for value in values], pa.string())


def _symbols(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    # of two names of a number the first, as protobuf's JSON and its Java have it
    names = {symbol.number: symbol.name for symbol in reversed(field.enum_type.values)}
    for row, value in zip(rows, values, strict=True):
        if value is not None and value not in names:
            flaws.add(row, f"{field.enum_type.full_name} has no value of number {value}")
    return pa.array([None if value is None else names.get(value) for value in values], pa.string())


def _moments(name: str, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    micros: list[int | None] = []
    for row, value in zip(rows, values, strict=True):
        number = None
        if value is not None and _is_in_range(name, value.seconds, value.nanos):
            number = value.seconds * _MICROS + value.nanos // _NANOS
        elif value is not None:
            flaws.add(row, _beyond(name))
        micros.append(number)
    return pa.array(micros, pa.int64()).view(pa.timestamp("us", "UTC") if name == TIMESTAMP else pa.duration("us"))


def _is_in_range(name: str, seconds: int, nanos: int) -> bool:
    least, most = _SECONDS[name]
    signed = name == DURATION and (seconds < 0 or (not seconds and nanos < 0))
    return least <= seconds <= most and (-_MOST_NANOS <= nanos <= 0 if signed else 0 <= nanos <= _MOST_NANOS)


def _beyond(name: str) -> str:
    return f"a {name.rsplit('.', 1)[1].lower()} is beyond its range"


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes messages."""

    text: str  # the message, as the format has it
    header: bytes  # what stands in front of each
    what: str  # names the values to the user

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null."""
        message = message_of(self.text)
        try:
            messages = _messages(message, values, "value")
        except (Unwritable, ValueError) as error:
            raise EncodingError(
                "A value does not fit the message of its sink.",
                given=f"{self.what}: {error}",
                hint="Change the values, or the message: a field that may be null must be optional, or a message; all "
                f"fields of a oneof but one are null; {POLICY}",
            ) from None
        written = [None if m is None else self.header + m.SerializeToString(deterministic=True) for m in messages]
        return pa.array(written, pa.binary())


def _messages(message: Descriptor, values: pa.Array, place: str) -> list[Any]:
    make = GetMessageClass(message)
    valid = values.is_valid().to_pylist()
    messages = [make() if present else None for present in valid]
    columns = dict(zip((field.name for field in message.fields), values.flatten(), strict=True))
    for group in message.oneofs:
        _check_one(
            values, [(field.name, columns[field.name]) for field in group.fields], f"{place}: the oneof {group.name}"
        )
    for field in message.fields:
        plain = _plain(field, columns[field.name], f"{place}.{field.name}")
        _fill(field, messages, plain, f"{place}.{field.name}")
    return messages


def _check_one(values: pa.Array, members: Sequence[tuple[str, pa.Array]], subject: str) -> None:
    """Refuse values with two fields of a oneof, as protobuf's own JSON readers do: a message has the last alone."""
    present = np.array([column.is_valid().to_numpy(zero_copy_only=False) for _, column in members])
    conflicts = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) & (present.sum(axis=0) > 1))
    if len(conflicts):
        names = [name for (name, _), valid in zip(members, present[:, conflicts[0]], strict=True) if valid]
        raise Unwritable(f"{subject} has {' and '.join(names)}, and may have one of them")


def _fill(field: FieldDescriptor, messages: Sequence[Any], values: Sequence[Any], place: str) -> None:
    name, repeated, inner = field.name, field.is_repeated, field.message_type is not None
    for message, value in zip(messages, values, strict=True):
        if message is None:
            continue
        if value is None:
            if repeated or not field.has_presence:
                raise Unwritable(f"{place} is null, and may not be")
        elif is_map(field):
            target = getattr(message, name)
            for key, item in value:
                if field.message_type.fields_by_name["value"].message_type is None:
                    target[key] = item
                else:
                    target[key].CopyFrom(item)
        elif repeated:
            getattr(message, name).extend(value)
        elif inner:
            getattr(message, name).CopyFrom(value)
        else:
            setattr(message, name, value)


def _plain(field: FieldDescriptor, values: pa.Array, place: str) -> list[Any]:
    if not field.is_repeated:
        return _plain_single(field, values, place)
    if is_map(field):
        values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
        flat, entry = values.flatten(), field.message_type.fields_by_name
        keys = _plain_single(entry["key"], flat.field(0), place)
        inner: list[Any] = list(zip(keys, _inner(entry["value"], flat.field(1), place), strict=True))
    else:
        inner = _inner(field, values.flatten(), place)
    lists, at = [], 0
    for length in pc.list_value_length(values).to_pylist():
        lists.append(None if length is None else inner[at : at + length])
        at += length or 0
    return lists


def _inner(field: FieldDescriptor, values: pa.Array, place: str) -> list[Any]:
    if values.null_count:
        raise Unwritable(f"{place}[] is null, and may not be")
    return _plain_single(field, values, place)


def _plain_single(field: FieldDescriptor, values: pa.Array, place: str) -> list[Any]:
    message = field.message_type
    if message is None:
        plain = list(values.to_pylist())
        if field.type in (F.TYPE_UINT64, F.TYPE_FIXED64):
            return [None if value is None else int(value) for value in plain]
        return _numbers(field, plain, place) if field.type == F.TYPE_ENUM else plain
    if message.full_name in (TIMESTAMP, DURATION):
        make = GetMessageClass(message)
        counts = values.view(pa.int64()).to_pylist()
        return [None if n is None else _moment(make, n, message.full_name, place) for n in counts]
    if message.full_name in WRAPPERS:
        make, inner = GetMessageClass(message), _plain_single(message.fields_by_name["value"], values, place)
        return [None if value is None else make(value=value) for value in inner]
    return _messages(message, values, place)


def _moment(make: Callable[..., Any], micros: int, name: str, place: str) -> Any:
    seconds, remainder = divmod(micros, _MICROS)
    # a duration's parts have one sign
    if name == DURATION and seconds < 0 and remainder:
        seconds, remainder = seconds + 1, remainder - _MICROS
    if not _is_in_range(name, seconds, remainder * _NANOS):
        raise Unwritable(f"{place}: {_beyond(name)}")
    return make(seconds=seconds, nanos=remainder * _NANOS)


def _numbers(field: FieldDescriptor, values: Sequence[Any], place: str) -> list[Any]:
    numbers = {name: symbol.number for name, symbol in field.enum_type.values_by_name.items()}
    unknown = {*values} - {None, *numbers}
    if unknown:
        raise Unwritable(f"{place}: {min(unknown)!r:.80} is not a value of {field.enum_type.full_name}")
    return [None if value is None else numbers[value] for value in values]


# Protobuf as a language of schemas: a schema is a message, in a file with others.


class Protobuf(Language):
    """Protobuf: a message is read as another one of its name."""

    registered_as: ClassVar[str] = "PROTOBUF"
    asked_as: ClassVar[str | None] = "serialized"
    hint: ClassVar[str] = "Take a message that holds neither itself nor a group."

    def type_of(self, text: str, references: References = ()) -> DataType:
        return type_of_message(message_of(text))

    def whole(self, text: str, references: References = ()) -> str:
        return text

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        return _ProtobufReading(text)

    def schema_for(self, kind: DataType, name: str) -> str:
        """As of each language: never, fields have numbers that no type has."""
        raise BadSchema("a message is not made of a type")

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        return ProtobufWriter(text, header and header + header_of(message_of(text)), what)

    def name_of(self, text: str) -> str | None:
        name: str = message_of(text).full_name
        return name

    def registration(self, text: str) -> str:
        """As of each language: the file's descriptor."""
        file = message_of(text).file
        needs = [
            dependency.name for dependency in file.dependencies if not dependency.name.startswith("google/protobuf/")
        ]
        if needs:
            raise ConfigError(
                f"The file {file.name} of a sink with a registry must not import other files.",
                given=f"{file.name} needs {', '.join(needs)}",
                hint="Declare all messages in the same file; google/protobuf/... may be imported.",
            )
        return base64.b64encode(file.serialized_pb).decode()

    def display_text(self, text: str) -> str:
        """As of each language: the message's name."""
        return str(self.name_of(text))


class _ProtobufReading:
    def __init__(self, text: str) -> None:
        self._message = message_of(text)

    def bare(self) -> WriterValues:
        return Messages(self._message)

    def written(self, text: str, references: References) -> WriterValues:
        return _Indexed(written_by(text, [reference for _, reference in references]), self._message)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return columns_of(self._message, values)


class _Indexed:
    """Messages of a registered file, with the place of each one's message in it in front."""

    def __init__(self, file: Any, message: Any) -> None:
        self._file, self._message, self._messages = file, message, Messages(message)
        self._refused: dict[tuple[int, ...], str | None] = {}

    def value(self, data: bytes) -> Any:
        try:
            index, payload = payload_of(data)
        except BadIndex as error:
            raise Refused(str(error)) from None
        if index not in self._refused:
            self._refused[index] = self._file.refuses(index, self._message)
        reason = self._refused[index]
        if reason is not None:
            raise Refused(reason)
        return self._messages.value(payload)
