"""Views of global tables that keep their rows: read by the driver, from a checkpoint, served, and by processors."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet.testing import TopologyTestDriver

STORES = ("named", "placed")
TABLES = ("cities", "countries", "continents")
Rows = dict[Any, str]


def pair(left: Column, right: Column) -> Column:
    return F.concat_ws("+", left, right)


def number_of(value: Column) -> Column:
    """The key that a value refers to: the number behind its last letter."""
    return F.regexp_extract(value, r"(\d+)$", 1).cast("long")


class Told:
    """Sends the view's row for each record's key."""

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=str(context.global_table("placed").get(record.key)))


def declared(b: wm.StreamsBuilder, cities: Any, countries: Any, continents: Any, asked: Any, outs: Any) -> wm.Topology:
    """A view, and one whose left side it is, with stores; looked up, and read by a processor."""
    named = cities.left_join(countries, pair, key=number_of, name="named", store="named")
    placed = named.join(continents, pair, key=number_of, name="placed", store="placed")
    asked.left_join(placed, pair, key=lambda key, value: key, name="looked up").to(outs[0], name="out0")
    asked.process_values(Told, value="string", tables=[placed], name="told").to(outs[1], name="out1")
    return b.build()


def joined(left: Rows, right: Rows, how: str) -> Rows:
    """The same of plain rows."""
    matches = {key: right.get(int(value[-1])) for key, value in left.items()}
    rows = {key: "+".join(part for part in (left[key], row) if part) for key, row in matches.items()}
    return {key: row for key, row in rows.items() if matches[key] is not None or how == "left"}


def views(rows: dict[str, Rows]) -> dict[str, Rows]:
    named = joined(rows["cities"], rows["countries"], "left")
    return {"named": named, "placed": joined(named, rows["continents"], "inner")}


def changes(dice: Random, rows: dict[str, Rows], count: int) -> list[tuple[str, int, str | None]]:
    """Random changes, told to the rows, too."""
    drawn = []
    for number in range(count):
        name, key = dice.choice(TABLES), dice.randrange(6)
        value = None if dice.random() < 0.25 else f"{name[:2]}{number}-{dice.randrange(6)}"
        drawn.append((name, key, value))
        rows[name].pop(key, None)
        rows[name].update({} if value is None else {key: value})
    return drawn


def test_the_driver_reads_a_views_store_and_lookups_and_processors_see_its_rows(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("views")
    tables = [b.global_table(name, key="long", value="string", store=f"{name}-store") for name in TABLES]
    topology = declared(b, *tables, b.stream("asked", key="long", value="string"), ("looked-up", "told"))
    dice, rows = Random(1), {name: Rows() for name in TABLES}
    with TopologyTestDriver(topology) as driver:
        for ts, (name, key, value) in enumerate(changes(dice, rows, 60)):
            driver.pipe(name, key, value, ts=ts)
        expected = views(rows)
        for name, store in expected.items():
            assert dict(driver.get_store(name).all()) == store != {}
        for name in TABLES:
            assert dict(driver.get_store(f"{name}-store").all()) == rows[name]
        for key in range(6):
            driver.pipe("asked", key, "?", ts=100)
        placed = expected["placed"]
        looked_up = {record.key: record.value for record in driver.read("out0")}
        assert looked_up == {key: f"?+{placed[key]}" if key in placed else "?" for key in range(6)}
        assert {record.key: record.value for record in driver.read("out1")} == {k: str(placed.get(k)) for k in range(6)}


def of_files(spark: SparkSession, folder: Path, sinks: Any) -> wm.Topology:
    b, options = wm.StreamsBuilder("views"), {"key": "k", "value": "v", "timestamp": "ts"}
    tables = [b.global_table(reader(spark, folder / name), name=name, **options) for name in TABLES]
    asked = b.stream(reader(spark, folder / "asked"), name="asked", **options)
    return declared(b, *tables, asked, [wm.ForeachBatch(sink) for sink in sinks])


def stored(spark: SparkSession, folder: Path) -> dict[str, Rows]:
    frames = {name: wm.read_state(spark, folder / "cp", name) for name in STORES}
    return {name: {row["key"]: row["value"] for row in frame.collect()} for name, frame in frames.items()}


def test_a_views_store_goes_on_over_restarts_and_other_shards_and_is_served(
    spark: SparkSession, tmp_path: Path
) -> None:
    dice, rows = Random(2), {name: Rows() for name in TABLES}
    for number, layout in enumerate(({"shards": 3, "tasks": 2}, {}, {"shards": 2, "tasks": 1, "evolve": True})):
        drawn = changes(dice, rows, 40)
        for name in TABLES:
            ours = ((key, value, 100 * number + ts) for ts, (table, key, value) in enumerate(drawn) if table == name)
            put(spark, tmp_path / name, *ours)
        put(spark, tmp_path / "asked", *((key, "?", 1000 * number) for key in range(6)))
        sinks = [Collector(), Collector()]
        run(of_files(spark, tmp_path, sinks), spark, tmp_path, **layout)
        expected = views(rows)
        assert stored(spark, tmp_path) == expected
        placed = expected["placed"]
        assert {key: value for key, value, _ in sinks[1].rows()} == {key: str(placed.get(key)) for key in range(6)}
        asked = {key: f"?+{placed[key]}" if key in placed else "?" for key in range(6)}
        assert {key: value for key, value, _ in sinks[0].rows()} == asked
    query = of_files(spark, tmp_path, [Collector(), Collector()]).start(spark, checkpoint=tmp_path / "cp")
    try:
        server = query.serve(tables=STORES)
        put(spark, tmp_path / "cities", (1, "late-5", 9_000))
        rows["cities"][1] = "late-5"
        query.processAllAvailable()
        last = max(int(file.name) for file in (tmp_path / "cp" / "commits").glob("[0-9]*"))
        for name, expected_rows in views(rows).items():
            served = server.table(name).to_arrow(at_least=last, timeout=60).to_pylist()
            assert {row["key"]: row["value"] for row in served} == expected_rows
    finally:
        query.stop()


def test_a_global_tables_store_goes_on_where_a_lookup_begins_to_read_it(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "names", *((key, f"n{key}", 0) for key in range(9)))
    (tmp_path / "asked").mkdir()
    for number, looks_up in enumerate((False, True, False)):
        b, options, sink = wm.StreamsBuilder("alone"), {"key": "k", "value": "v", "timestamp": "ts"}, Collector()
        names = b.global_table(reader(spark, tmp_path / "names"), name="names", store="names-store", **options)
        asked = b.stream(reader(spark, tmp_path / "asked"), name="asked", **options)
        found = asked.join(names, pair, key=lambda k, v: k, name="found") if looks_up else asked
        found.to(wm.ForeachBatch(sink), name="out")
        put(spark, tmp_path / "asked", (number + 3, "?", number))
        run(b.build(), spark, tmp_path, shards=3, tasks=2, evolve=True)
        assert [row[:2] for row in sink.rows()] == [(number + 3, f"?+n{number + 3}" if looks_up else "?")]
        rows = wm.read_state(spark, tmp_path / "cp", "names-store").collect()
        assert sorted((row["key"], row["value"]) for row in rows) == [(key, f"n{key}") for key in range(9)]
