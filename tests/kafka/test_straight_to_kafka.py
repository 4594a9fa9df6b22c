"""Sinks of text, bytes, numbers and JSON, written from wire rows: the same records in order, all of them or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet._engine import row_sizes
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.serdes import JsonSerde, Serde
from watersmeet._worker.wire import END, Exits, Labels, written_by_spark
from watersmeet._worker.writers.kafka import KafkaWrite, WriteTopics
from watersmeet.errors import SinkError

RECORDS = 2_000
LONGS = (0, -1, 2**53 + 1, -(2**63), 2**63 - 1)


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def produced(broker: KafkaBroker) -> tuple[str, str]:
    left, right = new_topic(broker, "left"), new_topic(broker, "right")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at in range(RECORDS):
        for topic, value in ((left, f"{at}é"), (right, f"|{at}")):
            body = None if at % 13 == 12 else value.encode()
            producer.produce(topic, key=long(LONGS[at % 5] if at % 2 else at % 40), value=body, timestamp=1_000 + at)
    assert producer.flush(60) == 0
    return left, right


def run(spark: SparkSession, kafka: wm.Kafka, folder: Path, b: wm.StreamsBuilder, *, limit: int = 1_500) -> None:
    topology = b.build()
    limited = wm.Kafka(kafka.bootstrap_servers, max_records_per_batch=limit)
    query = topology.start(
        spark, checkpoint=str(folder / "cp"), kafka=limited, available_now=True, local_cache=str(folder / "c")
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    assert progress.batchId >= 1


def by_key(broker: KafkaBroker, topic: str) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    found: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for record in committed(broker, topic):
        found.setdefault(record.key, []).append((record.value, record.time))
    return found


@pytest.mark.parametrize("join", ["table_table", pytest.param("foreign_key", marks=pytest.mark.proof)])
def test_records_are_those_that_go_through_columns_and_each_key_keeps_its_order(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, join: str
) -> None:
    sides = produced(broker)
    outs = []
    # a joiner that no level evaluates goes the other way, up to the last exchange, and another format all the way
    for place, (joiner, format) in enumerate([("level", "string"), ("columns", "string"), ("columns", "bytes")]):
        b = wm.StreamsBuilder("straight")
        left, right = (b.table(topic, key="long", value="string") for topic in sides)
        made = F.concat if joiner == "level" else lambda one, two: F.concat(one, F.lit(""), two)
        options: dict[str, Any] = {"foreign_key": lambda value: F.length(value).cast("long")}
        joined = left.left_join(right, made, **(options if join == "foreign_key" else {}))
        outs.append(new_topic(broker))
        if format == "bytes":
            # JSON whose names are numbers has no reader, so no worker writes it: Spark does
            named = new_topic(broker)
            joined.to_stream().map_values(lambda value: F.create_map(F.lit(1), value)).to(named, value="json")
        joined.to(outs[-1])
        run(spark, kafka, tmp_path / str(place), b)
    found = [by_key(broker, out) for out in outs]
    assert found[0] == found[1] == found[2]
    texts = {
        # a tombstone passes map_values as it is
        key: [None if text is None else json.loads(text)["1"] for text, _ in records]
        for key, records in by_key(broker, named).items()
    }
    assert texts == {
        key: [None if value is None else value.decode() for value, _ in records] for key, records in found[2].items()
    }
    assert {long(number) for number in LONGS} <= set(found[0])
    assert any(value is None for records in found[0].values() for value, _ in records)


def test_several_sinks_and_formats_are_written_in_one_pass(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    source, _ = produced(broker)
    texts, lengths, raw = (new_topic(broker) for _ in range(3))
    b = wm.StreamsBuilder("several")
    stream = b.stream(source, key="long", value="string")
    stream.to(texts)
    stream.map(lambda key, value: (value, F.length(value))).to(lengths)
    stream.map_values(lambda value: value.cast("binary")).to(raw, key="long", value="bytes")
    run(spark, kafka, tmp_path, b)
    given = [(r.key, r.value) for r in committed(broker, source)]
    assert sorted(((r.key, r.value) for r in committed(broker, texts)), key=repr) == sorted(given, key=repr)
    wanted = [(v, None if v is None else len(v.decode()).to_bytes(4, "big")) for _, v in given]
    assert sorted(((r.key, r.value) for r in committed(broker, lengths)), key=repr) == sorted(wanted, key=repr)
    assert sorted(((r.key, r.value) for r in committed(broker, raw)), key=repr) == sorted(given, key=repr)


@pytest.mark.parametrize("way", [pytest.param("text", marks=pytest.mark.proof), "json", "columns"])
def test_two_sinks_of_one_topic_keep_each_keys_order(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, way: str
) -> None:
    source, out = new_topic(broker, "source"), new_topic(broker, "out")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at in range(120):
        producer.produce(source, key=b"abc"[at % 3 : at % 3 + 1], value=str(at).encode(), timestamp=1_000 + at)
    assert producer.flush(60) == 0
    b = wm.StreamsBuilder("halves")
    stream = b.stream(source, key="string", value="string")
    stream.filter(lambda value: value % 2 == 0).to(out)
    odd = stream.filter_not(lambda value: value % 2 == 0)
    odd.to(out) if way == "text" else odd.map_values(lambda value: value.cast("int")).to(out, value="json")
    if way == "columns":
        odd.to(wm.Writer("noop"), name="beside")
    run(spark, kafka, tmp_path, b, limit=90)
    found = {key: [int(value or 0) for value, _ in records] for key, records in by_key(broker, out).items()}
    assert found == {key: list(range(at, 120, 3)) for at, key in enumerate((b"a", b"b", b"c"))}


def test_json_of_types_that_no_worker_writes_is_written_by_spark_and_all_else_is_not(spark: SparkSession) -> None:
    def by_spark(build: Any) -> dict[str, tuple[str, ...]]:
        b = wm.StreamsBuilder("formats")
        build(b)
        return written_by_spark(b.build().physical)

    assert not by_spark(lambda b: b.stream("in", key="long", value="bytes").to("out"))
    assert not by_spark(lambda b: b.stream("in", key="int", value="string").to("out", value="string"))
    assert not by_spark(lambda b: b.stream("in", key="long", value="string").to("out", key="json"))
    assert not by_spark(lambda b: b.stream("in", key="long", value=wm.json("a int, m map<string,date>")).to("out"))
    # names that are no strings
    by_day = F.create_map(F.lit(1), F.lit(2))
    days = by_spark(lambda b: b.stream("in", key="long", value="string").map_values(lambda value: by_day).to("out"))
    assert list(days.values()) == [("value",)]
    nowhere = wm.Writer("noop")
    assert not by_spark(
        lambda b: b.stream("in", key="long", value="string").map_values(lambda value: by_day).to(nowhere, name="no")
    )


def test_json_is_what_goes_through_columns(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    sides, outs = produced(broker), [new_topic(broker) for _ in range(2)]
    at = F.timestamp_micros(F.lit(1_577_836_800_123_456))

    def pair(one: Any, two: Any) -> Any:
        return F.struct(one.alias("a"), F.array(two).alias("b"), (F.length(one) / 3).alias("c"), at.alias("d"))

    for place, out in enumerate(outs):
        b = wm.StreamsBuilder("json")
        left, right = (b.table(topic, key="long", value="string") for topic in sides)
        stream = left.left_join(right, pair).to_stream()
        stream = stream.select_key(lambda key, value: F.struct(key.alias("k"), F.length(value["a"]).alias("n")))
        stream.to(out)
        if place:
            stream.to(wm.Writer("noop"), name="beside")
        run(spark, kafka, tmp_path / str(place), b)
    found = [by_key(broker, out) for out in outs]
    assert found[0] == found[1]
    assert any(b'"b":["|' in (value or b"") for records in found[0].values() for value, _ in records)
    assert any(value is None for records in found[0].values() for value, _ in records)


class Told(KafkaWrite):
    """Writes down what it would write."""

    def __call__(self, batches: Iterator[pa.RecordBatch], ended: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if ended():
            yield pa.RecordBatch.from_pydict({"topic": [-2]})


PLAIN: tuple[dict[str, Serde], ...] = ({}, {})
EXITS = Exits(Labels(2, 3, tuple(range(6)), (10, 11)), ("one", "two"), {0: 0, 1: 1}, 1)


def wire(rows: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    labels, ports, blobs = zip(*rows, strict=True)
    types = {"label": pa.int32(), "port": pa.int32(), "blob": pa.binary()}
    arrays = [pa.array(each, kind) for each, kind in zip((labels, ports, blobs), types.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def routed_batch(*offsets: int) -> bytes:
    columns = {name: [0] * len(offsets) for name in ("order_ts", "srcpart", "p0", "ts", "hash")}
    return row_sizes.encode(
        pa.table({**columns, "offset": list(offsets), "key": list(offsets), "value": ["v"] * len(offsets)})
    )


def test_blobs_of_a_shard_become_one_run_of_records_in_order_and_the_end_is_told_last() -> None:
    write = WriteTopics(Told(b"", ("one", "two"), None, 0), EXITS, PLAIN)
    rows = [
        (2, 0, routed_batch(5, 3)),
        (2, 0, routed_batch(4)),
        (4, 1, routed_batch(1)),
        (10, END, b""),
        (10, END, b""),
    ]
    batches = list(write(iter([wire(rows[:1]), wire(rows[1:])])))
    keys = [[int.from_bytes(key, "big") for key in batch["key"].to_pylist()] for batch in batches[:-1]]
    assert keys == [[3, 4, 5], [1]]
    assert [batch["topic"].to_pylist() for batch in batches] == [[0, 0, 0], [1], [-2]]


def test_blobs_of_two_sinks_of_one_topic_become_one_run_of_records() -> None:
    write = WriteTopics(Told(b"", ("out", "out"), None, 0), EXITS, PLAIN)
    batches = list(write(iter([wire([(2, 1, routed_batch(5, 2)), (2, 0, routed_batch(4, 1, 3)), (10, END, b"")])])))
    assert [int.from_bytes(key, "big") for key in batches[0]["key"].to_pylist()] == [1, 2, 3, 4, 5]
    assert batches[0]["topic"].to_pylist() == [0, 1, 0, 0, 1]


def test_json_of_a_blob_has_the_names_of_its_type_and_few_records_keep_their_place() -> None:
    kind = StructType([StructField("id", LongType()), StructField("name", StringType())])
    given = [{"o0_key": 1, "name": 'a"ö'}, None, {"o0_key": None, "name": None}]
    columns = {name: [0, 0, 0] for name in ("order_ts", "srcpart", "p0", "ts", "hash")}
    values = pa.array(given, pa.struct([("o0_key", pa.int64()), ("name", pa.string())]))
    rows = row_sizes.encode(pa.table({**columns, "offset": [3, 1, 2], "key": [7, 8, 9], "value": values}))
    for limit in (0, 1 << 20):
        told = Told(b"", ("one", "two"), None, 0, limit)
        write = WriteTopics(told, EXITS, ({"value": JsonSerde(kind), "key": JsonSerde(LongType())}, {}))
        (batch, _) = write(iter([wire([(2, 0, rows), (10, END, b"")])]))
        assert batch["key"].to_pylist() == [b"8", b"9", b"7"]
        assert batch["value"].to_pylist() == [None, b'{"id":null,"name":null}', '{"id":1,"name":"a\\"ö"}'.encode()]
        assert ("offset" in batch.schema.names) is (limit > 0)
    beside = row_sizes.encode(pa.table({**columns, "offset": [4, 0, 5], "key": ["x"] * 3, "value": ["v"] * 3}))
    write = WriteTopics(Told(b"", ("out", "out"), None, 0), EXITS, ({"value": JsonSerde(kind)}, {}))
    (batch, _) = write(iter([wire([(2, 0, rows), (2, 1, beside), (10, END, b"")])]))
    assert batch["topic"].to_pylist() == [1, 0, 0, 0, 1, 1]
    assert batch["key"].to_pylist() == [b"x", long(8), long(9), long(7), b"x", b"x"]
    assert batch["value"].to_pylist()[:3] == [b"v", None, b'{"id":null,"name":null}']


def test_windowed_keys_are_placed_by_the_key_within_and_those_of_other_sinks_by_themselves() -> None:
    names = ("order_ts", "srcpart", "p0", "ts", "hash")
    kind = pa.struct([("o0_key", pa.string()), ("o0_start", pa.int64()), ("o0_end", pa.int64())])
    keys = pa.array([{"o0_key": "a", "o0_start": 5, "o0_end": 15}, None], kind)
    columns = {name: [0, 0] for name in names} | {"offset": [2, 1], "value": ["v", "w"]}
    windowed, beside = (
        row_sizes.encode(pa.table({**columns, "key": keys})),
        row_sizes.encode(pa.table({**columns, "key": [7, 8]})),
    )
    windows = serde_of(wm.time_windowed("string"))
    serdes: dict[str, Serde] = {"key": windows, "prefix": windows}
    alone = WriteTopics(Told(b"", ("one", "two"), None, 0), EXITS, (serdes, {}))
    (first, second, _) = alone(iter([wire([(2, 0, windowed), (4, 1, beside), (10, END, b"")])]))
    assert first["key"].to_pylist() == [None, b"a" + long(5)]
    assert first["prefix"].to_pylist() == [None, b"a"]
    assert second["prefix"].to_pylist() == [None, None]
    together = WriteTopics(Told(b"", ("out", "out"), None, 0, 1 << 20), EXITS, (serdes, {}))
    (batch, _) = together(iter([wire([(2, 0, windowed), (2, 1, beside), (10, END, b"")])]))
    assert batch["key"].to_pylist() == [None, long(8), b"a" + long(5), long(7)]
    assert batch["prefix"].to_pylist() == [None, None, b"a", None]


def test_keys_and_values_that_are_written_already_leave_as_they_are_and_go_where_the_key_within_says() -> None:
    kind = pa.struct([("key", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
    columns: dict[str, list[Any]] = {name: [0, 0] for name in ("order_ts", "srcpart", "p0", "ts", "hash")}
    columns |= {"offset": [2, 1]}
    columns |= {"value": [b"v", b"w"], "encoded_key": [b"a", b"b"]}
    keys = pa.array([{"key": "one", "start": 5, "end": 15}, {"key": "two", "start": 5, "end": 15}], kind)
    rows = row_sizes.encode(pa.table({**columns, "key": keys}))
    windows = serde_of(wm.time_windowed("string"))
    serdes: dict[str, Serde] = {"key": windows, "prefix": windows}
    beside = row_sizes.encode(
        pa.table({name: columns.get(name, [7, 8]) for name in ("key", *columns) if "_key" not in name})
    )
    alone = WriteTopics(Told(b"", ("one", "two"), None, 0), EXITS, (serdes, {}))
    (first, _) = alone(iter([wire([(2, 0, rows), (10, END, b"")])]))
    together = WriteTopics(Told(b"", ("out", "out"), None, 0, 1 << 20), EXITS, (serdes, {}))
    (both, _) = together(iter([wire([(2, 0, rows), (2, 1, beside), (10, END, b"")])]))
    for batch in (first, both):
        mine = batch.filter(pa.compute.equal(batch["topic"], 0))
        assert mine.select(["key", "value", "prefix"]).to_pylist() == [
            {"key": b"b", "value": b"w", "prefix": b"two"},
            {"key": b"a", "value": b"v", "prefix": b"one"},
        ]
        assert "encoded_key" not in batch.schema.names
    assert both["key"].to_pylist() == [b"b", long(8), b"a", long(7)]


def test_rows_without_an_end_are_not_the_whole() -> None:
    write = WriteTopics(Told(b"", ("one", "two"), None, 0), EXITS, PLAIN)
    batches = list(write(iter([wire([(2, 0, routed_batch(1))])])))
    assert [batch["topic"].to_pylist() for batch in batches] == [[0]]


class Cut:
    """Takes the ends out of the rows on their way to the sink: as if what is above it had broken off."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pa.compute.not_equal(batch["port"], END))


def test_a_task_that_did_not_see_the_end_commits_nothing(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = produced(broker)
    out = new_topic(broker)
    b = wm.StreamsBuilder("cut")
    b.stream(source, key="long", value="string").to(out)
    wire = CompiledFrame.wire
    monkeypatch.setattr(
        CompiledFrame,
        "wire",
        lambda compiled, sinks: wire(compiled, sinks).mapInArrow(Cut(), compiled.frame.schema),
    )
    with pytest.raises(SinkError, match=r"The rows of a task broke off"):
        run(spark, kafka, tmp_path, b)
    assert committed(broker, out) == []
    monkeypatch.undo()
    run(spark, kafka, tmp_path, b)
    assert len(committed(broker, out)) == RECORDS


def test_headers_come_along(spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path) -> None:
    source, table, out = (new_topic(broker, name) for name in ("source", "table", "out"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(table, key=b"k", value=b"+", timestamp=500)
    for at, headers in enumerate([[("a", b"1"), ("a", None)], None, [("é", b"")]]):
        producer.produce(source, key=b"k", value=str(at).encode(), timestamp=1_000 + at, headers=headers)
    assert producer.flush(30) == 0
    b = wm.StreamsBuilder("headers")
    right = b.table(table, key="string", value="string")
    left = b.stream(wm.Topic(source, key="string", value="string", headers=True))
    left.join(right, F.concat).select_key(lambda value: value).to(out)
    topology = b.build()
    query = topology.start(
        spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, available_now=True, local_cache=str(tmp_path / "c")
    )
    query.awaitTermination()
    found = sorted((record.key, record.headers) for record in committed(broker, out))
    assert found == [(b"0+", (("a", b"1"), ("a", None))), (b"1+", ()), (b"2+", (("é", b""),))]


def test_a_query_that_begins_with_empty_topics_goes_on_when_records_come(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    left, right, out = (new_topic(broker, name) for name in ("left", "right", "out"))
    b = wm.StreamsBuilder("empty")
    one, two = (b.table(topic, key="string", value="string") for topic in (left, right))
    one.join(two, F.concat).to(out)
    query = b.build().start(spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, local_cache=str(tmp_path / "c"))
    try:
        query.processAllAvailable()
        # there is a first batch, and it has nothing
        assert [p.numInputRows for p in query.recentProgress if p.batchId == 0][:1] == [0]
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for topic in (left, right):
            producer.produce(topic, key=b"k", value=topic.encode())
        assert producer.flush(30) == 0
        query.processAllAvailable()
    finally:
        query.stop()
    assert [(r.key, r.value) for r in committed(broker, out)][-1:] == [(b"k", f"{left}{right}".encode())]
