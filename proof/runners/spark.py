"""SparkRunner: recordings through real Spark, all histories of one topology in one run of the test driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from proof.oracle.records import Result
from proof.oracle.streams.recorded_programs import BY_WALL
from proof.recordings import History, topology_key
from proof.runners.engine import by_step
from proof.runners.library import ColumnLibrary
from proof.runners.topologies import build_recorded, shards_of, unsupported
from proof.runners.vectors import new_values
from watersmeet._spark.dataflow.fusion import SWITCH, Fusion, group_numbers
from watersmeet._spark.local import BoundedRun
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.topology import Topology
from watersmeet.errors import ConfigError
from watersmeet.testing.driver import TopologyTestDriver


class SparkRunner:
    """Runs histories through Spark.

    Parameters
    ----------
    spark : the session; the active one, or a new local one, if None.
    shards : shards of each operator.
    """

    def __init__(self, spark: Any = None, *, shards: int = 2) -> None:
        self._spark = spark or _session()
        self._shards = shards

    def supports(self, history: History) -> str | None:
        """Kinds whose operators exist; a run is one batch, without a place for what the wall clock shows."""
        return "no wall clock in one batch" if history.kind in BY_WALL else unsupported(history)

    def observed(self, history: History) -> History:
        """Whole changes are seen by their new values."""
        return new_values(history)

    def run_many(self, histories: Sequence[History]) -> list[list[list[Result]]]:
        """Results per history and step; one Spark run per topology."""
        groups: dict[str, list[int]] = {}
        for number, history in enumerate(histories):
            groups.setdefault(topology_key(history), []).append(number)
        results: list[list[list[Result]]] = [[] for _ in histories]
        for numbers in groups.values():
            for number, result in zip(numbers, self._run([histories[n] for n in numbers]), strict=True):
                results[number] = result
        return results

    def _run(self, histories: Sequence[History]) -> list[list[list[Result]]]:
        builder, outputs = build_recorded(
            histories[0], ColumnLibrary(), lambda g: StreamsBuilder("recorded", generation=g)
        )
        if not outputs:
            return [[[] for _ in history.steps] for history in histories]
        shards = shards_of(histories[0], self._shards)
        driver = self._driver(builder.build(), shards)
        for number, history in enumerate(histories):
            for step in history.steps:
                if step.topic is not None:  # the wall clock moves nothing here
                    driver.pipe(step.topic, step.key, step.value, ts=step.ts, case=str(number))
        return [
            by_step(history, {name: driver.read(name, case=str(n)) for name in outputs}, outputs)
            for n, history in enumerate(histories)
        ]

    def _driver(self, topology: Topology, shards: int) -> TopologyTestDriver:
        return TopologyTestDriver(topology, self._spark, shards=shards)


class SparkTaskRunner(SparkRunner):
    """Runs histories through Spark in one task: all levels stand one behind the other in it."""

    def _driver(self, topology: Topology, shards: int) -> TopologyTestDriver:
        driver = super()._driver(topology, shards)
        run = cast(BoundedRun, driver._run)
        groups = group_numbers(Fusion(self._spark, run.physical), 1)
        driver._run = replace(run, tasks=1, physical=run.physical.in_groups(groups))
        return driver


class SparkFunctionsRunner(SparkRunner):
    """Runs histories through Spark, all functions evaluated by Spark, none in the level."""

    def _run(self, histories: Sequence[History]) -> list[list[list[Result]]]:
        self._spark.conf.set(SWITCH, "spark")
        try:
            return super()._run(histories)
        finally:
            self._spark.conf.unset(SWITCH)


def _session() -> Any:
    from watersmeet._spark import functions
    from watersmeet._spark.session import session

    try:
        return functions.session()
    except ConfigError:
        return session("conformance")
