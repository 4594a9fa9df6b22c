"""Windows joined with their own past: the views of each page on each day beside those of the same day of last week.

    python examples/views_of_two_weeks.py

The counts by day are a WTable: a table whose rows have a page and a day. Joined with itself, shifted by seven days,
each day meets the one a week before it. A view that is reported late still counts, within twelve hours of grace.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

# a file for each report: number of the view, page, time
REPORTS = {
    "1-first-week.csv": [
        "1,home,2026-03-02T08:00:00Z",
        "2,home,2026-03-02T12:30:00Z",
        "3,shop,2026-03-02T13:00:00Z",
        "4,home,2026-03-03T09:00:00Z",
    ],
    "2-next-monday.csv": [
        "5,home,2026-03-09T07:00:00Z",
        "6,shop,2026-03-09T08:00:00Z",
        "7,home,2026-03-09T20:00:00Z",
        "8,home,2026-03-09T21:00:00Z",
    ],
    "3-next-tuesday.csv": [
        "9,home,2026-03-10T06:00:00Z",
        "10,shop,2026-03-09T23:30:00Z",
        "11,shop,2026-03-10T07:00:00Z",
        "12,shop,2026-03-09T01:00:00Z",
    ],
}


def day_of(window: Column) -> Column:
    """The date on which a window of a day begins."""
    return F.date_from_unix_date((window["start"] / 86_400_000).cast("int"))


def topology(clicks: DataFrame, output: Path) -> wm.Topology:
    """The views of each page and day, and those of the same day of the week before."""
    builder = wm.StreamsBuilder("views-of-two-weeks")
    stream = builder.stream(clicks, name="clicks", key="page", value="number", timestamp="at", order="number")
    days = wm.TimeWindows.of_size_and_grace("1 day", "12 hours")
    views = stream.group_by_key().windowed_by(days).count()
    compared = views.left_join(
        views, lambda today, before: F.struct(today.alias("views"), before.alias("week_before")), shift=wm.previous(7)
    )
    changes = compared.to_stream(key=lambda page, window: F.struct(page.alias("page"), day_of(window).alias("day")))
    changes.to(wm.Writer("parquet", path=str(output)), name="views")
    return builder.build()


def run(spark: SparkSession, folder: Path) -> DataFrame:
    """What stands in the end, by day and page; each file is a batch of its own."""
    reports = folder / "reports"
    reports.mkdir()
    for name, lines in REPORTS.items():
        (reports / name).write_text("\n".join(lines), encoding="utf-8")
        made = topology(read(spark, reports), folder / "views")
        made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    latest = wm.latest(spark.read.parquet(str(folder / "views")))
    return latest.select("key.page", "key.day", "value.*").orderBy("day", "page")


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The views in the files of a folder, those that come later too."""
    return spark.readStream.schema("number long, page string, at timestamp").csv(str(folder))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(wm.session("views of two weeks"), Path(folder)).show()
