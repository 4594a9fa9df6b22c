"""Change feeds as inputs: the columns that Delta and Spark's `readStream.changes` have, from files.

Delta and Iceberg are made for other versions of Spark; `dev/changes_trial.py` reads their tables there (`make
versions`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, run
from watersmeet._engine.exchange import number_rows
from watersmeet._worker.spill import in_order
from watersmeet.errors import ConfigError, SourceError, TopologyError

SCHEMA = "id long, region string, amount long, _change_type string, _commit_version long, _commit_timestamp timestamp"
BEGIN = datetime(2026, 11, 30, tzinfo=UTC)
Table = dict[int, tuple[str, int]]
Change = tuple[int, str, int, str]


def merged(draw: random.Random, table: Table) -> list[Change]:
    """The changes of a commit that updates, deletes and inserts at random, some rows twice; the table has them."""
    changes: list[Change] = []
    for key in draw.sample(range(8), draw.randint(1, 4)):
        row, other = table.pop(key, None), (draw.choice("ns"), draw.randint(0, 9))
        action = draw.choice(("update", "delete", "replace", "move"))
        if row is None:
            table[key] = other
            changes.append((key, *other, "insert"))
        elif action == "delete":
            changes.append((key, *row, "delete"))
        elif action == "move" and key + 10 not in table:
            table[key + 10] = row
            changes += [(key, *row, "update_preimage"), (key + 10, *row, "update_postimage")]
        else:
            table[key] = other
            types = ("delete", "insert") if action == "replace" else ("update_preimage", "update_postimage")
            changes += [(key, *row, types[0]), (key, *other, types[1])]
    draw.shuffle(changes)
    return changes


def commit(spark: SparkSession, path: Path, commits: Sequence[tuple[int, list[Change]]]) -> None:
    """One more file, of some commits."""
    rows = [(*change, version, BEGIN + timedelta(seconds=version)) for version, log in commits for change in log]
    spark.createDataFrame(rows[::-1], SCHEMA).coalesce(1).write.mode("append").parquet(str(path))


def feed(spark: SparkSession, path: Path) -> Any:
    path.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))


@pytest.mark.parametrize("tasks", [1, 3])
def test_after_each_batch_a_view_of_random_commits_is_what_sql_gives_over_the_table(
    spark: SparkSession, tmp_path: Path, tasks: int
) -> None:
    draw, table, wanted, seen = random.Random(7), dict[int, tuple[str, int]](), [], list[Any]()
    for batch in range(6):
        versions = range(3 * batch, 3 * batch + 3)
        commit(spark, tmp_path / "in", [(version, merged(draw, table)) for version in versions])
        sums: dict[str, int] = {}
        for region, amount in table.values():
            sums[region] = sums.get(region, 0) + amount
        wanted.append((dict(table), sums))
    builder = wm.StreamsBuilder("changes")
    orders = builder.table(wm.Changes(feed(spark, tmp_path / "in"), key="id"), name="orders")
    totals = orders.group_by(lambda order: (order["region"], order["amount"])).agg(total=wm.sum(lambda amount: amount))
    state: dict[str, dict[Any, Any]] = {"orders": {}, "totals": {}}

    def keep(name: str) -> Any:
        def write(frame: Any, batch: int) -> None:
            for row in frame.orderBy("sequence").collect():
                state[name].pop(row["key"], None)
                if row["value"] is not None:
                    value = row["value"]
                    state[name][row["key"]] = tuple(value) if name == "orders" else value["total"]
            if name == "totals":
                seen.append((dict(state["orders"]), dict(state["totals"])))

        return write

    orders.to(wm.ForeachBatch(keep("orders")), name="orders out")
    totals.to(wm.ForeachBatch(keep("totals")), name="totals out")
    run(builder.build(), spark, tmp_path, shards=3, tasks=tasks)
    assert seen == wanted


def test_partitions_have_orders_of_their_own_and_give_the_same_results_for_any_number_of_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw = random.Random(3)
    rows = [(draw.randrange(9), number, BEGIN + timedelta(seconds=draw.randrange(60))) for number in range(200)]
    for part in (rows[:120], rows[120:]):
        made = spark.createDataFrame(draw.sample(part, len(part)), "id long, number long, at timestamp")
        made.repartition(3).write.mode("append").json(str(tmp_path / "in"))
    found = []
    for tasks in (1, 3):
        builder, kept = wm.StreamsBuilder("partitions"), dict[str, list[Any]]()

        def keep(name: str, kept: dict[str, list[Any]] = kept) -> Any:
            return lambda made, batch: kept.setdefault(name, []).extend(made.orderBy("sequence").collect())

        frame = spark.readStream.schema(made.schema).json(str(tmp_path / "in"))
        given: dict[str, Any] = {"key": "id", "value": ["number"], "timestamp": "at", "order": "number"}
        stream = builder.stream(frame, name="numbers", partitioned=True, **given)
        stream.to(wm.ForeachBatch(keep("numbers")), name="numbers out")
        windows = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("10 seconds", "5 seconds"))
        lists = windows.agg(numbers=wm.collect_list(lambda row: row["number"]))
        lists.to_stream().to(wm.ForeachBatch(keep("lists")), name="lists")
        run(builder.build(), spark, tmp_path / str(tasks), shards=3, tasks=tasks)
        for key in range(9):
            numbers = [row["value"]["number"] for row in kept["numbers"] if row["key"] == key]
            assert numbers == [number for of, number, _ in rows if of == key]
        found.append({name: sorted(str(row[:3]) for row in rows) for name, rows in kept.items()})
    assert found[0] == found[1]
    assert found[0]["lists"]


def test_rows_of_several_partitions_are_numbered_apart_in_memory_and_through_a_file() -> None:
    table = pa.table({"partition": pa.array([7, 0, 7, 7], pa.int32()), "a": [2, 1, 1, 3], "n": [0, 1, 2, 3]})
    for held_bytes in (0, 1 << 30):
        (part,) = in_order(iter(table.to_batches()), ("a",), held_bytes, partitioned=True)
        assert part.to_pydict() == {"partition": [0, 7, 7, 7], "n": [1, 2, 0, 3], "offset": [0, 0, 1, 2]}


def test_a_stream_of_changes_has_one_record_for_each_key_of_a_commit_at_the_time_of_the_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = [(1, "n", 5, "insert"), (2, "s", 6, "insert")]
    second = [(1, "n", 5, "update_preimage"), (1, "n", 7, "update_postimage"), (2, "s", 6, "delete")]
    commit(spark, tmp_path / "in", [(1, first), (2, second)])
    builder, out = wm.StreamsBuilder("stream"), Collector()
    stream = builder.stream(wm.Changes(feed(spark, tmp_path / "in"), key="id", value="amount"), name="orders")
    stream.to(wm.ForeachBatch(out), name="out")
    run(builder.build(), spark, tmp_path, shards=1, tasks=1)
    first_at, second_at = (datetime(2026, 11, 30, second=version) for version in (1, 2))
    assert sorted(out.rows(), key=lambda row: (row[2], row[0])) == [
        (1, 5, first_at),
        (2, 6, first_at),
        (1, 7, second_at),
        (2, None, second_at),
    ]


def test_of_the_changes_of_a_key_in_a_commit_the_last_one_counts_and_two_rows_put_are_refused() -> None:
    table = pa.table({"a": [2, 1, 1, 1], "k": ["x", "x", "y", "x"], "p": [False, True, True, False], "n": [0, 1, 2, 3]})
    rows = number_rows(table, ("a", "k", "p"), changes=True)
    assert rows.to_pydict() == {"n": [1, 2, 0], "offset": [0, 1, 2]}
    twice = pa.table({"a": [1, 1], "k": ["x", "x"], "p": [True, True]})
    with pytest.raises(SourceError, match=r"(?s)two rows of one key.*commit 1, key x.*key=\[\.\.\.\]"):
        number_rows(twice, ("a", "k", "p"), changes=True)


def test_what_is_no_feed_of_changes_is_refused_on_the_line_that_reads_it(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("refused")
    with pytest.raises(TopologyError, match=r"needs the columns that identify a row: key=None"):
        builder.table(wm.Changes(spark.createDataFrame([], SCHEMA)), name="orders")
    with pytest.raises(TopologyError, match=r"(?s)it lacks _change_type, _commit_version, _commit_timestamp"):
        builder.table(wm.Changes(spark.createDataFrame([], "id long"), key="id"), name="orders")
    with pytest.raises(TopologyError, match=r"(?s)Unknown table 'orders_of_nobody'.*whole name"):
        builder.table(wm.Changes("orders_of_nobody", key="id"))
    with pytest.raises(TopologyError, match="starting_version=-1 is no version"):
        wm.Changes("orders", key="id", starting_version=-1)
    with pytest.raises(TopologyError, match="takes neither starting_version= nor options="):
        wm.Changes(spark.createDataFrame([], SCHEMA), key="id", starting_version=3)
    with pytest.raises(TopologyError, match="either starting_version=3 or starting_timestamp="):
        wm.Changes("orders", key="id", starting_version=3, starting_timestamp=4)
    with pytest.raises(TopologyError, match="starting_timestamp must be a datetime with a time zone"):
        wm.Changes("orders", key="id", starting_timestamp=datetime(2026, 11, 30))
    with pytest.raises(TopologyError, match="A global table takes no starting_timestamp=4"):
        builder.global_table(wm.Changes("orders", key="id", starting_timestamp=4))
    spark.range(1).write.mode("overwrite").saveAsTable("plain_numbers")
    try:
        with pytest.raises(TopologyError, match="has the format parquet, which has no feed of changes"):
            builder.table(wm.Changes("plain_numbers", key="id"))
    finally:
        spark.sql("DROP TABLE plain_numbers")
    frame = spark.createDataFrame([], SCHEMA).withColumn("at", F.lit("x"))
    with pytest.raises(TopologyError, match="The key is no column of the DataFrame"):
        builder.table(wm.Changes(frame, key="ident"), name="orders")


def test_a_connector_that_does_not_load_is_said_with_the_versions_that_work_together(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    try:
        with pytest.raises(ConfigError, match=r"(?s)'lake.shop.orders' is missing.*Iceberg 1.12 with PySpark 4.1"):
            wm.StreamsBuilder("unfit").table(wm.Changes("lake.shop.orders", key="id"))
    finally:
        spark.conf.unset("spark.sql.catalog.lake")
