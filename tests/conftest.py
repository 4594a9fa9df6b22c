"""One Spark session and one Kafka broker for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dev.broker import KafkaBroker
from dev.jars import spark_jars
from millpond._spark.session import session
from millpond.options import Kafka

MARKS = {"spark": ["spark"], "kafka": ["spark", "kafka"], "demo": ["spark"], "examples": ["spark"]}


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
        "millpond tests",
        master="local[2]",
        jars=spark_jars(),
        config={
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            # what millpond reckons in must not depend on the session's own zone
            "spark.sql.session.timeZone": "America/New_York",
        },
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in MARKS.get(item.path.parent.name, ()):
            item.add_marker(mark)
