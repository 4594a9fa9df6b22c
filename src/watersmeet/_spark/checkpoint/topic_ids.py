"""Which topic a name stands for: Kafka gives each topic an id when it is made (KIP-516), and a new one when anew.

Offsets are of a topic, not of its name: a topic that was deleted and made anew has records that were never read where
the checkpoint goes on, and others before. Law 6: that is refused, where ids can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from watersmeet._plan.nodes import SinkNode, SourceNode
from watersmeet._spark.session.warned import warn
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import SourceError
from watersmeet.io.kafka import Kafka

_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker says that knows of no ids."""
Ask = Callable[[], Mapping[str, str]]


class TopicFacts(Protocol):
    """The records of a checkpoint about topics (`checkpoint.facts`)."""

    @property
    def topics(self) -> Mapping[str, str]:
        """The id of each topic."""

    @property
    def marks(self) -> str:
        """The topic with offsets that mark the batches."""


def asking(kafka: Kafka, topics: Iterable[str]) -> Ask | None:
    """Asks for the ids of topics, by their names; None: Kafka's Python client is not there, or cannot log in.

    Unknown topics are left out: a missing topic, or one that this user may not see; all of them, if Kafka does not
    answer.
    """
    names = sorted(set(topics))
    if not names or not kafka_client.can_ask(kafka):
        return None
    admin, settings = kafka_client.admin(kafka), kafka_client.client_settings(kafka)
    asked = kafka_client.client().TopicCollection(names)

    def ask() -> dict[str, str]:
        answers = admin.describe_topics(asked, request_timeout=kafka_client.seconds(settings))
        found = {name: _id(answer) for name, answer in answers.items()}
        return {name: text for name, text in found.items() if text is not None}

    return ask


def _id(answer: Any) -> str | None:
    try:
        text = str(answer.result().topic_id)
    except kafka_client.client().KafkaException:
        return None
    return None if text == _NONE else text


def others(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The topics with other ids than the known ones."""
    return sorted(name for name, text in known.items() if now.get(name, text) != text)


def check(known: Mapping[str, str], now: Mapping[str, str], inputs: Iterable[str], outputs: Iterable[str]) -> None:
    """Raise where an input is not the topic that was read; say which outputs were made anew.

    Raises
    ------
    SourceError : an input was made anew.
    """
    check_inputs(known, now, inputs)
    _say_outputs(known, now, outputs)


def check_inputs(known: Mapping[str, str], now: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Raise where an input is not the topic that was read.

    Raises
    ------
    SourceError : one was made anew.
    """
    read = frozenset(inputs)
    changed = [name for name in others(known, now) if name in read]
    if changed:
        raise SourceError(
            "A topic that this query reads was deleted and made anew: the checkpoint has the old one's offsets.",
            given="; ".join(f"topic {name}: its id was {known[name]}, it is {now[name]}" for name in changed),
            hint="Begin a new checkpoint: the state of this one belongs to the old topic's records. Where the new "
            "topic has the same records at the same offsets, as a copy of a whole cluster has, start with "
            "allow_recreated_topics=True.",
        )


def _say_outputs(known: Mapping[str, str], now: Mapping[str, str], outputs: Iterable[str]) -> None:
    """Say which outputs were made anew: what they had is gone, and is not written again."""
    written = frozenset(outputs)
    for name in others(known, now):
        if name in written:
            warn(
                f"The topic {name!r}, which this query writes, was deleted and made anew: its id was {known[name]}, it "
                f"is {now[name]}. It does not have the records that were written before.",
                "where that is needed, begin a new checkpoint, which writes all results again.",
            )


@dataclass(frozen=True)
class TopicIds:
    """The topics of a topology.

    Parameters
    ----------
    kafka : where they are; None: nowhere.
    read, written : their names.
    """

    kafka: Kafka | None
    read: frozenset[str]
    written: frozenset[str]

    @classmethod
    def of(cls, sources: Iterable[SourceNode], sinks: Iterable[SinkNode], kafka: Kafka | None) -> TopicIds:
        """The topics of these inputs and outputs."""
        topics = (each.origin for each in sources if each.origin.pattern is None)
        read = frozenset(each.topic for each in topics if each.topic is not None)
        return cls(kafka, read, frozenset(each.target.topic for each in sinks if each.target.topic is not None))

    @cached_property
    def _ask(self) -> Ask | None:
        return None if self.kafka is None else asking(self.kafka, self.read | self.written)

    def facts(self, stored: TopicFacts | None, *, ask: bool) -> dict[str, Any]:
        """The record of them in a checkpoint.

        Parameters
        ----------
        stored : what it has recorded: an id that nobody says now stays, and so does the topic that marks the batches,
            as long as it is there.
        ask : whether Kafka may be asked.
        """
        known = {} if stored is None else stored.topics
        now = self._ask() if ask and self._ask is not None else {}
        ids = {name: text for name, text in {**known, **now}.items() if name in self.read | self.written}
        marks = "" if stored is None else stored.marks
        if marks and marks not in self.written and ask and self.kafka is not None:
            again = asking(self.kafka, [marks])
            marks = marks if again is None or marks in again() else ""
        return {"topics": ids, "marks": marks or min(self.written, default="")}

    def watch(self, facts: TopicFacts) -> Callable[[int], None]:
        """The check before each batch that they are still the same."""
        if self._ask is None:
            return lambda batch: None
        return TopicWatch(self._ask, dict(facts.topics), self.read, self.written - self.read)


@dataclass
class TopicWatch:
    """Looks before each batch whether the topics are still those of the start.

    Parameters
    ----------
    ask : asks for their ids.
    known : as they were.
    inputs, outputs : their names.
    """

    ask: Ask
    known: dict[str, str]
    inputs: frozenset[str]
    outputs: frozenset[str] = field(default_factory=frozenset)

    def __call__(self, batch: int) -> None:
        """Called before a batch is read.

        Raises
        ------
        SourceError : an input was made anew.
        """
        now = self.ask()
        check(self.known, now, self.inputs, self.outputs)
        self.known = {**self.known, **now}
