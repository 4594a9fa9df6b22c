"""Joins of tables and streams on hard input: hot keys, hash collisions, odd keys, diamonds, replays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver, Result
from watersmeet._engine import exchange


def plus(left: pa.Array, right: pa.Array) -> pa.Array:
    """left+right, null printed as null."""
    return pc.binary_join_element_wise(left.fill_null("null"), right.fill_null("null"), "+")


def joined(how: str = "join", *, key: str = "string", shards: int = 2) -> EngineDriver:
    """Two tables joined into the output "out"."""
    builder = arrow_builder("test")
    left, right = (builder.table(name, key=key, value="string") for name in ("left", "right"))
    getattr(left, how)(right, plus).to("out")
    return EngineDriver(builder.build(), shards=shards)


def run(driver: EngineDriver, *records: tuple[str, Any, str | None, int]) -> list[tuple[Any, Any, int]]:
    """The results of records in one batch."""
    for topic, key, value, ts in records:
        driver.pipe(topic, key, value, ts=ts)
    driver.run_batch()
    return [(r.key, r.value, r.ts) for r in driver.read("out")]


def test_ids_beyond_two_to_the_53_stay_themselves() -> None:
    near = 2**53
    driver = joined(key="long")
    got = run(driver, ("left", near + 1, "a", 0), ("right", near, "b", 1), ("right", near + 1, "c", 2))
    assert got == [(near + 1, "a+c", 2)]


@pytest.mark.parametrize("key", ["", "\x00", "\x00\x00", "é", "a" * 10_000])
def test_odd_strings_are_keys_like_any_other(key: str) -> None:
    driver = joined()
    got = run(driver, ("left", key, "a", 0), ("left", key + "x", "z", 0), ("right", key, "b", 1))
    assert got == [(key, "a+b", 1)]


def test_a_hot_key_of_a_hundred_thousand_rows_keeps_its_order() -> None:
    driver = joined()
    for number in range(50_000):
        driver.pipe("left", "k", f"l{number}", ts=number)
        driver.pipe("right", "k", f"r{number}", ts=number)
    driver.run_batch()
    results = driver.read("out")
    assert len(results) == 99_999
    assert results[-1].value == "l49999+r49999"
    assert [r.step for r in results] == sorted(r.step for r in results)


def test_keys_that_share_a_hash_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "hash_keys", lambda keys: np.zeros(len(keys), dtype=np.int64))
    driver = joined("outer_join")
    got = run(driver, ("left", "a", "1", 0), ("left", "b", "2", 0), ("right", "b", "3", 1))
    assert got == [("a", "1+null", 0), ("b", "2+null", 0), ("b", "2+3", 1)]
    assert run(driver, ("right", "a", "4", 2), ("left", "b", None, 3)) == [
        ("a", "1+4", 2),
        ("b", "null+3", 3),
    ]


def test_null_keys_are_dropped_and_counted_once() -> None:
    driver = joined()
    assert run(driver, ("left", None, "a", 0), ("right", None, "b", 1), ("right", "k", None, 2)) == []
    assert {k: n for k, n in driver.drops.items() if n} == {("left", "null_key"): 1, ("right", "null_key"): 1}


def test_negative_timestamps_are_dropped_and_counted() -> None:
    driver = joined()
    assert run(driver, ("left", "k", "a", -1), ("right", "k", "b", 1)) == []
    assert driver.drops[("left", "negative_timestamp")] == 1


def test_far_future_timestamps_pass() -> None:
    far = 253_402_300_799_999
    assert run(joined(), ("left", "k", "a", far), ("right", "k", "b", 0)) == [("k", "a+b", far)]


def test_an_empty_batch_does_nothing() -> None:
    driver = joined()
    assert run(driver) == []
    assert run(driver, ("left", "k", "a", 0)) == []
    assert run(driver) == []
    assert run(driver, ("right", "k", "b", 1)) == [("k", "a+b", 1)]


def test_insert_then_delete_leaves_no_rows_behind() -> None:
    driver = joined()
    keys = [f"k{n}" for n in range(500)]
    run(driver, *(("left", k, "a", 0) for k in keys), *(("right", k, "b", 0) for k in keys))
    run(driver, *(("left", k, None, 1) for k in keys), *(("right", k, None, 1) for k in keys))
    assert driver.rows_in_stores() == 0


def test_a_batch_replayed_after_a_crash_gives_the_same_results() -> None:
    driver = joined()
    run(driver, ("left", "k", "a", 0), ("right", "k", "b", 0))
    before = {shard: store.snapshot() for shard, store in driver.stores.items()}
    records = [("left", "k", "c", 1), ("right", "k", None, 2), ("left", "u", "d", 3), ("right", "u", "e", 4)]
    first = run(driver, *records)
    for shard, store in driver.stores.items():
        if shard in before:
            store.restore(before[shard])
        else:
            store.restore(type(store)().snapshot())
    assert run(driver, *records) == first


def test_float_keys_that_are_not_numbers_are_one_key() -> None:
    table = pa.table({"k": pa.array([math.nan, -0.0, 0.0])})
    hashes = exchange.hash_keys(table.column("k"))
    assert len({int(h) for h in hashes}) == 3


def test_a_record_that_reaches_both_sides_sees_its_own_update_where_kafka_would() -> None:
    # to_table is attached before the join, so the record has updated the table when the join looks it up.
    builder = arrow_builder("diamond")
    stream = builder.stream("in", key="string", value="string")
    table = stream.to_table()
    stream.left_join(table, plus).to("out")
    driver = EngineDriver(builder.build())
    assert run(driver, ("in", "k", "a", 0), ("in", "k", "b", 1)) == [("k", "a+a", 0), ("k", "b+b", 1)]


def test_a_path_that_stands_before_the_table_does_not_see_the_update() -> None:
    builder = arrow_builder("diamond")
    stream = builder.stream("in", key="string", value="string")
    early = stream.filter(lambda value: pc.is_valid(value))
    table = stream.to_table()
    early.left_join(table, plus).to("out")
    driver = EngineDriver(builder.build())
    assert run(driver, ("in", "k", "a", 0), ("in", "k", "b", 1)) == [("k", "a+null", 0), ("k", "b+a", 1)]


def test_flat_mapped_records_are_processed_one_after_the_other() -> None:
    def items(value: pa.Array) -> pa.Array:
        return pc.split_pattern(value, ",")

    builder = arrow_builder("flat")
    stream = builder.stream("in", key="string", value="string").flat_map_values(items)
    table = stream.to_table()
    stream.left_join(table, plus).to("out")
    driver = EngineDriver(builder.build())
    got = run(driver, ("in", "k", "a,b", 0), ("in", "k", "c", 1))
    assert got == [("k", "a+a", 0), ("k", "b+b", 0), ("k", "c+c", 1)]


def test_branches_merge_again_in_depth_first_order() -> None:
    builder = arrow_builder("branches")
    stream = builder.stream("in", key="string", value="string")
    upper = stream.map_values(pc.utf8_upper)
    both = upper.merge(stream)
    both.to("out")
    driver = EngineDriver(builder.build())
    got = run(driver, ("in", "k", "a", 0), ("in", "j", "b", 0))
    assert got == [("k", "A", 0), ("k", "a", 0), ("j", "B", 0), ("j", "b", 0)]


def test_results_are_the_same_records_in_any_number_of_shards() -> None:
    def outputs(shards: int) -> list[Result]:
        driver = joined("outer_join", shards=shards)
        for number in range(200):
            side = ("left", "right")[number % 2]
            driver.pipe(side, f"k{number % 7}", None if number % 5 == 0 else f"v{number}", ts=number % 11)
        driver.run_batch()
        return driver.read("out")

    assert outputs(1) == outputs(3) == outputs(16)
