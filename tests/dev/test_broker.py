"""The real broker: it serves, transactions included, it says why it did not start, and its end is sure."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from dev.broker import BrokerFailed, KafkaBroker, free_ports, main, server_properties

ROOT = Path(__file__).resolve().parents[2]
# 2013: long past what a broker keeps by default
LONG_AGO = 1_357_000_000_000


@pytest.fixture(scope="module")
def broker():
    # what is too old is to be cleared away at once, not after minutes, so that the tests would see it
    at_once = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "50"}
    with KafkaBroker(settings=at_once) as running:
        yield running


def read(broker, topic, count, group="readers"):
    """The first records of a topic, as many as `count`; fewer when no more come for a long time."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    messages = []
    try:
        while len(messages) < count and (more := consumer.consume(count, timeout=60)):
            messages += more
    finally:
        consumer.close()
    return messages


def gone(pid):
    """Whether the process is gone, waiting for a killed one to be cleared away."""
    for _ in range(200):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if not state.stdout.strip() or state.stdout.startswith("Z"):
            return True
        time.sleep(0.05)
    return False


def test_free_ports_are_different_and_free():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[0]))


def test_settings_of_the_caller_go_before_the_brokers_own():
    properties = server_properties(1, 2, Path("data"), {"log.retention.ms": "5", "num.partitions": "3"})
    assert properties["log.retention.ms"] == "5"
    assert properties["num.partitions"] == "3"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"


@pytest.mark.kafka
def test_records_of_long_ago_written_in_a_transaction_come_back(broker):
    broker.create_topics(["records"], partitions=4)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("records", key="gone", value="aborted", timestamp=LONG_AGO)
    producer.abort_transaction(60)
    producer.begin_transaction()
    for number in range(100):
        producer.produce("records", key=str(number), value=str(number), timestamp=LONG_AGO + number)
    producer.commit_transaction(60)
    messages = read(broker, "records", 100)
    assert sorted(int(message.value()) for message in messages) == list(range(100))
    assert {message.partition() for message in messages} == {0, 1, 2, 3}
    assert {message.timestamp()[1] - int(message.value()) for message in messages} == {LONG_AGO}


@pytest.mark.kafka
def test_a_broker_that_is_killed_and_started_again_has_its_address_and_its_records():
    with KafkaBroker() as broker:
        broker.create_topics(["kept"], partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("kept", "before")
        producer.commit_transaction(60)
        # Only when it can be read its marker is written, too. A broker that is killed before and comes back looks for
        # the topic before it knows its topics, takes it for deleted, and the transaction stays open for ever.
        assert [message.value() for message in read(broker, "kept", 1, "before")] == [b"before"]
        servers, old = broker.bootstrap_servers, broker.pid
        broker.restart()
        assert gone(old)
        assert broker.bootstrap_servers == servers
        producer.begin_transaction()
        producer.produce("kept", "after")
        producer.commit_transaction(60)
        assert sorted(message.value() for message in read(broker, "kept", 2)) == [b"after", b"before"]


@pytest.mark.kafka
def test_a_topic_that_exists_is_an_error_and_one_that_does_not_is_not_made_by_writing_to_it(broker):
    broker.create_topics(["once"])
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        broker.create_topics(["once"])
    errors = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "message.timeout.ms": 3000}
    )
    producer.produce("mistyped", "x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error is not None for error in errors] == [True]


@pytest.mark.kafka
def test_a_broker_that_does_not_start_says_why_with_the_end_of_its_log():
    broker = KafkaBroker(settings={"num.network.threads": "none"})
    with pytest.raises(BrokerFailed, match=r"(?s)Invalid value none for configuration num\.network\.threads"):
        broker.start()
    assert not broker.is_running()
    assert not broker.folder.exists()


@pytest.mark.kafka
def test_a_broker_that_dies_while_it_starts_shows_the_end_of_its_log():
    # the heap is enough for the formatting, not for the broker
    broker = KafkaBroker(settings={"log.cleaner.dedupe.buffer.size": str(2**31)})
    with pytest.raises(BrokerFailed, match=r"(?s)The broker ended with code 1\. Its log ends:.*OutOfMemoryError"):
        broker.start()
    assert not broker.folder.exists()


def test_a_broker_that_is_not_running_has_no_address():
    with pytest.raises(BrokerFailed, match=r"not running\.\nHint: call start"):
        _ = KafkaBroker(folder=Path("unused")).bootstrap_servers


@pytest.mark.kafka
def test_after_its_block_the_broker_and_its_folder_are_gone():
    with KafkaBroker() as broker:
        pid, folder = broker.pid, broker.folder
        assert broker.is_running()
        assert broker.log_file.exists()
    assert gone(pid)
    assert not folder.exists()


@pytest.mark.kafka
def test_when_the_process_that_started_it_is_killed_the_broker_is_killed_too():
    program = """
import time
from dev.broker import BrokerFailed, KafkaBroker, free_ports, main, server_properties
broker = KafkaBroker()
broker.start()
print(broker.pid, broker.folder, flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    with owner:
        pid, folder = owner.stdout.readline().split()
        os.kill(int(pid), 0)
        owner.send_signal(signal.SIGKILL)
    assert gone(pid)
    deadline = time.monotonic() + 60
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(folder).exists()


@pytest.mark.kafka
def test_the_command_line_starts_one_broker_in_the_background_and_stops_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dev.broker.STATE_FILE", tmp_path / "broker" / "state.json")
    assert main(["status"]) == 3
    try:
        assert main(["start", "--topic", "made", "--partitions", "2"]) == 0
        first = json.loads((tmp_path / "broker" / "state.json").read_text())
        assert main(["start"]) == 0
        assert main(["status"]) == 0
        printed = capsys.readouterr().out
        assert printed.count(first["bootstrap_servers"]) == 3
        assert "was running already" in printed
        admin = AdminClient({"bootstrap.servers": first["bootstrap_servers"]})
        assert len(admin.list_topics("made", timeout=30).topics["made"].partitions) == 2
    finally:
        assert main(["stop"]) == 0
    assert gone(first["pid"])
    assert not (tmp_path / "broker").exists()
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == "stopped\nnot running\n"


@pytest.mark.kafka
def test_the_stop_command_spares_a_process_that_merely_got_the_number_of_an_old_broker(tmp_path, monkeypatch):
    monkeypatch.setattr("dev.broker.STATE_FILE", tmp_path / "broker" / "state.json")
    (tmp_path / "broker").mkdir()
    with subprocess.Popen(["sleep", "600"]) as bystander:
        note = {"pid": bystander.pid, "bootstrap_servers": "127.0.0.1:1"}
        (tmp_path / "broker" / "state.json").write_text(json.dumps(note))
        assert main(["stop"]) == 0
        assert bystander.poll() is None
        bystander.kill()
