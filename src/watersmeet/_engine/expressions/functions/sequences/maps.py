"""Maps: made of keys and values, of one another, and of entries. No key may be null, or there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.functions.sequences.sets import exact
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.plain_values import is_plain
from watersmeet._engine.expressions.rowwise import by_row, by_whole_row
from watersmeet._engine.expressions.tree import Call, type_of


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if not kinds or not all(map(is_plain, kinds)):
        return False
    if call.function == "MapEntries":
        return bool(pt.is_map(kinds[0]))
    if call.function == "MapContainsKey":
        return bool(pt.is_map(kinds[0])) and exact(kinds[1]) and kinds[0].key_type == kinds[1]
    made = call.type
    if not (pt.is_map(made) and exact(made.key_type)):
        return False
    if call.function == "MapConcat":
        return all(kind == made for kind in kinds)
    if call.function == "CreateMap":
        return all(kind == made.key_type for kind in kinds[::2]) and all(kind == made.item_type for kind in kinds[1::2])
    return True


def _map(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs, if they make a map.

    Raises
    ------
    EvaluationError : a key is null, or there twice.
    """
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key is None:
            raise EvaluationError("NULL_MAP_KEY", "Null cannot be a map's key.")
        if key in found:
            raise EvaluationError("DUPLICATED_MAP_KEY", f"A map has the key {key!r} twice.")
        found[key] = value
    return list(found.items())


def _of_arrays(keys: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise EvaluationError(_UNEQUAL, "Keys and values of a map are not as many.")
    return _map(zip(keys, values, strict=True))


_UNEQUAL = "_LEGACY_ERROR_TEMP_2128"
_BY_ROW: Mapping[str, Callable[..., Any]] = {
    "MapFromArrays": _of_arrays,
    "MapFromEntries": lambda entries: None if None in entries else _map(entries),
    "MapConcat": lambda *maps: _map(pair for each in maps for pair in each),
    "MapEntries": lambda pairs: pairs,
    "MapContainsKey": lambda pairs, key: any(each == key for each, _ in pairs),
}


def _made(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _BY_ROW[call.function])


def _created(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_whole_row(call, arguments, lambda *row: _map(zip(row[::2], row[1::2], strict=True)))


KERNELS: Mapping[str, Kernel] = {**dict.fromkeys(_BY_ROW, _made), "CreateMap": _created}
LAZY: Mapping[str, LazyKernel] = {}
