"""Folds of grouped records as users declare them: by functions, or by name.

Results must go back into state, so Spark cannot evaluate a fold: its functions are Columns that the level can
evaluate, or plain Python functions (`wm.python`). See docs/semantics/table_aggregate.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from watersmeet._engine.aggregates.kernel import KernelTypes
from watersmeet._engine.aggregates.registry import part_of
from watersmeet._engine.rows import is_known, unknown_type
from watersmeet._plan.construction import Construction
from watersmeet._plan.folds import COUNT, PRESENCE, CogroupFold, Fold, FunctionFold, NamedFold, Step
from watersmeet._plan.nodes import MapValuesNode, Node, Shape, UserFunction, type_text
from watersmeet._plan.operators.aggregates import WITH_HISTORY, AggregatedNode, ArgumentsNode, TableAggregateNode
from watersmeet.aggregates import AGGREGATES
from watersmeet.aggregates.declaration import AnyAggregate, Types, Use
from watersmeet.aggregates.user_defined import PythonFunction
from watersmeet.api import handle
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.functions import (
    RECORD,
    Function,
    FunctionBackend,
    adapt,
    asks_for_record,
    belonging,
    bound_now,
    names_of,
    record_of,
    seeing_record,
    takes,
    types_for,
)
from watersmeet.hints import NoValue, answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from watersmeet.api.tables import KTable


# Arguments of `agg`: aggregates by name and users' own, checked on the user's own line.

Roles = Mapping[str, tuple[str, Function | None]]
"""The arguments of an aggregate, by name: what errors call each, and its function; None: true for each record."""
_CALLED: dict[Any, type[AnyAggregate]] = {aggregate.name: aggregate for aggregate in reversed(AGGREGATES.values())}
"""The aggregates by name, by what the functions are called that make them."""


def check_aggregates(aggregates: Mapping[str, AnyAggregate]) -> None:
    """Raise unless there are some, and all are aggregates."""
    if not aggregates:
        raise TopologyError(
            "There is nothing to aggregate: agg needs aggregates by name.",
            hint="For example agg(n=wm.count(), total=wm.sum(lambda value: value['field'])).",
        )
    candidates: Mapping[str, Any] = aggregates
    for field, candidate in candidates.items():
        if not field or not field.isprintable():
            raise TopologyError(
                f"An aggregate cannot be named {field!r:.80}.", hint="For example agg(n=wm.count()): it names a field."
            )
        if isinstance(candidate, AnyAggregate):
            continue
        if isinstance(candidate, type) and issubclass(candidate, AnyAggregate):
            raise TopologyError(
                f"The value of {field!r} must be an aggregate, not the class {candidate.__name__}.",
                hint=f"For example {field}={candidate.__name__}(lambda value: value['field']).",
            )
        name = getattr(candidate, "__name__", "")
        text = f"wm.{name}, a function" if name in _CALLED else repr(candidate)
        raise TopologyError(
            f"The value of {field!r} must be an aggregate, not {text:.120}.",
            hint=f"For example {field}={_meant(candidate, name)}; functions fold with aggregate(...).",
        )


def _meant(value: Any, name: str) -> str:
    """The aggregate that was meant, if that is known."""
    if name in _CALLED:
        return _CALLED[name].example()
    # a Column such as sum(amount), or a pair of a field and a name, as pandas has it
    words = re.findall(r"[A-Za-z_]\w*", str(value).removeprefix("Column<")) if not callable(value) else []
    aggregate_name = next((word for word in words if word in _CALLED), "sum")
    field = next((word for word in words if word not in _CALLED), "field")
    return _CALLED[aggregate_name].example(f"value[{field!r}]")


def arguments_of(aggregate: AnyAggregate, field: str, functions: FunctionBackend, *, sees_record: bool) -> Roles:
    """Its arguments as functions of (key, value), and, where they may see it and ask for it, the record."""
    arguments = aggregate.arguments
    roles = {name: f"argument {field!r}" if len(arguments) == 1 else f"{name} of {field!r}" for name in arguments}
    return {
        name: (
            roles[name],
            None if function is None else _adapted(function, roles[name], functions, sees_record=sees_record),
        )
        for name, function in arguments.items()
    }


def _adapted(function: Any, role: str, functions: FunctionBackend, *, sees_record: bool) -> Function:
    return adapt(function, ("key", "value"), role, functions, sees_record=sees_record)


def apply_function(function: Function, key: Any, value: Any, *record: Any) -> Any:
    """The result of a function of key and value; it gets the record, too, if it sees it."""
    return function(key, value) if record_of(function) is None else function(key, value, *record)


def tried(aggregate: AnyAggregate, types: Types, *, takes_back: bool, merges: bool) -> None:
    """Make what is shown of no records, so that what fails then fails where it is written.

    Raises
    ------
    FunctionError : a function of the user's own raises, or does not give what it declares.
    """
    part = part_of(aggregate, KernelTypes(*types, takes_back=takes_back))
    none = part.init(1)
    part.finish(part.merge(none, part.init(1)) if merges else none)


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


def counting(group: Group, definition: NamedFold = COUNT) -> Folding:
    """count()."""
    ((name, aggregate),) = definition.fields
    state_type, result_type = aggregate.types(Use())
    of_arrow = group.functions.of_arrow
    return Folding(
        Fold(definition, aggregate.text, of_arrow(pa.struct([(name, state_type)])), of_arrow(result_type)), group.inputs
    )


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
    function, field = aggregator.function if isinstance(aggregator, PythonFunction) else aggregator, functions.field
    adapted, place = adapt(function, (*parameters, RECORD), role), parameters.index("value")

    def with_record(key: Any, value: Any, record: Any) -> Any:
        return functions.record(key, dict(zip(BESIDE, (value, record), strict=True)))

    def split(part: Callable[[Any, str], Any]) -> Callable[..., Any]:
        def of_pair(key: Any, first: Any, second: Any) -> Any:
            arguments = [key, first, second]
            pair = arguments[place]
            arguments[place] = part(pair, "value")
            return adapted(*arguments, part(pair, RECORD))

        return of_pair

    beside = seeing_record(with_record, with_record, kind, ("key", "value", RECORD))
    shape = Shape("stream", group.key, functions.value_type(beside, (group.key, group.value, kind), role))
    # a null value stays one: an aggregate leaves it out
    name = construction.name(None, "beside_record", *group.inputs)
    node = construction.add(MapValuesNode(name, group.inputs, shape, mapper=beside, part_of=group.inputs[-1]))
    adder: FoldFunction
    if isinstance(aggregator, PythonFunction):
        adder = PythonFunction(split(getitem), aggregator.returns)
    else:
        adder = belonging(split(field), function, parameters)
    return replace(group, inputs=(node.name,), value=shape.value), adder


def cogrouping(parts: Sequence[Part], initializer: Callable[[], Any], merger: FoldFunction | None = None) -> Folding:
    """aggregate() of several streams, each with an aggregator of its own.

    Raises
    ------
    FunctionError : the initializer gives null, or the functions do not agree in the aggregate's type.
    """
    parts = [beside_record(*part) for part in parts]
    first, _ = parts[0]
    kind, initial = _first(first, initializer, *(aggregator for _, aggregator in parts))
    builders = [_FoldBeingMade(group, kind) for group, _ in parts]
    for making, (_, aggregator) in zip(builders, parts, strict=True):
        making.settle_type("aggregator", aggregator)
    _check_type(first, builders[-1].type)
    builders = [_FoldBeingMade(group, builders[-1].type) for group, _ in parts]
    builders[0].check_initial("aggregator", kind, initial)
    adders = tuple(
        making.step("aggregator", aggregator, ADDER, f"aggregator{number or ''}")
        for number, (making, (_, aggregator)) in enumerate(zip(builders, parts, strict=True))
    )
    merge = None if merger is None else builders[0].step("merger", merger, MERGER)
    # the values of one stream alone come as they are
    single = FunctionFold(adders[0], merge=merge, starts=True, initial=initial)
    definition = single if len(adders) == 1 else CogroupFold(adders, initial, merge)
    fold = Fold(definition, "cogroup", builders[0].type, builders[0].type)
    inputs = tuple(name for group, _ in parts for name in group.inputs)
    return Folding(fold, inputs, tuple(column for making in builders for column in making.columns))


def _first(group: Group, initializer: Callable[[], Any], *aggregators: FoldFunction) -> tuple[Any, Any]:
    """(type, value) of what an initializer gives; plain values are of the type that a plain aggregator says."""
    check_initializer(initializer)
    declared = (
        aggregator.returns
        for aggregator in aggregators
        if isinstance(aggregator, PythonFunction) and aggregator.returns is not None
    )
    kinds = map(group.functions.named_type, declared)
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


def check_initializer(initializer: Any) -> None:
    """Raise unless it can be called with nothing.

    Raises
    ------
    FunctionError : it is no function, or takes arguments.
    """
    if not callable(initializer):
        hint = (
            f"Write lambda: {initializer!r:.80}." if not hasattr(initializer, "isNull") else "Write lambda: F.lit(0)."
        )
        raise FunctionError(f"The initializer must be a function, not {initializer!r:.80}.", hint=hint)
    if not takes(initializer, 0):
        least = len(names_of(initializer, 1))
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
    rows: str | None = None,
) -> Folding:
    """agg(): aggregates by name, and users' own; nodes of their own, which are attached, evaluate the arguments.

    Parameters
    ----------
    rows : the field that counts the rows of a group, which is deleted with its last one.

    Raises
    ------
    FunctionError : one of a user's own raises, or does not give what it declares.
    TopologyError : these are no aggregates, or not of such values, or not for what is grouped.
    """
    check_aggregates(aggregates)
    functions, input_types = group.functions, (group.key, group.value)
    sees = not takes_back
    arguments = {
        field: arguments_of(aggregate, field, functions, sees_record=sees) for field, aggregate in aggregates.items()
    }
    types = {}
    for field, aggregate in aggregates.items():
        argument_types = {
            name: functions.as_arrow(functions.value_type(function, types_for(function, input_types), role))
            for name, (role, function) in arguments[field].items()
            if function is not None
        }
        use = Use(argument_types, takes_back, merges, lambda kind: functions.as_arrow(functions.named_type(kind)))
        types[field] = aggregate.types(use)
        tried(aggregate.bare(), types[field], takes_back=takes_back, merges=merges)
    definition = NamedFold(
        tuple((field, aggregate.bare()) for field, aggregate in aggregates.items()), takes_back=takes_back, rows=rows
    )
    state, result = (
        functions.of_arrow(pa.struct([(field, pair[position]) for field, pair in types.items()])) for position in (0, 1)
    )
    text = " ".join(f"{field}={aggregate.text}" for field, aggregate in aggregates.items())
    return Folding(Fold(definition, text, state, result), _argued(group, arguments, name, of_messages=takes_back))


def _argued(group: Group, arguments: Mapping[str, Roles], name: str, *, of_messages: bool) -> tuple[str, ...]:
    """Names of nodes, attached, that give structs of the arguments in place of the values."""
    record = group.functions.record

    def mapper(key: Any, value: Any, *extra: Any) -> Any:
        results = {}
        for field, roles in arguments.items():
            parts = {
                part: None if function is None else apply_function(function, key, value, *extra)
                for part, (_, function) in roles.items()
            }
            results[field] = next(iter(parts.values())) if len(parts) == 1 else record(key, parts)
        return record(key, results)

    every = [function for roles in arguments.values() for _, function in roles.values() if function is not None]
    record_type = next((record_of(function) for function in every if record_of(function) is not None), None)
    if record_type is not None:
        mapper = seeing_record(mapper, mapper, record_type, ("key", "value", RECORD))
    kind = group.functions.value_type(mapper, types_for(mapper, (group.key, group.value)), "arguments")
    shape, names = Shape("stream", group.key, kind), []
    for ending, above in zip(("-old", "") if of_messages else ("",), group.inputs, strict=True):
        label = f"{name}-arguments{ending}"
        node = ArgumentsNode(label, (above,), shape, mapper=mapper, of_messages=of_messages, part_of=name)
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
            kind = self._result(role, function, ADDER)
            if kind == self.type:
                return
            fields = [getattr(side, "names", []) for side in (self.type, kind)]
            if all(fields) and fields[0] != fields[1]:
                raise FunctionError(
                    f"The {role} returns {type_text(kind)}, and the initializer {type_text(self.type)}.",
                    hint="Give both the same fields in the same order: the aggregate has one type.",
                )
            self.type = kind
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
        self, role: str, function: FoldFunction, parameters: tuple[str, str, str], node_role: str | None = None
    ) -> Step:
        """A function of the fold, which gives aggregates of the one type; `node_role`: its role among the node's."""
        kind = self._result(role, function, parameters)
        if kind != self.type:
            raise FunctionError(
                f"The {role} returns {type_text(kind)}, but the aggregate's type is {type_text(self.type)}.",
                hint="Cast its result, or give it the same fields.",
            )
        if isinstance(function, PythonFunction):
            return Step(_in_order(function.function, parameters, role), plain=True)
        ordered = _in_order(function, parameters, role)
        operands = tuple(zip(parameters if parameters is MERGER else ADDER, self._types(parameters), strict=True))
        self.columns.append(UserFunction(node_role or role, ordered, operands))
        return Step(self._functions.compiled(ordered, self._types(parameters), role), plain=False)

    def folding(self, definition: FunctionFold, text: str) -> Folding:
        """The fold."""
        return Folding(Fold(definition, text, self.type, self.type), self._group.inputs, tuple(self.columns))

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
    adapted = adapt(bound_now(function), parameters, role)
    if parameters is not REDUCER:
        return adapted
    key, aggregate, value = names_of(adapted, len(parameters))
    ordered = lambda key, value, aggregate: adapted(key, aggregate, value)  # noqa: E731
    return belonging(ordered, function, (key, value, aggregate))


# Grouped: what all grouped streams and tables share.


class AggregateOptions(handle.StoreOptions, total=False):
    """Names of an aggregate and of its table, and for how long that remembers its past."""

    history: Duration | None


@answering
class Grouped(NoValue):
    """Base of grouped handles: their input, and how tables are made of it."""

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def key_type(self) -> Any:
        """Type of the groups' keys.

        Examples
        --------
        >>> orders.group_by_key().key_type
        LongType()
        """
        return self._group.key

    @property
    def value_type(self) -> Any:
        """Type of what is grouped.

        Examples
        --------
        >>> payments.group_by_key().value_type
        DoubleType()
        """
        return self._group.value

    def __repr__(self) -> str:
        types = f"key={type_text(self._group.key)}, value={type_text(self._group.value)}"
        return f"{type(self).__name__}({self._group.inputs[-1]!r}, {types})"

    def _result_key(self) -> Any:
        return self._group.key

    def _add(
        self,
        make: Callable[..., AggregatedNode],
        folding: Folding,
        stem: str,
        **options: Unpack[AggregateOptions],
    ) -> KTable:
        """The table of the aggregates, attached."""
        return handle.table(self._group.construction, self._node(make, folding, stem, **options))

    def _node(
        self,
        make: Callable[..., AggregatedNode],
        folding: Folding,
        stem: str,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
    ) -> Node:
        """Its node, attached."""
        history_ms = self._group.construction.history_ms(history)
        node = (make if history_ms is None else WITH_HISTORY.get(make, make))(
            self._group.construction.name(name, stem, *self._group.inputs[-1:]),
            folding.inputs,
            Shape("table", self._result_key(), folding.fold.result),
            fold=folding.fold,
            columns=folding.columns,
            store=store,
            history_ms=history_ms,
        )
        return self._group.construction.add(node)


def counted_groups(grouped: Grouped, name: str) -> KTable:
    """How many rows each group of a table has; a group is deleted with its last one."""
    return grouped._add(TableAggregateNode, counting(grouped._group, PRESENCE), "count", name=name)


def named_groups(grouped: Grouped, rows: str, aggregates: Mapping[str, AnyAggregate]) -> KTable:
    """Aggregates by name of each group of a table. A group with 0 in the field `rows` is deleted."""
    name = grouped._group.construction.name(None, "agg", *grouped._group.inputs[-1:])
    folding = naming(grouped._group, aggregates, name, takes_back=True, rows=rows)
    return grouped._add(TableAggregateNode, folding, "agg", name=name)


def group_of(value: Any) -> Group | None:
    """The group of a handle; None: the argument is not a grouped handle."""
    return value._group if isinstance(value, Grouped) else None
