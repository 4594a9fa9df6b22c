"""Programs without unneeded parts: of some columns only a field is read, or whether they are null.

A filter of a table that knows old values asks of the old result only whether it passed. So its value is never made, and
of the values that it would have been made of only what the filter looks at is read. Law 4: what is left gives the same
values; what may fail is left as it is, since where it is evaluated decides whether it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa

from watersmeet._engine.expressions.modes import can_fail
from watersmeet._engine.expressions.program import Columns, needed, operands
from watersmeet._engine.expressions.tree import Call, Expression, Literal, Operand, type_of

Fields = Mapping[str, tuple[int, ...]]
"""Of struct columns, the numbers of the fields that are read; all of a column that is not named."""
_LOOKS = ("GetStructField", "IsNotNull", "IsNull")


@cache
def _constant(holds: bool) -> Literal:
    """True or False. pyarrow imports pandas for its first scalar, so neither is made with the module."""
    return Literal(pa.scalar(holds))


def reduced(layers: Sequence[Columns], outputs: Sequence[str]) -> tuple[Columns, ...]:
    """Layers that make the same outputs.

    Parameters
    ----------
    layers : as a `Program` has them.
    outputs : names of the columns that are wanted of it.
    """
    made = {name: expression for layer in layers for name, expression in layer}
    if sum(map(len, layers)) > len(made) or made.keys() & _given(layers):
        # a name that stands for two columns
        return tuple(layers)
    kept = {name for name, expression in made.items() if can_fail(expression)}
    # an error stays one, also of a column that nothing is left of
    before = {name for layer in needed(layers, outputs) for name, _ in layer}
    outputs = [*outputs, *sorted(kept & before)]
    while True:  # a turn more for each column whose value is wanted all the same
        looking = _Looking({name: expression for name, expression in made.items() if name not in kept})
        found = tuple(tuple((name, looking.through(e)) for name, e in layer) for layer in layers)
        left = needed(found, outputs)
        wanted = {name for layer in left for _, e in layer for name in operands(e)}.union(outputs)
        if not wanted.intersection(looking.made):
            return left
        kept |= wanted


def fields_read(layers: Sequence[Columns], outputs: Sequence[str], structs: Sequence[str]) -> Fields:
    """Which fields the layers read of struct columns that they are given.

    Parameters
    ----------
    layers : as a `Program` has them.
    outputs : names of the columns that are wanted of it: of these all is.
    structs : names of the struct columns.
    """
    fields: dict[str, set[int]] = {name: set() for name in structs if name not in outputs}
    for call, operand in (look for layer in layers for _, expression in layer for look in _looks(expression)):
        if call is None:
            fields.pop(operand.name, None)
        elif operand.name in fields and call.function == "GetStructField":
            fields[operand.name].add(_ordinal(call))
    return {name: tuple(sorted(read)) for name, read in fields.items()}


def _given(layers: Sequence[Columns]) -> set[str]:
    """Names of the columns that layers read and none before them makes."""
    given: set[str] = set()
    made: set[str] = set()
    for layer in layers:
        given |= {name for _, expression in layer for name in operands(expression)} - made
        made |= {name for name, _ in layer}
    return given


def _looks(expression: Expression) -> Iterator[tuple[Call | None, Operand]]:
    """The operands of an expression, each with the call that only looks at it, if that is all that is done with it."""
    if isinstance(expression, Operand):
        yield None, expression
    elif isinstance(expression, Call):
        (first, *others) = expression.arguments or (_constant(True),)
        if expression.function in _LOOKS and isinstance(first, Operand) and not others:
            yield expression, first
        else:
            for each in expression.arguments:
                yield from _looks(each)


def _ordinal(call: Call) -> int:
    return int(call.option("ordinal") or 0)


class _Looking:
    """Puts what a column is made of in place of a look at it.

    Parameters
    ----------
    made : the columns that can be looked through.
    """

    def __init__(self, made: Mapping[str, Expression]) -> None:
        self.made = made

    def through(self, expression: Expression) -> Expression:
        """The expression, all looks seen through as far as they can be."""
        if not isinstance(expression, Call):
            return expression
        if expression.function in _LOOKS:
            (looked_at,) = expression.arguments
            if isinstance(looked_at, Operand) and looked_at.name in self.made:
                return self._known_result(expression, looked_at) or expression
        return replace(expression, arguments=tuple(map(self.through, expression.arguments)))

    def _known_result(self, call: Call, of: Expression) -> Expression | None:
        """The result of the call for a value; None if it must be computed."""
        if isinstance(of, Operand):
            there = self.made.get(of.name)
            return replace(call, arguments=(of,)) if there is None else self._known_result(call, there)
        if isinstance(of, Call) and of.function == "CaseWhen" and len(of.arguments) == 2:
            condition, value = of.arguments
            inner = self._known_result(call, value)
            return None if inner is None else self._where(call, self.through(condition), inner)
        if isinstance(of, Call) and of.function == "CreateNamedStruct":
            if call.function != "GetStructField":
                return _constant(call.function == "IsNotNull")
            part = self.through(of.arguments[2 * _ordinal(call) + 1])
            return part if type_of(part) == call.type else None
        return None

    def _where(self, call: Call, condition: Expression, inner: Expression) -> Expression:
        """A call that has a value where the condition is true, and `inner` as its value there."""
        if call.function == "GetStructField":
            return Call("CaseWhen", (condition, inner), call.type)
        holds = Call("Coalesce", (condition, _constant(False)), pa.bool_())
        if call.function == "IsNotNull":
            return Call("And", (holds, inner), pa.bool_())
        return Call("Or", (Call("Not", (holds,), pa.bool_()), inner), pa.bool_())
