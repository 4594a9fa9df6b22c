"""Results that were held back keep the order of the keys that they were held under, whatever keys they get later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.stream_kit import PLUS
from watersmeet.windows import JoinWindows

WINDOW = JoinWindows(10, 10, 0)
CUSTOMERS = [f"customer-{number:05}" for number in range(1_500)]
Finish = Callable[[Any], None]


def to_one(key: pa.Array, value: pa.Array) -> pa.Array:
    return pa.array(["one"] * len(key), pa.string())


def results(finish: Finish, *, shards: int, cuts: tuple[int, ...] = ()) -> list[tuple[Any, Any, int]]:
    """All customers at one time in an order that is not theirs, then a record that closes their windows."""
    builder = arrow_builder("held")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    finish(left.left_join(right, PLUS, WINDOW))
    driver = EngineDriver(builder.build(), shards=shards)
    shuffled = [CUSTOMERS[number * 7 % len(CUSTOMERS)] for number in range(len(CUSTOMERS))]
    for number, key in enumerate(shuffled):
        driver.pipe("left", key, key, ts=100)
        if number in cuts:
            driver.run_batch()
    driver.pipe("left", "z", "z", ts=1_000)
    driver.run_batch()
    return [(r.key, r.value, r.ts) for r in driver.read("out")]


FINISHES: dict[str, Finish] = {
    "stream": lambda joined: joined.select_key(to_one).to("out"),
    "table": lambda joined: joined.select_key(to_one).to_table().to_stream().to("out"),
    "two tables": lambda joined: (
        joined.select_key(to_one).to_table().to_stream().select_key(lambda k, v: v).to_table().to_stream().to("out")
    ),
    "another key and back": lambda joined: (
        joined.select_key(lambda k, v: pc.utf8_reverse(k)).to_table(store="s").to_stream().select_key(to_one).to("out")
    ),
}


@pytest.mark.parametrize("shards", [1, 2, 5, 200])
@pytest.mark.parametrize("finish", FINISHES.values(), ids=FINISHES)
def test_held_results_of_one_moment_come_in_the_order_of_the_keys_they_had(finish: Finish, shards: int) -> None:
    values = [value for _, value, _ in results(finish, shards=shards, cuts=(400, 700))]
    assert values == [f"{key}+null" for key in CUSTOMERS]


def test_a_key_and_its_continuation_by_zero_bytes_keep_their_order_and_arrivals_theirs() -> None:
    keys = ["a" * 8 + "\0" * more for more in (3, 1, 0, 2, 1)]
    builder = arrow_builder("zeros")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    left.left_join(right, PLUS, WINDOW).select_key(to_one).to_table().to_stream().to("out")
    for shards in (1, 3):
        driver = EngineDriver(builder.build(), shards=shards)
        for number, key in enumerate(keys):
            driver.pipe("left", key, str(number), ts=100)
        driver.pipe("left", "z", "z", ts=1_000)
        driver.run_batch()
        assert [r.value for r in driver.read("out")] == [f"{number}+null" for number in (2, 1, 4, 3, 0)]
