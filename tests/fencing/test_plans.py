"""What marks a batch as written: its number and its plan, and what is said where only the number is the same."""

from __future__ import annotations

import pytest

from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan, Marker, is_in, of_topology, plan_of_log
from watersmeet.errors import ConfigError, CorruptData

LOG = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":%d}\n{"orders":{"0":%d}}\n7'
FACTS = {"topology": "t", "generation": "4.3", "shards": 2, "tasks": 1, "effects": {}, "functions": {"a": "b"}}


def plan(end: int, topology: str = "t", at: int = 1) -> BatchPlan:
    return plan_of_log(LOG % (at, end), topology, epoch=3, where="cp/offsets/7")


def test_a_batch_that_is_planned_by_the_same_ends_is_the_same_whenever_it_was_planned() -> None:
    assert plan(5).ends == plan(5, at=2).ends
    assert plan(5).ends != plan(6).ends


def test_a_mark_is_read_back_as_it_was_written_and_fits_what_brokers_take() -> None:
    long = plan_of_log(LOG % (1, 5) + "\n" + "x" * 9_000, "t", epoch=3, where="")
    for each in (plan(5), long):
        assert Marker.of(7, each.text()) == Marker(7, each)
        assert len(each.text().encode()) < 4_096


def test_a_batch_is_in_where_its_number_and_its_plan_are() -> None:
    assert not is_in(None, 7, plan(5), "out")
    assert not is_in(Marker(6, plan(5)), 7, plan(6), "out")
    assert is_in(Marker(7, plan(5)), 7, plan(5), "out")


@pytest.mark.parametrize("other", [plan(6), plan(5, "another")])
def test_the_same_number_with_another_plan_is_an_error_that_tells_both(other: BatchPlan) -> None:
    with pytest.raises(ConfigError) as caught:
        is_in(Marker(7, other), 7, plan(5), "app-driver")
    said = str(caught.value)
    assert said.startswith("Another query has written batch 7")
    assert f"written: {other}" in said
    assert f"planned here: {plan(5)}" in said
    assert '{"orders":{"0":5}}' in said
    assert "epoch 3" in said
    assert "Hint: Run one query per checkpoint" in said


def test_a_mark_without_a_plan_says_of_no_planned_batch_that_it_is_in() -> None:
    assert Marker.of(7, "") == Marker.of(7, None) == Marker.of(7, "other text") == Marker(7, UNKNOWN)
    with pytest.raises(ConfigError, match="has the number alone"):
        is_in(Marker(7), 7, plan(5), "out")


def test_an_output_that_is_ahead_is_refused() -> None:
    with pytest.raises(ConfigError, match="older than the output"):
        is_in(Marker(8, plan(5)), 7, plan(5), "out")


@pytest.mark.parametrize("log", ["", "v1", 'v1\n{"batchWatermarkMs":0}', "something\n{}\n5"])
def test_a_plan_that_was_cut_off_is_said(log: str) -> None:
    with pytest.raises(CorruptData, match=r"cannot be read\.\nGiven: cp/offsets/7"):
        plan_of_log(log, "t", epoch=0, where="cp/offsets/7")


def test_the_topology_of_a_plan_is_all_that_makes_results_but_functions_that_may_change() -> None:
    same = of_topology(FACTS)
    assert of_topology({**FACTS, "functions": {}, "partitions": {"a": 4}}) == same
    for name in ("topology", "generation", "shards", "tasks", "effects"):
        assert of_topology({**FACTS, name: "another"}) != same
