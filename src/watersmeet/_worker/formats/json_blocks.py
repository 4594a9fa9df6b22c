"""Many JSON objects at once, by Arrow's parser: their columns, or nothing where a text could be anything else.

Who gets nothing reads the texts one by one (`json_decode`), which also says what is wrong with which; so this may
refuse what is fine, and must never accept what is not (law 6). Names outside of the type are checked, too, as long as
the first texts have the same names: Arrow gets them, and never finds out by itself, which would take a column for each
name that any text has. Texts are put together with line ends. Since each begins with `{` and ends with `}`, one that is
broken cannot be mended by its neighbour: behind a `}` outside of a string no `{` may come, and within a string no line
end. As many rows as texts then means that each is one object.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from watersmeet._engine.keys import keyform
from watersmeet._worker.formats import json_others
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json_leaves import TIMES, times

_AS_THEY_ARE = (BooleanType, ByteType, ShortType, IntegerType, LongType, DoubleType, StringType)
_OPEN, _CLOSE = ord("{"), ord("}")


def read(kind: DataType, texts: pa.Array) -> pa.Array | None:
    """The values of JSON objects; null for null. Those that name fields that the type has not take longer.

    Parameters
    ----------
    texts : UTF-8, a few MB at most.

    Returns
    -------
    None where one of the texts is something else, or may be, and where the type has no such way.
    """
    schema = _schema(kind)
    there = texts.drop_null() if texts.null_count else texts
    if schema is None or not len(there):
        return None
    starts, lengths, content = keyform.spans(there)
    if not _are_objects(starts, lengths, content):
        return None
    (together,) = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(there)], pa.int32()), there), "\n")
    rows, others = _parsed(together.as_buffer(), schema), False
    if rows is None:
        wider = json_others.widened(schema, there)
        if wider is not None:
            rows, others = _parsed(together.as_buffer(), wider), True
    if rows is None or len(rows) != len(there):
        return None
    try:
        if others:
            whole = [_one(rows.column(number)) for number in range(rows.num_columns)]
            _check_others(kind, pa.StructArray.from_arrays(whole, rows.column_names))
        given = [_one(rows.column(number)) for number in range(len(schema))]
        values = _column(kind, pa.StructArray.from_arrays(given, schema.names))
    except _Doubtful:
        return None
    if not texts.null_count:
        return values
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    places = pa.array(np.where(valid, np.cumsum(valid) - 1, 0), mask=~valid)
    return values.take(places)


class _Doubtful(Exception):
    """A value that only the other way can judge."""


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _are_objects(starts: np.ndarray, lengths: np.ndarray, content: np.ndarray) -> bool:
    if (lengths < 2).any():
        return False
    ends = starts + lengths - 1
    begin_and_end = (content[starts] == _OPEN).all() and (content[ends] == _CLOSE).all()
    # behind a zero byte the parser sees nothing
    return bool(begin_and_end and content[starts[0] : ends[-1]].all())


def _parsed(together: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """The rows; None where a text has a name that the schema has not, or is none."""
    read = pj.ReadOptions(use_threads=False, block_size=together.size + 1)
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        return pj.read_json(pa.BufferReader(together), read_options=read, parse_options=parse)
    except pa.ArrowInvalid:
        return None


def _check_others(kind: DataType, read: pa.Array) -> None:
    """Look at what was read that the type does not name.

    Raises
    ------
    _Doubtful : it may be a field of the type's in another case, or a number that is no JSON.
    """
    if isinstance(kind, ArrayType):
        _check_others(kind.elementType, read.values)
    elif isinstance(kind, StructType):
        names, count, known = (
            [field.name for field in read.type],
            len(kind.names),
            {name.lower() for name in kind.names},
        )
        if names[:count] != kind.names or any(name.lower() in known for name in names[count:]):
            raise _Doubtful
        for number, field in enumerate(kind.fields):
            _check_others(field.dataType, read.field(number))
        for number in range(count, len(names)):
            _check_finite(read.field(number))


def _check_finite(read: pa.Array) -> None:
    """The parser takes NaN and Infinity without quotes, which are no JSON.

    Raises
    ------
    _Doubtful : there is one of them.
    """
    if pa.types.is_floating(read.type):
        if pc.any(pc.invert(pc.is_finite(read))).as_py():
            raise _Doubtful
    elif pa.types.is_list(read.type):
        _check_finite(read.values)
    elif pa.types.is_struct(read.type):
        for number in range(read.type.num_fields):
            _check_finite(read.field(number))


# -- types -------------------------------------------------------------------------------------------------


def _schema(kind: DataType) -> pa.Schema | None:
    """What Arrow's parser is to read objects of a type as; None where it cannot."""
    if not isinstance(kind, StructType) or not kind.fields or len(set(kind.names)) < len(kind.names):
        return None
    types = [_read_as(field.dataType) for field in kind.fields]
    if any(each is None for each in types):
        return None
    return pa.schema(list(zip(kind.names, types, strict=True)))


def _read_as(kind: DataType) -> pa.DataType | None:
    if isinstance(kind, StructType):
        schema = _schema(kind)
        return None if schema is None else pa.struct(list(schema))
    if isinstance(kind, ArrayType):
        element = _read_as(kind.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(kind, FloatType):
        return pa.float64()
    if isinstance(kind, TIMES):
        return pa.string()
    return arrow_type(kind) if type(kind) in _AS_THEY_ARE else None


def _column(kind: DataType, read: pa.Array) -> pa.Array:
    """The values read as the type's own column.

    Raises
    ------
    _Doubtful : it may be no value of the type.
    """
    target, absent = arrow_type(kind), read.is_null() if read.null_count else None
    if isinstance(kind, StructType):
        columns = [_column(f.dataType, read.field(n)) for n, f in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=absent)
    if isinstance(kind, ArrayType):
        elements = _column(kind.elementType, read.values)
        return pa.ListArray.from_arrays(read.offsets, elements, mask=absent).cast(target)
    if isinstance(kind, FloatType | DoubleType):
        made = read.cast(target, safe=False)
        _check_finite(made)
        return made
    if isinstance(kind, TIMES):
        made, lost = times(read, kind)
        if lost:
            raise _Doubtful
        return made
    return read
