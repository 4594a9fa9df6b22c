"""Kafka to Kafka: the same topics, data and broker for Kafka Streams and for millpond, turn by turn.

Both write exactly once to topics of their own. How far Kafka Streams has come is read from the offsets that
its group has committed, so that a record counts when its transaction does; millpond's batches count when they
end.
Called by `run`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from datasets import SIDES, Shape, prepared
from measure import Batch, Sampler, rates
from turns import ROOT, Turn, folder_bytes, spark_turn

sys.path.insert(0, str(ROOT))

from dev.broker import KafkaBroker
from dev.jars import classpath

PARTITIONS = 4
CACHE_BYTES = 10 << 20
"""Kafka Streams' own default."""


@dataclass(frozen=True)
class Place:
    """A broker with the data in its topics."""

    broker: KafkaBroker
    shape: Shape
    work: Path

    @property
    def servers(self) -> str:
        """Of the broker."""
        return self.broker.bootstrap_servers

    def output(self, name: str) -> str:
        """A new topic."""
        self.broker.create_topics([name], partitions=PARTITIONS)
        return name


def load(place: Place) -> None:
    """Produce the data set into topics `left` and `right`: longs as 8 bytes, both with one partitioner."""
    data = prepared(place.work, place.shape)
    place.broker.create_topics(list(SIDES), partitions=PARTITIONS)
    settings = {
        "bootstrap.servers": place.servers,
        "linger.ms": 50,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer(settings)
    files = [sorted((data / side).glob("*.parquet")) for side in SIDES]
    # by turns, so that the sides advance together in time
    for pair in zip(*files, strict=True):
        for side, file in zip(SIDES, pair, strict=True):
            rows = pq.read_table(file)
            columns = (rows.column(name).to_pylist() for name in ("key", "value", "ts"))
            for key, value, ts in zip(*columns, strict=True):
                producer.produce(side, value, key.to_bytes(8, "big", signed=True), timestamp=ts)
            producer.flush()


def compiled(work: Path) -> Path:
    """The folder with the Java program's classes."""
    classes = work / "java"
    shutil.rmtree(classes, ignore_errors=True)
    source = ROOT / "bench" / "java" / "StreamsBench.java"
    subprocess.run(["javac", "-cp", classpath("streams"), "-d", str(classes), str(source)], check=True)
    return classes


def streams_turn(place: Place, workload: str, name: str, classes: Path, *, cache: int) -> Turn:
    """A turn of Kafka Streams, from its start until all input is committed.

    Raises
    ------
    RuntimeError : it died; the message ends with what it wrote last.
    """
    state = place.work / "work" / name
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    path = os.pathsep.join([str(classes), classpath("streams")])
    command = ["java", "-Xmx2g", "-cp", path, "StreamsBench", place.servers, workload, *SIDES]
    command += [place.output(f"{name}-out"), name, str(cache), str(state / "state")]
    started = time.time()
    log = state / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors)
        with Sampler(process.pid) as sampler:
            batches = _watched(process, place, name, started)
            size = folder_bytes(state / "state")
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
    if batches is None:
        raise RuntimeError(f"Kafka Streams died in {name}:\n" + log.read_text()[-3000:])
    shutil.rmtree(state, ignore_errors=True)
    shown = "Kafka Streams, cache" if cache else "Kafka Streams"
    return Turn(shown, rates(started, batches), tuple(batches), sampler.usage, size, {})


def _watched(
    process: subprocess.Popen[bytes], place: Place, group: str, started: float
) -> list[Batch] | None:
    """Steps of what the group has committed, until it is everything; None when the process ends first."""
    admin = AdminClient({"bootstrap.servers": place.servers})
    batches: list[Batch] = []
    done, last = 0, started
    while done < place.shape.records:
        time.sleep(0.2)
        if process.poll() is not None:
            return None
        now, read = time.time(), _committed(admin, group)
        if read > done:
            batches.append(Batch(last, now, read - done))
            done, last = read, now
    return batches


def _committed(admin: AdminClient, group: str) -> int:
    """Records that the group has consumed for good: the inputs were written without transactions."""
    try:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = next(iter(asked.values())).result(10).topic_partitions
    except Exception:
        # there is no such group before it has joined
        return 0
    return sum(max(0, each.offset) for each in found)


def millpond_turn(place: Place, workload: str, name: str) -> Turn:
    """A turn of millpond over the same topics."""
    out = place.output(f"{name}-out")
    return spark_turn(f"kafka {workload}", Path(f"{place.servers} {out}"), place.work / "work" / name)
