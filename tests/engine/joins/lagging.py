"""What the tests of lagging partitions share: records of each partition, and what a chain of joins says of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.stream_kit import METHOD, PLUS
from watersmeet.windows import JoinWindows

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
