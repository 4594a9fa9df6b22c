"""Snapshots of Iceberg as files in the checkpoint, of a table that stands in for one: its states are DataFrames here.

Iceberg is made for another version of Spark; `dev/changes_trial.py` reads its tables there (`make versions`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_changes import Change, merged
from tests.spark.inputs_and_outputs.test_streaming import run
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.sources.iceberg import LakeRows, LakeSnapshot, LakeTable, folder_of, net_changes
from watersmeet.errors import ConfigError, CorruptData, SourceError
from watersmeet.io.inputs import COMMIT_TIMESTAMP, FEED

SCHEMA = "id long, region string, amount long"
State = dict[int, tuple[str, int]]


@dataclass(frozen=True)
class Lake(LakeTable):
    """A table whose snapshots are in memory, by their ids: what is known of each, its rows and its changes."""

    log: dict[int, tuple[LakeSnapshot, State, list[Change]]] = field(default_factory=dict)
    head: list[int] = field(default_factory=list)

    def commit(self, changes: list[Change], state: State, operation: str = "overwrite") -> None:
        number = 100 + 7 * len(self.log)
        parent = self.head[-1] if self.head else None
        step = LakeSnapshot(number, parent, operation, 1_000 * number, plain=bool(changes))
        self.log[number] = (step, dict(state), changes)
        self.head.append(number)

    @property
    def current(self) -> int | None:
        return self.head[-1] if self.head else None

    def snapshots(self) -> dict[int, LakeSnapshot]:
        return {number: step for number, (step, _, _) in self.log.items()}

    def rows(self, snapshot: int | None) -> DataFrame:
        state = self.log[snapshot][1] if snapshot else {}
        return self.spark.createDataFrame([(key, *row) for key, row in state.items()], SCHEMA)

    def changes(self, step: LakeSnapshot) -> DataFrame:
        if not step.plain:
            return super().changes(step)
        kinds = {"update_preimage": "delete", "update_postimage": "insert"}
        rows = [(*change[:3], kinds.get(change[3], change[3])) for change in self.log[step.id][2]]
        return self.spark.createDataFrame(rows, f"{SCHEMA}, _change_type string")


def topology(lake: Lake, kind: str, got: list[Any], **facts: Any) -> wm.Topology:
    frame = lake.spark.readStream.format("rate").load()
    columns = zip(
        ("id", "region", "amount", *FEED), ("long", "string", "long", "string", "long", "timestamp"), strict=True
    )
    frame = frame.select(*(F.lit(None).cast(type_name).alias(name) for name, type_name in columns))
    facts = {"per_batch": "1", "later": False, **facts}
    rows = LakeRows(frame, "id", timestamp=COMMIT_TIMESTAMP, partitioned=True, table=lake, **facts)
    builder = wm.StreamsBuilder("snapshots")
    source: Any = getattr(builder, kind)(rows, name="orders")
    source.to(wm.ForeachBatch(lambda made, batch: got.extend(made.orderBy("sequence").collect())), name="out")
    return builder.build()


def view(got: list[Any]) -> State:
    found = {row["key"]: row["value"] and tuple(row["value"]) for row in got}
    return {key: row for key, row in found.items() if row is not None}


def test_after_each_start_the_view_is_the_table_through_compaction_and_a_rollback(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw, lake, state, got = random.Random(5), Lake(spark, "orders", "orders"), State(), list[Any]()
    for start in range(4):
        for _ in range(3 if start else 0):  # the first start finds a table that has had no snapshot
            changes = merged(draw, state)
            lake.commit(changes if draw.random() < 0.5 else [], state)
        lake.commit([], state, "replace")
        if start == 3:
            del lake.head[-6:]  # beyond what has been read
            state = dict(lake.log[lake.head[-1]][1])
        run(topology(lake, "table", got), spark, tmp_path, shards=2, tasks=2)
        assert view(got) == state
    folder = folder_of(Folder(spark, str(tmp_path / "cp")), "orders")
    assert folder.text("_position").split()[1] == str(lake.current)


def test_a_table_that_is_replaced_by_an_empty_one_loses_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    lake, got = Lake(spark, "orders", "orders"), list[Any]()
    lake.commit([], {1: ("n", 1), 2: ("s", 2)})
    run(topology(lake, "table", got), spark, tmp_path, shards=1, tasks=1)
    lake.head.clear()
    for _ in range(2):
        run(topology(lake, "table", got), spark, tmp_path, shards=1, tasks=1)
        assert view(got) == {}
    assert len(got) == 4
    lake.commit([], {3: ("w", 3)})
    run(topology(lake, "table", got), spark, tmp_path, shards=1, tasks=1)
    assert view(got) == {3: ("w", 3)}


def test_a_file_that_is_written_again_behind_a_kill_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    lake, got = Lake(spark, "orders", "orders"), list[Any]()
    lake.commit([], {1: ("n", 1)})
    run(topology(lake, "stream", got), spark, tmp_path, shards=1, tasks=1)
    position = folder_of(Folder(spark, str(tmp_path / "cp")), "orders")
    before = position.text("_position")
    lake.commit([], {1: ("n", 2)})
    run(topology(lake, "stream", got), spark, tmp_path, shards=1, tasks=1)
    position.put("_position", before)  # as where the process was killed between the file and this
    lake.commit([], {1: ("n", 2), 2: ("s", 3)})
    run(topology(lake, "stream", got), spark, tmp_path, shards=1, tasks=1)
    assert [(row["key"], *row["value"]) for row in got] == [(1, "n", 1), (1, "n", 2), (2, "s", 3)]
    position.remove("_position")
    with pytest.raises(CorruptData, match="files of the changes of 'orders' are missing"):
        run(topology(lake, "stream", got), spark, tmp_path, shards=1, tasks=1)


def test_a_stream_that_begins_with_a_snapshot_has_what_came_later(spark: SparkSession, tmp_path: Path) -> None:
    lake, got = Lake(spark, "orders", "orders"), list[Any]()
    for number in range(3):
        lake.commit([], {key: ("n", key) for key in range(number + 1)})
    run(topology(lake, "stream", got, start=lake.head[1], later=True), spark, tmp_path, shards=1, tasks=1)
    assert [row["key"] for row in got] == [2]


def test_a_query_that_goes_on_reads_snapshots_and_ends_at_expired_ones(spark: SparkSession, tmp_path: Path) -> None:
    lake, got = Lake(spark, "orders", "orders"), list[Any]()
    lake.commit([], {1: ("n", 1)})
    query = topology(lake, "table", got).start(spark, checkpoint=tmp_path / "cp", shards=1, tasks=1)
    query.processAllAvailable()
    lake.commit([], {1: ("n", 2)})
    query.processAllAvailable()
    assert view(got) == {1: ("n", 2)}
    lake.log.clear()
    lake.log[121] = (LakeSnapshot(121, 114, "overwrite", 0, plain=True), {}, [])
    lake.head.append(121)
    with pytest.raises(SourceError, match=r"(?s)'orders' have been expired.*snapshot 107.*begins with the table"):
        query.awaitTermination()
    assert isinstance(query.exception(), SourceError)


def test_a_snapshot_before_may_be_expired_only_where_no_row_is_taken_away(spark: SparkSession) -> None:
    for operation in ("append", "replace", "overwrite"):
        lake = Lake(spark, "orders", "orders")
        for _ in range(2):
            lake.commit([(1, "n", 1, "insert")], {1: ("n", 1)}, operation)
        del lake.log[100]
        if operation == "overwrite":
            with pytest.raises(SourceError, match="'orders' have been expired"):
                lake.steps(100)
        else:
            assert [step.id for step in lake.steps(100)] == [107]


def test_a_frame_of_a_topology_is_refused_where_snapshots_are_to_be_written(spark: SparkSession) -> None:
    lake = Lake(spark, "orders", "orders")
    with pytest.raises(ConfigError, match=r"wm.Changes of a table of Iceberg"):
        topology(lake, "table", []).frame(spark, "out", checkpoint="unused")


def test_rows_that_stay_are_no_changes_also_those_with_maps(spark: SparkSession) -> None:
    rows = [(1, {"a": 1}, 1), (1, {"a": 1}, -1), (2, {"a": 1}, -1), (2, {"a": 2}, 1), (3, None, 1), (3, None, 1)]
    changes = net_changes(spark.createDataFrame(rows, "id long, tags map<string, int>, _sign int")).collect()
    wanted = [(2, {"a": 1}, "delete"), (2, {"a": 2}, "insert"), (3, None, "insert"), (3, None, "insert")]
    assert sorted(map(tuple, changes), key=str) == sorted(wanted, key=str)
