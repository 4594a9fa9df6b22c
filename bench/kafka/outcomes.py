"""What a contender wrote, read back: the comparison is worth nothing unless the results agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench.workloads.readings import Hashes, Reading, as_bytes, mixed

Part: TypeAlias = Sequence[bytes | None]
_AT_ONCE = 10_000
_WAIT_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_NULL = np.uint64(0x6E756C6C)


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


@dataclass
class Tally:
    """Counts records of topics, a batch at a time: those of a key in the order in which they stand in their partition.

    Parameters
    ----------
    values_as : what values are compared as, where contenders' texts of one may differ.
    """

    values_as: Reading = as_bytes
    _keys: list[Hashes] = field(default_factory=list)
    _records: list[Hashes] = field(default_factory=list)
    _there: list[np.ndarray] = field(default_factory=list)

    def add(self, topic: int, keys: Part, values: Part) -> None:
        """Count records of a topic, by its number."""
        known = mixed(np.uint64(topic), _hashes(keys, as_bytes))
        self._keys.append(known)
        self._records.append(mixed(known, _hashes(values, self.values_as)))
        self._there.append(np.array([value is not None for value in values], dtype=np.bool_))

    def outcome(self) -> Outcome:
        """What all of them come to."""
        if not self._keys:
            return Outcome(0, 0, 0, 0, 0)
        keys, records, there = map(np.concatenate, (self._keys, self._records, self._there))
        distinct, from_the_end = np.unique(keys[::-1], return_index=True)
        last = len(keys) - 1 - from_the_end
        rows = records[last[there[last]]]
        return Outcome(len(keys), len(distinct), _sum(records), len(rows), _sum(rows))


def _hashes(parts: Part, reading: Reading) -> Hashes:
    there = [part for part in parts if part is not None]
    if len(there) == len(parts):
        return reading(there)
    found = np.full(len(parts), _NULL)
    found[[part is not None for part in parts]] = reading(there)
    return found


def _sum(hashes: Hashes) -> int:
    """Whatever their order, in 64 bits."""
    return int(hashes.sum(dtype=np.uint64))


def outcome_of(servers: str, topics: Sequence[str], partitions: int, values_as: Reading = as_bytes) -> Outcome:
    """Read topics to their ends; see `Tally`."""
    tally = Tally(values_as)
    for number, topic in enumerate(topics):
        for keys, values in _read(servers, topic, partitions):
            tally.add(number, keys, values)
    return tally.outcome()


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


def _read(servers: str, topic: str, partitions: int) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
    """Keys and values of a topic, a batch at a time."""
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
                    continue
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ends.add(cast(int, message.partition()))
            records = [message for message in found if message.error() is None]
            yield [message.key() for message in records], [message.value() for message in records]
    finally:
        consumer.close()
