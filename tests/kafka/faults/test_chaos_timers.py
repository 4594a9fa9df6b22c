"""A few kills while timers of both clocks wait; `python -m chaos --joins process_wall` kills more.

The judge knows what the clock has shown by the checkpoint, so it knows at which batch each timer has to fire.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.round import Round, run
from chaos.strikes import Strike


@pytest.mark.parametrize(
    ("join", "writers", "strikes"),
    [
        ("process_wall", "driver", (Strike("driver", "between_commits"), Strike("worker", "put_manifest"))),
        ("process_shared", "tasks", (Strike("driver", "put_chunk"), Strike("worker", "after_commit"))),
    ],
)
def test_timers_of_both_clocks_fire_once_and_in_order_whoever_dies(
    tmp_path: Path, join: str, writers: str, strikes: tuple[Strike, ...]
) -> None:
    outcome = run(Round(1, 0, join, strikes, writers=writers), tmp_path / "round", print)
    assert [strike for strike, _ in outcome.met] == list(strikes)
    assert outcome.verdict.results > 500
    assert outcome.verdict.sound, outcome.verdict.details
