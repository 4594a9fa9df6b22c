"""Debezium on a real Postgres, Kafka, a query and a table, with a few kills; `python -m chaos.chain` kills more."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.chain import Outcome, judge, run
from dev.debian import ProgramMissing
from dev.postgres import programs


def test_each_committed_batch_of_the_real_chain_is_the_join_of_the_source_behind_a_transaction(tmp_path: Path) -> None:
    try:
        programs()
    except ProgramMissing as missing:
        pytest.skip(f"no Postgres: {missing}")
    outcome = run(3, 1, tmp_path)
    assert outcome.strange == []
    assert outcome.whole
    assert outcome.batches > 3


@pytest.mark.parametrize(
    ("states", "strange", "whole"),
    [("acd", 0, True), ("ac", 0, False), ("axd", 1, True), ("acbd", 1, True)],
)
def test_the_judge_sees_states_that_the_source_never_had_and_those_before(
    states: str, strange: int, whole: bool
) -> None:
    outcome = Outcome({})
    judge(outcome, "abcd", states)
    assert (len(outcome.strange), outcome.whole) == (strange, whole)
