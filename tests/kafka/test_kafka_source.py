"""Kafka topics as sources, through a real broker: formats, order, headers, tombstones, undecodable bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import PARTITIONS, committed
from watersmeet._plan.nodes import Kind, Shape, SourceNode
from watersmeet._spark.dataflow.compile import SparkLayout, compile_plan
from watersmeet._spark.sources import topics
from watersmeet._spark.sources import topics as kafka_topics
from watersmeet._spark.sources.rows import Scan
from watersmeet._spark.sources.sources import scan
from watersmeet._spark.sources.topics import MOST_OF_POLL, partition_counts, reader_options, records_of_poll
from watersmeet._worker.formats.decode import HINT
from watersmeet._worker.formats.formats import type_of
from watersmeet._worker.wire import Labels, target_count
from watersmeet.errors import ConfigError, SourceError
from watersmeet.io.formats import json
from watersmeet.io.kafka import Kafka
from watersmeet.io.policies import DeadLetter
from watersmeet.io.topics import Topic

_NAMES = (f"topic-{n}" for n in itertools.count())


def source(name: str, topic: Topic, kind: Kind = "stream") -> SourceNode:
    return SourceNode(name, (), Shape(kind, type_of(topic.key), type_of(topic.value)), input=name, origin=topic)


def new_topic(broker: KafkaBroker, partitions: int = 1) -> str:
    name = next(_NAMES)
    broker.create_topics([name], partitions=partitions)
    return name


def produce(broker: KafkaBroker, topic: str, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> None:
    """Records of (key, value, timestamp), all to partition 0."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value, stamp in records:
        producer.produce(topic, key=key, value=value, timestamp=stamp, partition=0)
    assert producer.flush(30) == 0


def drained(frame: DataFrame) -> list[Row]:
    name = f"drained_{next(_NAMES).replace('-', '_')}"
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return frame.sparkSession.table(name).collect()


def in_order_of_arrival(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    place = 0
    for batch in batches:
        yield batch.append_column("place", pa.array(range(place, place + len(batch)), pa.int64()))
        place += len(batch)


def test_each_format_is_read_as_kafka_writes_it_and_a_null_value_is_a_tombstone(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    name = new_topic(broker)
    produce(broker, name, [(b"\xff" * 8, b'{"a":1}', 1000), (bytes(7) + b"\1", None, 2000), (None, b"{}", 3000)])
    (scanned,) = scan(spark, [source("one", Topic(name, "long", json("a int")))], kafka)
    rows = sorted(drained(scanned.frame), key=lambda row: row["offset"])
    assert [(r["s0_key"], r["s0_value"], r["ts"], r["partition"], r["offset"], r["reason"]) for r in rows] == [
        (-1, Row(a=1), 1000, 0, 0, 0),
        (1, None, 2000, 0, 1, 0),
        (None, Row(a=None), 3000, 0, 2, 0),
    ]
    assert dict(scanned.frame.dtypes)["reason"] == "tinyint"
    assert (scanned.roots, scanned.order) == (("one",), ())


def test_several_topics_are_one_source_and_each_row_is_of_one_root(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    first, second = new_topic(broker), new_topic(broker)
    produce(broker, first, [(b"a", b"x", 1)])
    produce(broker, second, [(b"b", b"\0\0\0\5", 2)])
    nodes = [source("one", Topic(first, "string", "string")), source("two", Topic(second, "bytes", "int"))]
    (scanned,) = scan(spark, nodes, kafka)
    found = {
        row["root"]: (row["s0_key"], row["s0_value"], row["s1_key"], row["s1_value"]) for row in drained(scanned.frame)
    }
    assert found == {0: ("a", "x", None, None), 1: (None, None, bytearray(b"b"), 5)}


def test_a_topic_that_is_read_twice_gives_its_records_to_both(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    name = new_topic(broker)
    produce(broker, name, [(b"a", b"1234", 1)])
    nodes = [source("text", Topic(name, "string", "string")), source("number", Topic(name, "bytes", "int"))]
    (scanned,) = scan(spark, nodes, kafka)
    assert {(r["root"], r["s0_value"], r["s1_value"]) for r in drained(scanned.frame)} == {
        (0, "1234", None),
        (1, None, 0x31323334),
    }


def test_headers_are_kept_where_a_topic_asks_for_them(spark: SparkSession, broker: KafkaBroker, kafka: Kafka) -> None:
    name = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(name, key=b"k", value=b"v", headers=[("h", b"1"), ("h", None), ("g", b"\xff")])
    assert producer.flush(30) == 0
    (with_headers,) = scan(spark, [source("h", Topic(name, "string", "string", headers=True))], kafka)
    (without,) = scan(spark, [source("n", Topic(name, "string", "string"))], kafka)
    assert "headers" not in without.frame.columns
    ((row),) = drained(with_headers.frame)
    assert [tuple(header) for header in row["headers"]] == [
        ("h", bytearray(b"1")),
        ("h", None),
        ("g", bytearray(b"\xff")),
    ]


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("value", b'{"a":"x"}', "value as json: a: an int is wanted where there is a string"),
        ("value", b"[]", "value as json: an object is wanted where there is an array"),
        ("key", b"\xff", "key as string: not valid UTF-8"),
    ],
)
def test_undecodable_bytes_fail_the_query_with_place_and_reason_though_nobody_reads_them(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, part: str, value: bytes, reason: str
) -> None:
    name = new_topic(broker, partitions=2)
    broken = (b"k", value, 1) if part == "value" else (value, b"{}", 1)
    produce(broker, name, [(b"k", b"{}", 1), broken])
    (scanned,) = scan(spark, [source("one", Topic(name, "string", json("a int")))], kafka)
    # neither key nor value is read: the check must not depend on it
    frame = scanned.frame.filter(F.col("reason") == 0).select("ts")
    with pytest.raises(StreamingQueryException) as error:
        drained(frame)
    assert f"Given: topic {name}, partition 0, offset 1, {reason}" in str(error.value)
    assert "Hint: " in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"\xff", b"x", "key as string: not valid UTF-8"),
        (b"k", b"abc", "value as long: long takes 8 bytes, there are 3"),
        (b"k", b"[]", "value as json: an object is wanted where there is an array"),
    ],
    ids=["a text", "a number", "JSON"],
)
def test_a_query_that_meets_undecodable_bytes_fails_with_one_error_wherever_they_are_decoded(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, key: bytes, value: bytes, reason: str
) -> None:
    name, out = new_topic(broker), new_topic(broker)
    produce(broker, name, [(key, value, 1)])
    b = wm.StreamsBuilder("undecodable")
    b.stream(name, key="string", value=json("a int") if "json" in reason else reason.split()[2][:-1]).to(out)
    query = b.build().start(
        spark, checkpoint=str(tmp_path / "cp"), local_cache=str(tmp_path / "cache"), available_now=True, kafka=kafka
    )
    with pytest.raises(SourceError) as error:
        query.awaitTermination()
    assert error.value.message == f"The {reason.split()[0]} of a Kafka record cannot be decoded."
    assert error.value.given == f"topic {name}, partition 0, offset 0, {reason}"
    assert error.value.hint == HINT


def test_a_bad_record_stops_a_query_and_the_same_checkpoint_goes_on_when_it_is_to_be_skipped(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, out, dead = new_topic(broker), new_topic(broker, PARTITIONS), new_topic(broker, PARTITIONS)
    produce(broker, name, [(b"a", b'{"a":1}', 1), (b"b", b'{"a":', 2), (b"c", b'{"a":3}', 3)])

    def run(policy: Any) -> Any:
        b = wm.StreamsBuilder("bad")
        records = b.stream(name, key="string", value=json("a int"), on_undecodable=policy, name="in")
        records.to_table(store="kept").to_stream().to(out)
        given: dict[str, Any] = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "cache")}
        query = b.build().start(spark, available_now=True, kafka=kafka, **given)
        query.awaitTermination()
        return query

    with pytest.raises(SourceError, match=r'Hint: .*on_undecodable="skip"'):
        run("fail")
    assert run("skip").drops == {("in", "undecodable"): 1}
    produce(broker, name, [(b"d", b"4", 4), (b"e", b'{"a":5}', 5)])
    with pytest.raises(SourceError, match=r"Hint: .*wm\.DeadLetter"):
        run("fail")
    assert run(DeadLetter(dead)).drops == {("in", "dead_letter"): 1}
    produce(broker, name, [(b"f", b"6", 6), (b"g", b'{"a":7}', 7)])
    assert run("skip").drops == {("in", "undecodable"): 1}
    assert sorted(record.key or b"" for record in committed(broker, out)) == [b"a", b"c", b"e", b"g"]
    assert [(record.key, record.value) for record in committed(broker, dead)] == [(b"d", b"4")]


def test_plain_formats_beside_json_and_a_topic_that_is_read_twice_come_through(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    texts, objects = new_topic(broker), new_topic(broker)
    out, raw = new_topic(broker, PARTITIONS), new_topic(broker, PARTITIONS)
    produce(broker, texts, [(b"a", b"text", 1), (b"b", None, 2), (None, b"\xff", 3)])
    produce(broker, objects, [(b"a", b'{"a":7}', 4), (b"\xff", b"{}", 5), (b"b", b"null", 6)])
    b = wm.StreamsBuilder("mixed")
    b.stream(texts, key="string", value="string", on_undecodable="skip", name="one").to(out, name="first")
    b.stream(texts, key="bytes", value="bytes", name="two").to(raw, name="second")
    more = b.stream(objects, key="string", value=json("a int"), on_undecodable="skip", name="three")
    more.map_values(lambda key, value: value["a"].cast("string")).to(out, name="third")
    query = b.build().start(
        spark, checkpoint=str(tmp_path / "cp"), local_cache=str(tmp_path / "cache"), available_now=True, kafka=kafka
    )
    query.awaitTermination()
    decoded, same = (
        sorted((record.key or b"-", record.value or b"-") for record in committed(broker, topic))
        for topic in (out, raw)
    )
    # the text null is a null, as in a topic of Kafka Connect
    assert decoded == [(b"a", b"7"), (b"a", b"text"), (b"b", b"-"), (b"b", b"-")]
    assert same == [(b"-", b"\xff"), (b"a", b"text"), (b"b", b"-")]
    assert query.drops == {("one", "undecodable"): 1, ("three", "undecodable"): 1}


def test_skipped_records_have_a_reason_and_no_value_and_are_never_tombstones(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    name = new_topic(broker)
    produce(broker, name, [(b"a", b'{"a":"x"}', 1), (b"b", None, 2), (b"\xff", b"{}", 3), (b"c", b'{"a":1}', 4)])
    topic = Topic(name, "string", json("a int"), on_undecodable="skip")
    (scanned,) = scan(spark, [source("one", topic)], kafka)
    rows = sorted(drained(scanned.frame), key=lambda row: row["offset"])
    assert [(r["s0_key"], r["s0_value"], r["reason"]) for r in rows] == [
        ("a", None, 2),
        ("b", None, 0),
        (None, Row(a=None), 2),
        ("c", Row(a=1), 0),
    ]


def test_a_partition_is_read_by_one_task_in_order_of_offset(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    name = new_topic(broker, partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(3000):
        producer.produce(name, key=str(number % 100), value=str(number))
    assert producer.flush(30) == 0
    (scanned,) = scan(spark, [source("one", Topic(name, "string", "string"))], kafka)
    frame = scanned.frame.select("partition", "offset", F.spark_partition_id().alias("task"))
    rows = drained(frame.mapInArrow(in_order_of_arrival, "partition int, offset long, task int, place long"))
    assert len(rows) == 3000
    for partition in range(3):
        mine = [row for row in rows if row["partition"] == partition]
        assert len({row["task"] for row in mine}) == 1
        assert [row["offset"] for row in sorted(mine, key=lambda row: row["place"])] == list(range(len(mine)))


def test_the_rate_limit_cuts_a_backlog_into_batches(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    name = new_topic(broker)
    produce(broker, name, [(b"k", b"v", 1)] * 100)
    limited = Kafka(broker.bootstrap_servers, max_records_per_batch=40)
    (scanned,) = scan(spark, [source("one", Topic(name, "string", "string"))], limited)
    query = scanned.frame.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [
        40,
        40,
        20,
    ]


def test_a_global_table_is_read_from_its_beginning_though_all_else_begins_at_the_end(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    name, latest = new_topic(broker), Kafka(broker.bootstrap_servers, starting_offsets="latest")
    produce(broker, name, [(b"a", b"x", 1), (b"b", b"y", 2)])
    topic = Topic(name, "string", "string")
    stream, table = scan(spark, [source("stream", topic), source("table", topic, "global")], latest)
    assert drained(stream.frame) == []
    assert [row["s1_key"] for row in drained(table.frame)] == ["a", "b"]


@pytest.mark.parametrize("way", ["client", "spark"])
def test_partition_counts_are_the_topics_own_and_a_missing_topic_is_an_error(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, way: str
) -> None:
    one, three = new_topic(broker, 1), new_topic(broker, 3)
    count = partition_counts if way == "client" else topics._counts_by_spark
    assert count(spark, [three, one, three], kafka) == {one: 1, three: 3}
    with pytest.raises(ConfigError, match=r"(Unknown|does not have a) topic(.|\n)*no-such-topic(.|\n)*Hint: "):
        count(spark, [one, "no-such-topic"], kafka)


def test_json_goes_to_the_workers_once_and_with_what_packs_it_where_no_function_stands_between(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    records = spark.createDataFrame(
        [("t", 0, 0, None, b"k", b"{}")],
        "topic string, partition int, offset long, timestamp timestamp, key binary, value binary",
    )
    node = source("one", Topic("t", "string", json("a int, b string, c array<string>")))
    read = kafka_topics.topic_rows(records, [(0, node)], headers=False)
    assert "frame" not in vars(read)
    read.frame.explain()
    assert capsys.readouterr().out.count("MapInArrow ") == 1
    read.bare.explain()
    assert capsys.readouterr().out.count("MapInArrow ") == 0
    assert set(read.frame.columns) == set(read.schema.names)
    plain = kafka_topics.topic_rows(records, [(0, source("one", Topic("t", "string", "long")))], headers=False)
    assert {each.name: each.dataType for each in plain.frame.schema} == {s.name: s.dataType for s in plain.schema}


def test_topics_are_decoded_by_spark_only_where_a_function_of_sparks_asks_for_it(spark: SparkSession) -> None:
    columns = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
    records = spark.createDataFrame([("t", 0, 0, None, b"k", b"v")], columns)

    def decoded(mapper: Callable[[Column], Column]) -> bool:
        b = wm.StreamsBuilder("asked")
        b.stream("t", key="string", value="string").map_values(mapper).to("out")
        physical = b.build().physical
        rows = kafka_topics.topic_rows(records, list(enumerate(physical.plan.sources)), headers=False)
        layout = SparkLayout(Labels(1, target_count(physical)), 1, None, False, False)
        compile_plan(physical, [Scan(rows, tuple(s.name for s in physical.plan.sources))], layout)
        return "frame" in vars(rows)

    assert not decoded(F.upper)
    assert not decoded(lambda value: F.regexp_replace(value, "a", "b"))
    assert decoded(F.initcap)


def test_a_login_reaches_both_clients_in_their_own_words() -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": 'a"b', "sasl_password": "c\\d"}
    kafka = Kafka("h:1", security_protocol="SASL_SSL", **login, ssl_ca_location="/ca")
    assert kafka_topics.java_settings(kafka) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="a\\"b" password="c\\\\d";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca",
    }


def test_no_secret_is_in_a_plan_nor_in_an_error_over_it(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = Kafka("h:1", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="me",
                  sasl_password="canary-1", consumer={"ssl.keystore.password": "canary-2"})  # fmt: skip
    (scanned,) = scan(spark, [source("one", Topic("t", "string", "string"))], kafka)
    scanned.frame.explain(True)
    with pytest.raises(AnalysisException) as error:
        scanned.frame.select(F.monotonically_increasing_id()).writeStream.format("noop").start()
    assert "canary" not in capsys.readouterr().out + str(error.value) + repr(kafka)


def test_records_of_a_transaction_are_read_when_it_is_committed_and_never_when_it_is_taken_back(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    name = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    for value, end in ((b"back", producer.abort_transaction), (b"in", producer.commit_transaction), (b"open", None)):
        producer.begin_transaction()
        producer.produce(name, value=value, partition=0)
        assert producer.flush(30) == 0
        if end is not None:
            end(60)
    (scanned,) = scan(spark, [source("one", Topic(name, "string", "string"))], kafka)
    assert [row["s0_value"] for row in drained(scanned.frame)] == ["in"]
    producer.commit_transaction(60)
    assert [row["s0_value"] for row in drained(scanned.frame)] == ["in", "open"]


def test_a_batch_of_many_partitions_is_read_in_no_more_tasks_than_run_at_a_time(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, out = new_topic(broker, 6), new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(60):
        producer.produce(name, str(number), b"k", partition=number % 6, timestamp=1_000 + number)
    assert producer.flush(30) == 0
    builder = wm.StreamsBuilder("many")
    builder.stream(name, key="string", value="string").to(out)
    query = builder.build().start(spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, available_now=True, tasks=2)
    query.awaitTermination()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    assert {stage.numTasks for stage in stages if stage is not None} == {spark.sparkContext.defaultParallelism}


def test_a_misspelt_column_and_times_in_seconds_are_warnings_of_the_driver_on_the_users_own_line(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name, out = new_topic(broker, partitions=2), new_topic(broker)
    produce(broker, name, [(b"%d" % n, b'{"id":1,"name":"ann"}', 1_769_000_000 + n) for n in range(1, 20)])
    b = wm.StreamsBuilder("misspelt")
    b.stream(name, key="string", value=json("id int, nmae string"), name="in").to(out)
    given: dict[str, Any] = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "cache")}
    query = b.build().start(spark, available_now=True, kafka=kafka, **given)
    with pytest.warns(UserWarning, match="No value of the first 19 of 'in' has 'nmae'.*name") as heard:
        query.awaitTermination()
    assert [warning.filename for warning in heard] == [__file__] * 2
    assert "a time in 1970" in str(heard[0].message)


def test_a_poll_gives_as_many_records_as_fit_into_the_heap_if_each_is_as_large_as_its_topic_allows(
    spark: SparkSession, broker: KafkaBroker
) -> None:
    kafka = Kafka(broker.bootstrap_servers)
    usual, large = new_topic(broker), next(_NAMES)
    broker.create_topics([large], config={"max.message.bytes": "100000000"})
    polls = {topic: records_of_poll(spark, kafka, [topic]) for topic in (usual, large)}
    assert 1 <= polls[large] * 50 <= polls[usual] <= MOST_OF_POLL
    assert records_of_poll(spark, kafka, [usual, large]) == polls[large]
    # nobody is asked where only Java can log in
    java = Kafka("nowhere:1", consumer={"security.protocol": "PLAINTEXT"})
    assert records_of_poll(spark, java, [large]) == polls[usual]
    settings: list[dict[str, Any]] = [
        {"consumer": {"max.poll.records": "7"}},
        {"source": {"kafka.max.poll.records": "7"}},
    ]
    for each in settings:
        options = reader_options(Kafka("host:1", **each), [usual], headers=False, poll=3)
        assert options["kafka.max.poll.records"] == "7"
