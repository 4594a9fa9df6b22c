"""Conditions: what holds, what is there, and what is taken where it does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.arrays import Bools
from millpond._engine.expressions.kernel import Kernel, LazyKernel, Rows
from millpond._engine.expressions.tree import Call, type_of
from millpond._engine.rows.columns import gather

_COMPARED = (pa.int32(), pa.int64(), pa.string())


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if call.function == "EqualTo":
        return kinds[0] in _COMPARED and kinds[0] == kinds[1]
    if call.function == "Cast":
        return bool(kinds[0] == pa.null())
    if call.function == "CaseWhen":
        return all(kind == call.type for kind in (*kinds[1::2], *(kinds[-1:] if len(kinds) % 2 else [])))
    return call.function != "Coalesce" or all(kind == call.type for kind in kinds)


def _true(values: pa.Array) -> Bools:
    """Whether a value is true: null is not."""
    found: Bools = values.fill_null(False).to_numpy(zero_copy_only=False)
    return found


class _Choice:
    """Rows that find their values one after the other."""

    def __init__(self, call: Call, rows: Rows) -> None:
        self._kind = call.type
        self._pointers = np.full(len(rows), -1, dtype=np.int64)
        self._places = np.arange(len(rows))
        self._parts: list[pa.Array] = []
        self._taken = 0

    def take(self, chosen: Bools, values: pa.Array) -> None:
        """The values of those of the rest that are chosen."""
        self._pointers[self._places[chosen]] = np.arange(self._taken, self._taken + len(values))
        self._places = self._places[~chosen]
        self._parts.append(values)
        self._taken += len(values)

    def made(self) -> pa.Array:
        """What all have found; null where a row has found nothing."""
        if len(self._parts) == 1 and len(self._parts[0]) == len(self._pointers):
            return self._parts[0]
        found = pa.concat_arrays(self._parts) if self._parts else pa.nulls(0, self._kind)
        return gather(found, self._pointers)


def _case_when(call: Call, rows: Rows) -> pa.Array:
    choice = _Choice(call, rows)
    pairs = list(zip(call.arguments[::2], call.arguments[1::2], strict=False))
    for condition, value in pairs:
        chosen = _true(rows.evaluate(condition))
        if chosen.any():
            choice.take(chosen, rows.where(chosen).evaluate(value))
        rows = rows.where(~chosen)
    if len(call.arguments) % 2 and len(rows):
        choice.take(np.ones(len(rows), dtype=np.bool_), rows.evaluate(call.arguments[-1]))
    return choice.made()


def _coalesce(call: Call, rows: Rows) -> pa.Array:
    choice = _Choice(call, rows)
    for each in call.arguments:
        values = rows.evaluate(each)
        if not values.null_count:
            choice.take(np.ones(len(rows), dtype=np.bool_), values)
            break
        there: Bools = values.is_valid().to_numpy(zero_copy_only=False)
        choice.take(there, values.filter(pa.array(there)))
        rows = rows.where(~there)
    return choice.made()


def _and(call: Call, rows: Rows) -> pa.Array:
    return _until(call, rows, True)


def _or(call: Call, rows: Rows) -> pa.Array:
    return _until(call, rows, False)


def _until(call: Call, rows: Rows, neutral: bool) -> pa.Array:
    """The second condition is asked of those rows alone which the first does not decide."""
    first = rows.evaluate(call.arguments[0])
    decided = ~_true(first.fill_null(True)) if neutral else _true(first)
    if decided.all():
        return first
    asked = rows.where(~decided).evaluate(call.arguments[1])
    pointers = np.where(decided, -1, np.cumsum(~decided) - 1)
    second = pc.if_else(pa.array(decided), not neutral, gather(asked, pointers))
    return pc.and_kleene(first, second) if neutral else pc.or_kleene(first, second)


KERNELS: Mapping[str, Kernel] = {
    "Cast": lambda call, arguments: pa.nulls(len(arguments[0]), call.type),
    "EqualTo": lambda _, arguments: pc.equal(*arguments),
    "Not": lambda _, arguments: pc.invert(arguments[0]),
    "IsNull": lambda _, arguments: arguments[0].is_null(),
    "IsNotNull": lambda _, arguments: arguments[0].is_valid(),
}
LAZY: Mapping[str, LazyKernel] = {"CaseWhen": _case_when, "Coalesce": _coalesce, "And": _and, "Or": _or}
