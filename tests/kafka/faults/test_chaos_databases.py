"""A few kills of the fault bench while a table is kept in a database; `python -m chaos --databases` kills more."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.databases import judge_table
from chaos.judge import Expected, Said
from chaos.round import Round, run
from chaos.strikes import Strike
from dev.debian import ProgramMissing
from dev.postgres import programs


@pytest.mark.parametrize(
    ("database", "join", "moments"),
    [
        ("sqlite", "table_table", ("before_commit", "between_commits", "after_commit")),
        ("postgres", "foreign_key", ("after_commit",)),
        pytest.param("postgres", "foreign_key", ("handed_back", "before_commit"), marks=pytest.mark.proof),
    ],
)
def test_a_driver_that_is_killed_around_a_commit_leaves_the_table_that_should_be(
    tmp_path: Path, database: str, join: str, moments: tuple[str, ...]
) -> None:
    if database == "postgres":
        try:
            programs()
        except ProgramMissing as missing:
            pytest.skip(f"no Postgres: {missing}")
    strikes = tuple(Strike("driver", moment) for moment in moments)
    outcome = run(Round(1, 0, join, strikes, database=database), tmp_path / "round", print)
    assert [strike for strike, _ in outcome.met] == list(strikes)
    assert outcome.verdict.results > 500
    assert outcome.verdict.sound, outcome.verdict.details


def test_the_judge_sees_rows_that_are_missing_and_rows_that_are_others() -> None:
    given = [("a", "1"), ("b", "1"), ("a", "2"), ("b", None), ("c", "3")]
    wanted = [Expected(key, Said(value, 0), 0) for key, value in given]
    assert judge_table(wanted, {"a": "2", "c": "3"}).sound
    assert judge_table(wanted, {"a": "2"}).lost == 1
    assert judge_table(wanted, {"a": "1", "c": "3"}).wrong == 1
    assert judge_table(wanted, {"a": "2", "b": "1", "c": "3"}).wrong == 1
