"""One turn of a workload that runs on Spark: a process of its own, its result one line of JSON.

`python bench/turn.py CONTENDER DATA WORK`, called by `turns`. Sessions of all contenders have the
same settings: two cores, RocksDB with changelogs, two tasks per exchange.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession

import watersmeet
from bench.measuring.measure import batches_of, folder_bytes
from bench.workloads import joins, nested
from bench.workloads.every import EVERY, MANY_SHARDS, SHARDS
from dev.jars import spark_jars
from watersmeet._spark.session import AT_START

STARTS = {
    "watersmeet": joins.start_watersmeet,
    "windows": joins.start_windows,
    "per key": joins.start_per_key,
    **{f"kafka {workload}": joins.start_on_kafka(workload) for workload in EVERY},
    **{f"kafka {workload} cached": joins.start_on_kafka(workload, record_cache=True) for workload in EVERY},
    **{f"kafka {name} spark": joins.start_in_spark(name) for name, each in EVERY.items() if each.in_spark},
    "kafka table_table at_least_once": joins.start_on_kafka("table_table", "at_least_once"),
    **{f"shards {shards}": joins.start_shards(shards) for shards in (*SHARDS, *MANY_SHARDS)},
    "nested": nested.start,
    "trickle spark": joins.start_trickle_in_spark,
    **{f"trickle {levels}": joins.start_trickle(levels) for levels in (1, 2, 3)},
}
STATE = ("rocksdbGetCount", "rocksdbPutCount", "rocksdbTotalBytesRead", "rocksdbTotalBytesWritten")
"""Spark's metrics of a level's state that are reported."""
LOOKED_AT = 50
"""Jobs, from the last on, whose stages and tasks are counted."""


def main(contender: str, data: str, work: str) -> None:
    """Run the contender over the data until all is read."""
    launched = time.time()
    spark = session(kafka=contender.startswith(("kafka", "trickle")))
    started = time.time()
    query = STARTS[contender](spark, Path(data), f"{work}/checkpoint")
    kept: list[tuple[float, int]] = []
    while not query.awaitTermination(0.5):
        kept.append((time.time(), folder_bytes(Path(f"{work}/checkpoint-cache"))))
        # a query that would go on for ever ends when whoever feeds it says so
        if Path(f"{work}/stop").exists():
            query.stop()
    progress = query.recentProgress
    print(
        json.dumps(
            {
                "launched": launched,
                "started": started,
                "batches": [[b.begin, b.end, b.records] for b in batches_of(progress)],
                "kept": kept,
                "durations": [p["durationMs"] for p in progress],
                "work": work_per_batch(spark, str(query.runId), sum(p["numInputRows"] > 0 for p in progress)),
                "state": state_per_batch(progress),
                "state of each": [state_of(p) for p in progress],
            }
        )
    )
    spark.stop()


def work_per_batch(spark: SparkSession, run: str, batches: int) -> dict[str, float]:
    """Jobs, stages and tasks of a query per batch; Spark remembers those of the last ones."""
    tracker = spark.sparkContext.statusTracker()
    numbers = sorted(tracker.getJobIdsForGroup(run))
    jobs = [job for job in map(tracker.getJobInfo, numbers[-LOOKED_AT:]) if job is not None]
    stages = [stage for job in jobs for stage in map(tracker.getStageInfo, job.stageIds) if stage is not None]
    done = [stage.numCompletedTasks for stage in stages if stage.numCompletedTasks]
    per_batch = (numbers[-1] - numbers[0] + 1) / max(1, batches) if numbers else 0.0
    found = {"jobs": 1.0, "stages": len(done) / max(1, len(jobs)), "tasks": sum(done) / max(1, len(jobs))}
    return {name: count * per_batch for name, count in found.items()}


def state_per_batch(progress: Sequence[Any]) -> dict[str, float]:
    """Reads, writes and bytes of all levels' state, per batch of the second half."""
    late = [p for p in progress if p["numInputRows"]]
    late = late[len(late) // 2 :]
    found = dict.fromkeys(STATE, 0.0)
    for each in map(state_of, late):
        for name in STATE:
            found[name] += each[name] / len(late)
    return found


def state_of(progress: Any) -> dict[str, float]:
    """Reads, writes and bytes of all levels' state in one batch."""
    metrics = [each["customMetrics"] for each in progress["stateOperators"]]
    return {name: sum(each.get(name, 0) for each in metrics) for name in STATE}


def session(*, kafka: bool) -> SparkSession:
    """The session of every contender."""
    spark = watersmeet.session(
        "bench",
        master="local[2]",
        jars=spark_jars() if kafka else None,
        config={
            "spark.ui.enabled": "false",
            # Spark's own default
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.driver.extraJavaOptions": os.environ.get("BENCH_JAVA", ""),
            **AT_START,
            # rows that are no blobs: to reckon the size of a batch at every row costs 5 %; a topology has its own limit
            "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
            **dict(pair.split("=", 1) for pair in os.environ.get("BENCH_CONF", "").split(";") if pair),
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
