"""Windowed aggregates on Spark, their arguments Columns: kinds of windows side by side in one query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import SourceError
from watersmeet.testing.driver import TopologyTestDriver

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
    builder = wm.StreamsBuilder("windowed")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    tumbling = wm.TimeWindows.of_size_and_grace("10 ms", "5 ms")
    grouped.windowed_by(tumbling).count().to_stream().to("tumbling")
    grouped.windowed_by(wm.TimeWindows.of_size_with_no_grace("10 ms").advance_by("5 ms")).agg(
        total=wm.sum(lambda value: value * F.lit(2)), mean=wm.avg(lambda value: value)
    ).to_stream().to("hopping")
    grouped.windowed_by(wm.SlidingWindows.of_time_difference_with_no_grace("5 ms")).count().to_stream().to("sliding")
    sessions = grouped.windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("4 ms"))
    sessions.aggregate(lambda: F.lit(0), lambda value, sum: value + sum, lambda one, other: one + other).to_stream().to(
        "session"
    )
    final = grouped.windowed_by(tumbling).emit_strategy(wm.EmitStrategy.on_window_close())
    final.reduce(lambda one, other: F.greatest(one, other)).to_stream().to("final")
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


def joined_windows():
    builder = wm.StreamsBuilder("joined windows")
    stream = builder.stream("views", key="string", value="long")
    views = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("10 ms", "1 second")).count()
    titles = builder.table("titles", key="string", value="string")
    asked = builder.stream("asked", key="string", value="long")
    text = F.concat_ws

    def window(start):
        return F.struct(start.alias("start"), (start + F.lit(10).cast("long")).alias("end"))

    views.left_join(views, lambda now, then: text("/", now, then), shift=wm.previous(2)).to_stream().to("shifted")
    views.left_join(titles, lambda count, title: text(" ", title, count)).to_stream(key="start").to("titled")
    views.outer_join(views.filter(lambda count: count > 1), lambda all, many: text("/", all, many)).to_stream().to(
        "both"
    )
    back = views.join(views, lambda now, then: now - then, shift=window_of_next, keep="1 day", name="back")
    back.to_stream(key=lambda key, window: F.concat(key, window["start"])).to("back")
    asked.left_join(views, lambda start, count: count, window_of=window, keep="1 day").to("answered")
    pointers = builder.table("pointers", key="string", value="long")
    pointers.join(views, lambda start, count: count, window_of=window, keep="1 day").to("pointed")
    return builder.build()


def window_of_next(window):
    """The window of ten behind another one."""
    return F.struct(window["end"].alias("start"), (window["end"] + F.lit(10).cast("long")).alias("end"))


def test_joins_of_tables_by_window_give_what_their_columns_say(spark):
    driver = TopologyTestDriver(joined_windows(), spark)
    driver.pipe("pointers", key="a", value=20, ts=0)
    for ts in (1, 2, 21, 11):
        driver.pipe("views", key="a", value=0, ts=ts)
    driver.pipe("titles", key="a", value="A", ts=30)
    driver.pipe("asked", key="a", value=0, ts=31)
    driver.pipe("asked", key="a", value=50, ts=32)

    def read(name):
        return [(r.key[1] if isinstance(r.key, tuple) else r.key, r.value, r.ts) for r in driver.read(name)]

    assert read("shifted") == [(0, "1", 1), (0, "2", 2), (20, "1/2", 21), (10, "1", 11)]
    titled = [(0, "1", 1), (0, "2", 2), (20, "1", 21), (10, "1", 11)]
    assert read("titled") == [*titled, (0, "A 2", 30), (10, "A 1", 30), (20, "A 1", 30)]
    assert read("both") == [(0, "1", 1), (0, "1/2", 2), (0, "2/2", 2), (20, "1", 21), (10, "1", 11)]
    assert read("back") == [("a10", 0, 21), ("a0", 1, 11)]
    assert read("answered") == [("a", 2, 31), ("a", None, 32)]
    assert read("pointed") == [("a", 1, 21)]


@pytest.mark.parametrize("ts", [2**60, 2**62, 2**63 - 11, 2**63 - 1])
def test_a_timestamp_whose_window_64_bits_do_not_hold_is_refused_with_the_records_place(
    spark: SparkSession, ts: int
) -> None:
    builder = wm.StreamsBuilder("far")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    grouped.windowed_by(wm.TimeWindows(10, 10, 5)).count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "a", 1, ts=2**60 - 1)
    ((key, value),) = [(r.key, r.value) for r in driver.read("out")]
    assert (value, key["end"] - key["start"]) == (1, 10)
    driver.pipe("in", "a", 1, ts=ts)
    with pytest.raises(SourceError, match=rf"offset 1: {ts} ms") as refused:
        driver.read("out")
    assert "nanoseconds" in str(refused.value)
