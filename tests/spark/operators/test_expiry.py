"""Tables whose rows expire in the test driver's own process."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver


def topology() -> wm.Topology:
    builder = wm.StreamsBuilder("carts")
    carts = builder.table("carts", key="string", value=wm.json("item string"), ttl="1 second", store="open")
    clicks = builder.stream("clicks", key="string", value="string")
    item = lambda click, cart: F.concat(click, F.lit("+"), F.coalesce(cart["item"], F.lit("none")))  # noqa: E731
    clicks.left_join(carts, item).to("out")
    carts.to("changes")
    return builder.build()


def check(driver: TopologyTestDriver) -> None:
    driver.pipe("carts", "a", {"item": "x"}, ts=1)
    driver.pipe("carts", "b", {"item": "y"}, ts=1_500)
    for value, ts in (("1", 5), ("2", 1_001), ("3", 2_000)):
        driver.pipe("clicks", "a", value, ts=ts)
    driver.pipe("clicks", "b", "4", ts=2_499)


@pytest.mark.usefixtures("spark")
def test_the_driver_runs_a_table_with_ttl_in_its_own_process_and_its_store_has_what_is_left() -> None:
    with TopologyTestDriver(topology()) as driver:
        assert driver.runs_in == "process"
        check(driver)
        found = [(each.key, each.value and each.value["item"], each.ts) for each in driver.read("changes")]
        assert found == [("a", "x", 1), ("a", None, 1_001), ("b", "y", 1_500)]
        assert [key for key, _ in driver.get_store("open").all()] == ["b"]
