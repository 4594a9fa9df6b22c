"""What a start makes of the topics that a pattern matches, of a Kafka that is made up."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet._engine.exchange import refuse_far
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.tree import Call, EvaluationError, Operand
from watersmeet._plan.evolve import described
from watersmeet._plan.logical import Plan
from watersmeet._spark.checkpoint import pattern_topics
from watersmeet._spark.checkpoint.pattern_topics import KnownTopics, TopicNumbers
from watersmeet._spark.checkpoint.record import TOPICS, carried_offsets
from watersmeet._spark.query.failures import kafka_failure
from watersmeet._spark.sources import sources
from watersmeet._spark.sources import topics as partitions
from watersmeet._worker import kafka_client
from watersmeet._worker.task_reports import BatchRequest

KAFKA = wm.Kafka("host:1", starting_offsets="latest")
READ: dict[str, Any] = {"key": "string", "value": "string"}


def topology(*inputs: Any) -> wm.Topology:
    """All inputs into files."""
    builder = wm.StreamsBuilder("matched")
    streams = [builder.stream(each, **READ, name=f"input-{number}") for number, each in enumerate(inputs)]
    merged = streams[0]
    for stream in streams[1:]:
        merged = merged.merge(stream)
    merged.to(wm.Writer("parquet", path="/data/out"), name="files")
    return builder.build()


def plan_of(*inputs: Any) -> Plan:
    return topology(*inputs).physical.plan


def test_a_topic_of_kafkas_own_matches_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"orders": 1, "__consumer_offsets": 50, "__transaction_state": 50, "__mine": 2}
    monkeypatch.setattr(kafka_client, "can_ask", lambda kafka: True)
    monkeypatch.setattr(partitions, "counts_by_client", lambda kafka: there)
    spark: Any = None
    assert partitions.matching_topics(spark, [".*"], KAFKA) == {"orders": 1, "__mine": 2}


@pytest.mark.parametrize(("added", "begun"), [("input-1", {"one"}), ("input-0", {"one", "orders-new"})])
def test_a_topic_that_only_an_unchanged_pattern_matches_is_left_to_spark_which_reads_it_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, added: str, begun: set[str]
) -> None:
    def matching(spark: Any, patterns: Collection[str], kafka: Any) -> dict[str, int]:
        return {"orders-a": 1, "orders-new": 1} if "orders-.*" in patterns else {}

    def ends(kafka: Any, topics: Collection[str], start: str) -> dict[str, dict[str, int]]:
        return {topic: {"0": 7} for topic in topics}

    monkeypatch.setattr(sources, "matching_topics", matching)
    monkeypatch.setattr(sources, "beginnings", ends)
    spark: Any = None
    found = sources.begun_topics(spark, plan_of(wm.TopicPattern("orders-.*"), "one").sources, KAFKA, {added})
    plan = 'v1\n{"batchWatermarkMs":0}\n{"orders-a":{"0":3}}'
    (made,) = carried_offsets(plan, [TOPICS], [TOPICS], found).split("\n")[2:]
    # a topic that is not in the plan is new to Spark
    assert json.loads(made) == {"orders-a": {"0": 3}} | {topic: {"0": 7} for topic in begun}


def test_only_files_beside_a_pattern_are_no_list_of_sparks_since_each_batch_tells_its_topics_first() -> None:
    for inputs, listed in (((wm.TopicPattern("orders-.*"), "one"), False), (("one",), True)):
        physical = topology(*inputs).physical
        assert physical.plan.one_writer is listed
        assert described(physical, {})["sinks"]["files"]["listed"] is listed


@pytest.mark.parametrize("anew", ["returns-a", "orders-a"])
def test_a_topic_that_no_pattern_reads_any_more_may_be_made_anew(monkeypatch: pytest.MonkeyPatch, anew: str) -> None:
    known = KnownTopics({"input-0": ["orders-a"], "gone": ["returns-a"]}, {"orders-a": "1", "returns-a": "1"})
    monkeypatch.setattr(KnownTopics, "read", lambda checkpoint: known)

    def asking(kafka: Any, topics: Collection[str]) -> Any:
        return lambda: {topic: "2" if topic == anew else "1" for topic in topics}

    monkeypatch.setattr(pattern_topics, "asking", asking)
    lines: list[Mapping[str, Any]] = []
    files = SimpleNamespace(append=lambda folder, line: lines.append(json.loads(line)))
    checkpoint: Any = SimpleNamespace(
        folder=files,
        spark_folder=SimpleNamespace(text=lambda path: 'v1\n{}\n{"orders-a":{"0":1}}'),
        facts=SimpleNamespace(inputs=[TOPICS]),
    )

    def numbers() -> TopicNumbers:
        read = plan_of(wm.TopicPattern("orders-.*")).sources
        return TopicNumbers(checkpoint, read, KAFKA, lambda: None, allow_recreated=False)

    if anew == "orders-a":
        with pytest.raises(wm.SourceError, match="topic orders-a: its id was 1, it is 2"):
            numbers()
        return
    made = numbers()
    made.before(BatchRequest(1))
    made.before(BatchRequest(2))
    # its id is forgotten, once: a pattern that reads it later may find another
    assert lines == [{"batch": 1, "joined": {}, "gone": ["returns-a"], "ids": {}}]


@pytest.mark.parametrize("parts", ["Set(a-0, a-1)", "HashSet(b-1, a-0, c.d-3, a-2, a-1)", "a-0,a-1"])
def test_the_partitions_of_deleted_topics_are_told_however_many_they_are(parts: str) -> None:
    error = kafka_failure(f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Partitions {parts} have been deleted")
    assert str(error).startswith("Topics that this query reads are gone, or partitions of them.")
    assert f"partitions {parts.removeprefix('Hash').removeprefix('Set').strip('()')}\n" in str(error)


def test_topics_that_are_created_during_a_start_are_no_lost_records() -> None:
    error = kafka_failure("[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka start offsets")
    assert str(error) == "Topics or partitions were created or deleted during the start.\nHint: Start it again."


def test_errors_about_records_as_spark_gives_them_say_the_topic() -> None:
    rows = {"root": [0, 0], "partition": [1, 2], "offset": [8, 9], "ts": [0, 2**62], "reason": [0, 0], "v": [1, 0]}
    frame = pa.table({**rows, "topic": ["orders-a", "orders-b"]})
    with pytest.raises(wm.SourceError, match=f"topic orders-b, partition 2, offset 9: {2**62} ms"):
        refuse_far(frame, {0: "orders-.*"})
    divided = Call("IntegralDivide", (Operand("v", pa.int64()),) * 2, pa.int64(), options=(("evalMode", "ANSI"),))
    with pytest.raises(EvaluationError, match=r"behind it, at topic orders-b, partition 2, offset 9\."):
        Program(((("c", divided),),), "it")(frame)
