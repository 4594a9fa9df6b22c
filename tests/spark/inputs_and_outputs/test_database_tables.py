"""Tables kept in databases by running topologies: each batch once, whatever is run again, started anew or killed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

import watersmeet as wm
from dev.postgres import PASSWORD, Postgres
from tests.databases.kit import Place, all_rows
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._spark.outputs.databases import DatabaseTableWriter
from watersmeet._worker.batch_plan import plan_of_log
from watersmeet.errors import ConfigError, CorruptData, SinkError, TopologyError, WatersmeetError
from watersmeet.testing.driver import TopologyTestDriver


def table_of(builder: wm.StreamsBuilder, spark: SparkSession, folder: Path) -> wm.KTable:
    return builder.table(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")


def run(topology: wm.Topology, spark: SparkSession, folder: Path) -> None:
    topology.start(spark, checkpoint=str(folder / "cp"), available_now=True).awaitTermination()


class FailsOnce:
    """A sink behind the table, which changes a row of it and fails in a batch."""

    def __init__(self, place: Place, batch: int) -> None:
        self._place, self._batch = place, batch

    def __call__(self, frame: Any, batch: int) -> None:
        if batch == self._batch:
            self._batch = -1
            self._place.execute("UPDATE kept SET text = 'by hand' WHERE id = 1")
            raise RuntimeError("failed behind the table")


def test_a_table_is_kept_through_batches_and_restarts_and_a_batch_run_again_changes_nothing(
    spark: SparkSession, tmp_path: Path, place: Place
) -> None:
    b = wm.StreamsBuilder("kept")
    table = table_of(b, spark, tmp_path)
    value = table.map_values(lambda v: F.struct(v.alias("text"), F.length(v).alias("size"), F.array(v).alias("all")))
    value.to(place.table("kept", key="id", create=True))
    value.to_stream().to(wm.ForeachBatch(FailsOnce(place, 1)), name="behind")
    topology = b.build()
    assert "kept" in topology.describe()
    put(spark, tmp_path / "in", (1, "a", 1), (2, "b", 2), (1, "aa", 3), (3, "c", 4))
    # much of a task: it comes while the transaction is open
    put(spark, tmp_path / "in", (2, None, 5), (4, "", 6), *((n, f"{n}" * 20_000, 7) for n in range(100, 140)))
    with pytest.raises(Exception, match="failed behind the table"):
        run(topology, spark, tmp_path)
    after = all_rows(place, "kept")
    assert [row["id"] for row in after] == [1, 3, 4, *range(100, 140)]
    run(topology, spark, tmp_path)
    # the batch was run again, and the table was left alone
    assert all_rows(place, "kept") == after
    assert after[0]["text"] == "by hand"
    put(spark, tmp_path / "in", *((n, None, 8) for n in range(100, 140)), (1, "z", 9), (3, None, 9), (3, "y", 10))
    run(topology, spark, tmp_path)
    found = [(row["id"], row["text"], row["size"], str(row["all"])) for row in all_rows(place, "kept")]
    texts = [(1, "z"), (3, "y"), (4, "")]
    quote = '"' if place.dialect == "sqlite" else "'"
    assert found == [(key, text, len(text), f"[{quote}{text}{quote}]") for key, text in texts]


def test_a_table_by_key_and_window_has_columns_for_both(spark: SparkSession, tmp_path: Path, place: Place) -> None:
    b = wm.StreamsBuilder("windows")
    stream = b.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    stream.group_by_key().windowed_by(windows).count().to(place.table("counts", value="n", create=True))
    put(spark, tmp_path / "in", (1, "a", 1), (1, "b", 9), (2, "a", 12), (1, "c", 13))
    run(b.build(), spark, tmp_path)
    rows = sorted(tuple(row.values()) for row in place.execute('SELECT "key", start, "end", n FROM counts'))
    assert rows == [(1, 0, 10, 2), (1, 10, 20, 1), (2, 10, 20, 1)]


def kept(target: wm.DatabaseTable, identity: str = "app-1") -> DatabaseTableWriter:
    return DatabaseTableWriter(target, LongType(), StringType(), identity)


def test_a_table_has_one_writer_and_no_other_history_than_the_checkpoint(spark: SparkSession, place: Place) -> None:
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (1, None)], "key long, value string").coalesce(1)
    target = place.table("mine", create=True)
    first = kept(target)
    first.begin(-1)
    first.write(rows, 3)
    first.begin(3)
    with pytest.raises(CorruptData, match=r"(?s)batch 3 is there, the last one planned is 2.*newest checkpoint"):
        first.begin(2)
    with pytest.raises(ConfigError, match=r"(?s)has rows of others than this query.*adopt=True"):
        kept(target, "app-2").begin(-1)
    second = kept(place.table("mine", adopt=True), "app-2")
    second.begin(-1)
    with pytest.raises(SinkError, match=r"(?s)Another query has taken the table over.*A table has one writer"):
        first.write(rows, 4)
    second.write(rows.filter("key = 2").selectExpr("key", "null as value"), 0)
    assert all_rows(place, "mine") == []
    with pytest.raises(ConfigError, match=r"(?s)is behind the checkpoint.*new checkpoint, or take it"):
        first.begin(3)
    kept(place.table("mine", adopt=True), "app-1").begin(3)
    place.execute("DROP TABLE watersmeet_batches")
    with pytest.raises(SinkError, match=r"(?s)refuses to write.*watersmeet_batches"):
        first.write(rows, 4)


def test_a_batch_of_another_plan_is_refused_and_who_was_passed_by_writes_nothing(
    spark: SparkSession, place: Place
) -> None:
    one, other = (plan_of_log(f"v1\n{{}}\n{end}", "t", epoch=1, where="offsets/0") for end in (5, 6))
    rows = spark.createDataFrame([(1, "a")], "key long, value string").coalesce(1)
    others = spark.createDataFrame([(1, "b")], "key long, value string").coalesce(1)
    table = kept(place.table("plans", create=True))
    table.begin(-1)

    def passed_by() -> None:
        raise ConfigError("taken over")

    with pytest.raises(ConfigError, match="taken over"):
        table.write(rows, 0, one, passed_by)
    assert all_rows(place, "plans") == []
    table.write(rows, 0, one)
    table.write(rows, 0, one)
    with pytest.raises(ConfigError, match=r"(?s)Another query has written batch 0.*written: up to 5.*here: up to 6"):
        table.write(others, 0, other)
    assert [row["value"] for row in all_rows(place, "plans")] == ["a"]
    table.write(others, 1, other)
    with pytest.raises(ConfigError, match="older than the output"):
        table.write(rows, 0, one)


def test_a_topology_refuses_what_no_table_could_be(spark: SparkSession, place: Place) -> None:
    b = wm.StreamsBuilder("refused")
    frame = spark.createDataFrame([], "k long, v map<int, string>, w double, ts long")
    stream = b.stream(frame, name="in", key="k", value="v", timestamp="ts", order="ts")
    table = stream.to_table()
    with pytest.raises(TopologyError, match=r"stream.to_table\(\).to\(...\)"):
        stream.to(place.table("t"))
    with pytest.raises(TopologyError, match=r"stream.to_table\(\).to\(...\)"):
        stream.through(place.table("t"), name="t")  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"(?s)equal values would differ.*select_key"):
        stream.select_key(lambda v: F.lit(0.5)).to_table().to(place.table("t"))
    table.to(place.table("t"))
    with pytest.raises(TopologyError, match="Two outputs write "):
        table.to(place.table("t"), name="again")
    with pytest.raises(TopologyError, match="which JSON cannot hold"):
        DatabaseTableWriter(place.table("t"), LongType(), table.value_type, "app-1")


def test_a_password_is_in_no_text_and_no_file(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG, logger="watersmeet")
    said: list[str] = []
    put(spark, tmp_path / "in", (1, "a", 1))

    def topology(url: str) -> wm.Topology:
        b = wm.StreamsBuilder("secret")
        target = wm.DatabaseTable(url, table="secret", create=True)
        table_of(b, spark, tmp_path).to(target)
        said.append(f"{target!r} {b!r}")
        return b.build()

    built = topology(postgres.url)
    said.append(built.describe())
    run(built, spark, tmp_path)
    # a password that is wrong, and a table that refuses its rows
    wrong = postgres.url.replace(PASSWORD, f"not-{PASSWORD}")
    with pytest.raises(ConfigError, match="cannot be reached") as refused:
        run(topology(wrong), spark, tmp_path)
    said.append(str(refused.value))
    Place("postgresql", postgres.url).execute("ALTER TABLE secret ADD CHECK (value <> 'b')")
    put(spark, tmp_path / "in", (2, "b", 2))
    query = built.start(spark, checkpoint=str(tmp_path / "cp"), available_now=True)
    with pytest.raises(WatersmeetError, match="refuses to write the table") as failed:
        query.awaitTermination()
    said += [str(failed.value), repr(failed.value.__context__), *caplog.messages, *capfd.readouterr()]
    assert PASSWORD not in "\n".join(said)
    files = [path.read_bytes() for path in (tmp_path / "cp").rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not any(PASSWORD.encode() in content for content in files)


def test_the_test_driver_reads_what_a_database_would_be_told(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("tried")
    b.table("in", key="long", value="string").to(wm.DatabaseTable("postgresql://nowhere/x", table="told"))
    driver = TopologyTestDriver(b.build())
    driver.pipe("in", key=1, value="a", ts=0)
    driver.pipe("in", key=1, value=None, ts=1)
    assert [(record.key, record.value) for record in driver.read("told")] == [(1, "a"), (1, None)]
