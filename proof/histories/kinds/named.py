"""Aggregates by name, and one of a user's own, as folds of the kinds of aggregates.

Owns their arguments, which read texts of every shape, and are null of some. Law: as in `kinds`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import watersmeet.aggregates as by_name
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.functions import Lifts
from proof.oracle.aggregates import RESULTS, aggregator_of, visible_result
from proof.oracle.windows.aggregation import Aggregator

OF_STREAMS = tuple(f"wm.{called}" for called in RESULTS)
OF_TABLES = tuple(f"wm.{called}" for called in RESULTS if called not in ("first", "last", "last_k"))


class Joined(by_name.Aggregate):
    """All values in their order, joined: a user's own aggregate, which keeps them as JSON."""

    state = result = "string"

    def init(self) -> Any:
        return "[]"

    def add(self, state: Any, value: Any) -> Any:
        return json.dumps([*json.loads(state), value])

    def subtract(self, state: Any, value: Any) -> Any:
        values = json.loads(state)
        # a group may not have had it: of a table whose past has ended
        if value in values:
            values.remove(value)
        return json.dumps(values)

    def merge(self, one: Any, other: Any) -> Any:
        return json.dumps(json.loads(one) + json.loads(other))

    def finish(self, state: Any) -> Any:
        return "/".join(json.loads(state))


def whole(value: str | None) -> str | None:
    """The text; null of "x"."""
    return None if value == "x" else value


def length(value: str | None) -> int | None:
    """Its length; null of "x", and 1 of many others."""
    return None if value is None or value == "x" else len(value)


def is_long(value: str | None) -> bool | None:
    """Whether it has more than a letter; null of "x"."""
    return None if value is None or value == "x" else len(value) > 1


_WHOLE = frozenset(("first", "last", "last_k", "collect_list", "min_by", "max_by", "top_k_by"))
"""Aggregates that show values as they are, of any type; the others are of the texts that values stand for."""
_LISTS = frozenset(("last_k", "collect_list", "collect_set", "top_k", "top_k_by"))
_ARGUMENTS: dict[str, tuple[Callable[..., Any], str]] = {
    **dict.fromkeys(("sum", "avg", "stddev", "percentile"), (length, "long")),
    **dict.fromkeys(("bool_and", "bool_or"), (is_long, "boolean")),
}
_PAIRS = frozenset(("min_by", "max_by", "top_k_by"))
_PARAMETERS: dict[str, dict[str, Any]] = {
    "last_k": {"k": 2},
    "top_k": {"k": 2},
    "top_k_by": {"k": 2},
    "percentile": {"p": 0.3},
}


def is_named(fold: str) -> bool:
    """Whether a fold is an aggregate of `agg`."""
    return fold.startswith("wm.")


def drawn(choices: Choices, names: tuple[str, ...], named: tuple[str, ...]) -> str:
    """A fold: now and then one of `agg`."""
    return choices.pick(named) if choices.chance(40) else choices.pick(names)


def handles(library: Lifts, grouped: Any, fold: str, **options: Any) -> Any:
    """`agg` of what is grouped, its result as text, so that any operator may stand behind it."""
    name = options.pop("name")
    called = fold.removeprefix("wm.")
    table = grouped.agg(it=_aggregate(library, called), **options)
    shown = partial(_as_text, library.shape.read_value if called in _WHOLE else _rounded, called)
    return table.map_values(library.lift(shown, "string"), name=name)


def aggregator(fold: str) -> Aggregator:
    """The oracle's."""
    called = fold.removeprefix("wm.")
    argument, _ = _ARGUMENTS.get(called, (whole, "string"))
    return aggregator_of((lambda value: (value, length(value))) if called in _PAIRS else argument)


def finish(fold: str) -> Callable[[Any], str]:
    """What the oracle shows of what it keeps, as text."""
    result = visible_result(RESULTS[fold.removeprefix("wm.")])
    return lambda kept: str(result(kept))


def _aggregate(library: Lifts, called: str) -> by_name.AnyAggregate:
    if called == "own":
        return Joined(library.lift(whole, "text"))
    function, kind = _ARGUMENTS.get(called, (whole, "string" if called in _WHOLE else "text"))
    if called in _PAIRS:
        # the value as it is, of "x" too, which is left out by what it is found by
        given: dict[str, Any] = {"value": lambda value: value, "by": library.lift(length, "long")}
    else:
        given = {"argument": library.lift(function, kind)}
    return by_name.AGGREGATES[called](**given, **_PARAMETERS.get(called, {}))


def _rounded(value: Any) -> Any:
    return round(value, 6) + 0.0 if isinstance(value, float) else value


def _as_text(read: Callable[[Any], Any], called: str, row: Any) -> str | None:
    if row is None:
        return None
    found = row["it"]
    return str(list(map(read, found)) if called in _LISTS else read(found))
