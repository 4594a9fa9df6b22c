"""What a record costs a processor: a dedup with a map store, over the engine's operator alone, without Spark.

Run by its path, no JVM needed: `python bench/studies/processors.py [records]`. Each history is given in batches; the
numbers are microseconds of CPU a record, all of the operator's: rows in, state read, calls, results, state written.
`calls alone` is the same class over dictionaries, with nothing around it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from proof.arrow import arrow_builder
from proof.layout import layout_of
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import position_columns
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._engine.time import time_moves
from watersmeet._plan.physical import TIME_SIDE
from watersmeet.processors import MapStore

BATCH = 50_000
TURNS = 3


class Dedup:
    """Sends what was not there in the last ten seconds."""

    def init(self, context: Any) -> None:
        """Find the store."""
        self.seen = context.get_store("seen")

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        if self.seen.get(record.value) is None:
            self.seen.put(record.value, True)
            context.forward(record)


class DedupTimer(Dedup):
    """The same by timers in place of a time to live."""

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        if self.seen.get(record.value) is None:
            self.seen.put(record.value, True)
            context.set_timer(record.timestamp + 10_000)
            context.forward(record)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """The id is forgotten; of several of one moment this forgets the first."""
        first = self.seen.all()[:1]
        for value, _ in first:
            self.seen.delete(value)


def batches(keys: int, records: int, repeated: float) -> list[pa.Table]:
    """Records in order of time, a millisecond each; a part of them repeats an earlier id."""
    chance, made, ids = Random(7), [], 0
    for begin in range(0, records, BATCH):
        count = min(BATCH, records - begin)
        names = []
        for _ in range(count):
            ids += chance.random() >= repeated
            names.append(f"id-{ids if chance.random() < 0.5 else max(0, ids - chance.randrange(2_000)):09}")
        key = pa.array([f"customer-{chance.randrange(keys):07}" for _ in range(count)])
        numbers = np.arange(begin, begin + count, dtype=np.int64)
        columns = {"order_ts": numbers, "srcpart": np.zeros(count, dtype=np.int64), "offset": numbers}
        columns |= {"ts": numbers, "hash": hash_keys(key)}
        made.append(pa.table({n: pa.array(c) for n, c in columns.items()} | {"key": key, "value": pa.array(names)}))
    return made


def cost(make: Callable[[], Any], ttl: str | None, given: list[pa.Table]) -> float:
    """Microseconds a record."""
    builder = arrow_builder("dedup")
    stream = builder.stream("in", key="string", value="string")
    stores = [MapStore("seen", "string", pa.bool_(), ttl=ttl)]
    stream.process_values(make, value="string", stores=stores).to("out")
    layout = layout_of(builder.build(), 0, True, False)
    (context,) = layout.settings.values()
    store, spent, count = MemoryChunkStore(), 0.0, 0
    paths = {name: pa.array(np.zeros(BATCH, dtype=np.int64)) for name in position_columns(context.slots)[3:]}
    for rows in given:
        for name, column in paths.items():
            rows = rows.append_column(name, column.slice(0, len(rows)))
        inputs = {0: rows, TIME_SIDE: time_moves(rows)}
        begin = time.process_time()
        for _ in run_operator(context, inputs, State(store, None)):
            pass
        spent += time.process_time() - begin
        count += len(rows)
    return spent / count * 1e6


def alone(given: list[pa.Table]) -> float:
    """The same over a dictionary: what Python itself takes."""
    seen: dict[Any, Any] = {}
    pairs = [
        (k, v) for rows in given for k, v in zip(*(rows.column(n).to_pylist() for n in ("key", "value")), strict=True)
    ]
    sent = []
    begin = time.process_time()
    for key, value in pairs:
        mine = seen.setdefault(key, {})
        if mine.get(value) is None:
            mine[value] = True
            sent.append((key, value))
    return (time.process_time() - begin) / len(pairs) * 1e6


def main(records: int) -> None:
    """Print the table."""
    print(f"{records:,} records, batches of {BATCH:,}; us of CPU a record")
    for keys in (100_000, 1_000, 1):
        given = batches(keys, records, 0.5)
        parts: dict[str, Callable[[], float]] = {
            "dedup": partial(cost, Dedup, None, given),
            "with a ttl": partial(cost, Dedup, "10 seconds", given),
            "calls alone": partial(alone, given),
        }
        if keys > 1:
            parts["with timers"] = partial(cost, DedupTimer, None, given)
        # the machine's speed varies: of a few runs, in turn, the fastest of each
        found = [{name: part() for name, part in parts.items()} for _ in range(TURNS)]
        best = {name: min(turn[name] for turn in found) for name in parts}
        print(f"{keys:>8,} keys: " + ", ".join(f"{name} {value:.2f}" for name, value in best.items()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
