"""Changes held back through Spark: a table, and windows of each kind, in one run."""

from __future__ import annotations

from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

HELD = wm.BufferConfig.unbounded()


def test_suppressed_tables_and_windows_through_spark(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("suppressed")
    words = builder.stream("words", key="string", value="string")
    words.to_table().suppress(wm.Suppressed.until_time_limit("10 ms", HELD)).to("latest")
    grouped = words.group_by_key()
    close = wm.Suppressed.until_window_closes(HELD)
    grouped.windowed_by(wm.TimeWindows(10, 10, 0)).count().suppress(close).to_stream().to("windows")
    sessions = grouped.windowed_by(wm.SessionWindows(5, 0)).count()
    sessions.filter(lambda value: value > 1).suppress(close).to_stream().to("sessions")
    driver = TopologyTestDriver(builder.build(), spark)
    for key, value, ts in [("b", "1", 0), ("ab", "2", 1), ("b", "3", 4), ("b", "4", 12), ("ab", "5", 40)]:
        driver.pipe("words", key, value, ts=ts)
    said = {name: [(r.key, r.value, r.ts) for r in driver.read(name)] for name in ("latest", "windows", "sessions")}
    assert said["latest"] == [("b", "3", 4), ("ab", "2", 1), ("b", "4", 12)]
    windows = [(key["key"], key["start"], key["end"], count, ts) for key, count, ts in said["windows"]]
    assert windows == [("ab", 0, 10, 1, 1), ("b", 0, 10, 2, 4), ("b", 10, 20, 1, 12)]
    assert [(key["key"], key["start"], key["end"], count) for key, count, _ in said["sessions"]] == [("b", 0, 4, 2)]
