"""A user's own aggregate: a class of plain Python, beside the aggregates by name."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

from watersmeet.aggregates.declared import AnyAggregate, Function, Types, Use
from watersmeet.errors import TopologyError


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
        return {"argument": _whole if self.argument is None else self.argument}

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

    def _need(self, name: str, parameters: str, why: str) -> None:
        if getattr(type(self), name) is getattr(Aggregate, name):
            raise TopologyError(
                f"{self.name}.{name} is missing, which {why}.",
                hint=f"Write def {name}({parameters}): ... in {self.name}.",
            )

    def bare(self) -> Self:
        other = copy(self)
        other.argument = None
        return other

    @classmethod
    def read(cls, parameters: Any) -> AnyAggregate:
        return OwnTypes()

    def __repr__(self) -> str:
        return f"{self.name}()"


class OwnTypes(Aggregate):
    """The record of a user's own aggregate in a checkpoint."""

    stem = "kept"


def _whole(value: Any) -> Any:
    return value
