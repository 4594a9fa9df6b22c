"""A program for `test_killed_deployments`: a topology that runs until it is killed, or another one takes its place.

Called with a folder, and whether the topology has the join. No batch is committed while the folder has the file `HOLD`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.spark.changes.killed_change import topology
from tests.spark.checkpoints.killing import short_session
from watersmeet._spark.outputs.batch_gate import BatchGate

HOLD = "hold"


def main(folder: Path, more: str) -> None:
    """Run until the end."""
    gates: Any = BatchGate
    pass_batch = gates.behind_batch

    def hold(gate: BatchGate, batch: int) -> None:
        while (folder / HOLD).exists():
            time.sleep(0.1)
        pass_batch(gate, batch)

    gates.behind_batch = hold
    spark = short_session()
    made = topology(spark, folder, more=more == "True")
    made.start(spark, checkpoint=str(folder / "cp"), shards=4, tasks=2, trigger="1 second").awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
