"""A standalone cluster over hosts of network namespaces: cut off, passed by, slow; each result is right and there once.

All hosts see one disk, so a worker that is cut off from the others still writes its files: it is as dangerous as it can
be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from dev.cluster import Place, cleaned, spark_home, standalone
from tests.spark.hosts.hosts import ROOT, Hosts, hosts, wait_for
from tests.spark.hosts.views import given, input_files, model

NAMES = ("master", "worker-0", "worker-1", "driver", "other")
WORKER_TIMEOUT = 30


class Cluster:
    """Spark's master and workers, each in a host, and drivers in others."""

    def __init__(self, folder: Path, made: Hosts) -> None:
        self.folder, self.hosts = folder, made
        self.master = ""
        self._drivers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **cleaned(),
            "SPARK_HOME": str(spark_home(folder)),
            "SPARK_MASTER_OPTS": f"-Dspark.worker.timeout={WORKER_TIMEOUT} -Dspark.deploy.maxExecutorRetries=-1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "dev" / "site", ROOT / "src", ROOT))),
        }

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        """Master and workers, until the end."""
        places = [Place(self.hosts.address(name), self.hosts.within(name)) for name in NAMES[:3]]
        with standalone(self.folder, self._environment, places, cores=2) as self.master:
            try:
                yield self
            finally:
                for driver in self._drivers:
                    driver.kill()
                    driver.wait()

    def driver(self, name: str, watched: str = "not") -> Driver:
        """Start the program in a host."""
        own = self.folder / name
        own.mkdir()
        address = self.hosts.address(name)
        program = [sys.executable, "-m", "tests.spark.hosts.views", str(self.folder), str(own), self.master, address]
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                [*self.hosts.within(name), *program, watched],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**self._environment, "SPARK_LOCAL_IP": address},
            )
        self._drivers.append(process)
        return Driver(own, process)

    def wait_for(self, found: Path, driver: Driver) -> None:
        """Wait until a file is there; if the driver ends before, its log is shown."""
        wait_for(found, driver.process, driver.own / "log")

    def wait_for_masters_log(self, text: str) -> None:
        """Wait until the master has said something."""
        while text not in (self.folder / "master.log").read_text(errors="replace"):
            time.sleep(0.2)


class Driver:
    """A driver, in a host."""

    def __init__(self, own: Path, process: subprocess.Popen[bytes]) -> None:
        self.own, self.process = own, process

    def ended(self) -> str:
        """How its query ended, when it has."""
        wait_for(self.own / "ended", self.process, self.own / "log")
        return (self.own / "ended").read_text()


@contextmanager
def cluster(folder: Path, **slow: Any) -> Iterator[Cluster]:
    with hosts(*NAMES, **slow) as made, Cluster(folder, made).running() as running:
        yield running


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's log names; a task that was given up may leave others, which no reader sees."""
    logs = [log for log in (folder / "_spark_metadata").iterdir() if log.name.isdecimal()]
    lines = [line for log in logs for line in log.read_text().splitlines()[1:]]
    paths = [urlsplit(json.loads(line)["path"]).path for line in lines]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def check(folder: Path, made: Any) -> None:
    """Compare what is in the files with the model: all results of the join by key, the last ones of the other."""
    rows = written(folder / "out")
    by_key, referred = model(made)
    found = [
        (row["key"], row["value"][1:], round(row["timestamp"].replace(tzinfo=UTC).timestamp() * 1_000))
        for row in rows
        if row["value"][0] == "k"
    ]
    assert sorted(found) == sorted(by_key)
    places = [(row["key"], row["sequence"], row["value"][0]) for row in rows]
    assert len(set(places)) == len(places)
    last = sorted((row for row in rows if row["value"][0] == "f"), key=lambda row: row["sequence"])
    assert {row["key"]: row["value"][1:] for row in last} == referred


@pytest.mark.proof
def test_a_run_over_hosts_gives_what_the_model_gives(tmp_path: Path) -> None:
    made = given(batches=4, rows=30)
    input_files(tmp_path, made)
    with cluster(tmp_path) as running:
        assert running.driver("driver").ended() == "well"
    check(tmp_path, made)
    # a task ran on each worker's host
    assert all(list((tmp_path / f"worker-{number}").glob("app-*/*/stderr")) for number in range(2))


@pytest.mark.proof
def test_a_worker_that_is_cut_off_for_a_while_loses_and_doubles_nothing(tmp_path: Path) -> None:
    made = given(batches=6, rows=30)
    input_files(tmp_path, made)
    with cluster(tmp_path) as running:
        driver = running.driver("driver")
        running.wait_for(tmp_path / "cp" / "commits" / "1", driver)
        running.hosts.cut("worker-1")
        running.wait_for_masters_log("because we got no heartbeat")
        # the batches go on with the other worker alone
        so_far = len(list((tmp_path / "cp" / "commits").glob("[0-9]*")))
        running.wait_for(tmp_path / "cp" / "commits" / str(so_far), driver)
        running.hosts.put_back("worker-1")
        assert driver.ended() == "well"
    check(tmp_path, made)


def test_a_driver_that_is_cut_off_is_passed_by_from_another_host_and_refused(tmp_path: Path) -> None:
    made = given(batches=3, rows=30, mark=1)
    input_files(tmp_path, made)
    with cluster(tmp_path) as running:
        first = running.driver("driver", "wait")
        running.wait_for(tmp_path / "waiting", first)
        running.hosts.cut("driver")
        second = running.driver("other")
        assert second.ended() == "well"
        (tmp_path / "go").touch()
        running.hosts.put_back("driver")
        ended = first.ended()
    check(tmp_path, made)
    # it is told at the plan of a batch or at a commit, whichever comes first
    assert ended.startswith("ConfigError: "), ended
    assert "taken this checkpoint over" in ended or "Another query runs on this checkpoint" in ended, ended


@pytest.mark.proof
def test_a_slow_network_that_loses_packets_changes_no_result(tmp_path: Path) -> None:
    made = given(batches=4, rows=30)
    input_files(tmp_path, made)
    with cluster(tmp_path, slow=50.0, loss=0.01) as running:
        driver = running.driver("driver")
        assert driver.ended() == "well"
        assert len(json.loads((driver.own / "batches").read_text())) == 4
    check(tmp_path, made)
