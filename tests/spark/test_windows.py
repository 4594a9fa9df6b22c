"""Windowed aggregates on Spark, their arguments Columns: kinds of windows side by side in one query."""

from __future__ import annotations

from pyspark.sql import functions as F

import millpond as mp
from millpond.testing import TopologyTestDriver

RECORDS = [("a", 1, 3), ("b", 5, 7), ("a", 4, 9), ("a", 2, 12), ("a", 9, 16), ("a", 7, 2)]


# key, start, end, value, ts
EXPECTED = {
    "tumbling": [
        ("a", 0, 10, 1, 3),
        ("b", 0, 10, 1, 7),
        ("a", 0, 10, 2, 9),
        ("a", 10, 20, 1, 12),
        ("a", 10, 20, 2, 16),
    ],
    "hopping": [
        ("a", 0, 10, (2, 1.0), 3),
        ("b", 0, 10, (10, 5.0), 7),
        ("b", 5, 15, (10, 5.0), 7),
        ("a", 0, 10, (10, 2.5), 9),
        ("a", 5, 15, (8, 4.0), 9),
        ("a", 5, 15, (12, 3.0), 12),
        ("a", 10, 20, (4, 2.0), 12),
        ("a", 10, 20, (22, 5.5), 16),
        ("a", 15, 25, (18, 9.0), 16),
    ],
    "sliding": [
        ("a", 0, 5, 1, 3),
        ("b", 2, 7, 1, 7),
        ("a", 4, 9, 1, 9),
        ("a", 4, 9, 1, 9),
        ("a", 10, 15, 1, 12),
        ("a", 7, 12, 2, 12),
        ("a", 13, 18, 1, 16),
        ("a", 11, 16, 2, 16),
    ],
    "session": [
        ("a", 3, 3, 1, 3),
        ("b", 7, 7, 5, 7),
        ("a", 9, 9, 4, 9),
        ("a", 9, 9, None, 9),
        ("a", 9, 12, 6, 12),
        ("a", 9, 12, None, 12),
        ("a", 9, 16, 15, 16),
    ],
    "final": [("a", 0, 10, 4, 9), ("b", 0, 10, 5, 7)],
}


def topology():
    builder = mp.StreamsBuilder("windowed")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    tumbling = mp.TimeWindows.of_size_and_grace("10 ms", "5 ms")
    grouped.windowed_by(tumbling).count().to("tumbling")
    grouped.windowed_by(mp.TimeWindows.of_size_with_no_grace("10 ms").advance_by("5 ms")).agg(
        total=mp.sum(lambda value: value * F.lit(2)), mean=mp.avg(lambda value: value)
    ).to("hopping")
    grouped.windowed_by(mp.SlidingWindows.of_time_difference_with_no_grace("5 ms")).count().to("sliding")
    sessions = grouped.windowed_by(mp.SessionWindows.of_inactivity_gap_with_no_grace("4 ms"))
    sessions.aggregate(lambda: F.lit(0), lambda value, sum: value + sum, lambda one, other: one + other).to("session")
    final = grouped.windowed_by(tumbling).emit_strategy(mp.EmitStrategy.on_window_close())
    final.reduce(lambda one, other: F.greatest(one, other)).to("final")
    return builder.build()


def results(driver, name):
    return [
        (r.key["key"], r.key["start"], r.key["end"], tuple(r.value) if isinstance(r.value, tuple) else r.value, r.ts)
        for r in driver.read(name)
    ]


def test_windows_of_every_kind_give_what_their_columns_say(spark):
    driver = TopologyTestDriver(topology(), spark)
    for key, value, ts in RECORDS:
        driver.pipe("in", key=key, value=value, ts=ts)
    assert {name: results(driver, name) for name in EXPECTED} == EXPECTED
