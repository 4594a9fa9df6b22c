"""Lists as state: functions of arrays of lists, a list each row, without a loop over rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import equal_values, group_keys, hash_keys
from watersmeet._engine.rows.columns import gather, valid


def empty_lists(kind: pa.DataType, count: int) -> pa.Array:
    """So many lists without elements."""
    return _lists(kind, np.zeros(count, dtype=np.int64), pa.array([], type=kind.value_type))


def flat(lists: pa.Array) -> tuple[Int64s, pa.Array]:
    """(row of each element, elements); a null list has none."""
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return rows, pc.list_flatten(lists)


def together(one: pa.Array, other: pa.Array) -> pa.Array:
    """The elements of both lists, the other's behind."""
    (rows, elements), (rows2, elements2) = flat(one), flat(other)
    return from_rows(one.type, len(one), np.append(rows, rows2), pa.concat_arrays([elements, elements2]))


def single(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of one element each; of none where it is null."""
    present = valid(values)
    return _lists(kind, present.astype(np.int64), values.filter(pa.array(present)).cast(kind.value_type))


def filtered_lists(lists: pa.Array, keep: Bools) -> pa.Array:
    """The lists without the elements that `keep`, one flag for each of `flat`, leaves out."""
    rows, elements = flat(lists)
    return from_rows(lists.type, len(lists), rows[keep], elements.filter(pa.array(keep)))


def without(lists: pa.Array, values: pa.Array) -> pa.Array:
    """The lists without the first element that is equal to the row's value; null takes nothing away."""
    rows, elements = flat(lists)
    same = equal_values(elements, values.cast(elements.type).take(pa.array(rows))) & valid(elements)
    found = np.flatnonzero(same)
    _, first = np.unique(rows[found], return_index=True)
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[found[first]] = False
    return filtered_lists(lists, keep)


def distinct(lists: pa.Array) -> pa.Array:
    """The lists with the first of equal elements, as Spark has them: 0.0 stands for -0.0, too, and NaN is one."""
    rows, elements = flat(lists)
    elements = normalized(elements)
    pairs = pa.StructArray.from_arrays([pa.array(rows), elements], names=["row", "element"])
    keep = np.zeros(len(rows), dtype=np.bool_)
    keep[group_keys(hash_keys(pairs), pairs).first] = True
    return from_rows(lists.type, len(lists), rows[keep], elements.filter(pa.array(keep)))


def normalized(values: pa.Array) -> pa.Array:
    """The values with 0.0 in place of -0.0, and one NaN in place of all, also within structs and lists."""
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False)) + 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers).astype(kind.to_pandas_dtype())
        return pa.array(numbers, kind, mask=~valid(values))
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [normalized(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(~valid(values)))
    if pa.types.is_list(kind):
        rows, elements = flat(values)
        found = from_rows(kind, len(values), rows, normalized(elements))
        return pc.if_else(values.is_valid(), found, pa.scalar(None, kind))
    return values


def descending(
    lists: pa.Array, most: int | None = None, by: Callable[[pa.Array], pa.Array] = lambda elements: elements
) -> pa.Array:
    """The elements of each list, the largest first; at most so many.

    Parameters
    ----------
    by : gives what elements are ordered by.
    """
    rows, elements = flat(lists)
    order = np.lexsort((-ranks(by(elements)), rows))
    lengths = np.bincount(rows, minlength=len(lists))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = order if most is None else order[place < most]
    return from_rows(lists.type, len(lists), rows[order], elements.take(pa.array(order)))


def ending(lists: pa.Array, most: int) -> pa.Array:
    """The last elements of each list, at most so many."""
    rows, _ = flat(lists)
    lengths = np.bincount(rows, minlength=len(lists))
    behind = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(rows))
    return lists if lengths.max(initial=0) <= most else filtered_lists(lists, behind <= most)


def extreme(lists: pa.Array, *, largest: bool) -> pa.Array:
    """The largest or smallest element of each list; null of one without elements."""
    rows, elements = flat(lists)
    rank = ranks(elements)
    order = np.lexsort((-rank if largest else rank, rows))
    found, first = np.unique(rows[order], return_index=True)
    pointers = np.full(len(lists), -1, dtype=np.int64)
    pointers[found] = order[first]
    return gather(elements, pointers)


def ranks(values: pa.Array) -> Int64s:
    """The place of each value among the different ones: NaN behind all numbers, as Spark has it, null behind that."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    rank: Int64s = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return rank


def from_rows(kind: pa.DataType, count: int, rows: Int64s, elements: pa.Array) -> pa.Array:
    """Lists of these lengths, with the elements at these rows."""
    order = np.argsort(rows, kind="stable")
    return _lists(kind, np.bincount(rows, minlength=count), elements.take(pa.array(order)))


def _lists(kind: pa.DataType, lengths: Int64s, elements: pa.Array) -> pa.Array:
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, elements, type=kind)
