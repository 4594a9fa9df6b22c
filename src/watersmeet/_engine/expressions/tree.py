"""Expressions: what users' functions come to, as trees that Arrow evaluates (`evaluate`).

A `Call` bears the name of Spark's expression class and its parameters; types are Arrow's, with all fields, elements and
values nullable (`rows.with_nulls`) and timestamps in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.rows import Bools, Int64s, valid
from watersmeet.errors import printable

# Errors of expressions that have no result in ANSI SQL.


class EvaluationError(Exception):
    """A value that cannot be computed: Spark would fail with the same condition.

    Parameters
    ----------
    condition : Spark's error condition: DIVIDE_BY_ZERO, ARITHMETIC_OVERFLOW, CAST_INVALID_INPUT, ...
    message : what is wrong, one sentence.
    """

    def __init__(self, condition: str, message: str) -> None:
        self.condition = condition
        self.message = printable(message)
        super().__init__(condition, self.message)

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"


# Arrow arrays as numpy's, and back: the values of fixed-width kernels.
#
# A slot that is null holds anything: kernels compute with it and mask it afterwards.

Numbers = npt.NDArray[Any]
FLOATS = (pa.float32(), pa.float64())
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
NUMBERS = INTEGERS + FLOATS
TIMESTAMPS = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
DURATION = pa.duration("us")
FIXED = (*NUMBERS, pa.date32(), *TIMESTAMPS, DURATION)
"""Types whose values are numbers of numpy's in their memory."""


def numbers(values: pa.Array) -> Numbers:
    """Values of fixed width, of times the numbers that stand for them, without a copy."""
    dtype = dtype_of(values.type)
    data = values.buffers()[1]
    if data is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize)


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """The numpy types of the numbers behind values of a fixed-width type."""
    if pt.is_floating(kind):
        return np.dtype(f"<f{kind.bit_width // 8}")
    return np.dtype(f"<i{kind.bit_width // 8}")


def fixed_array(values: Numbers, validity: Bools | None, kind: pa.DataType) -> pa.Array:
    """The array of a type of fixed width that has these numbers in its memory; null where `validity` is false."""
    data = pa.py_buffer(np.ascontiguousarray(values, dtype_of(kind)))
    if validity is None or validity.all():
        return pa.Array.from_buffers(kind, len(values), [None, data], 0)
    return pa.Array.from_buffers(kind, len(values), [pa.array(validity).buffers()[1], data])


def flags(values: pa.Array) -> Bools:
    """Whether a value is true: null is not."""
    filled = pc.fill_null(values, False) if values.null_count else values
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def all_valid(*arrays: pa.Array) -> Bools | None:
    """Where all arrays have a value; None when that is everywhere."""
    validity: Bools | None = None
    for values in arrays:
        if values.null_count:
            validity = valid(values) if validity is None else validity & valid(values)
    return validity


def mask_and(left: Bools | None, right: Bools | None) -> Bools | None:
    """Where both are true; None stands for everywhere."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def checked(bad: Bools, validity: Bools | None, fails: bool, condition: str, message: str) -> Bools | None:
    """Where there is a value after all: not where it is `bad`."""
    if not bad.any():
        return validity
    if validity is not None:
        bad = bad & validity
    if fails and bad.any():
        raise EvaluationError(condition, message)
    return mask_and(validity, ~bad)


def shaped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with fields, elements and values as nullable as the type says."""
    return values if values.type == kind else values.cast(kind)


def where_null(values: pa.Array, validity: Bools | None) -> pa.Array:
    """The array, null where `validity` is false, too."""
    if validity is None or validity.all():
        return values
    return pc.if_else(pa.array(validity), values, pa.scalar(None, values.type))


def spread(values: pa.Array, mask: Bools) -> pa.Array:
    """The values in the rows where `mask` is true, in their order; null elsewhere."""
    if len(values) == len(mask):
        return values
    ranks: Int64s = np.cumsum(mask) - 1
    return values.take(pa.array(ranks, mask=~mask))


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: pa.Scalar


@dataclass(frozen=True)
class Operand:
    """An argument of the function: a column of the rows, by its name."""

    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function of expressions."""

    function: str  # simple name of Spark's expression class: Add, Cast, CaseWhen, GetStructField,
    # the children, in Spark's order: of CaseWhen condition, value, condition, value, ..., and what is else
    arguments: tuple[Expression, ...]
    type: pa.DataType  # of the result
    # whether what cannot be computed is an error (`EvaluationError`), rather than null or another value
    ansi: bool = True
    # the other parameters of Spark's class as (name, text), with true and false for booleans
    options: tuple[tuple[str, str], ...] = ()
    called: Any = None  # of a call of a plain Python function, the function (`columns.plain_call`)

    def option(self, name: str) -> str | None:
        """The text of an option; None where there is none of that name."""
        return dict(self.options).get(name)


Expression = Literal | Operand | Call
VARIABLE = "NamedLambdaVariable"
"""A call without arguments that stands for an argument of the function of elements around it (`LambdaFunction`)."""


def variable_name(variable: Call) -> str:
    return str(variable.option("id"))


def has_variables(expression: Expression) -> bool:
    """Whether an expression has a value within a function of elements alone."""
    return bool(_free(expression))


def _free(expression: Expression) -> frozenset[str]:
    if not isinstance(expression, Call):
        return frozenset()
    if expression.function == VARIABLE:
        return frozenset({variable_name(expression)})
    names = frozenset[str]().union(*map(_free, expression.arguments))
    if expression.function != "LambdaFunction":
        return names
    return names.difference(
        variable_name(parameter) for parameter in expression.arguments[1:] if isinstance(parameter, Call)
    )


def type_of(expression: Expression) -> pa.DataType:
    return expression.value.type if isinstance(expression, Literal) else expression.type


# A kernel: a function over Arrow arrays that returns, row by row, the result of Spark's expression class.
#
# A family of kernels (`KernelFamily`) lies in two dicts, by the names of the classes: kernels with arguments evaluated
# for all rows, and lazy ones, which evaluate an argument for those rows alone for which Spark would. `fits` says of a
# call of one of them whether the kernel knows these types and options: then its result equals Spark's to the bit,
# errors included.


class EvaluatedRows(Protocol):
    """Rows that expressions are evaluated for."""

    def __len__(self) -> int:
        """How many they are."""

    def evaluate(self, expression: Expression) -> pa.Array:
        """The value of each row."""

    def where(self, mask: Bools) -> EvaluatedRows:
        """The rows for which the mask is true; an error in any other is not one of theirs."""

    def of_elements(self, rows: Int64s, variables: Mapping[str, pa.Array]) -> EvaluatedRows:
        """A row for each of some elements.

        Parameters
        ----------
        rows : the number of the row that each element is of.
        variables : what a function of elements has as its arguments, by their names.
        """


Kernel = Callable[[Call, list[pa.Array]], pa.Array]
LazyKernel = Callable[[Call, EvaluatedRows], pa.Array]


@dataclass(frozen=True)
class KernelFamily:
    """The kernels of functions that belong together, by the names of Spark's classes."""

    kernels: Mapping[str, Kernel]
    lazy: Mapping[str, LazyKernel]
    # whether the kernel of the call's name knows its types and options
    fits: Callable[[Call], bool]


# The modes of a call without a value: fail, give null, or wrap; and whether an expression can fail at all.

TRY = "TRY"
LONG_OVERFLOW = ("java.lang.ArithmeticException", "long overflow")
"""What Spark says in any mode of some times that are out of range: an error of Java's that has no condition."""
MICROS_A_DAY = 86_400_000_000
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "+00:00")
_CALM = frozenset(
    re.findall(
        r"\w+",
        """
        EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual Greatest Least In And Or
        NamedLambdaVariable LambdaFunction ArrayTransform ArrayFilter ArrayExists ArrayForAll ArrayAggregate MapFilter
        TransformValues RLike RegExpCount RegExpSubStr RegExpReplace RegExpExtract RegExpExtractAll ArrayDistinct
        ArrayUnion ArrayExcept
        ArrayIntersect ArraysOverlap ArrayPosition ArrayRemove ArrayJoin Flatten ArrayMax ArrayMin ArraysZip ArraySort
        ArrayRepeat ArrayAppend ArrayPrepend MapEntries ArrayCompact MapContainsKey
        Sha2 Md5 Sha1 Crc32 Hex Base64 StringTranslate SubstringIndex
        FormatString
        Not IsNull IsNotNull IsNaN NaNvl Coalesce If CaseWhen GetStructField CreateNamedStruct UpdateFields
        WithField DropField CreateArray Size
        With NullIfResult CommonExpressionRef CommonExpressionDef
         MapKeys MapValues ArrayContains Get GetMapValue Concat ConcatWs
        Substring Left Right Length OctetLength BitLength StringTrim StringTrimLeft StringTrimRight StringLPad
        StringRPad StringReplace StringSplit Like StartsWith EndsWith Contains StringInstr StringLocate
        StringRepeat Reverse Ascii Year Month DayOfMonth DayOfWeek WeekDay DayOfYear Quarter
        WeekOfYear LastDay Hour Minute Second DateDiff UnixMicros UnixMillis UnixSeconds MicrosToTimestamp
        XxHash64 Murmur3Hash Signum Sqrt Rint UnaryPositive BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft
        ShiftRight ShiftRightUnsigned
        """,
    )
)
"""Functions that give a value, or null, whatever they get."""
_ALWAYS = frozenset(
    re.findall(
        r"\w+",
        """
        ElementAt MillisToTimestamp SecondsToTimestamp AddMonths TruncDate TruncTimestamp
        TimestampAddInterval UnixTimestamp ToUnixTimestamp
        SubtractTimestamps Slice Sequence CreateMap MapFromArrays MapFromEntries MapConcat RaiseError PythonUDF
        """,
    )
)
"""Functions that fail in any mode at some values."""


_RIGHT_FIRST = ("Divide", "IntegralDivide", "Remainder", "Pmod")
_AT_ONCE = frozenset(
    re.findall(
        r"\w+",
        """
        EqualNullSafe Greatest Least CreateNamedStruct CreateArray ConcatWs XxHash64 Murmur3Hash
        """,
    )
)
"""Functions that are not null where an argument is, and so ask for all of them."""


def order_of(call: Call) -> tuple[int, ...] | None:
    """The order in which Spark evaluates the arguments if it stops at a null one; None if it does not stop."""
    if call.function in _AT_ONCE:
        return None
    places = tuple(range(len(call.arguments)))
    return places[::-1] if call.function in _RIGHT_FIRST else places


def tries(call: Call) -> bool:
    """Whether what cannot be computed is null: `try_add`, `try_cast`."""
    return call.option("evalMode") == TRY


def fails(call: Call) -> bool:
    """Whether what cannot be computed is an error."""
    setting = call.option("failOnError")
    return not tries(call) and (call.ansi if setting is None else setting == "true")


def is_lenient(call: Call) -> bool:
    """Whether numbers that are too large wrap."""
    return not (fails(call) or tries(call))


def is_constant(expression: Expression) -> bool:
    """Whether an expression has the same value for all rows."""
    if isinstance(expression, Call):
        return expression.function != VARIABLE and all(map(is_constant, expression.arguments))
    return isinstance(expression, Literal)


def is_taken_apart(expression: Expression) -> bool:
    """Whether it makes a struct or an array of parts that can fail, each of which is computed by itself."""
    is_constructor = isinstance(expression, Call) and expression.function in (
        "CreateNamedStruct",
        "UpdateFields",
        "CreateArray",
    )
    return is_constructor and can_fail(expression)


def is_utc(call: Call) -> bool:
    """Whether the call's zone, if it has one, is UTC: tables of zones differ from machine to machine."""
    return call.option("timeZoneId") in (None, *_UTC)


def can_fail(expression: Expression) -> bool:
    """Whether the evaluation of an expression may end in an error; false only where it surely does not."""
    if not isinstance(expression, Call):
        return False
    return _call_can_fail(expression) or any(map(can_fail, expression.arguments))


def value_where(rows: EvaluatedRows, mask: Bools, expression: Expression) -> pa.Array:
    """The expression's value where the mask is true; where it is not, null or what the expression gives there."""
    if not can_fail(expression) or mask.all():
        return rows.evaluate(expression)
    return spread(rows.where(mask).evaluate(expression), mask)


def _call_can_fail(call: Call) -> bool:
    if call.function in _CALM or tries(call):
        return False
    if call.function in _ALWAYS:
        return True
    if call.type == pa.duration("us"):
        return True
    if call.function == "Cast" and type_of(call.arguments[0]) == pa.date32() and pt.is_timestamp(call.type):
        return True
    if not fails(call):
        return False
    if call.function == "Cast":
        return not _widens(type_of(call.arguments[0]), call.type)
    floats = all(pt.is_floating(type_of(argument)) for argument in call.arguments)
    return not (floats and call.function in ("Add", "Subtract", "Multiply", "UnaryMinus", "Abs"))


def _widens(of: pa.DataType, to: pa.DataType) -> bool:
    if of == to or pt.is_null(of) or pt.is_string(to):
        return True
    if pt.is_integer(of) and pt.is_integer(to):
        return bool(of.bit_width <= to.bit_width)
    if pt.is_decimal(of) and pt.is_decimal(to):
        return bool(of.precision - of.scale <= to.precision - to.scale and of.scale <= to.scale)
    return bool(pt.is_floating(to) and (pt.is_integer(of) or pt.is_floating(of) or pt.is_decimal(of)))


# Arrow's arrays as lists of plain values, and back, quicker than `to_pylist` and without a loss.
#
# Integers, dates and times are ints (what stands in Arrow's memory), structs and lists are tuples, maps tuples of
# pairs; null is None. `rows.python_values` makes the arguments of users' functions.

_AS_THEY_ARE = (pt.is_boolean, pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary, pt.is_decimal)


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type are known here."""
    if pt.is_struct(kind):
        return kind.num_fields > 0 and all(is_plain(field.type) for field in kind)
    if pt.is_list(kind):
        return is_plain(kind.value_type)
    if pt.is_map(kind):
        return is_plain(kind.key_type) and is_plain(kind.item_type)
    return bool(kind in FIXED or pt.is_null(kind) or any(of(kind) for of in _AS_THEY_ARE))


def plain(values: pa.Array) -> list[Any]:
    """The value of each row."""
    kind = values.type
    if kind in FIXED:
        return _with_none(numbers(values).tolist(), values)
    if pt.is_struct(kind):
        return _with_none(list(zip(*map(plain, _fields(values)), strict=True)), values)
    if pt.is_map(kind):
        start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        keys, items = (plain(child.slice(start, end - start)) for child in (values.keys, values.items))
        return _cut(list(zip(keys, items, strict=True)), values)
    if pt.is_list(kind):
        return _cut(plain(values.values.slice(values.offsets[0].as_py(), _length(values))), values)
    # texts and the like are Python's own
    return values.to_pylist()  # type: ignore[no-any-return]


def _length(values: pa.Array) -> int:
    return int(values.offsets[-1].as_py() - values.offsets[0].as_py())


def _fields(values: pa.Array) -> list[pa.Array]:
    return [values.field(number) for number in range(values.type.num_fields)]


def _with_none(items: list[Any], values: pa.Array) -> list[Any]:
    if values.null_count:
        # lists have no way to set many of their places at once
        for row in np.flatnonzero(~valid(values)).tolist():
            items[row] = None
    return items


def _cut(elements: list[Any], values: pa.Array) -> list[Any]:
    at = (values.offsets.to_numpy() - values.offsets[0].as_py()).tolist()
    return _with_none([tuple(elements[start:end]) for start, end in pairwise(at)], values)


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The array of plain values."""
    if pt.is_struct(kind) and values:
        blank = (None,) * kind.num_fields
        columns = zip(*(blank if value is None else value for value in values), strict=True)
        parts = [array(column, field.type) for column, field in zip(columns, kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_mask(values))
    if pt.is_list(kind) or pt.is_map(kind):
        return _of_lists(values, kind)
    if pt.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pt.is_timestamp(kind) or pt.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _of_lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    lengths = [0 if value is None else len(value) for value in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), pa.int32())
    elements = [element for value in values if value is not None for element in value]
    if pt.is_map(kind):
        keys, items = zip(*elements, strict=True) if elements else ((), ())
        lists = pa.MapArray.from_arrays(offsets, array(keys, kind.key_type), array(items, kind.item_type), type=kind)
    else:
        lists = pa.ListArray.from_arrays(offsets, array(elements, kind.value_type), type=kind)
    absent = _mask(values)
    if absent is None:
        return lists
    bits = pa.array(~absent.to_numpy(zero_copy_only=False)).buffers()[1]
    children = [lists.values] if pt.is_list(kind) else [_entries(lists)]
    return pa.Array.from_buffers(kind, len(lists), [bits, lists.buffers()[1]], children=children)


def _entries(maps: pa.MapArray) -> pa.Array:
    return pa.StructArray.from_arrays(
        [maps.keys, maps.items], fields=list(pa.struct([maps.type.key_field, maps.type.item_field]))
    )


def _mask(values: Sequence[Any]) -> pa.Array | None:
    absent: Bools = np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))
    return pa.array(absent) if absent.any() else None


# Kernels that are functions of plain values, called for each row.


def by_row(call: Call, arguments: Sequence[pa.Array], function: Callable[..., Any]) -> pa.Array:
    """The results of a function for the plain values (`plain`) of each row; null where one of them is null."""
    columns = [plain(argument) for argument in arguments]
    if len(columns) == 1:
        (values,) = columns
        results = [None if value is None else function(value) for value in values]
    else:
        results = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    return array(results, call.type)


def by_whole_row(call: Call, arguments: Sequence[pa.Array], function: Callable[..., Any]) -> pa.Array:
    """The same, called for every row: null is None."""
    columns = [plain(argument) for argument in arguments]
    return array([function(*row) for row in zip(*columns, strict=True)], call.type)
