"""Distinct streams: which records pass, whatever the batches and shards; what is counted, kept and let go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.plans.test_changes import Build, change, outcomes
from watersmeet._engine.operator import operator_table
from watersmeet._engine.rows import reachable
from watersmeet._engine.state.runs import State
from watersmeet.errors import TopologyError
from watersmeet.processors import ValueStore

Row = tuple[str | None, str | None, int]


def results(build: Callable[[Any], Any], rows: Sequence[Row], cuts: Sequence[int], shards: int) -> EngineDriver:
    """What a topology of one stream has made of rows, with the batches cut there."""
    builder = arrow_builder("distinct")
    build(builder.stream("in", key="string", value="string")).to("out")
    driver = EngineDriver(builder.build(), shards=shards)
    for begin, end in pairwise(sorted({0, len(rows), *cuts})):
        for key, value, ts in rows[begin:end]:
            driver.pipe("in", key, value, ts=ts)
        driver.run_batch()
    return driver


def passed(driver: EngineDriver) -> list[tuple[Any, Any, int]]:
    return [(result.key, result.value, result.ts) for result in driver.read("out")]


class Dedup:
    """The same as a processor of the user's."""

    def init(self, context: Any) -> None:
        self.seen = context.get_store("seen")

    def process(self, record: Any, context: Any) -> None:
        if self.seen.get() is None:
            self.seen.put(record.value)
            context.forward(record)


def rows_of(seed: int, count: int) -> list[Row]:
    dice = np.random.default_rng(seed)
    now = np.cumsum(dice.integers(0, 4, count)) - dice.integers(0, 30, count) * (dice.random(count) < 0.3)
    return [(f"k{dice.integers(0, 9)}", str(n), int(max(0, ts))) for n, ts in enumerate(now)]


@pytest.mark.parametrize("cuts", [(), range(1, 400, 7), range(1, 400)], ids=["one", "some", "each"])
def test_what_passes_is_what_a_processor_with_a_value_that_lasts_for_as_long_would_send(cuts: Sequence[int]) -> None:
    rows = rows_of(1, 400)
    own = results(lambda stream: stream.distinct(within="12 ms"), rows, cuts, 3)
    store = ValueStore("seen", "string", ttl="12 ms")
    asked = results(lambda stream: stream.process_values(Dedup, value="string", stores=[store]), rows, (), 1)
    found = passed(own)
    assert 40 < len(found) < 300
    assert found == passed(asked)


def test_duplicates_are_counted_and_all_records_are_results_or_counted() -> None:
    rows = rows_of(2, 200)
    driver = results(lambda stream: stream.distinct(within="5 ms", name="once"), rows, range(0, 200, 30), 2)
    assert driver.drops == {("once", "duplicate"): 200 - len(passed(driver))}


def test_a_record_keeps_the_key_and_value_that_it_has_where_a_function_tells_them_apart() -> None:
    def tell(value: pa.Array) -> pa.Array:
        return pa.array([None if each is None else each[0] for each in value.to_pylist()], type=pa.string())

    rows: list[Row] = [
        ("k", "a1", 0),
        ("l", "a2", 1),
        (None, "b1", 2),
        (None, None, 3),
        (None, None, 4),
        ("k", "a3", 9),
    ]
    expected = [("k", "a1", 0), (None, "b1", 2), (None, None, 3), (None, None, 4)]
    for shards, cuts in ((1, ()), (3, range(1, 6))):
        assert passed(results(lambda stream: stream.distinct(tell), rows, cuts, shards)) == expected


def test_a_key_with_many_records_that_pass_in_one_batch_gives_what_single_batches_give() -> None:
    rows: list[Row] = [("hot", str(n), n) for n in range(500)]
    build = lambda stream: stream.distinct(within="2 ms")  # noqa: E731
    whole, single = passed(results(build, rows, (), 1)), passed(results(build, rows, range(1, 500), 1))
    assert whole == single == [("hot", str(n), n) for n in range(0, 500, 2)]


def test_what_is_known_of_a_key_is_let_go_when_its_time_has_passed() -> None:
    def kept(within: str | None) -> int:
        rows: list[Row] = [(f"k{n}", "v", n) for n in range(300)]
        driver = results(lambda stream: stream.distinct(within=within), rows, range(1, 300), 1)
        context = next(iter(driver.layout.settings.values()))
        states = (State(store, None) for store in driver.stores.values())
        return sum(len(rows) for state in states for rows in operator_table(context, state).scan())

    assert kept(None) == 300
    assert kept("10 ms") < 60


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 1000])
def test_what_is_reached_is_found_by_doubling_jumps(length: int) -> None:
    dice = np.random.default_rng(length)
    onwards = np.minimum(np.arange(length) + dice.integers(1, 5, length), length)
    starts, expected = np.array([0, length // 2, length]), set()
    for start in starts.tolist():
        while start < length:
            expected.add(start)
            start = int(onwards[start])
    assert np.flatnonzero(reachable(starts, onwards)).tolist() == sorted(expected)


@pytest.mark.parametrize(("within", "said"), [("0 ms", "within='0 ms'"), ("-1 ms", "within='-1 ms'"), (5, "duration")])
def test_a_time_that_is_none_is_refused_with_the_value_and_a_hint(within: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said) as caught:
        arrow_builder("distinct").stream("in", key="string", value="string").distinct(within=within)
    assert "Hint:" in str(caught.value)


# -- a changed topology ------------------------------------------------------------------------------------------


def distinct(within: str | None, name: str = "once") -> Build:
    def build(builder: Any) -> None:
        builder.stream("in", key="string", value="string").distinct(within=within, name=name).to("out")

    return build


def test_keys_stay_known_when_the_time_is_changed_but_not_between_a_time_and_for_ever() -> None:
    longer = change(distinct("10 ms"), distinct("1 hour"))
    assert longer.possible
    assert [(each.table, each.from_table) for each in longer.continued] == [("once.seen", "once.seen")]
    ever = change(distinct("10 ms"), distinct(None))
    assert not ever.possible
    assert outcomes(ever, "node") == {"once": "refused"}
