"""Arguments of `agg`: aggregates by name and users' own, checked on the user's own line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from watersmeet._engine.aggregates.kinds import part_of
from watersmeet._engine.aggregates.parts import KernelTypes
from watersmeet.aggregates import AGGREGATES, AnyAggregate
from watersmeet.aggregates.declared import Types
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, FunctionBackend, adapt, record_of

Roles = Mapping[str, tuple[str, Function | None]]
"""The arguments of an aggregate, by name: what errors call each, and its function; None: true for each record."""
_CALLED: dict[Any, type[AnyAggregate]] = {each.name: each for each in reversed(AGGREGATES.values())}
"""The aggregates by name, by what the functions are called that make them."""


def check_aggregates(aggregates: Mapping[str, AnyAggregate]) -> None:
    """Raise unless there are some, and all are aggregates."""
    if not aggregates:
        raise TopologyError(
            "There is nothing to aggregate: agg needs aggregates by name.",
            hint="For example agg(n=wm.count(), total=wm.sum(lambda value: value['field'])).",
        )
    given: Mapping[str, Any] = aggregates
    for field, each in given.items():
        if isinstance(each, AnyAggregate):
            continue
        if isinstance(each, type) and issubclass(each, AnyAggregate):
            raise TopologyError(
                f"The value of {field!r} must be an aggregate, not the class {each.__name__}.",
                hint=f"For example {field}={each.__name__}(lambda value: value['field']).",
            )
        name = getattr(each, "__name__", "")
        shown = f"wm.{name}, a function" if name in _CALLED else repr(each)
        raise TopologyError(
            f"The value of {field!r} must be an aggregate, not {shown:.120}.",
            hint=f"For example {field}={_meant(each, name)}; functions fold with aggregate(...).",
        )


def _meant(given: Any, name: str) -> str:
    """The aggregate that was meant, if that is known."""
    if name in _CALLED:
        return _CALLED[name].example()
    # a Column such as sum(amount), or a pair of a field and a name, as pandas has it
    words = re.findall(r"[A-Za-z_]\w*", str(given).removeprefix("Column<")) if not callable(given) else []
    called = next((word for word in words if word in _CALLED), "sum")
    field = next((word for word in words if word not in _CALLED), "field")
    return _CALLED[called].example(f"value[{field!r}]")


def arguments_of(aggregate: AnyAggregate, field: str, functions: FunctionBackend, *, sees_record: bool) -> Roles:
    """Its arguments as functions of (key, value), and, where they may see it and ask for it, the record."""
    given = aggregate.arguments
    roles = {name: f"argument {field!r}" if len(given) == 1 else f"{name} of {field!r}" for name in given}
    return {
        name: (roles[name], None if each is None else _adapted(each, roles[name], functions, sees_record=sees_record))
        for name, each in given.items()
    }


def _adapted(given: Any, role: str, functions: FunctionBackend, *, sees_record: bool) -> Function:
    return adapt(given, ("key", "value"), role, functions, sees_record=sees_record)


def asked(function: Function, key: Any, value: Any, *record: Any) -> Any:
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
