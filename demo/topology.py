"""The demo's topology: flights, scheduled and real, their airlines, and the planes that flew them.

One topology, one query, three outputs; the same whether its inputs are files or Kafka topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from demo.inputs import TABLES

OUTPUTS = ("departures", "flights-by-plane", "flights")
ENRICH = "departures-with-planes"
SERVED = ("flights", "schedule-with-actual")
"""Names of the tables that `--live` serves."""

KEYS = {"schedule": "flight", "actual": "flight", "planes": "tailnum", "airlines": "carrier"}
"""The name of each input's key, a string."""
VALUES = {
    "schedule": "carrier string, origin string, dest string, scheduled timestamp",
    "actual": "tailnum string, departed timestamp, delay int",
    "planes": "manufacturer string, model string, year int, seats int",
    "airlines": "name string",
}
"""The fields of each input's value."""


@dataclass(frozen=True)
class Ends:
    """Where a topology reads and writes.

    Parameters
    ----------
    tables : the arguments of `builder.table` for each input, of `builder.global_table` for the airlines.
    sinks : what each output is written to.
    """

    tables: dict[str, dict[str, Any]]
    sinks: dict[str, Any]


def build(ends: Ends, *, served: bool = False) -> wm.Topology:
    """The topology between these ends; if tables are served, those are kept whole."""
    builder = wm.StreamsBuilder("flights")
    for name, handle in results(builder, ends.tables, SERVED if served else (None, None)):
        handle.to(ends.sinks[name], name=name)
    return builder.build()


def results(
    builder: wm.StreamsBuilder, tables: dict[str, dict[str, Any]], stores: tuple[str | None, ...] = (None, None)
) -> Iterator[tuple[str, Any]]:
    """Each output and the handle of its records, over tables with these arguments."""
    schedule, actual, planes = (builder.table(name=name, **tables[name]) for name in TABLES[:3])
    airlines = builder.global_table(name="airlines", **tables["airlines"])

    # Each flight, with its real departure once it has left. A cancelled one is a tombstone in `actual`.
    departures = schedule.left_join(actual, departure, name="schedule-with-actual", store=stores[1])
    changes = departures.to_stream(name="departure-changes")
    yield "departures", changes

    # A flight that has not left, or never will, has no plane yet: its key here is null, and the join leaves
    # it out and counts it.
    by_plane = changes.select_key(lambda flight: flight["tailnum"], name="by-tailnum")
    flown = by_plane.join(planes, flight_and_plane, name=ENRICH)
    yield "flights-by-plane", flown

    # The same as a table, and of every flight: a plane that becomes known later changes the rows of all its flights.
    named = departures.left_join(airlines, with_airline, foreign_key=lambda flight: flight["carrier"], name="airline")
    flights = named.left_join(
        planes, with_plane, foreign_key=lambda flight: flight["tailnum"], name="plane", store=stores[0]
    )
    yield "flights", flights


def departure(flight: Column, scheduled: Column, actual: Column) -> Column:
    """A flight as scheduled, with its departure; the joiner of `departures`."""
    return F.struct(
        flight.alias("flight"),
        *[scheduled[name].alias(name) for name in ("carrier", "origin", "dest", "scheduled")],
        *[actual[name].alias(name) for name in ("tailnum", "departed", "delay")],
    )


def flight_and_plane(flight: Column, plane: Column) -> Column:
    """A departure with the plane that flew it; the joiner of `flights-by-plane`."""
    return F.struct(
        *[flight[name].alias(name) for name in ("flight", "origin", "dest", "departed", "delay")],
        *[plane[name].alias(name) for name in ("manufacturer", "model", "year", "seats")],
    )


def with_airline(flight: Column, airline: Column) -> Column:
    """A flight with the name of its airline instead of its code."""
    names = ("flight", "origin", "dest", "tailnum", "departed", "delay")
    return F.struct(airline["name"].alias("airline"), *[flight[name].alias(name) for name in names])


def with_plane(flight: Column, plane: Column) -> Column:
    """A flight with its plane, whose fields are null where it is not known; the joiner of `flights`."""
    return F.struct(
        *[flight[name].alias(name) for name in ("airline", "flight", "origin", "dest", "tailnum", "departed", "delay")],
        *[plane[name].alias(name) for name in ("manufacturer", "model", "year", "seats")],
    )


def between_files(spark: SparkSession, inputs: Path, out: Path) -> Ends:
    """From Parquet files, one of each input in a batch, to Parquet files."""
    tables = {}
    for name in TABLES:
        schema = f"{KEYS[name]} string, {VALUES[name]}, at timestamp"
        value = F.struct(*fields(name))
        if name == "actual":
            schema += ", cancelled boolean"
            value = F.when(~F.col("cancelled"), value)
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(inputs / name))
        tables[name] = {"source": stream, "key": KEYS[name], "value": value, "timestamp": "at"}
    return Ends(tables, {name: wm.Writer("parquet", path=str(out / name)) for name in OUTPUTS})


def between_topics() -> Ends:
    """From Kafka topics to Kafka topics: keys are strings, values JSON."""
    tables = {name: {"source": name, "key": "string", "value": wm.json(VALUES[name])} for name in TABLES}
    return Ends(tables, {name: wm.TopicSink(name, value="json") for name in OUTPUTS})


def fields(table: str) -> list[str]:
    """The names of the fields of an input's value."""
    return [field.split()[0] for field in VALUES[table].split(", ")]
