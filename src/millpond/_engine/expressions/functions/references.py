"""References: fields of structs, structs of values, and texts behind one another."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.expressions.kernel import Kernel, LazyKernel
from millpond._engine.expressions.tree import Call, Literal, type_of


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if call.function == "GetStructField":
        return bool(pa.types.is_struct(kinds[0]))
    if call.function == "CreateNamedStruct":
        names = [each.value.as_py() if isinstance(each, Literal) else None for each in call.arguments[::2]]
        # two fields of one name cannot be told apart
        return None not in names and len(set(names)) == len(names)
    return bool(kinds) and all(kind == pa.string() for kind in kinds)


def _field(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A field of a struct, by its number; null where the struct is."""
    (whole,) = arguments
    part = whole.field(int(call.option("ordinal") or 0))
    return pc.if_else(whole.is_valid(), part, pa.scalar(None, part.type)) if whole.null_count else part


def _struct(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A struct of values, never null itself."""
    return pa.StructArray.from_arrays(arguments[1::2], fields=list(call.type))


def _concat(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Texts behind one another; null where one of them is."""
    return arguments[0] if len(arguments) == 1 else pc.binary_join_element_wise(*arguments, "")


KERNELS: Mapping[str, Kernel] = {"GetStructField": _field, "CreateNamedStruct": _struct, "Concat": _concat}
LAZY: Mapping[str, LazyKernel] = {}
