"""Two drivers on one checkpoint where there is no lock: the second takes over, and nothing is lost or doubled.

The first driver is a process of its own, which stands still in the middle of a batch: one record waits, or the system
has stopped all of its processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.faults.driver_run import STANDSTILL, elsewhere, passed_by, topology
from tests.kafka.topics import committed, new_topic
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
