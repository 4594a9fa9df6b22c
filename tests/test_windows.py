"""JoinWindows against every fact recorded from Kafka Streams' own tests, and durations as text."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import TopologyError
from watersmeet.windows import JoinWindows, duration_ms

FACTS = json.loads(
    gzip.decompress((Path(__file__).parent / "recordings/vectors/JoinWindowsTest.json.gz").read_bytes())
)["vectors"]
METHODS = {
    "ofTimeDifferenceAndGrace": "of_time_difference_and_grace",
    "ofTimeDifferenceWithNoGrace": "of_time_difference_with_no_grace",
}


def made(calls: list[list[Any]]) -> JoinWindows:
    """The windows that a recorded chain of calls makes."""
    windows: Any = JoinWindows
    for name, *arguments in calls:
        windows = getattr(windows, METHODS.get(name, name))(*(timedelta(milliseconds=a) for a in arguments))
    return windows


def test_all_recorded_facts_are_there() -> None:
    assert len(FACTS) == 35


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['name']}")
def test_join_windows_are_what_kafka_streams_makes_of_the_same_calls(fact: dict[str, Any]) -> None:
    calls = fact["call"]
    if "error" in fact:
        before = made(calls[:-1]) if len(calls) > 1 else None
        assert before is None or isinstance(before, JoinWindows)
        with pytest.raises(TopologyError):
            made(calls)
        return
    windows = made(calls)
    for name in ("before_ms", "after_ms", "grace_ms", "size_ms"):
        if name in fact:
            assert getattr(windows, name) == fact[name]
    assert windows.eager is (not fact.get("spurious_fix", True))
    if "equal_to" in fact:
        assert (windows == made(fact["equal_to"])) is fact["equal"]
        assert not fact["equal"] or hash(windows) == hash(made(fact["equal_to"]))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5 minutes", 300_000),
        ("1 hour 30 seconds", 3_630_000),
        ("-250 ms", -250),
        ("2 days, 1 week", 777_600_000),
    ],
)
def test_a_duration_may_be_written_as_text(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("given", ["5", "five minutes", "5 fortnights", "", 300, timedelta(microseconds=1)])
def test_what_is_no_duration_is_refused_with_an_example(given: Any) -> None:
    with pytest.raises(TopologyError, match=r"Hint: .*5 minutes"):
        duration_ms(given)
