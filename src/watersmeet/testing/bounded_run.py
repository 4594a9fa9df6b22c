"""A bounded run of a topology: piped records as one frame, every case and output collected.

What `watersmeet.testing.driver` runs on. All inputs of a case form one source partition; the case number
travels beside the position and gives each case shards of its own, so hundreds of cases share one run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Row, SparkSession

from watersmeet._engine.rows.columns import HELD_KEY, position_columns
from watersmeet._engine.rows.position import position_tuples
from watersmeet._engine.rows.topic_slots import TOPICS
from watersmeet._plan.physical import Physical
from watersmeet._spark.dataflow.compile import CompiledFrame, compile_plan
from watersmeet._spark.dataflow.layout import SparkLayout
from watersmeet._spark.session import settings
from watersmeet._spark.session.counting import Metrics, add, counted, drops_of
from watersmeet._spark.sources.scans import Scan
from watersmeet._worker.pattern_topics import PROPERTY, as_property
from watersmeet._worker.wire.wire import Labels, target_count
from watersmeet.testing.piped import Piped
from watersmeet.testing.records import Collected, PipedFrame, headers_of

Drops = dict[tuple[str, str], int]
TASKS = 2
SETTINGS = {
    # a session's own are for large data: 200 tasks an exchange take minutes over a handful of records
    "spark.sql.shuffle.partitions": str(TASKS),
    # looking at a stage's sizes before the next is planned takes longer than the stages do
    "spark.sql.adaptive.enabled": "false",
}
"""What a run sets, besides what a query does."""


@dataclass
class BoundedRun:
    """Runs of one topology over given records.

    Parameters
    ----------
    spark : the session.
    physical : the plan.
    shards : shards of each operator.
    headers : whether records carry headers.
    """

    spark: SparkSession
    physical: Physical
    shards: int
    headers: bool
    drops: Drops = field(default_factory=dict)

    def run(self, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        """Results by (case, sink name), in order; `drops` counts what was dropped."""
        with settings.overridden(self.spark, {**settings.AT_START, **SETTINGS}):
            return self._run(cases)

    def _run(self, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        self.drops = {}
        if TOPICS.get():
            self.spark.sparkContext.setLocalProperty(PROPERTY, as_property(TOPICS.get()))
        # In Spark 4.1 a bounded stateful query finds its state coordinator only after this was touched.
        _ = self.spark.streams.active
        observations: list[tuple[Observation, Metrics]] = []

        def observe(frame: DataFrame, name: str, metrics: Metrics) -> DataFrame:
            observation = Observation(name)
            if metrics:
                observations.append((observation, metrics))
            return counted(frame, observation, metrics)

        layout = SparkLayout(
            labels=Labels(self.shards, target_count(self.physical)),
            tasks=TASKS,
            cache_root=None,
            headers=self.headers,
            cases=True,
            observe=observe,
        )
        names = tuple(source.name for source in self.physical.plan.sources)
        form = PipedFrame(self.physical, self.headers)
        frame = self.spark.createDataFrame(form.rows(cases), form.schema).coalesce(1)
        compiled = compile_plan(self.physical, [Scan(frame, names)], layout)
        results = self._collect(compiled, cases)
        for observation, metrics in observations:
            add(self.drops, drops_of(observation.get, metrics))
        return results

    def _collect(
        self, compiled: CompiledFrame, cases: Sequence[Sequence[Piped]]
    ) -> dict[tuple[int, str], list[Collected]]:
        results: dict[tuple[int, str], list[Collected]] = defaultdict(list)
        shared = len(compiled.selectors) > 1
        frame = compiled.frame.persist() if shared else compiled.frame
        position = position_columns(self.physical.slots)
        for sink, select in compiled.selectors.items():
            rows = select(frame).collect()
            places = _position_tuples(rows, position)
            # A task emits each case's rows in order; cases and shards may come from several tasks.
            for at in sorted(range(len(rows)), key=lambda at: (rows[at]["case"], places[at])):
                case = rows[at]["case"]
                results[(case, sink)].append(_collected(rows[at], places[at]))
        if shared:
            frame.unpersist()
        return results


def _position_tuples(rows: Sequence[Row], position: Sequence[str]) -> list[tuple[int | bytes, ...]]:
    columns = [np.array([row[name] for row in rows], dtype=np.int64) for name in position]
    held = [row[HELD_KEY] for row in rows] if rows and HELD_KEY in rows[0] else None
    return position_tuples(columns, None if held is None else pa.array(held, pa.binary()))


def _collected(row: Row, place: tuple[int | bytes, ...]) -> Collected:
    headers = None
    if "headers" in row:
        headers = headers_of(row["headers"])
    return Collected(row["key"], row["value"], row["ts"], headers, row["offset"], place)
