"""TopologyTestDriver: records in, records out, no broker; the same plan as in production, over bounded frames.

All inputs of a case form one source partition whose offset is the piping sequence, so records are processed in
exactly the order in which they were piped. Many independent cases share one Spark run, and each read runs all
records piped so far and returns what is new: a suite of hundreds of cases costs a run or two.

Example::

    driver = TopologyTestDriver(topology)
    driver.pipe("orders", key=1, value={"customer": "ann"}, ts=0)
    driver.read("enriched")        # [TestRecord(key=1, value=Row(...), ts=0, headers=None)]
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, StructField, StructType

from millpond._engine.columns import position_columns
from millpond._engine.times import LET_GO
from millpond._plan.nodes import Source
from millpond._spark.compile import HEADERS, Compiled, Input, Settings, compile_plan
from millpond._spark.functions import session
from millpond._spark.wire import Labels, target_count
from millpond.errors import TopologyError
from millpond.topology import Topology

Header = tuple[str, bytes]


@dataclass(frozen=True)
class TestRecord:
    """One record of an output.

    Parameters
    ----------
    key, value : as Spark collects them (a struct is a Row).
    ts : event time in ms.
    headers : of the record that caused it; None where the topology keeps none.
    step : piping sequence number, within the case, of the record that caused it; for a result that time
        brings about, of the record that moved time on.
    """

    __test__ = False  # pytest is not to collect it

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None = None
    step: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class _Piped:
    source: int
    key: Any
    value: Any
    ts: int
    headers: Sequence[Header]
    step: int
    order_ts: int


class TopologyTestDriver:
    """Runs a topology over piped records.

    Parameters
    ----------
    topology : the topology.
    spark : the session; the active one if None.
    shards : shards of each operator.
    """

    def __init__(self, topology: Topology, spark: SparkSession | None = None, *, shards: int = 2) -> None:
        self._topology = topology
        self._spark = spark or session()
        self._shards = shards
        self._piped: dict[str, list[_Piped]] = defaultdict(list)
        self._seen: dict[tuple[str, str], int] = defaultdict(int)
        self._results: dict[tuple[str, str], list[TestRecord]] | None = None
        self.drops: dict[tuple[str, str], int] = {}

    def pipe(
        self, input: str, key: Any, value: Any, *, ts: int, headers: Sequence[Header] = (), case: str = ""
    ) -> None:
        """Put one record behind those already piped.

        Parameters
        ----------
        input : name of an input of the topology.
        key, value : Python values of its types; None for null.
        ts : event time in ms.
        headers : (name, bytes) pairs.
        case : name of an independent case.
        """
        if input not in self._inputs:
            raise TopologyError(
                "There is no such input.", given=repr(input), hint=f"Inputs: {', '.join(self._inputs)}."
            )
        before = self._piped[case]
        latest = max(before[-1].order_ts if before else ts, ts)
        step = len(before)
        before.append(_Piped(self._inputs[input], key, value, ts, tuple(headers), step, latest))
        self._results = None

    def read(self, output: str, *, case: str = "") -> list[TestRecord]:
        """The records that an output got since the last read, in order."""
        names = [sink.output for sink in self._topology.plan.sinks]
        if output not in names:
            raise TopologyError(
                "There is no such output.", given=repr(output), hint=f"Outputs: {', '.join(names)}."
            )
        if self._results is None:
            self._results = self._run()
        records = self._results.get((case, output), [])
        seen, self._seen[(case, output)] = self._seen[(case, output)], len(records)
        return records[seen:]

    # ------------------------------------------------------------------------------------------------------

    @cached_property
    def _inputs(self) -> dict[str, int]:
        return {source.input: i for i, source in enumerate(self._topology.plan.sources)}

    def _run(self) -> dict[tuple[str, str], list[TestRecord]]:
        self.drops = {}
        observations: list[tuple[Observation, tuple[tuple[str, str], ...]]] = []

        def observe(frame: DataFrame, name: str, metrics: tuple[tuple[str, str], ...]) -> DataFrame:
            if not metrics:
                return frame
            observation = Observation(name)
            observations.append((observation, metrics))
            return counted(frame, observation, len(metrics))

        physical = self._topology.physical
        settings = Settings(
            labels=Labels(self._shards, target_count(physical)),
            tasks=2,
            cache_root=None,
            headers=self._with_headers,
            cases=True,
            observe=observe,
        )
        names = frozenset(source.name for source in self._topology.plan.sources)
        compiled = compile_plan(physical, [Input(self._frame(), names)], settings)
        results = self._collect(compiled)
        self._count(observations)
        return results

    @cached_property
    def _with_headers(self) -> bool:
        return any(getattr(source.origin, "headers", False) for source in self._topology.plan.sources)

    def _frame(self) -> DataFrame:
        sources = self._topology.plan.sources
        position = position_columns(self._topology.physical.slots)
        fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("case", LongType())]
        fields += [(name, LongType()) for name in (*position, "ts")] + [("reason", ByteType())]
        fields += [("headers", HEADERS)] if self._with_headers else []
        for number, source in enumerate(sources):
            fields += [(f"s{number}_key", source.shape.key), (f"s{number}_value", source.shape.value)]
        rows = [
            self._row(piped, case, sources, len(position))
            for case, name in enumerate(self._piped)
            for piped in self._piped[name]
        ]
        schema = StructType([StructField(name, kind, True) for name, kind in fields])
        try:
            return self._spark.createDataFrame(rows, schema).coalesce(1)
        except PySparkException as error:
            raise TopologyError(
                "A piped record does not have its input's types.", given=str(error).split("\n")[0]
            ) from None

    def _row(self, piped: _Piped, case: int, sources: Sequence[Source], position: int) -> tuple[Any, ...]:
        reason = 1 if piped.ts < 0 else 0
        paths = [0] * (position - 3)
        row = [piped.source, case, piped.order_ts, 0, piped.step, *paths, piped.ts, reason]
        row += [list(piped.headers)] if self._with_headers else []
        for number in range(len(sources)):
            mine = number == piped.source
            row += [piped.key, piped.value] if mine else [None, None]
        return tuple(row)

    def _collect(self, compiled: Compiled) -> dict[tuple[str, str], list[TestRecord]]:
        names = list(self._piped)
        outputs = {sink.name: sink.output for sink in self._topology.plan.sinks}
        results: dict[tuple[str, str], list[TestRecord]] = defaultdict(list)
        frame = compiled.frame.persist() if len(compiled.selectors) > 1 else compiled.frame
        position = position_columns(self._topology.physical.slots)
        for sink, select in compiled.selectors.items():
            rows = select(frame).collect()
            # A task emits each case's rows in order; cases and shards may come from several tasks.
            rows.sort(key=lambda row: (row["case"], *(row[name] for name in position)))
            for row in rows:
                name = names[row["case"]]
                results[(name, outputs[sink])].append(_record(row, self._piped[name]))
        if len(compiled.selectors) > 1:
            frame.unpersist()
        return results

    def _count(self, observations: list[tuple[Observation, tuple[tuple[str, str], ...]]]) -> None:
        for observation, metrics in observations:
            for number, metric in enumerate(metrics):
                count = observation.get[f"m{number}"] or 0
                if count:
                    self.drops[metric] = self.drops.get(metric, 0) + count


def counted(frame: DataFrame, observation: Any, metrics: int) -> DataFrame:
    """Wire rows with the counts among them observed (metric n as `mn`) and taken out."""
    is_count = F.col("blob").isNull()
    sums = [F.sum(F.when(is_count & (F.col("port") == n), F.col("count"))).alias(f"m{n}") for n in range(metrics)]
    return frame.observe(observation, *sums).filter(~is_count)


def _record(row: Any, piped: Sequence[_Piped]) -> TestRecord:
    headers = None
    if "headers" in row:
        headers = tuple((h["key"], bytes(h["value"])) for h in row["headers"] or ())
    return TestRecord(row["key"], row["value"], row["ts"], headers, _step(row, piped))


def _step(row: Any, piped: Sequence[_Piped]) -> int:
    if row["srcpart"] < LET_GO:
        return int(row["offset"])
    return bisect_right(piped, row["order_ts"], key=lambda record: record.order_ts)
