"""Where topics begin that are added to others which go on.

Spark takes a topic that it finds beside others for one that has just been made, with records from 0 on; so where it
begins has to be written for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from watersmeet._worker.writers.kafka_client import client, client_settings, explained, make, patiently, seconds
from watersmeet.io.kafka import Kafka


def beginnings(kafka: Kafka, topics: Iterable[str], starts: str) -> dict[str, dict[str, int]]:
    """The offset at which each partition of some topics begins.

    Parameters
    ----------
    starts : "earliest" or "latest".

    Raises
    ------
    ConfigError : Kafka's Python client is not installed.
    SinkError : Kafka does not say.
    """
    module, settings = client(), client_settings(kafka)
    # it asks, and belongs to no group
    consumer = make(module.Consumer, {**settings, "group.id": "watersmeet", "enable.auto.commit": "false"})
    wait = seconds(settings)
    try:
        return {name: _of_topic(consumer, name, wait, latest=starts == "latest") for name in sorted(topics)}
    except module.KafkaException as error:
        raise explained(error.args[0], f"the topics {', '.join(sorted(topics))}") from None
    finally:
        consumer.close()


def _of_topic(consumer: Any, name: str, wait: float, *, latest: bool) -> dict[str, int]:
    kind = client().TopicPartition
    partitions = consumer.list_topics(name, timeout=wait).topics[name].partitions
    found = {}
    for number in sorted(partitions):

        def ends(number: int = number) -> tuple[int, int]:
            low, high = consumer.get_watermark_offsets(kind(name, number), timeout=wait)
            return int(low), int(high)

        found[str(number)] = patiently(ends, wait)[latest]
    return found
