"""What writes it: one pass, on the driver. A batch that is run again finds where it began, and is cut off there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._spark.outputs.output import OutputBatch, OutputWriter
from watersmeet.errors import ConfigError


class LinesWriter(OutputWriter):
    """Writes one file of lines."""

    @classmethod
    def check(cls, spark: SparkSession, targets: Sequence[Any], *, single: bool) -> None:
        """See `OutputWriter`."""
        for target in targets:
            if not Path(target.file).parent.is_dir():
                raise ConfigError("The file's folder is not there.", given=target.file, hint="Make it.")

    def write(self, batch: OutputBatch) -> None:
        """See `OutputWriter`."""
        rows = batch.rows(self.sink).toArrow().select(["key", "value"])
        file = Path(self.target.file)
        begins = file.with_name(f".{file.name}.begins")
        known = json.loads(begins.read_text()) if begins.exists() else {}
        end = known.setdefault(str(batch.number), file.stat().st_size if file.exists() else 0)
        batch.guard()
        begins.write_text(json.dumps(known))
        with file.open("a") as lines:
            lines.truncate(end)
            lines.writelines(f"{key};{value}\n" for key, value in zip(*(c.to_pylist() for c in rows), strict=True))
