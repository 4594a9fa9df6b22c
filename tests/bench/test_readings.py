"""What the bytes of contenders are compared as: texts of JSON are the same where they say the same."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from bench.kafka.outcomes import Outcome, Tally
from bench.workloads.readings import of_json, of_json_with_times


def all_differ(hashes: np.ndarray) -> bool:
    return len(set(hashes.tolist())) == len(hashes)


def test_json_is_compared_as_values() -> None:
    values = [{"a": 1, "b": [1.5, None]}, {"a": 2, "b": []}, "a", None]
    told = of_json([json.dumps(value).encode() for value in values])
    assert told.tolist() == of_json([json.dumps(value, indent=1).encode() for value in values]).tolist()
    assert all_differ(told)


Record = tuple[bytes | None, bytes | None]
RECORDS: list[Record] = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (None, b"3"), (b"b", None), (b"c", b"1")]


def tallied(*batches: Sequence[Record], topic: int = 0) -> Outcome:
    tally = Tally()
    for batch in batches:
        tally.add(topic, [key for key, _ in batch], [value for _, value in batch])
    return tally.outcome()


def test_the_final_table_has_the_last_value_of_each_key_and_no_tombstone() -> None:
    found = tallied(RECORDS)
    assert (found.records, found.keys, found.rows) == (6, 4, 3)
    last = tallied([(b"a", b"2"), (None, b"3"), (b"c", b"1")])
    assert (found.rows, found.table) == (last.rows, last.table)


def test_it_does_not_matter_how_records_are_read() -> None:
    assert tallied(RECORDS) == tallied(RECORDS[:1], RECORDS[1:4], [], RECORDS[4:])


def test_keys_may_interleave_in_another_way() -> None:
    assert tallied(RECORDS) == tallied(sorted(RECORDS, key=lambda record: record[0] or b"", reverse=True))


@pytest.mark.parametrize(
    "other",
    [
        [*RECORDS[:5], (b"c", b"2")],
        [*RECORDS[:4], (b"b", b"1"), (b"c", b"1")],
        [RECORDS[2], RECORDS[1], RECORDS[0], *RECORDS[3:]],
        [*RECORDS[:3], (b"", b"3"), *RECORDS[4:]],
    ],
    ids=["another value", "no tombstone", "another last value", "a key for none"],
)
def test_another_final_table_is_another(other: list[Record]) -> None:
    assert tallied(RECORDS).table != tallied(other).table


def test_the_same_records_in_another_topic_are_others() -> None:
    assert tallied(RECORDS).all_records != tallied(RECORDS, topic=1).all_records


def test_of_nothing_there_is_nothing() -> None:
    assert tallied() == Outcome(0, 0, 0, 0, 0)


def test_times_are_the_same_with_a_blank_and_with_a_t():
    one = b'{"bid":{"price":1,"dateTime":"2015-07-15 00:00:00.010"}}'
    other = b'{"bid":{"price":1,"dateTime":"2015-07-15T00:00:00.01"}}'
    later = b'{"bid":{"price":1,"dateTime":"2015-07-15T00:00:00.011"}}'
    first, second, third = of_json_with_times([one, other, later])
    assert first == second != third
