"""A real broker and a Spark session with the Kafka connector, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dev.broker import KafkaBroker
from dev.jars import spark_jars
from millpond._spark.session import session
from millpond.options import Kafka


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
        "millpond kafka tests",
        master="local[2]",
        jars=spark_jars(),
        config={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"},
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in str(item.path):
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.spark)
