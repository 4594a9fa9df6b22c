"""Random changes of what operators read: none goes on with the rows of something else, and most ways are drawn."""

from __future__ import annotations

from collections import Counter

import pytest

from proof.histories.changed.altered import Altered, check_altered, draw_altered
from watersmeet._plan import evolve
from watersmeet._plan.evolve import LineageReading

PAIRS = 60
OUTCOMES = ("refused", "begun anew", "gone on")


def drawn(seed: int) -> list[Altered]:
    found = (draw_altered(f"altered/{seed}/{number}") for number in range(PAIRS))
    return [altered for altered in found if altered is not None]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(3, 20))])
def test_no_operator_goes_on_with_rows_of_other_inputs_than_it_reads(seed: int) -> None:
    found: Counter[str] = Counter()
    for altered in drawn(seed):
        outcome, change = check_altered(altered)
        assert outcome in OUTCOMES, (seed, altered.how, altered.kind, outcome, str(change))
        found[outcome] += 1
        assert all(item.hint for item in change.refused)
    assert found["refused"] > PAIRS // 4, found


def test_names_alone_would_let_operators_of_many_kinds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineageReading, "against", "")
    monkeypatch.setattr(LineageReading, "noted", "")
    assert evolve.LineageReading is LineageReading
    wrong = {altered.kind for altered in drawn(0) + drawn(1) if check_altered(altered)[0] not in OUTCOMES}
    assert len(wrong) > 8, wrong
