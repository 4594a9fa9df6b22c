"""What a contender wrote, read back: the comparison is worth nothing unless the results agree."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_AT_ONCE = 10_000
_WAIT_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_MASK = 2**64 - 1
_NUMBERS = re.compile(rb"-?\d+")
Reading = Callable[[bytes], Hashable]


@dataclass(frozen=True)
class Outcome:
    """An output topic as a `read_committed` reader sees it.

    Parameters
    ----------
    records, keys : records, and distinct keys among them.
    all_records : sum of the hashes of all (key, value), whatever their order.
    rows, table : how many keys the final table has, and the same sum over its rows.
    """

    records: int
    keys: int
    all_records: int
    rows: int
    table: int


def outcome_of(
    servers: str, topics: Sequence[str], partitions: int, keys_as: Reading = bytes, values_as: Reading = bytes
) -> Outcome:
    """Read topics to their ends. Hashes are this process's own: only outcomes of one run can be compared.

    Parameters
    ----------
    keys_as, values_as : what keys and values are compared as, where contenders write them in formats of their own.
    """
    count, total = 0, 0
    last: dict[tuple[int, Hashable], int | None] = {}
    for number, topic in enumerate(topics):
        for message in _messages(servers, topic, partitions):
            count += 1
            key, value = message.key(), message.value()
            known = key if key is None else keys_as(key)
            hashed = hash((number, known, value if value is None else values_as(value)))
            total += hashed
            last[(number, known)] = None if value is None else hashed
    rows = [hashed for hashed in last.values() if hashed is not None]
    return Outcome(count, len(last), total & _MASK, len(rows), sum(rows) & _MASK)


def of_json(text: bytes) -> Hashable:
    """Two texts of one value are the same."""
    return repr(json.loads(text))


def of_double(value: bytes) -> Hashable:
    """A double of at least 1 as Java's serializer writes it, whose first byte is no digit's, or the JSON text of it."""
    return float(value) if value[:1].isdigit() else float(struct.unpack(">d", value)[0])


def of_window(key: bytes) -> Hashable:
    """Key and start of a window: of TimeWindowedSerializer, or of the JSON of key, start and end; keys are longs."""
    if len(key) == 16:
        return struct.unpack(">qq", key)
    own, start, _ = map(int, _NUMBERS.findall(key))
    return own, start


def of_session(key: bytes) -> Hashable:
    """Key, start and end of a session: of SessionWindowedSerializer, or of the JSON; keys are longs."""
    if len(key) == 24:
        own, end, start = struct.unpack(">qqq", key)
        return own, start, end
    return tuple(map(int, _NUMBERS.findall(key)))


def agreement(outcomes: Mapping[str, Outcome], equal: str) -> str:
    """In what the outcomes agree, as a sentence; see `Workload.equal`.

    Raises
    ------
    RuntimeError : they do not, or there is nothing that could agree.
    """
    agreed, what = _compared(outcomes, equal)
    if not agreed:
        raise RuntimeError(f"The results do not agree in their {equal}: {dict(outcomes)}")
    return f"Checked: {what}. {_written(outcomes)}"


def beside(outcomes: Mapping[str, Outcome], equal: str) -> str:
    """How the last outcome compares with the others, as a sentence: one that differs is told of, no failure."""
    agreed, what = _compared(outcomes, equal)
    last = list(outcomes)[-1]
    if agreed:
        return f"{last}: {what}. {_written(outcomes)}"
    rows = ", ".join(f"{name} {outcome.rows:,}" for name, outcome in outcomes.items())
    return f"**{last} does not agree** in its {equal}. Rows of the final table: {rows}. {_written(outcomes)}"


def _compared(outcomes: Mapping[str, Outcome], equal: str) -> tuple[bool, str]:
    """Whether all agree, and in what."""
    each = list(outcomes.values())
    if equal == "count":
        keys = [outcome.keys for outcome in each]
        agreed, what = max(keys) <= 1.01 * min(keys), f"{min(keys):,} to {max(keys):,} keys have results"
    elif equal == "table":
        agreed = len({(outcome.rows, outcome.table) for outcome in each}) == 1
        what = f"the final tables are the same: {each[0].rows:,} rows"
    else:
        agreed = len({(outcome.records, outcome.all_records) for outcome in each}) == 1
        what = f"the records are the same: {each[0].records:,}"
    # nothing agrees with nothing
    return agreed and each[0].records > 0, what


def _written(outcomes: Mapping[str, Outcome]) -> str:
    written = ", ".join(f"{name} {outcome.records:,}" for name, outcome in outcomes.items())
    return f"Records written: {written}."


def _messages(servers: str, topic: str, partitions: int) -> Iterator[Message]:
    settings = {
        "bootstrap.servers": servers,
        "group.id": "outcomes",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ends: set[int] = set()
        heard = time.monotonic()
        while len(ends) < partitions:
            found = consumer.consume(_AT_ONCE, _WAIT_SECONDS)
            heard = time.monotonic() if found else heard
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise RuntimeError(f"Kafka sent nothing of {topic!r} for {_PATIENCE_SECONDS:.0f} s.")
            for message in found:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.add(cast(int, message.partition()))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
