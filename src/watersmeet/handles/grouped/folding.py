"""Folds of grouped records as users declare them: by functions, or by name.

Results must go back into state, so Spark cannot evaluate a fold: its functions are Columns that the level can
evaluate, or plain Python functions (`wm.python`). See docs/semantics, section 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import pyarrow as pa

from watersmeet._engine.rows.first_values import is_known, unknown_type
from watersmeet._plan.construction import Construction
from watersmeet._plan.folds import COUNT, CogroupFold, Fold, FunctionFold, NamedFold, Step
from watersmeet._plan.nodes import ArgumentsNode, MapValuesNode, Shape, UserFunction
from watersmeet.aggregates import AnyAggregate, PythonFunction, Use
from watersmeet.errors import FunctionError
from watersmeet.functions import (
    RECORD,
    Function,
    FunctionBackend,
    adapt,
    asks_for_record,
    belonging,
    names_of,
    record_of,
    seeing_record,
    takes,
    types_for,
)
from watersmeet.handles.grouped.named import Roles, arguments_of, asked, check_aggregates, tried
from watersmeet.handles.side import type_text

FoldFunction = Function | PythonFunction
"""A function of Columns, or `wm.python(function)`."""
ADDER = ("key", "value", "aggregate")
REDUCER = ("key", "aggregate", "value")
MERGER = ("key", "one", "other")
BESIDE = ("value", RECORD)
"""The fields of values that have their records beside them."""


@dataclass(frozen=True)
class Group:
    """A grouped input.

    Parameters
    ----------
    construction : the topology under construction.
    inputs : names of the nodes that give what is grouped, under the keys of the groups.
    key, value : types.
    """

    construction: Construction
    inputs: tuple[str, ...]
    key: Any
    value: Any

    @property
    def functions(self) -> FunctionBackend:
        """The backend that finds the types of users' functions."""
        return self.construction.functions


@dataclass(frozen=True)
class Folding:
    """A fold, its functions that are Columns, and the nodes that it reads."""

    fold: Fold
    inputs: tuple[str, ...]
    columns: tuple[UserFunction, ...] = ()


Part = tuple[Group, FoldFunction]
"""A stream that is cogrouped, and its aggregator."""


def counting(group: Group) -> Folding:
    """count()."""
    ((name, aggregate),) = COUNT.fields
    kept, shown = aggregate.types(Use())
    of_arrow = group.functions.of_arrow
    return Folding(Fold(COUNT, aggregate.text, of_arrow(pa.struct([(name, kept)])), of_arrow(shown)), group.inputs)


def reducing(
    group: Group, reducer: FoldFunction, subtractor: FoldFunction | None = None, *, merges: bool = False
) -> Folding:
    """reduce(); with `merges` results are reduced with one another, too.

    Raises
    ------
    FunctionError : the reducer does not give values of the one type, or asks for a record that it does not get.
    """
    kind, first = group.value, None
    if asks_for_record(reducer, REDUCER, "reducer", allowed=subtractor is None):
        if merges:
            raise FunctionError(
                "The reducer of sessions takes a parameter `record`, and sessions that are merged have none.",
                hint="Write aggregate(initializer, aggregator, merger): its aggregator may see the record.",
            )
        group, reducer = beside_record(group, reducer, REDUCER, "reducer")
        first = BESIDE.index("value")
    making = _FoldBeingMade(group, kind)
    add = making.step("reducer" if subtractor is None else "adder", reducer, REDUCER)
    subtract = None if subtractor is None else making.step("subtractor", subtractor, REDUCER)
    merge = making.step("reducer", reducer, MERGER) if merges else None
    return making.folding(FunctionFold(add, subtract, merge, first=first), "reduce")


def aggregating(
    group: Group,
    initializer: Callable[[], Any],
    aggregator: FoldFunction,
    subtractor: FoldFunction | None = None,
    merger: FoldFunction | None = None,
) -> Folding:
    """aggregate().

    Raises
    ------
    FunctionError : the initializer gives null, or the functions do not agree in the aggregate's type.
    """
    if subtractor is None:
        group, aggregator = beside_record(group, aggregator)
    kind, initial = _first(group, initializer, aggregator)
    role = "aggregator" if subtractor is None else "adder"
    making = _FoldBeingMade(group, kind)
    making.settle_type(role, aggregator)
    _check_type(group, making.type)
    making.check_initial(role, kind, initial)
    add = making.step(role, aggregator, ADDER)
    subtract = None if subtractor is None else making.step("subtractor", subtractor, ADDER)
    merge = None if merger is None else making.step("merger", merger, MERGER)
    return making.folding(FunctionFold(add, subtract, merge, starts=True, initial=initial), "aggregate")


def beside_record(
    group: Group, aggregator: FoldFunction, parameters: tuple[str, str, str] = ADDER, role: str = "aggregator"
) -> Part:
    """The records of a fold and its adder; if that asks for the record, this stands beside the value."""
    if not asks_for_record(aggregator, parameters, role, allowed=True):
        return group, aggregator
    functions, construction, kind = group.functions, group.construction, group.functions.record_type()
    own, field = aggregator.function if isinstance(aggregator, PythonFunction) else aggregator, functions.field
    called, place = adapt(own, (*parameters, RECORD), role), parameters.index("value")

    def both(key: Any, value: Any, record: Any) -> Any:
        return functions.record(key, dict(zip(BESIDE, (value, record), strict=True)))

    def split(part: Callable[[Any, str], Any]) -> Callable[..., Any]:
        def of_pair(key: Any, one: Any, other: Any) -> Any:
            given = [key, one, other]
            pair = given[place]
            given[place] = part(pair, "value")
            return called(*given, part(pair, RECORD))

        return of_pair

    beside = seeing_record(both, both, kind, ("key", "value", RECORD))
    shape = Shape("stream", group.key, functions.value_type(beside, (group.key, group.value, kind), role))
    # a null value stays one: an aggregate leaves it out
    name = construction.name(None, "beside_record", *group.inputs)
    node = construction.add(MapValuesNode(name, group.inputs, shape, mapper=beside))
    made: FoldFunction
    if isinstance(aggregator, PythonFunction):
        made = PythonFunction(split(getitem), aggregator.returns)
    else:
        made = belonging(split(field), own, parameters)
    return replace(group, inputs=(node.name,), value=shape.value), made


def cogrouping(parts: Sequence[Part], initializer: Callable[[], Any], merger: FoldFunction | None = None) -> Folding:
    """aggregate() of several streams, each with an aggregator of its own.

    Raises
    ------
    FunctionError : the initializer gives null, or the functions do not agree in the aggregate's type.
    """
    parts = [beside_record(*part) for part in parts]
    first, _ = parts[0]
    kind, initial = _first(first, initializer, *(aggregator for _, aggregator in parts))
    made = [_FoldBeingMade(group, kind) for group, _ in parts]
    for making, (_, aggregator) in zip(made, parts, strict=True):
        making.settle_type("aggregator", aggregator)
    _check_type(first, made[-1].type)
    made = [_FoldBeingMade(group, made[-1].type) for group, _ in parts]
    made[0].check_initial("aggregator", kind, initial)
    adders = tuple(
        making.step("aggregator", aggregator, ADDER, f"aggregator{number or ''}")
        for number, (making, (_, aggregator)) in enumerate(zip(made, parts, strict=True))
    )
    merge = None if merger is None else made[0].step("merger", merger, MERGER)
    # the values of one stream alone come as they are
    alone = FunctionFold(adders[0], merge=merge, starts=True, initial=initial)
    how = alone if len(adders) == 1 else CogroupFold(adders, initial, merge)
    fold = Fold(how, "cogroup", made[0].type, made[0].type)
    inputs = tuple(name for group, _ in parts for name in group.inputs)
    return Folding(fold, inputs, tuple(column for making in made for column in making.columns))


def _first(group: Group, initializer: Callable[[], Any], *aggregators: FoldFunction) -> tuple[Any, Any]:
    """(type, value) of what an initializer gives; plain values are of the type that a plain aggregator says."""
    check_initializer(initializer)
    told = (each.returns for each in aggregators if isinstance(each, PythonFunction) and each.returns is not None)
    kinds = map(group.functions.named_type, told)
    kind, initial = group.functions.initial(initializer, next(kinds, None))
    if initial is None:
        raise FunctionError(
            "The initializer returns null.",
            hint="Return a value, or use reduce(...), which begins with the first value.",
        )
    return kind, initial


def _check_type(group: Group, kind: Any) -> None:
    """Raise where an aggregate's type is known neither by its first value nor by what the aggregator makes of it."""
    if not is_known(group.functions.as_arrow(kind)):
        raise unknown_type(type_text(kind))


def check_initializer(given: Any) -> None:
    """Raise unless it can be called with nothing.

    Raises
    ------
    FunctionError : it is no function, or takes arguments.
    """
    if not callable(given):
        hint = f"Write lambda: {given!r:.80}." if not hasattr(given, "isNull") else "Write lambda: F.lit(0)."
        raise FunctionError(f"The initializer must be a function, not {given!r:.80}.", hint=hint)
    if not takes(given, 0):
        least = len(names_of(given, 1))
        raise FunctionError(
            f"The initializer takes {least} argument{'s' * (least != 1)}, and gets none.", hint="Write lambda: 0."
        )


def naming(
    group: Group,
    aggregates: Mapping[str, AnyAggregate],
    name: str,
    *,
    takes_back: bool = False,
    merges: bool = False,
) -> Folding:
    """agg(): aggregates by name, and users' own; nodes of their own, which are attached, evaluate the arguments.

    Raises
    ------
    FunctionError : one of a user's own raises, or does not give what it declares.
    TopologyError : these are no aggregates, or not of such values, or not for what is grouped.
    """
    check_aggregates(aggregates)
    functions, given = group.functions, (group.key, group.value)
    sees = not takes_back
    arguments = {field: arguments_of(each, field, functions, sees_record=sees) for field, each in aggregates.items()}
    types = {}
    for field, each in aggregates.items():
        found = {
            name: functions.as_arrow(functions.value_type(function, types_for(function, given), role))
            for name, (role, function) in arguments[field].items()
            if function is not None
        }
        use = Use(found, takes_back, merges, lambda kind: functions.as_arrow(functions.named_type(kind)))
        types[field] = each.types(use)
        tried(each.bare(), types[field], takes_back=takes_back, merges=merges)
    how = NamedFold(tuple((field, each.bare()) for field, each in aggregates.items()), takes_back=takes_back)
    state, result = (
        functions.of_arrow(pa.struct([(field, both[which]) for field, both in types.items()])) for which in (0, 1)
    )
    text = " ".join(f"{field}={each.text}" for field, each in aggregates.items())
    return Folding(Fold(how, text, state, result), _argued(group, arguments, name, of_messages=takes_back))


def _argued(group: Group, arguments: Mapping[str, Roles], name: str, *, of_messages: bool) -> tuple[str, ...]:
    """Names of nodes, attached, that give structs of the arguments in place of the values."""
    record = group.functions.record

    def mapper(key: Any, value: Any, *seen: Any) -> Any:
        made = {}
        for field, roles in arguments.items():
            parts = {
                part: None if each is None else asked(each, key, value, *seen) for part, (_, each) in roles.items()
            }
            made[field] = next(iter(parts.values())) if len(parts) == 1 else record(key, parts)
        return record(key, made)

    every = [each for roles in arguments.values() for _, each in roles.values() if each is not None]
    told = next((record_of(each) for each in every if record_of(each) is not None), None)
    if told is not None:
        mapper = seeing_record(mapper, mapper, told, ("key", "value", RECORD))
    kind = group.functions.value_type(mapper, types_for(mapper, (group.key, group.value)), "arguments")
    shape, names = Shape("stream", group.key, kind), []
    for ending, above in zip(("-old", "") if of_messages else ("",), group.inputs, strict=True):
        node = ArgumentsNode(f"{name}-arguments{ending}", (above,), shape, mapper=mapper, of_messages=of_messages)
        names.append(group.construction.add(node).name)
    return tuple(names)


class _FoldBeingMade:
    """A fold of functions while it is made: the aggregate's type, and the functions that are Columns so far."""

    def __init__(self, group: Group, aggregate: Any) -> None:
        self._group = group
        self._functions = group.functions
        self.type = aggregate
        self.columns: list[UserFunction] = []

    def settle_type(self, role: str, function: FoldFunction) -> None:
        """The aggregate's type: the initializer's, or what the aggregator makes of it, if it keeps to that."""
        for _ in range(3):
            found = self._result(role, function, ADDER)
            if found == self.type:
                return
            self.type = found
        raise FunctionError(
            f"The {role} returns another type each time.",
            given=f"{type_text(self.type)} of aggregates of that type",
            hint="Cast its result: the aggregate has one type.",
        )

    def check_initial(self, role: str, kind: Any, initial: Any) -> None:
        """Raise where what a fold begins with is not of the aggregate's type.

        Raises
        ------
        FunctionError : it is not.
        """
        try:
            pa.scalar(initial, self._functions.as_arrow(self.type))
        except (pa.ArrowException, TypeError, ValueError):
            raise FunctionError(
                f"The {role} returns {type_text(self.type)}, and the initializer {type_text(kind)}: {initial!r:.80}.",
                hint="Cast one of them to the other's type: the aggregate has one type.",
            ) from None

    def step(
        self, role: str, function: FoldFunction, parameters: tuple[str, str, str], called: str | None = None
    ) -> Step:
        """A function of the fold, which gives aggregates of the one type; `called`: its role among the node's."""
        found = self._result(role, function, parameters)
        if found != self.type:
            raise FunctionError(
                f"The {role} returns {type_text(found)}, but the aggregate's type is {type_text(self.type)}.",
                hint="Cast its result, or give it the same fields.",
            )
        if isinstance(function, PythonFunction):
            return Step(_in_order(function.function, parameters, role), plain=True)
        ordered = _in_order(function, parameters, role)
        operands = tuple(zip(parameters if parameters is MERGER else ADDER, self._types(parameters), strict=True))
        self.columns.append(UserFunction(called or role, ordered, operands))
        return Step(self._functions.compiled(ordered, self._types(parameters), role), plain=False)

    def folding(self, how: FunctionFold, text: str) -> Folding:
        """The fold."""
        return Folding(Fold(how, text, self.type, self.type), self._group.inputs, tuple(self.columns))

    def _result(self, role: str, function: FoldFunction, parameters: tuple[str, str, str]) -> Any:
        if isinstance(function, PythonFunction):
            _in_order(function.function, parameters, role)
            return self.type if function.returns is None else self._functions.named_type(function.returns)
        ordered = _in_order(function, parameters, role)
        return self._functions.value_type(ordered, self._types(parameters), role)

    def _types(self, parameters: tuple[str, str, str]) -> tuple[Any, Any, Any]:
        second = self.type if parameters is MERGER else self._group.value
        return self._group.key, second, self.type


def _in_order(function: Function, parameters: tuple[str, str, str], role: str) -> Function:
    """The function as one of (key, value, aggregate), or (key, one, other), whatever the order of its parameters."""
    adapted = adapt(function, parameters, role)
    if parameters is not REDUCER:
        return adapted
    key, aggregate, value = names_of(adapted, len(parameters))
    ordered = lambda key, value, aggregate: adapted(key, aggregate, value)  # noqa: E731
    return belonging(ordered, function, (key, value, aggregate))
