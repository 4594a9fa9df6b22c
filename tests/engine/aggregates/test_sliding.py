"""Sliding windows of keys in order, known at once: the same as record after record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lengths import examples
from watersmeet._engine.operators import sliding_aggregate
from watersmeet._engine.operators.sliding_aggregate import (
    SlidingChanges,
    SlidingRecords,
    StoredWindows,
    in_order,
    out_of_order,
    slid,
)
from watersmeet._engine.rows import Int64s

EMPTY = StoredWindows(*[np.zeros(0, dtype=np.int64)] * 4)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 9)), max_size=25)


def arrays(steps: list[tuple[int, int]], latest: dict[int, int]) -> tuple[Int64s, Int64s]:
    """Keys and timestamps, most of them later than those before of their key."""
    found = []
    for key, gap in steps:
        latest[key] = max(0, latest.get(key, 5) + gap)
        found.append((key, latest[key]))
    keys, ts = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return keys.copy(), ts.copy()


def one_by_one(
    keys: Int64s, ts: Int64s, close: Int64s, before: StoredWindows, length: int, vanishing: Any
) -> SlidingChanges:
    order = np.argsort(keys, kind="stable")
    return out_of_order(order, keys[order], ts[order], close[order], before, length, len(before.key), vanishing)


def contents(found: SlidingChanges, known: int) -> list[Any]:
    """What each state holds; checks that chains are what they are said to be."""
    held: list[Any] = [(-1 - number,) for number in range(known)]
    of_chain: dict[int, int] = {}
    for number, (record, parent, head, level) in enumerate(
        zip(found.record, found.parent, found.head, found.level, strict=True)
    ):
        if head == number:
            assert parent < known or found.level[parent - known] < level
        else:
            assert parent - known == of_chain[int(head)]
            assert level == found.level[head]
        of_chain[int(head)] = number
        held.append((*(held[parent] if parent >= 0 else ()), int(record)))
    return held


def told(found: SlidingChanges, known: int) -> Any:
    held = [*contents(found, known), None]
    by_record = np.argsort(found.by, kind="stable")
    columns = (c[by_record].tolist() for c in (found.by, found.start, found.ts, found.state, found.before))
    changes = [
        (by, start, ts, held[state], held[before]) for by, start, ts, state, before in zip(*columns, strict=True)
    ]
    now = found.standing
    columns = (c.tolist() for c in (now.key, now.start, now.ts, now.state))
    standing = sorted((key, start, ts, held[state]) for key, start, ts, state in zip(*columns, strict=True))
    return changes, standing, sorted(found.late.tolist())


def ordered(standing: StoredWindows) -> StoredWindows:
    """As it comes from state: by key and start, each with a state of its own."""
    order = np.lexsort((standing.start, standing.key))
    return StoredWindows(standing.key[order], standing.start[order], standing.ts[order], np.arange(len(order)))


@settings(max_examples=examples(400), deadline=None)
@given(
    batches=st.lists(STEPS, min_size=1, max_size=3),
    length=st.sampled_from([1, 3, 7]),
    grace=st.sampled_from([0, 4, 100]),
    forgets=st.booleans(),
    vanishes=st.sets(st.tuples(st.integers(0, 24), st.integers(0, 60)), max_size=2),
)
def test_keys_in_order_give_what_record_after_record_gives(
    batches: Any, length: int, grace: int, forgets: bool, vanishes: Any
) -> None:
    latest: dict[int, int] = {}
    before, most = EMPTY, 0
    for steps in batches:
        keys, ts = arrays(steps, latest)
        now = np.maximum(np.maximum.accumulate(ts), most) if len(ts) else ts
        given = (keys, ts, now - grace, before, length, vanishes)
        expected = one_by_one(*given)
        assert told(slid(*given), len(before.key)) == told(expected, len(before.key))
        most = max(most, int(ts.max(initial=0)))
        left = expected.standing
        others = np.flatnonzero(~np.isin(before.key, keys))
        columns = [np.concatenate([a, b[others]]) for a, b in zip(parts(left), parts(before), strict=True)]
        stays = columns[1] >= (most - grace - 3 * length if forgets else -1)
        before = ordered(StoredWindows(*[column[stays] for column in columns]))


def parts(stored: StoredWindows) -> list[Int64s]:
    return [stored.key, stored.start, stored.ts, stored.state]


def test_a_key_whose_records_come_in_order_is_known_at_once_and_one_with_a_late_record_is_not() -> None:
    keys, ts = np.array([0, 1, 0, 1, 0, 2]), np.array([10, 10, 11, 9, 14, 2])
    order = np.argsort(keys, kind="stable")
    records = SlidingRecords.of(order, keys[order], ts[order], EMPTY)
    said = in_order(records, np.zeros(6, dtype=np.int64), EMPTY, 3, frozenset())
    assert dict(zip(order.tolist(), said.tolist(), strict=True)) == {0: 1, 2: 1, 4: 1, 1: 0, 3: 0, 5: 0}


def test_times_too_far_apart_for_one_number_are_looked_at_one_by_one() -> None:
    keys, ts = np.array([0, 0, 1, 1]), np.array([10, 2**62, 10, 11])
    given = (keys, ts, np.zeros(4, dtype=np.int64), EMPTY, 3, frozenset())
    assert told(slid(*given), 0) == told(one_by_one(*given), 0)


@pytest.mark.parametrize("spans", [1, 50])
def test_what_a_hot_key_in_order_brings_is_folded_in_two_levels(spans: int) -> None:
    keys, ts = np.zeros(5_000, dtype=np.int64), 100 + np.arange(5_000) * spans
    found = slid(keys, ts, ts - 1, EMPTY, 90, frozenset())
    assert found.level.max() <= 1
    assert len(found.by) == len(found.record)
    assert sliding_aggregate.in_order(
        SlidingRecords.of(np.arange(5_000), keys, ts, EMPTY), ts - 1, EMPTY, 90, set()
    ).all()
