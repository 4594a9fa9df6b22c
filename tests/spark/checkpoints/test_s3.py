"""S3: Spark's logs are written conditionally there, or a start is refused; inputs and outputs work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.s3 import CARELESS, S3
from tests.spark.checkpoints import s3_outputs, s3_run
from tests.spark.checkpoints.s3_run import PLAIN, RACES
from watersmeet._spark.checkpoint import folders
from watersmeet._spark.checkpoint.folders import CONDITIONAL_MANAGER, S3A
from watersmeet.errors import ConfigError

PUT = "PUT /bucket/query/"
UNANSWERED = ("/offsets/1", "/commits/0")
"""Files that are written while S3 says that it has failed, so that the client asks again."""


def told_by(program: ModuleType, folder: Path) -> tuple[Any, list[str]]:
    """What a program finds on an S3 that is empty, and the requests that it has made."""
    with S3(UNANSWERED) as s3:
        for bucket in (PLAIN, CARELESS):
            assert s3.make(bucket)
        given = folder / "given"
        given.write_text(json.dumps({"settings": s3.settings, "jars": s3.jars}))
        command = [sys.executable, "-m", program.__name__, str(given), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        requests = s3.requests()
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1]), requests


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    return told_by(s3_run, tmp_path_factory.mktemp("ran"))


def test_on_s3_one_of_two_takes_an_epoch(ran: tuple[Any, list[str]]) -> None:
    found, _ = ran
    assert found["kind"] == S3A
    assert found["winners"] == [1] * RACES
    assert "this query has epoch 1, epoch 2 was taken by b" in found["passed by"]


def test_on_s3_one_of_two_writes_a_plan_and_what_may_replace_another_does(ran: tuple[Any, list[str]]) -> None:
    found, _ = ran
    assert found["manager"] == CONDITIONAL_MANAGER
    assert found["planned"] == [1] * RACES
    # by which Spark's logs know that another query was first
    assert found["losers"] == ["org.apache.hadoop.fs.FileAlreadyExistsException"]
    assert found["replaced"] == "second"
    assert found["cancelled"] == ""


def test_a_query_writes_its_logs_those_of_its_sources_and_its_state_in_one_step(ran: tuple[Any, list[str]]) -> None:
    _, requests = ran
    written = {request.removeprefix(PUT) for request in requests if request.startswith(PUT)}
    assert {"offsets/0", "offsets/1", "commits/1", "sources/0/0", "sources/0/1"} <= written
    assert any(name.startswith("state/0/") and name.endswith(".changelog") for name in written)
    assert not any(".tmp" in name for name in written)


def test_a_plan_and_a_commit_whose_answers_are_lost_are_known_as_the_querys_own(ran: tuple[Any, list[str]]) -> None:
    found, requests = ran
    asked = Counter(request for request in requests if request.startswith(PUT) and request.endswith(UNANSWERED))
    assert asked == {f"{PUT}{name[1:]}": 2 for name in UNANSWERED}
    assert found["batches"] == [0, 1]


@pytest.mark.parametrize(
    ("bucket", "cure"), [(PLAIN, "fs.s3a.create.conditional.enabled=true"), (CARELESS, "that knows If-None-Match")]
)
def test_a_store_that_cannot_or_does_not_refuse_is_refused_and_the_start_leaves_nothing(
    ran: tuple[Any, list[str]], bucket: str, cure: str
) -> None:
    found, _ = ran
    said, *left = found[bucket]
    assert "both would win" in said
    assert cure in said
    assert left == [[], []]


def test_a_package_without_the_jar_of_the_file_manager_is_refused_with_what_gives_it_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_JAR", "missing.jar")
    monkeypatch.setattr(folders, "_loaders", {})
    with pytest.raises(ConfigError, match=r"checkpoint='s3a://b/cp' .*has no missing\.jar(.|\n)*Install its wheel"):
        folders.add_conditional_files(spark, "s3a://b/cp")


def test_inputs_and_outputs_lie_on_s3_and_a_batch_that_is_run_again_is_there_once(tmp_path: Path) -> None:
    found, _ = told_by(s3_outputs, tmp_path)
    assert "killed behind the sink" in found["torn"]
    assert found["tries"] == [1, 2, 1]
    changes = [[0, 1, "1"], [0, 1, "2"], [0, 2, "1"], [1, 2, "2"], [1, 4, "1"], [2, 4, "2"]]
    assert found["all"] == changes
    assert found["even"] == [[0, 2, "1"], [1, 2, "2"], [1, 4, "1"], [2, 4, "2"]]
    assert found["alone"] == [[1, "a"], [1, "c"], [2, "b"], [2, "d"], [4, "e"], [4, "f"]]
    assert found["state"] == [[1, 2], [2, 2], [4, 2]]
