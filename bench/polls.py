"""What reading topics costs Kafka's client and the broker, by the settings of the client, by turns.

`python bench/polls.py [turns]`: each turn reads the records of `orders` from a broker once with every setting, in one
session of Spark's, two tasks at a time, and throws them away. CPU-seconds are those of the whole process, so a turn
holds a little planning too; the first turn, in which the JVM compiles, does not count.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession

import millpond as mp
from bench.kafka import Place, placed
from bench.measure import cpu_seconds
from bench.turn import session
from bench.workloads import EVERY
from dev.broker import KafkaBroker
from millpond._spark.sources.topics import reader_options

WORKLOAD = "orders"
POLL, BUFFER, FETCH = "kafka.max.poll.records", "kafka.receive.buffer.bytes", "kafka.max.partition.fetch.bytes"
CLIENTS = {POLL: "500", BUFFER: "65536"}
"""What Kafka's client would do."""
TRIED: dict[str, dict[str, str]] = {
    "the client's own": CLIENTS,
    "5,000 records a poll": {BUFFER: CLIENTS[BUFFER]},
    "and the system's buffer: millpond": {},
    "and fetches of 4 MB": {FETCH: str(4 << 20)},
}
Cost = tuple[float, float, float]
"""CPU-seconds of the JVM and of the broker, and seconds."""


def main(turns: int) -> None:
    """Measure, and print a table."""
    found: dict[str, list[Cost]] = {name: [] for name in TRIED}
    with KafkaBroker() as broker:
        place = placed(broker, WORKLOAD, EVERY[WORKLOAD].data(ROOT / ".bench", False), ROOT / ".bench")
        spark = session(kafka=True)
        for turn in range(turns + 1):
            for name, settings in TRIED.items():
                cost = cost_of(spark, place, settings)
                if turn:
                    found[name].append(cost)
        spark.stop()
    records = place.data.records
    print(f"| {records:,} records | JVM, CPU-seconds | broker | seconds |\n|---|---|---|---|")
    for name, costs in found.items():
        middle = [f"{median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for each in zip(*costs, strict=True)]
        print(f"| {name} | {' | '.join(middle)} |")


def cost_of(spark: SparkSession, place: Place, settings: dict[str, str]) -> Cost:
    """What it takes to read all topics with these settings beside millpond's own."""
    assert place.shared is not None
    options = reader_options(mp.Kafka(place.servers), place.shared.topics, headers=False) | settings
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    watched = (jvm.java.lang.ProcessHandle.current().pid(), place.broker.pid)
    before, begin = [cpu_seconds(pid) for pid in watched], time.monotonic()
    # partitions are read in a task each, two at a time; a streaming query puts them together
    rows = spark.read.format("kafka").options(**options).option("startingOffsets", "earliest").load()
    rows.select("key", "value", "timestamp").write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - begin
    used = [cpu_seconds(pid) - was for pid, was in zip(watched, before, strict=True)]
    return used[0], used[1], seconds


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5)
