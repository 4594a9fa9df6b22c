"""How often tasks take over each other's transactional ids when a batch is written exactly once by many tasks.

`python bench/studies/large_inputs/takeovers.py [--tasks 100] [--batches 20] [--records 40000]`. A table is read from
one topic and written to another, with so many shards and tasks and so many records of 200 bytes a batch, which is more
than the tasks hand back to the driver. Printed for each batch that is seen: its seconds, those of its longest
transaction, and its takeovers."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.jars import spark_jars

SETTINGS = {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}


def produce(servers: str, batch: int, records: int) -> None:
    """One batch of records, each with a key of its own."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "queue.buffering.max.messages": 2 * records,
        }
    )
    keys = [b"key %d" % number for number in range(records)]
    values = [b"%0200d" % (batch + number) for number in range(records)]
    deque(map(producer.produce, ["in"] * records, values, keys), maxlen=0)
    producer.flush()


def run(servers: str, given: argparse.Namespace, folder: Path) -> None:
    """A batch after the other, each when the one before it is written."""
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(given.tasks)}
    spark = wm.session("takeovers", master="local[2]", jars=spark_jars(), config=settings)
    spark.sparkContext.setLogLevel("ERROR")
    builder = wm.StreamsBuilder("takeovers")
    builder.table("in", key="string", value="string").to("out", delivery="exactly_once")
    many = {"shards": given.tasks, "tasks": given.tasks}
    options: dict[str, Any] = {
        "checkpoint": str(folder / "cp"),
        "local_cache": str(folder / "cache"),
        "kafka": wm.Kafka(servers),
    }
    query = builder.build().start(spark, **options, **many)
    read = 0
    for number in range(given.batches):
        produce(servers, number, given.records)
        begin = time.monotonic()
        while query.metrics().consumed.get("in", 0) < read + given.records:
            time.sleep(0.2)
            if not query.isActive:
                query.awaitTermination()
        read += given.records
        batch = query.metrics().batch
        assert batch is not None
        took = batch.writes.get("transactions", 0.0)
        print(f"batch {batch.number}: {batch.records:,} records, {time.monotonic() - begin:.1f} s, ", end="")
        print(f"longest transaction {took:.2f} s, {batch.takeovers} takeovers", flush=True)
    query.stop()
    spark.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """A broker, and the query beside it."""
    parser = argparse.ArgumentParser(description="Takeovers of transactional ids.")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--records", type=int, default=40_000)
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-takeovers-"))
    with KafkaBroker() as broker:
        broker.create_topics(["in", "out"], 4)
        run(broker.bootstrap_servers, given, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
