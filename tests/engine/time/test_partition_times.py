"""What every shard is told of the records that move time: they read back as they were, and cost little."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lengths import examples
from watersmeet._engine import row_sizes
from watersmeet._engine.time import TimeUpdates, time_moves

LAG = 7
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=30)


def frame(rows: list[tuple[int, int]]) -> pa.Table:
    """Records (partition, ts) as a source's frame: order_ts is the furthest of the partition so far."""
    reached: dict[int, int] = {}
    order_ts = []
    for part, ts in rows:
        reached[part] = max(ts, reached.get(part, ts))
        order_ts.append(reached[part])
    columns = {"srcpart": [part for part, _ in rows], "order_ts": order_ts, "offset": range(len(rows))}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@settings(max_examples=examples(200), deadline=None)
@given(ROWS, st.integers(1, 5))
def test_the_first_record_of_each_time_of_each_partition_is_told_in_order_of_position(
    rows: list[tuple[int, int]], chunk: int
) -> None:
    whole = frame(rows)
    chunks = [time_moves(whole.slice(at, chunk)) for at in range(0, len(rows), chunk)]
    told = TimeUpdates.of(pa.concat_tables(row_sizes.decode(row_sizes.encode(each)) for each in chunks), LAG)
    got = list(zip(*(column.tolist() for column in told.position), told.time.tolist(), strict=True))
    assert got == sorted(got)
    first: dict[tuple[int, int], int] = {}
    for order_ts, part, offset, time in got:
        assert time == order_ts - LAG
        first.setdefault((order_ts, part), offset)
    moves: dict[tuple[int, int], int] = {}
    for row in whole.to_pylist():
        moves.setdefault((row["order_ts"], row["srcpart"]), row["offset"])
    assert first == moves


@settings(max_examples=examples(200), deadline=None)
@given(ROWS, st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 30)), st.integers(-1, 50))
def test_the_time_around_a_place_is_that_of_the_records_before_it_and_with_it(
    rows: list[tuple[int, int]], place: tuple[int, int, int], start: int
) -> None:
    told = TimeUpdates.of(time_moves(frame(rows)), 0)
    (before,), (through,) = told.around([np.array([number]) for number in place], start)
    positions = list(zip(*(column.tolist() for column in told.position), strict=True))
    assert before == max([start, *(each[0] for each in positions if each < place)])
    assert through == max([start, *(each[0] for each in positions if each <= place)])


def test_an_orderly_stream_costs_two_bytes_for_each_time_at_most() -> None:
    rows = [(0, int(ts)) for ts in np.cumsum(np.random.default_rng(1).integers(1, 9, 50_000))]
    assert len(row_sizes.encode(time_moves(frame(rows)))) < 2 * len(rows)
