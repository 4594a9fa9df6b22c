"""A few random queries of SQL through Kafka and Spark, with kills; `python -m chaos.sql` runs more."""

from __future__ import annotations

from pathlib import Path

from chaos.sql import history_of, run

FIRST, COUNT = 13, 3


def test_views_of_random_queries_are_sparks_batch_query_behind_killed_drivers_and_workers(tmp_path: Path) -> None:
    strikes = [part.strike for seed in range(FIRST, FIRST + COUNT) for part in history_of(seed).parts if part.strike]
    assert {strike.victim for strike in strikes} == {"driver", "worker"}
    outcome = run(FIRST, COUNT, tmp_path)
    assert outcome.different == []
    assert outcome.same == COUNT
    assert outcome.kills["driver"]
