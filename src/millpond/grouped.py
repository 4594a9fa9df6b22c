"""KGroupedStream, KGroupedTable: records or rows by key, on the way to a table of aggregates.

Handle layer. `KStream.group_by_key`, `KStream.group_by` and `KTable.group_by` make them; their aggregates give tables.
Results must go back into state, so Spark cannot evaluate a fold: its functions are Columns that the level can
evaluate, or plain Python functions (`mp.python`). See docs/semantics, section 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millpond._engine.aggregates.parts import types_of
from millpond._plan.construction import Construction
from millpond._plan.folds import COUNT, Fold, FunctionFold, Step
from millpond._plan.nodes import Aggregated, Regroup, SelectKey, Shape, StreamAggregate, TableAggregate, UserFunction
from millpond.aggregates import PythonFunction
from millpond.errors import FunctionError
from millpond.functions import Function, adapt
from millpond.handle import Handle, type_text
from millpond.names import missing, public
from millpond.windows import Windows

if TYPE_CHECKING:
    from millpond.ktable import KTable
    from millpond.windowed import WindowedStream

FoldFunction = Function | PythonFunction
"""A function of Columns, or `mp.python(function)`."""
ADDER = ("key", "value", "aggregate")
REDUCER = ("key", "aggregate", "value")
MERGER = ("key", "one", "other")


class Grouped:
    """What is grouped, and how folds of it are made.

    Parameters
    ----------
    construction : the topology under construction.
    inputs : names of the nodes that give what is grouped, under the keys of the groups.
    key, value : types.
    """

    def __init__(self, construction: Construction, inputs: tuple[str, ...], key: Any, value: Any) -> None:
        self._construction = construction
        self._inputs = inputs
        self._key = key
        self._value = value

    @property
    def key_type(self) -> Any:
        """Type of the groups' keys."""
        return self._key

    @property
    def value_type(self) -> Any:
        """Type of what is grouped."""
        return self._value

    def __repr__(self) -> str:
        types = f"key={type_text(self._key)}, value={type_text(self._value)}"
        return f"{type(self).__name__}({self._inputs[-1]!r}, {types})"

    if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

        def __getattr__(self, name: str) -> Any:
            raise missing(type(self).__name__, public(type(self)), name)

    def _result_key(self) -> Any:
        """Type of the keys of results."""
        return self._key

    # -- folds -----------------------------------------------------------------------------------------------

    def _count(self) -> Folding:
        functions = self._construction.functions
        kept, shown = types_of("count", None, takes_back=False)
        return Folding(
            Fold(COUNT, "count", functions.of_arrow(pa.struct([("count", kept)])), functions.of_arrow(shown))
        )

    def _reduce(
        self, reducer: FoldFunction, subtractor: FoldFunction | None = None, *, merges: bool = False
    ) -> Folding:
        making = _Making(self._construction, self._key, self._value, self._value)
        add = making.step("reducer" if subtractor is None else "adder", reducer, REDUCER)
        subtract = None if subtractor is None else making.step("subtractor", subtractor, REDUCER)
        merge = making.step("reducer", reducer, MERGER) if merges else None
        return making.folding(FunctionFold(add, subtract, merge), "reduce")

    def _aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        subtractor: FoldFunction | None = None,
        merger: FoldFunction | None = None,
    ) -> Folding:
        functions = self._construction.functions
        kind, initial = functions.initial(initializer)
        role = "aggregator" if subtractor is None else "adder"
        making = _Making(self._construction, self._key, self._value, kind)
        making.settle_type(role, aggregator)
        add = making.step(role, aggregator, ADDER)
        subtract = None if subtractor is None else making.step("subtractor", subtractor, ADDER)
        merge = None if merger is None else making.step("merger", merger, MERGER)
        how = FunctionFold(add, subtract, merge, starts=initial is not None, initial=initial)
        if initial is None:
            raise FunctionError(
                "The initializer gives null.", hint="A fold that begins with the first value is reduce."
            )
        return making.folding(how, "aggregate")

    def _add(
        self, make: Callable[..., Aggregated], folding: Folding, name: str | None, stem: str, store: str | None
    ) -> KTable:
        """The table of the aggregates, attached."""
        from millpond.ktable import KTable

        node = make(
            self._construction.name(name, stem),
            self._inputs,
            Shape("table", self._result_key(), folding.fold.result),
            fold=folding.fold,
            columns=folding.columns,
            store=store,
        )
        return KTable(self._construction, self._construction.add(node))


class Folding:
    """A fold, and its functions that are Columns."""

    def __init__(self, fold: Fold, columns: tuple[UserFunction, ...] = ()) -> None:
        self.fold = fold
        self.columns = columns


class _Making:
    """A fold of functions while it is made: the aggregate's type, and the steps so far."""

    def __init__(self, construction: Construction, key: Any, value: Any, aggregate: Any) -> None:
        self._functions = construction.functions
        self._key, self._value, self._type = key, value, aggregate
        self._columns: list[UserFunction] = []

    def settle_type(self, role: str, function: FoldFunction) -> None:
        """The aggregate's type: the initializer's, or what the aggregator makes of it, if it keeps to that."""
        for _ in range(3):
            found = self._result(role, function, ADDER)
            if found == self._type:
                return
            self._type = found
        raise FunctionError(
            f"The {role} gives another type each time.",
            given=f"{type_text(self._type)} of aggregates of that type",
            hint="Cast its result: the aggregate has one type.",
        )

    def step(self, role: str, function: FoldFunction, parameters: tuple[str, str, str]) -> Step:
        """A function of the fold, which gives aggregates of the one type."""
        found = self._result(role, function, parameters)
        if found != self._type:
            raise FunctionError(
                f"The {role} gives another type than the aggregate has.",
                given=f"{type_text(found)}, not {type_text(self._type)}",
                hint="Cast its result.",
            )
        if isinstance(function, PythonFunction):
            return Step(_in_order(function.function, parameters, role), plain=True)
        ordered = _in_order(function, parameters, role)
        operands = tuple(zip(parameters if parameters is MERGER else ADDER, self._types(parameters), strict=True))
        self._columns.append(UserFunction(role, ordered, operands))
        return Step(self._functions.compiled(ordered, self._types(parameters), role), plain=False)

    def folding(self, how: FunctionFold, text: str) -> Folding:
        """The fold."""
        return Folding(Fold(how, text, self._type, self._type), tuple(self._columns))

    def _result(self, role: str, function: FoldFunction, parameters: tuple[str, str, str]) -> Any:
        if isinstance(function, PythonFunction):
            _in_order(function.function, parameters, role)
            return self._type if function.returns is None else self._functions.named_type(function.returns)
        ordered = _in_order(function, parameters, role)
        return self._functions.value_type(ordered, self._types(parameters), role)

    def _types(self, parameters: tuple[str, str, str]) -> tuple[Any, Any, Any]:
        second = self._type if parameters is MERGER else self._value
        return self._key, second, self._type


def _in_order(function: Function, parameters: tuple[str, str, str], role: str) -> Function:
    """The function as one of (key, value, aggregate), or (key, one, other), whatever the order of its parameters."""
    adapted = adapt(function, parameters, role)
    if parameters is not REDUCER:
        return adapted
    return lambda key, value, aggregate: adapted(key, aggregate, value)


class StreamGrouping(Handle):
    """The grouping of a stream: part of `KStream`."""

    def group_by_key(self) -> KGroupedStream:
        """The records by their key."""
        return KGroupedStream(self._construction, (self.name,), *self._types())

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedStream:
        """The records by another key: a Column function of (value) or (key, value); null: left out, counted."""
        selector = adapt(selector, ("key", "value"), "key selector")
        key = self._construction.functions.value_type(selector, self._types(), "key selector")
        name = self._construction.name(name, "group_by")
        shape = Shape("stream", key, self.value_type)
        node = self._attach(SelectKey(name, (self.name,), shape, selector=selector))
        return KGroupedStream(self._construction, (node.name,), key, self.value_type)


def regrouped(table: Handle, selector: Function, name: str | None) -> KGroupedTable:
    """A table by group; `selector` gives pairs of a group and what is grouped."""
    construction = table._construction
    selector = adapt(selector, ("key", "value"), "group selector")
    key, value = construction.functions.pair_type(selector, table._types(), "group selector")
    name = construction.name(name, Regroup.stem)
    shape, above = Shape("stream", key, value), (table.name,)
    old = construction.add(Regroup(f"{name}-old", above, shape, selector=selector, half="old"))
    new = construction.add(Regroup(name, above, shape, selector=selector, half="new"))
    return KGroupedTable(construction, (old.name, new.name), key, value)


class KGroupedStream(Grouped):
    """A stream by key: what `KStream.group_by_key` and `KStream.group_by` return."""

    def windowed_by(self, windows: Windows) -> WindowedStream:
        """The records by key and window: tumbling, hopping, sliding, session or unlimited windows."""
        from millpond.windowed import windowed

        return windowed(self._construction, self._inputs, (self._key, self._value), windows)

    def count(self, *, name: str | None = None, store: str | None = None) -> KTable:
        """How many records each key has had: a long. Records without key or value are left out, counted.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        """
        return self._add(StreamAggregate, self._count(), name, "count", store)

    def reduce(self, reducer: FoldFunction, *, name: str | None = None, store: str | None = None) -> KTable:
        """The records of each key made into one, two at a time.

        Parameters
        ----------
        reducer : function of (aggregate, value) or (key, aggregate, value) that gives a value of the same type; the
            first value is taken as it is; null deletes.
        name, store : names of the operator and of its queryable table.
        """
        return self._add(StreamAggregate, self._reduce(reducer), name, "reduce", store)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """The records of each key, folded one after the other.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        aggregator : function of (value, aggregate) or (key, value, aggregate) that gives the next one; null deletes.
        name, store : names of the operator and of its queryable table.
        """
        folding = self._aggregate(initializer, aggregator)
        return self._add(StreamAggregate, folding, name, "aggregate", store)


class KGroupedTable(Grouped):
    """A table by group: what `KTable.group_by` returns. A changed row leaves its group before it comes into one."""

    def count(self, *, name: str | None = None, store: str | None = None) -> KTable:
        """How many rows each group has: a long, which stays at 0 where all have left.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        """
        return self._add(TableAggregate, self._count(), name, "count", store)

    def reduce(
        self,
        adder: FoldFunction,
        subtractor: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """The rows of each group made into one.

        Parameters
        ----------
        adder : function of (aggregate, value) or (key, aggregate, value) that gives a value of the same type, for a
            row that comes into the group; the first one is taken as it is; null deletes.
        subtractor : the same for a row that leaves it.
        name, store : names of the operator and of its queryable table.
        """
        return self._add(TableAggregate, self._reduce(adder, subtractor), name, "reduce", store)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: FoldFunction,
        subtractor: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """The rows of each group, folded.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        adder : function of (value, aggregate) or (key, value, aggregate) that gives the next one, for a row that
            comes into the group; null deletes.
        subtractor : the same for a row that leaves it.
        name, store : names of the operator and of its queryable table.
        """
        return self._add(TableAggregate, self._aggregate(initializer, adder, subtractor), name, "aggregate", store)
