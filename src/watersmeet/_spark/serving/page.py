"""The page of a query: its status, its files, and its last dead letters, read from the ends of their topics.

The topics have them already, with all that is to be said of each in its headers: nothing is kept beside them, and a
query that nobody watches reads nothing. One reader at a time reads a bounded number of records, for a bounded time.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from heapq import nlargest
from importlib.resources import files
from itertools import chain, takewhile
from typing import Any

import pyspark

from watersmeet._plan.explain import explain
from watersmeet._plan.logical import letter_sources
from watersmeet._plan.physical import Physical
from watersmeet._plan.pictures import Picture, levels_picture, nodes_picture, svg
from watersmeet._spark.metrics.metrics import Metrics, metrics_as_json, picture_counts, run_as_json, without_keys
from watersmeet._spark.metrics.query_facts import reason_of
from watersmeet._spark.metrics.texts import at
from watersmeet._worker import kafka_client
from watersmeet._worker.ended_rows import PREFIX
from watersmeet.errors import ConfigError, SinkError
from watersmeet.io.kafka import Kafka
from watersmeet.versions import own_version

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
    """The topics of a query's dead letters."""

    kafka: Kafka  # the connection
    topics: Sequence[str]  # their names

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
            topics = takewhile(lambda _: time.monotonic() < until, self.topics)
            letters = [letter for topic in topics for letter in _last(client, consumer, topic, until)]
        except client.KafkaException as error:
            raise SinkError(
                "Dead letters are not shown: Kafka does not answer.",
                given=error.args[0].str(),
                hint="Look again later.",
            ) from None
        finally:
            consumer.close()
        return sorted(letters, key=_time, reverse=True)


def _last(client: Any, consumer: Any, topic: str, until: float) -> list[dict[str, Any]]:
    """The last letters of a topic."""
    metadata = consumer.list_topics(topic, timeout=_left(until)).topics[topic]
    if metadata.error is not None:
        raise client.KafkaException(metadata.error)
    partitions = []
    # what is not reached in time is not shown
    for number in takewhile(lambda _: time.monotonic() < until, metadata.partitions):
        low, high = consumer.get_watermark_offsets(client.TopicPartition(topic, number), timeout=_left(until))
        if high > low:
            partitions.append(client.TopicPartition(topic, number, max(low, high - _MARKERS * LETTERS)))
    if not partitions:
        return []
    consumer.assign(partitions)
    # the last of a partition by its order, of several ones by time
    letters: dict[int, deque[Any]] = {partition.partition: deque(maxlen=LETTERS) for partition in partitions}
    for letter in _read(client, consumer, len(partitions), until):
        letters[letter["partition"]].append(letter)
    return nlargest(LETTERS, chain.from_iterable(letters.values()), key=_time)


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
    fields = {name.removeprefix(PREFIX): text for name, text in headers if name.startswith(PREFIX) and text is not None}
    time_ms = _number(fields, "timestamp", ts)
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "time": at(time_ms),
        "time_ms": time_ms,
        "operator": _text(fields.get("operator")),
        "reason": _text(fields.get("reason")),
        "message": _text(fields.get("message")),
        "record": _record(fields),
        "key": None if key is None else base64.b64encode(key[:_SHOWN]).decode(),
        "key_text": _text(key),
        "value_text": _text(value),
    }


def _record(fields: Mapping[str, bytes]) -> str | None:
    """Where the record lies that the letter is about."""
    if "topic" not in fields:
        return None
    topic, partition, offset = (_text(fields.get(name)) for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}@{offset}"


def _text(raw: bytes | None) -> str | None:
    """Bytes as a text to look at: what is no UTF-8 as escapes, and not all of it if it is long."""
    if raw is None:
        return None
    text = raw[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _number(fields: Mapping[str, bytes], name: str, otherwise: int) -> int:
    try:
        return int(fields[name])
    except (LookupError, ValueError):
        return otherwise


def _time(letter: Mapping[str, Any]) -> int:
    return int(letter["time_ms"])


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())


# The status of a query: all that its page, and `watersmeet top`, show of it, as JSON.


@dataclass(frozen=True)
class QueryStatus:
    """A query, as far as it is shown."""

    name: str  # the query's
    checkpoint: str  # where it continues from
    topology: Physical  # what it runs
    failure: Callable[[], Exception | None]  # why it has ended by itself; None: it has not
    is_active: Callable[[], bool]  # whether it runs
    doing: Callable[[], str]  # what Spark says that it does
    metrics: Callable[[], Metrics]  # its numbers
    kafka: Kafka | None = None  # its connection; None: it has none

    @cached_property
    def pictures(self) -> Mapping[str, Picture]:
        """The topology as its user wrote it, and in its levels, by the names that the status has for them."""
        return {"picture": nodes_picture(self.topology), "levels": levels_picture(self.topology)}

    @cached_property
    def svgs(self) -> Mapping[str, str]:
        return {name: svg(picture) for name, picture in self.pictures.items()}

    @cached_property
    def text(self) -> str:
        return explain(self.topology)

    def as_json(self) -> dict[str, Any]:
        """All numbers as JSON has them."""
        metrics, failure = self.metrics(), self.failure()
        return {
            "query": self.name,
            "application": self.topology.plan.application,
            "checkpoint": self.checkpoint,
            "versions": {"watersmeet": own_version(), "spark": pyspark.__version__},
            "active": metrics.active,
            "doing": self.doing() if metrics.active else None,
            "error": None if failure is None else str(failure),
            "reason": None if failure is None else reason_of(str(failure)),
            **metrics_as_json(without_keys(metrics)),
            **run_as_json(metrics),
            "rate": None if metrics.batch is None else metrics.batch.rate,
            "dead_letters": self._dead_letters(metrics),
            **{
                name: {
                    "names": [box.name for box in picture.boxes],
                    "nodes": [(box.node, *box.helpers) for box in picture.boxes],
                    "stores": [box.stores for box in picture.boxes],
                    **asdict(picture_counts(picture, metrics)),
                }
                for name, picture in self.pictures.items()
            },
        }

    def last_dead_letters(self) -> list[dict[str, Any]]:
        topics = tuple(dict.fromkeys(topic for topic, _, _ in self._letter_outputs()))
        return LetterTopics(self.kafka, topics).last() if topics and self.kafka is not None else []

    def _dead_letters(self, metrics: Metrics) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "of": of, "records": metrics.produced.get(sink)}
            for topic, of, sink in self._letter_outputs()
        ]

    def _letter_outputs(self) -> Iterator[tuple[str, str, str]]:
        """Topic of each output of dead letters, the input that they belong to, and the output's name."""
        plan = self.topology.plan
        letters = letter_sources(plan)
        for sink in plan.sinks:
            of = letters.get(sink.inputs[0])
            if of is not None:
                yield str(sink.output), of, sink.name


@dataclass(frozen=True)
class Explainer:
    """The answers that a query gives from the journal of its input records."""

    why: Callable[[str, Any], Any]  # the records that a row comes from, by its table and key
    trace: Callable[[str], Any]  # the way of a record, by its place


# The files of the page, as the package has them. They are the same for all queries, and nothing of a query is in them.
#
# A browser loads nothing from elsewhere for the page, nor runs what is not in these files: the policy in the headers.

POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MODULES = ("shown", "viewport", "topology", "numbers", "trace", "tables", "page")
"""The parts of the script, each behind those that it imports; `start` has a browser show them, `widget` a notebook."""
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("start", *MODULES)},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
PATHS = frozenset(FILES)


def text_of_file(name: str) -> str:
    return file_of(name).decode()


def file_of(name: str) -> bytes:
    return (files(__package__) / "assets" / name).read_bytes()
