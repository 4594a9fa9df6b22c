"""Results of many shards that a task packs together, and rows that a level takes straight from Arrow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.driver import test_driver_in_process as driven
from watersmeet._engine.exchange import Clock
from watersmeet._spark import local
from watersmeet._spark.dataflow.level import LevelOperators, LevelProcessor
from watersmeet._worker import pack as gathered
from watersmeet._worker.counts import Counts, Measures
from watersmeet._worker.ended_rows import DeadLetterWriter
from watersmeet._worker.pack import WIRE_ARROW, ends_for_all_tasks
from watersmeet._worker.spark_worker import Wire, straight
from watersmeet._worker.wire import END, Labels, WireRow, WireSettings, sparks_hash, spread_labels
from watersmeet.errors import WatersmeetError
from watersmeet.testing import driver
from watersmeet.testing.driver import TopologyTestDriver

TASKS, SHARDS = 2, 16


class InTasks(local.LocalRun):
    """A run whose levels are divided into tasks, each with a processor of its own and an end behind its labels."""

    gathers = False
    rows_sent = 0

    def _packed(self, frame: pa.Table, drops: DeadLetterWriter) -> dict[tuple[int, str], list[Any]]:
        pack = self.topology.pack
        labels = pack.common.labels
        wire = [*pack.pack(frame, Clock(), drops, Counts()), *ends_for_all_tasks(labels)]
        for level in self.topology.levels:
            by_label: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
            for label, port, content in wire:
                by_label[label].append((port, content))
            tasks = dict(zip(sorted(by_label), sparks_hash(np.array(sorted(by_label), np.int32)) % TASKS, strict=True))
            wire = []
            for task in range(TASKS):
                mine = LevelProcessor(level._operators, level._common, gathers=self.gathers)
                mine.begin_task()
                for label in (label for label in sorted(by_label) if tasks[label] == task):
                    wire += mine.ran(label, iter(by_label[label]), partial(self._state, label))
                mine.close()
                drops.update(mine.counts.drops)
            type(self).rows_sent += len(wire)
        return dict(self._collected([row for row in wire if row[1] != END]))


def spread(monkeypatch: pytest.MonkeyPatch, *, gathers: bool) -> type[InTasks]:
    """Test drivers run in tasks from now on; gives the class, which counts the rows between levels."""

    class Run(InTasks):
        rows_sent = 0

    Run.gathers = gathers
    one = local._local

    def spread_local(spark: SparkSession, physical: Any, form: Any, labels: Labels) -> Any:
        return one(spark, physical, form, spread_labels(physical, SHARDS, TASKS))

    monkeypatch.setattr(local, "_local", spread_local)
    monkeypatch.setattr(driver, "LocalRun", Run)
    return Run


def rekeyed(b: wm.StreamsBuilder) -> None:
    left, right = driven.streams(b)
    windows = wm.JoinWindows.of_time_difference_with_no_grace("10 ms")
    joined = left.outer_join(right, driven.both, windows)
    joined.select_key(lambda key, value: F.concat(value, F.lit("!"))).group_by_key().count().to("counted")
    joined.filter(lambda value: value != "2").group_by(lambda key, value: F.lit("all")).count().to("all")


TOPOLOGIES = (rekeyed, driven.stream_joins, driven.foreign_keys, driven.table_aggregates, driven.windows)


@pytest.mark.parametrize("small", [True, False], ids=["held to the end", "handed on at once"])
@pytest.mark.parametrize("write", TOPOLOGIES)
def test_results_that_a_task_packs_together_are_those_that_each_shard_packs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, write: Any, *, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(gathered, "SMALL", 0)
    found = []
    for gathers in (False, True):
        spread(monkeypatch, gathers=gathers)
        run = TopologyTestDriver(driven.built(write))
        assert run.runs_in == "process", run.why_spark
        for each in driven.ORDERS:
            run.pipe(*each[:3], ts=each[3])
        found.append((driven.plain(driven.outputs(driven.built(write), run, "")), run.drops))
        monkeypatch.undo()
        if not small:
            monkeypatch.setattr(gathered, "SMALL", 0)
    assert found[0] == found[1]
    assert any(found[0][0].values())


def test_a_task_sends_a_blob_to_each_shard_and_not_one_from_each_of_its_own(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    for gathers in (False, True):
        run = spread(monkeypatch, gathers=gathers)
        piped = TopologyTestDriver(driven.built(rekeyed))
        for number in range(400):
            piped.pipe("left", str(number), number, ts=number)
        assert len(piped.read("counted")) > 300
        sent.append(run.rows_sent)
        monkeypatch.undo()
    assert sent[1] < sent[0] / 2


def test_a_task_that_ends_without_its_end_fails_and_loses_nothing() -> None:
    level = LevelProcessor(
        LevelOperators({}, {}, {}), WireSettings(Labels(1, 1, (0,), (1,)), Measures({}, frozenset())), gathers=True
    )
    level.begin_task()
    level.close()
    level._gathered.add(0, pa.table({"key": [1]}))  # type: ignore[union-attr]
    with pytest.raises(WatersmeetError, match="results are left"):
        level.close()


# -- straight from Arrow -----------------------------------------------------------------------------------------


class Modes:
    """As in `pyspark.sql.streaming.stateful_processor_util`."""

    PROCESS_DATA, PROCESS_TIMER, COMPLETE = range(3)


class Utils:
    """What Spark wraps a processor in."""

    def __init__(self, *, takes_wire: bool) -> None:
        self._stateful_processor = type("Level", (), {"takes_wire": takes_wire})()
        self.calls: list[tuple[int, Any, list[Any]]] = []

    def called(self, client: Any, mode: int, key: Any, rows: Any) -> Iterator[WireRow]:
        self.calls.append((mode, key, list(rows)))
        if mode == Modes.PROCESS_DATA:
            assert isinstance(rows, Wire)
            yield key[0], 7, b"result"


def sparks_function(utils: Utils) -> Any:
    """A function that holds what Spark's does."""
    udf, stateful_processor_api_client, key_offsets, value_offsets = utils.called, object(), [0], [1, 2, 3]
    output_schema = type("Schema", (), {"fields": [type("Field", (), {"name": "_0"})()]})()

    def transform_with_state_func(split_index: int, batches: Any) -> Any:
        return udf, stateful_processor_api_client, key_offsets, value_offsets, output_schema

    return transform_with_state_func


def test_a_level_gets_the_rows_of_each_label_and_its_results_go_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sparks_function.__globals__, "TransformWithStateInPandasFuncMode", Modes)
    utils = Utils(takes_wire=True)
    names = ["key", *WIRE_ARROW.names]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                *(pa.array(each, pa.int32()) for each in (labels, labels, ports)),
                pa.array(blobs, pa.binary()),
            ],
            names=names,
        )
        for labels, ports, blobs in (([3, 3, 5], [0, 1, 0], [b"a", b"b", b"c"]), ([5, 9], [1, 0], [b"d", b"e"]))
    ]
    given = list(straight(sparks_function(utils))(0, iter(batches)))
    assert utils.calls[:3] == [
        (Modes.PROCESS_DATA, (3,), [(0, b"a"), (1, b"b")]),
        (Modes.PROCESS_DATA, (5,), [(0, b"c"), (1, b"d")]),
        (Modes.PROCESS_DATA, (9,), [(0, b"e")]),
    ]
    assert [call[0] for call in utils.calls[3:]] == [Modes.PROCESS_TIMER, Modes.COMPLETE]
    assert [batch.num_rows for batch in given] == [3]
    assert given[0].column("_0").to_pylist()[0] == {"label": 3, "port": 7, "blob": b"result"}


def test_a_processor_that_is_no_level_and_a_function_of_another_form_run_as_spark_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sparks_function.__globals__, "TransformWithStateInPandasFuncMode", Modes)
    anothers = sparks_function(Utils(takes_wire=False))
    assert straight(anothers) is anothers
    assert straight(len) is len

    def transform_with_state_func(split_index: int, batches: Any) -> Any:
        return anothers

    assert straight(transform_with_state_func) is transform_with_state_func
