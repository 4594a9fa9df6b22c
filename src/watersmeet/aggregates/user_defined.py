"""A user's own aggregate: a class of plain Python, beside the aggregates by name."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from dis import get_instructions
from inspect import iscoroutinefunction, isgeneratorfunction
from itertools import pairwise
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from watersmeet.aggregates.declaration import AnyAggregate, Function, Types, Use
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.hints import answered

# Plain Python functions of values (`wm.python`): in folds, and wherever a function of Columns makes a value.


@dataclass(frozen=True)
class PythonFunction:
    """A plain Python function of values, called record by record; made by `python`.

    Parameters
    ----------
    function : of plain Python values.
    returns : type of its result, in Spark's words ("long", "struct<n: long>") or as a DataType; None: as the
        aggregate's type is known otherwise.
    """

    function: Function
    returns: Any = None

    if TYPE_CHECKING:  # for a type checker it is what it stands for: a function

        def __call__(self, *arguments: Any) -> Any: ...


@answered
def python(function: Function, returns: Any = None) -> PythonFunction:
    """A plain Python function where a function of Columns may stand, called once for each record.

    That is in folds (adder, subtractor, reducer, merger), and wherever a function of Columns makes a value, a key or a
    condition of a record: `stream.map_values(wm.python(str.upper, "string"))`. It runs in the level, or, beside a
    function that Spark evaluates, in Spark's Python workers. Where all its arguments are null it is not called, but in
    folds, and its result is null. `on_error` decides about errors that it raises.

    It sees values as Python has them: structs and maps are dictionaries, arrays are lists, nested ones too, and times
    are in UTC. Its result may be a Row, a tuple or pairs; it is converted to the value that state would return, so that
    it is the same in the next call and in the next batch. A value of another type is an error. It costs some
    microseconds for each record; Columns that the level can evaluate cost less. It gives the same for the same
    arguments, which it leaves as they are: an aggregate that it changes in place may stand behind other records.

    Parameters
    ----------
    function : takes what the Column function would take, as values.
    returns : type of its result, in Spark's words or as a DataType; of an aggregator this is the aggregate's type. Only
        folds and predicates may leave it out. Where a key and a value are wanted it is a struct of the two.

    Raises
    ------
    FunctionError : (of the call that it is given to) it takes other arguments, or `returns` is none of Spark's types.

    Examples
    --------
    >>> python(str.upper, "string").returns
    'string'
    """
    if isinstance(function, str):
        raise FunctionError(
            f"wm.python takes a function, and not {function!r:.80}.",
            hint="wm.python(lambda value: ..., 'string'): first the function, then the type of its result.",
        )
    name = getattr(function, "__name__", type(function).__name__)
    if iscoroutinefunction(function):
        raise FunctionError(
            f"wm.python takes a plain function, and {name} is an asynchronous one.",
            hint="stream.map_async(function, returns='long') calls it and waits for its result.",
        )
    if isgeneratorfunction(function):
        raise FunctionError(
            f"wm.python takes a function with a return, and {name} has 'yield'.",
            hint="return [one, other] gives an array: stream.flat_map_values(wm.python(function, 'array<long>')).",
        )
    if returns_nothing(function):
        raise FunctionError(
            f"{name} returns None, whatever it is given: it has no return with a value.",
            hint="Return the result; a fold returns the new aggregate: return aggregate + [value].",
        )
    return PythonFunction(function, returns)


def returns_nothing(function: object) -> bool:
    """Whether a function made by `def` has no way to return a value other than None; a lambda says None itself."""
    if (
        not isinstance(function, FunctionType)
        or function.__name__ == "<lambda>"
        or isgeneratorfunction(function)
        or iscoroutinefunction(function)
    ):
        return False
    returned = False
    for previous, step in pairwise(get_instructions(function)):
        by_itself = step.opname == "RETURN_CONST"
        if by_itself or step.opname == "RETURN_VALUE":
            returned = True
            last = step if by_itself else previous
            # a jump brings a value that stands elsewhere
            if step.is_jump_target or last.argval is not None or not (by_itself or previous.opname == "LOAD_CONST"):
                return False
    return returned


class Aggregate(AnyAggregate):
    """An aggregate of your own: plain Python functions of what is kept of a key, called record by record.

    Derive a class from it and use that in `agg`, beside the others. Values and states are as Python has them: structs
    and maps are dictionaries, arrays are lists, times are in UTC. A state is kept as its declared type, never pickled.
    Records with a null argument are left out. The class goes to the workers as Spark sends Python functions; it costs
    some microseconds for each record.

    >>> class Harmonic(Aggregate):
    ...     state, result = "struct<n: long, total: double>", "double"
    ...
    ...     def init(self):
    ...         return {"n": 0, "total": 0.0}
    ...
    ...     def add(self, state, value):
    ...         return {"n": state["n"] + 1, "total": state["total"] + 1 / value}
    ...
    ...     def subtract(self, state, value):
    ...         return {"n": state["n"] - 1, "total": state["total"] - 1 / value}
    ...
    ...     def merge(self, one, other):
    ...         return {"n": one["n"] + other["n"], "total": one["total"] + other["total"]}
    ...
    ...     def finish(self, state):
    ...         return state["n"] / state["total"] if state["n"] else None
    >>> mean = Harmonic(lambda value: value["speed"])
    >>> mean
    Harmonic()
    >>> mean.finish(mean.merge(mean.add(mean.init(), 2.0), mean.add(mean.init(), 6.0)))
    3.0

    Parameters
    ----------
    argument : Column function of (value) or (key, value), evaluated before records are grouped; by default the whole
        value. A class with parameters of its own calls `super().__init__(argument)`.

    Attributes
    ----------
    state : type of what is kept of each key, in Spark's words ("long", "struct<n: long, total: double>") or as a
        DataType.
    result : type of what is shown.
    """

    stem = "own"
    in_agg = None
    finished_anywhere = False
    state: ClassVar[Any] = None
    result: ClassVar[Any] = None
    argument: Function | None = None

    def __init__(self, argument: Function | None = None) -> None:
        self.argument = argument

    def init(self) -> Any:
        """The state of a group without records."""
        raise NotImplementedError

    def add(self, state: Any, value: Any) -> Any:
        """The state after a value, which is not null, is added."""
        raise NotImplementedError

    def subtract(self, state: Any, value: Any) -> Any:
        """The state after a value is subtracted. Only a grouped table needs this method: its rows leave groups."""
        raise NotImplementedError

    def merge(self, one: Any, other: Any) -> Any:
        """The state of both groups; the other's records are later. Only session windows need this method."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        """The result; by default the state."""
        return state

    @property
    def name(self) -> str:  # type: ignore[override]  # of the others it is the class's
        """Its name in errors: the class."""
        return type(self).__name__

    @property
    def arguments(self) -> Mapping[str, Function | None]:
        return {"argument": _identity if self.argument is None else self.argument}

    def types(self, use: Use) -> Types:
        for name in ("state", "result"):
            if getattr(self, name, None) is None:
                raise TopologyError(
                    f"{self.name}.{name} is None: an aggregate of your own must declare the type of its {name}.",
                    hint=f'For example {name} = "double", in the class.',
                )
        self._need("init", "self", "makes the state of a group without records")
        self._need("add", "self, state, value", "takes records in")
        if use.takes_back:
            self._need("subtract", "self, state, value", "takes back what leaves a group of a grouped table")
        if use.merges:
            self._need("merge", "self, one, other", "makes one of two sessions that grow together")
        return use.named(self.state), use.named(self.result)

    def _need(self, name: str, parameters: str, purpose: str) -> None:
        if getattr(type(self), name) is getattr(Aggregate, name):
            raise TopologyError(
                f"{self.name}.{name} is missing, which {purpose}.",
                hint=f"Write def {name}({parameters}): ... in {self.name}.",
            )
        if name != "init" and returns_nothing(getattr(type(self), name)):
            raise TopologyError(
                f"{self.name}.{name} returns None, whatever it is given: it has no return with a value.",
                hint="Return the state: return state + [value].",
            )

    def bare(self) -> Self:
        clone = copy(self)
        clone.argument = None
        return clone

    @classmethod
    def read(cls, parameters: Any) -> AnyAggregate:
        return OwnTypes()

    def __repr__(self) -> str:
        return f"{self.name}()"


class OwnTypes(Aggregate):
    """The record of a user's own aggregate in a checkpoint."""

    stem = "kept"


def _identity(value: Any) -> Any:
    return value
