"""Kafka topics as inputs and as outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.io.formats import FORMAT_HINT, Format, FormatName, PlacedFormat
from watersmeet.io.inputs import Origin
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget
from watersmeet.io.policies import OnError, OnInvalidTimestamp, OnUndecodable, Policies
from watersmeet.io.topic_names import StartingOffsets, check_offsets, check_topic, matches
from watersmeet.names import answering

if TYPE_CHECKING:
    from watersmeet.functions import FunctionBackend

Delivery = Literal["exactly_once", "at_least_once"]
OnInvalidPartition = Literal["fail", "modulo", "key"]


@answering
@dataclass(frozen=True)
class Topic(Origin):
    """A Kafka topic as an input.

    Parameters
    ----------
    name : the topic.
    key, value : the formats of its keys and values. A null value is a tombstone, and nothing else is.
    on_undecodable : what becomes of bytes that are not of that format: "fail" stops the query and says where
        they are, "skip" leaves the record out and counts it, `DeadLetter("topic")` counts it and writes it there.
        None: what the builder has for all its topics, which is "fail" where nothing was said.
    headers : whether records keep their headers.
    on_error : the same of records for which a function raises that stands before the first operator with state.
    timestamp : a record's time: a Column function (or `wm.python`) of (value) or (key, value) that gives a timestamp,
        or a long of milliseconds since 1970. None: records have the topic's own times.
    on_invalid_timestamp : what becomes of a record for which `timestamp` gives null, a time before 1970 or beyond what
        windows can hold, or raises: "fail" (the usual one), "skip", "own" (the topic's own time), `DeadLetter`.
    starting_offsets : from where it is read where there is no checkpoint yet: "earliest", "latest", or the first offset
        of each partition. None: as `Kafka(starting_offsets=)` says.
    """

    name: str
    key: Format | FormatName | None = None
    value: Format | FormatName | None = None
    on_undecodable: OnUndecodable | None = None
    headers: bool = False
    on_error: OnError | None = None
    timestamp: Callable[..., Any] | None = None
    on_invalid_timestamp: OnInvalidTimestamp | None = None
    starting_offsets: StartingOffsets | None = None

    shown = "topic"

    def __post_init__(self) -> None:
        self._check_name()
        for part in ("key", "value"):  # the parts of a record
            self._set_format(part, getattr(self, part))
        self.policies.check()
        if not isinstance(self.headers, bool):
            raise TopologyError(
                f"The option headers must be True or False: headers={self.headers!r}.",
                hint="Take headers=True or headers=False.",
            )
        self._check_timestamp()
        if self.starting_offsets is not None:
            check_offsets(self.starting_offsets)

    @property
    def default_name(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        return self.name

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        return {"key": self.key, "value": self.value}

    @property
    def keeps_headers(self) -> bool:
        return self.headers

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        return () if self.value is None else Format.of(self.value).drop_reasons

    @property
    def policies(self) -> Policies:
        return Policies(self.on_undecodable, self.on_error, on_invalid_timestamp=self.on_invalid_timestamp)

    @property
    def begins_at(self) -> StartingOffsets | None:
        return self.starting_offsets

    @property
    def timestamp_extractor(self) -> Callable[..., Any] | None:
        return self.timestamp

    def under(self, policies: Policies) -> Topic:
        times = policies.on_invalid_timestamp if self.timestamp is not None else None
        return replace(
            self, on_undecodable=policies.on_undecodable, on_error=policies.on_error, on_invalid_timestamp=times
        )

    def _check_name(self) -> None:
        check_topic(self.name)

    def _check_timestamp(self) -> None:
        given: Any = self.timestamp
        if isinstance(given, str) or (given is not None and type(given).__name__ == "Column"):
            field = given if isinstance(given, str) else "at"
            raise TopologyError(
                f"The timestamp of a topic is a function of its records: timestamp={given!r:.80}.",
                hint=f"timestamp=lambda value: value[{field!r}], a timestamp, or a long of milliseconds since 1970.",
            )
        if given is None and self.on_invalid_timestamp is not None:
            raise TopologyError(
                f"on_invalid_timestamp={self.on_invalid_timestamp!r} needs timestamp=, a function that returns the "
                "time of a record.",
                hint="Give timestamp=lambda value: value['at'] too, or leave on_invalid_timestamp out.",
            )

    def _set_format(self, part: str, given: Any) -> None:
        if given is None:
            raise TopologyError(
                f"The topic {self.name!r} needs a format for its {part}s: {part}=None.",
                hint=f"Give it, {part}='long'. {FORMAT_HINT}",
            )
        form = Format.of(given).of_topic(self.name, part)
        if form.unreadable is not None:
            what, found, hint = form.unreadable
            what = f"{what}, which the topic {self.name!r} needs for its {part}s."
            raise TopologyError(what, given=f"{part}={found}", hint=hint)
        object.__setattr__(self, part, form)


@dataclass(frozen=True)
class PatternTopics(Topic):
    """All topics with names that a pattern matches, as one input; made of a `TopicPattern`.

    Parameters
    ----------
    name : the pattern.

    Other parameters as for `Topic`; `starting_offsets` is of all topics of the first start.
    """

    shown = "topics"

    @property
    def pattern(self) -> str:
        return self.name

    def reads(self, topic: str | None) -> bool:
        return topic is not None and matches(self.name, topic)

    def _check_name(self) -> None:
        given = self.starting_offsets
        if given is not None and not isinstance(given, str):
            raise TopologyError(
                f"starting_offsets={given!r:.120} belongs to the partitions of one topic, and wm.TopicPattern("
                f"{self.name!r:.120}) reads several.",
                hint='starting_offsets="earliest" or "latest"; or read each topic by its name.',
            )


@answering
@dataclass(frozen=True)
class TopicSink(SinkTarget):
    """A Kafka topic as an output.

    Parameters
    ----------
    name : the topic; it has to exist.
    key, value : formats; left out, they follow from the types: strings, ints, longs and bytes as Kafka's
        serializers write them, keys of one-to-many joins as KIP-213 has them, anything else as JSON.
    delivery : "exactly_once" (a reader with `read_committed` sees each record once) or "at_least_once".
    partitioner : a Column function (or `wm.python`) of (value) or (key, value), and of the `record` behind them, that
        gives the number of each record's partition; null: the key decides. None: it always does, by murmur2, as in
        Kafka's Java clients.
    on_invalid_partition : what becomes of a number that the topic has no partition of: "fail" (the usual one) stops the
        query, "modulo" takes the rest of the division by the number of partitions, "key" goes by the key.
    feedback : whether the topology reads the topic, too: what it writes comes back in a later batch, by way of Kafka.
    """

    name: str
    key: Format | FormatName | None = None
    value: Format | FormatName | None = None
    delivery: Delivery = "exactly_once"
    partitioner: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    on_invalid_partition: OnInvalidPartition | None = None
    feedback: bool = False

    shown = "topic"

    def __post_init__(self) -> None:
        check_topic(self.name, writes=True)
        for part in ("key", "value"):  # the parts of a record
            if getattr(self, part) is not None:
                form = Format.of(getattr(self, part)).of_topic(self.name, part)
                if form.unwritable is not None:
                    hint = "Take wm.json(), or leave the format out."
                    raise TopologyError(form.unwritable, given=f"{part}={form}", hint=hint)
                object.__setattr__(self, part, form)
        if self.delivery not in get_args(Delivery):
            raise TopologyError(
                f"Unknown delivery={self.delivery!r}.",
                hint='Take "exactly_once" or "at_least_once".',
            )
        self._check_partitioner()
        if not isinstance(self.feedback, bool):
            raise TopologyError(
                f"The option feedback must be True or False: feedback={self.feedback!r:.80}.",
                hint="feedback=True: the topology reads the topic, too.",
            )

    @property
    def default_name(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        return self.name

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        return {"key": self.key, "value": self.value}

    @property
    def is_placed(self) -> bool:
        return self.partitioner is not None

    @property
    def feeds_back(self) -> bool:
        return self.feedback

    @property
    def written_formats(self) -> Mapping[str, Format | FormatName | None]:
        """The formats of what is in the topic; None: by type."""
        value = self.value
        if isinstance(value, PlacedFormat):
            value = None if value.by_type else value.inner
        return {"key": self.key, "value": value}

    @property
    def claim(self) -> tuple[str, str]:
        return ("topic", self.name)

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        for part, kind in (("key", key), ("value", value)):
            form: Format | None = getattr(self, part)
            if form is not None:
                functions.check_written(form, kind, f"{part}s of the output {self.name!r}")

    def _check_partitioner(self) -> None:
        given: Any = self.on_invalid_partition
        if given is not None and given not in get_args(OnInvalidPartition):
            raise TopologyError(
                f"Unknown on_invalid_partition={given!r:.80}.",
                hint='Take "fail", "modulo" or "key".',
            )
        if given is not None and self.partitioner is None:
            raise TopologyError(
                f"on_invalid_partition={given!r} has no effect without partitioner=.",
                hint="Give partitioner=lambda key, value: ... too, or leave on_invalid_partition out.",
            )

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        before, now = keys()
        if before != now:
            raise TopologyError(
                f"Two outputs of the topic {self.name!r} write their keys differently: records of one key would "
                "have no order.",
                given=f"{self.name!r}: keys of {before}, and of {now}",
                hint="Give both the same type of key (select_key) and the same key=...; or write to two topics.",
            )
