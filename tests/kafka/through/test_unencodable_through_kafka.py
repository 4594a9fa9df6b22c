"""What an output's format refuses, through a real broker: counted or a dead letter, whoever writes the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import Record, committed, new_topic
from watersmeet._worker.writers import kafka as driver_commit
from watersmeet.errors import EncodingError
from watersmeet.io.kafka import Kafka

UUID = "123e4567-e89b-12d3-a456-4266141740%02d"
PREFIX = "__streams.errors."
BATCH = 20
"""Records of a batch; every fourth has no id, and each key has five."""


def produced(broker: KafkaBroker, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(first, first + BATCH):
        value = UUID % number if number % 4 else "none"
        headers: Any = [("n", b"%d" % number)]
        producer.produce(topic, key=b"k%d" % (number // 5), value=value, timestamp=1000 + number, headers=headers)
    assert producer.flush(30) == 0


def topology(names: dict[str, str], policy: Any, *, beside: bool) -> wm.Topology:
    """Ids as they come, and counts whose windows end too late from the fourth record of a key on."""
    builder = wm.StreamsBuilder("unencodable", on_error=policy)
    ids = builder.stream(names["in"], key="string", value="string", name="in", headers=True)
    ids.to(names["out"], value="uuid", name="out")
    windows = wm.TimeWindows.of_size_with_no_grace("1 hour")
    counts = ids.group_by_key().windowed_by(windows).count(name="counts").to_stream()
    late = counts.map(
        lambda key, n: (
            F.struct(
                key["key"].alias("key"),
                key["start"].alias("start"),
                (key["end"] + F.greatest(n, F.lit(3)) - 3).alias("end"),
            ),
            n,
        )
    )
    late.to(names["counted"], key=wm.time_windowed("string", "1 hour"), name="counted")
    if beside:
        counts.to(wm.ForeachBatch(lambda rows, batch: None), name="beside")
    return builder.build()


def check_letters(found: list[Record], topic: str, records: int) -> None:
    """Of so many records a quarter has no id, and two of each five are counted in a window that ends too late."""
    assert len(found) == records // 4 + 2 * records // 5
    told = [dict(record.headers or ()) for record in found]
    for letter, each in zip(found, told, strict=True):
        assert each[PREFIX + "exception"] == b"watersmeet.errors.EncodingError"
        assert each[PREFIX + "reason"] == b"unencodable"
        number = int(each["n"] or b"")
        assert (each[PREFIX + "topic"], letter.time) == (topic.encode(), 1000 + number)
        if each[PREFIX + "operator"] == b"out":
            assert (letter.key, letter.value) == (b"k%d" % (number // 5), b"none")
        else:
            assert (letter.key or b"").startswith(b'{"key":"k%d","start":0,"end":36000' % (number // 5))
            assert int.from_bytes(letter.value or b"", "big") == number % 5 + 1 > 3


@pytest.mark.parametrize(
    ("way", "letters"),
    [
        ("by the driver", True),
        ("by tasks", True),
        ("by Spark", False),
        pytest.param("by the driver", False, marks=pytest.mark.proof),
        pytest.param("by tasks", False, marks=pytest.mark.proof),
        pytest.param("by Spark", True, marks=pytest.mark.proof),
    ],
)
def test_what_an_output_refuses_is_told_once_and_all_else_is_written(
    spark: SparkSession,
    broker: KafkaBroker,
    kafka: Kafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    letters: bool,
) -> None:
    if way == "by tasks":
        monkeypatch.setattr(driver_commit, "TASK_BYTES", 0)
    names = {part: new_topic(broker, part) for part in ("in", "out", "counted", "dead")}
    policy: Any = wm.DeadLetter(names["dead"]) if letters else "skip"
    for first in (0, BATCH):
        produced(broker, names["in"], first)
        query = topology(names, policy, beside=way == "by Spark").start(
            spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache", available_now=True, kafka=kafka
        )
        query.awaitTermination()
        reason = "dead_letter" if letters else "unencodable"
        assert query.drops == {("out", reason): BATCH // 4, ("counted", reason): 2 * BATCH // 5}
    out, counted = committed(broker, names["out"]), committed(broker, names["counted"])
    assert sorted(record.value or b"" for record in out) == [(UUID % n).encode() for n in range(2 * BATCH) if n % 4]
    assert all(list(record.headers or []) for record in out)
    assert len(counted) == 3 * 2 * BATCH // 5
    # as Kafka Streams places windowed keys: by the key within
    places = {record.key: record.partition for record in out}
    assert all(places[(record.key or b"")[:-8]] == record.partition for record in counted)
    check_letters(committed(broker, names["dead"]), names["in"], 2 * BATCH if letters else 0)


@pytest.mark.parametrize(
    ("beside", "letters"),
    [(False, True), *(pytest.param(each, False, marks=pytest.mark.proof) for each in (False, True))],
)
def test_a_query_that_has_failed_at_an_output_goes_on_where_rows_may_end_there(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, beside: bool, letters: bool
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    produced(broker, name, 0)

    def run(policy: Any) -> dict[tuple[str, str], int]:
        """Of the last level: without dead letters no exchange leads to the output."""
        builder = wm.StreamsBuilder("last-level", on_error=policy)
        ids = builder.stream(name, key="string", value="string", name="in")
        last = ids.group_by_key().agg(last=wm.last(lambda value: value), name="last").to_stream()
        last.map_values(lambda value: value["last"]).to(out, value="uuid", name="out")
        if beside:
            last.to(wm.ForeachBatch(lambda rows, batch: None), name="beside")
        query = builder.build().start(
            spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache", available_now=True, kafka=kafka
        )
        query.awaitTermination()
        return query.drops

    for _ in range(2):
        with pytest.raises(EncodingError, match="A sink of UUIDs gets a text that is not a UUID") as refused:
            run("fail")
        # beside other outputs Spark makes the bytes, by a function that several may share
        assert beside or str(refused.value.given).endswith(f", value of a record for the topic {out}")
    assert committed(broker, out) == []
    assert run(wm.DeadLetter(dead) if letters else "skip") == {("out", "dead_letter" if letters else "unencodable"): 5}
    assert len(committed(broker, out)) == BATCH - 5
    assert len(committed(broker, dead)) == (5 if letters else 0)
