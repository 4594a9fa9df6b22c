"""Arrow's arrays as lists of plain values, and back, quicker than `to_pylist` and without a loss.

Integers, dates and times are ints (what stands in Arrow's memory), structs and lists are tuples, maps tuples of pairs;
null is None. `rows.python_values` makes the arguments of users' functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.vectors import FIXED, numbers
from watersmeet._engine.rows.columns import valid

_AS_THEY_ARE = (pt.is_boolean, pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary, pt.is_decimal)


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type are known here."""
    if pt.is_struct(kind):
        return kind.num_fields > 0 and all(is_plain(each.type) for each in kind)
    if pt.is_list(kind):
        return is_plain(kind.value_type)
    if pt.is_map(kind):
        return is_plain(kind.key_type) and is_plain(kind.item_type)
    return bool(kind in FIXED or pt.is_null(kind) or any(of(kind) for of in _AS_THEY_ARE))


def plain(values: pa.Array) -> list[Any]:
    """The value of each row."""
    kind = values.type
    if kind in FIXED:
        return _with_none(numbers(values).tolist(), values)
    if pt.is_struct(kind):
        return _with_none(list(zip(*map(plain, _fields(values)), strict=True)), values)
    if pt.is_map(kind):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        keys, items = (plain(each.slice(begin, end - begin)) for each in (values.keys, values.items))
        return _cut(list(zip(keys, items, strict=True)), values)
    if pt.is_list(kind):
        return _cut(plain(values.values.slice(values.offsets[0].as_py(), _length(values))), values)
    # texts and the like are Python's own
    return values.to_pylist()  # type: ignore[no-any-return]


def _length(values: pa.Array) -> int:
    return int(values.offsets[-1].as_py() - values.offsets[0].as_py())


def _fields(values: pa.Array) -> list[pa.Array]:
    return [values.field(number) for number in range(values.type.num_fields)]


def _with_none(found: list[Any], values: pa.Array) -> list[Any]:
    if values.null_count:
        # lists have no way to set many of their places at once
        for row in np.flatnonzero(~valid(values)).tolist():
            found[row] = None
    return found


def _cut(elements: list[Any], values: pa.Array) -> list[Any]:
    """Elements as a tuple for each row."""
    at = (values.offsets.to_numpy() - values.offsets[0].as_py()).tolist()
    return _with_none([tuple(elements[begin:end]) for begin, end in pairwise(at)], values)


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The array of plain values."""
    if pt.is_struct(kind) and values:
        blank = (None,) * kind.num_fields
        columns = zip(*(blank if each is None else each for each in values), strict=True)
        parts = [array(column, field.type) for column, field in zip(columns, kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_mask(values))
    if pt.is_list(kind) or pt.is_map(kind):
        return _of_lists(values, kind)
    if pt.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pt.is_timestamp(kind) or pt.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _of_lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    lengths = [0 if each is None else len(each) for each in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), pa.int32())
    elements = [each for one in values if one is not None for each in one]
    if pt.is_map(kind):
        keys, items = zip(*elements, strict=True) if elements else ((), ())
        made = pa.MapArray.from_arrays(offsets, array(keys, kind.key_type), array(items, kind.item_type), type=kind)
    else:
        made = pa.ListArray.from_arrays(offsets, array(elements, kind.value_type), type=kind)
    absent = _mask(values)
    if absent is None:
        return made
    bits = pa.array(~absent.to_numpy(zero_copy_only=False)).buffers()[1]
    children = [made.values] if pt.is_list(kind) else [_entries(made)]
    return pa.Array.from_buffers(kind, len(made), [bits, made.buffers()[1]], children=children)


def _entries(made: pa.MapArray) -> pa.Array:
    return pa.StructArray.from_arrays(
        [made.keys, made.items], fields=list(pa.struct([made.type.key_field, made.type.item_field]))
    )


def _mask(values: Sequence[Any]) -> pa.Array | None:
    absent: Bools = np.fromiter((each is None for each in values), dtype=np.bool_, count=len(values))
    return pa.array(absent) if absent.any() else None
