"""A bounded run of a topology: piped records as one frame, every case and output collected.

What `millpond.testing.driver` runs on. All inputs of a case form one source partition; the case number
travels beside the position and gives each case shards of its own, so hundreds of cases share one run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, StructField, StructType

from millpond._engine.rows.columns import HELD_KEY, LET_GO, position_columns
from millpond._engine.rows.position import places_of
from millpond._plan.physical import Physical
from millpond._spark.dataflow.compile import HEADERS, Compiled, Input, Layout, compile_plan
from millpond._spark.dataflow.wire import Labels, target_count
from millpond._spark.formats.deserializers import NEGATIVE_TIMESTAMP, UNDECODABLE
from millpond._spark.query.counting import Metrics, add, counted, drops_of
from millpond._spark.session import settings
from millpond.testing.piped import Header, Piped

Drops = dict[tuple[str, str], int]
TASKS = 2
SETTINGS = {
    # a session's own are for large data: 200 tasks an exchange take minutes over a handful of records
    "spark.sql.shuffle.partitions": str(TASKS),
    # looking at a stage's sizes before the next is planned takes longer than the stages do
    "spark.sql.adaptive.enabled": "false",
}
"""What a run sets, besides what a query does."""


@dataclass(frozen=True)
class Collected:
    """One result: the record, the step that caused it, and its position."""

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None
    step: int
    position: tuple[int | bytes, ...]


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
        # In Spark 4.1 a bounded stateful query finds its state coordinator only after this was touched.
        _ = self.spark.streams.active
        observations: list[tuple[Observation, Metrics]] = []

        def observe(frame: DataFrame, name: str, metrics: Metrics) -> DataFrame:
            observation = Observation(name)
            if metrics:
                observations.append((observation, metrics))
            return counted(frame, observation, metrics)

        layout = Layout(
            labels=Labels(self.shards, target_count(self.physical)),
            tasks=TASKS,
            cache_root=None,
            headers=self.headers,
            cases=True,
            observe=observe,
        )
        names = frozenset(source.name for source in self.physical.plan.sources)
        compiled = compile_plan(self.physical, [Input(self._frame(cases), names)], layout)
        results = self._collect(compiled, cases)
        for observation, metrics in observations:
            add(self.drops, drops_of(observation.get, metrics))
        return results

    def _frame(self, cases: Sequence[Sequence[Piped]]) -> DataFrame:
        sources = self.physical.plan.sources
        position = position_columns(self.physical.slots)
        fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("case", LongType())]
        fields += [(name, LongType()) for name in (*position, "ts")] + [("reason", ByteType())]
        fields += [("headers", HEADERS)] if self.headers else []
        for number, source in enumerate(sources):
            fields += [(f"s{number}_key", source.shape.key), (f"s{number}_value", source.shape.value)]
        rows = [self._row(piped, case) for case, records in enumerate(cases) for piped in records]
        schema = StructType([StructField(name, kind, True) for name, kind in fields])
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def _row(self, piped: Piped, case: int) -> tuple[Any, ...]:
        reason = UNDECODABLE if piped.undecodable else NEGATIVE_TIMESTAMP if piped.ts < 0 else 0
        paths = [0] * self.physical.slots
        row: list[Any] = [piped.source, case, piped.step, 0, piped.step, *paths, piped.ts, reason]
        row += [list(piped.headers)] if self.headers else []
        for number in range(len(self.physical.plan.sources)):
            row += [piped.key, piped.value] if number == piped.source else [None, None]
        return tuple(row)

    def _collect(self, compiled: Compiled, cases: Sequence[Sequence[Piped]]) -> dict[tuple[int, str], list[Collected]]:
        results: dict[tuple[int, str], list[Collected]] = defaultdict(list)
        shared = len(compiled.selectors) > 1
        frame = compiled.frame.persist() if shared else compiled.frame
        position = position_columns(self.physical.slots)
        for sink, select in compiled.selectors.items():
            rows = select(frame).collect()
            places = _places(rows, position)
            # A task emits each case's rows in order; cases and shards may come from several tasks.
            for at in sorted(range(len(rows)), key=lambda at: (rows[at]["case"], places[at])):
                case = rows[at]["case"]
                results[(case, sink)].append(_collected(rows[at], places[at]))
        if shared:
            frame.unpersist()
        return results


def _places(rows: Sequence[Row], position: Sequence[str]) -> list[tuple[int | bytes, ...]]:
    columns = [np.array([row[name] for row in rows], dtype=np.int64) for name in position]
    held = [row[HELD_KEY] for row in rows] if rows and HELD_KEY in rows[0] else None
    return places_of(columns, None if held is None else pa.array(held, pa.binary()))


def _collected(row: Row, place: tuple[int | bytes, ...]) -> Collected:
    headers = None
    if "headers" in row:
        headers = tuple((h["key"], bytes(h["value"])) for h in row["headers"] or ())
    step = row["offset"]
    if row["srcpart"] >= LET_GO:
        # Time brought it about: the record behind those that it stands behind did.
        step = row["order_ts"] + 1
    return Collected(row["key"], row["value"], row["ts"], headers, step, place)
