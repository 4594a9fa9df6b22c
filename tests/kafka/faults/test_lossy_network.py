"""Behind a network that loses answers each record is in once, the batch goes on, and nothing is left behind.

The client's bounds are short here, so that one fault outlasts them; which faults come is drawn from a seed.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.faults.lossy import LossyNetwork, free_port
from tests.kafka.topics import committed, new_topic
from watersmeet._engine import row_sizes
from watersmeet._worker.kafka_client import Faults, RetriedTransaction, TransactionalSender, client_settings
from watersmeet._worker.writers.kafka import DriverCommit, send
from watersmeet.errors import ConfigError, SinkError

RECORDS = 20
SHORT = {
    "request.timeout.ms": 3_000,
    "socket.timeout.ms": 3_000,
    "transaction.timeout.ms": 8_000,
    "message.timeout.ms": 6_000,
    "reconnect.backoff.max.ms": 500,
}


@dataclass(frozen=True)
class Behind:
    """A broker behind a lossy network."""

    broker: KafkaBroker
    network: LossyNetwork
    port: int

    @property
    def kafka(self) -> wm.Kafka:
        return wm.Kafka(f"127.0.0.1:{self.port}", producer=SHORT, retry_timeout="2 minutes")


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    port = free_port()
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}", "transaction.max.timeout.ms": "900000"}
    with KafkaBroker(settings=settings, heap="256m") as broker, LossyNetwork(port) as network:
        network.real = int(broker.bootstrap_servers.split(":")[1])
        yield Behind(broker, network, port)


def records(batch: int, part: int) -> pa.Table:
    numbers = range(part * RECORDS, (part + 1) * RECORDS)
    values = [f"{batch}:{n}".encode() for n in numbers]
    keys = [b"k%d" % (n % 5) for n in numbers]
    return pa.table(
        {"topic": pa.array([0] * RECORDS, pa.int32()), "key": keys, "value": values, "ts": [1000] * RECORDS}
    )


def write_as_a_task(sender: TransactionalSender, topic: str, batch: int) -> None:
    calls = (lambda: sender.begin(batch), partial(send, sender, (topic,)), lambda: sender.commit(batch))
    out = RetriedTransaction(sender, *calls, is_once=True)
    if out.begin():
        for part in range(2):
            out.send(records(batch, part))
        out.commit()


def write_as_the_driver(driver: DriverCommit, batch: int) -> None:
    driver.begins(batch)
    driver.write(batch, {part: row_sizes.encode(records(batch, part)) for part in range(2)}, None)


def left() -> tuple[int, int]:
    """Calls that are under way, and threads of clients."""
    names = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
    threads = sum(name.exists() and name.read_text().startswith("rdk:") for name in names)
    return sum(thread.name.startswith("watersmeet: a call") for thread in threading.enumerate()), threads


def check_once(behind: Behind, seed: int, batches: int) -> None:
    """Write so many batches, each by a task and by the driver, while faults come; judge the topic and what is left."""
    chance, topic = random.Random(seed), new_topic(behind.broker)
    settings = client_settings(behind.kafka)
    sender, driver = TransactionalSender(settings, f"{topic}-0", topic), DriverCommit(settings, topic, [topic], -1)
    kinds: Counter[str] = Counter()
    # an earlier test of this process may have left a call to a broker that never answers
    earlier, before = left()
    for batch in range(batches):
        done = threading.Event()

        def faults(done: threading.Event = done) -> None:
            kinds[behind.network.fault(chance)] += 1
            done.set()

        threading.Thread(target=faults, daemon=True).start()
        if batch % 2:
            write_as_the_driver(driver, batch)
        else:
            write_as_a_task(sender, topic, batch)
        done.wait()
    sender.abandon()
    driver.close()
    found = Counter(each.value for each in committed(behind.broker, topic))
    wanted = Counter(f"{batch}:{n}".encode() for batch in range(batches) for n in range(2 * RECORDS))
    assert found == wanted, f"seed {seed}, {dict(kinds)}"
    del sender, driver
    # calls that a lost answer has left behind come back when their connections are closed for their rest
    for _ in range(300):
        gc.collect()
        calls, threads = left()
        if calls <= earlier and threads <= before:
            return
        time.sleep(0.1)
    raise AssertionError(f"{calls - earlier} calls and {threads - before} threads of clients are left")


def test_records_are_in_once_and_no_client_is_left_where_answers_are_lost(behind: Behind) -> None:
    check_once(behind, 7, 6)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(4))
def test_records_are_in_once_behind_many_lost_answers(behind: Behind, seed: int) -> None:
    check_once(behind, seed, 40)


def test_a_fault_that_lasts_ends_the_batch_at_the_limit_and_says_how_to_raise_it() -> None:
    kafka = wm.Kafka(f"127.0.0.1:{free_port()}", producer={"request.timeout.ms": 200}, retry_timeout="1 second")
    driver = DriverCommit(client_settings(kafka), "id", ["t"], 5)
    with pytest.raises(SinkError, match=r"(?s)does not .*tried again for \d+ s.*retry_timeout=") as raised:
        driver.begins(0)
    assert raised.value.hint is not None
    driver.close()


def test_what_does_not_pass_by_itself_is_not_tried_again() -> None:
    error = SinkError("A record is larger than Kafka takes.")
    with pytest.raises(SinkError) as raised:
        Faults(1_000).again(error)
    assert raised.value is error


def test_a_limit_that_is_negative_is_refused() -> None:
    with pytest.raises(ConfigError, match="retry_timeout='-1 second'"):
        wm.Kafka("host:9092", retry_timeout="-1 second")
