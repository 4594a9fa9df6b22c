"""Policies of single operators and outputs in place of the builder's: each record ends as its own place says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

BAD, LATE = wm.DeadLetter("bad"), wm.DeadLetter("late")
WINDOWS = wm.TimeWindows.of_size_with_no_grace("10 ms")


def built(builder: wm.StreamsBuilder, **policies: dict[str, Any]) -> wm.Topology:
    """Two joins behind which a division by zero fails, two counts that drop what is late, two outputs of UUIDs."""
    orders = builder.stream("orders", key="string", value=wm.json("id string, parts int"), on_error="fail")
    limits = builder.table("limits", key="string", value="int", on_error="fail")
    for name in ("one", "other"):
        orders.join(limits, lambda order, limit: limit / order["parts"], name=f"{name}_join").to(f"{name}_shares")
        counts = orders.group_by_key().windowed_by(WINDOWS).count(name=f"{name}_counts")
        counts.to_stream().map_values(lambda n: n).to(f"{name}_counted")
        orders.map_values(lambda order: order["id"]).to(f"{name}_ids", value="uuid", name=f"{name}_ids")
    for name, given in policies.items():
        builder.policies(name, **given)
    return builder.build()


def piped(topology: wm.Topology) -> TopologyTestDriver:
    """One order that nothing is wrong with, and for each operator and output one that ends there."""
    driver = TopologyTestDriver(topology)
    assert driver.runs_in == "process", driver.why_spark
    identity = "123e4567-e89b-12d3-a456-426614174000"
    driver.pipe("limits", "a", 100, ts=0)
    for ts, given in ((30, (identity, 4)), (31, (identity, 0)), (32, ("none", 5)), (1, (identity, 2))):
        driver.pipe("orders", "a", given, ts=ts)
    return driver


def ends(driver: TopologyTestDriver, topic: str) -> Counter[str]:
    told = [dict(letter.headers or ()) for letter in driver.read(topic)]
    return Counter((each["__streams.errors.operator"] or b"").decode() for each in told)


def test_each_operator_and_output_has_its_own_policies_before_the_builders(spark: SparkSession) -> None:
    driver = piped(
        built(
            wm.StreamsBuilder("own", on_error=BAD, on_drop=LATE),
            one_join={"on_error": "skip"},
            one_counts={"on_drop": "skip"},
            one_ids={"on_error": LATE},
        )
    )
    assert [record.ts for record in driver.read("one_shares")] == [30, 32, 1]
    assert [record.ts for record in driver.read("one_ids")] == [30, 31, 1]
    assert driver.drops == {
        ("one_join", "function_error"): 1,
        ("one_counts", "expired_window"): 1,
        ("one_ids", "dead_letter"): 1,
        ("other_join", "dead_letter"): 1,
        ("other_counts", "dead_letter"): 1,
        ("other_ids", "dead_letter"): 1,
    }
    assert ends(driver, "bad") == {"other_join": 1, "other_ids": 1}
    assert ends(driver, "late") == {"one_ids": 1, "other_counts": 1}


def test_a_policy_of_one_alone_leaves_all_others_as_they_are(spark: SparkSession) -> None:
    every = {f"{name}_{what}": {"on_error": "skip"} for name in ("one", "other") for what in ("join", "ids")}
    every["one_counts"] = {"on_drop": LATE}
    driver = piped(built(wm.StreamsBuilder("alone"), **every))
    assert len(driver.read("other_shares")) == len(driver.read("other_ids")) == 3
    assert ends(driver, "late") == {"one_counts": 1}
    assert driver.drops == {
        **{(f"{name}_join", "function_error"): 1 for name in ("one", "other")},
        **{(f"{name}_ids", "unencodable"): 1 for name in ("one", "other")},
        ("one_counts", "dead_letter"): 1,
        ("other_counts", "expired_window"): 1,
    }
    del every["other_join"]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        piped(built(wm.StreamsBuilder("fails"), **every)).read("one_shares")
