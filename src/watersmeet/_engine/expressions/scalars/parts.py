"""Structs, lists and texts, a row at a time."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.types as pt

from watersmeet._engine.expressions.functions.structs import changed
from watersmeet._engine.expressions.scalars.writer import Form, FunctionWriter, NoForm, kinds_of
from watersmeet._engine.expressions.tree import Call, Operand, type_of


def _field(call: Call, writer: FunctionWriter) -> str:
    (of,) = call.arguments
    ordinal = int(call.option("ordinal") or 0)

    def made() -> str:
        whole = writer.value(of)
        return writer.set(f"None if {whole} is None else {whole}[{ordinal}]")

    return writer.once((of.name, ordinal), made) if isinstance(of, Operand) else made()


def _struct(call: Call, writer: FunctionWriter) -> str:
    return writer.set(f"({''.join(writer.value(each) + ', ' for each in call.arguments[1::2])})")


def _updated(call: Call, writer: FunctionWriter) -> str:
    """A struct with fields set, put behind the others, or dropped; null where it was."""
    whole = writer.value(call.arguments[0])
    names = [each.name for each in type_of(call.arguments[0])]
    found = writer.set("None")
    with writer.under(f"if {whole} is not None"):
        parts = [
            f"{whole}[{part}]" if isinstance(part, int) else writer.value(part)
            for part in changed(names, call).values()
        ]
        writer.line(f"{found} = ({''.join(part + ', ' for part in parts)})")
    return found


def _concat(call: Call, writer: FunctionWriter) -> str:
    if not all(map(pt.is_string, kinds_of(call))):
        raise NoForm(f"Concat of {call.type}")
    return writer.where_there(call, lambda values: " + ".join(values) or "''")


def _length(call: Call, writer: FunctionWriter) -> str:
    if not pt.is_string(kinds_of(call)[0]):
        raise NoForm("Length of bytes")
    return writer.where_there(call, lambda values: f"len({values[0]})")


def _size(call: Call, writer: FunctionWriter) -> str:
    value = writer.value(call.arguments[0])
    none = -1 if call.option("legacySizeOfNull") == "true" else None
    return writer.set(f"{none} if {value} is None else len({value})")


def _list(call: Call, writer: FunctionWriter) -> str:
    return writer.set(f"({''.join(writer.value(each) + ', ' for each in call.arguments)})")


FORMS: Mapping[str, Form] = {
    "GetStructField": _field,
    "CreateNamedStruct": _struct,
    "UpdateFields": _updated,
    "Concat": _concat,
    "Length": _length,
    **dict.fromkeys(("Size", "ArraySize"), _size),
    "CreateArray": _list,
}
