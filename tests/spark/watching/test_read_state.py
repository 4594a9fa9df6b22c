"""Stores read from a checkpoint: their rows are the oracle's, whichever batch is asked for, also while the query runs.

All checks share one query, which has been stopped and started again.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from proof.oracle import Topology
from proof.oracle.semantics import Semantics
from proof.oracle.tables.table import TableSource
from proof.oracle.tables.table_table import TableTableJoin
from watersmeet.errors import ConfigError

KEYS, BATCHES, RECORDS, SIZE, GAP = 25, 3, 90, 50, 3
SCHEMA = "k long, v string, ts long"
STORES = ["everywhere", "joined", "left", "named", "past", "right", "sessions", "tumbling"]
Rows = set[tuple[Any, ...]]


@dataclass
class Expected:
    """What the stores hold, one record after the other."""

    topology: Topology = field(default_factory=lambda: Topology(Semantics()))
    counts: Counter[Any] = field(default_factory=Counter)
    last: dict[Any, int] = field(default_factory=dict)
    past: dict[tuple[int, int], str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left, self.right = (TableSource(self.topology, materialized=True) for _ in range(2))
        sides = (self.left, self.right)
        self.joined = TableTableJoin(self.topology, sides, "outer", joined, materialized=True)
        self.topology.source("left", self.left)
        self.topology.source("right", self.right)

    def take(self, name: str, key: int, value: str | None, ts: int) -> None:
        """One record."""
        if name != "events":
            self.topology.pipe(name, key, value, ts)
            if name == "right":
                self.past[key, ts] = value
        elif value is not None:
            start = ts // SIZE * SIZE
            self.counts.update([("count", key), ("sum", key, len(value)), ("tumbling", key, start)])
            for place in (("count", key), ("tumbling", key, start)):
                self.last[place] = max(self.last.get(place, 0), ts)

    def rows(self) -> dict[str, Rows]:
        """All rows of each store that is compared by its rows."""
        tables = {"left": self.left, "right": self.right, "joined": self.joined}
        found: dict[str, Rows] = {name: set() for name in (*tables, "count", "tumbling")}
        for key in range(KEYS):
            for name, table in tables.items():
                stored = table.get(key)
                if stored is not None:
                    found[name].add((key, stored.value, stored.ts))
        for (name, *place), number in self.counts.items():
            if name != "sum":
                found[name].add((*place, number, self.last[(name, *place)]))
        totals: Counter[int] = Counter()
        for (name, key, *length), number in self.counts.items():
            totals[key] += length[0] * number if name == "sum" else 0
        found["named"] = {(key, (totals[key], totals[key] / n), ts) for key, n, ts in found.pop("count")}
        return {**found, "past": {(key, value, ts) for (key, ts), value in self.past.items() if value is not None}}


def joined(left: str | None, right: str | None) -> str:
    return f"{left or '-'}{right or '-'}"


def records(dice: random.Random, batch: int) -> Iterator[tuple[str, int, str | None, int]]:
    """A batch's records in their order; later batches have earlier times among theirs."""
    start = batch * RECORDS - dice.randrange(RECORDS)
    for number in range(RECORDS):
        value = None if dice.random() < 0.25 else "x" * dice.randrange(1, 5) + str(number)
        yield dice.choice(("left", "right", "events")), dice.randrange(KEYS), value, max(0, start) + number


def topology(spark: SparkSession, folder: Path) -> wm.Topology:
    def read(name: str) -> DataFrame:
        (folder / name).mkdir(exist_ok=True)
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / name))

    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    builder = wm.StreamsBuilder("stores")
    left = builder.table(read("left"), name="left", store="left", **options)
    right = builder.table(read("right"), name="right", store="right", **options)
    builder.table(read("right"), name="past", store="past", history="1 day", **options)
    dash = F.lit("-")
    both = left.outer_join(
        right, lambda a, b: F.concat(F.coalesce(a, dash), F.coalesce(b, dash)), store="joined", name="both"
    )
    events = builder.stream(read("events"), name="events", **options)
    known = spark.createDataFrame([(key, f"name {key}", 0) for key in range(KEYS)], SCHEMA)
    everywhere = builder.global_table(known, name="known", store="everywhere", order="k", **options)
    grouped = events.join(everywhere, lambda event, name: event, key=lambda key, value: key).group_by_key()
    grouped.agg(total=wm.sum(F.length), mean=wm.avg(F.length), store="named")
    grouped.windowed_by(wm.TimeWindows.of_size_and_grace(f"{SIZE} ms", "1 day")).count(store="tumbling")
    grouped.windowed_by(wm.SessionWindows.of_inactivity_gap_and_grace(f"{GAP} ms", "1 day")).count(store="sessions")
    both.to(wm.ForeachBatch(lambda frame, batch: frame.count()), name="out")
    return builder.build()


@dataclass
class Ran:
    """The query, which has ended; what its stores must hold, by batch; and what they held while it ran."""

    checkpoint: Path
    expected: list[dict[str, Rows]]
    while_running: dict[str, Rows]


def rows_of(frame: DataFrame) -> Rows:
    """Rows as `Expected` has them: times in ms, of windows the start."""
    ms = {"timestamp": F.unix_millis("timestamp")}
    if "window" in frame.columns:
        ms["window"] = F.unix_millis("window.start")
    # of versions those that are no deletions
    found = frame.filter("value is not null").select(*(ms.get(each, F.col(each)) for each in frame.columns)).collect()
    return {tuple(tuple(each) if isinstance(each, Row) else each for each in row) for row in found}


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, dice, expected = tmp_path_factory.mktemp("stores"), random.Random(7), Expected()
    by_batch: list[dict[str, Rows]] = []

    def run(batches: range, **options: Any) -> Any:
        for batch in batches:
            given: dict[str, list[Any]] = {"left": [], "right": [], "events": []}
            for name, *record in records(dice, batch):
                given[name].append(record)
                expected.take(name, *record)
            for name, some in given.items():
                spark.createDataFrame(some, SCHEMA).coalesce(1).write.mode("append").parquet(str(folder / name))
            by_batch.append(expected.rows())
        return topology(spark, folder).start(spark, checkpoint=folder / "cp", local_cache=folder / "cache", **options)

    run(range(BATCHES // 2), available_now=True, shards=3, tasks=2).awaitTermination()
    query = run(range(BATCHES // 2, BATCHES))
    query.processAllAvailable()
    while_running = {name: rows_of(query.state(name)) for name in ("joined", "tumbling")}
    assert query.isActive
    assert all(text in query._repr_html_() for text in ("running, ", f" batches, in {folder / 'cp'}<"))
    query.stop()
    assert rows_of(query.state("left")) == by_batch[-1]["left"]
    return Ran(folder / "cp", by_batch, while_running)


def test_stores_hold_what_the_oracle_holds_after_restarts_and_while_the_query_runs(
    spark: SparkSession, ran: Ran
) -> None:
    last = ran.expected[-1]
    assert all(len(rows) > 5 for rows in last.values())
    assert {name: rows_of(wm.read_state(spark, ran.checkpoint, name)) for name in last} == last
    assert ran.while_running == {name: last[name] for name in ran.while_running}


def test_an_older_batch_is_read_as_it_was(spark: SparkSession, ran: Ran) -> None:
    for batch in (0, 1):
        for name in ("joined", "named"):
            assert rows_of(wm.read_state(spark, str(ran.checkpoint), name, batch=batch)) == ran.expected[batch][name]
    with pytest.raises(ConfigError, match=r"batch=99.*\nHint: .* 0 to \d+"):
        wm.read_state(spark, ran.checkpoint, "joined", batch=99)


def test_windows_have_start_and_end_and_a_global_table_is_read_once(spark: SparkSession, ran: Ran) -> None:
    tumbling = wm.read_state(spark, ran.checkpoint, "tumbling")
    assert [field.simpleString() for field in tumbling.schema] == [
        "key:bigint",
        "window:struct<start:timestamp,end:timestamp>",
        "value:bigint",
        "timestamp:timestamp",
    ]
    lengths = (F.unix_millis("window.end") - F.unix_millis("window.start")).alias("ms")
    assert tumbling.select(lengths).distinct().collect() == [(SIZE,)]
    sessions = wm.read_state(spark, ran.checkpoint, "sessions").withColumn("ms", lengths)
    assert sessions.filter("window.end != timestamp or ms < 0").count() == 0
    assert sessions.agg(F.sum("value")).collect()[0][0] == sum(row[2] for row in ran.expected[-1]["tumbling"])
    everywhere = wm.read_state(spark, ran.checkpoint, "everywhere")
    assert everywhere.count() == KEYS
    assert everywhere.rdd.getNumPartitions() == 1
    assert tumbling.rdd.getNumPartitions() == 3


def test_the_stores_of_a_checkpoint_are_listed_with_rows_bytes_and_columns(spark: SparkSession, ran: Ran) -> None:
    found = {store.name: store for store in wm.stores(spark, ran.checkpoint)}
    assert sorted(found) == STORES
    assert all(store.rows >= len(ran.expected[-1].get(name, ())) for name, store in found.items())
    assert all(store.bytes > store.rows for store in found.values())
    assert found["joined"].schema == wm.read_state(spark, ran.checkpoint, "joined").schema
    assert found["everywhere"].rows == KEYS
    assert {store.batch for store in wm.stores(spark, ran.checkpoint, batch=1)} == {1}


def test_a_store_that_is_not_there_is_answered_with_those_that_are(
    spark: SparkSession, ran: Ran, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"'gone'.*\nHint: Stores: {', '.join(STORES)}\."):
        wm.read_state(spark, ran.checkpoint, "gone")
    with pytest.raises(ConfigError, match="No topology of watersmeet"):
        wm.stores(spark, tmp_path)


def test_before_the_first_batch_stores_are_there_and_empty(spark: SparkSession, ran: Ran, tmp_path: Path) -> None:
    shutil.copytree(ran.checkpoint / "watersmeet", tmp_path / "watersmeet")
    assert {(store.rows, store.batch) for store in wm.stores(spark, tmp_path)} == {(0, None)}
    empty = wm.read_state(spark, tmp_path, "joined")
    assert (empty.columns, empty.count()) == (["key", "value", "timestamp"], 0)


def test_rows_of_some_keys_are_those_that_all_rows_have(spark: SparkSession, ran: Ran) -> None:
    for name, rows in ran.expected[-1].items():
        wanted = {row[0] for row in sorted(rows)[::3]}
        found = rows_of(wm.read_state(spark, ran.checkpoint, name, keys=[*wanted, *wanted, 10**9]))
        assert found == {row for row in rows if row[0] in wanted}
    everywhere = wm.read_state(spark, ran.checkpoint, "everywhere", keys=[3])
    assert [(row.key, row.value) for row in everywhere.collect()] == [(3, "name 3")]
    assert wm.read_state(spark, ran.checkpoint, "joined", keys=[]).count() == 0
    with pytest.raises(ConfigError, match=r"'one'\nHint: They are of the type bigint"):
        wm.read_state(spark, ran.checkpoint, "joined", keys=["one"])


def test_rows_of_a_key_are_read_from_its_own_partition_of_the_state_alone(
    spark: SparkSession, ran: Ran, tmp_path: Path
) -> None:
    there: dict[int, Rows] = {}
    rows = set(sorted(ran.expected[-1]["joined"])[::4])
    for partition in range(2):
        shutil.copytree(ran.checkpoint, tmp_path / str(partition))
        for file in tmp_path.glob(f"{partition}/state/*/{1 - partition}/**/*"):
            if file.is_file():
                file.unlink()
        there[partition] = set()
        for row in rows:
            found: Rows = set()
            # where the state of its partition is gone, reading fails
            with suppress(Exception):
                found = rows_of(wm.read_state(spark, tmp_path / str(partition), "joined", keys=[row[0]]))
            assert found <= {row}
            there[partition] |= found
        with pytest.raises(Exception, match="CANNOT_LOAD_STATE_STORE"):
            wm.read_state(spark, tmp_path / str(partition), "joined").collect()
    assert all(there.values())
    assert there[0] | there[1] == rows
    assert not there[0] & there[1]
