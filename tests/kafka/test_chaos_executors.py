"""Spark with executors of its own: those die too, tasks are run again in place, and every record is there once."""

from __future__ import annotations

from pathlib import Path

from chaos.round import Round, run
from chaos.strikes import Strike


def test_workers_and_executors_that_die_leave_every_record_once_and_in_order(tmp_path: Path) -> None:
    workers = tuple(Strike("worker", moment) for moment in ("put_manifest", "before_commit"))
    executors = tuple(Strike("executor", moment) for moment in ("put_chunk", "between_levels", "after_commit"))
    given = Round(1, 0, "foreign_key", (*workers, *executors, Strike("driver", "between_commits")), executors=2)
    outcome = run(given, tmp_path / "round", print)
    assert outcome.unmet == []
    assert outcome.verdict.results > 500
    assert outcome.verdict.sound, outcome.verdict.details
    # a task that has lost its worker, or its executor, is run again in place: the batch goes on
    assert outcome.failures == []
