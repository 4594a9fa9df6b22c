"""Files that tasks write themselves: the same rows as Spark's writer gives, once, in order, whatever is killed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, VariantType

import watersmeet as wm
from tests.spark.checkpoints import killed_run
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import put
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look
from watersmeet._spark.metrics.lifetime import read
from watersmeet._spark.outputs.files import publish, written, written_by_tasks
from watersmeet._worker.writers.files import WRITTEN, FileOutput
from watersmeet.errors import SinkError

Rows = list[list[Row]]
ALL_TYPES = {
    "text": "'é ' || id",
    "raw": "cast('b' || id as binary)",
    "flag": "id % 2 = 0",
    "tiny": "cast(id as tinyint)",
    "small": "cast(id as smallint)",
    "whole": "cast(id as int)",
    "big": "id",
    "single": "cast(id / 3 as float)",
    "twice": "if(id = 1, double('NaN'), id / 3)",
    "money": "cast(id / 7 as decimal(20, 5))",
    "cents": "cast(id / 7 as decimal(7, 2))",
    "day": "date_add(date'1500-02-28', cast(id as int))",
    "moment": "timestamp_micros(id * 1000000007 - 20000000000000000)",
    "local": "cast(timestamp_micros(id) as timestamp_ntz)",
    "list": "if(id = 2, null, array(id, null))",
    "named": "map('a', id)",
    "deep": "array(named_struct('x', map(cast(id as int), array(id)), 'y', null || 'z'))",
}


def both_ways(spark: SparkSession, folder: Path, make: Any, **options: Any) -> tuple[Rows, Rows, Any, Any]:
    """Rows and types of one output that tasks write and of one that Spark writes, of a topology that `make` builds."""
    found = []
    # a setting of its own is what only Spark's writer knows
    for name, given in (("tasks", {}), ("spark", {"parquet.page.size": 1 << 20})):
        sinks = [wm.Writer("parquet", path=str(folder / name / part), **given) for part in ("one", "two")]
        query = make(*sinks).start(spark, checkpoint=str(folder / f"cp-{name}"), available_now=True, **options)
        query.awaitTermination()
        files = [path.name for path in (folder / name / "one" / "batch_id=0").iterdir() if path.suffix == ".parquet"]
        assert all(("snappy" in file) == (name == "spark") for file in files)
        frames = [spark.read.parquet(str(folder / name / part)) for part in ("one", "two")]
        rows = [frame.orderBy("batch_id", "sequence", F.hash("key")).collect() for frame in frames]
        found.append((rows, [frame.schema for frame in frames]))
    (ours, our_types), (theirs, their_types) = found
    return ours, theirs, our_types, their_types


def test_values_of_every_type_are_those_that_sparks_own_writer_writes(spark: SparkSession, tmp_path: Path) -> None:
    value = [F.expr(text).alias(name) for name, text in ALL_TYPES.items()]
    (tmp_path / "in").mkdir()
    rows = spark.range(6).select("id", F.when(F.expr("id <> 4"), F.struct(*value)).alias("v"), F.expr("id * 7 AS ts"))
    rows.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "in"))

    def make(one: wm.Writer, two: wm.Writer) -> wm.Topology:
        b = wm.StreamsBuilder("types")
        source = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
        table = b.table(source, name="in", key="id", value="v", timestamp="ts")
        table.to(one, name="one")
        table.to_stream().filter(lambda v: v["flag"]).map(lambda k, v: (v["text"], v)).to(two, name="two")
        return b.build()

    ours, theirs, our_types, their_types = both_ways(spark, tmp_path, make)
    assert repr(ours) == repr(theirs)
    assert our_types == their_types
    assert [len(each) for each in ours] == [6, 2]


def test_files_are_the_same_beside_other_outputs_and_each_key_keeps_its_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    for file in range(2):
        put(spark, tmp_path / "in", *((n % 30, f"{file} {n}", n) for n in range(300)))

    def make(*more: Any) -> Any:
        def topology(one: wm.Writer, two: wm.Writer) -> wm.Topology:
            b = wm.StreamsBuilder("ways")
            source = spark.readStream.schema("k long, v string, ts long").parquet(str(tmp_path / "in"))
            table = b.table(source, name="in", key="k", value="v", timestamp="ts")
            table.to(one, name="one")
            table.to_stream().select_key(lambda v: v).to(two, name="two")
            for place, sink in enumerate(more):
                table.to(sink, name=f"more{place}")
            return b.build()

        return topology

    seen: list[int] = []
    (tmp_path / "alone").mkdir()
    (tmp_path / "beside").mkdir()
    alone = both_ways(spark, tmp_path / "alone", make())
    beside = both_ways(spark, tmp_path / "beside", make(wm.ForeachBatch(lambda rows, batch: seen.append(batch))))
    assert seen == [0, 0]
    assert alone[0] == alone[1] == beside[0] == beside[1]
    assert [[row["key"] for row in rows] for rows in alone[0]] != [[], []]
    by_key: dict[int, list[str]] = {}
    for row in alone[0][0]:
        by_key.setdefault(row["key"], []).append(row["value"])
    assert all(len(found) == 20 for found in by_key.values())
    assert all(found == sorted(found, key=lambda v: (v[0], int(v[2:]))) for found in by_key.values())


def test_a_batch_without_rows_still_tells_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    killed_run.run(spark, tmp_path)
    assert spark.read.parquet(str(tmp_path / "even")).columns == ["key", "value", "timestamp", "sequence", "batch_id"]
    assert spark.read.parquet(str(tmp_path / "even")).count() == 0
    assert spark.read.parquet(str(tmp_path / "all")).count() == 1


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_driver_that_is_killed_between_outputs_and_before_the_commit_changes_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    torn, whole = tmp_path / "torn", tmp_path / "whole"
    for folder in (torn, whole):
        for file in range(4):
            put(spark, folder / "in", *((n % 50, f"{file} {n}", n) for n in range(200)), (None, "no key", 200))
    killed_run.run(spark, whole)
    # in batch 1, when one of the outputs has it; then in batch 2, when both have it and Spark does not know
    killed(killed_run, torn, 4, "before")
    assert len(list((torn / "all").glob("batch_id=*"))) + len(list((torn / "even").glob("batch_id=*"))) == 3
    killed(killed_run, torn, 4, "behind")
    left = [path for name in ("all", "even") for path in (torn / name).glob(".batch_id=*")]
    killed_run.run(spark, torn)
    for name in ("all", "even"):
        assert sorted(path.name for path in (torn / name).iterdir()) == [f"batch_id={n}" for n in range(4)], left
        assert contents(torn / name) == contents(whole / name)
    for folder in (torn, whole):
        checkpoint = look(Folder(spark, str(folder / "cp"))).last
        assert checkpoint is not None
        counted = read(checkpoint)
        assert counted is not None
        assert (counted.totals.batches, counted.totals.counts.drops) == (4, {("in", "null_key"): 4})


def test_what_only_sparks_writer_can_write_is_left_to_it_and_the_log_says_why(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="watersmeet.files")
    out = str(tmp_path / "out")
    for target, why in (
        (wm.Writer("json", path=out), "this is json"),
        (wm.Writer("parquet", path="viewfs://nowhere/out"), "not on a disk of this machine"),
        (wm.Writer("parquet", path=out, compression="lzo"), "only Spark knows the option compression"),
        (wm.Writer("parquet", path=out, maxRecordsPerFile=7), "only Spark knows the option maxrecordsperfile"),
    ):
        assert written_by_tasks(spark, target, LongType(), StringType()) is None
        assert why in caplog.messages[-1]
    assert written_by_tasks(spark, wm.Writer("parquet", path=out), LongType(), VariantType()) is None
    assert "Spark's own: variant" in caplog.messages[-1]
    plain = written_by_tasks(
        spark, wm.Writer("parquet", path=f"file:{out} é", compression="ZSTD"), LongType(), LongType()
    )
    assert plain is not None
    assert (plain.folder, plain.codec) == (f"{out} é", "zstd")


def output(spark: SparkSession, folder: Path) -> FileOutput:
    found = written_by_tasks(spark, wm.Writer("parquet", path=str(folder)), LongType(), StringType())
    assert found is not None
    return found


def rows_of(output: FileOutput, numbers: range) -> pa.RecordBatch:
    given = {"key": numbers, "value": map(str, numbers), "timestamp": numbers, "sequence": numbers}
    arrays = [pa.array(list(given[field.name]), field.type) for field in output.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=output.schema)


def test_a_replay_leaves_its_own_files_alone_whatever_is_there(spark: SparkSession, tmp_path: Path) -> None:
    made = output(spark, tmp_path / "out")
    for end in (5, 7):
        with written([made], 3) as write:
            (told,) = write([(0, rows_of(made, range(end))), (0, rows_of(made, range(end, 9)))])
            (Path(write.places[0]) / ".part-00001.parquet.4").write_text("of a task that broke off")
            (Path(write.places[0]) / "part-00001.parquet").write_text("of a task that Spark ran twice")
            publish(write, spark.createDataFrame(told.to_pylist(), WRITTEN))
        batch = tmp_path / "out" / "batch_id=3"
        assert sorted(path.name for path in batch.iterdir()) == ["_SUCCESS", "part-00000.parquet"]
        assert pq.read_table(batch / "part-00000.parquet").column("key").to_pylist() == list(range(9))
        (batch / "part-00000-of-another-writer.parquet").touch()
        (batch / "below").mkdir()
        (tmp_path / "out" / ".batch_id=3.of-a-driver-that-was-killed").mkdir()
    with written([made], 3) as write:
        assert sorted(path.name for path in (tmp_path / "out").glob(".*")) == [Path(write.places[0]).name]
        publish(write, spark.createDataFrame([], WRITTEN))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["batch_id=3"]
    assert pq.read_table(batch / "part-00000.parquet").num_rows == 0


def test_a_task_that_does_not_find_the_drivers_folder_says_so(spark: SparkSession, tmp_path: Path) -> None:
    made = output(spark, tmp_path / "out")
    with written([made], 0) as write:
        Path(write.places[0]).rmdir()
        with pytest.raises(SinkError, match="does not exist on the machine of this task"):
            list(write([(0, rows_of(made, range(3)))]))
