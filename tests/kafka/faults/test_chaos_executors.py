"""Spark with executors of its own: those die too, tasks are run again in place, and every record is there once.

With --proof at more moments, and the driver with them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.round import Round, run
from chaos.strikes import Strike


def check(folder: Path, *strikes: Strike, writers: str = "driver") -> None:
    outcome = run(Round(1, 0, "foreign_key", strikes, executors=2, writers=writers), folder / "round", print)
    assert outcome.unmet == []
    assert outcome.verdict.results > 500
    assert outcome.verdict.sound, outcome.verdict.details
    # a task that has lost its worker, or its executor, is run again in place: the batch goes on
    assert outcome.failures == []


def test_a_worker_and_an_executor_that_die_leave_every_record_once_and_in_order(tmp_path: Path) -> None:
    check(tmp_path, Strike("worker", "put_manifest"), Strike("executor", "put_chunk"))


@pytest.mark.proof
def test_executors_and_a_driver_that_die_at_any_moment_leave_every_record_once_and_in_order(tmp_path: Path) -> None:
    moments = ("between_levels", "before_commit", "after_commit")
    executors = (Strike("executor", moment) for moment in moments)
    check(tmp_path, Strike("worker", "before_commit"), *executors, Strike("driver", "between_commits"), writers="tasks")
