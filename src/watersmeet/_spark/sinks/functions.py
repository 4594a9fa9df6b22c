"""Functions of batches as outputs: each is called on the driver with its rows as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet._spark.sinks.kind import Chosen, Given, OnePass, OutputBatch, OutputKind, Pass


class FunctionOutputs(OutputKind):
    """Functions of batches."""

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        return [FunctionPass(each) for each in chosen]


@dataclass(frozen=True)
class FunctionPass(OnePass):
    """Calls a function with each batch."""

    @property
    def leaves_rows(self) -> bool:
        return True

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        batch.guard()
        self.chosen.target.function(self.chosen.selection.visible(frame, batch.number), batch.number)
