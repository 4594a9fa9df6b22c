"""What reading topics costs Kafka's client and the broker, by the settings of the client, by turns.

`python bench/studies/inputs/polls.py [turns]`: each turn reads the records of `orders` from a broker once with every
setting, in one session of Spark's, two tasks at a time, and throws them away. CPU-seconds are those of the whole
process, so a turn holds a little planning too; the first turn, in which the JVM compiles, does not count."""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession

import watersmeet as wm
from bench.kafka.contenders import placed
from bench.measuring.measure import cpu_seconds
from bench.reports.report import section_text, spread
from bench.reports.results import Section, Table
from bench.turn import session
from bench.workloads.every import EVERY
from dev.broker import KafkaBroker
from watersmeet._spark.sources.topics import reader_options

WORKLOAD = "orders"
POLL, BUFFER, FETCH = "kafka.max.poll.records", "kafka.receive.buffer.bytes", "kafka.max.partition.fetch.bytes"
CLIENTS = {POLL: "500", BUFFER: "65536"}
"""What Kafka's client would do."""
TRIED: dict[str, dict[str, str]] = {
    "the client's own": CLIENTS,
    "5,000 records a poll": {BUFFER: CLIENTS[BUFFER]},
    "and the system's buffer: watersmeet": {},
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
        assert place.shared is not None
        assert spark.sparkContext._jvm is not None
        own = reader_options(wm.Kafka(place.servers), place.shared.topics, headers=False)
        watched = (spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), broker.pid)
        for turn in range(turns + 1):
            for name, settings in TRIED.items():
                cost = cost_of(spark, own | settings, watched)
                if turn:
                    found[name].append(cost)
        spark.stop()
    heads = [f"{place.data.records:,} records", "JVM, CPU-seconds", "broker", "seconds"]
    rows = [[name, *(spread(each, ".2f") for each in zip(*costs, strict=True))] for name, costs in found.items()]
    print(section_text(Section("polls", "Reading topics, by the settings of the client", tables=[Table(heads, rows)])))


def cost_of(spark: SparkSession, options: dict[str, str], watched: tuple[int, int]) -> Cost:
    """What it takes to read all topics with these options; the processes are the JVM's and the broker's."""
    before, begin = [cpu_seconds(pid) for pid in watched], time.monotonic()
    # partitions are read in a task each, two at a time; a streaming query puts them together
    rows = spark.read.format("kafka").options(**options).option("startingOffsets", "earliest").load()
    rows.select("key", "value", "timestamp").write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - begin
    used = [cpu_seconds(pid) - was for pid, was in zip(watched, before, strict=True)]
    return used[0], used[1], seconds


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5)
