"""A topology as a streaming query: batches, restarts, replays, refused checkpoints, counted drops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

import watersmeet as wm
from tests.engine.state.store_contract import CONTRACT
from watersmeet._spark.session import query_settings
from watersmeet._worker.spark_worker import SparkChunkStore, StateCalls
from watersmeet.errors import ChangedTopology

SCHEMA = "k long, v string, ts long"


def put(spark: SparkSession, path: Path, *rows: tuple[int | None, str | None, int]) -> None:
    """One more file of rows."""
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(path))


def reader(spark: SparkSession, path: Path) -> Any:
    path.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))


def topology(spark: SparkSession, folder: Path, sink: Any, *, how: str = "outer_join") -> wm.Topology:
    b = wm.StreamsBuilder("streaming")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    left = b.table(reader(spark, folder / "left"), name="left", **options)
    right = b.table(reader(spark, folder / "right"), name="right", **options)
    joined = getattr(left, how)(right, lambda a, c: F.concat(F.coalesce(a, F.lit("-")), F.coalesce(c, F.lit("-"))))
    joined.to(sink, name="out")
    return b.build()


class Collector:
    """A sink that keeps each batch's rows, and fails once in the batch it is told to."""

    def __init__(self, fail_in: int | None = None) -> None:
        self.batches: dict[int, list[list[tuple[Any, ...]]]] = {}
        self.sequences: dict[int, list[list[tuple[Any, int]]]] = {}
        self._fail_in = fail_in

    def __call__(self, frame: Any, batch: int) -> None:
        rows = [tuple(row) for row in frame.select("key", "value", "timestamp").collect()]
        self.batches.setdefault(batch, []).append(rows)
        numbers = [(row["key"], row["sequence"]) for row in frame.select("key", "sequence").collect()]
        self.sequences.setdefault(batch, []).append(numbers)
        if batch == self._fail_in:
            self._fail_in = None
            raise RuntimeError("killed behind the sink")

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of all batches, each batch as it was written last."""
        return [row for batch in sorted(self.batches) for row in self.batches[batch][-1]]


def run(topology: wm.Topology, spark: SparkSession, folder: Path, **options: Any) -> Any:
    query = topology.start(
        spark, checkpoint=str(folder / "cp"), available_now=True, local_cache=str(folder / "cache"), **options
    )
    query.awaitTermination()
    return query


@pytest.fixture
def inputs(spark: SparkSession, tmp_path: Path) -> Path:
    put(spark, tmp_path / "left", *((n, f"a{n}", n) for n in range(50)), (None, "no key", 1))
    put(spark, tmp_path / "left", *((n, None if n % 3 else f"b{n}", 100 + n) for n in range(0, 50, 2)))
    put(spark, tmp_path / "right", *((n, f"c{n}", 50 + n) for n in range(25, 75)))
    put(spark, tmp_path / "right", *((n, None, 200 - n) for n in range(25, 75, 5)), (1, "late", -5))
    return tmp_path


def by_key(rows: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row[1:])
    return found


def test_a_failed_batch_is_replayed_with_the_same_rows_and_the_drops_are_counted(
    spark: SparkSession, inputs: Path
) -> None:
    sink = Collector(fail_in=1)
    with pytest.raises(Exception, match="killed behind the sink"):
        run(topology(spark, inputs, wm.ForeachBatch(sink)), spark, inputs)
    second = run(topology(spark, inputs, wm.ForeachBatch(sink)), spark, inputs)
    assert [len(tries) for _, tries in sorted(sink.batches.items())] == [1, 2]
    assert sink.batches[1][0] == sink.batches[1][1]
    assert sink.sequences[1][0] == sink.sequences[1][1]
    numbers = by_key([row for batch in sorted(sink.sequences) for row in sink.sequences[batch][-1]])
    assert all(found == sorted(set(found)) for found in numbers.values())
    assert max(map(len, numbers.values())) > 2
    assert second.drops == {("right", "negative_timestamp"): 1}
    # Another layout, all at once: the same changes of each key, whatever the shards and tasks.
    (inputs / "again").mkdir()
    other = Collector()
    again = topology(spark, inputs, wm.ForeachBatch(other))
    query = again.start(
        spark, checkpoint=str(inputs / "again"), available_now=True, shards=9, tasks=3, local_cache=None
    )
    query.awaitTermination()
    assert by_key(other.rows()) == by_key(sink.rows())
    assert query.drops == {("left", "null_key"): 1, ("right", "negative_timestamp"): 1}


def test_an_old_checkpoint_is_refused_for_another_topology_and_other_shards(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "left", (1, "a", 0))
    sink = wm.Writer("parquet", path=str(tmp_path / "out"))
    run(topology(spark, tmp_path, sink), spark, tmp_path)
    with pytest.raises(ChangedTopology) as changed:
        run(topology(spark, tmp_path, sink, how="left_join"), spark, tmp_path)
    assert "-  table_table" in str(changed.value)
    assert "type left" in str(changed.value)
    with pytest.raises(ChangedTopology, match="shards"):
        run(topology(spark, tmp_path, sink), spark, tmp_path, shards=7)
    # at the time of the first change, as the last change: the result's timestamp is no guide
    put(spark, tmp_path / "right", (1, "b", 0), (2, "c", 5), (2, None, 5), (3, "x", 5), (3, "y", 5))
    run(topology(spark, tmp_path, sink), spark, tmp_path)
    written = spark.read.parquet(str(tmp_path / "out"))
    found = written.orderBy("key", "sequence").collect()
    assert [(row["key"], row["value"]) for row in found[:2]] == [(1, "a-"), (1, "ab")]
    last = wm.latest(written)
    assert last.columns == written.columns
    assert sorted((row["key"], row["value"]) for row in last.collect()) == [(1, "ab"), (3, "-y")]


class ContractProcessor(StatefulProcessor):
    """Runs the chunk store's contract, one check per grouping key, over Spark's state; later ones with late answers."""

    def init(self, handle: Any) -> None:
        self._store = SparkChunkStore(handle)
        self._client = handle._statefulProcessorApiClient

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            pass
        late = key[0] >= len(CONTRACT)
        calls = StateCalls(self._client, lambda label: True) if late else None
        if calls is not None:
            calls.fetch_ahead(key[0])
            calls.late(self._client.set_implicit_key, key)
        self._store.begin(key[0], calls)
        try:
            CONTRACT[key[0] % len(CONTRACT)](self._store)
            if calls is not None:
                calls.read_answers()
            yield Row(check=key[0], fault="")
        except Exception as fault:
            yield Row(check=key[0], fault=repr(fault))

    def close(self) -> None:
        pass


def test_sparks_state_keeps_the_contract_of_a_chunk_store(spark: SparkSession, tmp_path: Path) -> None:
    with query_settings(spark, 2, str(tmp_path)):
        _ = spark.streams.active
        checks = spark.range(2 * len(CONTRACT)).select(F.col("id").cast("int").alias("check"))
        ran = checks.groupBy("check").transformWithState(
            ContractProcessor(), "check int, fault string", outputMode="append", timeMode="None"
        )
        faults = {row["check"]: row["fault"] for row in ran.collect()}
    assert faults == dict.fromkeys(range(2 * len(CONTRACT)), "")


def test_a_versioned_table_and_a_grace_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    def remembering(sink: Any) -> wm.Topology:
        b = wm.StreamsBuilder("remembering")
        options = {"key": "k", "value": "v", "timestamp": "ts"}
        orders = b.stream(reader(spark, tmp_path / "orders"), name="orders", **options)
        rates = b.table(reader(spark, tmp_path / "rates"), name="rates", history="50 ms", **options)
        plus = lambda order, rate: F.concat(order, F.coalesce(rate, F.lit("-")))  # noqa: E731
        orders.left_join(rates, plus, name="at once").merge(
            orders.left_join(rates, plus, grace="10 ms", name="later").map_values(lambda value: F.upper(value))
        ).to(sink, name="out")
        return b.build()

    sink = Collector()
    put(spark, tmp_path / "rates", (1, "a", 10), (1, "c", 30), (2, "x", 30))
    put(spark, tmp_path / "orders", (1, "o", 20), (2, "p", 29), (1, "q", 35))
    run(remembering(wm.ForeachBatch(sink)), spark, tmp_path)
    # out of order, within the history; what was held back finds it, what was joined at once has not
    put(spark, tmp_path / "rates", (1, "d", 33), (1, None, 40), (3, "z", 85), (1, "lost", 34))
    put(spark, tmp_path / "orders", (1, "r", 41), (1, "s", 60), (1, "t", 39))
    second = run(remembering(wm.ForeachBatch(sink)), spark, tmp_path)
    found = by_key([(row[0], row[1]) for row in sink.rows()])
    assert [value for (value,) in found[1] if value.islower()] == ["oa", "qc", "r-", "s-", "td"]
    assert [value for (value,) in found[1] if value.isupper()] == ["OA", "QD", "R-", "TD"]
    assert [value for (value,) in found[2]] == ["p-", "P-"]
    assert second.drops == {("at once", "expired_version"): 1, ("later", "expired_version"): 1}
