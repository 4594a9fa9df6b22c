"""How far a side's rows reach, told to every shard: exact to the millisecond, and small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.engine import EngineDriver
from proof.recordings import RecordedStep
from proof.runners.engine import EngineRunner
from tests.engine.stream_kit import METHOD, history_of, joined, repaired, run, steps_of
from tests.lengths import examples
from watersmeet._engine import row_sizes
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.rows import LET_GO, Int64s
from watersmeet._engine.time import Steps, bounds_by_case, furthest_before
from watersmeet.windows import JoinWindows


def edge(
    ts: list[int],
    order_ts: list[int],
    srcpart: list[int],
    path: list[int] | None = None,
    let_go: list[bool] | None = None,
) -> pa.Table:
    count = len(ts)
    paths = {"p0": [-LET_GO * gone for gone in let_go or [False] * count], "p1": path or [0] * count}
    numbers = {"order_ts": order_ts, "srcpart": srcpart, "offset": range(count), **paths, "ts": ts}
    columns = {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
    keys = pa.array(["k"] * count)
    return pa.table(columns | {"hash": hash_keys(keys), "key": keys, "value": keys})


def told(rows: pa.Table) -> pa.Table:
    ((_, table),) = bounds_by_case(rows, None, 2)
    return table


NUMBERS = st.one_of(st.integers(-3, 3), st.integers(0, 400), st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from([0, 7]), NUMBERS, st.booleans()), min_size=1))
def test_what_is_told_reads_back_as_it_was(rows: list[tuple[int, int, int, bool]]) -> None:
    ts, srcpart, path, gone = (list(column) for column in zip(*rows, strict=True))
    order_ts = np.maximum.accumulate(ts).tolist()
    steps = Steps(told(edge(ts, order_ts, srcpart, path, gone)), 2)
    expected: dict[int, list[tuple[int, ...]]] = {}
    furthest: dict[int, int] = {}
    for at in sorted(range(len(rows)), key=lambda n: (order_ts[n], srcpart[n], n)):
        part = (path[at] if gone[at] else srcpart[at]) % 2**32  # the rest says which source or operator
        if ts[at] > furthest.get(part, -1):
            furthest[part] = ts[at]
            expected.setdefault(part, []).append((order_ts[at], srcpart[at], at, -LET_GO * gone[at], path[at], ts[at]))
    got = zip(*steps.position, steps.reach, strict=True)
    wanted = [row for part in sorted(expected) for row in expected[part]]
    assert [tuple(map(int, row)) for row in got] == wanted
    assert steps.partition.tolist() == [part for part in sorted(expected) for _ in expected[part]]


def test_an_orderly_stream_with_a_record_every_few_milliseconds_costs_two_bytes_a_record() -> None:
    ts = np.cumsum(np.random.default_rng(1).integers(1, 9, 50_000)).tolist()
    small = len(row_sizes.encode(told(edge(ts, ts, [3] * len(ts))))) - len(row_sizes.encode(told(edge([1], [1], [3]))))
    assert small < 2 * len(ts)


def test_the_furthest_before_an_event_is_that_of_earlier_steps() -> None:
    def numbers(*values: int) -> Int64s:
        return np.array(values, dtype=np.int64)

    found = furthest_before(numbers(6, 1, 3), numbers(20, 5, 9), numbers(0, 2, 4, 7), 7)
    assert found.tolist() == [7, 7, 9, 20]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("reach", "late"), [(9_999, ["a+b"]), (10_000, [])])
def test_a_late_record_meets_what_the_other_side_shows_and_not_a_millisecond_longer(
    reach: int, late: list[str], size: int
) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace("5 seconds")
    for number in range(6):  # the other key lies in one shard or another
        driver = EngineDriver(joined("inner", windows).build(), shards=4)
        records = [("left", "k", "a", 0), ("left", f"other-{number}", "x", reach), ("right", "k", "b", 5_000)]
        steps = [RecordedStep(topic, key, value, ts, ()) for topic, key, value, ts in records]
        assert [value for _, value, _ in run(driver, steps, size)] == late


SECONDS = st.tuples(st.integers(-6, 12), st.integers(-6, 12), st.integers(0, 8)).filter(lambda w: w[0] + w[1] >= 0)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b"]),
        st.just(True),
        st.tuples(st.sampled_from([0, 1, 2, 5, 10, -3, -8, -20, 30]), st.sampled_from([-1, 0, 0, 1])),
    ),
    max_size=30,
)


@settings(max_examples=examples(120), deadline=None)
@given(RECORDS, SECONDS, st.sampled_from(list(METHOD)), st.integers(1, 30), st.integers(1, 4))
def test_windows_of_seconds_are_exact_to_the_millisecond(
    records: Any, window: tuple[int, int, int], how: str, size: int, shards: int
) -> None:
    before, after, grace = (1000 * part for part in window)
    timed = [(topic, key, there, 1000 * second + odd) for topic, key, there, (second, odd) in records]
    history = history_of("stream_stream", how, (before, after, grace), False, steps_of(timed, start=20_000))
    assert EngineRunner(shards=shards, cuts=size).run(history) == repaired(history)
