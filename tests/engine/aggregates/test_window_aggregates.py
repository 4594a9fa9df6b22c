"""Aggregates by window through the engine, beside the oracle, whatever the batches and shards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle.graph import Node
from proof.oracle.parts import window_aggregate
from proof.oracle.records import Windowed
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator
from tests.engine.kit import PLUS, by_step, driver_of, run
from tests.lengths import examples
from watersmeet._engine.aggregates import contributions
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import TopologyError
from watersmeet.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

KEYS = st.sampled_from(["a", "b", "é", None])
VALUES = st.sampled_from(["1", "2", "3", None])
STEPS = st.lists(st.tuples(st.just("in"), KEYS, VALUES, st.integers(0, 60)), max_size=30)
CUTS = st.frozensets(st.integers(0, 30))
WINDOWS = {
    "tumbling": (TimeWindows(10, 10, 5), {"window": "tumbling", "size_ms": 10, "grace_ms": 5}),
    "hopping": (TimeWindows(10, 3, 0), {"window": "hopping", "size_ms": 10, "advance_ms": 3}),
    "sliding": (SlidingWindows(7, 3), {"window": "sliding", "difference_ms": 7, "grace_ms": 3}),
    "session": (SessionWindows(4, 6), {"window": "session", "gap_ms": 4, "grace_ms": 6}),
}


VANISHING = Aggregator(
    lambda: "0",
    lambda aggregate, value: None if value == "3" else f"{aggregate}+{value}",
    merge=lambda one, other: f"{one}&{other}",
)
FOLDS = AGGREGATORS | {"vanishing": VANISHING}


def folded(grouped: Any, name: str) -> Any:
    fold = FOLDS[name]
    if name == "count":
        return grouped.count()
    if fold.initial is None:
        return grouped.reduce(python(fold.add))
    steps = [python(lambda value, aggregate: fold.add(aggregate, value))]
    if type(grouped).__name__ == "SessionWindowedKStream":
        steps.append(python(fold.merge))
    return grouped.aggregate(fold.initial, *steps)


def windowed(rows: Any) -> Any:
    """Keys as the oracle has them."""
    return [[(Windowed(**key), value, ts) for key, value, ts in step] for step in rows]


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=STEPS,
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    windows=st.sampled_from(sorted(WINDOWS)),
    name=st.sampled_from(["count", "reduce", "log", "vanishing"]),
    on_close=st.booleans(),
    stretch=st.sampled_from([3, contributions.MOST_ROWS]),
)
@example(  # one record's null makes two windows vanish
    steps=[("in", "a", "1", 0), ("in", "a", "3", 1), ("in", "a", "1", 0)],
    cuts=frozenset(),
    shards=1,
    windows="sliding",
    name="vanishing",
    on_close=False,
    stretch=3,
)
def test_windows_give_what_one_record_at_a_time_gives(
    steps: Any, cuts: Any, shards: int, windows: str, name: str, on_close: bool, stretch: int
) -> None:
    ours, told = WINDOWS[windows]
    topology = Topology(Semantics(faithful=False))
    source = Node()
    topology.source("in", source)
    params = told | ({"emit": "close"} if on_close else {})
    topology.sink(window_aggregate(topology, source, params, FOLDS[name]))

    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(ours)
        return folded(grouped.emit_strategy(EmitStrategy(on_close)), name)

    driver = driver_of(build)
    driver.shards = shards
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contributions, "MOST_ROWS", stretch)
        said = windowed(by_step(driver, steps, cuts))
    assert said == [[(r.key, r.value, r.ts) for r in topology.pipe(*step)] for step in steps]


def test_an_unlimited_window_begins_where_it_is_said_to_and_never_ends() -> None:
    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="string").group_by_key()
        return grouped.windowed_by(UnlimitedWindows.of().start_on(10)).count()

    said = run(
        driver_of(build), ("in", "a", "x", 9), ("in", "a", "x", 10), ("in", "a", "x", 10**12), ("in", "a", "y", 11)
    )
    key = {"key": "a", "start": 10, "end": 2**63 - 1}
    assert said == [(key, 1, 10), (key, 2, 10**12), (key, 3, 10**12)]


def test_what_never_closes_cannot_be_emitted_on_close() -> None:
    grouped = arrow_builder("never").stream("in", key="string", value="string").group_by_key()
    by_update = grouped.windowed_by(UnlimitedWindows.of()).emit_strategy(EmitStrategy.on_window_update())
    with pytest.raises(TopologyError, match="UnlimitedWindows never do") as error:
        by_update.emit_strategy(EmitStrategy.on_window_close())
    assert error.value.hint is not None
    assert "on_window_update()" in error.value.hint


@pytest.mark.parametrize("windows", [TimeWindows(10, 5, 5), SessionWindows(4, 6)], ids=["hopping", "session"])
def test_state_goes_when_windows_and_grace_have_passed(windows: Any) -> None:
    driver = driver_of(
        lambda b: b.stream("in", key="string", value="string").group_by_key().windowed_by(windows).count(store="n"),
        shards=1,
    )
    most = 0
    for hour in range(60):
        run(driver, *(("in", f"k{n % 7}", "x", hour * 50 + n) for n in range(50)))
        most = max(most, sum(len(blob) for store in driver.stores.values() for blob in store.chunks.values()))
    assert most < 40_000


def test_a_late_record_is_counted_once_however_many_of_its_windows_are_closed() -> None:
    driver = driver_of(
        lambda b: (
            b.stream("in", key="string", value="string")
            .group_by_key()
            .windowed_by(TimeWindows(10, 2, 0))
            .count(name="n")
        )
    )
    run(driver, ("in", "a", "x", 100), ("in", "a", "late", 90), ("in", "a", "partly", 95))
    assert driver.drops["n", "expired_window"] == 2


def test_a_record_that_belongs_to_no_window_is_counted() -> None:
    since = UnlimitedWindows(5)
    driver = driver_of(
        lambda b: b.stream("in", key="string", value="string").group_by_key().windowed_by(since).count(name="n")
    )
    run(driver, ("in", "a", "before", 4), ("in", "a", "within", 5), ("in", "b", "before", 0), ("in", "c", None, 1))
    assert +driver.drops == {("n", "no_window"): 2, ("n", "null_value"): 1}


@pytest.mark.parametrize("windows", [TimeWindows(10, 10, 5), SessionWindows(4, 6)], ids=["tumbling", "session"])
def test_with_the_record_cache_a_window_gives_one_change_and_none_if_it_is_gone_within_the_batch(windows: Any) -> None:
    builder = arrow_builder("test")
    builder.stream("in", key="string", value="string").group_by_key().windowed_by(windows).count().to_stream().to("out")
    driver = EngineDriver(builder.build(), record_cache=True)
    said = run(driver, ("in", "a", "x", 0), ("in", "a", "y", 3), ("in", "b", "z", 4), ("in", "a", "w", 7))
    if isinstance(windows, TimeWindows):
        assert said == [({"key": "b", "start": 0, "end": 10}, 1, 4), ({"key": "a", "start": 0, "end": 10}, 3, 7)]
    else:
        assert said == [({"key": "b", "start": 4, "end": 4}, 1, 4), ({"key": "a", "start": 0, "end": 7}, 3, 7)]


@pytest.mark.parametrize("first", ["of the source", "of a join"])
def test_of_windows_that_close_at_one_moment_those_of_the_operator_written_first_come_first(first: str) -> None:
    def closed(stream: Any) -> Any:
        grouped = stream.group_by_key().windowed_by(TimeWindows(10, 10, 0)).emit_strategy(EmitStrategy(True))
        return grouped.reduce(python(lambda one, other: f"{one}&{other}"))

    def build(builder: Any) -> None:
        one, other = (builder.stream(name, key="string", value="string") for name in ("in", "other"))
        made = {"of the source": one, "of a join": one.join(other, PLUS, windows=JoinWindows(5, 5, 0))}
        results = [closed(made[name]) for name in sorted(made, key=lambda name: name != first)]
        for result in results:
            result.to_stream().to("out")

    steps = [("in", "k", "x", 0), ("other", "k", "y", 1), ("in", "z", "end", 100), ("other", "z", "end", 100)]
    said = [value for _, value, _ in run(driver_of(build, shards=3), *steps)]
    assert said == (["x", "x+y"] if first == "of the source" else ["x+y", "x"])


def test_an_emit_strategy_is_one_of_the_two_and_not_a_name() -> None:
    grouped = arrow_builder("test").stream("in", key="string", value="long").group_by_key()
    windowed = grouped.windowed_by(TimeWindows(10, 10, 0))
    for wrong in ("on_window_update", "on_window_close", None, 1):
        with pytest.raises(TopologyError, match=r"on_window_update\(\)"):
            EmitStrategy(wrong)
        with pytest.raises(TopologyError, match=r"on_window_close\(\)"):
            windowed.emit_strategy(wrong)


def test_durations_that_could_carry_a_time_past_64_bits_are_refused() -> None:
    longest = 2**60 - 1
    assert TimeWindows(longest, longest, longest).size_ms == longest
    for make in (
        lambda: TimeWindows(longest + 1, 1, 0),
        lambda: SessionWindows(1, longest + 1),
        lambda: SlidingWindows.of_time_difference_and_grace(f"{longest + 1} ms", "1 ms"),
        lambda: JoinWindows.of_time_difference_with_no_grace("9999999999999 weeks"),
    ):
        with pytest.raises(TopologyError, match="too long"):
            make()
