"""Users' own aggregates: of streams, tables and windows, and what is said where they are not whole."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet.aggregates as wm
from proof.arrow import arrow_builder
from tests.engine.kit import by_step, driver_of
from watersmeet._engine.aggregates.registry import how_it_runs
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows

STEPS = st.lists(
    st.tuples(st.just("in"), st.sampled_from("abc"), st.sampled_from([None, 1, 2, 4, 8]), st.integers(0, 30)),
    max_size=20,
)
CUTS = st.frozensets(st.integers(0, 20))


class Log(wm.Aggregate):
    """All values in their order, as text: it changes the states that it gets."""

    state, result = "string", "string"
    between: ClassVar[str] = ","

    def init(self) -> Any:
        return ""

    def add(self, state: Any, value: Any) -> Any:
        return f"{state}{value}{self.between}"

    def subtract(self, state: Any, value: Any) -> Any:
        return state.replace(f"{value}{self.between}", "", 1)

    def merge(self, one: Any, other: Any) -> Any:
        return one + other


class Values(Log):
    """The same as a list, which is changed where it lies."""

    state, result = pa.list_(pa.int64()), pa.list_(pa.int64())

    def init(self) -> Any:
        return []

    def add(self, state: Any, value: Any) -> Any:
        state.append(value)
        return state

    def subtract(self, state: Any, value: Any) -> Any:
        state.remove(value)
        return state

    def merge(self, one: Any, other: Any) -> Any:
        one.extend(other)
        return one


def it(value: Any) -> Any:
    return value


def both(own: Any) -> Any:
    """A user's own aggregate beside what it has to be."""
    return {"own": own, "n": wm.count(), "all": wm.collect_list(it)}


def agree(said: list[Any]) -> None:
    for results in said:
        for _, value, _ in results:
            if value is not None:
                wanted = value["all"]
                assert value["own"] == (wanted if isinstance(value["own"], list) else "".join(f"{v}," for v in wanted))


@pytest.mark.parametrize("own", [Log, Values])
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cuts=CUTS, closing=st.booleans())
@pytest.mark.parametrize(
    "windows", [None, TimeWindows(10, 5, 3), SlidingWindows(6, 3), SessionWindows(4, 3)], ids=lambda w: type(w).__name__
)
def test_of_a_stream_and_its_windows_it_is_what_its_functions_make_of_the_records_in_their_order(
    own: type[wm.Aggregate], windows: Any, steps: Any, cuts: Any, closing: bool
) -> None:
    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="long").group_by_key()
        if windows is None:
            return grouped.agg(**both(own()))
        windowed = grouped.windowed_by(windows).emit_strategy(EmitStrategy(closing))
        return windowed.agg(**both(own(it))).to_stream()

    agree(by_step(driver_of(build), steps, cuts))


@pytest.mark.parametrize("own", [Log, Values])
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cuts=CUTS)
def test_of_a_table_it_takes_back_what_leaves_a_group(own: type[wm.Aggregate], steps: Any, cuts: Any) -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="long")
        return table.group_by(lambda key, value: (key.cast("string"), value)).agg(**both(own(it)))

    agree(by_step(driver_of(build), steps, cuts))


def grouped() -> Any:
    return arrow_builder("test").stream("in", key="string", value="long").group_by_key()


class Bare(wm.Aggregate):
    """It can add, and nothing else."""

    state = result = "long"

    def init(self) -> Any:
        return 0

    def add(self, state: Any, value: Any) -> Any:
        return state + value


def test_what_is_missing_is_said_where_the_aggregate_is_used() -> None:
    table = arrow_builder("test").table("in", key="string", value="long").group_by(lambda key, value: (key, value))
    sessions = grouped().windowed_by(SessionWindows(5, 5))
    grouped().agg(own=Bare())
    grouped().windowed_by(SlidingWindows(5, 5)).agg(own=Bare())
    with pytest.raises(TopologyError, match=r"Bare.merge is missing(.|\n)*Hint: Write def merge"):
        sessions.agg(own=Bare())
    with pytest.raises(TopologyError, match=r"Bare.subtract is missing(.|\n)*Hint: Write def subtract"):
        table.agg(own=Bare())
    with pytest.raises(TopologyError, match=r"Aggregate.state is None"):
        grouped().agg(own=wm.Aggregate())
    with pytest.raises(TopologyError, match=r"not the class Bare(.|\n)*own=Bare"):
        grouped().agg(own=Bare)


def test_what_is_not_of_the_declared_type_is_said_where_the_aggregate_is_used() -> None:
    def variant(**functions: Any) -> Any:
        return type("Variant", (Bare,), functions)()

    with pytest.raises(FunctionError, match=r"Variant.init returns 'x'(.|\n)*Variant.state: int64"):
        grouped().agg(own=variant(init=lambda self: "x"))
    with pytest.raises(FunctionError, match=r"Variant.init returns None"):
        grouped().agg(own=variant(init=lambda self: None))
    with pytest.raises(FunctionError, match=r"Variant.finish returns 0.5(.|\n)*Variant.result: int64"):
        grouped().agg(own=variant(finish=lambda self, state: state + 0.5))
    with pytest.raises(FunctionError, match=r"Variant.finish raises ZeroDivisionError"):
        grouped().agg(own=variant(finish=lambda self, state: 1 // state))
    with pytest.raises(FunctionError, match=r"Variant.merge returns 'x'"):
        grouped().windowed_by(SessionWindows(5, 5)).agg(own=variant(merge=lambda self, one, other: "x"))


def test_a_record_for_which_it_raises_fails_the_query_or_is_left_out_as_the_policy_says() -> None:
    def build(builder: Any, **options: Any) -> Any:
        made = type("Picky", (Bare,), {"add": lambda self, state, value: state + 8 // (value - 2)})
        table = builder.stream("in", key="string", value="long").group_by_key().agg(own=made(), name="picky")
        if options:
            builder.policies("picky", **options)
        return table

    steps = [("in", "a", 3, 0), ("in", "a", 2, 1), ("in", "a", 4, 2)]
    with pytest.raises(FunctionError, match=r"Picky.add raises ZeroDivisionError"):
        by_step(driver_of(build), steps)
    skipping = driver_of(lambda builder: build(builder, on_error="skip"))
    assert by_step(skipping, steps) == [[("a", {"own": 8}, 0)], [], [("a", {"own": 12}, 2)]]


def test_what_add_gives_is_of_the_declared_type_or_an_error_that_names_it() -> None:
    made = type("Half", (Bare,), {"add": lambda self, state, value: state + value / 2})
    driver = driver_of(lambda b: b.stream("in", key="string", value="long").group_by_key().agg(own=made()))
    assert by_step(driver, [("in", "a", 2, 0)]) == [[("a", {"own": 1}, 0)]]
    driver.pipe("in", "a", 1, ts=1)
    with pytest.raises(FunctionError, match=r"Half.add returns 1.5, which is not of the type of Half.state: int64"):
        driver.run_batch()


def test_it_is_described_by_its_class_and_has_parameters_of_its_own() -> None:
    class Power(wm.Aggregate):
        state = result = "double"

        def __init__(self, argument: Any, power: float) -> None:
            super().__init__(argument)
            self.power = power

        def init(self) -> Any:
            return 0.0

        def add(self, state: Any, value: Any) -> Any:
            return state + math.pow(value, self.power)

    builder = arrow_builder("test")
    builder.stream("in", key="string", value="long").group_by_key().agg(own=Power(it, 2.0), n=wm.count()).to("out")
    assert "own=Power n=count" in builder.build().describe()
    driver = driver_of(lambda b: b.stream("in", key="string", value="long").group_by_key().agg(own=Power(it, 2.0)))
    assert by_step(driver, [("in", "a", 3, 0), ("in", "a", 4, 1)])[-1] == [("a", {"own": 25.0}, 1)]


class NoEights(Log):
    """It raises for one value."""

    def add(self, state: Any, value: Any) -> Any:
        if value == 8:
            raise ValueError(value)
        return super().add(state, value)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, cuts=CUTS)
@pytest.mark.parametrize(
    "windows", [None, TimeWindows(10, 5, 30), SlidingWindows(6, 30), SessionWindows(4, 30)], ids=lambda w: str(type(w))
)
def test_a_record_that_is_left_out_since_it_raises_is_in_no_window_and_no_other_aggregate(
    windows: Any, steps: Any, cuts: Any
) -> None:
    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="long").group_by_key()
        builder_of = grouped if windows is None else grouped.windowed_by(windows)
        table = builder_of.agg(**both(NoEights()), name="picky")
        builder.policies("picky", on_error="skip")
        return table if windows is None else table.to_stream()

    said = by_step(driver_of(build), steps, cuts)
    agree(said)
    assert not any(8 in value["all"] for results in said for _, value, _ in results if value is not None)
    assert [results == [] for results in said] == [step[2] in (None, 8) for step in steps]


def test_describe_says_that_it_is_called_record_by_record() -> None:
    builder = arrow_builder("test")
    node = builder.stream("in", key="string", value="long").group_by_key().agg(own=Bare(), n=wm.count())._node
    assert how_it_runs(node.fold) == "own as plain Python, record by record"
