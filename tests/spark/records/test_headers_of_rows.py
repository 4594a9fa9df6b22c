"""Tables keep no headers: a header that readers ask for is put into the value, and so is in the row of each store."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing import TopologyTestDriver

pytestmark = pytest.mark.spark


def topology() -> wm.Topology:
    builder = wm.StreamsBuilder("traced")
    users = builder.stream("users", key="string", value="string", headers=True)
    traced = users.map_values(
        lambda value, record: F.struct(
            value.alias("name"),
            F.get(F.filter(record["headers"], lambda h: h["key"] == "trace"), 0)["value"].alias("trace"),
        )
    )
    traced.to_table(store="users")
    return builder.build()


def test_a_row_has_the_header_of_the_record_that_it_comes_from(spark: SparkSession) -> None:
    with TopologyTestDriver(topology()) as driver:
        for number, trace in enumerate([b"one", b"two"]):
            driver.pipe("users", key="ann", value=f"Ann {number}", ts=number, headers=[("trace", trace)])
        driver.pipe("users", key="bob", value="Bob", ts=2)
        driver.pipe("users", key="eve", value="Eve", ts=3, headers=[("trace", b"three")])
        driver.pipe("users", key="eve", value=None, ts=4, headers=[("trace", b"four")])
        store = driver.get_store("users")
        assert [store.get(key) and tuple(store.get(key)) for key in ("ann", "bob", "eve")] == [
            ("Ann 1", b"two"),
            ("Bob", None),
            None,
        ]
