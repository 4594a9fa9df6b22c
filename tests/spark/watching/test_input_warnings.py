"""Warnings of what a query's inputs are seen to have: each once, of all tasks and batches together."""

from __future__ import annotations

import threading
import warnings
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._spark.query import progress
from watersmeet._spark.query.progress import BatchCounts
from watersmeet._worker.counts import CONSUMED, LATENESS, STREAM_TIME, Counts, Measure
from watersmeet._worker.formats.connect import LOOKS

NOW_MS = int(datetime(2026, 1, 31, tzinfo=UTC).timestamp() * 1_000)
LATEST, LATENESS_SUM = Measure(STREAM_TIME, "orders"), Measure(LATENESS, "orders")


def totals(*, extracted: bool = False) -> Totals:
    return Totals(CountedPlan((LATEST, LATENESS_SUM), {"orders": extracted}))


def batch(into: Totals, *tasks: Counts) -> None:
    """Count a batch of these tasks."""
    counts = Counts()
    for task in tasks:
        counts.add(task)
    into.count(0, counts, ended_ms=0)


def report(records: int, *absent: str) -> Counts:
    return Counts(absent=[("orders", "value", (records, absent, ["name", "city"]))])


def said(into: Totals, *, ended: bool = False) -> list[str]:
    return [message for message, _ in into.warnings.due(ended=ended)]


def test_a_column_that_no_task_of_many_records_has_seen_is_a_warning_once() -> None:
    found = totals()
    batch(found, report(LOOKS // 2, "nmae", "town"), report(1, "nmae"))
    assert said(found) == []
    batch(found, report(LOOKS, "nmae", "age"))
    (message,) = said(found)
    assert message.startswith("No value of the first 1,501 of 'orders' has 'nmae', which its format names.")
    assert message.endswith("name, city.")
    batch(found, report(LOOKS, "nmae"))
    assert said(found, ended=True) == []


def test_a_few_records_say_nothing_before_the_query_ends_and_those_of_another_batch_may_have_the_column() -> None:
    few, other = totals(), totals()
    batch(few, report(3, "nmae"))
    assert said(few) == []
    assert len(said(few, ended=True)) == 1
    batch(other, report(3, "nmae"))
    batch(other, report(1))
    assert said(other, ended=True) == []


@pytest.mark.parametrize(
    ("latest", "late", "where", "cure"),
    [
        (NOW_MS // 1_000, 0, "in 1970", '"] * 1000'),
        (NOW_MS * 1_000, 0, "beyond the year 3000", '"] / 1000)'),
        # one among others
        (NOW_MS, NOW_MS - NOW_MS // 1_000, "in 1970", '"] * 1000'),
    ],
)
@pytest.mark.parametrize("extracted", [True, False])
def test_times_of_another_unit_are_a_warning_once_that_names_the_unit_and_the_cure(
    latest: int, late: int, where: str, cure: str, extracted: bool
) -> None:
    found = totals(extracted=extracted)
    batch(found, Counts(largest={LATEST: latest, LATENESS_SUM: late}))
    ((message, hint),) = found.warnings.due(ended=False)
    assert ("timestamp= of 'orders'" if extracted else "topic of 'orders'") in message
    assert where in message
    assert "read as milliseconds" in message
    assert cure in hint
    batch(found, Counts(largest={LATEST: latest, LATENESS_SUM: late}))
    assert said(found, ended=True) == []


def test_times_of_today_and_an_hour_late_are_no_warning() -> None:
    found = totals()
    batch(found, Counts(largest={LATEST: NOW_MS, LATENESS_SUM: 3_600_000}))
    assert said(found, ended=True) == []


def test_a_full_batch_in_the_only_task_is_a_warning_once_where_there_are_more_cores() -> None:
    found = Totals(CountedPlan((Measure(CONSUMED, "orders"),), one_task=(1_000, 4)))
    for records in (999, 1_000, 1_000):
        counts = Counts()
        counts.sums[Measure(CONSUMED, "orders")] = records
        batch(found, counts)
        assert len(said(found)) == (records == 1_000 and found.batches == 2)


def test_a_warning_that_the_program_makes_an_error_is_told_and_the_query_is_followed_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, ended, active = list[type[BaseException] | None](), threading.Event(), threading.Event()
    active.set()

    def look(counts: BatchCounts) -> None:
        if not told:
            warnings.warn("an input's times are off", stacklevel=1)

    def hook(arguments: threading.ExceptHookArgs) -> None:
        told.append(arguments.exc_type)
        active.clear()

    monkeypatch.setattr(progress, "SECONDS", 0.01)
    monkeypatch.setattr(BatchCounts, "_look", look)
    monkeypatch.setattr(threading, "excepthook", hook)
    query: Any = type("Followed", (), {"runId": "run", "isActive": property(lambda self: active.is_set())})()
    lifetime: Any = SimpleNamespace(totals=totals(), reports=None)
    BatchCounts(query, lifetime).at_end(ended.set)
    assert ended.wait(60)
    assert told == [UserWarning]
