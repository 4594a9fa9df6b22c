"""A program for `test_killed_replacements`: a table is replaced, and the driver kills itself meanwhile.

Called with a folder, the number of the definition, and the moment: behind a step of the handover, when the change is
"recorded", or when the outputs of the first batch are written and it is not committed ("written").
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes.views import views
from tests.spark.checkpoints.killing import killing, short_session
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.evolve import Handover
from watersmeet._spark.metrics.lifetime import LifetimeTotals

KIND = "keyed"


def run(spark: SparkSession, folder: Path, number: int, **options: Any) -> None:
    """All that there is, under this definition; rows go to files."""

    def files(name: str) -> Any:
        return wm.Writer("parquet", path=str(folder / "out" / name))

    made = views(spark, folder, {"view": (KIND, number)}, files)
    query = made.start(spark, checkpoint=str(folder / "cp"), available_now=True, shards=4, tasks=2, **options)
    query.awaitTermination()


def main(folder: Path, number: int, moment: str) -> None:
    """Run until the kill."""
    owner: Any = {"recorded": Checkpoint, "written": LifetimeTotals}.get(moment, Handover)
    name = {"recorded": "record", "written": "before_commit"}.get(moment, moment)
    setattr(owner, name, killing(getattr(owner, name), first=moment == "written"))
    run(short_session(), folder, number, evolve=True, replace=["view"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
