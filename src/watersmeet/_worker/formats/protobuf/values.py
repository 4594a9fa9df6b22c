"""Protobuf values as Arrow columns and back, in the workers: protobuf a message at a time, Arrow a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json_decode import Flaws
from watersmeet._worker.formats.protobuf.types import (
    DURATION,
    LEAVES,
    TIMESTAMP,
    WRAPPERS,
    is_map,
    message_of,
    type_of_message,
)
from watersmeet._worker.formats.registered.language import Refused, Unwritable
from watersmeet._worker.formats.serdes import POLICY
from watersmeet.errors import EncodingError

F = FieldDescriptor
_MICROS, _NANOS = 1_000_000, 1_000
_MOST_NANOS = 999_999_999
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
        """The message.

        Raises
        ------
        Refused : the bytes are none.
        """
        try:
            found = self._read(data)
        except (DecodeError, UnicodeDecodeError):
            raise Refused("the bytes are no message, or not all of one") from None
        if not found.IsInitialized():
            raise Refused("a required field is not there")
        return found


# -- columns -----------------------------------------------------------------------------------------------


def columns_of(message: Descriptor, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The messages as one column; null, and with a reason, where a value is beyond its type."""
    flaws = Flaws()
    made = _struct(message, values, range(len(values)), flaws)
    if flaws.found:
        kept = [None if row in flaws.found else value for row, value in enumerate(values)]
        made = _struct(message, kept, range(len(kept)), Flaws())
    return made.cast(arrow_type(type_of_message(message))), flaws.found


def _struct(message: Descriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
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
        given = [getattr(v, name) if v is not None and v.HasField(name) else None for v in values]
    else:
        given = [None if v is None else getattr(v, name) for v in values]
    return _single(field, given, rows, flaws)


def _repeated(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    ends = [0, *accumulate(len(value) if value else 0 for value in values)]
    offsets = pa.array([None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32())
    if not is_map(field):
        flat = [each for value in values if value for each in value]
        return pa.ListArray.from_arrays(offsets, _single(field, flat, owners, flaws))
    entry = field.message_type.fields_by_name
    # protobuf has maps in an order that a replay need not repeat
    pairs = [(key, value[key]) for value in values if value for key in sorted(value)]
    keys, inner = [key for key, _ in pairs], [each for _, each in pairs]
    return pa.MapArray.from_arrays(
        offsets, _single(entry["key"], keys, owners, flaws), _single(entry["value"], inner, owners, flaws)
    )


def _single(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    if field.type == F.TYPE_ENUM:
        return _symbols(field, values, rows, flaws)
    if field.message_type is None:
        return pa.array(values, arrow_type(LEAVES[field.type]))
    name = field.message_type.full_name
    if name in (TIMESTAMP, DURATION):
        return _moments(name, values, rows, flaws)
    if name in WRAPPERS:
        return _single(field.message_type.fields_by_name["value"], _held(values), rows, flaws)
    return _struct(field.message_type, values, rows, flaws)


def _held(wrappers: Sequence[Any]) -> list[Any]:
    return [None if each is None else each.value for each in wrappers]


def _symbols(field: FieldDescriptor, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
    for row, value in zip(rows, values, strict=True):
        if value is not None and value not in names:
            flaws.add(row, f"{field.enum_type.full_name} has no value of number {value}")
    return pa.array([None if value is None else names.get(value) for value in values], pa.string())


def _moments(name: str, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    made: list[int | None] = []
    for row, value in zip(rows, values, strict=True):
        number = None
        if value is not None and _is_in_range(name, value.seconds, value.nanos):
            number = value.seconds * _MICROS + value.nanos // _NANOS
        elif value is not None:
            flaws.add(row, _beyond(name))
        made.append(number)
    return pa.array(made, pa.int64()).view(pa.timestamp("us", "UTC") if name == TIMESTAMP else pa.duration("us"))


def _is_in_range(name: str, seconds: int, nanos: int) -> bool:
    least, most = _SECONDS[name]
    signed = name == DURATION and (seconds < 0 or (not seconds and nanos < 0))
    return least <= seconds <= most and (-_MOST_NANOS <= nanos <= 0 if signed else 0 <= nanos <= _MOST_NANOS)


def _beyond(name: str) -> str:
    return f"a {name.rsplit('.', 1)[1].lower()} is beyond its range"


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes messages.

    Parameters
    ----------
    text : the message, as the format has it.
    header : what stands in front of each.
    what : names the values to the user.
    """

    text: str
    header: bytes
    what: str

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null.

        Raises
        ------
        EncodingError : a value is none that the message has.
        """
        message = message_of(self.text)
        try:
            made = _messages(message, values, "value")
        except (Unwritable, ValueError) as error:
            raise EncodingError(
                "A value does not fit the message of its sink.",
                given=f"{self.what}: {error}",
                hint="Change the values, or the message: a field that may be null must be optional, or a message; "
                f"{POLICY}",
            ) from None
        written = [None if m is None else self.header + m.SerializeToString(deterministic=True) for m in made]
        return pa.array(written, pa.binary())


def _messages(message: Descriptor, values: pa.Array, place: str) -> list[Any]:
    make = GetMessageClass(message)
    valid = values.is_valid().to_pylist()
    made = [make() if each else None for each in valid]
    for field, column in zip(message.fields, values.flatten(), strict=True):
        given = _plain(field, column, f"{place}.{field.name}")
        _fill(field, made, given, f"{place}.{field.name}")
    return made


def _fill(field: FieldDescriptor, messages: Sequence[Any], values: Sequence[Any], place: str) -> None:
    name, several, inner = field.name, field.is_repeated, field.message_type is not None
    for message, value in zip(messages, values, strict=True):
        if message is None:
            continue
        if value is None:
            if several or not field.has_presence:
                raise Unwritable(f"{place} is null, and may not be")
        elif is_map(field):
            target = getattr(message, name)
            for key, each in value:
                if field.message_type.fields_by_name["value"].message_type is None:
                    target[key] = each
                else:
                    target[key].CopyFrom(each)
        elif several:
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
    found, at = [], 0
    for length in pc.list_value_length(values).to_pylist():
        found.append(None if length is None else inner[at : at + length])
        at += length or 0
    return found


def _inner(field: FieldDescriptor, values: pa.Array, place: str) -> list[Any]:
    if values.null_count:
        raise Unwritable(f"{place}[] is null, and may not be")
    return _plain_single(field, values, place)


def _plain_single(field: FieldDescriptor, values: pa.Array, place: str) -> list[Any]:
    message = field.message_type
    if message is None:
        given = list(values.to_pylist())
        if field.type in (F.TYPE_UINT64, F.TYPE_FIXED64):
            return [None if each is None else int(each) for each in given]
        return _numbers(field, given, place) if field.type == F.TYPE_ENUM else given
    if message.full_name in (TIMESTAMP, DURATION):
        make = GetMessageClass(message)
        counts = values.view(pa.int64()).to_pylist()
        return [None if n is None else _moment(make, n, message.full_name, place) for n in counts]
    if message.full_name in WRAPPERS:
        make, inner = GetMessageClass(message), _plain_single(message.fields_by_name["value"], values, place)
        return [None if each is None else make(value=each) for each in inner]
    return _messages(message, values, place)


def _moment(make: Callable[..., Any], micros: int, name: str, place: str) -> Any:
    seconds, rest = divmod(micros, _MICROS)
    # a duration's parts have one sign
    if name == DURATION and seconds < 0 and rest:
        seconds, rest = seconds + 1, rest - _MICROS
    if not _is_in_range(name, seconds, rest * _NANOS):
        raise Unwritable(f"{place}: {_beyond(name)}")
    return make(seconds=seconds, nanos=rest * _NANOS)


def _numbers(field: FieldDescriptor, values: Sequence[Any], place: str) -> list[Any]:
    numbers = {name: each.number for name, each in field.enum_type.values_by_name.items()}
    unknown = {*values} - {None, *numbers}
    if unknown:
        raise Unwritable(f"{place}: {min(unknown)!r:.80} is not a value of {field.enum_type.full_name}")
    return [None if value is None else numbers[value] for value in values]
