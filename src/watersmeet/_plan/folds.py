"""Folds: how an aggregate takes records in, as the plan knows it; the engine evaluates them (`_engine.aggregates`).

A fold is either made of functions (aggregate, reduce), or of aggregates by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from watersmeet.aggregates import AGGREGATES
from watersmeet.aggregates.declaration import AnyAggregate
from watersmeet.aggregates.sums import Count


@dataclass(frozen=True)
class Step:
    """A function of a fold, of (key, value, aggregate); of a merger (key, one aggregate, the other)."""

    function: Callable[..., Any]  # of Arrow arrays, a row each, which gives an array; or of plain values
    plain: bool  # whether it is one of plain Python values, called record by record


@dataclass(frozen=True)
class FunctionFold:
    """aggregate, reduce."""

    add: Step  # the adder
    # subtract, merge: of tables and of sessions
    subtract: Step | None = None
    merge: Step | None = None
    starts: bool = False  # whether there is an initial value; else the first value is taken as it is (reduce)
    initial: Any = None  # that value, as Python has it
    first: int | None = None  # of values that are structs, number of the field that is taken so in place of the whole
    arguments: ClassVar[bool] = True

    @property
    def takes_back(self) -> bool:
        """Whether values are subtracted, too: of a grouped table."""
        return self.subtract is not None


@dataclass(frozen=True)
class CogroupFold:
    """aggregate of several streams that are cogrouped."""

    adders: tuple[Step, ...]  # the adder of each stream
    initial: Any  # the first aggregate, as Python has it
    merge: Step | None = None  # of sessions
    takes_back: ClassVar[bool] = False
    arguments: ClassVar[bool] = True


@dataclass(frozen=True)
class NamedFold:
    """Aggregates by name."""

    # name of each result field, and its aggregate, without its arguments
    fields: tuple[tuple[str, AnyAggregate], ...]
    # whether values are structs with an argument for each field; else it is not asked what they are, only whether
    # they are there
    arguments: bool = True
    alone: bool = False  # whether the result is the one field's value; else a struct of all
    takes_back: bool = False  # whether values are subtracted, too: of a grouped table
    # the field that counts the rows of a group, which is deleted with its last one; None: a group stays without rows
    rows: str | None = None

    def recorded(self) -> dict[str, Any]:
        """The same as JSON has it, for the checkpoint."""
        entries = {name: value for name, value in self.__dict__.items() if value is not None}
        return {**entries, "fields": [[name, *aggregate.recorded()] for name, aggregate in self.fields]}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> NamedFold:
        fields = tuple((name, AGGREGATES[stem].read(arguments)) for name, stem, arguments in record["fields"])
        return cls(**{**record, "fields": fields})


COUNT = NamedFold((("count", Count()),), arguments=False, alone=True)
"""count()."""
PRESENCE = replace(COUNT, rows="count")
"""count() of groups that stand for as long as they have rows."""


@dataclass(frozen=True)
class Fold:
    """A fold, and its types."""

    how: FunctionFold | CogroupFold | NamedFold  # the functions, or the names
    text: str  # what `describe` prints of it
    # state, result: types of what is kept of each key, and of the result made of that
    state: Any
    result: Any

    def typed(self, convert: Callable[[Any], Any]) -> Fold:
        """The same fold with other types, as `convert` gives them."""
        return replace(self, state=convert(self.state), result=convert(self.result))
