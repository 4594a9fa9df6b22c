"""Outputs of the user's own: written by the driver in one call, or by each task of the last exchange.

A writer reads all its rows first, also those that it does not write: the levels' state is saved with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from watersmeet._spark.sinks.kind import Chosen, Given, OnePass, OutputBatch, OutputKind, Pass
from watersmeet._worker.batch_plan import older
from watersmeet._worker.writers.own import CALLED, OwnOutputWriter, WriteOwn, asked
from watersmeet.errors import ConfigError
from watersmeet.io.outputs import OwnOutput


class Owns(OutputKind):
    """Outputs of the user's own."""

    def check(self, spark: SparkSession, targets: Sequence[OwnOutput], *, alone: bool) -> None:
        for target in targets:
            if target.output.written_by == "tasks":
                _check_pickled(target.output)
            target.output.check()

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        tasks = 0 if given.written is None else given.written.tasks
        return [OwnPass(each, given.identity, given.planned, tasks) for each in chosen]


@dataclass(frozen=True)
class OwnPass(OnePass):
    """Has one such output write.

    Parameters
    ----------
    identity : names the application and its checkpoint.
    planned : number of the last batch that may have been run before.
    tasks : how many tasks have written batches before this start.
    """

    identity: str
    planned: int
    tasks: int

    @property
    def _own(self) -> OwnOutputWriter:
        return OwnOutputWriter(self.chosen.target.output, self.chosen.node.output, self.identity)

    @property
    def _by_tasks(self) -> bool:
        return bool(self.chosen.target.output.written_by == "tasks")

    def begin(self) -> None:
        own = self._own
        for task in range(self.tasks) if self._by_tasks else (None,):
            last = asked(own, self.planned, own.writer(task))
            if last is not None and last > self.planned:
                raise older(f"output {own.name!r}: batch {last} is there, the last one planned is {self.planned}")

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        rows = self.chosen.selection.visible(frame, batch.number)
        if self._by_tasks:
            batch.guard()
            rows.mapInArrow(WriteOwn(self._own, batch.number), CALLED).collect()
            return
        table = rows.toArrow()
        batch.guard()
        self._own.write(table, batch.number)


def _check_pickled(output: Any) -> None:
    try:
        cloudpickle.dumps(output)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever an object of the user's says of itself
        raise ConfigError(
            f"The output {type(output).__name__} is written by tasks, and cannot be pickled to reach them.",
            given=f"{type(output).__name__}: {type(error).__name__}: {error}",
            hint='Open connections in write; or have the driver write: written_by = "driver".',
        ) from None
