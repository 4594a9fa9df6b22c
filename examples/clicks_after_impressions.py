"""A windowed join of two streams: which advertisement was clicked within ten seconds, and which was not.

    python examples/clicks_after_impressions.py

The impression of "tent" is told to be without a click only when no click can come any more: when the time of the input
has passed its window and the grace period.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

IMPRESSIONS = [("user-1", "boots", 1_000), ("user-2", "tent", 2_000), ("user-1", "lamp", 30_000)]
CLICKS = [("user-1", "boots", 4_000), ("user-2", "tent", 14_500)]


def outcome(impression: Column, click: Column) -> Column:
    """What was shown, and whether it was clicked."""
    return F.struct(impression["ad"], click["ad"].isNotNull().alias("clicked"))


def topology(impressions: DataFrame, clicks: DataFrame, output: Path) -> wm.Topology:
    """Impressions left-joined with the clicks of the ten seconds behind them."""
    builder = wm.StreamsBuilder("clicks-after-impressions")
    shown = builder.stream(
        impressions, name="impressions", key="user", value=F.struct("ad"), timestamp="at", order="at"
    )
    clicked = builder.stream(clicks, name="clicks", key="user", value=F.struct("ad"), timestamp="at", order="at")
    windows = wm.JoinWindows.of_time_difference_and_grace("10 seconds", "2 seconds").before("0 seconds")
    shown.left_join(clicked, outcome, windows).to(wm.Writer("parquet", path=str(output)), name="outcomes")
    return builder.build()


def run(spark: SparkSession, folder: Path) -> DataFrame:
    """The outcomes, in order of their timestamps."""
    schema = "user string, ad string, at long"
    made = topology(
        spark.createDataFrame(IMPRESSIONS, schema), spark.createDataFrame(CLICKS, schema), folder / "outcomes"
    )
    made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    return spark.read.parquet(str(folder / "outcomes")).orderBy("timestamp", "key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(wm.session("clicks after impressions"), Path(folder)).show(truncate=False)
