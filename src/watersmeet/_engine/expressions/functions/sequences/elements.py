"""Functions that get a function of elements: it is evaluated for the elements of all rows at once, as an expression.

An aggregate goes from element to element, for all rows that have so many.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.functions.lists import begins_and_lengths, elements_of, lists_of
from watersmeet._engine.expressions.kernel import EvaluatedRows, Kernel, LazyKernel
from watersmeet._engine.expressions.modes import can_fail
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, type_of, variable_name
from watersmeet._engine.expressions.vectors import flags, made, shaped, spread
from watersmeet._engine.rows.columns import valid

_OF_LISTS = ("ArrayTransform", "ArrayFilter", "ArrayExists", "ArrayForAll", "ArrayAggregate")
_STOP = ("ArrayExists", "ArrayForAll")
"""Functions for which Spark does not look at each element: what may fail in them is its own."""


def fits(call: Call) -> bool:
    """See `kernel`."""
    if call.function in (VARIABLE, "LambdaFunction"):
        return True
    of, functions = type_of(call.arguments[0]), [each for each in call.arguments[1:] if not _plain(each)]
    if any(not isinstance(each, Call) or each.function != "LambdaFunction" for each in functions):
        return False
    if call.function in _OF_LISTS:
        known = bool(pt.is_list(of)) and not (call.function in _STOP and can_fail(functions[0]))
        if call.function == "ArrayAggregate":
            return known and type_of(functions[0]) == type_of(call.arguments[1])
        return known and (call.function != "ArrayExists" or call.option("followThreeValuedLogic") == "true")
    return bool(pt.is_map(of))


def _plain(expression: Expression) -> bool:
    return not (isinstance(expression, Call) and expression.function == "LambdaFunction")


def _names(function: Expression) -> list[str]:
    assert isinstance(function, Call), "the call fits"
    return [variable_name(each) for each in function.arguments[1:] if isinstance(each, Call)]


def _called(rows: EvaluatedRows, function: Expression, of: Int64s, arguments: list[pa.Array]) -> pa.Array:
    """The results of a function for elements, each of a row."""
    assert isinstance(function, Call), "the call fits"
    given = dict(zip(_names(function), arguments, strict=False))
    return rows.of_elements(of, given).evaluate(function.arguments[0])


def _each(call: Call, rows: EvaluatedRows) -> tuple[pa.Array, Int64s, Int64s, pa.Array, pa.Array]:
    """The lists, their lengths, of each element the row and the element, and what the function gives of it."""
    lists = rows.evaluate(call.arguments[0])
    starts, lengths = begins_and_lengths(lists)
    of, at = elements_of(starts, lengths)
    element = lists.values.take(pa.array(at))
    index = pa.array((at - np.repeat(starts, lengths)).astype(np.int32))
    return lists, lengths, of, element, _called(rows, call.arguments[1], of, [element, index])


def _transformed(call: Call, rows: EvaluatedRows) -> pa.Array:
    lists, lengths, _, _, found = _each(call, rows)
    return lists_of(found, lengths, lists, call.type)


def _filtered(call: Call, rows: EvaluatedRows) -> pa.Array:
    lists, _, of, element, found = _each(call, rows)
    kept = flags(found)
    return lists_of(element.filter(pa.array(kept)), _count(of, kept, len(rows)), lists, call.type)


def _count(of: Int64s, kept: Bools, rows: int) -> Int64s:
    counts: Int64s = np.bincount(of[kept], minlength=rows).astype(np.int64)
    return counts


def _whether(call: Call, rows: EvaluatedRows) -> pa.Array:
    """Whether the function is true of one element, or of all; null where it is neither, and null of some."""
    lists, _, of, _, found = _each(call, rows)
    settles = call.function == "ArrayExists"
    known, unsure = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    known[of[valid(found) & (flags(found) == settles)]] = True
    unsure[of[~valid(found)]] = True
    values = known if settles else ~known
    return pa.array(values, pa.bool_(), mask=~valid(lists) | unsure & ~known)


def _aggregated(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The elements folded one after the other, and a last function of that."""
    argument, zero, merge, finish = call.arguments
    lists = rows.evaluate(argument)
    there = valid(lists)
    starts, lengths = begins_and_lengths(lists)
    whole = shaped(spread(rows.where(there).evaluate(zero), there), type_of(zero))
    for place in range(int(lengths.max(initial=0))):
        of = np.flatnonzero(lengths > place)
        element = lists.values.take(pa.array(starts[of] + place))
        merged = _called(rows, merge, of, [whole.take(pa.array(of)), element])
        # those that have no further element keep what they have
        which = np.arange(len(rows))
        which[of] = len(rows) + np.arange(len(of))
        whole = pa.concat_arrays([whole, shaped(merged, whole.type)]).take(pa.array(which))
    of = np.flatnonzero(there)
    return shaped(spread(_called(rows, finish, of, [whole.take(pa.array(of))]), there), call.type)


def _of_map(call: Call, rows: EvaluatedRows) -> pa.Array:
    """A map with other values, or without the entries for which the function is not true."""
    maps = rows.evaluate(call.arguments[0])
    starts, lengths = begins_and_lengths(maps)
    of, at = elements_of(starts, lengths)
    keys, items = (part.take(pa.array(at)) for part in (maps.keys, maps.items))
    found = _called(rows, call.arguments[1], of, [keys, items])
    if call.function == "MapFilter":
        kept = flags(found)
        keys, items = (part.filter(pa.array(kept)) for part in (keys, items))
        lengths = _count(of, kept, len(rows))
    else:
        items = found
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    kind = call.type
    entries = pa.StructArray.from_arrays(
        [shaped(keys, kind.key_type), shaped(items, kind.item_type)], fields=[kind.key_field, kind.item_field]
    )
    bits = made(np.zeros(len(rows), dtype=np.int8), valid(maps), pa.int8()).buffers()[0]
    return pa.Array.from_buffers(kind, len(rows), [bits, offsets.buffers()[1]], children=[entries])


def _no_value(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A function has no value of its own."""
    raise NotImplementedError(call.function)


KERNELS: Mapping[str, Kernel] = dict.fromkeys((VARIABLE, "LambdaFunction"), _no_value)
LAZY: Mapping[str, LazyKernel] = {
    "ArrayTransform": _transformed,
    "ArrayFilter": _filtered,
    **dict.fromkeys(_STOP, _whether),
    "ArrayAggregate": _aggregated,
    **dict.fromkeys(("MapFilter", "TransformValues"), _of_map),
}
