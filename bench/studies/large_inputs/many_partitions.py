"""What waits in Kafka at the first start: many partitions with a few records each, or many records.

`python bench/studies/large_inputs/many_partitions.py --partitions 100 1000 10000` has a topic with so many partitions
and `--records` in all (two in each by default), one size after the other; `--records 20000000 --partitions 4` has many
records. The driver's heap is 1 GB. Records are counted by key, into another topic. Printed for each size: how long it
took to make the topic, each batch's records, seconds, CPU-seconds and parts, and the most memory of the driver's JVM,
of its Python and of the workers. When all is read one more record comes into one partition, some times, and then one
into each: what a batch costs that has almost nothing, and one with each partition behind the first. `--cached` is how
many consumers Spark keeps."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm
from bench.measuring import census
from bench.measuring.measure import Sampler, Usage
from dev.broker import KafkaBroker
from dev.jars import spark_jars

KEYS, PIECE, LATER, AT_ONCE = 100_000, 100_000, 3, 4_000
"""Keys of the records, records that are given to the client at once, batches of one record, partitions made at once."""
SETTINGS = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
PARTS = ("latestOffset", "queryPlanning", "getBatch", "addBatch", "walCommit", "commitOffsets")


def make(broker: KafkaBroker, partitions: int) -> None:
    """The topic, made in several steps if it is large: Kafka refuses ten thousand partitions in one."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    broker.create_topics(["in"], min(partitions, AT_ONCE))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(2 * AT_ONCE, partitions + AT_ONCE, AT_ONCE):
        for made in admin.create_partitions([NewPartitions("in", min(number, partitions))]).values():
            made.result(timeout=120)


def produce(servers: str, first: int, records: int, partitions: int) -> None:
    """Records in turn over the partitions, with some hundred thousand keys and values of some bytes."""
    from confluent_kafka import Producer

    given = {"bootstrap.servers": servers, "linger.ms": 50, "log_level": 3, "queue.buffering.max.messages": 2 * PIECE}
    producer = Producer({**given, "enable.idempotence": True, "compression.type": "lz4"})
    for begin in range(first, first + records, PIECE):
        numbers = range(begin, min(begin + PIECE, first + records))
        keys = [b"key %d" % (number * 7919 % KEYS) for number in numbers]
        values = [b"value %d" % number for number in numbers]
        places = [number % partitions for number in numbers]
        deque(map(producer.produce, ["in"] * len(keys), values, keys, places), maxlen=0)
        producer.flush()


class Peaks(threading.Thread):
    """The most memory that each part has had, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}

    def run(self) -> None:
        """Look four times a second."""
        while True:
            for name, number in census.processes().items():
                if name.endswith(": MB") or name.endswith(": threads"):
                    self.most[name] = max(number, self.most.get(name, 0.0))
            time.sleep(0.25)


def part(servers: str, records: int, partitions: int, given: argparse.Namespace) -> None:
    """One start of the query, in a process of its own."""
    kept = {"spark.kafka.consumer.cache.capacity": str(given.cached)}
    spark = wm.session("waiting", master="local[2]", jars=spark_jars(), config={**SETTINGS, **kept})
    spark.sparkContext.setLogLevel("ERROR")
    builder = wm.StreamsBuilder("waiting")
    builder.stream("in", key="string", value="string").group_by_key().count().to_stream().to("out")
    peaks, folder = Peaks(), Path(tempfile.mkdtemp(prefix="watersmeet-waiting-"))
    sampler = Sampler(os.getpid(), parts=True)
    sampler.__enter__()
    peaks.start()
    more: dict[str, Any] = {"max_records_per_batch": given.most} if given.most else {}
    begin = time.monotonic()
    kafka = wm.Kafka(servers, **more)
    query = builder.build().start(
        spark, checkpoint=str(folder / "cp"), local_cache=str(folder / "cache"), kafka=kafka, record_cache=True
    )
    said: list[int] = []
    print(f"  started in {time.monotonic() - begin:.1f} s", flush=True)
    _watch(query, said, peaks, records, sampler.usage)
    print(f"  all read {time.monotonic() - begin:.1f} s behind the start", flush=True)
    largest = sorted(sampler.usage.parts[-1][1].items(), key=lambda each: -each[1])[:8]
    print("  CPU-seconds: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in largest), flush=True)
    for wrote in (*[1] * LATER, *[partitions] * given.rounds):
        produce(servers, records, wrote, partitions)
        records += wrote
        _watch(query, said, peaks, records, sampler.usage)
    held = census.live(spark)
    print(f"  live behind a collection: {held}", flush=True)
    sampler.__exit__()
    query.stop()
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _watch(query: Any, said: list[int], peaks: Peaks, records: int, usage: Usage) -> None:
    """Print each batch, until so many records are read in all."""
    while sum(said) < records:
        time.sleep(0.2)
        if not query.isActive:
            query.awaitTermination()
        for progress in query.recentProgress[len(said) :] if query.recentProgress else ():
            if progress["batchId"] < len(said):
                continue
            said.append(int(progress["numInputRows"]))
            took = progress["durationMs"]
            parts = ", ".join(f"{name} {took[name] / 1000:.2f}" for name in PARTS if name in took)
            most = ", ".join(f"{name} {number:,.0f}" for name, number in sorted(peaks.most.items()))
            begin = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
            whole = took.get("triggerExecution", 0) / 1000
            cpu = usage.cpu_between(begin, begin + whole)
            line = f"  batch {progress['batchId']}: {said[-1]:,} records, {whole:.2f} s, {cpu:.1f} CPU-s"
            print(f"{line} ({parts}); {most}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """A broker for each size, and a process for the query."""
    parser = argparse.ArgumentParser(description="Many partitions, or many records, at the first start.")
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--records", type=int, help="in all; default two for each partition")
    parser.add_argument("--most", type=int, help="max_records_per_batch")
    parser.add_argument("--cached", type=int, default=64, help="consumers that Spark keeps (its own default)")
    parser.add_argument("--rounds", type=int, default=2, help="batches with a record for each partition")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    for partitions in given.partitions:
        records = given.records or 2 * partitions
        if given.here:
            part(given.here, records, partitions, given)
            continue
        with KafkaBroker(heap="1g" if partitions > 1_000 else "512m") as broker:
            begin = time.monotonic()
            make(broker, partitions)
            broker.create_topics(["out"], 2)
            made = time.monotonic()
            produce(broker.bootstrap_servers, 0, records, partitions)
            wrote = time.monotonic() - made
            print(
                f"{partitions:,} partitions made in {made - begin:.1f} s, {records:,} records written in {wrote:.1f} s"
            )
            command = [sys.executable, __file__, "--here", broker.bootstrap_servers, "--partitions", str(partitions)]
            command += ["--records", str(records), "--cached", str(given.cached), "--rounds", str(given.rounds)]
            command += ["--most", str(given.most)] if given.most else []
            subprocess.run(command, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
