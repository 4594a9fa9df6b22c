"""Writes an expression as statements of Python, one for each call, with Spark's rules for nulls and errors.

A form writes one function of Spark's: it has the arguments evaluated, and gives the name of its value. `FORMS` has them
by the names of the kernels; a call without a form is evaluated by its kernel alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.modes import can_fail, order_of
from watersmeet._engine.expressions.plain_values import is_plain, plain
from watersmeet._engine.expressions.tree import Call, Expression, Literal, Operand, type_of

INDENT = "    "


class NoForm(Exception):
    """A call that cannot be written here; says which function it is."""


class Form(Protocol):
    """Writes a call: what it gives is the name of its value, or a constant."""

    def __call__(self, call: Call, writer: FunctionWriter) -> str:
        """See `Form`.

        Raises
        ------
        NoForm : not of these types, or with these options.
        """


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
        self._known: list[dict[tuple[str, int], str]] = [{}]

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
        """A new name."""
        self._names += 1
        return f"v{self._names}"

    def line(self, text: str) -> None:
        """A statement."""
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
        self._known.append({})
        yield
        self._known.pop()
        self._depth -= 1

    def once(self, key: tuple[str, int], make: Callable[[], str]) -> str:
        """The parts that have a name here already."""
        for known in reversed(self._known):
            if key in known:
                return known[key]
        self._known[-1][key] = found = make()
        return found

    def fail(self, condition: str, message: str) -> None:
        """An error of this row."""
        self.line(f"raise EvaluationError({condition!r}, {message!r})")

    def where_there(self, call: Call, then: Callable[[Sequence[str]], str]) -> str:
        """What `then` writes of the arguments where they are all there; null elsewhere.

        An argument behind a null one is not evaluated where it could fail: Spark would not either.
        """
        order = order_of(call) or range(len(call.arguments))
        found: dict[int, str] = {}
        name = self.name()
        self.line(f"{name} = None")
        self._nested(
            call, list(order), found, lambda: self.line(f"{name} = {then([found[at] for at in sorted(found)])}")
        )
        return name

    def _nested(self, call: Call, left: list[int], found: dict[int, str], then: Callable[[], None]) -> None:
        if not left:
            then()
            return
        taken = 1
        while taken < len(left) and not can_fail(call.arguments[left[taken]]):
            taken += 1
        new = {at: self.value(call.arguments[at]) for at in left[:taken]}
        found |= new
        asked = dict.fromkeys(text for at, text in new.items() if not isinstance(call.arguments[at], Literal))
        if not asked and all(text != "None" for text in new.values()):
            self._nested(call, left[taken:], found, then)
            return
        missing = ["False"] if "None" in new.values() else []
        with self.under("if " + " and ".join([*missing, *(f"{text} is not None" for text in asked)])):
            self._nested(call, left[taken:], found, then)


def compiled(parameters: Sequence[str], writer: FunctionWriter, result: str, name: str = "step") -> Callable[..., Any]:
    """The function of these parameters, with the written body."""
    source = "\n".join([f"def {name}({', '.join(parameters)}):", *writer.lines, f"{INDENT}return {result}"])
    namespace = dict(writer.constants)
    # the text is made of names, of numbers and of the names of Spark's functions: no text of a user's is in it
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def kinds_of(call: Call) -> list[Any]:
    """Types of the arguments."""
    return [type_of(each) for each in call.arguments]
