"""The modes of a call without a value: fail, give null, or wrap; and whether an expression can fail at all."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.kernel import EvaluatedRows
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, Literal, type_of
from watersmeet._engine.expressions.vectors import spread

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
    said = call.option("failOnError")
    return not tries(call) and (call.ansi if said is None else said == "true")


def is_lenient(call: Call) -> bool:
    """Whether numbers that are too large wrap."""
    return not (fails(call) or tries(call))


def is_constant(expression: Expression) -> bool:
    """Whether an expression has the same value for all rows."""
    if isinstance(expression, Call):
        return expression.function != VARIABLE and all(map(is_constant, expression.arguments))
    return isinstance(expression, Literal)


def is_taken_apart(expression: Expression) -> bool:
    """Whether Spark leaves out what is put into an array or struct only not to be taken out, and this could fail."""
    made = isinstance(expression, Call) and expression.function in ("CreateNamedStruct", "UpdateFields", "CreateArray")
    return made and can_fail(expression)


def is_utc(call: Call) -> bool:
    """Whether the call's zone, if it has one, is UTC: tables of zones differ from machine to machine."""
    return call.option("timeZoneId") in (None, *_UTC)


def can_fail(expression: Expression) -> bool:
    """Whether the evaluation of an expression may end in an error; false only where it surely does not."""
    if not isinstance(expression, Call):
        return False
    return _own(expression) or any(map(can_fail, expression.arguments))


def value_where(rows: EvaluatedRows, mask: Bools, expression: Expression) -> pa.Array:
    """The expression's value where the mask is true; where it is not, null or what the expression gives there."""
    if not can_fail(expression) or mask.all():
        return rows.evaluate(expression)
    return spread(rows.where(mask).evaluate(expression), mask)


def _own(call: Call) -> bool:
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
    floats = all(pt.is_floating(type_of(each)) for each in call.arguments)
    return not (floats and call.function in ("Add", "Subtract", "Multiply", "UnaryMinus", "Abs"))


def _widens(of: pa.DataType, to: pa.DataType) -> bool:
    if of == to or pt.is_null(of) or pt.is_string(to):
        return True
    if pt.is_integer(of) and pt.is_integer(to):
        return bool(of.bit_width <= to.bit_width)
    if pt.is_decimal(of) and pt.is_decimal(to):
        return bool(of.precision - of.scale <= to.precision - to.scale and of.scale <= to.scale)
    return bool(pt.is_floating(to) and (pt.is_integer(of) or pt.is_floating(of) or pt.is_decimal(of)))
