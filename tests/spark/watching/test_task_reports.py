"""What tasks report: each place counts once, whatever runs again, and a batch that fails counts nowhere (law 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from watersmeet._spark.metrics.lifetime import BatchReports
from watersmeet._worker import task_reports
from watersmeet._worker.counts import Counts
from watersmeet._worker.task_reports import BatchRequest, Reports, ServedChange, TaskReport

BATCH = "streaming.sql.batchId"
LATENESS_SUM = ("orders", "late")
CHANGE = ServedChange("t", 0, (b"rows",), None)


def reporting(to: Reports, step: str) -> Callable[[Iterator[int]], None]:
    """What each task does: it counts its rows, and says so."""

    def report(rows: Iterator[int]) -> None:
        TaskReport(Counts(Counter({LATENESS_SUM: sum(rows)})), [CHANGE]).send(to, step)

    return report


@pytest.fixture
def reports(spark: SparkSession) -> Iterator[BatchReports]:
    yield BatchReports(spark)
    spark.sparkContext.setLocalProperty(BATCH, None)  # type: ignore[arg-type]


def run(spark: SparkSession, reports: BatchReports, batch: int | None, *steps: str) -> None:
    """A job of three tasks for each step; None: tasks are not told the batch."""
    spark.sparkContext.setLocalProperty(BATCH, None if batch is None else str(batch))  # type: ignore[arg-type]
    for step in steps:
        spark.sparkContext.parallelize([1, 2, 4], 3).foreachPartition(reporting(reports.accumulator, step))


def test_a_task_that_runs_again_takes_the_place_of_its_report_and_another_step_in_it_counts_too(
    spark: SparkSession, reports: BatchReports
) -> None:
    run(spark, reports, 3, "pack 0", "pack 0", "level 1")
    assert reports.counts(3).drops == {LATENESS_SUM: 14}
    assert len(reports.take_served(3)) == 6
    assert reports.take_served(3) == []
    assert reports.counts(3).drops == {LATENESS_SUM: 14}


def test_a_batch_counts_what_its_own_tasks_report_until_it_is_let_go(
    spark: SparkSession, reports: BatchReports
) -> None:
    for batch in (3, 4):
        run(spark, reports, batch, "pack 0")
    reports.forget(3)
    run(spark, reports, 2, "pack 0")  # a task that was run twice at a time, and ended late
    reports.forget(3)
    assert [reports.counts(batch).drops for batch in (2, 3, 4)] == [{}, {}, {LATENESS_SUM: 7}]
    assert len(reports.accumulator.value) == 3


def test_what_tasks_report_that_are_not_told_their_batch_is_of_the_one_that_ends(
    spark: SparkSession, reports: BatchReports
) -> None:
    for batch in (3, 4):
        run(spark, reports, None, "pack 0", "pack 0")
        reports.end(batch)
    assert [reports.counts(batch).drops for batch in (None, 3, 4)] == [{}, {LATENESS_SUM: 7}, {LATENESS_SUM: 7}]


def test_two_queries_report_apart(spark: SparkSession, reports: BatchReports) -> None:
    other = BatchReports(spark)
    run(spark, reports, 3, "pack 0")
    run(spark, other, 3, "pack 0", "pack 1")
    assert (reports.counts(3).drops, other.counts(3).drops) == ({LATENESS_SUM: 7}, {LATENESS_SUM: 14})


def test_a_request_reaches_the_tasks_as_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = BatchRequest(7, 1_000, 500, True, {2: ["a", "b"]}, {"t": [4, 5]}, "/journal/7")
    properties: dict[str, Any] = {task_reports.PROPERTY: made.to_json()}
    monkeypatch.setattr(task_reports, "job_property", properties.get)
    task = BatchRequest.of_task()
    assert (task.batch, task.begun_ms, task.live_ms, task.absent, task.served, task.journal) == (
        (7, 1_000, 500, True, {"t": [4, 5]}, "/journal/7")
    )
    task.take_topics()
    assert task_reports.TOPICS.get() == {2: ["a", "b"]}
    properties.clear()
    assert BatchRequest.of_task() == BatchRequest()
