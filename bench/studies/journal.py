"""Bytes and cost of the journal of `explain=`, and how long an answer takes.

`python bench/studies/journal.py 200000` runs a query over so many records, with and without the journal in turns, and
asks for one row of it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm

TURNS = 3
KEYS_SHARE = 8
"""Records of each key, on average."""


def topology(spark: Any, folder: Path) -> wm.Topology:
    """The sum of the amounts of each customer."""
    read = spark.readStream.schema("id long, customer string, amount long, ts long").parquet(str(folder / "in"))
    builder = wm.StreamsBuilder("journal")
    orders = builder.stream(read, name="orders", key="id", timestamp="ts")
    by_customer = orders.group_by(lambda key, value: value["customer"])
    nothing = wm.ForeachBatch(lambda frame, batch: frame.count())
    by_customer.agg(total=wm.sum(lambda value: value["amount"]), store="totals").to(nothing, name="out")
    return builder.build()


def written(folder: Path, count: int) -> None:
    """The input, as one file."""
    dice = np.random.default_rng(7)
    customers = dice.integers(0, max(1, count // KEYS_SHARE), count)
    columns = {
        "id": np.arange(count),
        "customer": pa.array([f"customer-{number:07d}" for number in customers.tolist()]),  # a text for each
        "amount": dice.integers(1, 10_000, count),
        "ts": np.arange(count),
    }
    (folder / "in").mkdir()
    pq.write_table(pa.table(columns), folder / "in" / "orders.parquet")


def main(count: int) -> None:
    """Run and print."""
    spark = wm.session("journal", master="local[2]")
    folder = Path(tempfile.mkdtemp())
    written(folder, count)
    made, seconds = topology(spark, folder), {False: list[float](), True: list[float]()}
    for turn in range(TURNS + 1):
        for explain in (False, True):
            checkpoint = folder / f"checkpoint-{explain}"
            shutil.rmtree(checkpoint, ignore_errors=True)
            start = time.perf_counter()
            query = made.start(spark, checkpoint=checkpoint, shards=2, tasks=2, available_now=True, explain=explain)
            query.awaitTermination()
            query.stop()
            # the first turn warms up
            seconds[explain] += [time.perf_counter() - start] if turn else []
    journal = folder / "checkpoint-True" / "journal"
    size = sum(file.stat().st_size for file in journal.rglob("*") if file.is_file())
    read = (folder / "in" / "orders.parquet").stat().st_size
    print(f"{count:,} records: journal {size:,} bytes, {size / count:.1f} a record; the Parquet file {read:,}")
    print("seconds without:", *(f"{each:.2f}" for each in seconds[False]))
    print("seconds with:   ", *(f"{each:.2f}" for each in seconds[True]))
    start = time.perf_counter()
    found = made.why(spark, checkpoint=folder / "checkpoint-True", table="totals", key="customer-0000001")
    print(f"why: {len(found.causes)} causes, {time.perf_counter() - start:.1f} s")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
