"""A join takes the options of its own kind, and refuses all others: no option is passed over in silence."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from proof.arrow import arrow_builder
from tests.engine.kit import LIBRARY, PLUS, REF
from watersmeet.api.handle import CALLED, require_same_key, side_of
from watersmeet.api.joins import JOINS
from watersmeet.errors import TopologyError

TEXTS: dict[str, Any] = {"key": "string", "value": "string"}
WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])


def some_window(value: pa.Array) -> pa.Array:
    """No window of each row, of a window's type."""
    return pa.nulls(len(value), WINDOW)


OPTIONS: dict[str, Any] = {
    "windows": wm.JoinWindows.of_time_difference_with_no_grace("5 minutes"),
    "generation": "current",
    "grace": "1 minute",
    "key": REF,
    "foreign_key": REF,
    "window_of": some_window,
    "keep": "2 days",
    "shift": wm.previous(1),
}


def handles() -> dict[str, Any]:
    """A handle of each kind."""
    builder = arrow_builder("options")
    stream = builder.stream("stream", **TEXTS)
    hours = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 hour"))
    return {
        "stream": stream,
        "table": builder.table("table", history="1 hour", **TEXTS),
        "global": builder.global_table("global", **TEXTS),
        "wtable": hours.reduce(LIBRARY.lift(max, "string")),
    }


PAIRS = [(left, right) for left, joins in JOINS.items() for right in joins.kinds]
METHODS = ["join", "left_join", "outer_join"]


def ways(left: str, method: str) -> list[str]:
    """The options that a method of a handle has."""
    function = getattr(
        {"stream": wm.KStream, "table": wm.KTable, "global": wm.GlobalKTable, "wtable": wm.WTable}[left], method
    )
    return [name for name in inspect.signature(function).parameters if name in OPTIONS]


CASES = [
    (left, right, method, option)
    for left, right in PAIRS
    for method in METHODS
    if not (left == "global" and method == "outer_join")
    for option in (None, *ways(left, method))
]


@pytest.mark.parametrize(("left", "right", "method", "option"), CASES)
def test_a_join_takes_its_own_options_and_names_the_one_that_it_refuses(
    left: Any, right: Any, method: str, option: str | None
) -> None:
    kind, found = JOINS[left].kinds[right], handles()
    given = {name: OPTIONS[name] for name in kind.needs if name in ways(left, method)}
    given |= {} if option is None else {option: OPTIONS[option]}
    if left == "stream" and method == "outer_join":
        given["windows"] = OPTIONS["windows"]  # without which it cannot be called
    has_type = method.removesuffix("_join").replace("join", "inner") in kind.hows
    fits = has_type and set(given) <= {*kind.needs, *kind.takes} and not (method == "outer_join" and option == "shift")

    def call() -> Any:
        other = (
            found[left].filter(LIBRARY.lift(lambda _: True, "boolean")) if left == right == "stream" else found[right]
        )
        return getattr(found[left], method)(other, PLUS, **given)

    if fits:
        made = call()
        assert type(made) is type(found[left])
        assert made.name
        return
    with pytest.raises(TopologyError) as error:
        call()
    if not has_type:
        assert f"with the {CALLED[right]}" in error.value.message
    else:
        assert f"{option}={'' if callable(OPTIONS[str(option)]) else repr(OPTIONS[str(option)])}" in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_a_join_names_what_it_needs_and_was_not_given(left: Any, right: Any) -> None:
    kind, found = JOINS[left].kinds[right], handles()
    for name in kind.needs:
        given = {other: OPTIONS[other] for other in kind.needs if other != name} | (
            {"key": None} if left == "global" else {}
        )
        with pytest.raises(TopologyError, match=f"{name}=None"):
            found[left].join(found[right], PLUS, **given)


def test_handles_of_each_kind_are_refused_where_no_join_takes_them() -> None:
    found = handles()
    refused = [(left, right) for left in JOINS for right in found if right not in JOINS[left].kinds]
    assert len(refused) == 6
    for left, right in refused:
        options = {"key": REF} if left == "global" else {}
        with pytest.raises(TopologyError, match=f"and other is the {CALLED[right]} '") as error:  # type: ignore[index]
            found[left].join(found[right], PLUS, **options)
        assert error.value.hint


def test_types_that_differ_in_what_can_be_null_alone_are_told_with_it() -> None:
    one, other = (pa.struct([pa.field("a", pa.int64(), nullable=nullable)]) for nullable in (True, False))
    stream = handles()["stream"]
    sides = [
        replace(side, node=replace(side.node, shape=replace(side.node.shape, key=kind)))
        for side, kind in ((side_of(stream), one), (side_of(stream), other))
        if side is not None
    ]
    with pytest.raises(TopologyError, match=r"'stream' has struct<a: int64>, 'stream' has struct<a: int64 not null>"):
        require_same_key(*sides, "join")
