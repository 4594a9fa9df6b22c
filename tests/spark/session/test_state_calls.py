"""Calls to Spark's state server whose answers are read later: the same state, the same errors, fewer waits."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from watersmeet._worker.spark_worker import AHEAD, MOST, SparkChunkStore, StateCalls


class Server:
    """Spark's client with a server behind it: answers wait until they are received, in the order of the calls."""

    def __init__(self, manifests: dict[int, bytes]) -> None:
        self.manifests = manifests
        self.answers: list[tuple[int, str, bytes]] = []
        self.label = 0
        self.waits = self.gets = self.most = 0
        self._waiting = False

    def set_implicit_key(self, key: tuple[int]) -> None:
        self._answer(0, label=key[0])
        assert self._receive_proto_message()[0] == 0

    def update(self, manifest: tuple[bytes], status: int = 0) -> None:
        self.manifests[self.label] = manifest[0]
        self._answer(status)
        assert self._receive_proto_message()[0] == 0

    def get(self) -> tuple[bytes] | None:
        self._send_proto_message(b"get")
        value = self._receive_proto_message()[2]
        return pickle.loads(value) if value else None

    def receive_number(self) -> int:
        self._answer(0)
        return self._receive_proto_message_with_long_value()

    def _send_proto_message(self, message: bytes) -> None:
        assert message == b"get"
        self.gets += 1
        stored = self.manifests.get(self.label)
        self._answer(0, value=b"" if stored is None else pickle.dumps((stored,)))

    def _answer(self, status: int, label: int | None = None, value: bytes = b"") -> None:
        self.label = self.label if label is None else label
        self.answers.append((status, "no space" if status else "", value))
        self.most = max(self.most, len(self.answers))
        self._waiting = True

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        # all that was sent until now is answered by the time of the first answer
        self.waits += self._waiting
        self._waiting = False
        return self.answers.pop(0)

    def _receive_proto_message_with_long_value(self) -> int:
        assert len(self.answers) == 1
        return 7 + self._receive_proto_message()[0]

    def _deserialize_from_bytes(self, value: bytes) -> Any:
        return pickle.loads(value)


class Handle:
    """Gives a server for each variable."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def getValueState(self, *_: Any) -> Any:
        return self._server

    getMapState = getValueState


def handled(server: Server, calls: StateCalls | None, labels: Iterator[int] | range) -> list[bytes | None]:
    """The manifests of the labels, of which each is replaced by a longer one."""
    store, found = SparkChunkStore(Handle(server)), []
    for label in labels:
        if calls is None:
            server.set_implicit_key((label,))
        else:
            calls.fetch_ahead(label)
            calls.late(server.set_implicit_key, (label,))
        store.begin(label, calls)
        found.append(store.get_manifest())
        store.put_manifest(b"%d!" % label)
    return found


def even(label: int) -> bool:
    return label % 2 == 0


def test_manifests_of_labels_that_come_are_asked_for_together_and_writes_are_not_waited_for() -> None:
    labels = range(0, 400, 2)
    known = {label: b"%d" % label for label in labels if label % 6}
    one, two = Server(dict(known)), Server(dict(known))
    calls = StateCalls(two, even)
    calls.coming(labels)
    assert handled(two, calls, labels) == handled(one, None, labels) == [known.get(label) for label in labels]
    calls.read_answers()
    assert two.manifests == one.manifests
    assert not two.answers
    assert (one.waits, two.gets) == (3 * len(labels), len(labels))
    assert two.waits <= len(labels) // AHEAD + 3 * len(labels) // MOST + 3
    assert two.most <= MOST + 1


def test_a_label_without_state_is_not_asked_for_and_one_in_two_batches_is_asked_for_once() -> None:
    server = Server({label: b"%d" % label for label in range(10)})
    calls = StateCalls(server, even)
    calls.coming([0, 1, 2, 3])
    assert handled(server, calls, range(3)) == [b"0", b"1", b"2"]
    calls.coming([3, 4, 5, 6])
    calls.fetch_ahead(3)
    assert handled(server, calls, iter([4, 6])) == [b"4", b"6"]
    # of 1, that has none, Spark's own way asked
    assert server.gets == 5


def test_an_error_of_a_write_is_raised_before_the_next_answer_that_counts() -> None:
    server = Server({})
    calls = StateCalls(server, even)
    calls.late(server.update, (b"x",), 1)
    with pytest.raises(PySparkRuntimeError, match="no space"):
        server.receive_number()
    server.answers.clear()
    calls.late(server.update, (b"x",))
    assert server.receive_number() == 7


def test_a_client_of_another_form_is_called_as_spark_calls_it() -> None:
    assert StateCalls.of(object(), even) is None
    assert StateCalls.of(Server({}), even) is not None
