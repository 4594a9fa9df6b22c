"""A trickle, Kafka to Kafka, exactly once: how long a record takes, and what a batch costs whatever is in it.

A few records every tenth of a second go through topologies of one, two and three levels (a stream joined with as
many tables, keyed anew in between). Each carries the time at which it was sent; a `read_committed` reader beside
says when its result can be read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.kafka.inputs import PARTITIONS
from bench.measuring.measure import Sampler
from bench.measuring.turns import ROOT, Turn, of_installed_packages, spark_turn
from bench.reports.results import Table
from dev.broker import KafkaBroker
from dev.jars import classpath

KEYS = 1_000
RATE = 100
"""Records a second that are sent, unless another rate is asked for."""
EVERY_SECONDS = 0.1
"""Between two sends, where there are more than ten records a second."""
SILENCE_SECONDS = 5.0
"""Without a result behind the last record: all have come."""
TIME_CHARACTERS = 17
"""Of a value: when it was sent, seconds since the epoch to the microsecond."""
PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")


@dataclass(frozen=True)
class Trickle:
    """What a trickle through one topology gave: the turn, and (sent, readable) of each record."""

    levels: int
    turn: Turn
    records: Sequence[tuple[float, float]]


def measured(levels: int, seconds: float, work: Path, *, profile: bool = False, root: Path = ROOT) -> Trickle:
    """A trickle of so many seconds through a topology of the checkout `root`; its second half counts.

    Raises
    ------
    RuntimeError : the turn failed.
    """
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        tables = [f"table{number}" for number in range(levels)]
        broker.create_topics(["clicks", "out", *tables], partitions=PARTITIONS)
        feed = Feed(servers, tables, seconds, work / "stop")
        with feed:
            turn = spark_turn(f"trickle {levels}", Path(servers), work, profile=profile, root=root)
    return Trickle(levels, turn, feed.seen)


class Feed:
    """Fills the tables, then sends and reads in threads of its own, until what was sent has been read.

    Parameters
    ----------
    servers, tables : where to.
    seconds : how long to send, from the first result on.
    stop : file that ends the turn.
    rate : records a second; 0: none behind the first result.

    Attributes
    ----------
    seen : (sent, readable) of each record, seconds since the epoch.
    """

    def __init__(self, servers: str, tables: Sequence[str], seconds: float, stop: Path, rate: float = RATE) -> None:
        self.seen: list[tuple[float, float]] = []
        self._servers, self._seconds, self._stop, self._rate = servers, seconds, stop, rate
        # as Java's clients do, so that equal keys of all topics are in partitions of one number
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0, "partitioner": "murmur2_random"}
        )
        for table in tables:
            for key in range(KEYS):
                self._producer.produce(table, f" {table}", key.to_bytes(8, "big"))
        self._producer.flush()
        self._first, self._ended = threading.Event(), threading.Event()
        self._all = 0
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._send, self._read)]

    def __enter__(self) -> Feed:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Wait until everything sent has been read."""
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        count, sent, begin = 0, 0, None
        while not self._ended.wait(EVERY_SECONDS):
            now = time.time()
            if begin is None and self._first.is_set():
                begin = now
            if begin is not None and now > begin + self._seconds:
                break
            # until the first result is there, one record at a time: enough to have a batch
            due = 1 if begin is None else int((now - begin) * self._rate) - sent
            for _ in range(due):
                key = count % KEYS
                self._producer.produce("clicks", f"{time.time():.6f}", key.to_bytes(8, "big"))
                count += 1
            sent += due if begin is not None else 0
            self._producer.poll(0)
        self._producer.flush()
        self._all = count

    def _read(self) -> None:
        settings = {"bootstrap.servers": self._servers, "group.id": "reader", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 5, "enable.auto.commit": False})
        consumer.assign([TopicPartition("out", number, 0) for number in range(PARTITIONS)])
        last = time.time()
        # plain Spark has one result of all records of a key in a batch: then nothing more comes
        while not self._ended.is_set() and (
            not self._all or (len(self.seen) < self._all and time.time() < last + SILENCE_SECONDS)
        ):
            for message in consumer.consume(1_000, 0.01):
                value, last = message.value(), time.time()
                if message.error() is None and value is not None:
                    self.seen.append((float(value[:TIME_CHARACTERS]), last))
                    self._first.set()
        consumer.close()
        # gone already where the turn has failed
        if self._stop.parent.exists():
            self._stop.touch()


# What small traffic costs: the same topology in Kafka Streams, and Spark's own aggregation, which has one level.

STREAMS_LEVELS = "kafka streams"
CONTENDERS = ("watersmeet", STREAMS_LEVELS, "spark")
RATES = (0, 1, 100, 10_000)


@dataclass(frozen=True)
class Cost:
    """What a contender costs at a rate."""

    contender: str
    levels: int
    rate: float  # records a second
    cpu: float  # CPU-seconds a minute, in the second half of the time in which records are sent
    waits: tuple[float, float]  # seconds from sending until readable: median, 99 percent
    first: tuple[float, float]  # seconds and CPU-seconds from the program's start until the first result
    peak: float  # MB of all its processes


def cost(contender: str, levels: int, rate: float, seconds: float, work: Path, classes: Path) -> Cost:
    """A contender at a rate, for so many seconds behind its first result.

    Parameters
    ----------
    classes : of the Java program.

    Raises
    ------
    RuntimeError : it ended before it should.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with KafkaBroker() as broker, (work / "log.txt").open("w") as log:
        servers, tables = broker.bootstrap_servers, [f"table{number}" for number in range(levels)]
        broker.create_topics(["clicks", "out", *tables], partitions=PARTITIONS)
        feed = Feed(servers, tables, seconds, work / "stop", rate)
        command = [sys.executable, str(ROOT / "bench" / "turn.py"), f"trickle {levels}", servers, str(work)]
        if contender == "spark":
            command[2] = "trickle spark"
        if contender == STREAMS_LEVELS:
            path = os.pathsep.join([str(classes), classpath("streams")])
            program = ["java", "-Xmx2g", "-cp", path, "StreamsBench", servers, f"trickle{levels}"]
            command = [*program, ",".join(["clicks", *tables]), "out", "trickle", "0", str(work / "state")]
        begun = time.time()
        environment = of_installed_packages()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
        with feed, Sampler(process.pid) as sampler:
            feed.wait()
            assert process.stdin is not None
            process.stdin.close()
            if process.wait(60):
                raise RuntimeError(f"{contender} died:\n{(work / 'log.txt').read_text()[-3000:]}")
    first = min(readable for _, readable in feed.seen)
    end = max(first + seconds, *(readable for _, readable in feed.seen))
    half = first + (end - first) / 2
    waits = [readable - sent for sent, readable in feed.seen if sent >= half] or [np.nan]
    return Cost(
        contender,
        levels,
        rate,
        60 * sampler.usage.cpu_between(half, end) / (end - half),
        (float(np.percentile(waits, 50)), float(np.percentile(waits, 99))),
        (first - begun, sampler.usage.cpu_between(0, first)),
        sampler.usage.peak_bytes / 1e6,
    )


def cost_table(costs: Sequence[Cost]) -> Table:
    """Each contender's figures at each rate."""
    rows = [
        [
            f"{each.contender}, levels: {each.levels}",
            f"{each.rate:,.0f}",
            f"{each.cpu:.1f}",
            "" if np.isnan(each.waits[0]) else f"{each.waits[0]:.2f}, {each.waits[1]:.2f}",
            f"{each.first[0]:.1f} ({each.first[1]:.1f})",
            f"{each.peak:,.0f}",
        ]
        for each in costs
    ]
    names = ["records/s", "CPU-s a minute", "p50, p99, s", "first result, s (CPU-s)", "peak memory, MB"]
    return Table(["", *names], rows)


def table(trickles: Sequence[Trickle]) -> Table:
    """What each number of levels gave."""
    columns = [_figures(each) for each in trickles]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return Table(["levels", *(str(each.levels) for each in trickles)], rows)


def parts(trickles: Sequence[Trickle]) -> Table:
    """Where the CPU went, and which programs were started, per batch."""
    columns = []
    for each in trickles:
        batches = len(_counted(each.turn))
        found = {name: seconds / batches for name, seconds in each.turn.parts.items()}
        started = {f"started: {name}": n / batches for name, n in each.turn.report["programs"].items()}
        columns.append({**found, **started})
    rows = [[name, *(f"{column.get(name, 0):.3f}" for column in columns)] for name in _by_size(columns)]
    return Table(["per batch, CPU-seconds or times", *(str(each.levels) for each in trickles)], rows)


def _by_size(columns: Sequence[Mapping[str, float]]) -> list[str]:
    names = {name for column in columns for name, value in column.items() if value >= 0.0005}
    return sorted(names, key=lambda name: (name.startswith("started"), -max(c.get(name, 0.0) for c in columns)))


def _counted(turn: Turn) -> list[int]:
    """Numbers of the batches of the second half."""
    begin, end = turn.rates.half_time, turn.rates.end_time + 0.01
    return [n for n, b in enumerate(turn.batches) if b.records and begin <= b.begin and b.end <= end]


def medians(trickle: Trickle) -> tuple[float, float]:
    """Seconds from sending until readable, and of a batch: medians of the second half."""
    waits, durations = _seconds(trickle)
    return median(waits), median(each["triggerExecution"] / 1000 for each in durations)


def _seconds(trickle: Trickle) -> tuple[list[float], list[dict[str, Any]]]:
    """Of the second half: how long each record took, and what Spark says of each batch."""
    turn = trickle.turn
    half, end = turn.rates.half_time, turn.rates.end_time
    waits = [readable - sent for sent, readable in trickle.records if half <= sent <= end]
    return waits, [turn.report["durations"][number] for number in _counted(turn)]


def _figures(trickle: Trickle) -> dict[str, str]:
    turn, counted = trickle.turn, _counted(trickle.turn)
    half, end = turn.rates.half_time, turn.rates.end_time
    waits, durations = _seconds(trickle)
    took = [each["triggerExecution"] / 1000 for each in durations]
    found = {"records, batches": f"{len(waits):,}, {len(counted)}"}
    found |= {"sent until readable, s: p50, p99": _percentiles(waits), "batch, s: p50, p99": _percentiles(took)}
    found |= {f"of it {name}, ms": f"{median(each.get(name, 0) for each in durations):.0f}" for name in PHASES[:-1]}
    found["CPU-seconds per batch"] = f"{turn.usage.cpu_between(half, end) / len(counted):.2f}"
    return found | {f"{name} per batch": f"{count:.1f}" for name, count in turn.report["work"].items()}


def _percentiles(values: Sequence[float]) -> str:
    return ", ".join(f"{np.percentile(values, share):.2f}" for share in (50, 99))
