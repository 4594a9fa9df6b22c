"""The plan of a last batch, as a topology with other inputs has it: text alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from watersmeet._spark.checkpoint.record import GLOBAL_TOPICS, TOPICS, Begin, carried_offsets, source_indexes
from watersmeet.errors import CorruptData

HEAD = 'v1\n{"batchWatermarkMs":0}'


def begin(*topics: str) -> Begin:
    def at(added: frozenset[str]) -> Mapping[str, Mapping[str, int]]:
        return {name: {"0": 17} for name in added}

    return Begin(frozenset(topics), at)


def test_each_source_goes_on_at_the_place_that_it_gets_and_a_new_one_has_read_nothing() -> None:
    plan = f'{HEAD}\n{{"logOffset":4}}\n{{"logOffset":7}}\n9'
    old, new = ["rows a", "rows b", "clock"], ["rows c", "rows b", "rows a", "clock"]
    assert carried_offsets(plan, old, new, {}) == f'{HEAD}\n-\n{{"logOffset":7}}\n{{"logOffset":4}}\n9'
    assert source_indexes(old, new) == {0: 2, 1: 1, 2: 3}
    # an input that is made of two sources keeps both
    twice = ["rows a", "rows a", "rows b"]
    assert carried_offsets(plan, twice, ["rows b", "rows a", "rows a"], {}).split("\n")[2:] == [
        "9",
        '{"logOffset":4}',
        '{"logOffset":7}',
    ]


def test_a_topic_that_is_added_begins_where_it_is_said_and_one_that_is_gone_is_forgotten() -> None:
    plan = HEAD + '\n{"orders":{"0":3,"1":5},"gone":{"0":1}}\n{"users":{"0":2}}'
    topics = {TOPICS: begin("orders", "added"), GLOBAL_TOPICS: begin("others")}
    made = carried_offsets(plan, [TOPICS, GLOBAL_TOPICS], [TOPICS, GLOBAL_TOPICS], topics).split("\n")
    assert json.loads(made[2]) == {"orders": {"0": 3, "1": 5}, "added": {"0": 17}}
    # none of its topics goes on: Spark begins the source itself
    assert made[3] == "-"


def test_a_plan_with_another_number_of_sources_is_not_understood() -> None:
    with pytest.raises(CorruptData, match="has 2 sources, and its topology has 1"):
        carried_offsets(f"{HEAD}\n1\n2", [TOPICS], [TOPICS], {})
