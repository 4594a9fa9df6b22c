"""Functions of a fold that choose: they give the aggregate as it is, or something of the record.

So no aggregate is made: a fold goes from number to number of those that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet._engine.expressions.evaluated import Evaluated
from watersmeet._engine.expressions.modes import can_fail
from watersmeet._engine.expressions.program import operands
from watersmeet._engine.expressions.scalars.steps import FORMS, Before
from watersmeet._engine.expressions.scalars.writer import FunctionWriter, NoForm, compiled
from watersmeet._engine.expressions.tree import Call, Expression, Literal, Operand, type_of


@dataclass(frozen=True)
class Choice:
    """A function that chooses.

    Parameters
    ----------
    make : of lists: the values of each of `looked`, of each of `before`, whether each candidate is there; and of the
        numbers that the candidates of the first row have among all aggregates. It gives a function of (row, number of
        the aggregate), which gives the number of the new one, and -1 for none.
    before : of key and value: what the choice depends on.
    looked : of the aggregate, likewise.
    candidates : of key and value: what may become the aggregate.
    operands : names of key, value and aggregate.
    """

    make: Callable[..., Callable[[int, int], int]]
    before: tuple[Expression, ...]
    looked: tuple[Expression, ...]
    candidates: tuple[Expression, ...]
    operands: tuple[str, ...]


def choice(evaluated: Evaluated) -> Choice | None:
    """The function as a choice, if it is one."""
    whole, aggregate = evaluated.expression, evaluated.operands[-1]
    if not _is_case(whole) or can_fail(whole):
        return None
    writing = _Writing(aggregate, type_of(whole))
    try:
        writing.branch(whole)
    except NoForm:
        return None
    looked, before, candidates = writing.looked, writing.before, writing.candidates
    outer = FunctionWriter(FORMS, {})
    outer.constants |= writing.writer.constants
    outer.line("def step(r, s):")
    outer.lines += [*writing.writer.lines, f"        return {writing.result}"]
    given = [*looked.names, *before.names, *(f"is_{name}" for name in candidates.names), *candidates.names]
    make = compiled(given, outer, "step", "make")
    return Choice(make, tuple(before.parts), tuple(looked.parts), tuple(candidates.parts), evaluated.operands)


class _Writing:
    """The function while it is written."""

    def __init__(self, aggregate: str, kind: object) -> None:
        self.before = Before("h", lambda read: aggregate not in read)
        self.looked = Before("a", lambda read: read == {aggregate})
        self.candidates = Before("c", lambda read: aggregate not in read)
        self.writer = FunctionWriter(FORMS, {}, depth=2)
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
            for each in left:
                self.branch(each)
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
