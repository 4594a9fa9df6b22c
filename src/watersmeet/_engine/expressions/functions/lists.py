"""Arrays and maps: made of values, asked for one, for their size and their keys."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.functions.comparisons import comparable, equal
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import fails, is_taken_apart
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import FLOATS, all_valid, flags, made, numbers, shaped
from watersmeet._engine.rows.columns import gather, valid

_BY_PLACE = ("GetArrayItem", "Get", "ElementAt")
_INDEX = (pa.int8(), pa.int16(), pa.int32())


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if call.function == "CreateArray":
        return bool(kinds) and all(kind == call.type.value_type for kind in kinds)
    of = kinds[0]
    if call.function in ("Size", "ArraySize"):
        return bool(pt.is_list(of) or (pt.is_map(of) and call.function == "Size"))
    if call.function in ("MapKeys", "MapValues"):
        return bool(pt.is_map(of))
    if call.function == "SortArray":
        ordered = pt.is_list(of) and comparable(of.value_type) and of.value_type not in FLOATS
        return bool(ordered and not pt.is_boolean(of.value_type) and constant(call.arguments[1]) is not None)
    if call.function == "ArrayContains":
        return bool(pt.is_list(of) and of.value_type == kinds[1] and comparable(kinds[1]))
    if pt.is_map(of) and call.function in ("GetMapValue", "ElementAt"):
        return bool(of.key_type == kinds[1] and comparable(kinds[1]))
    if is_taken_apart(call.arguments[0]):
        return False
    return bool(pt.is_list(of) and call.function in _BY_PLACE and kinds[1] in _INDEX)


def begins_and_lengths(values: pa.Array) -> tuple[Int64s, Int64s]:
    """Where each list or map begins among the elements, and how many it has; a null one has none."""
    offsets = np.asarray(values.offsets.to_numpy(zero_copy_only=False), dtype=np.int64)
    return offsets[:-1], np.where(valid(values), np.diff(offsets), 0)


def elements_of(starts: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s]:
    """Row and place of each element."""
    rows = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return rows, np.repeat(starts - before, lengths) + np.arange(len(rows))


def _array(call: Call, arguments: list[pa.Array]) -> pa.Array:
    rows, width = len(arguments[0]), len(arguments)
    element = call.type.value_type
    stacked = pa.concat_arrays([shaped(each, element) for each in arguments])
    order = np.arange(rows * width).reshape(width, rows).T.reshape(-1)
    offsets = pa.array(np.arange(rows + 1) * width, pa.int32())
    return pa.ListArray.from_arrays(offsets, stacked.take(pa.array(order)), type=call.type)


def _size(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    _, lengths = begins_and_lengths(values)
    if call.option("legacySizeOfNull") == "true":
        return made(np.where(valid(values), lengths, -1), None, call.type)
    return made(lengths, all_valid(values), call.type)


def _item(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The element at a place: from 0 on, of `element_at` from 1 on, or backwards from -1."""
    values, index = arguments
    if pt.is_map(values.type):
        return _of_key(call, arguments)
    there = valid(values) & valid(index)
    starts, lengths = begins_and_lengths(values)
    at = numbers(index).astype(np.int64)
    if call.function == "ElementAt":
        if (there & (at == 0)).any():
            raise EvaluationError("INVALID_INDEX_OF_ZERO", "The index of an array's element begins with 1 or -1.")
        at = np.where(at < 0, lengths + at, at - 1)
    out = there & ((at < 0) | (at >= lengths))
    if call.function != "Get" and fails(call) and out.any():
        last = "_IN_ELEMENT_AT" if call.function == "ElementAt" else ""
        raise EvaluationError(f"INVALID_ARRAY_INDEX{last}", "An index is out of the bounds of its array.")
    return shaped(gather(values.values, np.where(there & ~out, starts + at, -1)), call.type)


def _of_key(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The value of a key, null for a missing key."""
    values, key = arguments
    rows, at = elements_of(*begins_and_lengths(values))
    same = np.flatnonzero(flags(equal(values.keys.take(pa.array(at)), key.take(pa.array(rows)))))
    found, first = np.unique(rows[same], return_index=True)
    pointers = np.full(len(values), -1, dtype=np.int64)
    pointers[found] = at[same[first]]
    return shaped(gather(values.items, pointers), call.type)


def _contains(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Whether an element equals the value; null where none does, but one of them is null."""
    values, value = arguments
    rows, at = elements_of(*begins_and_lengths(values))
    same = equal(values.values.take(pa.array(at)), value.take(pa.array(rows)))
    found, unsure = np.zeros(len(values), dtype=np.bool_), np.zeros(len(values), dtype=np.bool_)
    found[rows[flags(same)]] = True
    unsure[rows[flags(same.is_null())]] = True
    return pa.array(found, mask=~(valid(values) & valid(value)) | unsure & ~found)


def _parts(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The keys, or the values, of a map."""
    (values,) = arguments
    starts, lengths = begins_and_lengths(values)
    _, at = elements_of(starts, lengths)
    part = values.keys if call.function == "MapKeys" else values.items
    return lists_of(part.take(pa.array(at)), lengths, values, call.type)


def lists_of(elements: pa.Array, lengths: Int64s, like: pa.Array, kind: pa.DataType) -> pa.Array:
    """The elements as lists of these lengths; null where `like` is."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = pa.array(~valid(like)) if like.null_count else None
    return pa.ListArray.from_arrays(offsets, shaped(elements, kind.value_type), type=kind, mask=mask)


def _sorted(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The elements in their order, or the reverse one; nulls are the least."""
    values, _ = arguments
    starts, lengths = begins_and_lengths(values)
    rows, at = elements_of(starts, lengths)
    elements = values.values.take(pa.array(at))
    ascending = bool(constant(call.arguments[1]))
    there = pa.array(valid(elements).astype(np.int8))
    table = pa.table({"row": pa.array(rows), "there": there, "element": elements})
    how = "ascending" if ascending else "descending"
    order = pc.sort_indices(table, sort_keys=[("row", "ascending"), ("there", how), ("element", how)])
    return lists_of(elements.take(order), lengths, values, call.type)


KERNELS: Mapping[str, Kernel] = {
    "CreateArray": _array,
    **dict.fromkeys(("Size", "ArraySize"), _size),
    **dict.fromkeys(_BY_PLACE, _item),
    "GetMapValue": _of_key,
    "ArrayContains": _contains,
    **dict.fromkeys(("MapKeys", "MapValues"), _parts),
    "SortArray": _sorted,
}
LAZY: Mapping[str, LazyKernel] = {}
