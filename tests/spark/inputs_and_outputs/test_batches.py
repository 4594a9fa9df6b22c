"""Which plans of a source are taken to go back, told by their text alone."""

from __future__ import annotations

import pytest

from watersmeet._spark.checkpoint.spark_logs import _goes_back


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (7, 6),
        ({"logOffset": 2}, {"logOffset": 1}),
        ({"orders": {"0": 5, "1": 5}}, {"orders": {"0": 9, "1": 4}}),
        ({"orders": {"0": 5, "1": 5}}, {"orders": {"0": 9}}),
    ],
)
def test_an_end_before_the_last_one_is_noticed(before: object, end: object) -> None:
    assert _goes_back(before, end, vanish=False)


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (6, 6),
        ({"logOffset": 2}, {"logOffset": 2}),
        ({"orders": {"0": 5}}, {"orders": {"0": 5, "1": 0}, "people": {"0": 1}}),
        # a source whose ends are not known: here a later version with a smaller index, as Delta has them
        ({"version": 4, "index": 10, "first": True}, {"version": 5, "index": -1, "first": False}),
        ("anything", "else"),
        # a source without news
        ({"logOffset": 2}, "-"),
        ("-", {"logOffset": 2}),
    ],
)
def test_any_other_end_is_left_to_spark(before: object, end: object) -> None:
    assert not _goes_back(before, end, vanish=False)


def test_topics_may_be_gone_where_that_is_accepted_and_the_others_do_not_go_back() -> None:
    before = {"orders": {"0": 5}, "people": {"0": 3}}
    assert not _goes_back(before, {"people": {"0": 3}}, vanish=True)
    assert _goes_back(before, {"people": {"0": 2}}, vanish=True)
