"""Casts: one function for each pair of kinds of types; a pair that is not in the table is Spark's.

Not in it: float and double to text and to decimal (Java's text of a float differs from version to version), and text to
timestamps, floats and decimals (which know names of zones, hexadecimal digits, and digits of all scripts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.functions.casts import numbers, parsing, printing, times
from watersmeet._engine.expressions.functions.decimals import LONG
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import is_lenient, is_utc
from watersmeet._engine.expressions.tree import Call, Expression, Operand, type_of
from watersmeet._engine.expressions.vectors import FLOATS, INTEGERS, TIMESTAMPS, where_null
from watersmeet._engine.rows.columns import valid

DOUBLE = 16
"""Digits of decimals that a double tells from the next integer."""
Convert = Callable[[Call, pa.Array], pa.Array]


def fits(call: Call) -> bool:
    """See `kernel`."""
    (argument,) = call.arguments
    return _known(type_of(argument), call.type, call) and not (_by_double(argument, call.type) and not is_lenient(call))


def _by_double(argument: Expression, to: pa.DataType) -> bool:
    """Whether Spark may or may not make a double of a decimal on its way to an integer: by where it comes from.

    A decimal that is read of a row is a long where it fits; one that an expression makes of others may not be. The two
    are cut off otherwise where a double has fewer digits.
    """
    of = type_of(argument)
    between = pt.is_decimal(of) and DOUBLE < of.precision <= LONG
    return bool(between and to in INTEGERS and to != pa.int64() and not isinstance(argument, Operand))


def _known(of: pa.DataType, to: pa.DataType, call: Call) -> bool:
    if of == to or pt.is_null(of):
        return True
    if pt.is_struct(of) and pt.is_struct(to):
        same = of.num_fields == to.num_fields
        return same and all(_known(one.type, other.type, call) for one, other in zip(of, to, strict=True))
    if pt.is_list(of) and pt.is_list(to):
        return _known(of.value_type, to.value_type, call)
    pair = (_kind(of), _kind(to))
    in_time = {"timestamp", "local"} & set(pair)
    return pair in _PAIRS and (not in_time or is_utc(call))


def _kind(of: pa.DataType) -> str:
    if of in INTEGERS:
        return "integer"
    if of in FLOATS:
        return "double" if of == pa.float64() else "float"
    if of in TIMESTAMPS:
        return "timestamp" if of.tz else "local"
    kinds = {pa.bool_(): "boolean", pa.string(): "text", pa.binary(): "bytes", pa.date32(): "date"}
    return kinds.get(of, "decimal" if pt.is_decimal(of) else "other")


def _cast(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return _converted(call, arguments[0], call.type)


def _converted(call: Call, values: pa.Array, to: pa.DataType) -> pa.Array:
    of = values.type
    if of == to:
        return values
    if pt.is_null(of):
        return pa.nulls(len(values), to)
    if pt.is_struct(of):
        parts = [_converted(call, part, field.type) for part, field in zip(values.flatten(), to, strict=True)]
        mask = pa.array(~valid(values)) if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(to), mask=mask)
    if pt.is_list(of):
        inner = _converted(call, values.flatten(), to.value_type)
        found = pa.ListArray.from_arrays(_flat_offsets(values), inner, type=to)
        return where_null(found, valid(values)) if values.null_count else found
    single = Call(call.function, call.arguments, to, call.ansi, call.options)
    return _PAIRS[_kind(of), _kind(to)](single, values)


def _flat_offsets(values: pa.Array) -> pa.Array:
    """Offsets of lists into their flattened values, in which those of null lists are missing."""
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


_FLOATING = ("float", "double")
_PAIRS: Mapping[tuple[str, str], Convert] = {
    ("integer", "integer"): numbers.integer_to_integer,
    **{("integer", each): numbers.as_numpy_does for each in _FLOATING},
    **{(each, "integer"): numbers.float_to_integer for each in _FLOATING},
    **{(each, other): numbers.as_numpy_does for each in _FLOATING for other in _FLOATING},
    **{("boolean", each): numbers.of_boolean for each in ("integer", "decimal", *_FLOATING)},
    **{(each, "boolean"): numbers.to_boolean for each in ("integer", *_FLOATING)},
    ("decimal", "boolean"): numbers.decimal_to_boolean,
    ("integer", "decimal"): numbers.to_decimal,
    ("decimal", "decimal"): numbers.to_decimal,
    ("decimal", "integer"): numbers.decimal_to_integer,
    **{("decimal", each): numbers.decimal_to_float for each in _FLOATING},
    **{(each, "text"): printing.plain for each in ("integer", "boolean")},
    ("decimal", "text"): printing.decimal,
    ("date", "text"): printing.date,
    ("timestamp", "text"): printing.timestamp,
    ("local", "text"): printing.timestamp,
    ("text", "integer"): parsing.integer,
    ("text", "boolean"): parsing.boolean,
    ("text", "date"): parsing.date,
    ("text", "double"): parsing.double,
    ("text", "bytes"): printing.plain,
    **{(one, other): times.same for one in ("timestamp", "local") for other in ("timestamp", "local")},
    **{(each, "date"): times.to_date for each in ("timestamp", "local")},
    **{("date", each): times.of_date for each in ("timestamp", "local")},
    ("timestamp", "integer"): times.to_seconds,
    **{("timestamp", each): times.to_float for each in _FLOATING},
    ("integer", "timestamp"): times.of_seconds,
}
KERNELS: Mapping[str, Kernel] = {"Cast": _cast}
LAZY: Mapping[str, LazyKernel] = {}
