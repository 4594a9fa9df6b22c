"""Random renames of operators whose stores keep their names: all goes on, as the oracle says, or is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from proof.histories.changed import changes
from proof.histories.changed.renamed import Renamed, check_renamed, draw_renamed

PAIRS = 60


def drawn(seed: int) -> list[Renamed]:
    found = (draw_renamed(f"renamed/{seed}/{number}") for number in range(PAIRS))
    return [renamed for renamed in found if renamed is not None]


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(2, 12))])
def test_a_store_that_keeps_its_name_goes_on_under_an_operator_with_another(seed: int) -> None:
    found: Counter[str] = Counter()
    for renamed in drawn(seed):
        outcome, change = check_renamed(renamed)
        assert outcome in ("equal", "refused"), (seed, renamed, outcome, str(change))
        assert all(item.hint for item in change.refused)
        found[outcome] += 1
    assert found["equal"] > 3, found
    assert found["refused"] > 3, found


def test_a_renamed_store_that_loses_its_rows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    carry = changes.carry

    def lossy(store: Any, parts: Any) -> None:
        carry(store, [(manifest, replace(part, tables=())) for manifest, part in parts])

    monkeypatch.setattr(changes, "carry", lossy)
    assert any(check_renamed(renamed)[0] not in ("equal", "refused") for seed in range(2) for renamed in drawn(seed))
