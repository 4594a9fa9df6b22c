"""What watersmeet records in a checkpoint: found again at a restart, a reason to refuse what differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint import folders
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import Checkpoint, CheckpointFacts, _digest, look
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData

FACTS = CheckpointFacts(
    topology="orders: table from topic orders\njoined: table_table(orders, customers)",
    generation="4.3",
    shards=4,
    tasks=2,
    formats={"blob": 1, "state": 2},
    partitions={"orders": 4, "customers": 4},
)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "a checkpoint")


def read_facts(spark: SparkSession, folder: str) -> CheckpointFacts | None:
    return look(Folder(spark, folder)).binding


def verify_or_create(spark: SparkSession, folder: str, facts: CheckpointFacts, **options: Any) -> Checkpoint:
    """What a start does, whose first batch begins."""
    checkpoint = look(Folder(spark, folder)).fitting(facts, **options)
    checkpoint.record()
    begin_batches(folder)
    return checkpoint


def record_of(folder: str) -> Path:
    return next((Path(folder) / "watersmeet" / "topology").glob("*.txt"))


def begin_batches(folder: str) -> None:
    """What Spark leaves when a first batch has begun."""
    offsets = Path(folder) / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / "0").write_text("v1\n")


def test_a_restart_with_the_same_facts_finds_the_same_checkpoint(spark: SparkSession, folder: str) -> None:
    assert read_facts(spark, folder) is None
    first = verify_or_create(spark, folder, FACTS)
    begin_batches(folder)
    again = verify_or_create(spark, folder + "/", FACTS)
    assert first.created
    assert not again.created
    assert again.id == first.id
    assert read_facts(spark, folder) == FACTS


def test_a_checkpoint_whose_batches_begin_again_gets_another_identity(spark: SparkSession, folder: str) -> None:
    first = verify_or_create(spark, folder, FACTS)
    begin_batches(folder)
    assert verify_or_create(spark, folder, FACTS).id == first.id
    shutil.rmtree(Path(folder) / "offsets")
    again = verify_or_create(spark, folder, FACTS)
    assert again.created
    assert again.id != first.id


def test_another_checkpoint_of_the_same_application_has_another_identity(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (verify_or_create(spark, str(tmp_path / name), FACTS).identity("app") for name in "ab")
    assert one.startswith("app-")
    assert one != other


def test_a_changed_topology_is_refused_and_the_difference_shown(spark: SparkSession, folder: str) -> None:
    verify_or_create(spark, folder, FACTS)
    changed = FACTS.topology.replace("orders, customers", "orders, people")
    with pytest.raises(ChangedTopology) as refused:
        verify_or_create(spark, folder, replace(FACTS, topology=changed))
    text = str(refused.value)
    assert "-joined: table_table(orders, customers)" in text
    assert "+joined: table_table(orders, people)" in text
    assert "Hint: " in text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"shards": 8}, "+shards: 8"),
        ({"tasks": 3}, "+tasks: 3"),
        ({"generation": "0.10.0"}, "+generation: 0.10.0"),
        ({"formats": {"blob": 2, "state": 2}}, "+format of blob: 2"),
    ],
)
def test_every_other_fact_is_held_too(spark: SparkSession, folder: str, change: dict[str, object], line: str) -> None:
    verify_or_create(spark, folder, FACTS)
    with pytest.raises(ChangedTopology) as refused:
        verify_or_create(spark, folder, replace(FACTS, **change), allow_partition_change=True)
    assert line in str(refused.value)


def test_other_partition_counts_are_refused_until_they_are_allowed(spark: SparkSession, folder: str) -> None:
    first = verify_or_create(spark, folder, FACTS)
    grown = replace(FACTS, partitions={"orders": 8, "customers": 4})
    with pytest.raises(ChangedTopology, match="allow_partition_change"):
        verify_or_create(spark, folder, grown)
    changed = verify_or_create(spark, folder, grown, allow_partition_change=True)
    assert changed.id == first.id
    assert (first.begun, changed.begun, changed.created) == (False, True, False)
    # from then on the new counts are the ones that hold
    assert verify_or_create(spark, folder, grown).facts == grown
    with pytest.raises(ChangedTopology):
        verify_or_create(spark, folder, FACTS)


def _altered(text: str) -> str:
    return text.replace('"shards": 4', '"shards": 8')


def _cut_off(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize("damage", [_altered, _cut_off])
def test_a_damaged_record_is_noticed(spark: SparkSession, folder: str, damage) -> None:  # type: ignore[no-untyped-def]
    verify_or_create(spark, folder, FACTS)
    record = record_of(folder)
    record.write_text(damage(record.read_text()))
    # Spark's file system checks its own sum first, where there is one
    record.with_name(f".{record.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptData, match="altered or cut off"):
        verify_or_create(spark, folder, replace(FACTS, shards=8))


def test_a_checkpoint_of_another_version_is_refused_with_what_to_do(spark: SparkSession, folder: str) -> None:
    verify_or_create(spark, folder, FACTS)
    record = record_of(folder)
    body = json.loads(record.read_text())
    del body["sha256"]
    body["version"] = 2
    record.write_text(json.dumps({**body, "sha256": _digest(body)}))
    record.with_name(f".{record.name}.crc").unlink(missing_ok=True)
    with pytest.raises(ChangedTopology, match=r"Another version(.|\n)*record version 2(.|\n)*Hint: .*new checkpoint"):
        verify_or_create(spark, folder, FACTS)


def test_batches_without_a_record_are_refused(spark: SparkSession, folder: str) -> None:
    offsets = Path(folder) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('v1\n{"batchWatermarkMs":0}\n')
    with pytest.raises(ConfigError, match="restore its folder watersmeet"):
        verify_or_create(spark, folder, FACTS)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_folder_does_the_same_on_both_file_systems(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.setattr(folders, "defaults_to_this_machine", lambda _: not elsewhere)
    here = Folder(spark, folder)
    assert isinstance(here, folders.HadoopFiles if elsewhere else folders.LocalFiles)
    assert (here.names("a/*"), here.read("a/1"), here.text("a/1"), here.contents("a/*")) == ([], None, "", {})
    assert here.create("a/1", "one")
    assert not here.create("a/1", "two")
    assert here.log("a/2", "", None)
    assert not here.log("a/2", "again", None)
    Path(folder, "a", ".hidden").touch()
    assert sorted(here.names("a/*")) == ["1", "2"]
    assert {path.rpartition("/")[2]: text for path, text in here.contents("*/[0-9]*").items()} == {
        "1": b"one",
        "2": b"",
    }
    here.put("a/1", "anew")
    here.move("a/1", "a/3")
    here.copy("a", here, "b")
    here.copy("missing", here, "c")
    here.remove("a")
    here.remove("a")
    assert sorted(here.names()) == ["b"]
    assert [here.text(f"b/{name}") for name in (1, 2, 3)] == ["", "", "anew"]
    # as Hadoop reads it, by its sums
    assert folders.HadoopFiles(spark, folder).read("b/3") == b"anew"
    Path(folder, "b", ".3.crc").write_bytes(b"crc\0\0\0\2\0none")
    with pytest.raises(CorruptData, match="altered or cut off"):
        here.read("b/3")


def test_a_record_is_the_same_whether_hadoop_writes_it_or_not(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folders.defaults_to_this_machine(spark)
    checkpoint = verify_or_create(spark, folder, FACTS)
    monkeypatch.setattr(folders, "defaults_to_this_machine", lambda _: False)
    changed = verify_or_create(spark, folder, replace(FACTS, spark="4.2"))
    assert (changed.id, changed.number) == (checkpoint.id, checkpoint.number + 1)
    assert read_facts(spark, folder) == changed.facts
    written = sorted(
        (Path(folder) / "watersmeet" / "topology").glob("part-*.txt"), key=lambda file: file.stat().st_mtime
    )
    assert len(written) == 2
    # without a scheme it is the default file system's; a name with one says where it lies
    look(Folder(spark, f"file:{folder}")).fitting(replace(FACTS, spark="4.1")).record()
    assert read_facts(spark, folder) == replace(FACTS, spark="4.1")


FILES_ON_DISK = """
import sys
import watersmeet as wm

folder = sys.argv[1]
spark = wm.session("disk", master="local[1]", config={"spark.ui.enabled": "false"})
frame = spark.sql("SELECT id AS key, id AS value, timestamp_millis(id) AS timestamp FROM range(9)").coalesce(1)
frame.write.parquet(folder + "/in")
inputs = spark.readStream.schema(frame.schema).parquet(folder + "/in")
builder = wm.StreamsBuilder("disk")
counts = builder.stream(inputs, name="in", key="key", timestamp="timestamp").group_by_key().count()
counts.to(wm.ForeachBatch(lambda rows, batch: None), name="out")
builder.build().start(spark, checkpoint=folder + "/checkpoint", available_now=True).awaitTermination()
"""


def test_a_batch_on_a_disk_starts_no_program_for_the_files_of_its_checkpoint(tmp_path: Path) -> None:
    calls, programs = tmp_path / "calls", tmp_path / "programs"
    programs.mkdir()
    chmod = programs / "chmod"
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {shutil.which("chmod")} "$@"\n')
    chmod.chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    command = [sys.executable, "-c", FILES_ON_DISK, str(tmp_path)]
    ran = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4_000:]
    changed = calls.read_text()
    assert f"{tmp_path}/in/" in changed  # this Hadoop has no native library
    folders = ("offsets", "commits", "state/0/0/.1.changelog")
    assert [name for name in folders if f"{tmp_path}/checkpoint/{name}" in changed] == []
    for name in ("offsets/0", "commits/0", "state/0/0/1.changelog"):
        assert (tmp_path / "checkpoint" / name).stat().st_mode & 0o777 == 0o644
