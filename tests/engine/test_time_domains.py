"""Partitions with times of their own: nothing of one that lags is late, for one windowed join and for a chain."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from millpond.testing.arrow import arrow_builder
from millpond.testing.engine import EngineDriver
from millpond.windows import JoinWindows
from tests.engine.stream_kit import METHOD, PLUS

HOUR = 3_600_000
FIRST, SECOND = JoinWindows(10, 4, 2), JoinWindows(5, 30, 3)
# Both windows close several times; some records find a partner in the one join, in the other, in both, in none.
RECORDS = [
    ("left", 0),
    ("right", 3),
    ("left", 5),
    ("third", 9),
    ("right", 30),
    ("left", 41),
    ("third", 60),
    ("left", 62),
    ("right", 61),
    ("third", 90),
    ("left", 170),
    ("right", 260),
    ("third", 400),
]
Said = dict[str, list[tuple[str, int]]]


def chain(how: tuple[str, str], *, table: bool = False) -> Any:
    """(left how right), perhaps looked up in a table, how third."""
    builder = arrow_builder("chain")
    left, right, third = (builder.stream(n, key="string", value="string") for n in ("left", "right", "third"))
    first = getattr(left, METHOD[how[0]])(right, PLUS, FIRST)
    if table:
        first = first.left_join(builder.table("table", key="string", value="string"), lambda value, row: value)
    getattr(first, METHOD[how[1]])(third, PLUS, SECOND).to("out")
    return builder


def said(builder: Any, lags: dict[int, int], *, size: int, shards: int = 3) -> Said:
    """Results by key, timestamps less the partition's lead; the partitions take turns in each batch."""
    driver = EngineDriver(builder.build(), shards=shards, partitioned=True)
    results = defaultdict(list)
    for start in range(0, len(RECORDS), size):
        for partition, lead in lags.items():
            for number, (topic, ts) in enumerate(RECORDS[start : start + size], start):
                driver.pipe(topic, f"k{partition}", f"{topic[0]}{number}", ts=ts + lead, partition=partition)
        driver.run_batch()
        for result in driver.read("out"):
            results[result.key].append((result.value, result.ts - lags[int(result.key[1:])]))
    return dict(results)


@pytest.mark.parametrize("size", [1, 4, 13])
@pytest.mark.parametrize("how", [("left", "left"), ("outer", "outer"), ("inner", "outer"), ("outer", "inner")])
@pytest.mark.parametrize("table", [False, True])
def test_nothing_is_late_in_a_chain_where_a_partition_lags_an_hour(
    how: tuple[str, str], size: int, table: bool
) -> None:
    builder = chain(how, table=table)
    both = said(builder, {0: HOUR, 1: 0, 2: HOUR // 2}, size=size)
    alone = said(builder, {1: 0}, size=13, shards=1)["k1"]
    assert len(alone) > 3
    assert {key: both[key] for key in ("k0", "k1", "k2")} == {"k0": alone, "k1": alone, "k2": alone}


@pytest.mark.parametrize("first", ["inner", "left"])
def test_behind_a_new_key_a_chain_has_one_time(first: str) -> None:
    builder = arrow_builder("chain")
    left, right, third = (builder.stream(n, key="string", value="string") for n in ("left", "right", "third"))
    joined = getattr(left, METHOD[first])(right, PLUS, FIRST).select_key(lambda key, value: key)
    joined.left_join(third, PLUS, SECOND).to("out")
    plan = builder.build().physical
    assert [operator.domains for operator in plan.operators] == [True, False]
    # The third stream's partitions are not those of the first join: its time does not move theirs.
    assert [operator.told_by for operator in plan.operators] == [("left", "right"), ("left", "right", "third")]


def test_a_join_is_told_the_time_of_all_sources_that_its_results_meet_further_down() -> None:
    builder = arrow_builder("deep")
    a, b, c, d = (builder.stream(n, key="string", value="string") for n in "abcd")
    one = a.left_join(b, PLUS, FIRST)
    one.left_join(c.left_join(d, PLUS, FIRST), PLUS, SECOND).to("out")
    plan = builder.build().physical
    assert [operator.told_by for operator in plan.operators] == [("a", "b", "c", "d")] * 3
