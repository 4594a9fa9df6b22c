"""Dead letters through a real broker: byte for byte, in the transaction of the results, whatever way the rows take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import Record, committed, new_topic
from watersmeet._spark.query.query import Query
from watersmeet._spark.query.start import PASSES
from watersmeet.io.kafka import Kafka

HEADERS = [("trace", b"\xff\0"), ("empty", b""), ("none", None)]
PREFIX = "__streams.errors."


class Given(NamedTuple):
    """A record before it is written."""

    key: bytes | None
    value: bytes
    ts: int = 1000
    headers: tuple[tuple[str, bytes | None], ...] = ()


def put(broker: KafkaBroker, topic: str, *records: Given) -> None:
    """All on one partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value, ts, headers in records:
        producer.produce(topic, key=key, value=value, partition=0, timestamp=ts, headers=list(headers))
    assert producer.flush(30) == 0


def produced(broker: KafkaBroker, topic: str) -> None:
    """Good and bad records in turn."""
    values = (b"\xff%d" % number if number % 4 == 1 else b'{"n": %d}' % number for number in range(40))
    headers = (tuple(HEADERS) if number % 8 == 1 else () for number in range(40))
    every = zip(range(40), values, headers, strict=True)
    put(broker, topic, *(Given(b"k%d" % number, value, 1000 + number, own) for number, value, own in every))


def ran(topology: wm.Topology, spark: SparkSession, kafka: Kafka, folder: Path, **options: Any) -> Query:
    """A query over what is there, when it has ended."""
    given: dict[str, Any] = {"checkpoint": folder / "cp", "local_cache": folder / "cache", "kafka": kafka}
    query = topology.start(spark, available_now=True, **given, **options)
    query.awaitTermination()
    return query


def check_letters(found: list[Record], topic: str) -> None:
    """Each bad record of `produced` is there, as it came."""
    letters = {record.key or b"": record for record in found}
    assert len(found) == 10
    assert sorted(letters) == sorted(b"k%d" % number for number in range(1, 40, 4))
    for number in range(1, 40, 4):
        letter = letters[b"k%d" % number]
        assert (letter.value, letter.time) == (b"\xff%d" % number, 1000 + number)
        own, told = list(letter.headers or [])[:-8], dict(list(letter.headers or [])[-8:])
        assert own == (HEADERS if number % 8 == 1 else [])
        message = (told.pop(PREFIX + "message") or b"").decode()
        assert message.endswith(f"topic {topic}, partition 0, offset {number}, value as json: not valid UTF-8")
        assert told == {
            PREFIX + "exception": b"watersmeet.errors.SourceError",
            PREFIX + "topic": topic.encode(),
            PREFIX + "partition": b"0",
            PREFIX + "offset": b"%d" % number,
            PREFIX + "timestamp": b"%d" % (1000 + number),
            PREFIX + "operator": b"in",
            PREFIX + "reason": b"undecodable",
        }


def check_shown(shown: list[dict[str, Any]], dead: str, topic: str) -> None:
    """What the page shows of the letters of `produced`, the newest first."""
    assert [letter["time_ms"] for letter in shown] == [1000 + number for number in reversed(range(1, 40, 4))]
    last = shown[0]
    assert (last["topic"], last["operator"], last["reason"]) == (dead, "in", "undecodable")
    assert (last["record"], last["key_text"], last["value_text"]) == (f"{topic}-0@37", "k37", "\\xff37")
    assert last["message"].endswith("not valid UTF-8")


@pytest.mark.parametrize("way", ["in the level", "by Spark", "to files"])
def test_bad_records_leave_as_they_came_with_where_they_were_and_why(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, way: str
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    produced(broker, name)
    builder = wm.StreamsBuilder("dead-letters")
    records = builder.stream(name, key="string", value=wm.json("n int"), on_undecodable=wm.DeadLetter(dead), name="in")
    numbers = records.map_values(lambda value: value["n"])
    if way == "by Spark":
        # no level evaluates it
        numbers = numbers.filter(lambda n: F.initcap(n.cast("string")).isNotNull() | n.isNull())
    counted = numbers.group_by_key().count().to_stream()
    if way == "to files":
        counted.to(wm.Writer("json", path=str(tmp_path / "out")), name="files")
    else:
        counted.to(out)
    query = ran(builder.build(), spark, kafka, tmp_path)
    if way == "to files":
        assert spark.read.json(str(tmp_path / "out")).select("key").distinct().count() == 30
        assert "headers" not in spark.read.json(str(tmp_path / "out")).columns
    else:
        results = committed(broker, out)
        assert len(results) == 30
        assert not any(record.headers for record in results)
    check_letters(committed(broker, dead), name)
    assert query.drops == {("in", "dead_letter"): 10}
    check_shown(query._status().last_dead_letters(), dead, name)
    now = query.metrics()
    assert now.batch is not None
    assert now.batch.writes["transactions"] > 0
    assert (now.consumed, now.drops, now.lag) == ({"in": 40}, query.drops, {name: dict.fromkeys(range(4), 0)})
    assert set(now.produced.values()) == {10, 30}


@pytest.mark.parametrize("way", ["to Kafka", "to files"])
def test_records_for_which_a_function_raises_leave_beside_those_that_cannot_be_decoded(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, way: str
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    produced(broker, name)
    letter = wm.DeadLetter(dead)
    builder = wm.StreamsBuilder("function-errors", on_undecodable=letter, on_error=letter)
    numbers = builder.stream(name, key="string", value=wm.json("n int"), name="in")
    tenths = numbers.map_values(lambda value: F.lit(100) / (value["n"] - 10))
    if way == "to Kafka":
        tenths.to(out)
    else:
        tenths.to(wm.Writer("json", path=str(tmp_path / "out")), name="files")
    query = ran(builder.build(), spark, kafka, tmp_path)
    letters = committed(broker, dead)
    check_letters([record for record in letters if record.key != b"k10"], name)
    failed = [(record.value, record.time) for record in letters if record.key == b"k10"]
    assert failed == [(b'{"n": 10}', 1010)]
    if way == "to Kafka":
        assert len(committed(broker, out)) == 29
    else:
        assert spark.read.json(str(tmp_path / "out")).count() == 29
    assert query.drops == {("in", "dead_letter"): 11}


def shares(name: str, out: str, policy: Any, *, killed: bool) -> wm.Topology:
    """What each number is of 100; killed, it writes them to Kafka and does not say so."""

    def behind(rows: Any, batch: int) -> None:
        if killed:
            raise RuntimeError("killed behind Kafka")

    builder = wm.StreamsBuilder("policies", on_undecodable=policy, on_error=policy)
    numbers = builder.stream(name, key="bytes", value=wm.json("n int"), name="in")
    found = numbers.map_values(lambda value: F.lit(100) / value["n"])
    found.to(out)
    found.to(wm.ForeachBatch(behind), name="behind")
    return builder.build()


def test_a_batch_that_was_not_finished_is_finished_under_the_policy_it_was_planned_with(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))

    def produce(*values: bytes) -> None:
        put(broker, name, *(Given(value, value) for value in values))

    def run(policy: Any, *, killed: bool = False) -> dict[tuple[str, str], int]:
        return ran(shares(name, out, policy, killed=killed), spark, kafka, tmp_path).drops

    produce(b'{"n":1}', b"bad", b'{"n":0}')
    with pytest.raises(Exception, match="killed behind Kafka"):
        run("skip", killed=True)
    produce(b'{"n":2}', b"worse")
    drops = {("in", "undecodable"): 1, ("in", "function_error"): 1, ("in", "dead_letter"): 1}
    assert run(wm.DeadLetter(dead)) == drops
    assert [record.key for record in committed(broker, dead)] == [b"worse"]
    # a batch that a record fails has written nothing, so it may be run under another policy
    produce(b'{"n":0}', b'{"n":3}')
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("fail")
    assert PASSES not in caplog.text
    assert run(wm.DeadLetter(dead)) == {("in", "dead_letter"): 1}
    assert PASSES in caplog.text
    assert [record.key for record in committed(broker, dead)] == [b"worse", b'{"n":0}']
    assert sorted(record.key or b"" for record in committed(broker, out)) == [b'{"n":%d}' % n for n in (1, 2, 3)]


def test_what_ends_within_the_topology_leaves_in_the_same_transaction_with_where_it_was(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    records = ((b"a", b'{"n": 2}', 5), (None, b'{"n": 3}', 6), (b"a", b'{"n": 4}', 50), (b"a", b"{}", 7))
    put(broker, name, *(Given(key, value, ts, (("ts", b"%d" % ts),)) for key, value, ts in records))
    letter = wm.DeadLetter(dead)
    builder = wm.StreamsBuilder("within", on_error=letter, on_drop=letter)
    numbers = builder.stream(name, key="string", value=wm.json("n int"), name="in")
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    counts = numbers.group_by_key().windowed_by(windows).count(name="counts").to_stream()
    # the second window begins at 50
    counts.map(lambda key, n: (key["key"], F.lit(100) / (key["start"] - 50))).to(out)
    query = ran(builder.build(), spark, kafka, tmp_path)
    assert [(record.key, record.time) for record in committed(broker, out)] == [(b"a", 5)]
    letters = sorted(committed(broker, dead), key=lambda record: record.time)
    told = [dict(record.headers or ()) for record in letters]
    assert [
        (record.key, record.value, record.time, each[PREFIX + "reason"], each[PREFIX + "offset"])
        for record, each in zip(letters, told, strict=True)
    ] == [
        # a record of the input has its bytes; behind the exchange it is what the operator has, of a count no value
        (None, b'{"n": 3}', 6, b"null_key", b"1"),
        (b"a", b"true", 7, b"expired_window", b"3"),
        (b'{"key":"a","start":50,"end":60}', (1).to_bytes(8, "big"), 50, b"function_error", b"2"),
    ]
    assert told[0]["ts"] == b"6"
    assert {each[PREFIX + "topic"] for each in told} == {name.encode()}
    assert query.drops == {("counts", "dead_letter"): 3}
    assert query.metrics().consumed == {"in": 4}


def begun(name: str, known: str, dead: str, history: wm.Backfill, snapshot: wm.Snapshot) -> wm.Topology:
    """Counts of a topic that begins with its history, by windows; and a table that begins with a snapshot."""
    builder = wm.StreamsBuilder("begun", on_drop=wm.DeadLetter(dead))
    numbers = builder.stream(name, key="string", value=wm.json("n int"), name="in", bootstrap=history)
    limits = builder.table(known, key="string", value="int", name="limits", bootstrap=snapshot)
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    counts = numbers.group_by_key().windowed_by(windows).count(name="counts").to_stream()
    for output, called in ((counts, "counted"), (limits.to_stream(), "limited")):
        output.to(wm.ForeachBatch(lambda rows, batch: None), name=called)
    return builder.build()


def test_what_an_input_begins_with_is_a_dead_letter_as_the_operator_has_it_and_has_no_place_in_a_topic(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, known, dead = (new_topic(broker, part) for part in ("in", "known", "dead"))
    put(broker, name, Given(None, b'{"n": 8}', 60), Given(b"a", b'{ "n": 9 }', 61))
    rows = [("a", (2,), 5), (None, (3,), 6), ("a", (4,), 50), ("a", (5,), 7), ("a", (6,), -1)]
    frame = spark.createDataFrame(
        [(n, *row) for n, row in enumerate(rows)], "o int, k string, v struct<n: int>, t long"
    )
    history = wm.Backfill(frame, "k", value="v", timestamp="t", order="o", starting_offsets="earliest")
    table = spark.createDataFrame([("a", 1), (None, 2)], "k string, v int")
    snapshot = wm.Snapshot(table, "k", value="v", starting_offsets="earliest")

    def run() -> dict[tuple[str, str], int]:
        return ran(begun(name, known, dead, history, snapshot), spark, kafka, tmp_path).drops

    assert run() == {("in", "dead_letter"): 1, ("counts", "dead_letter"): 2, ("limits", "dead_letter"): 1}
    assert run() == {("counts", "dead_letter"): 1}
    letters = sorted(committed(broker, dead), key=lambda record: (record.time, record.value))
    told = [dict(record.headers or ()) for record in letters]
    assert [
        (record.key, record.value, record.time, each[PREFIX + "reason"], each.get(PREFIX + "offset"))
        for record, each in zip(letters, told, strict=True)
    ] == [
        # the earliest time that is written to Kafka is 1
        (None, (2).to_bytes(4, "big"), 1, b"null_key", None),
        (b"a", b'{"n":6}', 1, b"negative_timestamp", None),
        (None, b'{"n":3}', 6, b"null_key", None),
        (b"a", b"true", 7, b"expired_window", None),
        # what lives is as it came
        (None, b'{"n": 8}', 60, b"null_key", b"0"),
    ]
    assert [each.get(PREFIX + "topic") for each in told] == [None] * 4 + [name.encode()]


def test_a_changed_topology_may_have_other_policies(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, out, more, dead, other = (new_topic(broker, part) for part in ("in", "out", "more", "dead", "other"))

    def run(policy: Any, *, added: bool, evolve: bool) -> dict[tuple[str, str], int]:
        builder = wm.StreamsBuilder("changed", on_undecodable=policy, on_error=policy, on_drop=policy)
        numbers = builder.stream(name, key="string", value=wm.json("n int"), name="in")
        sums = numbers.group_by_key().agg(total=wm.sum(lambda value: value["n"]), name="sums")
        sums.to_stream().map_values(lambda value: F.lit(100) / value["total"]).to(out, name="out")
        if added:
            numbers.map_values(lambda value: value["n"]).group_by_key().count(name="counts").to_stream().to(more)
        return ran(builder.build(), spark, kafka, tmp_path, evolve=evolve).drops

    bad = [Given(None, b'{"n":1}'), Given(b"a", b"bad"), Given(b"b", b'{"n":0}')]
    put(broker, name, Given(b"a", b'{"n":20}'), *bad)
    found = run(wm.DeadLetter(dead), added=False, evolve=False)
    assert found == {("in", "dead_letter"): 1, ("sums", "dead_letter"): 2}
    put(broker, name, Given(b"a", b'{"n":5}'), *bad)
    found = run(wm.DeadLetter(other), added=True, evolve=True)
    assert found == {("in", "dead_letter"): 1, ("sums", "dead_letter"): 2, ("counts", "dead_letter"): 1}
    assert [len(committed(broker, topic)) for topic in (dead, other)] == [3, 4]
    assert [record.value for record in committed(broker, out)] == [b"5.0", b"4.0"]
    assert len(committed(broker, more)) == 2
