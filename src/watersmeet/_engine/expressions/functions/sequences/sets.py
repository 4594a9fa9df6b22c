"""Arrays as sets, and arrays behind one another: of elements that are plainly equal or not, so of no floats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.functions.comparisons import comparable
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.rowwise import by_row
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import FLOATS

Values = Sequence[Any]


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    return len(set(kinds)) == 1 and bool(pt.is_list(kinds[0])) and exact(kinds[0].value_type)


def exact(kind: pa.DataType) -> bool:
    """Whether values of a type are the same just where their plain values are."""
    return comparable(kind) and kind not in FLOATS and not pt.is_null(kind)


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values in the order of their first places; null is one of them."""
    return list(dict.fromkeys(values))


def _except(left: Values, right: Values) -> list[Any]:
    gone = set(right)
    return _distinct(each for each in left if each not in gone)


def _intersect(left: Values, right: Values) -> list[Any]:
    kept = set(right)
    return _distinct(each for each in left if each in kept)


def _overlap(left: Values, right: Values) -> bool | None:
    """Whether one value is in both; null where none is, but one of the two has a null, and the other is not empty."""
    if (set(left) & set(right)) - {None}:
        return True
    return None if left and right and (None in left or None in right) else False


_SETS: Mapping[str, Callable[..., Any]] = {
    "ArrayDistinct": _distinct,
    "ArrayUnion": lambda left, right: _distinct((*left, *right)),
    "ArrayExcept": _except,
    "ArrayIntersect": _intersect,
    "ArraysOverlap": _overlap,
}


def _of_sets(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _SETS[call.function])


KERNELS: Mapping[str, Kernel] = dict.fromkeys(_SETS, _of_sets)
LAZY: Mapping[str, LazyKernel] = {}
