"""A program for `test_killed_deployments`: a topology is deployed beside a running one, and its driver kills itself.

Called with a folder, whether the changed topology has the join, the moment, and the checkpoint if it lies elsewhere: it
is behind a step of the deployment or of the handover within it, or when the change is "recorded".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.spark.changes.killed_change import run
from tests.spark.checkpoints.killing import killing, short_session
from watersmeet._spark import deploy
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.deploy import Deployment
from watersmeet._spark.evolve import Handover

OF_HANDOVER = ("gather", "carry_state", "number_state", "write_logs")


def main(folder: Path, more: str, moment: str, checkpoint: str = "") -> None:
    """Run until the kill."""
    deploy.LONGEST_PAUSE = float("inf")  # however slow the machine is
    owner: Any = Checkpoint if moment == "recorded" else Handover if moment in OF_HANDOVER else Deployment
    name = "record" if moment == "recorded" else moment
    setattr(owner, name, killing(getattr(owner, name), first=False))
    checkpoint = checkpoint or str(folder / "cp")
    run(short_session(folder=folder), folder, more=more == "True", deploy=True, checkpoint=checkpoint)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
