"""`wm.preview`: a stream or a table once, as a DataFrame of pandas."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import ConfigError


def test_a_preview_has_a_row_for_each_key_with_times_of_windows_as_timestamps_and_the_builder_goes_on(
    spark: SparkSession,
) -> None:
    rows = [("ann", "b1", 1_000), ("bob", "t1", 2_000), ("ann", "b2", 61_000), ("ann", "b1", 62_000)]
    clicks = spark.createDataFrame(rows, "customer string, product string, at long")
    builder = wm.StreamsBuilder("preview")
    stream = builder.stream(clicks, name="clicks", key="customer", timestamp="at", order="at")
    minutes = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 minute")).agg(n=wm.count())
    # by key and window, so that a plot draws one line
    looked = wm.preview(minutes)
    assert list(looked.columns) == ["key", "start", "end", "n"]
    assert looked["start"].dtype.kind == looked["end"].dtype.kind == "M"
    zone, minute = spark.conf.get("spark.sql.session.timeZone"), pd.Timedelta("1 minute")
    start = pd.Timestamp(0, tz="UTC").tz_convert(zone).tz_localize(None)
    assert looked.values.tolist() == [
        ["ann", start, start + minute, 1],
        ["ann", start + minute, start + 2 * minute, 2],
        ["bob", start, start + minute, 1],
    ]
    records = wm.preview(stream.filter(lambda click: click["product"] != F.lit("b1")))
    assert list(records.columns) == ["key", "product", "timestamp"]
    assert records["product"].tolist() == ["t1", "b2"]
    assert records["timestamp"].tolist() == [start + pd.Timedelta("2 s"), start + pd.Timedelta("61 s")]
    # the look has left nothing behind
    assert not builder.build().plan.sinks
    with pytest.raises(ConfigError, match=r"(?s)takes a stream or a table, and not 'clicks'.*wm.preview\(table\)"):
        wm.preview("clicks")
