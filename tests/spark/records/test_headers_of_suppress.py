"""What suppress sends has the headers of the record that caused the change, whatever batches and shards (law 1).

Each value is another one, and stands in its record's header too: so a result says itself which headers it must have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
LIMITED = wm.BufferConfig.max_records(2).emit_early_when_full()
UNLIMITED = wm.BufferConfig.unbounded()


def latest(stream: wm.KStream, windows: Any) -> Any:
    """The last value of each key and window."""
    return stream.group_by_key().windowed_by(windows).reduce(lambda before, value: value)


def of_table(stream: wm.KStream, buffer: wm.BufferConfig) -> Any:
    return stream.to_table().suppress(wm.Suppressed.until_time_limit("20 ms", buffer))


def of_windows(stream: wm.KStream, buffer: wm.BufferConfig) -> Any:
    windows = wm.TimeWindows.of_size_and_grace("10 ms", "5 ms")
    return latest(stream, windows).suppress(wm.Suppressed.until_time_limit("20 ms", buffer))


def of_closed_windows(stream: wm.KStream, buffer: wm.BufferConfig) -> Any:
    windows = wm.TimeWindows.of_size_and_grace("10 ms", "5 ms")
    return latest(stream, windows).suppress(wm.Suppressed.until_window_closes(UNLIMITED))


def topology(held: Callable[..., Any], buffer: wm.BufferConfig, *, headers: bool = True) -> wm.Topology:
    builder = wm.StreamsBuilder("held")
    stream = builder.stream("in", key="string", value="string", headers=headers)
    held(stream, buffer).to_stream().select_key(lambda value: value).to("out")
    return builder.build()


@pytest.mark.parametrize("held", [of_table, of_windows, of_closed_windows])
@pytest.mark.parametrize("buffer", [UNLIMITED, LIMITED], ids=["unlimited", "limited"])
def test_a_change_that_was_held_back_has_the_headers_of_the_record_that_caused_it(
    held: Callable[..., Any], buffer: wm.BufferConfig
) -> None:
    chance = random.Random(7)
    for shards in (1, 3):
        driver = TopologyTestDriver(topology(held, buffer), shards=shards)
        plain = TopologyTestDriver(topology(held, buffer, headers=False), shards=shards)
        ts, found, without = 0, 0, 0
        for number in range(60):
            ts = max(0, ts + chance.randint(-8, 12))
            driver.pipe("in", chance.choice("abcd"), f"{number}", ts=ts, headers=[("of", b"%d" % number)])
            plain.pipe("in", driver._cases[""][-1].key, f"{number}", ts=ts)
            if chance.random() < 0.3 or number == 59:
                results = driver.read("out")
                assert [r.headers for r in results] == [(("of", r.value.encode()),) for r in results]
                found += len(results)
                without += len(plain.read("out"))
        assert found == without > 8


def test_the_same_holds_on_spark_as_for_windows_that_close_and_unmatched_rows(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("held")
    stream = builder.stream("in", key="string", value="string", headers=True)
    of_table(stream, UNLIMITED).to_stream().to("suppressed")
    closing = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("10 ms"))
    last = closing.emit_strategy(wm.EmitStrategy.on_window_close()).reduce(lambda before, value: value)
    last.to_stream().select_key(lambda value: value).to("closed")
    never = stream.filter(lambda value: value == "none")
    windows = wm.JoinWindows.of_time_difference_with_no_grace("10 ms")
    stream.left_join(never, lambda one, other: one, windows).to("unmatched")
    driver = TopologyTestDriver(builder.build(), spark)
    for number, ts in enumerate((0, 5, 3, 90)):
        driver.pipe("in", "k", f"{number}", ts=ts, headers=[("of", b"%d" % number)])
    for output, values in (("suppressed", "2"), ("closed", "2"), ("unmatched", "021")):
        assert [(r.value, r.headers) for r in driver.read(output)] == [(v, (("of", v.encode()),)) for v in values]
