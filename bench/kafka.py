"""Kafka to Kafka: the same topics, data and broker for Kafka Streams and for millpond, turn by turn.

Both write exactly once to topics of their own, and what they wrote must agree (`outcomes`). How far Kafka Streams
has come is read from the offsets that its group has committed, so that a record counts when its transaction does;
millpond's batches count when they end.
Called by `run`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import profiles
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from datasets import SIDES
from measure import Batch, Sampler, folder_bytes, rates
from outcomes import agreement, outcome_of
from turns import ROOT, Turn, spark_turn
from workloads import WORKLOADS, Data

sys.path.insert(0, str(ROOT))

from dev.broker import KafkaBroker
from dev.jars import classpath

PARTITIONS = 4
BATCHES = 8
"""That millpond reads the data in."""
CACHE_BYTES = 10 << 20
"""Kafka Streams' own default."""
QUIET_SECONDS = 3.0
"""Many of Kafka Streams' commits, which come every 100 ms."""
ONCE, LEAST = "millpond", "millpond, at least once"
MARKERS = 4
"""Most ends of transactions that may lie behind a partition's last record: one of each producer."""


@dataclass(frozen=True)
class Place:
    """A broker with the data in its topics."""

    broker: KafkaBroker
    data: Data
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
    place.broker.create_topics(list(SIDES), partitions=PARTITIONS)
    settings = {
        "bootstrap.servers": place.servers,
        "linger.ms": 50,
        # as Java's clients do: a foreign-key join of Kafka Streams finds right rows only where these put them
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer(settings)
    files = [sorted((place.data.folder / side).glob("*.parquet")) for side in SIDES]
    # by turns, so that the sides advance together in time
    for pair in zip(*files, strict=True):
        for side, file in zip(SIDES, pair, strict=True):
            rows = pq.read_table(file)
            columns = (rows.column(name).to_pylist() for name in ("key", "value", "ts"))
            for key, value, ts in zip(*columns, strict=True):
                _produce(producer, side, value, key.to_bytes(8, "big", signed=True), ts)
            producer.flush()


def _produce(producer: Producer, topic: str, value: str, key: bytes, ts: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, timestamp=ts)
            return
        except BufferError:
            producer.poll(0.1)


def one_turn_each(place: Place, workload: str, number: int, classes: Path, *, profile: bool = False) -> Iterator[Turn]:
    """A turn of each contender, the last one's report saying in what the results of all agree.

    Raises
    ------
    RuntimeError : they do not.
    """
    name = f"{workload}-{number}".replace("_", "-")
    outcomes = {}
    for cache in (0, CACHE_BYTES):
        turn = streams_turn(place, workload, f"{name}-ks-{cache}", classes, cache=cache, profile=profile)
        outcomes[turn.contender] = outcome_of(place.servers, f"{name}-ks-{cache}-out", PARTITIONS)
        yield turn
    turn = replace(millpond_turn(place, workload, f"{name}-mp", profile=profile), contender="millpond")
    outcomes[turn.contender] = outcome_of(place.servers, f"{name}-mp-out", PARTITIONS)
    agreed = agreement(outcomes, WORKLOADS[workload].equal)
    yield replace(turn, report={**turn.report, "agreed": agreed})


def compiled(work: Path) -> Path:
    """The folder with the Java program's classes."""
    classes = work / "java"
    shutil.rmtree(classes, ignore_errors=True)
    source = ROOT / "bench" / "java" / "StreamsBench.java"
    subprocess.run(["javac", "-cp", classpath("streams"), "-d", str(classes), str(source)], check=True)
    return classes


def streams_turn(place: Place, workload: str, name: str, classes: Path, *, cache: int, profile: bool = False) -> Turn:
    """A turn of Kafka Streams, from its start until all input is committed; profiled by its threads alone.

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
        with Sampler(process.pid, parts=profile) as sampler:
            batches = _watched(process, place, name, started)
            size = folder_bytes(state / "state")
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
    if batches is None:
        raise RuntimeError(f"Kafka Streams died in {name}:\n" + log.read_text()[-3000:])
    shutil.rmtree(state, ignore_errors=True)
    shown = "Kafka Streams, cache" if cache else "Kafka Streams"
    rated = rates(started, batches)
    parts = profiles.parts(sampler.usage, rated.half_time, rated.end_time) if profile else {}
    return Turn(shown, rated, tuple(batches), sampler.usage, size, {}, parts)


def _watched(process: subprocess.Popen[bytes], place: Place, group: str, started: float) -> list[Batch] | None:
    """Steps of what the group has committed, until it is everything; None when the process ends first."""
    progress = Progress(place.servers, group)
    batches: list[Batch] = []
    done, last = 0, started
    while done < place.data.records or not progress.settled():
        time.sleep(0.1)
        if process.poll() is not None:
            return None
        now, read = time.time(), progress.consumed()
        if read > done:
            batches.append(Batch(last, now, read - done))
            done, last = read, now
    return [*batches[:-1], replace(batches[-1], end=max(last, progress.moved))]


class Progress:
    """What a group has consumed for good: asked by a consumer that has its name and never joins it.

    Attributes
    ----------
    moved : when what stands between two steps of the topology was last seen to go on; 0 if nothing does.
    """

    def __init__(self, servers: str, group: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
        self._group = group
        self._between = 0
        self.moved = 0.0

    def consumed(self) -> int:
        """Records of the inputs, which were written without transactions."""
        return sum(each.offset for each in self._committed(list(SIDES)))

    def settled(self) -> bool:
        """Whether the topics between two steps are read to their end.

        Behind the last record there may be markers of transactions; so it also takes that nothing moves any more.
        """
        topics = [name for name in self._consumer.list_topics(timeout=10).topics if name.startswith(self._group)]
        own = [name for name in topics if not name.endswith(("-out", "-changelog"))]
        committed = self._committed(own)
        total = sum(each.offset for each in committed)
        if total > self._between:
            self._between, self.moved = total, time.time()
        ends = [self._consumer.get_watermark_offsets(each, timeout=10)[1] for each in committed]
        behind = (end - each.offset for end, each in zip(ends, committed, strict=True))
        return max(behind, default=0) <= MARKERS and time.time() - self.moved > QUIET_SECONDS

    def _committed(self, topics: list[str]) -> list[TopicPartition]:
        asked = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        try:
            found = self._consumer.committed(asked, timeout=10) if asked else []
        except KafkaException:
            # its coordinator is not there yet
            found = asked
        return [TopicPartition(each.topic, each.partition, max(0, each.offset)) for each in found]


def millpond_turn(place: Place, workload: str, name: str, *, profile: bool = False) -> Turn:
    """A turn of millpond over the same topics."""
    out = place.output(f"{name}-out")
    data = Path(f"{place.servers} {out} {place.data.records // BATCHES}")
    return spark_turn(f"kafka {workload}", data, place.work / "work" / name, profile=profile)


def one_turn_of_each_delivery(place: Place, number: int, *, profile: bool = False) -> Iterator[Turn]:
    """The join of two tables, exactly once and at least once; who is first changes from turn to turn.

    Raises
    ------
    RuntimeError : they do not leave the same table.
    """
    outcomes = {}
    for contender in (ONCE, LEAST) if number % 2 == 0 else (LEAST, ONCE):
        name = f"delivery-{number}-{'once' if contender == ONCE else 'least'}"
        workload = "table_table" if contender == ONCE else "table_table at_least_once"
        turn = replace(millpond_turn(place, workload, name, profile=profile), contender=contender)
        outcomes[contender] = outcome_of(place.servers, f"{name}-out", PARTITIONS)
        if len(outcomes) > 1:
            turn = replace(turn, report={**turn.report, "agreed": agreement(outcomes, "table")})
        yield turn
