"""What a contender wrote, read back: the comparison is worth nothing unless the results agree."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_AT_ONCE = 10_000
_WAIT_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_MASK = 2**64 - 1


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


def outcome_of(servers: str, topics: Sequence[str], partitions: int, *, of_json: bool = False) -> Outcome:
    """Read topics to their ends. Hashes are this process's own: only outcomes of one run can be compared.

    Parameters
    ----------
    of_json : whether values are JSON: two texts of one value are the same.
    """
    count, total = 0, 0
    last: dict[tuple[int, bytes | None], int | None] = {}
    for number, topic in enumerate(topics):
        for message in _messages(servers, topic, partitions):
            count += 1
            key, value = message.key(), message.value()
            hashed = hash((number, key, repr(json.loads(value)) if of_json and value is not None else value))
            total += hashed
            last[(number, key)] = None if value is None else hashed
    rows = [hashed for hashed in last.values() if hashed is not None]
    return Outcome(count, len(last), total & _MASK, len(rows), sum(rows) & _MASK)


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
