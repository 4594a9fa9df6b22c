"""Inputs that begin with a snapshot or with their history: it comes first, once, and means what records would mean.

What is expected is the oracle's, which is piped the rows of the snapshots before everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from proof.oracle import Topology
from proof.oracle.graph import Node
from proof.oracle.semantics import Semantics
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.table import TableSource
from proof.oracle.tables.table_table import TableTableJoin
from tests.spark.checkpoints import killed_bootstrap
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import SCHEMA, Collector, by_key, put, reader, run
from watersmeet._spark.sources import bootstrap as static
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData, TopologyError

CUSTOMERS = [(n, f"c{n}", 5_000 + n) for n in range(0, 20)]
LIMITS = [(n, f"l{n}") for n in range(5, 25)]
LOADED: list[tuple[str, list[tuple[int, str | None, int]]]] = [
    ("orders", [(n % 24, f"o{n}", 10 + 10 * n) for n in range(40)]),
    ("customers", [(n % 12, None if n % 5 == 0 else f"d{n}", 11 + 10 * n) for n in range(24)]),
    ("limits", [(n, f"m{n}", 12 + 10 * n) for n in range(0, 24, 2)]),
    ("invoices", [(n, f"{n % 22}", 13 + 10 * n) for n in range(30)]),
]
LATER: list[tuple[str, list[tuple[int, str | None, int]]]] = [
    ("orders", [(n, f"p{n}", 1_000 + 10 * n) for n in range(24)]),
    ("customers", [(n, f"e{n}", 1_001 + 10 * n) for n in range(0, 24, 3)]),
    ("limits", [(n, None, 1_002 + 10 * n) for n in range(0, 24, 5)]),
    ("invoices", [(n, f"{(n + 1) % 22}", 1_003 + 10 * n) for n in range(0, 30, 4)]),
]
SINKS = ("bought", "limited", "billed")


def plus(one: str | None, other: str | None) -> str:
    return f"{one or '-'}{other or '-'}"


def expected() -> dict[str, list[tuple[Any, ...]]]:
    oracle = Topology(Semantics())
    customers, limits, invoices = (TableSource(oracle, materialized=True) for _ in range(3))
    orders = Node()
    for name, node in (("customers", customers), ("limits", limits), ("invoices", invoices), ("orders", orders)):
        oracle.source(name, node)
    oracle.sink(StreamTableJoin(oracle, orders, customers, "left", plus), "bought")
    oracle.sink(TableTableJoin(oracle, (customers, limits), "outer", plus), "limited")
    billed = foreign_key_join(oracle, invoices, customers, "left", int, plus)
    oracle.sink(billed, "billed")
    first = [("customers", row) for row in CUSTOMERS] + [("limits", (*row, 0)) for row in LIMITS]
    piped = [sorted(((name, row) for name, rows in some for row in rows), key=at) for some in (LOADED, LATER)]
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SINKS}
    for name, row in [*first, *piped[0], *piped[1]]:
        for result in oracle.pipe(name, *row):
            found[str(result.sink)].append((result.key, result.value, result.ts))
    return found


def at(piped: tuple[str, tuple[Any, ...]]) -> int:
    return int(piped[1][2])


def topology(
    spark: SparkSession, folder: Path, sinks: dict[str, Collector], **bootstrap: wm.Snapshot | None
) -> wm.Topology:
    b = wm.StreamsBuilder("begun")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}

    def table(name: str) -> wm.KTable:
        return b.table(reader(spark, folder / name), name=name, bootstrap=bootstrap.get(name), **options)

    customers, limits, invoices = table("customers"), table("limits"), table("invoices")
    orders = b.stream(reader(spark, folder / "orders"), name="orders", **options)
    either = lambda a, c: F.concat(F.coalesce(a, F.lit("-")), F.coalesce(c, F.lit("-")))  # noqa: E731
    outputs = {
        "bought": orders.left_join(customers, either),
        "limited": customers.outer_join(limits, either),
        "billed": invoices.left_join(customers, either, foreign_key=lambda key, value: value.cast("long")),
    }
    for name, output in outputs.items():
        output.to(wm.ForeachBatch(sinks[name]), name=name)
    return b.build()


def load(spark: SparkSession, folder: Path, some: Any) -> None:
    for name, rows in some:
        put(spark, folder / name, *rows)


def snapshots(spark: SparkSession, folder: Path) -> dict[str, wm.Snapshot]:
    """One with timestamps, of files that are gone after the first start; one without."""
    put(spark, folder / "snapshot", *CUSTOMERS)
    return {
        "customers": wm.Snapshot(spark.read.parquet(str(folder / "snapshot")), "k", value="v", timestamp="ts"),
        "limits": wm.Snapshot(spark.createDataFrame(LIMITS, "id long, v string"), "id", value="v"),
    }


def test_tables_begin_with_their_snapshots_whatever_happens_in_the_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks = {name: Collector(fail_in=0 if name == "limited" else None) for name in SINKS}
    load(spark, tmp_path, LOADED)
    given = snapshots(spark, tmp_path)
    with pytest.raises(Exception, match="killed behind the sink"):
        run(topology(spark, tmp_path, sinks, **given), spark, tmp_path)
    for file in (tmp_path / "snapshot").iterdir():
        file.unlink()
    # the rest of the batch; then others, with the program as it was, and with one that has no snapshots any more
    run(topology(spark, tmp_path, sinks, **given), spark, tmp_path)
    load(spark, tmp_path, LATER)
    done = run(topology(spark, tmp_path, sinks), spark, tmp_path)
    wanted = expected()
    for name, sink in sinks.items():
        found = [(key, value, round(at.timestamp() * 1_000)) for key, value, at in sink.rows()]
        assert by_key(found) == by_key(wanted[name]), name
        assert all(each == tries[0] for tries in sink.batches.values() for each in tries)
    assert done.drops == {}
    late = wm.Snapshot(spark.createDataFrame(LIMITS, "id long, v string"), "id", value="v")
    with pytest.raises(ChangedTopology, match="bootstrap= of invoices"):
        run(topology(spark, tmp_path, sinks, invoices=late), spark, tmp_path)
    (tmp_path / "cp/watersmeet/bootstrap/customers/_content.json").rename(tmp_path / "gone")
    with pytest.raises(CorruptData, match="snapshot of 'customers' is incomplete"):
        run(topology(spark, tmp_path, sinks), spark, tmp_path)


def test_what_a_snapshot_without_times_says_was_so_from_the_beginning_and_moves_no_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Collector()
    b = wm.StreamsBuilder("past")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    orders = b.stream(reader(spark, tmp_path / "orders"), name="orders", **options)
    known = wm.Snapshot(spark.createDataFrame([(1, "a"), (2, "b")], "id long, v string"), "id", value="v")
    rates = b.table(reader(spark, tmp_path / "rates"), name="rates", history="50 ms", bootstrap=known, **options)
    seen = wm.Snapshot(
        spark.createDataFrame([(1, "x", 9_000), (1, "y", 8_000)], SCHEMA), "k", value="v", timestamp="ts"
    )
    events = b.table(reader(spark, tmp_path / "events"), name="events", bootstrap=seen, **options)
    stream = orders.left_join(rates, lambda order, rate: F.concat(order, F.coalesce(rate, F.lit("-"))))
    windows = wm.TimeWindows.of_size_and_grace("10 ms", "0 ms")
    counts = events.to_stream().group_by_key().windowed_by(windows).count().to_stream()
    counted = counts.map(lambda key, value: (key["key"], F.concat(F.lit("n"), value.cast("string"))))
    stream.merge(counted).to(wm.ForeachBatch(sink), name="out")
    put(spark, tmp_path / "orders", (1, "o", 20), (2, "p", 29), (1, "q", 60))
    put(spark, tmp_path / "rates", (1, "c", 30))
    # its window would have closed long ago, if the snapshot had moved time
    put(spark, tmp_path / "events", (1, "z", 25))
    done = run(b.build(), spark, tmp_path)
    found = by_key([(row[0], row[1]) for row in sink.rows()])
    assert [value for (value,) in found[1]] == ["n1", "n1", "oa", "n1", "qc"]
    assert found[2] == [("pb",)]
    assert done.drops == {}


def test_a_driver_that_is_killed_in_the_first_batch_writes_each_row_of_the_snapshot_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {}
    for name, kills in (("torn", ("copied", "before", "behind")), ("whole", ())):
        folder = tmp_path / name
        put(spark, folder / "snapshot", *CUSTOMERS)
        load(spark, folder, LOADED)
        for when in kills:
            killed(killed_bootstrap, folder, when)
        killed_bootstrap.run(spark, folder)
        frames = [
            spark.read.parquet(str(folder / out)).orderBy("batch_id", "key", "sequence") for out in ("all", "low")
        ]
        rows[name] = [[tuple(row) for row in frame.collect()] for frame in frames]
    assert rows["torn"] == rows["whole"]
    assert [len([row for row in some if (row[1] or "").startswith("c")]) for some in rows["whole"]] == [
        len(CUSTOMERS),
        10,
    ]


def counted(spark: SparkSession, folder: Path, sink: Collector, history: wm.Backfill | None) -> wm.Topology:
    b = wm.StreamsBuilder("history")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    events = b.stream(reader(spark, folder / "events"), name="events", bootstrap=history, **options)
    both = reader(spark, folder / "names").union(reader(spark, folder / "more"))
    names = b.table(both, name="names", order="ts", **options)
    known = b.table(spark.createDataFrame([(1, "one", 0)], SCHEMA), name="known", order="k", **options)
    windows = wm.TimeWindows.of_size_and_grace("100 ms", "0 ms")
    counts = events.group_by_key().windowed_by(windows).count().to_stream()
    numbers = counts.map(lambda key, value: (key["key"], F.concat(F.lit("n"), value.cast("string"))))
    plus = lambda event, name: F.concat(event, F.coalesce(name, F.lit("-")))  # noqa: E731
    events.left_join(names, plus).left_join(known, plus).merge(numbers).to(wm.ForeachBatch(sink), name="out")
    return b.build()


def told(rows: list[tuple[Any, ...]]) -> dict[Any, list[str]]:
    """What is said of each key: joined, then counted, each in their order."""
    return {key: sorted((row[0] for row in found), key=lambda v: v[0] == "n") for key, found in by_key(rows).items()}


def test_a_stream_goes_through_its_history_before_it_goes_on_with_what_lives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static, "ROWS_PER_FILE", 2)
    sink = Collector(fail_in=1)
    # the last row comes too late for its window; that of the live ones as well, since the history has moved time
    past = [(1, "a", 10), (2, "b", 20), (1, "c", 110), (1, "d", 99), (2, "e", 130)]
    put(spark, tmp_path / "files", *reversed(past))
    put(spark, tmp_path / "names", (1, "!", 1), (2, "?", 2))
    put(spark, tmp_path / "events", (1, "f", 50), (1, "g", 140), (2, "h", 250))
    frame = spark.read.parquet(str(tmp_path / "files")).withColumn("row", F.col("v"))
    history = wm.Backfill(frame, "k", value="v", timestamp="ts", order=["row"])
    with pytest.raises(
        ConfigError, match=r"bootstrap= of events has not been(.|\n)*Hint: First start it with available_now=True"
    ):
        counted(spark, tmp_path, sink, history).start(spark, checkpoint=tmp_path / "cp")
    with pytest.raises(Exception, match="killed behind the sink"):
        run(counted(spark, tmp_path, sink, history), spark, tmp_path)
    with pytest.raises(ConfigError, match="has not been processed yet"):
        counted(spark, tmp_path, sink, history).start(spark, checkpoint=tmp_path / "cp")
    done = run(counted(spark, tmp_path, sink, None), spark, tmp_path)
    first = len(sink.rows())
    assert told(sink.rows()) == {1: ["a-one", "c-one", "d-one", "n1", "n1"], 2: ["b--", "e--", "n1", "n1"]}
    assert [reason for (_, reason) in done.drops] == ["expired_window"]
    # now with what lives: a query that runs on
    query = counted(spark, tmp_path, sink, history).start(
        spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache"
    )
    query.processAllAvailable()
    query.stop()
    assert told(sink.rows()[first:]) == {1: ["f!one", "g!one", "n2"], 2: ["h?-", "n1"]}
    assert [reason for (_, reason) in query.drops] == ["expired_window"]


def test_what_is_wrong_with_a_snapshot_is_said_where_it_is_given(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("wrong")
    frame = spark.createDataFrame(LIMITS, "id long, v string")
    topic: Any = {"key": "long", "value": "string"}
    for match, given in (
        (
            r"of the bootstrap have another type .*\n.*has struct<v:string>; the input string\nHint: .*value=",
            wm.Snapshot(frame, "id", starting_offsets="latest"),
        ),
        (
            r"The keys of the bootstrap have another type .*\n.*has string; the input bigint",
            wm.Snapshot(frame, "v", value="v", starting_offsets="latest"),
        ),
        (r"needs starting_offsets= or starting_timestamp=", wm.Snapshot(frame, "id", value="v")),
        (r"gone", wm.Snapshot(frame, "gone", value="v", starting_offsets={0: 1})),
        (r"takes a Snapshot or", frame),
    ):
        with pytest.raises(TopologyError, match=match):
            b.table("limits", bootstrap=given, **topic)
    with pytest.raises(TopologyError, match="a stream a Backfill"):
        b.stream("limits", bootstrap=wm.Snapshot(frame, "id", value="v", starting_offsets={0: 1}), **topic)
    with pytest.raises(TopologyError, match="need an order"):
        b.stream(
            "limits",
            bootstrap=wm.Backfill(frame, "id", timestamp=F.lit(0).cast("long"), starting_offsets="earliest"),
            **topic,
        )
    of_frame: Any = {"key": "id", "value": "v", "timestamp": F.lit(0).cast("long"), "order": "id", "name": "f"}
    with pytest.raises(TopologyError, match="takes no offsets"):
        b.table(frame, bootstrap=wm.Snapshot(frame, "id", value="v", starting_timestamp=0), **of_frame)
    for match, make in (
        ("static DataFrame", lambda: wm.Snapshot(spark.readStream.format("rate").load(), "value")),
        ("not both", lambda: wm.Snapshot(frame, "id", starting_offsets={0: 1}, starting_timestamp=1)),
        ("starting_offsets must be offsets", lambda: wm.Snapshot(frame, "id", starting_offsets={0: -1})),
        ("starting_offsets must be offsets", lambda: wm.Snapshot(frame, "id", starting_offsets={})),
        ("starting_timestamp must be", lambda: wm.Snapshot(frame, "id", starting_timestamp="yesterday")),  # type: ignore[arg-type]
        ("wm.Rows takes a DataFrame", lambda: wm.Snapshot([], "id")),  # type: ignore[arg-type]
    ):
        with pytest.raises(TopologyError, match=match):
            make()
