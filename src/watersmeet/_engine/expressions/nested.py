"""Arrays and maps: made of values, asked for one, for their size and their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.conditions import comparable, equal
from watersmeet._engine.expressions.texts import constant
from watersmeet._engine.expressions.tree import (
    FLOATS,
    INTEGERS,
    VARIABLE,
    Call,
    EvaluatedRows,
    EvaluationError,
    Expression,
    Kernel,
    LazyKernel,
    Literal,
    all_valid,
    by_row,
    by_whole_row,
    can_fail,
    fails,
    fixed_array,
    flags,
    is_plain,
    is_taken_apart,
    numbers,
    shaped,
    spread,
    type_of,
    value_where,
    variable_name,
)
from watersmeet._engine.rows import Bools, Int64s, gather, valid

_BY_PLACE = ("GetArrayItem", "Get", "ElementAt")
_INDEX = (pa.int8(), pa.int16(), pa.int32())


def fits_lists(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
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
    rows = np.repeat(np.arange(len(starts)), lengths)
    offsets = np.cumsum(lengths) - lengths
    return rows, np.repeat(starts - offsets, lengths) + np.arange(len(rows))


def _array(call: Call, arguments: list[pa.Array]) -> pa.Array:
    rows, width = len(arguments[0]), len(arguments)
    element = call.type.value_type
    stacked = pa.concat_arrays([shaped(argument, element) for argument in arguments])
    order = np.arange(rows * width).reshape(width, rows).T.reshape(-1)
    offsets = pa.array(np.arange(rows + 1) * width, pa.int32())
    return pa.ListArray.from_arrays(offsets, stacked.take(pa.array(order)), type=call.type)


def _size(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    _, lengths = begins_and_lengths(values)
    if call.option("legacySizeOfNull") == "true":
        return fixed_array(np.where(valid(values), lengths, -1), None, call.type)
    return fixed_array(lengths, all_valid(values), call.type)


def _item(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The element at a place: from 0 on, of `element_at` from 1 on, or backwards from -1."""
    values, index = arguments
    if pt.is_map(values.type):
        return _of_key(call, arguments)
    present = valid(values) & valid(index)
    starts, lengths = begins_and_lengths(values)
    at = numbers(index).astype(np.int64)
    if call.function == "ElementAt":
        if (present & (at == 0)).any():
            raise EvaluationError("INVALID_INDEX_OF_ZERO", "The index of an array's element begins with 1 or -1.")
        at = np.where(at < 0, lengths + at, at - 1)
    out = present & ((at < 0) | (at >= lengths))
    if call.function != "Get" and fails(call) and out.any():
        last = "_IN_ELEMENT_AT" if call.function == "ElementAt" else ""
        raise EvaluationError(f"INVALID_ARRAY_INDEX{last}", "An index is out of the bounds of its array.")
    return shaped(gather(values.values, np.where(present & ~out, starts + at, -1)), call.type)


def _of_key(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The value of a key, null for a missing key."""
    values, key = arguments
    rows, at = elements_of(*begins_and_lengths(values))
    same = np.flatnonzero(flags(equal(values.keys.take(pa.array(at)), key.take(pa.array(rows)))))
    present, first = np.unique(rows[same], return_index=True)
    pointers = np.full(len(values), -1, dtype=np.int64)
    pointers[present] = at[same[first]]
    return shaped(gather(values.items, pointers), call.type)


def _contains(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Whether an element equals the value; null where none does, but one of them is null."""
    values, value = arguments
    rows, at = elements_of(*begins_and_lengths(values))
    same = equal(values.values.take(pa.array(at)), value.take(pa.array(rows)))
    matches, unsure = np.zeros(len(values), dtype=np.bool_), np.zeros(len(values), dtype=np.bool_)
    matches[rows[flags(same)]] = True
    unsure[rows[flags(same.is_null())]] = True
    return pa.array(matches, mask=~(valid(values) & valid(value)) | unsure & ~matches)


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


def _lists_sorted(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The elements in their order, or the reverse one; nulls are the least."""
    values, _ = arguments
    starts, lengths = begins_and_lengths(values)
    rows, at = elements_of(starts, lengths)
    elements = values.values.take(pa.array(at))
    ascending = bool(constant(call.arguments[1]))
    present = pa.array(valid(elements).astype(np.int8))
    table = pa.table({"row": pa.array(rows), "there": present, "element": elements})
    direction = "ascending" if ascending else "descending"
    order = pc.sort_indices(table, sort_keys=[("row", "ascending"), ("there", direction), ("element", direction)])
    return lists_of(elements.take(order), lengths, values, call.type)


LISTS_KERNELS: Mapping[str, Kernel] = {
    "CreateArray": _array,
    **dict.fromkeys(("Size", "ArraySize"), _size),
    **dict.fromkeys(_BY_PLACE, _item),
    "GetMapValue": _of_key,
    "ArrayContains": _contains,
    **dict.fromkeys(("MapKeys", "MapValues"), _parts),
    "SortArray": _lists_sorted,
}
LISTS_LAZY: Mapping[str, LazyKernel] = {}


# Functions that get a function of elements: it is evaluated for the elements of all rows at once, as an expression.
#
# An aggregate goes from element to element, for all rows that have so many.

_OF_LISTS = ("ArrayTransform", "ArrayFilter", "ArrayExists", "ArrayForAll", "ArrayAggregate")
_STOP = ("ArrayExists", "ArrayForAll")
"""Functions for which Spark does not look at each element: what may fail in them is its own."""


def fits_elements(call: Call) -> bool:
    """See `kernel`."""
    if call.function in (VARIABLE, "LambdaFunction"):
        return True
    of, functions = type_of(call.arguments[0]), [argument for argument in call.arguments[1:] if not _plain(argument)]
    if any(not isinstance(function, Call) or function.function != "LambdaFunction" for function in functions):
        return False
    if call.function in _OF_LISTS:
        supported = bool(pt.is_list(of)) and not (call.function in _STOP and can_fail(functions[0]))
        if call.function == "ArrayAggregate":
            return supported and type_of(functions[0]) == type_of(call.arguments[1])
        return supported and (call.function != "ArrayExists" or call.option("followThreeValuedLogic") == "true")
    return bool(pt.is_map(of))


def _plain(expression: Expression) -> bool:
    return not (isinstance(expression, Call) and expression.function == "LambdaFunction")


def _names(function: Expression) -> list[str]:
    assert isinstance(function, Call), "the call fits"
    return [variable_name(variable) for variable in function.arguments[1:] if isinstance(variable, Call)]


def _apply(rows: EvaluatedRows, function: Expression, of: Int64s, arguments: list[pa.Array]) -> pa.Array:
    assert isinstance(function, Call), "the call fits"
    variables = dict(zip(_names(function), arguments, strict=False))
    return rows.of_elements(of, variables).evaluate(function.arguments[0])


def _map_elements(call: Call, rows: EvaluatedRows) -> tuple[pa.Array, Int64s, Int64s, pa.Array, pa.Array]:
    """The lists, their lengths, of each element the row and the element, and what the function gives of it."""
    lists = rows.evaluate(call.arguments[0])
    starts, lengths = begins_and_lengths(lists)
    of, at = elements_of(starts, lengths)
    element = lists.values.take(pa.array(at))
    index = pa.array((at - np.repeat(starts, lengths)).astype(np.int32))
    return lists, lengths, of, element, _apply(rows, call.arguments[1], of, [element, index])


def _transformed(call: Call, rows: EvaluatedRows) -> pa.Array:
    lists, lengths, _, _, results = _map_elements(call, rows)
    return lists_of(results, lengths, lists, call.type)


def _filtered(call: Call, rows: EvaluatedRows) -> pa.Array:
    lists, _, of, element, results = _map_elements(call, rows)
    mask = flags(results)
    return lists_of(element.filter(pa.array(mask)), _count(of, mask, len(rows)), lists, call.type)


def _count(of: Int64s, mask: Bools, rows: int) -> Int64s:
    counts: Int64s = np.bincount(of[mask], minlength=rows).astype(np.int64)
    return counts


def _whether(call: Call, rows: EvaluatedRows) -> pa.Array:
    """Whether the function is true of one element, or of all; null where it is neither, and null of some."""
    lists, _, of, _, results = _map_elements(call, rows)
    settles = call.function == "ArrayExists"
    decided, unsure = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    decided[of[valid(results) & (flags(results) == settles)]] = True
    unsure[of[~valid(results)]] = True
    values = decided if settles else ~decided
    return pa.array(values, pa.bool_(), mask=~valid(lists) | unsure & ~decided)


def _aggregated(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The elements folded one after the other, and a last function of that."""
    argument, zero, merge, finish = call.arguments
    lists = rows.evaluate(argument)
    present = valid(lists)
    starts, lengths = begins_and_lengths(lists)
    states = shaped(spread(rows.where(present).evaluate(zero), present), type_of(zero))
    for place in range(int(lengths.max(initial=0))):
        of = np.flatnonzero(lengths > place)
        element = lists.values.take(pa.array(starts[of] + place))
        merged = _apply(rows, merge, of, [states.take(pa.array(of)), element])
        # those that have no further element keep what they have
        pointers = np.arange(len(rows))
        pointers[of] = len(rows) + np.arange(len(of))
        states = pa.concat_arrays([states, shaped(merged, states.type)]).take(pa.array(pointers))
    of = np.flatnonzero(present)
    return shaped(spread(_apply(rows, finish, of, [states.take(pa.array(of))]), present), call.type)


def _of_map(call: Call, rows: EvaluatedRows) -> pa.Array:
    """A map with other values, or without the entries for which the function is not true."""
    maps = rows.evaluate(call.arguments[0])
    starts, lengths = begins_and_lengths(maps)
    of, at = elements_of(starts, lengths)
    keys, items = (part.take(pa.array(at)) for part in (maps.keys, maps.items))
    results = _apply(rows, call.arguments[1], of, [keys, items])
    if call.function == "MapFilter":
        mask = flags(results)
        keys, items = (part.filter(pa.array(mask)) for part in (keys, items))
        lengths = _count(of, mask, len(rows))
    else:
        items = results
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    kind = call.type
    entries = pa.StructArray.from_arrays(
        [shaped(keys, kind.key_type), shaped(items, kind.item_type)], fields=[kind.key_field, kind.item_field]
    )
    bits = fixed_array(np.zeros(len(rows), dtype=np.int8), valid(maps), pa.int8()).buffers()[0]
    return pa.Array.from_buffers(kind, len(rows), [bits, offsets.buffers()[1]], children=[entries])


def _no_value(call: Call, arguments: list[pa.Array]) -> pa.Array:
    raise NotImplementedError(call.function)


ELEMENTS_KERNELS: Mapping[str, Kernel] = dict.fromkeys((VARIABLE, "LambdaFunction"), _no_value)
ELEMENTS_LAZY: Mapping[str, LazyKernel] = {
    "ArrayTransform": _transformed,
    "ArrayFilter": _filtered,
    **dict.fromkeys(_STOP, _whether),
    "ArrayAggregate": _aggregated,
    **dict.fromkeys(("MapFilter", "TransformValues"), _of_map),
}


# Arrays as sets, and arrays behind one another: of elements that are plainly equal or not, so of no floats.

Values = Sequence[Any]


def fits_sets(call: Call) -> bool:
    kinds = [type_of(argument) for argument in call.arguments]
    return len(set(kinds)) == 1 and bool(pt.is_list(kinds[0])) and exact(kinds[0].value_type)


def exact(kind: pa.DataType) -> bool:
    """Whether values of a type are the same just where their plain values are."""
    return comparable(kind) and kind not in FLOATS and not pt.is_null(kind)


def _sets_distinct(values: Iterable[Any]) -> list[Any]:
    """The values in the order of their first places; null is one of them."""
    return list(dict.fromkeys(values))


def _except(left: Values, right: Values) -> list[Any]:
    excluded = set(right)
    return _sets_distinct(value for value in left if value not in excluded)


def _intersect(left: Values, right: Values) -> list[Any]:
    common = set(right)
    return _sets_distinct(value for value in left if value in common)


def _overlap(left: Values, right: Values) -> bool | None:
    """Whether one value is in both; null where none is, but one of the two has a null, and the other is not empty."""
    if (set(left) & set(right)) - {None}:
        return True
    return None if left and right and (None in left or None in right) else False


_SETS: Mapping[str, Callable[..., Any]] = {
    "ArrayDistinct": _sets_distinct,
    "ArrayUnion": lambda left, right: _sets_distinct((*left, *right)),
    "ArrayExcept": _except,
    "ArrayIntersect": _intersect,
    "ArraysOverlap": _overlap,
}


def _of_sets(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _SETS[call.function])


SETS_KERNELS: Mapping[str, Kernel] = dict.fromkeys(_SETS, _of_sets)
SETS_LAZY: Mapping[str, LazyKernel] = {}


# Arrays: places of elements, parts of them, what is added to them, and texts that are made of them.

_MOST = 1_000_000
"""Elements of a sequence that are made here, at most."""
_ORDERED = ("ArrayMax", "ArrayMin", "ArraySort")


def fits_members(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    of = kinds[0]
    if call.function == "Sequence":
        return len(kinds) == 2 and of in INTEGERS and of == kinds[1]
    if call.function == "ArrayRepeat":
        return is_plain(of) and kinds[1] == pa.int32()
    if call.function == "ArraysZip":
        return bool(kinds) and all(pt.is_list(kind) and is_plain(kind) for kind in kinds)
    if not (pt.is_list(of) and is_plain(of)):
        return False
    if call.function in _ORDERED:
        return exact(of.value_type) and (call.function != "ArraySort" or _is_plain_order(call.arguments[1]))
    if call.function in ("ArrayPosition", "ArrayRemove"):
        return exact(of.value_type) and kinds[1] == of.value_type
    if call.function in ("ArrayAppend", "ArrayPrepend"):
        return bool(kinds[1] == of.value_type)
    if call.function == "ArrayJoin":
        return of.value_type == pa.string() and all(kind == pa.string() for kind in kinds[1:])
    if call.function == "Flatten":
        return bool(pt.is_list(of.value_type))
    return all(kind == pa.int32() for kind in kinds[1:])


def _is_plain_order(function: Expression) -> bool:
    """Whether a comparison is the one that Spark takes if none is given: nulls last, else by `<` and `>`."""
    if not isinstance(function, Call) or len(function.arguments) != 3:
        return False
    body, left, right = function.arguments
    return _shape(body, {left: "l", right: "r"}) == _PLAIN_ORDER


_PLAIN_ORDER = (
    "If(And(IsNull(l),IsNull(r)),0,If(IsNull(l),1,If(IsNull(r),-1,If(LessThan(l,r),-1,If(GreaterThan(l,r),1,0)))))"
)


def _shape(expression: Expression, names: Mapping[Expression, str]) -> str:
    if isinstance(expression, Literal):
        return str(expression.value.as_py())
    if isinstance(expression, Call) and expression.function != VARIABLE:
        return f"{expression.function}({','.join(_shape(argument, names) for argument in expression.arguments)})"
    return names.get(expression, "?")


def _position(values: Values, value: Any) -> int:
    return values.index(value) + 1 if value in values else 0


def _joined(values: Values, between: str, absent: str | None = None) -> str:
    """Texts with another between them; null ones are left out, or stand as a text."""
    if absent is not None:
        values = [absent if value is None else value for value in values]
    return between.join(value for value in values if value is not None)


def _sliced(values: Values, start: int, length: int) -> Values:
    """So many elements from the one of a number on: from 1 forwards, or from -1, the last one, backwards."""
    if start == 0:
        raise EvaluationError("INVALID_PARAMETER_VALUE.START", "The first element of a slice has the number 1 or -1.")
    if length < 0:
        raise EvaluationError("INVALID_PARAMETER_VALUE.LENGTH", "The length of a slice is less than 0.")
    first = start - 1 if start > 0 else len(values) + start
    return values[first : first + length] if first >= 0 else ()


def _flat(values: Values) -> list[Any] | None:
    return None if None in values else [value for inner in values for value in inner]


def _extreme(of: Callable[[list[Any]], Any], values: Values) -> Any:
    present = [value for value in values if value is not None]
    return of(present) if present else None


def _ordered(values: Values) -> list[Any]:
    present = sorted(value for value in values if value is not None)
    return [*present, *[None] * (len(values) - len(present))]


def _sequence(start: int, stop: int) -> list[int]:
    if abs(stop - start) >= _MOST:
        raise EvaluationError("COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", f"A sequence of more than {_MOST} elements.")
    return list(range(start, stop + 1) if stop >= start else range(start, stop - 1, -1))


_MEMBERS_BY_ROW: Mapping[str, Callable[..., Any]] = {
    "ArrayPosition": _position,
    "ArrayRemove": lambda values, value: [each for each in values if each != value],
    "ArrayCompact": lambda values: [each for each in values if each is not None],
    "ArrayJoin": _joined,
    "Slice": _sliced,
    "Flatten": _flat,
    "ArrayMax": partial(_extreme, max),
    "ArrayMin": partial(_extreme, min),
    "Sequence": _sequence,
    "ArraysZip": lambda *lists: list(zip_longest(*lists)),
}
_BY_WHOLE_ROW: Mapping[str, Callable[..., Any]] = {
    "ArrayAppend": lambda values, value: None if values is None else [*values, value],
    "ArrayPrepend": lambda values, value: None if values is None else [value, *values],
    "ArrayRepeat": lambda value, times: None if times is None else [value] * times,
}


def _members_made(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _MEMBERS_BY_ROW[call.function])


def _made_of_nulls(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_whole_row(call, arguments, _BY_WHOLE_ROW[call.function])


def _members_sorted(call: Call, rows: Any) -> pa.Array:
    return by_row(call, [rows.evaluate(call.arguments[0])], _ordered)


MEMBERS_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_MEMBERS_BY_ROW, _members_made),
    **dict.fromkeys(_BY_WHOLE_ROW, _made_of_nulls),
}
MEMBERS_LAZY: Mapping[str, LazyKernel] = {"ArraySort": _members_sorted}


# Structs: made of values, with other fields, and asked for one.

_CHANGES = ("WithField", "DropField")


def fits_structs(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if call.function in _CHANGES:
        return True
    if call.function == "UpdateFields":
        names = [field.name for field in kinds[0]]
        return _structs_distinct(names) and list(changed(names, call)) == [field.name for field in call.type]
    if call.function == "GetStructField":
        return bool(pt.is_struct(kinds[0])) and not is_taken_apart(call.arguments[0])
    names = [argument.value.as_py() if isinstance(argument, Literal) else None for argument in call.arguments[::2]]
    # two fields of one name cannot be told apart
    return None not in names and len(set(names)) == len(names)


def _structs_distinct(names: list[str]) -> bool:
    """Whether names differ by more than their case: which of them a change means depends on the session."""
    return len({name.lower() for name in names}) == len(names)


def _field(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A field of a struct, by its number; null where the struct is."""
    (structs,) = arguments
    part = structs.field(int(call.option("ordinal") or 0))
    return pc.if_else(structs.is_valid(), part, pa.scalar(None, part.type)) if structs.null_count else part


def _struct(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A struct of values, never null itself."""
    return pa.StructArray.from_arrays(arguments[1::2], fields=list(call.type))


def changed(names: list[str], call: Call) -> dict[str, int | Expression]:
    """The fields after the changes: numbers of fields, and expressions, by name."""
    parts: dict[str, int | Expression] = {name: number for number, name in enumerate(names)}
    for change in call.arguments[1:]:
        assert isinstance(change, Call)
        name = str(change.option("name"))
        existing = next((candidate for candidate in parts if candidate.lower() == name.lower()), None)
        if change.function == "WithField" and existing is None:
            parts[name] = change.arguments[0]
        elif change.function == "WithField":
            parts = {
                name if n == existing else n: change.arguments[0] if n == existing else p for n, p in parts.items()
            }
        elif existing is not None:
            del parts[existing]
    return parts


def _updated(call: Call, rows: EvaluatedRows) -> pa.Array:
    """A struct with fields set, put behind the others, or dropped; null where it was."""
    structs = rows.evaluate(call.arguments[0])
    present = valid(structs)
    parts = []
    for field, part in zip(call.type, changed([member.name for member in structs.type], call).values(), strict=True):
        column = structs.field(part) if isinstance(part, int) else value_where(rows, present, part)
        parts.append(shaped(column, field.type))
    mask = pa.array(~present) if structs.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(call.type), mask=mask)


def _change(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Only the call that changes the struct evaluates a change, so there is no kernel for one alone."""
    raise NotImplementedError(call.function)


STRUCTS_KERNELS: Mapping[str, Kernel] = {
    "GetStructField": _field,
    "CreateNamedStruct": _struct,
    **dict.fromkeys(_CHANGES, _change),
}
STRUCTS_LAZY: Mapping[str, LazyKernel] = {"UpdateFields": _updated}


# Maps: made of keys and values, of one another, and of entries. No key may be null, or there twice.


def fits_maps(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if not kinds or not all(map(is_plain, kinds)):
        return False
    if call.function == "MapEntries":
        return bool(pt.is_map(kinds[0]))
    if call.function == "MapContainsKey":
        return bool(pt.is_map(kinds[0])) and exact(kinds[1]) and kinds[0].key_type == kinds[1]
    target = call.type
    if not (pt.is_map(target) and exact(target.key_type)):
        return False
    if call.function == "MapConcat":
        return all(kind == target for kind in kinds)
    if call.function == "CreateMap":
        return all(kind == target.key_type for kind in kinds[::2]) and all(
            kind == target.item_type for kind in kinds[1::2]
        )
    return True


def _map(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs, if they make a map."""
    entries: dict[Any, Any] = {}
    for key, value in pairs:
        if key is None:
            raise EvaluationError("NULL_MAP_KEY", "Null cannot be a map's key.")
        if key in entries:
            raise EvaluationError("DUPLICATED_MAP_KEY", f"A map has the key {key!r} twice.")
        entries[key] = value
    return list(entries.items())


def _of_arrays(keys: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise EvaluationError(_UNEQUAL, "Keys and values of a map are not as many.")
    return _map(zip(keys, values, strict=True))


_UNEQUAL = "_LEGACY_ERROR_TEMP_2128"
_MAPS_BY_ROW: Mapping[str, Callable[..., Any]] = {
    "MapFromArrays": _of_arrays,
    "MapFromEntries": lambda entries: None if None in entries else _map(entries),
    "MapConcat": lambda *maps: _map(pair for each in maps for pair in each),
    "MapEntries": lambda pairs: pairs,
    "MapContainsKey": lambda pairs, key: any(each == key for each, _ in pairs),
}


def _maps_made(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _MAPS_BY_ROW[call.function])


def _created(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_whole_row(call, arguments, lambda *row: _map(zip(row[::2], row[1::2], strict=True)))


MAPS_KERNELS: Mapping[str, Kernel] = {**dict.fromkeys(_MAPS_BY_ROW, _maps_made), "CreateMap": _created}
MAPS_LAZY: Mapping[str, LazyKernel] = {}
