"""State divided over another number of shards, and put together again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from watersmeet._engine.exchange import lowest_of, shard_of
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.carry import CarriedTables, divide, overlapping, put_together
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import FolderChunkStore, MemoryChunkStore, State
from watersmeet._plan.declaration import TableSchema
from watersmeet.windows import JoinWindows

TOTALS = TableSchema("totals", (("key", pa.string()), ("value", pa.int64())))
EVERYWHERE = TableSchema("names", (("key", pa.string()), ("value", pa.int64())), everywhere=True)
BOTH = CarriedTables((("totals", TOTALS), ("names", EVERYWHERE)), scalars=True)


def filled(keys: list[str], shard: int, of: int) -> MemoryChunkStore:
    """A shard with the keys that belong to it, in several runs, and a table that every shard has whole."""
    store = MemoryChunkStore()
    for number in range(4):
        state = State(store, policy=Policy(segment=512))
        hashes = hash_keys(pa.array(keys))
        own = [k for k, s in zip(keys, shard_of(hashes, of), strict=True) if s == shard and (len(k) + number) % 2]
        for declared, some in ((TOTALS, own), (EVERYWHERE, keys[:7])):
            array = pa.array(some, pa.string())
            rows = {"hash": hash_keys(array), "key": array, "value": pa.array([number] * len(some), pa.int64())}
            state.table(declared).put(pa.table(rows))
        state.set_scalar("time", {"0": 10 + shard, "1": 5})
        state.set_scalar("held", {"0": [1, 20]})
        state.commit()
    return store


def rescaled(stores: dict[int, MemoryChunkStore], of: int, to: int) -> dict[int, MemoryChunkStore]:
    parts: dict[int, list[MemoryChunkStore]] = {}
    for shard, store in sorted(stores.items()):
        made: dict[int, MemoryChunkStore] = {}

        def begun(number: int, made: dict[int, MemoryChunkStore] = made) -> MemoryChunkStore:
            return made.setdefault(number, MemoryChunkStore())

        divide(store, BOTH, shard, (of, to), begun)
        for number, part in made.items():
            parts.setdefault(number, []).append(part)
    return {
        number: MemoryChunkStore(
            put_together([part.manifest for part in found if part.manifest]),
            {place: chunk for part in found for place, chunk in part.chunks.items()},
        )
        for number, found in parts.items()
    }


def rows_of(store: MemoryChunkStore, declared: TableSchema) -> dict[str, int]:
    rows = pa.concat_tables([*State(store).table(declared).scan(), declared_empty(declared)])
    return dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


def declared_empty(declared: TableSchema) -> pa.Table:
    return State(MemoryChunkStore()).table(declared).schema.empty_table()


@pytest.mark.parametrize(("of", "to"), [(1, 7), (7, 1), (2, 3), (5, 3), (3, 12), (4, 4)])
def test_each_key_lies_in_its_new_shard_with_its_last_value_and_is_found_there(of: int, to: int) -> None:
    keys = [f"key{'x' * (n % 3)}{n}" for n in range(200)]
    old = {shard: filled(keys, shard, of) for shard in range(of)}
    before = {key: value for store in old.values() for key, value in rows_of(store, TOTALS).items()}
    new = rescaled(old, of, to)
    assert sorted(new) == list(range(to))
    assert {key: value for store in new.values() for key, value in rows_of(store, TOTALS).items()} == before
    for shard, store in new.items():
        kept = pa.array(rows_of(store, TOTALS))
        assert set(shard_of(hash_keys(kept), to).tolist()) <= {shard}
        found = State(store).table(TOTALS).point(hash_keys(kept), kept).aligned("value").to_pylist()
        assert found == [before[key] for key in kept.to_pylist()]
        assert rows_of(store, EVERYWHERE) == rows_of(old[0], EVERYWHERE)


def test_of_times_the_latest_counts_and_of_what_is_held_the_sum() -> None:
    old = {shard: filled(["a", "b", "c"], shard, 2) for shard in range(2)}
    (one,) = rescaled(old, 2, 1).values()
    assert mf.read(one.manifest or b"").scalars == {"time": {"0": 11, "1": 5}, "held": {"0": [2, 40]}}


def test_shards_of_two_numbers_overlap_where_their_hashes_do() -> None:
    for of in (1, 2, 3, 7, 64):
        for to in (1, 2, 5, 64, 100):
            owners = [set(overlapping(shard, of, to)) for shard in range(of)]
            assert set.union(*owners) == set(range(to))
            for shard in range(of):
                edges = np.array([lowest_of(shard, of), lowest_of(shard + 1, of) - 1])
                assert set(shard_of(edges, of).tolist()) == {shard}
                assert {*shard_of(edges, to).tolist()} <= owners[shard]


def test_tables_that_have_a_run_in_common_do_not_lose_it_when_one_of_them_is_merged() -> None:
    store = filled([f"k{n}" for n in range(50)], 0, 1)
    manifest = mf.read(store.manifest or b"")
    twin = TableSchema("twin", TOTALS.columns)
    store.manifest = mf.write(
        mf.Manifest(manifest.commit, {**manifest.tables, "twin": manifest.tables["totals"]}, manifest.scalars)
    )
    before = rows_of(store, twin)
    state = State(store)
    key = pa.array(["k0"])
    state.table(TOTALS).put(pa.table({"hash": hash_keys(key), "key": key, "value": pa.array([99], pa.int64())}))
    state.commit(compact=True)
    assert rows_of(store, twin) == before
    assert rows_of(store, TOTALS) == {**before, "k0": 99}


def test_a_store_of_files_gives_its_chunks_back_in_order(tmp_path: Path) -> None:
    store = FolderChunkStore(tmp_path)
    store.put_chunk("b", 0, b"3")
    store.put_chunk("a", 1, b"2")
    store.put_chunk("a", 0, b"1")
    store.remove_chunk("b", 0)
    store.remove_chunk("b", 0)
    assert list(store.chunks()) == [("a", 0, b"1"), ("a", 1, b"2")]
    with pytest.raises(KeyError):
        store.get_chunk("b", 0)


@pytest.mark.parametrize("shards", [(1, 4), (2, 4), (4, 8), (7, 1), (2, 1), (2, 3)])
def test_rows_of_a_windowed_join_that_were_matched_stay_so_over_other_shards(shards: tuple[int, int]) -> None:
    builder = arrow_builder("rescaled")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    windows = JoinWindows.of_time_difference_and_grace("10 ms", "5 ms")
    plus = partial(pc.binary_join_element_wise, null_handling="replace")
    left.outer_join(right, lambda a, b: plus(a, b, "+"), windows).to("o")
    driver = EngineDriver(builder.build(), shards=shards[0])
    keys = [f"k{n}" for n in range(40)]
    for key in keys:
        driver.pipe("left", key, "a", ts=0)
    driver.run_batch()
    # every other row is matched in a later batch than its own
    for key in keys[::2]:
        driver.pipe("right", key, "b", ts=1)
    driver.run_batch()
    driver.rescale(shards[1])
    driver.pipe("left", "k0", "late", ts=100)
    driver.run_batch()
    found = sorted((result.key, result.value) for result in driver.read("o"))
    assert found == sorted([(key, "a+b") for key in keys[::2]] + [(key, "a+") for key in keys[1::2]])
