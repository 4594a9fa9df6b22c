"""The partitions of topics, by name or by pattern, as Kafka has them now."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from watersmeet._spark.sources.topics import reader_options
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topic_names import matches

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's own topics, which its consumer leaves out of a pattern."""


def partition_counts(spark: SparkSession, topics: Sequence[str], kafka: Kafka) -> dict[str, int]:
    """Number of partitions of each topic.

    Asked of Kafka's Python client where it is installed and has the settings (milliseconds), else of Spark's
    connector through the end offsets of an empty query (seconds).

    Raises
    ------
    ConfigError : a topic is not there.
    """
    if not kafka_client.can_ask(kafka):
        return _counts_by_spark(spark, topics, kafka)
    kafka_client.check_topics(kafka, topics)
    counts = _counts_by_client(kafka)
    return {name: counts[name] for name in sorted(set(topics))}


def matching_topics(spark: SparkSession, patterns: Collection[str], kafka: Kafka) -> dict[str, int]:
    """The topics that some pattern matches now, and how many partitions each has; asked as above."""
    if not patterns:
        return {}
    found = (
        _counts_by_client(kafka) if kafka_client.can_ask(kafka) else _counts_by_spark(spark, (), kafka, tuple(patterns))
    )
    named = {name: found[name] for name in sorted(found) if name not in _INTERNAL}
    return {name: count for name, count in named.items() if any(matches(each, name) for each in patterns)}


def _counts_by_client(kafka: Kafka) -> dict[str, int]:
    wait = kafka_client.seconds(kafka_client.client_settings(kafka))
    found = kafka_client.admin(kafka).list_topics(timeout=wait).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def _counts_by_spark(
    spark: SparkSession, topics: Sequence[str], kafka: Kafka, patterns: Sequence[str] = ()
) -> dict[str, int]:
    options = {**reader_options(kafka, topics, headers=False, patterns=patterns), "startingOffsets": "latest"}
    stream = spark.readStream.format("kafka").options(**options).load().writeStream.format("noop")
    try:
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
    except PySparkException as error:
        if "UnknownTopicOrPartition" not in str(error):
            raise
        raise ConfigError(
            "Kafka does not have a topic that the topology reads.",
            given=f"one of {', '.join(sorted(set(topics)))}",
            hint="Create it first, with the partitions it is to have.",
        ) from None
    progress = query.lastProgress
    # without topics there is no batch
    offsets = {} if progress is None else json.loads(progress.sources[0].endOffset)
    return {name: len(of) for name, of in sorted(offsets.items())}
