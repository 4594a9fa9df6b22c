"""How a user's function meets the plan: its arguments by number, its result's type by asking the backend.

Owns the one calling rule of millpond: a function's last parameters are the values, and with one parameter
more the key comes first. Backends say what a function's arguments and results are: Spark Columns for users
(`millpond._spark.functions.functions`), Arrow arrays for the engine without JVM (`millpond.testing.proof.arrow`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from millpond.errors import FunctionError
from millpond.io.formats import Format

Function = Callable[..., Any]


class FunctionBackend(Protocol):
    """What the handles need to know of the kind of function that a topology is written with."""

    def source_types(self, origin: Any, given: str) -> tuple[Any, Any]:
        """(key type, value type) of a source's records."""
        ...

    def value_type(self, function: Function, arguments: Sequence[Any], role: str) -> Any:
        """Type of what `function` returns for arguments of these types."""
        ...

    def pair_type(self, function: Function, arguments: Sequence[Any], role: str) -> tuple[Any, Any]:
        """Types of the (key, value) pair that `function` returns."""
        ...

    def element_type(self, function: Function, arguments: Sequence[Any], role: str) -> Any:
        """Type of the elements of the array that `function` returns."""
        ...

    def element_pair(self, element: Any, role: str) -> tuple[Any, Any]:
        """(key type, value type) of array elements that are structs of a key and a value."""
        ...

    def check_predicate(self, function: Function, arguments: Sequence[Any], role: str) -> None:
        """Raise unless `function` returns a condition."""
        ...

    def combined_type(self, prefix: Any, suffix: Any) -> Any:
        """Type of the combined key of a one-to-many join: a struct of `prefix` and `suffix`."""
        ...

    def combined_parts(self, key: Any) -> tuple[Any, Any]:
        """(prefix, suffix) of a combined key."""
        ...

    def record(self, key: Any, parts: Mapping[str, Any]) -> Any:
        """A struct of named parts; where one is None, true for each record. `key` says how many there are."""
        ...

    def windowed_type(self, key: Any) -> Any:
        """Type of the keys of windowed aggregates: a struct of `key`, and `start` and `end` as longs."""
        ...

    def key_of_windowed(self, kind: Any) -> Any:
        """Type of the field `key` of such keys."""
        ...

    def window_type(self) -> Any:
        """Type of windows: a struct of `start` and `end` as longs."""
        ...

    def windowed_parts(self, key: Any) -> tuple[Any, Any]:
        """(key, window) of the key of a windowed aggregate; the window is a struct of `start` and `end`."""
        ...

    def field(self, record: Any, name: str) -> Any:
        """A field of structs."""
        ...

    def initial(self, initializer: Function, kind: Any = None) -> tuple[Any, Any]:
        """(type, plain value) of what an initializer gives; null is None.

        Parameters
        ----------
        kind : the type of plain values, where it is said; else it follows from them.

        Raises
        ------
        FunctionError : the value is not of that type, or it does not say its own.
        """
        ...

    def compiled(self, function: Function, arguments: Sequence[Any], role: str) -> Function:
        """`function` as one of Arrow arrays, a row each, that can be sent to workers.

        Raises
        ------
        FunctionError : it holds what the workers cannot evaluate.
        """
        ...

    def named_type(self, given: Any) -> Any:
        """The type that a user gave, in Spark's words or as it is."""
        ...

    def as_arrow(self, kind: Any) -> Any:
        """A type as Arrow's."""
        ...

    def of_arrow(self, kind: Any) -> Any:
        """One of Arrow's types as the backend's."""
        ...

    def where_they_run(self, physical: Any) -> Sequence[str]:
        """A line for each function of a plan in levels: where it is evaluated, and why by Spark; none if there is one
        place alone."""
        ...

    def written_as(self, form: Format | None, kind: Any) -> str:
        """Type and format, as text, in which a sink writes keys of type `kind`; `form` as the user gave it."""
        ...


def adapt(function: Function, parameters: Sequence[str], role: str) -> Function:
    """`function` as one of all `parameters`, the first of which is the key and may be left out.

    Raises
    ------
    FunctionError : it is no function, or takes another number of arguments.
    """
    full, short = len(parameters), len(parameters) - 1
    if not callable(function):
        raise FunctionError(
            f"The {role} is not a function.",
            given=repr(function),
            hint=f"Pass a function of ({', '.join(parameters[1:])}) or ({', '.join(parameters)}).",
        )
    least, most = _arity(function)
    if least <= full <= most and not least <= short <= most:
        return function
    if least <= short <= most:
        return lambda *arguments: function(*arguments[1:])
    raise FunctionError(
        f"The {role} takes another number of arguments than it gets.",
        given=f"a function of {least} arguments",
        hint=f"Write it as a function of ({', '.join(parameters[1:])}) or ({', '.join(parameters)}).",
    )


def wants(function: Function, count: int) -> bool:
    """Whether `function` cannot be called with fewer than `count` arguments, and can with as many."""
    least, most = _arity(function)
    return least == count <= most


def _arity(function: Function) -> tuple[int, float]:
    """(fewest, most) positional arguments; only required ones count as wanted."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1, 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return required, float("inf")
    return required, len(positional)
