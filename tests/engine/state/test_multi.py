"""A table of many rows per key: every live row of a key, its newest version, whatever the history."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import HASHERS, POLICIES, Hasher, check_stored, declared
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet.errors import StateError

SCHEMA = pa.schema([("hash", pa.int64()), ("key", pa.string()), ("left", pa.string()), ("value", pa.int64())])
Rows = dict[tuple[str, str], int]


def opened(state: State) -> Table:
    return state.table(declared("subscriptions", SCHEMA, identity=("key", "left")))


def write(table: Table, changes: dict[tuple[str, str], int | None], hasher: Hasher = hash_keys) -> None:
    keys = pa.array([key for key, _ in changes], pa.string())
    columns = {
        "hash": hasher(keys),
        "key": keys,
        "left": pa.array([left for _, left in changes], pa.string()),
    }
    versions = list(changes.values())
    rows = pa.table({**columns, "value": pa.array([version or 0 for version in versions])}, schema=SCHEMA)
    table.put(rows, [version is None for version in versions])


def looked_up(table: Table, keys: list[str], hasher: Hasher = hash_keys) -> Rows:
    asked = pa.array(keys, pa.string())
    lookup = table.rows(hasher(asked), asked)
    assert (np.diff(lookup.query) >= 0).all()
    rows = lookup.rows.to_pylist()
    assert [row["key"] for row in rows] == [keys[query] for query in lookup.query]
    found = {(row["key"], row["left"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS.keys())
def test_random_histories_end_like_a_dictionary(hasher: Hasher, policy: Policy) -> None:
    chance = random.Random(4)
    store, expected = MemoryChunkStore(), Rows()
    keys = ["", "hot", *(f"f{i}" for i in range(10))]
    for batch in range(1, 50):
        state = State(store, policy=policy)
        table = opened(state)
        picked = {(chance.choice([*keys, "hot"]), f"l{chance.randrange(60)}") for _ in range(25)}
        changes = {pair: None if chance.random() < 0.4 else batch for pair in sorted(picked)}
        write(table, changes, hasher)
        state.commit()
        expected |= {pair: version for pair, version in changes.items() if version is not None}
        expected = {pair: version for pair, version in expected.items() if changes.get(pair, 0) is not None}
        asked = chance.sample(keys, 6)
        assert looked_up(table, asked, hasher) == {pair: v for pair, v in expected.items() if pair[0] in asked}
    check_stored(state, store)
    rows = [row for part in table.scan() for row in part.to_pylist()]
    assert {(row["key"], row["left"]): row["value"] for row in rows} == expected
    assert len(rows) == len(expected)


def test_rows_of_a_key_come_in_the_same_order_whatever_the_batches() -> None:
    changes: dict[tuple[str, str], int | None] = {("hot", f"l{i}"): i for i in range(200)}
    orders = []
    for size in (200, 7):
        state = State(MemoryChunkStore(), policy=Policy(small=1))
        table, pairs = opened(state), list(changes)
        for begin in range(0, 200, size):
            write(table, {pair: changes[pair] for pair in pairs[begin : begin + size]})
            state.commit()
        orders.append(list(looked_up(table, ["x", "hot"])))
    assert orders[0] == orders[1]


def test_one_row_may_be_written_once_per_commit_but_a_key_often() -> None:
    table = opened(state := State(MemoryChunkStore()))
    write(table, {("f", "a"): 1, ("f", "b"): 1})
    state.commit()
    write(table, {("f", "a"): 2})
    write(table, {("f", "a"): 3})
    with pytest.raises(StateError, match=r"two rows(.|\n)*'left': 'a'"):
        state.commit()


def test_asking_for_nothing_or_for_unknown_keys_gives_no_rows() -> None:
    table = opened(state := State(MemoryChunkStore()))
    assert looked_up(table, ["f"]) == {}
    write(table, {("f", "a"): 1})
    state.commit()
    assert looked_up(table, []) == looked_up(table, ["g", "h"]) == {}


def test_only_the_asked_columns_are_gathered() -> None:
    table = opened(state := State(MemoryChunkStore()))
    write(table, {("f", "a"): 1})
    state.commit()
    keys = pa.array(["f"])
    assert table.rows(hash_keys(keys), keys).take(["value"]).to_pydict() == {"value": [1]}


def test_rows_are_sorted_by_the_layouts_columns_within_a_key() -> None:
    state = State(MemoryChunkStore())
    table = state.table(declared("t", SCHEMA, identity=("key", "left", "value"), order=("value",)))
    write(table, {("f", "a"): 3, ("f", "b"): 1, ("g", "c"): 9, ("f", "d"): 2})
    state.commit()
    keys = pa.array(["f", "g"])
    assert table.rows(hash_keys(keys), keys).rows.column("left").to_pylist() == ["b", "d", "a", "c"]
    assert [run.time for run in state.manifest.tables["t"].runs()] == [(1, 9)]
