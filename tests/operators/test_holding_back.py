"""Rows that wait in a table of their own: when they come, in which order, and in which pieces."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.operators.delayed import engine
from tests.operators.delayed.declaration import Delayed
from tests.operators.delayed.handle import delayed
from watersmeet._engine import operators as level
from watersmeet._engine import row_sizes, waiting_rows
from watersmeet._engine.state.runs import State

WAIT = 20
Record = tuple[str, str, int]


@pytest.fixture(scope="module", autouse=True)
def _in_the_table() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(level.OPERATORS, Delayed.stem, engine.run)
        yield


def history(seed: int, count: int = 400) -> list[Record]:
    """Records of keys that share their first eight bytes, many of one moment, in order of time."""
    chance = random.Random(seed)
    times = sorted(chance.randrange(count // 8) * 10 for _ in range(count))
    return [(f"customer-{chance.randrange(40):03}", f"{number}", ts) for number, ts in enumerate(times)]


def expected(records: list[Record], *, last: bool) -> list[str]:
    """Values in the order (due, key, arrival)."""
    kept = {(key, ts) if last else (key, ts, value): (ts, key, int(value)) for key, value, ts in records}
    return [str(value) for _, _, value in sorted(kept.values())]


def driver_of(*, shards: int, last: bool, one_key: bool = True) -> EngineDriver:
    builder = arrow_builder("held")
    stream = delayed(builder.stream("in", key="string", value="string"), WAIT, last=last)
    if one_key:
        stream = stream.select_key(lambda key, value: pa.array(["one"] * len(key), pa.string()))
    stream.to_table().to_stream().to("out")
    return EngineDriver(builder.build(), shards=shards)


def run(driver: EngineDriver, records: list[Record], cuts: set[int]) -> list[str]:
    """All results; a record far ahead lets go what waits."""
    for begin, end in pairwise(sorted({0, len(records), *cuts})):
        for key, value, ts in records[begin:end]:
            driver.pipe("in", key, value, ts=ts)
        driver.run_batch()
    driver.pipe("in", "z", "last", ts=10**6)
    driver.run_batch()
    return [result.value for result in driver.read("out")]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_held_rows_come_in_the_order_of_time_key_and_arrival_whatever_the_batches_and_shards(
    seed: int, last: bool
) -> None:
    records = history(seed)
    for shards, batches in ((1, 0), (1, 9), (3, 4), (7, 40)):
        cuts = set(random.Random(seed + batches).sample(range(len(records)), batches))
        assert run(driver_of(shards=shards, last=last), records, cuts) == expected(records, last=last)


def test_held_rows_come_the_same_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [(key, value.zfill(200), 10 * (number > 300)) for number, (key, value, _) in enumerate(history(1))]
    monkeypatch.setattr(waiting_rows, "ROWS", 7)
    monkeypatch.setattr(row_sizes, "RESULT_BYTES", 500)
    for cuts in ({100, 200}, set()):
        found = run(driver_of(shards=1, last=False), records, cuts)
        assert [int(value) for value in found] == [int(v) for v in expected(records, last=False)]


def test_what_has_come_leaves_nothing_in_the_state() -> None:
    driver = driver_of(shards=1, last=False)
    run(driver, history(2), set(range(0, 400, 20)))
    tables = [entry for store in driver.stores.values() for entry in State(store).manifest.tables.items()]
    rows = {name: sum(run.rows for run in entry.runs()) for name, entry in tables}
    assert rows["delayed-1.held"] == 1
