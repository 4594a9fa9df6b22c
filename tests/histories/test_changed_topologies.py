"""Random changes of random topologies: what goes on, and what is new and apart, is what the oracle makes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from millpond.testing.proof.histories import changes
from millpond.testing.proof.histories.changes import Changed, check_changed, draw_changed

PAIRS = 75


def drawn(seed: int) -> list[Changed]:
    found = (draw_changed(f"{seed}/{number}") for number in range(PAIRS))
    return [changed for changed in found if changed is not None]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(4, 16))])
def test_what_goes_on_equals_the_oracle_that_was_given_the_same_change(seed: int) -> None:
    found: Counter[str] = Counter()
    for changed in drawn(seed):
        outcome, what = check_changed(changed)
        found[outcome] += 1
        assert outcome in ("equal", "refused", "otherwise"), (seed, changed, outcome, str(what))
    # four seeds are more than 200 changes
    assert found["equal"] > 50, found


@pytest.mark.parametrize("lost", ["times", "tables"])
def test_what_is_not_carried_over_is_seen(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    carry = changes.carry

    def broken(store: Any, parts: Any) -> None:
        less = {"scalars": False} if lost == "times" else {"tables": ()}
        carry(store, [(manifest, replace(part, **less)) for manifest, part in parts])

    monkeypatch.setattr(changes, "carry", broken)
    assert any(check_changed(changed)[0] not in ("equal", "refused", "otherwise") for changed in drawn(0))
