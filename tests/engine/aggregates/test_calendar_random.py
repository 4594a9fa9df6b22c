"""Random topologies of windows by the calendar: what the oracle does a record at a time, however they are cut (law 1).

Aggregates on update and on close, cogrouped ones, joins of their tables, suppress, groups of windows: over weeks in
which clocks change, a day is skipped, months end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proof.histories import Case
from proof.histories.calendar import by_the_calendar
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds.choices import Dice
from tests.engine.random_kit import check_however_cut

COUNT = 320
PIECES = 8


def cases(seed: str, count: int) -> Iterator[Case]:
    """Random histories of topologies with windows by the calendar."""
    dice = Dice(seed)
    while count:
        case = by_the_calendar(dice, draw_case(dice, draw_blueprint(dice, generation="current")))
        if case is not None:
            yield case
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_windows_by_the_calendar_are_what_the_oracle_has_a_record_at_a_time(piece: int) -> None:
    check_however_cut(cases(f"calendar/{piece}", COUNT // PIECES))


def test_the_histories_have_windows_on_close_joins_and_suppress() -> None:
    drawn = list(cases("calendar/0", 80))
    ops = [op for case in drawn for op in case.blueprint.ops]
    assert sum(op.params.get("windows") == "calendar" and op.params["close"] for op in ops) > 5
    assert sum(op.kind in ("wtable_wtable", "wtable_table", "stream_wtable", "table_wtable") for op in ops) > 5
    assert sum(op.kind == "windowed_suppress" for op in ops) > 5
