"""A checkpoint on S3: epochs are made by conditional writes; a query is refused there, since Spark's logs are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from dev.s3 import S3
from tests.spark.checkpoints.s3_run import RACES
from watersmeet._spark.fencing.file_systems import S3A


def test_on_s3_one_of_two_takes_an_epoch_and_a_query_is_refused_with_the_reason(tmp_path: Path) -> None:
    with S3() as s3:
        given = tmp_path / "given"
        given.write_text(json.dumps({"settings": s3.settings, "jars": s3.jars}))
        program = [sys.executable, "-m", "tests.spark.checkpoints.s3_run", str(given), str(tmp_path)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kind"] == S3A
    assert found["winners"] == [1] * RACES
    assert "this query has epoch 1, epoch 2 was taken by b" in found["passed by"]
    assert "of two drivers that plan one batch both would win" in found["refused"]
    assert "s3a://bucket/query" in found["refused"]
    assert "checkpointFileManagerClass" in found["refused"]
    # a start that is refused leaves nothing behind
    assert found["left"] == []
