"""Many shards: what crosses the exchanges, and what is kept, grows no faster than the shards or the partitions do.

Every partition of a topic is packed by a task of its own, as on Spark. The topology has what is told to every shard:
times and reaches of windowed joins, and a global table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineBatch, EngineDriver
from tests.engine.kit import PLUS
from watersmeet.windows import JoinWindows

SHARDS = (4, 20, 50, 200)
PARTITIONS = 4
RECORDS = 240
WINDOWS = JoinWindows.of_time_difference_and_grace("1 second", "1 second")


@dataclass(frozen=True)
class Sent:
    """What one batch sent to the levels, and what the state of all shards takes behind it."""

    routed_batches: int
    bytes: int
    kept: int
    results: Sequence[Any]


class TaskBatch(EngineBatch):
    """A batch of which each partition is packed apart, and whose routed batches are counted where they arrive."""

    def run_sources(self, piped: list[Any]) -> None:
        for part in sorted({(each.source, each.partition) for each in piped}):
            super().run_sources([each for each in piped if (each.source, each.partition) == part])

    def run_level(self, level: int) -> None:
        arrived = Counter(dict.fromkeys((operator.id for operator in self._layout.levels.get(level, ())), 0))
        for (target, _), mail in self._mail.items():
            if target in arrived:
                self._driver.routed_batches += len(mail)
                self._driver.sent += sum(len(content) for _, content in mail)
        super().run_level(level)


class TaskDriver(EngineDriver):
    routed_batches = 0
    sent = 0

    def new_batch(self) -> EngineBatch:
        return TaskBatch(self)


def driver_of(shards: int) -> TaskDriver:
    builder = arrow_builder("many")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    countries = builder.global_table("countries", key="string", value="string")
    customers = builder.table("customers", key="string", value="string")
    joined = left.left_join(right, PLUS, WINDOWS)
    rekeyed = joined.select_key(lambda key, value: pc.utf8_slice_codeunits(key, 1, 4))
    rekeyed.join(customers, PLUS).join(countries, PLUS, key=lambda key, value: key).to("out")
    return TaskDriver(builder.build(), shards=shards, partitioned=True)


def third_batch(shards: int, partitions: int = PARTITIONS) -> Sent:
    """The third of three batches of the same records, later each time."""
    driver = driver_of(shards)
    for number in range(20):
        for table in ("customers", "countries"):
            driver.pipe(table, str(number % 10), f"{table}{number}", ts=number, partition=number % partitions)
    for batch in range(3):
        driver.routed_batches = driver.sent = 0
        for number in range(RECORDS):
            side = ("left", "right")[number // partitions % 2]
            ts = 10_000 * (batch + 1) + number
            driver.pipe(side, f"k{number % 10}", f"v{number}", ts=ts, partition=number % partitions)
        driver.run_batch()
        results = [(r.key, r.value, r.ts) for r in driver.read("out")]
    kept = [store.manifest or b"" for store in driver.stores.values()]
    chunks = [content for store in driver.stores.values() for content in store.chunks.values()]
    return Sent(driver.routed_batches, driver.sent, sum(map(len, [*kept, *chunks])), results)


@pytest.fixture(scope="module")
def by_shards() -> dict[int, Sent]:
    return {shards: third_batch(shards) for shards in SHARDS}


@pytest.mark.parametrize("what", ["routed_batches", "bytes", "kept"])
def test_nothing_grows_faster_than_the_shards(by_shards: dict[int, Sent], what: str) -> None:
    for few, many in pairwise(SHARDS):
        growth = getattr(by_shards[many], what) / getattr(by_shards[few], what)
        assert growth <= many / few, f"{what} from {few} to {many} shards"


def test_a_shard_is_told_something_even_where_it_has_no_record(by_shards: dict[int, Sent]) -> None:
    # without it the tests above would show nothing: few records reach few shards however many there are
    assert by_shards[200].routed_batches > 200 * PARTITIONS


def test_results_do_not_depend_on_the_shards(by_shards: dict[int, Sent]) -> None:
    assert len(by_shards[4].results) > RECORDS / 4
    assert all(sent.results == by_shards[4].results for sent in by_shards.values())


@pytest.mark.parametrize("what", ["routed_batches", "bytes"])
def test_with_as_many_shards_nothing_grows_faster_than_the_partitions(what: str) -> None:
    few, many = (getattr(third_batch(20, partitions), what) for partitions in (2, 20))
    assert many / few <= 10
