"""How a user's function meets the plan: its arguments by number, its result's type by asking the backend.

Owns the one calling rule of watersmeet: a function's last parameters are the values, and with one parameter
more the key comes first. Backends say what a function's arguments and results are: Spark Columns for users
(`watersmeet._spark.functions`), Arrow arrays for the engine without JVM (`proof.arrow`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dis import get_instructions
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol

from watersmeet.aggregates.declaration import AnyAggregate
from watersmeet.aggregates.user_defined import PythonFunction
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.hints import refuse_lazy
from watersmeet.io.formats import Format

Function = Callable[..., Any]
RECORD = "record"
"""What a function's parameter is called that gets the record."""
COROUTINE = "coroutine function"
"""The role of a function that is awaited."""
_WORDS = {
    **dict.fromkeys(("k", "key"), "key"),
    **dict.fromkeys(("v", "val", "value"), "value"),
    **dict.fromkeys(("acc", "accumulator", "agg", "aggregate"), "aggregate"),
    "left": "left",
    "right": "right",
}
"""What names of parameters say of their arguments."""
_PAIRED = {
    max: "agg(largest=wm.max(lambda value: value['field'])), or a reducer of Columns: lambda aggregate, value: ...",
    min: "agg(smallest=wm.min(lambda value: value['field'])), or a reducer of Columns: lambda aggregate, value: ...",
}
"""Functions of Python's that are of two values, and not of Columns."""


class FunctionBackend(Protocol):
    """The interface of the handles to the functions of a topology: Spark Columns, or another kind."""

    def source_types(self, origin: Any, given: str) -> tuple[Any, Any]:
        """(key type, value type) of a source's records."""
        ...

    def value_type(self, function: Function, arguments: Sequence[Any], role: str) -> Any:
        """Type of what `function` returns for arguments of these types."""
        ...

    def pair_type(self, function: Function, arguments: Sequence[Any], role: str) -> tuple[Any, Any]:
        """Types of the (key, value) pair that `function` returns."""
        ...

    def milliseconds(self, function: Function, arguments: Sequence[Any], role: str) -> Function:
        """`function` as one of milliseconds since 1970; raises FunctionError where it gives no time."""
        ...

    def headers(self, function: Function, arguments: Sequence[Any], role: str) -> Function:
        """`function` as one of headers; raises FunctionError where it gives none."""
        ...

    def element_type(self, function: Function, arguments: Sequence[Any], role: str) -> Any:
        """Type of the elements of the array that `function` returns."""
        ...

    def element_pair(self, element: Any, role: str) -> tuple[Any, Any]:
        """(key type, value type) of array elements that are structs of a key and a value."""
        ...

    def plain(self, function: Function, returns: Any, role: str, *, pair: bool = False) -> Function:
        """A plain Python function of values as one of the backend's own kind.

        Parameters
        ----------
        returns : type of its result, as the user says it.
        pair : whether it is to give a key and a value, of a struct of two fields.
        """
        ...

    def check_predicate(self, function: Function, arguments: Sequence[Any], role: str) -> None:
        """Raise unless `function` returns a condition."""
        ...

    def chosen_topic(
        self, function: Function, arguments: Sequence[Any], topics: Sequence[str]
    ) -> Mapping[str, Function]:
        """For each of these topics a predicate: whether `function` names it; it raises where none of them is named.

        Raises
        ------
        FunctionError : the function gives no texts.
        """
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

    def record_type(self) -> Any:
        """Type of what functions see of the record itself: a struct of its time, headers, topic, partition, offset."""
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

    def where_null(self, operand: Any, value: Any, default: Any = None) -> Any:
        """`value` where `operand` is null, else `default`; None is null."""
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

    def separate_lookups(self, physical: Any) -> frozenset[str]:
        """Names of the lookups of a plan in levels that cannot follow the lookup before in its level: what stands
        between is evaluated elsewhere."""
        ...

    def check_on_error(self, physical: Any) -> None:
        """Raise where `on_error` tolerates errors of a function that still fails the query."""
        ...

    def written_as(self, form: Format | None, kind: Any) -> str:
        """Type and format, as text, in which a sink writes keys of type `kind`; `form` as the user gave it."""
        ...

    def check_written(self, form: Format, kind: Any, what: str) -> None:
        """Raise unless a format writes values of type `kind`, which `what` names; a registry is not asked."""
        ...

    def check_columns(self, table: Any, key: Any, value: Any) -> None:
        """Raise unless a `TableTarget` has columns for keys and values of these types."""
        ...


def adapt(
    function: Function | PythonFunction,
    parameters: Sequence[str],
    role: str,
    backend: FunctionBackend | None = None,
    *,
    pair: bool = False,
    sees_record: bool = False,
) -> Function:
    """`function` as one of all `parameters`, the first of which is the key and may be left out.

    Parameters
    ----------
    backend : where the function may be a plain one (`wm.python`), what makes it one of its own kind.
    pair : whether it gives a key and a value.
    sees_record : whether it may have one parameter more, `record` by its name: then it is one of that, too
        (`record_of`).

    Raises
    ------
    FunctionError : it is no function, or takes another number of arguments.
    """
    if asks_for_record(function, parameters, role, allowed=sees_record):
        assert backend is not None, "who shows records has a backend"
        adapted = adapt(function, (*parameters, RECORD), role, backend, pair=pair)
        return seeing_record(adapted, _written(function), backend.record_type(), names_of(adapted, len(parameters) + 1))
    if backend is not None and isinstance(function, PythonFunction):
        return _plain(function, parameters, role, backend, pair=pair)
    full, short = len(parameters), len(parameters) - 1
    takes = f"({', '.join(parameters[1:])}) or ({', '.join(parameters)})"
    if not callable(function):
        raise FunctionError(
            f"The {role} must be a function, not {_described(function)}.", hint=_hint(function, parameters, takes)
        )
    if role != COROUTINE:
        refuse_lazy(function, f"The {role}", f"a function of {takes}")
    _check_order(function, parameters, role)
    if backend is not None:
        function = bound_now(function)
    least, most = _arity(function)
    if least <= full <= most and not least <= short <= most:
        return function
    if least <= short <= most:
        return belonging(lambda *arguments: function(*arguments[1:]), function, _aligned(function, parameters))
    raise FunctionError(
        f"The {role} takes {least} argument{'s' * (least != 1)}, and gets {short} or {full}.",
        given=f"{getattr(function, '__name__', repr(function))}{_signature(function)}",
        hint=_PAIRED[function] if function in (max, min) else f"Write it as a function of {takes}.",
    )


_OF_RECORD = frozenset(("headers", "header", "context", "ctx", "metadata"))


def _check_order(function: Function, parameters: Sequence[str], role: str) -> None:
    """Raise where the names of a function's parameters say that it expects other arguments, or in another order."""
    last = _names(function)[-1:]
    if last and last[0] in _OF_RECORD and parameters[-1] == "value" and len(_names(function)) == len(parameters):
        raise FunctionError(
            f"The {role} gets ({', '.join(parameters)}), and its parameters are named ({', '.join(_names(function))}).",
            hint="Headers and topic are a record's: lambda value, record: record['headers'] (docs/records.md).",
        )
    names = [_WORDS.get(name) for name in _names(function)]
    expected = parameters[-len(names) :] if names else ()
    if names != list(expected) and sorted(map(str, names)) == sorted(expected):
        raise FunctionError(
            f"The {role} gets ({', '.join(expected)}), and its parameters are called ({', '.join(_names(function))}).",
            hint=f"Write them in this order: lambda {', '.join(expected)}: ...",
        )


def bound_now(function: Function) -> Function:
    """The function with the values that its outer names have now: one of a loop's variable is of its own round."""
    if not isinstance(function, FunctionType) or _rebinds(function):
        return function
    if (function.__module__ or "").startswith("watersmeet."):
        return function
    names = _global_names(function.__code__)
    around = {name: value for name, value in function.__globals__.items() if name in names or name.startswith("__")}
    cells = tuple(map(_copied, function.__closure__ or ()))
    bound = FunctionType(function.__code__, around, function.__name__, function.__defaults__, cells)
    bound.__kwdefaults__, bound.__qualname__ = function.__kwdefaults__, function.__qualname__
    vars(bound).update(vars(function))
    return bound


def _copied(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:  # it has no value yet
        return cell


def _rebinds(function: FunctionType) -> bool:
    """Whether it sets an outer name, which others are to see."""
    outer = function.__code__.co_freevars
    steps = get_instructions(function.__code__)
    sets = ((step.opname, step.argval) for step in steps if step.opname.startswith("STORE_"))
    return any(opname == "STORE_GLOBAL" or (opname == "STORE_DEREF" and name in outer) for opname, name in sets)


def _global_names(code: CodeType) -> set[str]:
    """The names that a function may look up, with those of the functions in it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*map(_global_names, inner))


def _written(function: Any) -> Any:
    """The user's function: the one inside `wm.python(...)`, or the function itself."""
    return function.function if isinstance(function, PythonFunction) else function


def _plain(
    given: PythonFunction, parameters: Sequence[str], role: str, backend: FunctionBackend, *, pair: bool
) -> Function:
    adapted = adapt(given.function, parameters, role)
    returns = "boolean" if given.returns is None and role.startswith("predicate") else given.returns
    if returns is None:
        example = "struct<key: string, value: long>" if pair else "long"
        raise FunctionError(
            f"The {role} is a plain Python function without a result type: returns=None.",
            given=_described(given),
            hint=f"Name the type: wm.python(function, {example!r}).",
        )
    function = backend.plain(adapted, returns, role, pair=pair)
    vars(belonging(function, given.function, names_of(adapted, len(parameters)))).update(_plain=True)
    return function


def asks_for_record(function: Any, parameters: Sequence[str], role: str, *, allowed: bool) -> bool:
    """Whether a function has a parameter `record` behind those of `parameters`.

    Raises
    ------
    FunctionError : it has, and gets no record; or its parameters can be read in two ways.
    """
    names = _names(_written(function))
    extra = len(names) - len(parameters)
    if names[-1:] != [RECORD] or extra not in (0, 1):
        return False
    short, full = (", ".join((*arguments, RECORD)) for arguments in (parameters[1:], parameters))
    if extra == 0 and names[0] == "key":
        if not allowed:
            return False
        raise FunctionError(
            f"The {role} takes a key and a record, but no {parameters[-1]}.",
            given=f"lambda {', '.join(names)}",
            hint=f"A parameter `record` comes last: lambda {short}: ..., or lambda {full}: ...",
        )
    if allowed:
        return True
    if extra == 0 and names[0] != parameters[1]:
        return False
    raise FunctionError(
        f"The {role} takes a parameter `record`, which is not available here.",
        given=f"lambda {', '.join(names)}",
        hint="Functions of streams have it: map_values, map, filter, flat_map, select_key, group_by, split, peek, "
        "aggregates and joiners of a stream; of a table's changes, table.to_stream() comes first.",
    )


def seeing_record(adapted: Function, function: Function, kind: Any, names: Sequence[str]) -> Function:
    """`adapted` as a function that gets the record, of this type, as its last argument."""
    wrapper = belonging(lambda *arguments: adapted(*arguments), function, names)
    vars(wrapper)["_record"] = kind
    return wrapper


def record_of(function: Function) -> Any:
    """Type of the record that a function gets as its last argument; None: it gets none."""
    return getattr(function, "_record", None)


def types_for(function: Function, types: Sequence[Any]) -> tuple[Any, ...]:
    """Types of a function's arguments: these, and the record's, where it gets one."""
    kind = record_of(function)
    return tuple(types) if kind is None else (*types, kind)


def belonging(adapted: Function, function: Function, names: Sequence[str]) -> Function:
    """`adapted`, which calls the user's `function`, with the record if that gets one; `names`: of its parameters."""
    own, record = unwrap(function), record_of(function)
    vars(adapted).update(_own=own, _names=tuple(names), _record=record, _plain=is_plain(function))
    return adapted


def is_plain(function: Function) -> bool:
    """Whether the function that the user wrote gets plain values, and no Columns."""
    return bool(getattr(function, "_plain", False))


def unwrap(function: Function) -> Function:
    """The function as the user wrote it."""
    original: Function = getattr(function, "_own", function)
    return original


def names_of(function: Function, count: int) -> tuple[str, ...]:
    """The names of a function's arguments, in the user's words if possible."""
    names = tuple(getattr(function, "_names", ()) or _names(function))
    foreign = unwrap(function) is function and (getattr(function, "__module__", "") or "").startswith("watersmeet.")
    if len(names) == count and not foreign:
        return names
    return {1: ("value",), 2: ("key", "value"), 3: ("key", "left", "right")}.get(count, ()) or tuple(
        f"argument {number}" for number in range(1, count + 1)
    )


def _aligned(function: Function, parameters: Sequence[str]) -> Sequence[str]:
    """The names of a function that leaves the key out, behind the key's."""
    names = _names(unwrap(function))
    return (parameters[0], *names) if len(names) == len(parameters) - 1 else parameters


def _names(function: Function) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _signature(function: Function) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"


def _described(value: Any) -> str:
    """A value given in place of a function, as text."""
    kind = type(value).__name__
    if isinstance(value, PythonFunction):
        return f"wm.python({getattr(value.function, '__name__', value.function)!s})"
    return f"{kind}: {value!r:.80}" if kind not in ("str", "int", "bool", "NoneType") else f"{value!r:.80}"


def _hint(value: Any, parameters: Sequence[str], takes: str) -> str:
    kind, last = type(value).__name__, parameters[-1]
    needed = parameters[1:] if parameters[0] == "key" and len(parameters) > 1 else parameters
    if isinstance(value, PythonFunction):
        return (
            "Here a function takes and returns Columns; plain Python is F.udf(function, 'long'): "
            f"lambda {last}: F.udf(function, 'long')({last}['field'])."
        )
    if isinstance(value, AnyAggregate):
        return f"An aggregate is of grouped records: group_by_key().agg(total={value.example()})."
    if kind == "str" and value.isidentifier():
        return f"Write a function of {takes}: lambda {', '.join(needed)}: {last}[{value!r}]."
    if kind == "Column" or kind == "str":
        text = re.sub(r"^Column<'(.*)'>$", r"\1", str(value))
        field = next(iter(re.findall(r"^\W*([A-Za-z_]\w*)", text)), "field")
        return f"Write a function of {takes}, which gets Columns: lambda {', '.join(needed)}: {last}[{field!r}] ..."
    return f"Write a function of {takes}: lambda {', '.join(needed)}: ..."


def wants(function: Function, count: int) -> bool:
    """Whether `function` cannot be called with fewer than `count` arguments, and can with as many."""
    least, most = _arity(function)
    return least == count <= most


def takes(function: Function, count: int) -> bool:
    """Whether `function` can be called with as many arguments."""
    least, most = _arity(function) if _signature(function) != "(...)" else (0, float("inf"))
    return least <= count <= most


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


def check_branches(branches: Any) -> None:
    """Raise unless the branches of a split are predicates by name.

    Raises
    ------
    TopologyError : they are not.
    """
    if not isinstance(branches, Mapping):
        raise TopologyError(
            f"split takes a predicate for each branch's name, and not {type(branches).__name__}: {branches!r:.80}.",
            hint="split({'name': predicate}, default='rest').",
        )
    wrong = next((name for name in branches if not isinstance(name, str) or not name), None)
    if wrong is not None or None in branches:
        raise TopologyError(f"The name of a branch must be a text, not {wrong!r}.", hint="split({'name': predicate}).")
