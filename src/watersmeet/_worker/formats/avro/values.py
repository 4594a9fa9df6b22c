"""Avro values as Arrow columns and back, in the workers: fastavro a value at a time, Arrow a column at a time.

Law 6: bytes that are not exactly one value of the writer's schema, or that the reader's cannot take, have a reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.avro import strict as letters
from watersmeet._worker.formats.avro.bounds import unbounded
from watersmeet._worker.formats.avro.leaves import column, plain
from watersmeet._worker.formats.avro.resolution import other_meaning
from watersmeet._worker.formats.avro.types import (
    Schema,
    kind_of,
    names_of,
    nullable_branch,
    type_of_schema,
    without_logical,
)
from watersmeet._worker.formats.json_decode import Flaws
from watersmeet._worker.formats.registered.language import Refused, Unwritable
from watersmeet._worker.formats.registered.packages import needed
from watersmeet._worker.formats.serdes import POLICY
from watersmeet.errors import EncodingError

_SHOWN = 300
_BROKEN = (ValueError, EOFError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, RecursionError)
"""What fastavro raises where bytes are not of a schema."""


class WriterSchema:
    """A schema that values were written by, and how they are read by another.

    Parameters
    ----------
    written : the writer's, whole.
    read : the reader's, whole.

    Raises
    ------
    Refused : a writer's value is of another logical type than the reader takes it for.
    """

    def __init__(self, written: Schema, read: Schema) -> None:
        why = other_meaning(written, read)
        if why is not None:
            raise Refused(why)
        avro = needed("fastavro")
        self._decoded, self._encoded = avro.schemaless_reader, avro.schemaless_writer
        self._unresolved = needed("fastavro.read").SchemaResolutionError
        self._whole = without_logical(written)
        self._names = names_of(self._whole)
        self._unbounded = unbounded(self._whole, self._names)
        self._written = avro.parse_schema(self._whole)
        self._read = None if written == read else avro.parse_schema(without_logical(read))

    def value(self, data: bytes) -> Any:
        """The value, by the reader's schema.

        Raises
        ------
        Refused : the bytes are none.
        """
        value, exact = None, False
        if not self._unbounded:
            value, exact = self._once(data)
        if not exact:
            letters.check(self._whole, self._names, data)
        try:
            if self._read is not None or not exact:
                value = self._decoded(BytesIO(data), self._written, self._read)
        except self._unresolved as error:
            raise Refused(f"the schema to read by does not take it: {str(error)[:_SHOWN]}") from None
        except _BROKEN as error:
            raise Refused(f"no value of its schema: {type(error).__name__}: {str(error)[:_SHOWN]}") from None
        if value is None:
            raise Refused("Avro's null (a tombstone has no bytes at all)")
        return value

    def _once(self, data: bytes) -> tuple[Any, bool]:
        """The value by the writer's schema, and whether these are the bytes that fastavro would write for it."""
        stream = BytesIO(data)
        try:
            value = self._decoded(stream, self._written, None)
            out = BytesIO()
            self._encoded(out, self._written, value)
        except _BROKEN:
            return None, False
        return value, stream.tell() == len(data) and out.getvalue() == data


# -- columns -----------------------------------------------------------------------------------------------


def columns_of(schema: Schema, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The values as one column; null, and with a reason, where one is beyond its type.

    Parameters
    ----------
    schema : the reader's, whole.
    """
    flaws, names = Flaws(), names_of(schema)
    made = _column(schema, names, values, range(len(values)), flaws)
    if flaws.found:
        kept = [None if row in flaws.found else value for row, value in enumerate(values)]
        made = _column(schema, names, kept, range(len(kept)), Flaws())
    return made.cast(arrow_type(type_of_schema(schema))), flaws.found


def _column(schema: Schema, names: Any, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    schema, _ = nullable_branch(schema, names)
    kind = kind_of(schema)
    if kind == "record":
        return _struct(schema, names, values, rows, flaws)
    if kind in ("array", "map"):
        owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
        ends = [0, *accumulate(len(value) if value else 0 for value in values)]
        offsets = pa.array(
            [None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32()
        )
        if kind == "array":
            flat = [element for value in values if value for element in value]
            return pa.ListArray.from_arrays(offsets, _column(schema["items"], names, flat, owners, flaws))
        keys = pa.array([name for value in values if value for name in value], pa.string())
        flat = [inner for value in values if value for inner in value.values()]
        return pa.MapArray.from_arrays(offsets, keys, _column(schema["values"], names, flat, owners, flaws))
    made, bad = column(schema, values)
    for place, reason in bad:
        flaws.add(rows[place], reason)
    return made


def _struct(schema: Any, names: Any, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    fields = [field["name"] for field in schema["fields"]]
    mask = pa.array([value is None for value in values], pa.bool_())
    if not fields:
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    columns = [
        _column(f["type"], names, [None if v is None else v[f["name"]] for v in values], rows, flaws)
        for f in schema["fields"]
    ]
    return pa.StructArray.from_arrays(columns, fields, mask=mask)


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvroWriter:
    """Writes values by a schema.

    Parameters
    ----------
    text : the schema, whole, as JSON.
    header : what stands in front of each value.
    what : names the values to the user.
    """

    text: str
    header: bytes
    what: str

    @cached_property
    def _schema(self) -> Schema:
        return json.loads(self.text)

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null.

        Raises
        ------
        EncodingError : a value is none of the schema's.
        """
        avro = needed("fastavro")
        parsed = avro.parse_schema(without_logical(self._schema))
        there = values.is_valid().to_numpy(zero_copy_only=False)
        try:
            given = _plain(self._schema, names_of(self._schema), values, there, "value", top=True)
        except Unwritable as error:
            raise EncodingError(
                "A value does not fit the schema of its sink.",
                given=f"{self.what}: {error}",
                hint=f"Change the values, or the schema: a null needs a union with null; {POLICY}",
            ) from None
        write, header = avro.schemaless_writer, self.header

        def encoded(value: Any) -> bytes:
            out = BytesIO()
            out.write(header)
            write(out, parsed, value, disable_tuple_notation=True)
            return out.getvalue()

        return pa.array([None if each is None else encoded(each) for each in given], pa.binary())


def _plain(schema: Schema, names: Any, values: pa.Array, there: np.ndarray, place: str, *, top: bool = False) -> Any:
    """Values as fastavro takes them, of struct fields by position."""
    schema, nullable = nullable_branch(schema, names)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if not nullable and not top and (there & ~valid).any():
        raise Unwritable(f"{place} is null, and may not be")
    kind = kind_of(schema)
    if kind == "record":
        columns = values.flatten()
        inner = [
            _plain(f["type"], names, columns[n], there & valid, f"{place}.{f['name']}")
            for n, f in enumerate(schema["fields"])
        ]
        fields = [f["name"] for f in schema["fields"]]
        rows = zip(*inner, strict=True) if inner else iter([()] * len(values))
        return [dict(zip(fields, row, strict=True)) if v else None for v, row in zip(valid.tolist(), rows, strict=True)]
    if kind in ("array", "map"):
        return _lists(schema, names, values, place)
    try:
        return plain(schema, values)
    except Unwritable as error:
        raise Unwritable(f"{place}: {error}") from None


def _lists(schema: Any, names: Any, values: pa.Array, place: str) -> list[Any]:
    if kind_of(schema) == "map":
        values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
    flat = values.flatten()
    keys = None
    if kind_of(schema) == "map":
        keys, flat = flat.field(0).to_pylist(), flat.field(1)
    inner = _plain(schema.get("items", schema.get("values")), names, flat, np.ones(len(flat), np.bool_), f"{place}[]")
    found, at = [], 0
    for length in pc.list_value_length(values).to_pylist():
        end = at + (length or 0)
        part = inner[at:end]
        found.append(None if length is None else part if keys is None else dict(zip(keys[at:end], part, strict=True)))
        at = end
    return found
