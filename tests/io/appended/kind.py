"""What writes it: one pass, on the driver. A batch that is run again finds where it began, and is cut off there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from watersmeet._spark.sinks.kind import Chosen, Given, OnePass, OutputBatch, OutputKind, Pass
from watersmeet.errors import ConfigError


class Lines(OutputKind):
    """Files of lines."""

    def check(self, spark: SparkSession, targets: Sequence[Any], *, alone: bool) -> None:
        """See `OutputKind`."""
        for target in targets:
            if not Path(target.file).parent.is_dir():
                raise ConfigError("The file's folder is not there.", given=target.file, hint="Make it.")

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        """See `OutputKind`."""
        return [LinesPass(each) for each in chosen]


class LinesPass(OnePass):
    """Writes one file."""

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        """See `Pass`."""
        rows = self.chosen.selection.visible(frame, batch.number).toArrow().select(["key", "value"])
        file = Path(self.chosen.target.file)
        begins = file.with_name(f".{file.name}.begins")
        known = json.loads(begins.read_text()) if begins.exists() else {}
        end = known.setdefault(str(batch.number), file.stat().st_size if file.exists() else 0)
        batch.guard()
        begins.write_text(json.dumps(known))
        with file.open("a") as lines:
            lines.truncate(end)
            lines.writelines(f"{key};{value}\n" for key, value in zip(*(c.to_pylist() for c in rows), strict=True))
