"""What the left side of a foreign-key join sends, against the recorded tests of that processor."""

from __future__ import annotations

from typing import Any

import pytest

from proof.oracle import Record, Semantics, Topology
from proof.oracle.graph import Node
from proof.oracle.tables.foreign_key import SubscriptionSend
from proof.oracle.tables.table import TableSource
from proof.recordings import History, read
from tests.oracle.kit import RECORDINGS

VECTORS = read(RECORDINGS / "vectors" / "SubscriptionSendProcessorSupplierTest.json.gz")


class Collector(Node):
    """Keeps what it is sent: (foreign key, instruction, left key, ts)."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[Any, str, Any, int]] = []

    def receive(self, record: Record, port: int) -> None:
        message = record.value
        self.sent.append((record.key, message.instruction.value, message.left_key, record.ts))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id.split(".")[-1])
def test_the_left_side_sends_the_recorded_instructions(vector: History) -> None:
    assert vector.vector is not None
    topology = Topology(Semantics(vector.version))
    how = vector.vector["join_type"]
    send = SubscriptionSend(topology, TableSource(topology), how, lambda value: dict(value)["fk"])
    collector = Collector()
    send.feed(collector)
    for step in vector.steps:
        change = dict(step.value)
        send.receive(Record(step.key, change["new"], step.ts, change["old"]), 0)
    assert collector.sent == [
        (result.key, dict(result.value)["instruction"], dict(result.value)["primary_key"], result.ts)
        for step in vector.steps
        for result in step.expect or ()
    ]
