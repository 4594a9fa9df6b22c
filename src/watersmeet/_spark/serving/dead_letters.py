"""The last dead letters of a query, read from the ends of their topics when somebody looks at the page.

The topics have them already, with all that is to be said of each in its headers: nothing is kept beside them, and a
query that nobody watches reads nothing. One reader at a time reads a bounded number of records, for a bounded time.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, takewhile
from typing import Any

from watersmeet._spark.metrics.log_line import at
from watersmeet._worker.formats.dead_letters import PREFIX
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ConfigError, SinkError
from watersmeet.io.kafka import Kafka

LETTERS = 20
"""Of each topic, at most."""
SECONDS = 10.0
"""For which a look lasts at most."""
_MARKERS = 3
"""Offsets for each letter: a transaction ends with a record of its own, and may have been aborted."""
_SHOWN = 200
"""Characters of a key, a value or a text that are shown."""
_SETTINGS = {
    # no group is joined and no offset kept: Kafka's client wants a name all the same
    "group.id": "watersmeet-dead-letters",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "16384",
}


@dataclass(frozen=True)
class LetterTopics:
    """The topics of a query's dead letters.

    Parameters
    ----------
    kafka : the connection.
    topics : their names.
    """

    kafka: Kafka
    topics: Sequence[str]

    def last(self) -> list[dict[str, Any]]:
        """The last letters of each topic as JSON has them, the newest first.

        Raises
        ------
        ConfigError : Kafka's client for Python is not installed, or has no settings to log in.
        SinkError : Kafka does not answer.
        """
        if not kafka_client.can_ask(self.kafka):
            raise ConfigError(
                "Dead letters are not shown: Kafka's client for Python cannot read their topics.",
                given=", ".join(self.topics),
                hint="Install the extra kafka on the driver. A connection with settings for Java alone (consumer=) "
                "needs those of librdkafka beside them.",
            )
        client = kafka_client.client()
        consumer = kafka_client.make(client.Consumer, {**kafka_client.client_settings(self.kafka), **_SETTINGS})
        until = time.monotonic() + SECONDS
        try:
            within = takewhile(lambda _: time.monotonic() < until, self.topics)
            found = [letter for topic in within for letter in _last(client, consumer, topic, until)]
        except client.KafkaException as error:
            raise SinkError(
                "Dead letters are not shown: Kafka does not answer.",
                given=error.args[0].str(),
                hint="Look again later.",
            ) from None
        finally:
            consumer.close()
        return sorted(found, key=_time, reverse=True)


def _last(client: Any, consumer: Any, topic: str, until: float) -> list[dict[str, Any]]:
    """The last letters of a topic."""
    known = consumer.list_topics(topic, timeout=_left(until)).topics[topic]
    if known.error is not None:
        raise client.KafkaException(known.error)
    partitions = []
    # what is not reached in time is not shown
    for number in takewhile(lambda _: time.monotonic() < until, known.partitions):
        low, high = consumer.get_watermark_offsets(client.TopicPartition(topic, number), timeout=_left(until))
        if high > low:
            partitions.append(client.TopicPartition(topic, number, max(low, high - _MARKERS * LETTERS)))
    if not partitions:
        return []
    consumer.assign(partitions)
    # the last of a partition by its order, of several ones by time
    kept: dict[int, deque[Any]] = {each.partition: deque(maxlen=LETTERS) for each in partitions}
    for letter in _read(client, consumer, len(partitions), until):
        kept[letter["partition"]].append(letter)
    return nlargest(LETTERS, chain.from_iterable(kept.values()), key=_time)


def _read(client: Any, consumer: Any, partitions: int, until: float) -> Iterator[dict[str, Any]]:
    """The letters from where the partitions begin to their ends."""
    while partitions and (left := until - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            return
        error = message.error()
        if error is None:
            yield letter_of(
                (message.topic(), message.partition(), message.offset(), message.timestamp()[1]),
                message.key(),
                message.value(),
                message.headers() or (),
            )
        elif error.code() == client.KafkaError._PARTITION_EOF:
            partitions -= 1
        elif not error.retriable():
            raise client.KafkaException(error)


def letter_of(
    place: tuple[str, int, int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> dict[str, Any]:
    """A letter as JSON has it.

    Parameters
    ----------
    place : topic, partition, offset and time in ms of the letter.

    >>> letter_of(("bad", 0, 7, 1_000), b"k", None, [("__streams.errors.reason", b"undecodable")])["key_text"]
    'k'
    """
    topic, partition, offset, ts = place
    said = {name.removeprefix(PREFIX): text for name, text in headers if name.startswith(PREFIX) and text is not None}
    time_ms = _number(said, "timestamp", ts)
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "time": at(time_ms),
        "time_ms": time_ms,
        "operator": _text(said.get("operator")),
        "reason": _text(said.get("reason")),
        "message": _text(said.get("message")),
        "record": _record(said),
        "key": None if key is None else base64.b64encode(key[:_SHOWN]).decode(),
        "key_text": _text(key),
        "value_text": _text(value),
    }


def _record(said: Mapping[str, bytes]) -> str | None:
    """Where the record lies that the letter is about."""
    if "topic" not in said:
        return None
    topic, partition, offset = (_text(said.get(name)) for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}@{offset}"


def _text(raw: bytes | None) -> str | None:
    """Bytes as a text to look at: what is no UTF-8 as escapes, and not all of it if it is long."""
    if raw is None:
        return None
    text = raw[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _number(said: Mapping[str, bytes], name: str, otherwise: int) -> int:
    try:
        return int(said[name])
    except (LookupError, ValueError):
        return otherwise


def _time(letter: Mapping[str, Any]) -> int:
    return int(letter["time_ms"])


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())
