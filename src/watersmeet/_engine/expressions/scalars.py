"""Expressions as functions of plain Python values, compiled and called a row at a time: steps of folds, and filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.casts import CAST_OVERFLOW
from watersmeet._engine.expressions.conditions import comparable, expanded
from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.nested import changed
from watersmeet._engine.expressions.numbers import overflow
from watersmeet._engine.expressions.program import Evaluated, operands
from watersmeet._engine.expressions.tree import (
    FLOATS,
    INTEGERS,
    Call,
    EvaluationError,
    Expression,
    Literal,
    Operand,
    can_fail,
    fails,
    has_variables,
    is_plain,
    order_of,
    plain,
    tries,
    type_of,
)

# Writes an expression as statements of Python, one for each call, with Spark's rules for nulls and errors.
#
# A form writes one function of Spark's: it has the arguments evaluated, and gives the name of its value. `STEPS_FORMS`
# has them by the names of the kernels; a call without a form is evaluated by its kernel alone.

INDENT = "    "


class NoForm(Exception):
    """A call that cannot be written here; says which function it is."""


class Form(Protocol):
    """Writes a call: what it gives is the name of its value, or a constant."""

    def __call__(self, call: Call, writer: FunctionWriter) -> str:
        """See `Form`."""


class FunctionWriter:
    """A function's body while it is written.

    Parameters
    ----------
    forms : by the names of functions.
    operands : what stands for each operand.
    """

    def __init__(self, forms: Mapping[str, Form], operands: Mapping[str, str], depth: int = 1) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"EvaluationError": EvaluationError}
        self._forms = forms
        self.operands = dict(operands)
        self._depth = depth
        self._names = 0
        self._scopes: list[dict[tuple[str, int], str]] = [{}]

    def value(self, expression: Expression) -> str:
        """Has an expression evaluated; the name of its value."""
        if isinstance(expression, Operand):
            return self.operands[expression.name]
        if isinstance(expression, Literal):
            return self.constant(expression)
        form = self._forms.get(expression.function)
        if form is None:
            raise NoForm(expression.function)
        return form(expression, self)

    def constant(self, literal: Literal) -> str:
        """A literal's value."""
        if not is_plain(literal.value.type):
            raise NoForm(f"a constant of {literal.value.type}")
        (value,) = plain(pa.repeat(literal.value, 1))
        return self.held(value)

    def held(self, value: Any) -> str:
        """A constant of any kind."""
        if value is None or isinstance(value, bool):
            return repr(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self._depth + text)

    def set(self, text: str) -> str:
        """A new name for what a text of Python gives."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def under(self, head: str) -> Iterator[None]:
        """Statements under a condition."""
        self.line(f"{head}:")
        self._depth += 1
        self._scopes.append({})
        yield
        self._scopes.pop()
        self._depth -= 1

    def once(self, key: tuple[str, int], make: Callable[[], str]) -> str:
        """The parts that have a name here already."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        self._scopes[-1][key] = name = make()
        return name

    def fail(self, condition: str, message: str) -> None:
        self.line(f"raise EvaluationError({condition!r}, {message!r})")

    def where_there(self, call: Call, write: Callable[[Sequence[str]], str]) -> str:
        """What `write` writes of the arguments where they are all there; null elsewhere.

        An argument behind a null one is not evaluated where it could fail: Spark would not either.
        """
        order = order_of(call) or range(len(call.arguments))
        values: dict[int, str] = {}
        name = self.name()
        self.line(f"{name} = None")
        self._nested(
            call, list(order), values, lambda: self.line(f"{name} = {write([values[at] for at in sorted(values)])}")
        )
        return name

    def _nested(self, call: Call, left: list[int], values: dict[int, str], write: Callable[[], None]) -> None:
        if not left:
            write()
            return
        count = 1
        while count < len(left) and not can_fail(call.arguments[left[count]]):
            count += 1
        new = {at: self.value(call.arguments[at]) for at in left[:count]}
        values |= new
        nullable = dict.fromkeys(text for at, text in new.items() if not isinstance(call.arguments[at], Literal))
        if not nullable and all(text != "None" for text in new.values()):
            self._nested(call, left[count:], values, write)
            return
        missing = ["False"] if "None" in new.values() else []
        with self.under("if " + " and ".join([*missing, *(f"{text} is not None" for text in nullable)])):
            self._nested(call, left[count:], values, write)


def compiled(parameters: Sequence[str], writer: FunctionWriter, result: str, name: str = "step") -> Callable[..., Any]:
    """The function of these parameters, with the written body."""
    source = "\n".join([f"def {name}({', '.join(parameters)}):", *writer.lines, f"{INDENT}return {result}"])
    namespace = dict(writer.constants)
    # the text is made of names, of numbers and of the names of Spark's functions: no text of a user's is in it
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def kinds_of(call: Call) -> list[Any]:
    return [type_of(argument) for argument in call.arguments]


_LOGIC_SIGNS = {
    "EqualTo": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TURNED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}


def _kind(kinds: Sequence[pa.DataType], call: Call) -> pa.DataType:
    if len(set(kinds)) != 1 or not comparable(kinds[0]):
        raise NoForm(f"{call.function} of {kinds[0]}")
    return kinds[0]


def compared(function: str, kind: pa.DataType, left: str, right: str) -> str:
    """A comparison of two values that are there, as a text of Python."""
    if kind not in FLOATS:
        return f"({left} {_LOGIC_SIGNS[function]} {right})"
    if function in _TURNED:
        function, left, right = _TURNED[function], right, left
    with_nan = {
        "EqualTo": f"{left} != {left} and {right} != {right}",
        "LessThan": f"{right} != {right} and {left} == {left}",
        "LessThanOrEqual": f"{right} != {right}",
    }[function]
    return f"({left} {_LOGIC_SIGNS[function]} {right} or {with_nan})"


def _compare(call: Call, writer: FunctionWriter) -> str:
    kind = _kind(kinds_of(call), call)
    return writer.where_there(call, lambda values: compared(call.function, kind, values[0], values[1]))


def _null_safe(call: Call, writer: FunctionWriter) -> str:
    kind = _kind(kinds_of(call), call)
    left, right = map(writer.value, call.arguments)
    same = compared("EqualTo", kind, left, right)
    return writer.set(f"{left} is {right} if {left} is None or {right} is None else {same}")


def _extreme(call: Call, writer: FunctionWriter) -> str:
    """The greatest or least of the values that are there; of equal ones the first."""
    kind = _kind(kinds_of(call), call)
    further = "GreaterThan" if call.function == "Greatest" else "LessThan"
    values = [writer.value(argument) for argument in call.arguments]
    result = writer.set(values[0])
    for candidate in values[1:]:
        with writer.under(
            f"if {candidate} is not None and ({result} is None or {compared(further, kind, candidate, result)})"
        ):
            writer.line(f"{result} = {candidate}")
    return result


def _and_or(call: Call, writer: FunctionWriter) -> str:
    first, second = call.arguments
    decisive, else_ = ("False", "True") if call.function == "And" else ("True", "False")
    left = writer.value(first)
    result = writer.set(decisive)
    with writer.under(f"if {left} is not {decisive}"):
        right = writer.value(second)
        writer.line(
            f"{result} = {decisive} if {right} is {decisive} else None if {left} is None or {right} is "
            f"None else {else_}"
        )
    return result


def _not(call: Call, writer: FunctionWriter) -> str:
    return writer.where_there(call, lambda values: f"not {values[0]}")


def _is_null(call: Call, writer: FunctionWriter) -> str:
    sign = "is" if call.function == "IsNull" else "is not"
    return writer.set(f"{writer.value(call.arguments[0])} {sign} None")


def _is_nan(call: Call, writer: FunctionWriter) -> str:
    value = writer.value(call.arguments[0])
    return writer.set(f"{value} is not None and {value} != {value}")


def _nanvl(call: Call, writer: FunctionWriter) -> str:
    result = writer.set(writer.value(call.arguments[0]))
    with writer.under(f"if {result} is not None and {result} != {result}"):
        writer.line(f"{result} = {writer.value(call.arguments[1])}")
    return result


def _coalesce(call: Call, writer: FunctionWriter) -> str:
    result = writer.set(writer.value(call.arguments[0]))
    for argument in call.arguments[1:]:
        # what stands behind is not asked where a value is there
        with writer.under(f"if {result} is None"):
            writer.line(f"{result} = {writer.value(argument)}")
    return result


def _case_when(call: Call, writer: FunctionWriter) -> str:
    result = writer.set("None")
    _cases(call.arguments, result, writer)
    return result


def _cases(left: Sequence[Expression], result: str, writer: FunctionWriter) -> None:
    if len(left) < 2:
        for default in left:
            writer.line(f"{result} = {writer.value(default)}")
        return
    condition = writer.value(left[0])
    with writer.under(f"if {condition}"):
        writer.line(f"{result} = {writer.value(left[1])}")
    if len(left) > 2:
        with writer.under("else"):
            _cases(left[2:], result, writer)


def _in(call: Call, writer: FunctionWriter) -> str:
    """Null where the value is not among the others, but one of them is null."""
    kind = _kind(kinds_of(call), call)
    value = writer.value(call.arguments[0])
    result = writer.set("None")
    with writer.under(f"if {value} is not None"):
        writer.line(f"{result} = False")
        for argument in call.arguments[1:]:
            with writer.under(f"if {result} is not True"):
                candidate = writer.value(argument)
                with writer.under(f"if {candidate} is None"):
                    writer.line(f"{result} = None")
                with writer.under(f"elif {compared('EqualTo', kind, value, candidate)}"):
                    writer.line(f"{result} = True")
    return result


def _with(call: Call, writer: FunctionWriter) -> str:
    return writer.value(expanded(call))


def _null_if(call: Call, writer: FunctionWriter) -> str:
    condition, value = map(writer.value, call.arguments)
    return writer.set(f"None if {condition} else {value}")


def _if(call: Call, writer: FunctionWriter) -> str:
    return _case_when(replace(call, function="CaseWhen"), writer)


LOGIC_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(_LOGIC_SIGNS, _compare),
    "EqualNullSafe": _null_safe,
    **dict.fromkeys(("Greatest", "Least"), _extreme),
    **dict.fromkeys(("And", "Or"), _and_or),
    "Not": _not,
    **dict.fromkeys(("IsNull", "IsNotNull"), _is_null),
    "IsNaN": _is_nan,
    "NaNvl": _nanvl,
    "Coalesce": _coalesce,
    "CaseWhen": _case_when,
    "If": _if,
    "In": _in,
    "With": _with,
    "NullIfResult": _null_if,
}


# Arithmetic and casts of numbers, a row at a time, as the kernels of `numbers` and `casts` do of arrays.

_NUMBERS_SIGNS = {"Add": "+", "Subtract": "-", "Multiply": "*", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}
_BY_ZERO = "Division by zero."


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    half = 1 << (kind.bit_width - 1)
    return -half, half - 1


def quotient(dividend: int, divisor: int) -> int:
    """Cut off, as Java does it; Python goes down."""
    down = abs(dividend) // abs(divisor)
    return down if (dividend < 0) == (divisor < 0) else -down


def remainder(dividend: int, divisor: int) -> int:
    """That of `quotient`: it has the sign of what is divided."""
    magnitude = abs(dividend) % abs(divisor)
    return -magnitude if dividend < 0 else magnitude


def float_remainder(dividend: float, divisor: float) -> float:
    """Java's, which knows one of everything."""
    return (
        math.nan
        if math.isinf(dividend) or math.isnan(dividend) or math.isnan(divisor) or divisor == 0
        else math.fmod(dividend, divisor)
    )


def _one_kind(call: Call, *kinds: pa.DataType) -> pa.DataType:
    types = set(kinds_of(call))
    if len(types) != 1 or not types <= set(kinds) or call.type not in types:
        raise NoForm(call.function)
    return types.pop()


def _checked(call: Call, writer: FunctionWriter, exact: str, condition: tuple[str, str]) -> str:
    """An exact integer, where it is one of the call's type; else an error, null, or its lowest bits."""
    least, most = limits(call.type)
    result = writer.set(exact)
    with writer.under(f"if not {least} <= {result} <= {most}"):
        if fails(call):
            writer.fail(*condition)
        elif tries(call):
            writer.line(f"{result} = None")
        else:
            writer.line(f"{result} = ({result} - {least} & {most - least}) + {least}")
    return result


def _arithmetic(call: Call, writer: FunctionWriter) -> str:
    kind = _one_kind(call, *INTEGERS, pa.float64())
    sign = _NUMBERS_SIGNS[call.function]

    def write(arguments: Sequence[str]) -> str:
        exact = f" {sign} ".join(arguments)
        operation = "*" if call.function == "Multiply" else "+"
        return exact if kind == pa.float64() else _checked(call, writer, exact, overflow(kind, operation))

    return writer.where_there(call, write)


def _bits(call: Call, writer: FunctionWriter) -> str:
    _one_kind(call, *INTEGERS)
    return writer.where_there(call, lambda arguments: f" {_NUMBERS_SIGNS[call.function]} ".join(arguments))


def _division(call: Call, writer: FunctionWriter) -> str:
    """Divide, IntegralDivide, Remainder."""
    kinds = {"Divide": (pa.float64(),), "IntegralDivide": (pa.int64(),), "Remainder": (*INTEGERS, pa.float64())}
    kind = _one_kind(call, *kinds[call.function])

    def write(arguments: Sequence[str]) -> str:
        dividend, divisor = arguments
        result = writer.set("None")
        if fails(call):
            with writer.under(f"if {divisor} == 0"):
                condition = "REMAINDER_BY_ZERO" if call.function == "Remainder" else "DIVIDE_BY_ZERO"
                writer.fail(condition, _BY_ZERO)
        with writer.under(f"if {divisor} != 0"):
            if call.function == "Divide":
                writer.line(f"{result} = {dividend} / {divisor}")
            elif call.function == "IntegralDivide":
                exact = f"{writer.held(quotient)}({dividend}, {divisor})"
                over = ("ARITHMETIC_OVERFLOW", "Overflow in integral divide.")
                writer.line(f"{result} = {_checked(call, writer, exact, over)}")
            else:
                function = float_remainder if kind == pa.float64() else remainder
                writer.line(f"{result} = {writer.held(function)}({dividend}, {divisor})")
        return result

    return writer.where_there(call, write)


def _minus(call: Call, writer: FunctionWriter) -> str:
    kind = _one_kind(call, *INTEGERS, pa.float64())

    def write(arguments: Sequence[str]) -> str:
        exact = f"-{arguments[0]}" if call.function == "UnaryMinus" else f"abs({arguments[0]})"
        return exact if kind == pa.float64() else _checked(call, writer, exact, overflow(kind))

    return writer.where_there(call, write)


def _cast(call: Call, writer: FunctionWriter) -> str:
    (of,), to = kinds_of(call), call.type
    if of == to:
        return writer.value(call.arguments[0])
    if of in INTEGERS and to in INTEGERS:
        wider = of.bit_width <= to.bit_width
        return writer.where_there(
            call, lambda values: values[0] if wider else _checked(call, writer, values[0], CAST_OVERFLOW)
        )
    if to == pa.float64() and (of in INTEGERS or of == pa.float32()):
        return writer.where_there(call, lambda values: f"float({values[0]})")
    if pt.is_boolean(of) and (to in INTEGERS or to == pa.float64()):
        ones = ("1", "0") if to in INTEGERS else ("1.0", "0.0")
        return writer.where_there(call, lambda values: f"{ones[0]} if {values[0]} else {ones[1]}")
    if of in INTEGERS and pt.is_string(to):
        return writer.where_there(call, lambda values: f"str({values[0]})")
    raise NoForm(f"Cast of {of} to {to}")


NUMBERS_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply"), _arithmetic),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _bits),
    **dict.fromkeys(("Divide", "IntegralDivide", "Remainder"), _division),
    **dict.fromkeys(("UnaryMinus", "Abs"), _minus),
    "Cast": _cast,
}


# Structs, lists and texts, a row at a time.


def _field(call: Call, writer: FunctionWriter) -> str:
    (of,) = call.arguments
    ordinal = int(call.option("ordinal") or 0)

    def read() -> str:
        struct = writer.value(of)
        return writer.set(f"None if {struct} is None else {struct}[{ordinal}]")

    return writer.once((of.name, ordinal), read) if isinstance(of, Operand) else read()


def _struct(call: Call, writer: FunctionWriter) -> str:
    return writer.set(f"({''.join(writer.value(argument) + ', ' for argument in call.arguments[1::2])})")


def _updated(call: Call, writer: FunctionWriter) -> str:
    """A struct with fields set, put behind the others, or dropped; null where it was."""
    struct = writer.value(call.arguments[0])
    names = [field.name for field in type_of(call.arguments[0])]
    result = writer.set("None")
    with writer.under(f"if {struct} is not None"):
        parts = [
            f"{struct}[{part}]" if isinstance(part, int) else writer.value(part)
            for part in changed(names, call).values()
        ]
        writer.line(f"{result} = ({''.join(part + ', ' for part in parts)})")
    return result


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
    return writer.set(f"({''.join(writer.value(argument) + ', ' for argument in call.arguments)})")


PARTS_FORMS: Mapping[str, Form] = {
    "GetStructField": _field,
    "CreateNamedStruct": _struct,
    "UpdateFields": _updated,
    "Concat": _concat,
    "Length": _length,
    **dict.fromkeys(("Size", "ArraySize"), _size),
    "CreateArray": _list,
}


# The functions of a fold as plain Python, called a record at a time.
#
# Parts of an adder that read the record alone and cannot fail are evaluated before, for all records at once, by the
# kernels: so a function without a form may stand there. Its part with the aggregate is written out.

STEPS_FORMS: Mapping[str, Form] = {**LOGIC_FORMS, **NUMBERS_FORMS, **PARTS_FORMS}


class Precomputed:
    """Parts of an expression that are evaluated for all rows before, and the names that they have in it."""

    def __init__(self, prefix: str, reads: Callable[[set[str]], bool]) -> None:
        self.parts: list[Expression] = []
        self._prefix = prefix
        self._reads = reads

    def holds(self, expression: Expression) -> bool:
        """Whether an expression is such a part."""
        read = set(operands(expression))
        if not read or has_variables(expression):
            return False
        return self._reads(read) and not can_fail(expression) and is_plain(type_of(expression))

    def named(self, part: Expression) -> Operand:
        if part not in self.parts:
            self.parts.append(part)
        return Operand(f"{self._prefix}{self.parts.index(part)}", type_of(part))

    def left_out(self, expression: Expression) -> Expression:
        """The expression with names in place of its largest parts of this kind."""
        if self.holds(expression):
            return self.named(expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(self.left_out, expression.arguments)))
        return expression

    @property
    def names(self) -> list[str]:
        return [f"{self._prefix}{number}" for number in range(len(self.parts))]


def values_of(parts: Sequence[Expression], columns: Mapping[str, pa.Array], count: int) -> list[list[Any]]:
    rows = RowsOfArrays(count, columns.__getitem__)
    return [plain(rows.evaluate(part)) for part in parts]


@dataclass(frozen=True)
class StepFunction:
    """A function of a fold, called a record at a time."""

    # of (key, value, aggregate); value stands for a tuple of what is evaluated before
    function: Callable[[Any, Any, Any], Any]
    before: tuple[Expression, ...]  # of key and value, by the names of `operands`
    operands: tuple[str, ...]  # names of key, value and aggregate

    def values(self, keys: pa.Array, values: pa.Array) -> list[Any]:
        """The arguments of the function for each row; None where the value is null.

        Parameters
        ----------
        keys, values : of each row.
        """
        columns = dict(zip(self.operands, (keys, values), strict=False))
        arguments = values_of(self.before, columns, len(values))
        rows: list[Any] = list(zip(*arguments, strict=True)) if arguments else [()] * len(values)
        if values.null_count:
            # these rows are plain already
            rows = [None if absent else row for absent, row in zip(values.is_null().to_pylist(), rows, strict=True)]
        return rows


def stepped(evaluated: Evaluated) -> StepFunction:
    """An adder or subtractor."""
    aggregate = evaluated.operands[-1]
    precomputed = Precomputed("h", lambda read: aggregate not in read)
    left = precomputed.left_out(evaluated.expression)
    writer = FunctionWriter(STEPS_FORMS, {**{name: name for name in precomputed.names}, aggregate: "aggregate"})
    if precomputed.names:
        writer.line(f"({''.join(name + ', ' for name in precomputed.names)}) = value")
    if set(operands(left)) - {*precomputed.names, aggregate} or not is_plain(type_of(left)):
        raise NoForm("a value of this type")
    result = writer.value(left)
    return StepFunction(
        compiled(("key", "value", "aggregate"), writer, result), tuple(precomputed.parts), evaluated.operands
    )


def of_values(evaluated: Evaluated) -> Callable[[Any, Any, Any], Any]:
    """A merger: all that it gets are plain values."""
    parameters = ("key", "left", "right")
    writer = FunctionWriter(STEPS_FORMS, dict(zip(evaluated.operands, parameters, strict=True)))
    return compiled(parameters, writer, writer.value(evaluated.expression))


# Functions of a fold that choose: they give the aggregate as it is, or something of the record.
#
# So no aggregate is made: a fold goes from number to number of those that there are.


@dataclass(frozen=True)
class Choice:
    """A function that chooses."""

    # of lists: the values of each of `looked`, of each of `before`, whether each candidate is there; and of the
    # numbers that the candidates of the first row have among all aggregates. It gives a function of (row, number of
    # the aggregate), which gives the number of the new one, and -1 for none
    make: Callable[..., Callable[[int, int], int]]
    before: tuple[Expression, ...]  # of key and value: what the choice depends on
    looked: tuple[Expression, ...]  # of the aggregate, likewise
    candidates: tuple[Expression, ...]  # of key and value: what may become the aggregate
    operands: tuple[str, ...]  # names of key, value and aggregate


def choice(evaluated: Evaluated) -> Choice | None:
    """The function as a choice, if it is one."""
    expression, aggregate = evaluated.expression, evaluated.operands[-1]
    if not _is_case(expression) or can_fail(expression):
        return None
    writing = _Writing(aggregate, type_of(expression))
    try:
        writing.branch(expression)
    except NoForm:
        return None
    looked, precomputed, candidates = writing.looked, writing.before, writing.candidates
    outer = FunctionWriter(STEPS_FORMS, {})
    outer.constants |= writing.writer.constants
    outer.line("def step(r, s):")
    outer.lines += [*writing.writer.lines, f"        return {writing.result}"]
    parameters = [*looked.names, *precomputed.names, *(f"is_{name}" for name in candidates.names), *candidates.names]
    make = compiled(parameters, outer, "step", "make")
    return Choice(make, tuple(precomputed.parts), tuple(looked.parts), tuple(candidates.parts), evaluated.operands)


class _Writing:
    """The function while it is written."""

    def __init__(self, aggregate: str, kind: object) -> None:
        self.before = Precomputed("h", lambda read: aggregate not in read)
        self.looked = Precomputed("a", lambda read: read == {aggregate})
        self.candidates = Precomputed("c", lambda read: aggregate not in read)
        self.writer = FunctionWriter(STEPS_FORMS, {}, depth=2)
        self.result = self.writer.set("-1")
        self._aggregate = aggregate
        self._kind = kind

    def branch(self, of: Expression) -> None:
        """Has the number of what a branch gives set."""
        if isinstance(of, Operand) and of.name == self._aggregate:
            self.writer.line(f"{self.result} = s")
        elif isinstance(of, Literal) and not of.value.is_valid:
            self.writer.line(f"{self.result} = -1")
        elif isinstance(of, Call) and _is_case(of):
            self._cases(of.arguments)
        elif type_of(of) == self._kind and self.candidates.holds(of):
            name = self.candidates.named(of).name
            self.writer.line(f"{self.result} = {name} + r if is_{name}[r] else -1")
        else:
            raise NoForm("a value that is made of the aggregate")

    def _cases(self, left: Sequence[Expression]) -> None:
        if len(left) < 2:
            for default in left:
                self.branch(default)
            return
        condition = self.looked.left_out(self.before.left_out(left[0]))
        for name in operands(condition):
            self.writer.operands[name] = f"{name}[{'s' if name in self.looked.names else 'r'}]"
        with self.writer.under(f"if {self.writer.value(condition)}"):
            self.branch(left[1])
        if len(left) > 2:
            with self.writer.under("else"):
                self._cases(left[2:])


def _is_case(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function in ("CaseWhen", "If")
