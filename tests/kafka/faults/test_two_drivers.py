"""Two drivers on one checkpoint where there is no lock: the second takes over, and nothing is lost or doubled.

The first driver is a process of its own, which stands still in the middle of a batch: one record waits, or the system
has stopped all of its processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.s3 import S3
from tests.kafka.faults import takeover_run
from tests.kafka.faults.driver_run import STANDSTILL, elsewhere, passed_by, topology
from tests.kafka.faults.takeover_run import BATCH, ENDED
from tests.kafka.topics import committed, new_topic
from tests.spark.checkpoints.killing import SETTINGS
from tests.spark.inputs_and_outputs.test_streaming import put

BATCHES = 4


@contextmanager
def standing_still(folder: Path, servers: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """The first driver, in the middle of its second batch."""
    program = [sys.executable, "-m", "tests.kafka.faults.driver_run", str(folder), servers, topic]
    with (
        (folder / "said").open("wb") as said,
        # with all its processes in a group of their own
        subprocess.Popen(program, stdout=said, stderr=said, start_new_session=True) as first,
    ):
        try:
            while not (folder / "waiting").exists():
                assert first.poll() is None, (folder / "said").read_text()
                time.sleep(0.1)
            yield first
        finally:
            os.killpg(first.pid, signal.SIGKILL)


@pytest.mark.parametrize(("kind", "stopped"), [("kafka", False), ("kafka", True), ("files", False)])
def test_a_second_driver_takes_over_and_each_record_is_there_once(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, kind: str, stopped: bool
) -> None:
    # a mount keeps its name for the whole session
    folder = tmp_path / (f"{kind}-stopped" if stopped else kind)
    topic = new_topic(broker) if kind == "kafka" else ""
    for batch in range(BATCHES):
        start = 10 + 10 * batch  # Kafka's client cannot write the time 0
        last = (0, STANDSTILL, start + 9) if batch == 1 else (0, f"{batch} end", start + 9)
        put(spark, folder / "left", *((n, f"{batch}", start + n) for n in range(8)), last)
    kafka = wm.Kafka(broker.bootstrap_servers) if topic else None
    made = topology(spark, folder, topic, passed_by)
    with standing_still(folder, broker.bootstrap_servers, topic) as first:
        if stopped:
            # all of it: JVM, Python and workers, as where a machine pauses
            os.killpg(first.pid, signal.SIGSTOP)
        checkpoint = elsewhere(spark, folder)
        second = made.start(spark, checkpoint=checkpoint, kafka=kafka, available_now=True, local_cache=None)
        second.awaitTermination()
        (folder / "go").touch()
        if stopped:
            os.killpg(first.pid, signal.SIGCONT)
        first.wait()
    ended = (folder / "ended").read_text()
    if topic:
        # it has been passed by, whatever its tasks were told
        assert "taken this checkpoint over" in ended or ended.startswith("SinkError: Another writer"), ended
    assert ended.startswith(("ConfigError: ", "SinkError: ")), ended
    if topic:
        found = sorted((record.time, (record.value or b"").decode()) for record in committed(broker, topic))
    else:
        rows = spark.read.parquet(str(folder / "out")).collect()
        found = sorted((int(row["timestamp"].timestamp() * 1000), row["value"]) for row in rows)
    assert len(found) == 9 * BATCHES
    assert len({time for time, _ in found}) == 9 * BATCHES
    # what the table had seen is the same for all keys of a batch: state that was written twice would show here
    for batch in range(BATCHES):
        assert len({value for time, value in found if 10 + 10 * batch < time < 18 + 10 * batch}) == 1


class Driver:
    """A driver in a process of its own, which is killed at the end."""

    def __init__(self, folder: Path, broker: KafkaBroker, topics: tuple[str, str], name: str, version: int) -> None:
        self._told = folder / f"{name}.txt"
        program = [sys.executable, "-m", takeover_run.__name__, str(folder), broker.bootstrap_servers, *topics]
        with (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*program, str(version), str(self._told)], stdout=log, stderr=log, start_new_session=True
            )

    def lines(self, kind: str) -> list[str]:
        """What it has told of batches, or of its end."""
        told = self._told.read_text().splitlines() if self._told.exists() else []
        return [line for line in told if line.startswith(kind)]

    def wait(self, kind: str, count: int = 1) -> None:
        """Wait until it has told so much."""
        wait_until(lambda: len(self.lines(kind)) >= count or self._process.poll() is not None)

    def kill(self) -> None:
        """End all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


class Records:
    """Records of a topic, which drivers count by key."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker, self.fed = broker, 0
        self.topics = new_topic(broker, "records"), new_topic(broker, "counts")

    def feed(self, count: int) -> None:
        """Write so many more."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers, "enable.idempotence": True})
        for n in range(self.fed, self.fed + count):
            producer.produce(self.topics[0], key=f"k{n % 7}", value=str(n))
        producer.flush()
        self.fed += count

    def counts(self) -> list[int]:
        """What the drivers have written, in order of size."""
        return sorted(int.from_bytes(record.value or b"", "big") for record in committed(self._broker, self.topics[1]))

    def expected(self) -> list[int]:
        """Each count of each key once."""
        keys = Counter(n % 7 for n in range(self.fed))
        return sorted(n for count in keys.values() for n in range(1, count + 1))


@pytest.mark.parametrize("changed", [False, True], ids=["same", "changed"])
@pytest.mark.parametrize("place", ["mount", "s3"])
def test_of_two_drivers_exactly_the_later_one_survives_a_takeover(
    broker: KafkaBroker, tmp_path: Path, place: str, changed: bool
) -> None:
    # a mount keeps its name for the whole session
    folder = tmp_path / f"{place}-{int(changed)}"
    folder.mkdir()
    records, drivers = Records(broker), list[Driver]()
    with ExitStack() as ends:
        if place == "s3":
            s3 = ends.enter_context(S3())
            (folder / SETTINGS).write_text(json.dumps({"settings": s3.settings, "jars": s3.jars}))
        records.feed(60)
        for number in range(3):
            drivers.append(Driver(folder, broker, records.topics, str(number), number * changed))
            ends.callback(drivers[-1].kill)
            # the first is idle when the next one starts, the second has batches meanwhile
            while number == 2 and not drivers[-1].lines(BATCH):
                records.feed(10)
                time.sleep(3)
            drivers[-1].wait(BATCH, 1 if number else 3)
            for _ in range(2):
                records.feed(40)
                wait_until(lambda: len(records.counts()) >= records.fed)
            assert [bool(driver.lines(ENDED)) for driver in drivers] == [True] * number + [False]
        assert records.counts() == records.expected()
