"""What a sender gives to Kafka's client, record for record, also when the client's queue is full."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from watersmeet._worker.kafka_client import Sender, TransactionalSender
from watersmeet.errors import SinkError


class Narrow:
    """A client whose queue takes `room` records between two polls."""

    def __init__(self, room: int, refused: int | None = None) -> None:
        self.taken: list[Any] = []
        self._room = self._left = room
        self._refused = refused

    def produce(self, *record: Any) -> None:
        if len(self.taken) == self._refused:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if not self._left:
            raise BufferError
        self._left -= 1
        self.taken.append(record)

    def poll(self, _: float) -> None:
        self._left = self._room


def sent(client: Narrow, count: int) -> int:
    sender = Sender({})
    sender._producer = client
    numbers = list(range(count))
    keys, values = [b"%d" % n for n in numbers], [b"v" * n for n in numbers]
    return sender.send(
        [f"t{n % 2}" for n in numbers], keys, values, numbers, [[("h", b"%d" % n)] for n in numbers], numbers
    )


@pytest.mark.parametrize("room", [1, 3, 7, 100])
def test_a_full_queue_keeps_every_record_once_and_in_order(room: int) -> None:
    client = Narrow(room)
    assert sent(client, 20) == 20
    assert client.taken == [(f"t{n % 2}", b"v" * n, b"%d" % n, n, None, None, n, [("h", b"%d" % n)]) for n in range(20)]


def test_a_record_that_is_refused_is_named_by_its_topic_and_size() -> None:
    for room in (2, 100):
        client = Narrow(room, refused=13)
        with pytest.raises(SinkError, match="topic 't1', a record of 15 bytes"):
            sent(client, 20)
        assert len(client.taken) == 13


def test_no_records_are_none() -> None:
    assert sent(Narrow(1), 0) == 0


class Hanging:
    """A client whose transactional calls never end."""

    def begin_transaction(self) -> None:
        pass

    def send_offsets_to_transaction(self, *_: Any) -> None:
        threading.Event().wait()

    def abort_transaction(self, *_: Any) -> None:
        threading.Event().wait()


def test_a_call_of_the_client_that_never_ends_fails_the_task_and_the_client_is_asked_no_more() -> None:
    sender = TransactionalSender({"request.timeout.ms": "10"}, "id", "topic")
    sender._producer = Hanging()
    with pytest.raises(SinkError, match="does not return from a call"):
        sender.begin(7)
    sender.abandon()
    assert sender._producer is None
