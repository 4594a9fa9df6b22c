"""What aggregates begin with: plain values, of the type that the aggregator says or of the one that they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from tests.engine.kit import by_step, driver_of
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import FunctionError
from watersmeet.windows import SessionWindows, TimeWindows

COUNTED = pa.struct([("n", pa.int64())])
COUNTS = pa.map_(pa.string(), pa.int64())
TEXTS = pa.list_(pa.string())
Build = Callable[[Any, Callable[[], Any], Any], Any]


def plain(stream: Any, initial: Callable[[], Any], add: Any) -> Any:
    return stream.group_by_key().aggregate(initial, add)


def by_window(stream: Any, initial: Callable[[], Any], add: Any) -> Any:
    return stream.group_by_key().windowed_by(TimeWindows(100, 100, 0)).aggregate(initial, add)


def by_session(stream: Any, initial: Callable[[], Any], add: Any) -> Any:
    grouped = stream.group_by_key().windowed_by(SessionWindows(100, 0))
    return grouped.aggregate(initial, add, python(lambda one, other: other, returns=add.returns))


def of_table(stream: Any, initial: Callable[[], Any], add: Any) -> Any:
    grouped = stream.to_table().group_by(lambda key, value: (key, value))
    return grouped.aggregate(initial, add, python(lambda value, aggregate: aggregate, returns=add.returns))


def cogrouped(stream: Any, initial: Callable[[], Any], add: Any) -> Any:
    return stream.group_by_key().cogroup(add).aggregate(initial)


BUILDS: tuple[Build, ...] = (plain, by_window, by_session, of_table, cogrouped)
FOLDS: list[tuple[Any, Any, Any, Any]] = [
    ({"n": 0}, COUNTED, lambda _, a: {"n": a["n"] + 1}, {"n": 2}),
    ({}, COUNTS, lambda v, a: {**a, v: a.get(v, 0) + 1}, {"x": 1, "y": 1}),
    ([], TEXTS, lambda v, a: [*a, v], ["x", "y"]),
    ((), TEXTS, lambda v, a: [*a, v], ["x", "y"]),
    (0, pa.float64(), lambda _, a: a + 1, 2.0),
    ({"m": {}, "l": [], "t": None}, pa.struct([("m", COUNTS), ("l", TEXTS), ("t", pa.string())]),
     lambda v, a: {"m": {**a["m"], v: 1}, "l": [*a["l"], v], "t": v},
     {"m": {"x": 1, "y": 1}, "l": ["x", "y"], "t": "y"}),
]  # fmt: skip


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("initial", "kind", "add", "expected"), FOLDS)
def test_a_plain_value_begins_an_aggregate_of_the_type_that_the_aggregator_says(
    build: Build, initial: Any, kind: Any, add: Any, expected: Any
) -> None:
    def made(builder: Any) -> Any:
        stream = builder.stream("in", key="string", value="string")
        return build(stream, lambda: initial, python(add, returns=kind))

    for cuts in (set[int](), {1}):
        said = by_step(driver_of(made), [("in", "k", "x", 1), ("in", "k", "y", 2)], cuts=cuts)
        (value,) = pa.array([said[-1][-1][1]], kind).to_pylist(maps_as_pydicts="strict")
        assert value == expected if build is not of_table else value is not None


@pytest.mark.parametrize(
    ("initial", "add", "expected"),
    [
        ({"n": 0}, python(lambda _, a: {"n": a["n"] + 1}), {"n": 2}),
        ([0], python(lambda _, a: [a[0] + 1]), [2]),
        ({"n": 0}, lambda _, a: pc.make_struct(pc.add(pc.struct_field(a, "n"), 1), field_names=["n"]), {"n": 2}),
    ],
)
def test_a_plain_value_shows_its_type_where_nothing_else_says_it(initial: Any, add: Any, expected: Any) -> None:
    driver = driver_of(lambda b: plain(b.stream("in", key="string", value="string"), lambda: initial, add))
    assert by_step(driver, [("in", "k", "x", 1), ("in", "k", "y", 2)])[-1] == [("k", expected, 2)]


@pytest.mark.parametrize("initial", [{}, [], {"m": {}}, {"t": None}, [1, "a"]])
def test_a_plain_value_that_does_not_show_its_type_is_answered_with_how_to_say_it(initial: Any) -> None:
    stream = arrow_builder("first").stream("in", key="string", value="string")
    with pytest.raises(FunctionError, match="does not say the type of the aggregate") as error:
        plain(stream, lambda: initial, python(lambda _, a: a))
    assert "wm.python(function, returns=" in str(error.value.hint)


@pytest.mark.parametrize(("initial", "kind"), [("x", pa.int64()), ({"m": 0}, COUNTED), (1.5, pa.int64()), ([], COUNTS)])
def test_a_plain_value_of_another_type_is_refused_where_it_is_written(initial: Any, kind: Any) -> None:
    stream = arrow_builder("first").stream("in", key="string", value="string")
    if initial == []:
        plain(stream, lambda: initial, python(lambda _, a: a, returns=kind))  # a map without pairs
        return
    with pytest.raises(FunctionError, match="initializer's value is not of the aggregate's type"):
        plain(stream, lambda: initial, python(lambda _, a: a, returns=kind))
