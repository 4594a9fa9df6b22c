"""Partitions with times of their own: nothing of one that lags is late, for one windowed join and for a chain."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.joins.lagging import FIRST, HOUR, SECOND, chain, said
from tests.engine.stream_kit import METHOD, PLUS
from watersmeet.windows import JoinWindows


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
    assert [operator.time.domains for operator in plan.operators] == [True, False]
    # The third stream's partitions are not those of the first join: its time does not move theirs.
    assert [operator.time.told_by for operator in plan.operators] == [("left", "right"), ("left", "right", "third")]


def test_a_join_is_told_the_time_of_all_sources_that_its_results_meet_further_down() -> None:
    builder = arrow_builder("deep")
    a, b, c, d = (builder.stream(n, key="string", value="string") for n in "abcd")
    one = a.left_join(b, PLUS, FIRST)
    one.left_join(c.left_join(d, PLUS, FIRST), PLUS, SECOND).to("out")
    plan = builder.build().physical
    assert [operator.time.told_by for operator in plan.operators] == [("a", "b", "c", "d")] * 3


def test_a_record_beside_a_join_moves_its_time_only_where_their_results_meet() -> None:
    def results(*, meet: bool) -> list[tuple[str, int, int]]:
        builder = arrow_builder("beside")
        left, right, other = (builder.stream(n, key="string", value="string") for n in ("left", "right", "other"))
        joined = left.left_join(right, PLUS, JoinWindows(10, 10, 0))
        (joined.merge(other).to_table(store="met").to_stream() if meet else joined).to("out")
        other.to("beside")
        driver = EngineDriver(builder.build())
        for topic, ts in (("left", 0), ("other", 500), ("left", 5), ("right", 11)):
            driver.pipe(topic, topic[0], topic, ts=ts)
        driver.run_batch()
        return [(r.value, r.ts, r.step) for r in driver.read("out")]

    assert results(meet=False) == [("left+null", 0, 3)]
    assert results(meet=True) == [("left+null", 0, 1), ("other", 500, 1), ("left+null", 5, 2)]


def test_records_that_are_filtered_out_on_all_their_ways_move_no_time() -> None:
    builder = arrow_builder("filtered")
    left, right = (builder.stream(n, key="string", value="string") for n in ("left", "right"))
    left = left.filter(lambda value: pc.not_equal(value, "out"))
    left.left_join(right, PLUS, JoinWindows(10, 10, 0)).to("out")
    driver = EngineDriver(builder.build())
    for value, ts in (("a", 0), ("out", 500), ("b", 11)):
        driver.pipe("left", value, value, ts=ts)
    driver.run_batch()
    assert [(r.value, r.step) for r in driver.read("out")] == [("a+null", 2)]
