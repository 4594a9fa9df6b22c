"""Values with a JSON Schema: texts, judged by what the schema says of their type, and if asked for by all that it says.

Law 6: a text that its schema does not take has a reason. A column is looked at as a whole; only who validates has
Python look at one value after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType

from watersmeet._engine.arrays import Int64s
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json_decode import Flaws, decode
from watersmeet._worker.formats.json_encode import LEFT_OUT, encoded
from watersmeet._worker.formats.json_schema.types import SchemaNode, node_of
from watersmeet._worker.formats.json_schema.validation import refused
from watersmeet._worker.formats.registered.language import References, Refused, WriterValues
from watersmeet._worker.formats.serdes import NOT_TEXT, POLICY
from watersmeet.errors import EncodingError


class Texts:
    """Reads JSON texts by a schema.

    Parameters
    ----------
    text : the schema, whole.
    validate : whether each value is looked at by all that it says.
    """

    def __init__(self, text: str, *, validate: bool) -> None:
        self._node, self._text, self._validate = node_of(text), text, validate

    def bare(self) -> WriterValues:
        """Values without a number in front."""
        return self

    def written(self, text: str, references: References) -> WriterValues:
        """The same: a text says itself what it is, whatever it was written by."""
        return self

    def value(self, data: bytes) -> Any:
        """The text.

        Raises
        ------
        Refused : the bytes are none.
        """
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Refused(NOT_TEXT) from None

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """The values of texts as a column, and why some are none."""
        made, found = decode(self._node.kind, pa.array(values, pa.string()))
        flaws = Flaws(found)
        _judge(self._node, self._node.kind, made, np.arange(len(made)), flaws, "value")
        if self._validate:
            for row, why in refused(self._text, [None if n in found else v for n, v in enumerate(values)]):
                flaws.add(row, why)
        if flaws.found:
            kept = np.arange(len(made))
            gone = np.isin(kept, list(flaws.found))
            made = made.take(pa.array(kept, mask=gone))
        return made, flaws.found


# -- judging -----------------------------------------------------------------------------------------------


def _judge(node: SchemaNode, kind: DataType, values: pa.Array, rows: Int64s, flaws: Flaws, place: str) -> None:
    """Give a reason to rows with values that are of the type, but not valid by the schema.

    Parameters
    ----------
    kind : of the values; its fields may be fewer than the schema's, and numbers narrower.
    rows : of each value, the row that it is part of.
    """
    if isinstance(kind, StructType):
        nodes, there = dict(node.fields), values.is_valid()
        for field, column in zip(kind.fields, values.flatten(), strict=True):
            inner, name = nodes[field.name], f"{place}.{field.name}"
            if column.null_count and field.name in node.required and not inner.nullable:
                _add(pc.and_(there, column.is_null()), rows, flaws, f"{name} has to be there, and not null")
            _judge(inner, field.dataType, column, rows, flaws, name)
    elif isinstance(kind, ArrayType | MapType):
        assert node.inner is not None
        if isinstance(kind, MapType):
            values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
        flat = values.flatten()
        flat = flat.field(1) if isinstance(kind, MapType) else flat
        owners = np.repeat(rows, pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False))
        if flat.null_count and not node.inner.nullable:
            _add(flat.is_null(), owners, flaws, f"{place}[] may not be null")
        inner_kind = kind.valueType if isinstance(kind, MapType) else kind.elementType
        _judge(node.inner, inner_kind, flat, owners, flaws, f"{place}[]")
    elif isinstance(kind, FloatType | DoubleType):
        _add(pc.invert(pc.is_finite(values)), rows, flaws, f"{place} is no number that JSON has")
    elif node.allowed is not None:
        # numbers may be narrower here than the schema's
        allowed = pa.array(node.allowed, arrow_type(node.kind))
        other = pc.and_(values.is_valid(), pc.invert(pc.is_in(values.cast(allowed.type), allowed)))
        _add(other, rows, flaws, f"{place} is not in its enum")


def _add(where: pa.Array, rows: Int64s, flaws: Flaws, reason: str) -> None:
    if pc.any(where).as_py():
        for row in rows[where.fill_null(False).to_numpy(zero_copy_only=False)].tolist():
            flaws.add(row, reason)


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonSchemaWriter:
    """Writes values as JSON texts that a schema takes.

    Parameters
    ----------
    text : the schema, whole.
    kind : the values' type.
    header : what stands in front of each text.
    what : names the values to the user.
    validate : whether each text is looked at by all that the schema says.
    """

    text: str
    kind: DataType
    header: bytes
    what: str
    validate: bool

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null.

        Raises
        ------
        EncodingError : a value is none of the schema's.
        """
        node, flaws = node_of(self.text), Flaws()
        _judge(node, self.kind, values, np.arange(len(values)), flaws, "value")
        self._refuse(flaws)
        texts = encoded(values, _with_left_out(node, self.kind))
        if self.validate:
            self._refuse(Flaws(dict(refused(self.text, texts.cast(pa.string()).to_pylist()))))
        return pc.binary_join_element_wise(pa.scalar(self.header), texts, pa.scalar(b""))

    def _refuse(self, flaws: Flaws) -> None:
        if flaws.found:
            raise EncodingError(
                "A value does not fit the schema of its sink.",
                given=f"{self.what}: {flaws.found[min(flaws.found)]}",
                hint=f"Change the values, or the schema: a field that may be null needs null among its types; {POLICY}",
            )


def _with_left_out(node: SchemaNode, kind: DataType) -> DataType:
    """The type, with a mark on fields that are left out where they are null: the schema has no null for them."""
    if isinstance(kind, StructType):
        nodes = dict(node.fields)
        return StructType([_field(nodes[each.name], each) for each in kind.fields])
    if isinstance(kind, ArrayType) and node.inner is not None:
        return ArrayType(_with_left_out(node.inner, kind.elementType))
    if isinstance(kind, MapType) and node.inner is not None:
        return MapType(kind.keyType, _with_left_out(node.inner, kind.valueType))
    return kind


def _field(node: SchemaNode, field: StructField) -> StructField:
    mark = {} if node.nullable else {LEFT_OUT: True}
    return StructField(field.name, _with_left_out(node, field.dataType), True, mark)
