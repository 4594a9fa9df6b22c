"""How a topology is tested: records in, records out, no broker and no files.

    python examples/testing_a_topology.py
    python -m pytest examples/testing_a_topology.py

The driver processes records exactly in the order in which they were piped. The session is there for the types of the
functions; where all of them are expressions, as here, no job of Spark's runs. A driver that is given the session has
Spark run the topology.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver


def topology() -> wm.Topology:
    """Clicks of users, each with the user's name."""
    builder = wm.StreamsBuilder("clicks-with-names")
    clicks = builder.stream("clicks", key="long", value="string")
    users = builder.table("users", key="long", value="string", store="users")
    clicks.left_join(users, lambda click, name: F.concat(F.coalesce(name, F.lit("somebody")), F.lit(" on "), click)).to(
        "clicks-with-names"
    )
    return builder.build()


def check(spark: SparkSession | None = None) -> None:
    """A click finds the name that the table has at that moment; a deleted user has none."""
    driver = TopologyTestDriver(topology(), spark)
    driver.pipe("clicks", key=1, value="/home", ts=0)
    driver.pipe("users", key=1, value="ann", ts=1)
    driver.pipe("clicks", key=1, value="/shop", ts=2)
    driver.pipe("users", key=1, value=None, ts=3)
    driver.pipe("clicks", key=1, value="/exit", ts=4)
    found = [(record.key, record.value, record.ts) for record in driver.read("clicks-with-names")]
    assert found == [(1, "somebody on /home", 0), (1, "ann on /shop", 2), (1, "somebody on /exit", 4)], found
    if driver.runs_in == "process":
        assert driver.get_store("users").all() == [], "the user is deleted"


def test_a_click_finds_the_name_that_the_table_has_at_that_moment() -> None:
    """What pytest runs."""
    wm.session("testing a topology")
    check()


if __name__ == "__main__":
    wm.session("testing a topology")
    check()
    print("as expected")
