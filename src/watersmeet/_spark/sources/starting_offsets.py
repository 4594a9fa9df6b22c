"""From where topics are read at the first start, where an input that lies elsewhere says from where its topic goes on.

Spark's source takes places for all partitions of all its topics or for none, so those of the others are said as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from watersmeet._plan.nodes import SourceNode, patterns_of
from watersmeet._spark.sources.bootstrap import Recorded
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ConfigError
from watersmeet.extras import installing
from watersmeet.io.bootstrap import Bootstrap
from watersmeet.io.kafka import Kafka
from watersmeet.io.topic_names import matches
from watersmeet.io.topics import Topic

_ENDS = {"latest": -1, "earliest": -2}
"""How Spark's source names the ends of a partition among offsets."""


def starting_offsets(
    topics: Sequence[tuple[int, SourceNode]],
    kafka: Kafka,
    partitions: Mapping[str, int],
    begins: Recorded,
    matching: Callable[[Collection[str], Kafka], Mapping[str, int]],
) -> dict[str, dict[int, int]]:
    """The offset at which each partition begins, by topic; none where no input says any.

    Parameters
    ----------
    topics : sources with their numbers in the plan.
    partitions : how many each topic has.
    begins : what inputs begin with.
    matching : asks for the topics that some pattern matches now, and their numbers of partitions.

    Raises
    ------
    ConfigError : an input names other partitions than its topic has or none any more, or its topic is another input as
        well.
    """
    for _, source in topics:
        if source.bootstrap is None and source.name in begins:
            raise ConfigError(
                f"The bootstrap= of {source.name!r} was removed before its topic was read.",
                given=f"no bootstrap= of {source.name!r}",
                hint="Leave the bootstrap in the program until the topic itself has been read.",
            )
    said: dict[str, Any] = {s.origin.name: s.origin for _, s in topics if s.origin.begins_at is not None}
    said |= {source.origin.name: source.bootstrap for _, source in topics if source.bootstrap is not None}
    if not said:
        return {}
    names = [source.origin.name for _, source in topics]
    for topic in said:
        if names.count(topic) > 1:
            raise ConfigError(
                f"Several inputs read {topic!r}, which has its own starting_offsets= or bootstrap=.",
                given=f"{names.count(topic)} inputs",
                hint="Read it once and use the handle twice: table.to_stream(), stream.to_table().",
            )
    patterns = {*patterns_of(source for _, source in topics)}
    named = {topic: (topic, partitions[topic]) for topic in names if topic not in patterns}
    for topic, count in matching(patterns, kafka).items() if patterns else ():
        named[topic] = (next(each for each in sorted(patterns) if matches(each, topic)), count)
    return {topic: _begins(topic, said.get(by), kafka, count) for topic, (by, count) in sorted(named.items())}


def _begins(topic: str, begin: Bootstrap | Topic | None, kafka: Kafka, count: int) -> dict[int, int]:
    given = kafka.starting_offsets if begin is None else begin.starting_offsets
    if isinstance(given, str):
        return dict.fromkeys(range(count), _ENDS[given])
    if given is None and isinstance(moment := getattr(begin, "starting_timestamp", None), int):
        return _at(topic, moment, kafka, count)
    assert given is not None, topic
    if sorted(given) != list(range(count)):
        raise ConfigError(
            f"starting_offsets= must name the {count} partitions of the topic {topic!r}.",
            given=f"partitions {', '.join(map(str, sorted(given)))}",
            hint=f"starting_offsets={{{', '.join(f'{n}: ...' for n in range(count))}}}",
        )
    return {number: given[number] for number in range(count)}


def _at(topic: str, moment: int, kafka: Kafka, count: int) -> dict[int, int]:
    """The offset of the first record that is not older, in each partition.

    Raises
    ------
    ConfigError : Kafka's Python client is not installed.
    """
    if find_spec("confluent_kafka") is None:
        raise ConfigError(
            f"starting_timestamp={moment} needs Kafka's Python client, which is not installed.",
            given=f"starting_timestamp={moment}",
            hint=f"{installing('kafka')}; or give starting_offsets=.",
        )
    kafka_client.check_topics(kafka, [topic])
    settings = kafka_client.client_settings(kafka)
    client: Any = importlib.import_module("confluent_kafka")
    admin = kafka_client.admin(kafka)
    partitions = [client.TopicPartition(topic, number) for number in range(count)]
    timeout = kafka_client.seconds(settings)

    def asked(what: Any) -> dict[int, int]:
        found = admin.list_offsets(dict.fromkeys(partitions, what), request_timeout=timeout)
        return {partition.partition: future.result().offset for partition, future in found.items()}

    # the ends first: what is written between the two questions lies behind them
    spec = importlib.import_module("confluent_kafka.admin").OffsetSpec
    ends, found = asked(spec.latest()), asked(spec.for_timestamp(moment))
    return {number: ends[number] if offset < 0 else offset for number, offset in found.items()}
