"""Versions in state beside a dictionary that forgets nothing: lookups, merges and what the history lets go."""

from __future__ import annotations

import random
from bisect import bisect_right

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.kit import PLUS, driver_of, run
from tests.engine.state.table_contract import POLICIES
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.matching import last_below
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.operators.tables import versions

KEYS = ["hot", *(f"k{number}" for number in range(5))]
DOMAIN = {key: number % 2 for number, key in enumerate(KEYS)}
HISTORY = 30
LATEST = 2**62
SCHEMA = versions("t", pa.string(), pa.string())


class Model:
    """Every version that was ever put, and how far each domain reaches."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, str | None]] = {key: {} for key in KEYS}
        self.reach = {0: -1, 1: -1}

    def floor(self, key: str) -> int:
        return self.reach[DOMAIN[key]] - HISTORY

    def put(self, key: str, ts: int, value: str | None) -> bool:
        if ts < self.floor(key):
            return False
        self.versions[key][ts] = value
        self.reach[DOMAIN[key]] = max(self.reach[DOMAIN[key]], ts)
        return True

    def as_of(self, key: str, at: int) -> str | None:
        times = sorted(self.versions[key])
        place = bisect_right(times, at) - 1
        return self.versions[key][times[place]] if place >= 0 else None

    def needed(self) -> int:
        """Versions that some lookup can still find, and tombstones that tell a late change from the latest."""
        count = 0
        for key, found in self.versions.items():
            times = sorted(found)
            ends = [*times[1:], LATEST]
            keep = [end > self.floor(key) for end in ends]
            if times and found[times[-1]] is None and times[-1] < self.floor(key):
                keep[-1] = False
            count += sum(keep)
        return count


def put(state: State, rows: dict[tuple[str, int], str | None]) -> None:
    keys = pa.array([key for key, _ in rows], pa.string())
    state.table(SCHEMA).put(
        {
            "hash": pa.array(hash_keys(keys)),
            "key": keys,
            "value": pa.array(list(rows.values()), pa.string()),
            "ts": pa.array([ts for _, ts in rows], pa.int64()),
            "domain": pa.array([DOMAIN[key] for key, _ in rows], pa.int64()),
            "deleted": pa.array([value is None for value in rows.values()]),
        }
    )


def asked(state: State, questions: list[tuple[str, int]]) -> list[str | None]:
    keys = pa.array([key for key, _ in questions], pa.string())
    at = np.array([ts for _, ts in questions], dtype=np.int64)
    found: list[str | None] = state.table(SCHEMA).as_of(hash_keys(keys), keys, at).aligned("value").to_pylist()
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=["relocating", "steps", "small steps", "many runs", "usual"])
@pytest.mark.parametrize("seed", range(4))
def test_what_the_history_has_not_passed_is_found_whatever_is_merged_and_forgotten(policy: Policy, seed: int) -> None:
    chance, store, model = random.Random(seed), MemoryChunkStore(), Model()
    now = 0
    for _ in range(60):
        state = State(store, policy=policy)
        rows: dict[tuple[str, int], str | None] = {}
        for number in range(chance.randrange(12)):
            now += chance.choice((0, 0, 1, 7))
            key = "hot" if chance.random() < 0.5 else chance.choice(KEYS)
            ts, value = max(0, now - chance.choice((0, 0, 5, 40))), chance.choice((f"v{number}", None))
            if model.put(key, ts, value):
                rows[(key, ts)] = value
        if rows:
            put(state, rows)
        state.table(SCHEMA).expire({domain: reach - HISTORY for domain, reach in model.reach.items()})
        state.commit()
        questions = [(key, at) for key in KEYS for at in (*range(max(0, model.floor(key)), now + 2, 3), LATEST)]
        assert asked(State(store), questions) == [model.as_of(key, at) for key, at in questions]


def test_a_merge_leaves_what_some_lookup_can_still_find_and_nothing_else() -> None:
    store, model = MemoryChunkStore(), Model()
    for now in range(0, 3_000, 10):
        state = State(store)
        rows = {(key, now): None if (now // 10 + n) % 7 == 0 else f"{key}{now}" for n, key in enumerate(KEYS)}
        for (key, ts), value in rows.items():
            model.put(key, ts, value)
        put(state, rows)
        state.table(SCHEMA).expire({domain: reach - HISTORY for domain, reach in model.reach.items()})
        state.commit()
        kept = sum(len(part) for part in State(store).table(SCHEMA).scan())
        assert kept <= 3 * model.needed() + 40


def test_a_deleted_key_leaves_nothing_behind_when_its_tombstone_is_older_than_the_history() -> None:
    def build(builder: object) -> object:
        stream = builder.stream("s", key="string", value="string")  # type: ignore[attr-defined]
        table = builder.table("t", key="string", value="string", history="50 ms")  # type: ignore[attr-defined]
        return stream.join(table, PLUS)

    driver = driver_of(build, shards=1)
    run(driver, *(("t", f"k{number}", "v", number) for number in range(200)))
    run(driver, *(("t", f"k{number}", None, 200) for number in range(200)))
    for ts in range(1_000, 1_400, 10):
        run(driver, ("t", "stays", str(ts), ts))
    assert driver.rows_in_stores() < 60


def test_of_each_stretch_the_last_place_below_its_limit_is_found() -> None:
    chance = np.random.default_rng(3)
    for size in (1, 2, 3, 7, 8, 33, 200):
        numbers = chance.permutation(size).astype(np.int64)
        begin = chance.integers(0, size, 300)
        end = np.array([chance.integers(low, size + 1) for low in begin])
        limit = chance.integers(-1, size + 2, 300)
        expected = [
            max((at for at in range(low, high) if numbers[at] < most), default=-1)
            for low, high, most in zip(begin, end, limit, strict=True)
        ]
        assert last_below(numbers, begin, end, limit).tolist() == expected
