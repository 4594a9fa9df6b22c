"""Where batches end: one after the other they have the order of a single one, whatever is known when. No Spark."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyspark
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet._spark.batches.batches import END, Cut, PartitionTimes, SynchronizedInputs, next_cut, reached_by_all
from watersmeet.errors import ConfigError, WatersmeetError

Record = tuple[int, int, int]
"""Time, partition and offset."""


def merged(histories: list[list[int]]) -> list[Record]:
    """The records in the order of a single batch."""
    found = []
    for rank, times in enumerate(histories):
        for offset, latest in enumerate(np.maximum.accumulate(times) if times else []):
            found.append((int(latest), rank, offset))
    return sorted(found)


def in_batches(histories: list[list[int]], seed: int, limit: int) -> list[list[Record]]:
    """The records of each batch, if partitions become known piece by piece, and those without more are not awaited."""
    draw, known = random.Random(seed), [0] * len(histories)
    partitions = [PartitionTimes(rank, 0) for rank in range(len(histories))]
    begins, batches = [0] * len(histories), []
    while sum(begins) < sum(map(len, histories)):
        for rank, times in enumerate(histories):
            count = draw.randrange(4)
            piece = times[known[rank] : known[rank] + count]
            end = known[rank] + len(piece)
            partitions[rank].add(np.arange(known[rank], end), np.array(piece, np.int64), end)
            known[rank] = end
        awaited = [each for each, times in zip(partitions, histories, strict=True) if each.end < len(times)]
        cut = next_cut(partitions, reached_by_all(awaited), limit)
        if cut is not None:
            ends = [each.take(cut) for each in partitions]
            taken = [times[:end] for times, end in zip(histories, ends, strict=True)]
            batches.append([each for each in merged(taken) if each[2] >= begins[each[1]]])
            begins = ends
    return batches


@pytest.mark.parametrize("limit", [1, 3, 1_000])
@pytest.mark.parametrize("spread", [3, 40])
def test_batches_one_after_the_other_have_the_order_of_a_single_one(limit: int, spread: int) -> None:
    for seed in range(300):
        draw = random.Random(seed)
        histories = [[draw.randrange(spread) for _ in range(draw.randrange(12))] for _ in range(draw.randint(1, 4))]
        batches = in_batches(histories, seed, limit)
        assert [record for batch in batches for record in batch] == merged(histories), seed
        assert all(batches)


def test_a_batch_has_more_records_than_its_limit_only_where_they_have_one_time() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        histories = [sorted(draw.randrange(30) for _ in range(20)) for _ in range(3)]
        for batch in in_batches(histories, seed, 5):
            assert len(batch) <= 5 or len({time for time, _, _ in batch}) == 1


def test_nothing_is_taken_while_a_partition_without_records_is_awaited() -> None:
    one, other = PartitionTimes(0, 0), PartitionTimes(1, 7)
    one.add(np.array([3]), np.array([10]), 5)
    assert next_cut([one, other], reached_by_all([other]), 10) is None
    assert next_cut([one, other], reached_by_all([]), 10) == END
    # behind the last record lies what is none
    assert (one.take(END), other.take(END)) == (5, 7)


def test_of_equal_times_a_batch_takes_those_of_earlier_partitions() -> None:
    one, other = PartitionTimes(0, 0), PartitionTimes(1, 0)
    one.add(np.array([0]), np.array([10]), 1)
    other.add(np.array([0]), np.array([10]), 1)
    assert next_cut([one, other], reached_by_all([one]), 10) == Cut(10, 0)
    assert (one.take(Cut(10, 0)), other.take(Cut(10, 0))) == (1, 0)


def test_a_version_of_spark_whose_sources_are_not_known_is_refused_before_the_query_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.10.0")
    with pytest.raises(ConfigError, match=r"no effect on this Spark(.|\n)*Spark 4\.10\.0\n.*4\.1, 4\.2, 4\.3"):
        together(max_task_idle="1 second")


def together(**kafka: Any) -> SynchronizedInputs:
    builder = wm.StreamsBuilder("together")
    builder.global_table("rates", key="string", value="long")
    for name in ("b", "a"):
        builder.stream(name, key="string", value="long")
    return SynchronizedInputs.of(builder.build().physical.plan.sources, wm.Kafka("localhost:9092", **kafka))


def test_topics_are_kept_together_in_the_order_of_the_inputs_and_global_tables_are_not_among_them() -> None:
    assert not together()
    found = together(max_task_idle="0 seconds")
    assert sorted(found.topics, key=lambda topic: found.topics[topic]) == ["b", "a"]
    assert found.trigger({"availableNow": True}) == {"processingTime": "0 seconds"}
    assert found.trigger({"once": True}) == {"once": True}


@pytest.mark.parametrize(
    ("topic", "options", "why"),
    [
        ("in", {"timestamp": lambda value: value}, "timestamp= is a function"),
        (wm.TopicPattern("in-.*"), {}, "known by a pattern only"),
        ("shop.orders", {"value": wm.debezium("amount long")}, "its event time is in its values"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_an_input_without_times_in_kafka_is_refused_with_its_name_and_the_option(
    topic: Any, options: dict[str, Any], why: str
) -> None:
    builder = wm.StreamsBuilder("together")
    builder.stream(topic, name="events", **{"key": "string", "value": "long", **options}).to("out", value="json")
    sources = builder.build().physical.plan.sources
    assert not SynchronizedInputs.of(sources, wm.Kafka("localhost:9092"))
    with pytest.raises(ConfigError, match=rf"(?s)max_task_idle goes by .*'events'.*{why}.*Hint: .*leave max_task_idle"):
        SynchronizedInputs.of(sources, wm.Kafka("localhost:9092", max_task_idle="1 second"))


@pytest.mark.parametrize("given", ["-1 seconds", "soon", 5])
def test_a_time_to_wait_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(WatersmeetError, match=r"(?s)max_task_idle.*Hint: "):
        wm.Kafka("localhost:9092", max_task_idle=given)


def test_what_cannot_be_kept_together_is_refused_at_the_start(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("together")
    ticks = spark.readStream.format("rate").load()
    builder.stream(ticks, name="ticks", key="value", value="value", timestamp="timestamp", order="value").to("out")
    sources, idle = builder.build().physical.plan.sources, wm.Kafka("localhost:9092", max_task_idle="1 second")
    assert SynchronizedInputs.of(sources, wm.Kafka("localhost:9092"), available_now=True).topics == {}
    with pytest.raises(ConfigError, match=r"(?s)available_now=True with max_task_idle=.*'ticks' is a streaming.*Hint"):
        SynchronizedInputs.of(sources, idle, available_now=True)
    login = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "secret"}
    java = wm.Kafka("localhost:9092", max_task_idle="1 second", consumer=login)
    with pytest.raises(ConfigError, match=r"(?s)max_task_idle= needs Kafka's client.*Hint: .*settings for Java alone"):
        SynchronizedInputs.of(sources, java)
