"""Windowed joins of streams in the engine against the oracle: recordings, and random histories."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.graph import Topology as OracleTopology
from proof.oracle.parts import stream
from proof.oracle.records import Result
from proof.oracle.semantics import Semantics
from proof.oracle.streams.stream_stream import StreamStreamJoin
from proof.oracle.topologies import join_spec
from proof.recordings import History, RecordedStep
from proof.runners.engine import EngineRunner
from tests.engine.stream_kit import METHOD, PLUS, histories, history_of, joined, repaired, run, steps_of
from tests.lengths import examples
from watersmeet.windows import JoinWindows

# 0.10.2 differs by the timestamp of results alone (section A row 19): see below.
FILES = (
    "stream_stream",
    "stream_stream.0.10.0.1",
    "stream_stream.0.10.1.1",
    "self_join",
    "rekey_stream_stream",
)


# -- recordings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.proof)])
@pytest.mark.parametrize("name", FILES)
def test_every_tenth_history_gives_what_the_repaired_rules_say_and_in_proofs_each(name: str, every: int) -> None:
    runner = EngineRunner()
    for history in histories(name, every=every):
        assert runner.supports(history) is None
        assert runner.run(history) == repaired(history), history.id


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("batches", "shards"),
    [
        pytest.param(batches, shards, marks=() if (batches, shards) in ((7, 9), (50, 1)) else pytest.mark.proof)
        for batches, shards in product([1, 2, 7, 50], [1, 2, 4, 9])
    ],
)
def test_batches_and_shards_change_nothing(name: str, batches: int, shards: int) -> None:
    for history in histories(name, every=151):
        size = max(1, -(-len(history.steps) // batches))
        assert EngineRunner(shards=shards, cuts=size).run(history) == repaired(history), history.id


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.proof)])
def test_0_10_2_differs_by_the_timestamp_of_results_alone(every: int) -> None:
    for history in histories("stream_stream.0.10.2.2", every=every):
        output = EngineRunner(cuts=7).run(history)
        assert output == repaired_with_largest_timestamps(history), history.id


def repaired_with_largest_timestamps(history: History) -> list[list[Result]]:
    """The recording, with the timestamp of each match the larger one of both records."""
    ts = {step.value: step.ts for step in history.steps}
    return [
        [Result(r.key, r.value, max(ts.get(v, 0) for v in str(r.value).split("+"))) for r in step.expect or ()]
        for step in history.steps
    ]


@pytest.mark.parametrize("cuts", [1, 3])
def test_rows_at_the_edge_of_what_is_visible_are_still_there_in_the_next_batch(cuts: int) -> None:
    found = [h for h in histories("findings") if h.kind in ("stream_stream", "self_join")]
    assert len(found) == 7
    for history in found:
        assert EngineRunner(cuts=cuts).run(history) == repaired(history), history.id


@pytest.mark.parametrize("size", [1, 4])
def test_a_partner_is_in_time_while_the_window_and_its_grace_last_and_not_a_millisecond_longer(
    size: int,
) -> None:
    windows = JoinWindows.of_time_difference_and_grace("10 ms", "5 ms")
    for moved, expected in ((15, ["a+b"]), (16, ["a+null", "a+b"])):
        driver = EngineDriver(joined("left", windows).build())
        steps = [("left", "k", "a", 0), ("right", "other", "x", moved), ("right", "k", "b", 10)]
        steps = [
            RecordedStep(topic, key, value, ts, ()) for topic, key, value, ts in [*steps, ("right", None, "y", 99)]
        ]
        assert [value for _, value, _ in run(driver, steps, size)] == expected


# -- random histories --------------------------------------------------------------------------------------

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b", "", None]),
        st.booleans(),
        st.sampled_from([0, 0, 1, 1, 2, 3, 5, 10, -1, -3, -8, -20, 30, 200]),
    ),
    max_size=40,
)
WINDOWS = st.tuples(st.integers(-6, 12), st.integers(-6, 12), st.integers(0, 8)).filter(lambda w: w[0] + w[1] >= 0)


@settings(max_examples=examples(150), deadline=None)
@given(RECORDS, WINDOWS, st.sampled_from(list(METHOD)), st.booleans(), st.integers(1, 40), st.integers(1, 4))
def test_any_window_gives_what_the_oracle_says(
    records: Any, window: tuple[int, int, int], how: str, eager: bool, size: int, shards: int
) -> None:
    history = history_of("stream_stream", how, window, eager, steps_of(records))
    assert EngineRunner(shards=shards, cuts=size).run(history) == repaired(history)


@settings(max_examples=examples(80), deadline=None)
@given(RECORDS, WINDOWS, st.sampled_from(list(METHOD)), st.integers(1, 40))
def test_a_self_join_gives_what_two_stores_would(
    records: Any, window: tuple[int, int, int], how: str, size: int
) -> None:
    steps = steps_of(records, {"left": "input", "right": "input"})
    history = history_of("self_join", how, window, False, steps)
    assert EngineRunner(cuts=size).run(history) == repaired(history)


def chained(how: str, second: str, window: tuple[int, int, int], wide: tuple[int, int, int]) -> Any:
    """(left how right) second third."""
    builder = arrow_builder("chained")
    left, right, third = (builder.stream(n, key="string", value="string") for n in ("left", "right", "third"))
    joined = getattr(left, METHOD[how])(right, PLUS, JoinWindows(*window))
    getattr(joined, METHOD[second])(third, PLUS, JoinWindows(*wide)).to("out")
    return builder


CHAINED = st.lists(
    st.tuples(
        st.sampled_from(["left", "right", "third"]),
        st.sampled_from(["a", "b"]),
        st.just(True),
        st.sampled_from([0, 1, 2, 3, 5, -1, -3, 12, 40]),
    ),
    max_size=30,
)


@settings(max_examples=examples(120), deadline=None)
@given(
    CHAINED,
    WINDOWS,
    WINDOWS,
    st.sampled_from(list(METHOD)),
    st.sampled_from(list(METHOD)),
    st.integers(1, 30),
)
def test_a_join_behind_a_join_keeps_the_time_of_the_sources(
    records: Any, window: Any, wide: Any, how: str, second: str, size: int
) -> None:
    oracle = OracleTopology(Semantics("4.3.0", faithful=False))
    specs = [
        join_spec({"type": h, "before_ms": w[0], "after_ms": w[1], "grace_ms": w[2]}, oracle.semantics)
        for h, w in ((how, window), (second, wide))
    ]
    first = StreamStreamJoin(oracle, (stream(oracle, "left"), stream(oracle, "right")), specs[0], text.plus)
    last = StreamStreamJoin(oracle, (first, stream(oracle, "third")), specs[1], text.plus)
    oracle.sink(last)
    driver = EngineDriver(chained(how, second, window, wide).build(), shards=3)
    steps = steps_of(records)
    expected = [r for step in steps for r in piped(oracle, step)]
    assert run(driver, steps, size) == [(r.key, r.value, r.ts) for r in expected]


def piped(oracle: OracleTopology, step: RecordedStep) -> list[Result]:
    return oracle.pipe(str(step.topic), step.key, step.value, step.ts)
