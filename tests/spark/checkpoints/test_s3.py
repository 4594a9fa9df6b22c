"""S3: a checkpoint is refused there, since Spark's logs are not written conditionally; inputs and outputs work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from dev.s3 import S3
from tests.spark.checkpoints import s3_outputs, s3_run
from tests.spark.checkpoints.s3_run import RACES
from watersmeet._spark.fencing.file_systems import S3A


def told_by(program: ModuleType, folder: Path) -> Any:
    """What a program finds on an S3 that is empty."""
    with S3() as s3:
        given = folder / "given"
        given.write_text(json.dumps({"settings": s3.settings, "jars": s3.jars}))
        command = [sys.executable, "-m", program.__name__, str(given), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_on_s3_one_of_two_takes_an_epoch_and_a_query_is_refused_with_the_reason(tmp_path: Path) -> None:
    found = told_by(s3_run, tmp_path)
    assert found["kind"] == S3A
    assert found["winners"] == [1] * RACES
    assert "this query has epoch 1, epoch 2 was taken by b" in found["passed by"]
    assert "of two drivers that plan one batch both would win" in found["refused"]
    assert "s3a://bucket/query" in found["refused"]
    assert "checkpointFileManagerClass" in found["refused"]
    # a start that is refused leaves nothing behind
    assert found["left"] == []


def test_inputs_and_outputs_lie_on_s3_and_a_batch_that_is_run_again_is_there_once(tmp_path: Path) -> None:
    found = told_by(s3_outputs, tmp_path)
    assert "killed behind the sink" in found["torn"]
    assert found["tries"] == [1, 2, 1]
    changes = [[0, 1, "1"], [0, 1, "2"], [0, 2, "1"], [1, 2, "2"], [1, 4, "1"], [2, 4, "2"]]
    assert found["all"] == changes
    assert found["even"] == [[0, 2, "1"], [1, 2, "2"], [1, 4, "1"], [2, 4, "2"]]
    assert found["alone"] == [[1, "a"], [1, "c"], [2, "b"], [2, "d"], [4, "e"], [4, "f"]]
    assert found["state"] == [[1, 2], [2, 2], [4, 2]]
