"""Structs: made of values, with other fields, and asked for one."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.kernel import EvaluatedRows, Kernel, LazyKernel
from watersmeet._engine.expressions.modes import is_taken_apart, value_where
from watersmeet._engine.expressions.tree import Call, Expression, Literal, type_of
from watersmeet._engine.expressions.vectors import shaped
from watersmeet._engine.rows.columns import valid

_CHANGES = ("WithField", "DropField")


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if call.function in _CHANGES:
        return True
    if call.function == "UpdateFields":
        names = [each.name for each in kinds[0]]
        return _distinct(names) and list(changed(names, call)) == [each.name for each in call.type]
    if call.function == "GetStructField":
        return bool(pt.is_struct(kinds[0])) and not is_taken_apart(call.arguments[0])
    names = [each.value.as_py() if isinstance(each, Literal) else None for each in call.arguments[::2]]
    # two fields of one name cannot be told apart
    return None not in names and len(set(names)) == len(names)


def _distinct(names: list[str]) -> bool:
    """Whether names differ by more than their case: which of them a change means depends on the session."""
    return len({name.lower() for name in names}) == len(names)


def _field(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A field of a struct, by its number; null where the struct is."""
    (whole,) = arguments
    part = whole.field(int(call.option("ordinal") or 0))
    return pc.if_else(whole.is_valid(), part, pa.scalar(None, part.type)) if whole.null_count else part


def _struct(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A struct of values, never null itself."""
    return pa.StructArray.from_arrays(arguments[1::2], fields=list(call.type))


def changed(names: list[str], call: Call) -> dict[str, int | Expression]:
    """The fields after the changes: numbers of fields, and expressions, by name."""
    parts: dict[str, int | Expression] = {name: number for number, name in enumerate(names)}
    for change in call.arguments[1:]:
        assert isinstance(change, Call)
        name = str(change.option("name"))
        known = next((each for each in parts if each.lower() == name.lower()), None)
        if change.function == "WithField" and known is None:
            parts[name] = change.arguments[0]
        elif change.function == "WithField":
            parts = {name if n == known else n: change.arguments[0] if n == known else p for n, p in parts.items()}
        elif known is not None:
            del parts[known]
    return parts


def _updated(call: Call, rows: EvaluatedRows) -> pa.Array:
    """A struct with fields set, put behind the others, or dropped; null where it was."""
    whole = rows.evaluate(call.arguments[0])
    there = valid(whole)
    parts = []
    for field, part in zip(call.type, changed([each.name for each in whole.type], call).values(), strict=True):
        found = whole.field(part) if isinstance(part, int) else value_where(rows, there, part)
        parts.append(shaped(found, field.type))
    mask = pa.array(~there) if whole.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(call.type), mask=mask)


def _change(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A change has no value of its own."""
    raise NotImplementedError(call.function)


KERNELS: Mapping[str, Kernel] = {
    "GetStructField": _field,
    "CreateNamedStruct": _struct,
    **dict.fromkeys(_CHANGES, _change),
}
LAZY: Mapping[str, LazyKernel] = {"UpdateFields": _updated}
