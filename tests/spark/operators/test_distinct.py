"""Distinct streams in the test driver's own process, with functions of Columns."""

from __future__ import annotations

import pytest

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

ROWS = [
    ("ann", {"id": 1, "amount": 5.0}, 0),
    ("bob", {"id": 1, "amount": 6.0}, 1),
    ("ann", None, 2),
    ("ann", {"id": 2, "amount": 7.0}, 3),
    ("bob", {"id": 1, "amount": 8.0}, 600_000),
]


def topology() -> wm.Topology:
    builder = wm.StreamsBuilder("once")
    orders = builder.stream("orders", key="string", value=wm.json("id long, amount double"))
    once = orders.distinct(lambda order: order["id"], within="10 minutes", name="once")
    once.to("out")
    once.to_table(store="last").to_stream().to("table")
    return builder.build()


def results(driver: TopologyTestDriver) -> list[tuple[object, object, int]]:
    for key, value, ts in ROWS:
        driver.pipe("orders", key, value, ts=ts)
    found = [(record.key, record.value and record.value.asDict(), record.ts) for record in driver.read("out")]
    assert driver.drops == {("once", "duplicate"): 1}
    return found


EXPECTED = [ROWS[0], ROWS[2], ROWS[3], ROWS[4]]


@pytest.mark.usefixtures("spark")
def test_the_driver_runs_distinct_in_its_own_process_and_the_table_has_what_passed_last() -> None:
    with TopologyTestDriver(topology()) as driver:
        assert driver.runs_in == "process", driver.runs_in
        assert results(driver) == EXPECTED
        store = driver.get_store("last")
        assert [(key, value.asDict()) for key, value in store.all()] == [("ann", ROWS[3][1]), ("bob", ROWS[4][1])]
