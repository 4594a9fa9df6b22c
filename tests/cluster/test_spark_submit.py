"""An example as it is, given to spark-submit, on a standalone cluster of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from dev.cluster import cleaned, spark_home, standalone

ROOT = Path(__file__).resolve().parents[2]


def archived_environment(folder: Path) -> tuple[str, ...]:
    """The options of an archive of an environment, which is unpacked in the driver's folder, too (docs/deploy.md)."""
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(folder / "environment" / "bin", "bin")
    return "--archives", "environment.tar.gz#environment"


@pytest.mark.parametrize("python", [sys.executable, "./environment/bin/python"], ids=["installed", "archive"])
def test_an_example_runs_on_the_executors_of_the_cluster_that_spark_submit_names(tmp_path: Path, python: str) -> None:
    home, options = spark_home(tmp_path), () if python == sys.executable else archived_environment(tmp_path)
    environment = {
        **cleaned(),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "dev" / "site", ROOT / "src"))),
    }
    with standalone(tmp_path, environment) as address:
        done = subprocess.run(
            [
                str(home / "bin" / "spark-submit"),
                *("--master", address, "--conf", "spark.ui.enabled=false", *options),
                *("--conf", "spark.executor.memory=1g", "--conf", "spark.driver.host=127.0.0.1"),
                str(ROOT / "examples" / "orders_and_payments.py"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr[-3_000:]
    shown = [line for line in done.stdout.splitlines() if line.startswith("|")]
    # a head, and what is open after each change
    assert len(shown) == 1 + 8, done.stdout
    assert sum("{cid, 50.0}" in line for line in shown) == 1
    logs = [path for worker in ("worker-0", "worker-1") for path in (tmp_path / worker).glob("app-*/*/stderr")]
    assert len(logs) == 2
    assert os.path.getsize(logs[0]) > 0


def test_a_standalone_cluster_takes_programs_of_python_in_client_mode_only(tmp_path: Path) -> None:
    home = spark_home(tmp_path)
    # spark-submit says so before it asks the master, which is none here
    done = subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster"),
            str(ROOT / "examples" / "orders_and_payments.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**cleaned(), "SPARK_HOME": str(home)},
    )
    assert done.returncode != 0
    assert "Cluster deploy mode is currently not supported for python applications on standalone" in done.stderr


def test_the_command_line_runs_as_a_program_of_spark_submit(tmp_path: Path) -> None:
    home = spark_home(tmp_path)
    environment = {
        **cleaned(),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "dev" / "site", ROOT / "src"))),
    }
    with standalone(tmp_path, environment) as address:
        done = subprocess.run(
            [
                str(home / "bin" / "spark-submit"),
                *("--master", address, "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
                str(ROOT / "examples" / "deploy" / "run.py"),
                *("describe", "clicks:topology"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=ROOT / "examples" / "deploy",
        )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "clicks-by-user" in done.stdout
