"""A DataFrame read by one task and by four (`partitioned=True`): seconds of a large batch, by turns, and equal results.

Run by its path: `python bench/studies/inputs/parallel_rows.py [rows] [turns]`. So many orders lie in eight files of
Parquet; the query counts and sums them by customer into files of its own. Each turn is the time from its start to its
end in a session that is warm, on two cores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.turn import session

FILES, CUSTOMERS, TASKS = 8, 1_000, 4


def prepared(spark: SparkSession, rows: int, folder: Path) -> None:
    """The orders, in files."""
    number = F.col("id")
    spark.range(0, rows, 1, FILES).select(
        number.alias("order"),
        (number * 7919 % CUSTOMERS).alias("customer"),
        (number % 97).alias("amount"),
        F.concat(F.lit("an order with some words beside it, number "), number.cast("string")).alias("note"),
        F.timestamp_millis(number).alias("at"),
    ).write.parquet(str(folder))


def run(spark: SparkSession, orders: Path, folder: Path, tasks: int) -> tuple[float, dict[Any, Any]]:
    """Seconds of a run, and the last row of each customer."""
    frame = spark.readStream.schema(spark.read.parquet(str(orders)).schema).parquet(str(orders))
    options: dict[str, Any] = {"order": "order"} | ({"partitioned": True} if tasks > 1 else {})
    builder = wm.StreamsBuilder("parallel")
    read = builder.stream(frame, name="orders", key="customer", timestamp="at", **options)
    totals = read.group_by_key().agg(count=wm.count(), amount=wm.sum(lambda order: order["amount"]))
    totals.to(wm.Writer("parquet", path=str(folder / "out")), name="totals")
    topology, begin = builder.build(), time.perf_counter()
    topology.start(
        spark, checkpoint=folder / "checkpoint", available_now=True, shards=TASKS, tasks=tasks
    ).awaitTermination()
    seconds = time.perf_counter() - begin
    out = spark.read.parquet(str(folder / "out"))
    last = out.groupBy("key").agg(F.max_by("value", "sequence").alias("value"))
    return seconds, {row["key"]: tuple(row["value"]) for row in last.collect()}


def main(rows: int, turns: int) -> None:
    """Print the seconds of each turn, and their ratio."""
    spark = session(kafka=False)
    seconds: dict[int, list[float]] = {1: [], TASKS: []}
    with tempfile.TemporaryDirectory() as name:
        prepared(spark, rows, Path(name) / "orders")
        for turn in range(turns + 1):
            results = {}
            for tasks in seconds:
                folder = Path(name) / f"{turn}-{tasks}"
                spent, results[tasks] = run(spark, Path(name) / "orders", folder, tasks)
                print(f"turn {turn}, {tasks} tasks: {spent:.1f} s", flush=True)
                if turn:  # the first one compiles
                    seconds[tasks].append(spent)
            assert results[1] == results[TASKS], "the results differ"
    one, four = (median(spent) for spent in seconds.values())
    print(f"{rows:,} rows: {one:.1f} s by one task, {four:.1f} s by {TASKS}: {one / four:.2f} times as fast")
    spark.stop()


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*numbers, *[4_000_000, 2][len(numbers) :])
