"""Random changes of random topologies: what goes on, and what is new, apart or on streams, is what the oracle makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from proof.histories.changed import changes
from proof.histories.changed.changes import Changed, check_changed, draw_changed
from proof.histories.changed.oracle import ChangedOracle
from proof.histories.kinds.registry import is_limited
from proof.oracle.graph import Topology

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


def test_a_change_of_topologies_with_a_limited_buffer_is_drawn_on_one_shard() -> None:
    changes_drawn = drawn(0) + drawn(1)
    limited = [each for each in changes_drawn if is_limited(each.old.blueprint) or is_limited(each.new.blueprint)]
    assert {each.shards for each in limited} == {1}
    assert {each.shards for each in changes_drawn} == {1, 2, 3}


def test_what_is_new_on_streams_that_were_kept_gets_what_comes_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    new_on_streams = [changed for changed in drawn(0) if changed.joined]
    assert len(new_on_streams) > 10

    class Early(ChangedOracle):
        """One in which all has been there from the beginning."""

        def go_on_with(self, numbers: Collection[int]) -> Topology:
            return super().go_on_with(range(1_000))

    monkeypatch.setattr(changes, "ChangedOracle", Early)
    assert any(check_changed(changed)[0] not in ("equal", "refused", "otherwise") for changed in new_on_streams)


@pytest.mark.parametrize("lost", ["times", "tables"])
def test_what_is_not_carried_over_is_seen(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    carry = changes.carry

    def broken(store: Any, parts: Any) -> None:
        less = {"scalars": False} if lost == "times" else {"tables": ()}
        carry(store, [(manifest, replace(part, **less)) for manifest, part in parts])

    monkeypatch.setattr(changes, "carry", broken)
    assert any(check_changed(changed)[0] not in ("equal", "refused", "otherwise") for changed in drawn(0))
