"""What goes into the topics: numbers as Kafka's clients write them, and the data in their two parts."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.kafka.inputs import Inputs, contents, parts
from bench.kafka.progress import Follower, batches_end
from bench.workloads.every import WORKLOADS
from bench.workloads.json_records import enrich_data
from bench.workloads.workload import ROUNDS

TOPICS = ("a", "b")


def test_numbers_are_eight_bytes_the_highest_first() -> None:
    numbers = [0, 1, -1, 256, 2**63 - 1, -(2**63), 1 << 56]
    found = contents(pa.chunked_array([numbers[:3], numbers[3:]], pa.int64()))
    assert found == [struct.pack(">q", number) for number in numbers]
    assert {type(each) for each in found} == {bytes}


def test_texts_are_utf8() -> None:
    assert contents(pa.chunked_array([["a b", "ß", ""]])) == [b"a b", "ß".encode(), b""]


def keys_of(files: list[Path]) -> list[int]:
    return pa.concat_tables([pq.read_table(file) for file in files])["key"].to_pylist()


def test_every_row_is_in_the_first_part_once_and_all_rounds_of_updates_are_in_the_second(tmp_path: Path) -> None:
    data = WORKLOADS["foreign_key"].data(tmp_path, True)
    first, second = parts(data, parted=True)
    for side, rows in enumerate((50_000, 500)):
        filled, updated = (keys_of([together[side][1] for together in part]) for part in (first, second))
        assert (len(filled), len(updated)) == (rows, (ROUNDS - 1) * rows)
        assert len(set(filled)) == rows
        assert set(updated) <= set(filled)


def test_all_is_in_the_first_part_where_there_is_one_part(tmp_path: Path) -> None:
    data = WORKLOADS["stream_stream"].data(tmp_path, True)
    first, second = parts(data, parted=False)
    assert not second
    assert sum(len(keys_of([file for _, file in together])) for together in first) == data.records


def test_what_is_joined_with_clicks_is_all_in_the_first_part(tmp_path: Path) -> None:
    data = enrich_data(tmp_path, 80, 40, 1_200)
    first, second = parts(data, parted=True)
    told = [{data.sides[topic] for together in part for topic, _ in together} for part in (first, second)]
    assert told == [{"users", "pages"}, {"clicks"}]
    assert (len(keys_of([file for together in first for _, file in together])), data.records) == (120, 1_320)


def done(checkpoint: Path, number: int, offsets: dict[str, dict[str, int]], *, committed: bool = True) -> None:
    """Write a batch's files as Spark does."""
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
    settings = {"batchWatermarkMs": 0, "conf": {"spark.some": "1"}}
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{json.dumps(settings)}\n{json.dumps(offsets)}\n-")
    if committed:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_batch_that_is_only_planned_does_not_count(tmp_path: Path) -> None:
    assert batches_end(tmp_path) == {}
    done(tmp_path, 9, {"a": {"0": 1}})
    done(tmp_path, 10, {"a": {"0": 5, "1": 6}, "b": {"0": 7}})
    done(tmp_path, 11, {"a": {"0": 8, "1": 8}, "b": {"0": 8}}, committed=False)
    assert batches_end(tmp_path) == {("a", 0): 5, ("a", 1): 6, ("b", 0): 7}


class Transaction:
    """Stands for a producer with an open transaction."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.commits = 0
        self._failure = failure

    def commit_transaction(self) -> None:
        self.commits += 1
        if self._failure is not None:
            raise self._failure


def held(transaction: Transaction) -> Inputs:
    return Inputs(TOPICS, {("a", 0): 2, ("b", 0): 0}, {("a", 0): 3, ("b", 0): 1}, transaction)


def wait(follower: Follower, condition) -> None:
    for _ in range(200):
        if condition():
            return
        follower._ended.wait(0.05)
    raise AssertionError("it did not come in ten seconds")


def test_a_turn_gets_the_second_part_behind_the_first_and_ends_behind_the_second(tmp_path: Path) -> None:
    transaction = Transaction()
    inputs, work = held(transaction), tmp_path / "work"
    done(work / "checkpoint", 0, {"a": {"0": 9}, "b": {"0": 9}})  # an earlier run's
    with Follower(inputs, work) as follower:
        done(work / "checkpoint", 0, {"a": {"0": 1}, "b": {"0": 0}})
        follower._ended.wait(0.3)
        assert inputs.held
        done(work / "checkpoint", 1, {"a": {"0": 2}, "b": {"0": 0}})
        wait(follower, lambda: not inputs.held)
        done(work / "checkpoint", 2, {"a": {"0": 4}, "b": {"0": 0}})
        follower._ended.wait(0.3)
        assert not (work / "stop").exists()
        done(work / "checkpoint", 3, {"a": {"0": 4}, "b": {"0": 2}})
        wait(follower, (work / "stop").exists)
    assert transaction.commits == 1


def test_a_part_that_cannot_be_released_ends_the_turn(tmp_path: Path) -> None:
    work = tmp_path / "work"
    follower = Follower(held(Transaction(OSError("gone"))), work)
    follower.__enter__()
    done(work / "checkpoint", 0, {"a": {"0": 2}, "b": {"0": 0}})
    wait(follower, (work / "stop").exists)
    with pytest.raises(OSError, match="gone"):
        follower.__exit__()
