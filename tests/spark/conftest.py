"""One Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from millpond._spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(
        "millpond tests",
        master="local[2]",
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
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
