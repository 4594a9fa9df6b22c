"""One Spark session, one Kafka broker and one Postgres for all tests."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.broker import KafkaBroker
from dev.debian import ProgramMissing
from dev.jars import jars, spark_jars
from dev.jvm import SHORT_LIVED
from dev.postgres import Postgres, programs
from tests import lengths
from tests.databases.kit import Place
from watersmeet._spark.session import session
from watersmeet.io.kafka import Kafka

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# Spark's Python processes, and the programs that tests start, find PySpark compiled
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "dev" / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
BYTES_OF_A_PROCESS = 3 << 30
MARKS = {
    "spark": ["spark"],
    "kafka": ["spark", "kafka"],
    "demo": ["spark"],
    "io": ["spark"],
    "examples": ["spark"],
    "provenance": ["spark"],
    "cluster": ["spark", "kafka"],
}


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def kafka(broker: KafkaBroker) -> Kafka:
    return Kafka(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(
        "watersmeet tests",
        master="local[2]",
        # checkpoints lie on S3 too
        jars=[*spark_jars(), *map(str, jars("s3"))],
        config={
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            # one session has the queries of a thousand tests: it would remember their jobs, tasks and plans
            "spark.driver.memory": "2g",
            "spark.ui.retainedJobs": "20",
            "spark.ui.retainedStages": "20",
            "spark.ui.retainedTasks": "200",
            "spark.sql.ui.retainedExecutions": "5",
            "spark.sql.streaming.ui.retainedQueries": "5",
            "spark.sql.shuffle.partitions": "2",
            # what watersmeet reckons in must not depend on the session's own zone
            "spark.sql.session.timeZone": "America/New_York",
        },
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    lengths.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    lengths.configure(config)
    # of several processes the first alone has the reports of all
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(lengths.Lengths(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        for mark in MARKS.get(folder, ()):
            item.add_marker(mark)
    lengths.mark_long(config, items)
    lengths.leave_out(config, items)
    lengths.take_part(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many processes as there are cores, and memory for: each may have a Spark and a broker of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // BYTES_OF_A_PROCESS))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    try:
        programs()
    except ProgramMissing as missing:
        pytest.skip(f"no Postgres: {missing}")
    with Postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", f"sqlite:///{tmp_path}/kept.db")
    url = request.getfixturevalue("postgres").url
    schema = f"s{uuid.uuid4().hex}"
    Place("postgresql", url).execute(f"CREATE SCHEMA {schema}")
    return Place("postgresql", f"{url}&options=-csearch_path%3D{schema}", schema)
