"""Windowed aggregates: how late flights left each airport in each hour, told when the hour is over.

    python examples/hourly_delays.py

An hour's result comes once, when the time of the input has passed its end by ten minutes: the flight of 8:55 that is
reported after 9:05 still counts, the one that is reported after 9:20 does not.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

# (number of the report, airport, departure, minutes of delay), as they were reported
FLIGHTS = [
    (1, "ATL", "2022-01-01T08:05:00Z", 0.0),
    (2, "ATL", "2022-01-01T08:40:00Z", 30.0),
    (3, "ORD", "2022-01-01T08:50:00Z", 12.0),
    (4, "ATL", "2022-01-01T09:05:00Z", 7.0),
    (5, "ATL", "2022-01-01T08:55:00Z", 15.0),
    (6, "ORD", "2022-01-01T09:20:00Z", 4.0),
    (7, "ATL", "2022-01-01T08:58:00Z", 90.0),
    (8, "ORD", "2022-01-01T10:15:00Z", 0.0),
]


def topology(flights: DataFrame, output: Path) -> wm.Topology:
    """The number of flights of each airport and hour, and their mean and largest delay."""
    builder = wm.StreamsBuilder("hourly-delays")
    departures = builder.stream(
        flights, name="flights", key="airport", value=F.struct("delay"), timestamp="departure", order="number"
    )
    hours = wm.TimeWindows.of_size_and_grace("1 hour", "10 minutes")
    final = wm.EmitStrategy.on_window_close()
    delays = (
        departures.group_by_key()
        .windowed_by(hours)
        .emit_strategy(final)
        .agg(
            flights=wm.count(), mean=wm.avg(lambda flight: flight["delay"]), most=wm.max(lambda flight: flight["delay"])
        )
    )
    delays.to_stream().to(wm.Writer("parquet", path=str(output)), name="delays")
    return builder.build()


def run(spark: SparkSession, folder: Path) -> DataFrame:
    """The delays, in order of hour and airport."""
    flights = spark.createDataFrame(FLIGHTS, "number long, airport string, departure string, delay double")
    departure = F.to_timestamp("departure")
    made = topology(flights.withColumn("departure", departure), folder / "delays")
    made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    return spark.read.parquet(str(folder / "delays")).orderBy("key.start", "key.key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(wm.session("hourly delays"), Path(folder)).show(truncate=False)
