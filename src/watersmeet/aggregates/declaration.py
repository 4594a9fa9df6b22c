"""Declarations of aggregates: arguments, parameters, and types of state and result.

Vocabulary. The handles ask an aggregate these questions, and nobody asks which one it is. Its kernel works on the rows;
the engine finds it by the stem (`_engine.aggregates.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import TopologyError, WrongCall
from watersmeet.hints import missing_name, public

Function = Callable[..., Any]
Types = tuple[pa.DataType, pa.DataType]
"""Of what is kept of each key, and of what is shown."""
_FUNCTION: Mapping[str, Any] = {"function": True}
"""What tells the fields of a declaration that are arguments from its parameters."""


def as_it_is(kind: Any) -> pa.DataType:
    """A type that a user has said, where only Arrow's are known."""
    return kind


@dataclass(frozen=True)
class Use:
    """Where an aggregate is used.

    Parameters
    ----------
    arguments : types of its arguments, by name; none of `count()`.
    takes_back : whether values are subtracted, too: of a grouped table.
    merges : whether two states become one: of sessions.
    named : gives the Arrow type that a user has said in words.
    """

    arguments: Mapping[str, pa.DataType] = field(default_factory=dict)
    takes_back: bool = False
    merges: bool = False
    named: Callable[[Any], pa.DataType] = as_it_is

    @property
    def argument(self) -> pa.DataType:
        """The type of the only argument, or of what there is for each record."""
        return next(iter(self.arguments.values()), pa.bool_())


class AnyAggregate:
    """Base of all aggregates: those by name, and users' own.

    Attributes
    ----------
    stem : what its kernel is found by.
    name : what its function is called: `wm.<name>`.
    in_agg : what hints call the field of its result; None: it has no name that one could look for elsewhere.
    finished_anywhere : whether what is shown can be made of what is kept where the program is not, as by `read_state`.
    """

    stem: ClassVar[str]
    name: ClassVar[str]
    in_agg: ClassVar[str | None] = "result"
    finished_anywhere: ClassVar[bool] = True

    @property
    def arguments(self) -> Mapping[str, Function | None]:
        """Column functions of (value) or (key, value), by name; of several the kernel gets structs. None: true."""
        raise NotImplementedError

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Its parameters other than arguments, as JSON values."""
        return {}

    @property
    def text(self) -> str:
        """What `describe` prints of it, and checkpoints record."""
        listing = ", ".join(str(value) for value in self.parameters.values())
        return f"{self.name}({listing})" if listing else self.name

    def types(self, use: Use) -> Types:
        """The types of the state and of the result.

        Raises
        ------
        TopologyError : the aggregate does not take values of these types, or is not for this use.
        """
        raise NotImplementedError

    def bare(self) -> Self:
        """The same without its arguments: what goes to the workers."""
        raise NotImplementedError

    def recorded(self) -> list[Any]:
        """[stem, parameters], as a checkpoint has it: without parameters null, and the only one by itself."""
        parameters = dict(self.parameters)
        return [self.stem, next(iter(parameters.values()), None) if len(parameters) < 2 else parameters]

    @classmethod
    def read(cls, parameters: Any) -> AnyAggregate:
        """What `recorded` has said, without its arguments."""
        raise NotImplementedError

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        """How it is called."""
        return f"wm.{cls.name}(lambda value: {of})"

    @classmethod
    def use(cls) -> str:
        """The same as a hint has it."""
        example = cls.example("value['amount']")
        return f"For example {example}"

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"wm.{self.name}({parameters})"

    if not TYPE_CHECKING:  # for a type checker such a name is a mistake

        def __getattr__(self, name: str) -> Any:
            raise missing_name("Aggregate", public(type(self)), name)

    def _calculate(self, other: Any) -> NoReturn:
        raise WrongCall(
            f"An aggregate has no value while the topology is built: {self!r} cannot be calculated with.",
            given=f"{self!r} and {other!r:.80}",
            hint="Name both, and calculate with their results: agg(total=wm.sum(...), n=wm.count())"
            ".map_values(lambda value: value['total'] / value['n']).",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _calculate


@dataclass(frozen=True, repr=False)
class Declared(AnyAggregate):
    """Base of the aggregates by name: dataclasses. Their fields are arguments (functions) and parameters."""

    @property
    def arguments(self) -> Mapping[str, Function | None]:
        return {
            attribute.name: getattr(self, attribute.name)
            for attribute in fields(self)
            if attribute.metadata.get("function")
        }

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            attribute.name: getattr(self, attribute.name)
            for attribute in fields(self)
            if not attribute.metadata.get("function")
        }

    def bare(self) -> Self:
        return replace(self, **dict.fromkeys(self.arguments))

    @classmethod
    def read(cls, parameters: Any) -> AnyAggregate:
        names = [attribute.name for attribute in fields(cls) if not attribute.metadata.get("function")]
        return cls(**(dict(zip(names, [parameters], strict=True)) if len(names) == 1 else parameters or {}))


@dataclass(frozen=True, repr=False)
class OfOne(Declared):
    """Base of the aggregates of one argument."""

    argument: Function | None = field(default=None, metadata=_FUNCTION)


@dataclass(frozen=True, repr=False)
class OfTwo(Declared):
    """Base of the aggregates of a value by another one, by which it is found; where that is null, it is left out."""

    value: Function | None = field(default=None, metadata=_FUNCTION)
    by: Function | None = field(default=None, metadata=_FUNCTION)

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.{cls.name}(lambda value: {of}, by=lambda value: value['amount'])"


def check_k(name: str, k: Any, example: str) -> None:
    """Raise unless an aggregate can keep so many values."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise TopologyError(
            f"{name} keeps a whole number of values, more than zero: k={k!r:.80}.", hint=f"For example {example}."
        )


def list_of(kind: pa.DataType) -> pa.DataType:
    """Lists, as states have them."""
    return pa.list_(pa.field("element", kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether it can be added."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def check_number(aggregate: AnyAggregate, kind: pa.DataType) -> None:
    """Raise unless the argument is a number."""
    if not is_number(kind):
        cast = aggregate.example("value['field'].cast('double')")
        raise TopologyError(
            f"The aggregate {aggregate.name} takes numbers, and its argument is {kind}.",
            hint=f"Cast the argument: {cast}.",
        )


def check_ordered(aggregate: AnyAggregate, kind: pa.DataType, subject: str = "its argument") -> None:
    """Raise unless values of the argument have an order."""
    if pt.is_nested(kind) or pt.is_null(kind):
        raise TopologyError(
            f"The aggregate {aggregate.name} takes values that have an order, and {subject} is {kind}.",
            hint=f"Take a field of it: {aggregate.example()}.",
        )


def check_comparable(aggregate: AnyAggregate, kind: pa.DataType, subject: str = "its argument") -> None:
    """Raise where values of the argument cannot be compared."""
    if pt.is_map(kind):
        raise TopologyError(
            f"The aggregate {aggregate.name} cannot compare maps, and {subject} is {kind}.",
            hint="Take their entries: F.sort_array(F.map_entries(value['field'])).",
        )
