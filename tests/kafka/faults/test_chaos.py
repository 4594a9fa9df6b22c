"""A few kills of the fault bench: with --proof each named moment once. `make chaos` kills a thousand times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.round import Outcome, Round, run
from chaos.strikes import MOMENTS, OF_THE_DRIVER, Strike


def outcome_of(
    folder: Path, join: str, *strikes: Strike, delivery: str = "exactly_once", writers: str = "driver", **beside: Any
) -> Outcome:
    outcome = run(Round(1, 0, join, strikes, delivery, writers=writers, **beside), folder / "round", print)
    assert [strike for strike, _ in outcome.met] == list(strikes)
    assert outcome.verdict.results > 500
    return outcome


@pytest.mark.proof
def test_a_worker_that_dies_at_any_moment_leaves_every_record_once_and_in_order(tmp_path: Path) -> None:
    moments = [moment for moment in MOMENTS if moment not in (*OF_THE_DRIVER, "random")]
    outcome = outcome_of(tmp_path, "foreign_key", *(Strike("worker", m) for m in moments), writers="tasks")
    # each of them brought the batch down
    assert len(outcome.failures) >= len(moments)
    assert outcome.verdict.sound, outcome.verdict.details


def test_a_driver_that_dies_between_the_commits_and_a_broker_that_dies_leave_every_record_once(tmp_path: Path) -> None:
    strikes = (Strike("driver", "between_commits"), Strike("broker", "random"), Strike("driver", "merge"))
    outcome = outcome_of(tmp_path, "stream_stream", *strikes)
    assert outcome.verdict.sound, outcome.verdict.details


def test_a_driver_that_dies_around_its_transaction_leaves_every_record_once_whoever_writes_it_then(
    tmp_path: Path,
) -> None:
    strikes = (Strike("driver", moment) for moment in ("handed_back", "after_commit"))
    outcome = outcome_of(tmp_path, "table_table", *strikes, writers="both")
    assert outcome.verdict.sound, outcome.verdict.details


@pytest.mark.proof
def test_a_driver_that_dies_while_inputs_are_kept_together_leaves_every_record_once(tmp_path: Path) -> None:
    strikes = (Strike("driver", moment) for moment in ("between_commits", "before_commit"))
    outcome = outcome_of(tmp_path, "stream_table", *strikes, together=True)
    assert outcome.verdict.sound, outcome.verdict.details


@pytest.mark.proof
def test_at_least_once_is_found_doubled(tmp_path: Path) -> None:
    # the bench must be able to see what it looks for: without markers, a batch that is run again is written again
    outcome = outcome_of(tmp_path, "table_table", Strike("driver", "between_commits"), delivery="at_least_once")
    verdict = outcome.verdict
    assert verdict.doubled > 50
    assert (verdict.lost, verdict.wrong, verdict.sound) == (0, 0, False)
