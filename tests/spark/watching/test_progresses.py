"""Progresses of a query: those that are new, and no more is converted than these. No session needed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet._spark.query.progress import progresses_behind

NEVER, NOBODY = "", "00000000-0000-0000-0000-000000000000"


def at(batch: int) -> str:
    return f"2026-01-01T00:00:{batch:02}.000Z"


@dataclass
class Kept:
    """A progress as the JVM has it, which knows how often it was converted."""

    batch: int
    conversions: int = field(default=0, compare=False)

    def json(self) -> str:
        self.conversions += 1
        sink = {"description": "", "numOutputRows": -1}
        none: dict[str, Any] = {"durationMs": {}, "stateOperators": [], "sources": [], "observedMetrics": {}}
        own = {"id": NOBODY, "runId": NOBODY, "name": None, "timestamp": at(self.batch), "batchId": self.batch}
        return json.dumps({**own, **none, "batchDuration": 1, "eventTime": {}, "sink": sink})


def new(kept: list[Kept], seen: str) -> list[int]:
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: kept))
    return [progress["batchId"] for progress in progresses_behind(query, seen)]


@pytest.mark.parametrize(("seen", "expected"), [(NEVER, [3, 4, 5]), (at(3), [4, 5]), (at(5), []), (at(2), [3, 4, 5])])
def test_progresses_behind_the_one_that_was_seen_come_in_their_order(seen: str, expected: list[int]) -> None:
    assert new([Kept(batch) for batch in (3, 4, 5)], seen) == expected


def test_what_was_looked_at_is_not_converted_again() -> None:
    kept = [Kept(batch) for batch in range(50)]
    assert new(kept, at(47)) == [48, 49]
    assert [progress.conversions for progress in kept] == [0] * 47 + [1] * 3


def test_of_a_query_without_a_batch_there_is_none() -> None:
    assert new([], NEVER) == []
