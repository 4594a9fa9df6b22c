"""Kafka topics as inputs and as outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.hints import answering
from watersmeet.io.formats import FORMAT_HINT, Format, FormatName
from watersmeet.io.inputs import Origin, Rows, milliseconds
from watersmeet.io.kafka import StartingOffsets, check_offsets, check_topic, matches
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget
from watersmeet.io.policies import OnError, OnInvalidTimestamp, OnUndecodable, Policies

if TYPE_CHECKING:
    from watersmeet.functions import FunctionBackend


Delivery = Literal["exactly_once", "at_least_once"]
OnInvalidPartition = Literal["fail", "modulo", "key"]


class _NamedTopic:
    """The answers of a topic that is read or written under its name."""

    name: str
    key: Format | FormatName | None
    value: Format | FormatName | None

    @property
    def default_name(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        return self.name

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        return {"key": self.key, "value": self.value}


@answering
@dataclass(frozen=True)
class Topic(_NamedTopic, Origin):
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
    def keeps_headers(self) -> bool:
        return self.headers

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
        timestamp: Any = self.timestamp
        if isinstance(timestamp, str) or (timestamp is not None and type(timestamp).__name__ == "Column"):
            field = timestamp if isinstance(timestamp, str) else "at"
            raise TopologyError(
                f"The timestamp of a topic is a function of its records: timestamp={timestamp!r:.80}.",
                hint=f"timestamp=lambda value: value[{field!r}], a timestamp, or a long of milliseconds since 1970.",
            )
        if timestamp is None and self.on_invalid_timestamp is not None:
            raise TopologyError(
                f"on_invalid_timestamp={self.on_invalid_timestamp!r} needs timestamp=, a function that returns the "
                "time of a record.",
                hint="Give timestamp=lambda value: value['at'] too, or leave on_invalid_timestamp out.",
            )

    def _set_format(self, part: str, spec: Any) -> None:
        if spec is None:
            raise TopologyError(
                f"The topic {self.name!r} needs a format for its {part}s: {part}=None.",
                hint=f"Give it, {part}='long'. {FORMAT_HINT}",
            )
        form = Format.of(spec).of_topic(self.name, part)
        if form.unreadable is not None:
            message, detail, hint = form.unreadable
            message = f"{message}, which the topic {self.name!r} needs for its {part}s."
            raise TopologyError(message, given=f"{part}={detail}", hint=hint)
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
        offsets = self.starting_offsets
        if offsets is not None and not isinstance(offsets, str):
            raise TopologyError(
                f"starting_offsets={offsets!r:.120} belongs to the partitions of one topic, and wm.TopicPattern("
                f"{self.name!r:.120}) reads several.",
                hint='starting_offsets="earliest" or "latest"; or read each topic by its name.',
            )


@answering
@dataclass(frozen=True)
class TopicSink(_NamedTopic, SinkTarget):
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
    def is_placed(self) -> bool:
        return self.partitioner is not None

    @property
    def feeds_back(self) -> bool:
        return self.feedback

    @property
    def claim(self) -> tuple[str, str]:
        return ("topic", self.name)

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        for part, kind in (("key", key), ("value", value)):
            form: Format | None = getattr(self, part)
            if form is not None:
                functions.check_written(form, kind, f"{part}s of the output {self.name!r}")

    def _check_partitioner(self) -> None:
        policy: Any = self.on_invalid_partition
        if policy is not None and policy not in get_args(OnInvalidPartition):
            raise TopologyError(
                f"Unknown on_invalid_partition={policy!r:.80}.",
                hint='Take "fail", "modulo" or "key".',
            )
        if policy is not None and self.partitioner is None:
            raise TopologyError(
                f"on_invalid_partition={policy!r} has no effect without partitioner=.",
                hint="Give partitioner=lambda key, value: ... too, or leave on_invalid_partition out.",
            )

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        first, second = keys()
        if first != second:
            raise TopologyError(
                f"Two outputs of the topic {self.name!r} write their keys differently: records of one key would "
                "have no order.",
                given=f"{self.name!r}: keys of {first}, and of {second}",
                hint="Give both the same type of key (select_key) and the same key=...; or write to two topics.",
            )


# The bootstrap of an input: a table's snapshot, or an input's history, and where to continue in its topic.


@answering
@dataclass(frozen=True, eq=False)
class Snapshot(Origin):
    """A table as of some moment, with which a KTable begins; and from where its topic goes on.

    At the first start the rows are copied into the checkpoint's folder. They are changes of the table like any others,
    the first records of the first batch: before everything that is read from anywhere but global tables. They do not
    move stream time. Where a key has several rows, those with a later timestamp come later.

    Parameters
    ----------
    frame : a static DataFrame.
    key : a column name, several names (the key is then a struct of them), or a Column; of the type of the table's keys.
    value : likewise, of the type of its values; None: a struct of all columns but key and timestamp.
    timestamp : a column name or a Column: a timestamp, or milliseconds since 1970 as a long; None: the beginning of
        1970, so that in a versioned table every change is newer.
    starting_offsets : of a topic, the first offset to be read of each partition, all of which are named; or
        "earliest" or "latest".
    starting_timestamp : of a topic, in place of offsets: records from this moment on are read, a datetime with a time
        zone or milliseconds since 1970.

    Examples
    --------
    >>> frame = spark.read.parquet("/snapshots/customers")  # doctest: +SKIP
    >>> wm.Snapshot(frame, key="id", starting_offsets={0: 1200, 1: 1187})  # doctest: +SKIP
    """

    frame: Any = field(repr=False)
    key: Any
    value: Any = field(default=None, kw_only=True)
    timestamp: Any = field(default=None, kw_only=True)
    starting_offsets: StartingOffsets | None = field(default=None, kw_only=True)
    starting_timestamp: datetime | int | None = field(default=None, kw_only=True)

    order: ClassVar[None] = None
    is_snapshot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # its own checks: a DataFrame, a key
        Rows(self.frame, self.key, self.value, "none" if self.timestamp is None else self.timestamp)
        _check_bootstrap_options(self)


@answering
@dataclass(frozen=True, eq=False)
class Backfill(Origin):
    """The history of an input, in files or wherever a DataFrame reads it; and from where its topic goes on.

    At the first start the rows are copied into the checkpoint's folder, in their order. A start with
    `available_now=True` processes them, in batches of a million, and ends; what lives (topics, streaming DataFrames)
    waits until then. The next start goes on with it.

    Parameters
    ----------
    frame : a static DataFrame.
    key, value, timestamp, order : as of `Rows`; key and value of the types of the input.
    starting_offsets, starting_timestamp : as of `Snapshot`.

    Examples
    --------
    >>> frame = spark.read.parquet("/history/orders")  # doctest: +SKIP
    >>> wm.Backfill(frame, key="id", timestamp="at", starting_offsets="earliest")  # doctest: +SKIP
    """

    frame: Any = field(repr=False)
    key: Any
    timestamp: Any = field(kw_only=True)
    value: Any = field(default=None, kw_only=True)
    order: Any = field(default=None, kw_only=True)
    starting_offsets: StartingOffsets | None = field(default=None, kw_only=True)
    starting_timestamp: datetime | int | None = field(default=None, kw_only=True)

    is_snapshot: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Rows(self.frame, self.key, self.value, self.timestamp, self.order)
        _check_bootstrap_options(self)


Bootstrap = Snapshot | Backfill
"""What an input may begin with."""


def goes_on(bootstrap: Bootstrap) -> bool:
    """Whether it says from where a topic goes on."""
    return bootstrap.starting_offsets is not None or bootstrap.starting_timestamp is not None


def check_bootstrap(bootstrap: Any, kind: str, origin: Origin, name: str) -> None:
    """Raise unless an input can begin with it.

    Parameters
    ----------
    kind : "stream" or "table".
    origin, name : the input's.

    Raises
    ------
    TopologyError : it is something else, or does not say from where a topic goes on.
    """
    if not isinstance(bootstrap, Snapshot if kind == "table" else Backfill) and not isinstance(bootstrap, Backfill):
        raise TopologyError(
            f"A {kind} cannot begin with bootstrap={type(bootstrap).__name__}: a table takes a Snapshot or a Backfill, "
            "a stream a Backfill.",
            given=f"bootstrap={type(bootstrap).__name__}, of the {kind} {name!r}",
            hint='bootstrap=wm.Snapshot(frame, key="id", ...), bootstrap=wm.Backfill(frame, key="id", timestamp="at")',
        )
    if origin.topic is not None and not goes_on(bootstrap):
        raise TopologyError(
            f"The bootstrap of {name!r} needs starting_offsets= or starting_timestamp=: where to continue in the "
            "topic.",
            hint="starting_offsets={0: 1200, 1: 1187}, or starting_timestamp=.",
        )
    if goes_on(bootstrap) and origin.topic is None:
        raise TopologyError(
            f"The bootstrap of {name!r} takes no offsets: its input is a DataFrame, not a topic.",
            hint="Leave starting_offsets= and starting_timestamp= out.",
        )


def check_types(bootstrap_types: tuple[Any, Any], input_types: tuple[Any, Any], name: str) -> None:
    """Raise unless the types of key and value that an input begins with are those of the input.

    Raises
    ------
    TopologyError : they are others.
    """
    for part, actual, expected in zip(("key", "value"), bootstrap_types, input_types, strict=True):
        if actual.simpleString() != expected.simpleString():
            raise TopologyError(
                f"The {part}s of the bootstrap have another type than the {part}s of its input {name!r}.",
                given=f"the bootstrap of {name!r} has {actual.simpleString()}; the input {expected.simpleString()}",
                hint=f"Name or make a column of the input's type: {part}=F.col(...).cast(...).",
            )


def _check_bootstrap_options(bootstrap: Bootstrap) -> None:
    if bootstrap.frame.isStreaming:
        raise TopologyError(
            "bootstrap= takes a static DataFrame, and this one is streaming.",
            hint="Read it with spark.read, not spark.readStream.",
        )
    if bootstrap.starting_offsets is not None and bootstrap.starting_timestamp is not None:
        raise TopologyError(
            "Give either starting_offsets= or starting_timestamp=, not both.", hint="Leave one of them out."
        )
    if bootstrap.starting_offsets is not None:
        check_offsets(bootstrap.starting_offsets)
    if bootstrap.starting_timestamp is not None:
        object.__setattr__(bootstrap, "starting_timestamp", milliseconds(bootstrap.starting_timestamp))
