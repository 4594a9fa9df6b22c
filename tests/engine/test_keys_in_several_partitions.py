"""A key whose records lie in several partitions, each of which has a time of its own (law 1; row 20 of section A).

What is kept belongs to the partition of its record, and is let go by that one's time, whoever looks it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proof.arrow import arrow_builder
from tests.engine.stream_kit import METHOD, PLUS
from tests.engine.test_places_of_held_results import CONCATENATED, Row, run
from watersmeet.windows import BufferConfig, EmitStrategy, JoinWindows, Suppressed, TimeWindows

WINDOWS = JoinWindows(10, 10, 0)
ROWS_AND_CUTS = [(), (1,), (2,), (3,), (4,), (1, 2, 3, 4)]


def join(how: str, rows: Sequence[Row], cuts: Sequence[int], shards: int) -> Any:
    builder = arrow_builder("several")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    getattr(s, METHOD[how])(r, PLUS, WINDOWS).to("out")
    (out,) = run(builder.build(), rows, [cut for cut in cuts if cut < len(rows)], shards, "out")
    return out


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", ROWS_AND_CUTS)
@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_record_that_is_met_from_another_partition_before_its_own_lets_it_go_is_not_unmatched(
    how: str, cuts: tuple[int, ...], shards: int
) -> None:
    """Partition 1 is late when it meets the row of partition 0, whose own time has not passed the window yet."""
    rows = [
        ("s", "k", "l60", 60, 0),
        ("r", "k", "r75", 75, 1),
        ("r", "k", "r65", 65, 1),
        ("s", "y", "y90", 90, 0),
        ("s", "z", "z91", 91, 1),
    ]
    alone = [("null+r75", 75)] if how == "outer" else []
    assert join(how, rows, cuts, shards) == [("l60+r65", 65), *alone]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", ROWS_AND_CUTS)
def test_rows_of_one_key_and_time_wait_each_for_the_time_of_their_own_partition(
    cuts: tuple[int, ...], shards: int
) -> None:
    rows = [("s", "k", "a60", 60, 0), ("s", "k", "b60", 60, 1), ("s", "x", "x80", 80, 1), ("s", "y", "y81", 81, 0)]
    assert join("left", rows, cuts, shards) == [("b60+null", 60), ("a60+null", 60)]


def windows_on_close(cuts: Sequence[int]) -> Any:
    """Partition 1 begins the window and closes it; then comes what partition 0 has held back."""
    builder = arrow_builder("window")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    windowed = s.left_join(r, PLUS, WINDOWS).group_by_key().windowed_by(TimeWindows(20, 20, 0))
    on_close = windowed.emit_strategy(EmitStrategy.on_window_close()).reduce(CONCATENATED)
    on_close.to_stream(key="key").to("out")
    rows = [("s", "k", "one", 60, 1), ("s", "k", "two", 61, 0), ("s", "x", "x", 130, 1), ("s", "y", "y", 131, 0)]
    (out,) = run(builder.build(), rows, cuts, 1, "out")
    return out


@pytest.mark.xfail(strict=True, reason="known gap: docs/semantics/differences.md, row 20")
def test_a_window_of_two_partitions_behind_a_join_does_not_depend_on_batches() -> None:
    assert windows_on_close(()) == windows_on_close((3,))


@pytest.mark.xfail(strict=True, reason="known gap: docs/semantics/differences.md, row 20")
def test_a_record_that_comes_to_a_window_that_another_partition_has_closed_is_in_a_result() -> None:
    """Partition 0 is behind: its record is in time there, but the window has been emitted."""
    builder = arrow_builder("lags")
    windowed = builder.stream("s", key="string", value="string").group_by_key().windowed_by(TimeWindows(20, 20, 0))
    on_close = windowed.emit_strategy(EmitStrategy.on_window_close()).reduce(CONCATENATED)
    on_close.to_stream(key="key").to("out")
    rows = [("s", "k", "one", 60, 1), ("s", "x", "x", 130, 1), ("s", "k", "two", 61, 0), ("s", "y", "y", 131, 0)]
    (out,) = run(builder.build(), rows, (2,), 1, "out")
    assert any("two" in value for value, _ in out)


def test_a_key_of_two_partitions_has_an_entry_of_suppress_in_each() -> None:
    """As each task of Kafka Streams has a buffer: the one of the partition whose time has moved on goes first."""
    builder = arrow_builder("suppress")
    stream = builder.stream("s", key="string", value="string")
    wait = Suppressed.until_time_limit("10 ms", BufferConfig.unbounded())
    stream.to_table(store="kept").suppress(wait).to_stream().to("out")
    rows: list[Row] = [
        ("s", "k", "first", 60, 1),
        ("s", "k", "second", 61, 0),
        ("s", "y", "y", 90, 0),
        ("s", "x", "x", 91, 1),
    ]
    for cuts in [(), (1,), (2,), (3,), (1, 2, 3)]:
        (out,) = run(builder.build(), rows, cuts, 3, "out")
        assert out == [("second", 61), ("first", 60)]
