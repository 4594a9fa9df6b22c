"""Kafka topics as inputs and as outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.io.formats import FORMAT_HINT, Format, FormatName
from watersmeet.io.inputs import Origin
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget
from watersmeet.names import answering

if TYPE_CHECKING:
    from watersmeet.functions import FunctionBackend

Delivery = Literal["exactly_once", "at_least_once"]
_BAD = {
    "on_undecodable": "undecodable records",
    "on_error": "records for which a function raises",
    "on_drop": "records that are dropped",
}
_WORDS = {"on_drop": ("skip",)}
_PATH = re.compile(r"/|\\\\|\.(?:parquet|json|csv|avro|orc)$")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@answering
@dataclass(frozen=True)
class DeadLetter:
    """Bad records go to another topic: key, value and headers as they came, and headers that say what was wrong.

    They leave in the transaction of the batch's results. The headers are named as those of Kafka Streams (KIP-1034):
    `__streams.errors.exception`, `.message`, `.topic`, `.partition`, `.offset`; ours are `.timestamp` (in ms, of the
    record), `.operator` and `.reason`.

    Parameters
    ----------
    topic : the topic; it has to exist, and be no other input or output of the topology.
    """

    topic: str

    def __post_init__(self) -> None:
        check_topic(self.topic)


OnUndecodable = Literal["fail", "skip"] | DeadLetter
OnError = Literal["fail", "skip"] | DeadLetter
OnDrop = Literal["skip"] | DeadLetter


@dataclass(frozen=True)
class Policies:
    """What becomes of records that end at one operator or output.

    Parameters
    ----------
    name : the operator's, or the output's.
    on_error, on_drop : as of `Within`; None: as the topology has them.
    """

    name: str
    on_error: OnError | None = None
    on_drop: OnDrop | None = None

    def __post_init__(self) -> None:
        options = {"on_error": self.on_error, "on_drop": self.on_drop}
        name: object = self.name
        if not name or not isinstance(name, str) or set(options.values()) == {None}:
            raise TopologyError(
                "Policies are of an operator or an output by its name, and one of them at least is given.",
                given=f"policies({self.name!r}, on_error={self.on_error!r}, on_drop={self.on_drop!r})",
                hint='builder.policies("counts", on_drop=wm.DeadLetter("late"))',
            )
        for option, given in options.items():
            if given is not None:
                check_policy(option, given)


@dataclass(frozen=True)
class Within:
    """What becomes of records of a topology that end behind its inputs.

    Parameters
    ----------
    on_error : those for which a function raises behind an operator, or that an output's format does not write.
    on_drop : those that are late, expired, or without the key or value that an operator needs.
    named : what holds at single operators and outputs in place of these.
    """

    on_error: OnError = "fail"
    on_drop: OnDrop = "skip"
    named: tuple[Policies, ...] = ()

    def error_at(self, name: str) -> OnError:
        """What holds at an operator or an output."""
        return next((each.on_error for each in self.named if each.name == name and each.on_error), self.on_error)

    def drop_at(self, name: str) -> OnDrop:
        """The same of records that are dropped."""
        return next((each.on_drop for each in self.named if each.name == name and each.on_drop), self.on_drop)

    def outlives(self, name: str) -> bool:
        """Whether a record for which a function raises, or that cannot be written, does not fail the query there."""
        return self.error_at(name) != "fail"

    @property
    def drops(self) -> tuple[OnDrop, ...]:
        """What becomes of records that are dropped, wherever that is."""
        return (self.on_drop, *(each.on_drop for each in self.named if each.on_drop is not None))

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that dead letters go to, each once."""
        policies = [self.on_error, *(each.on_error for each in self.named), *self.drops]
        return tuple(dict.fromkeys(each.topic for each in policies if isinstance(each, DeadLetter)))


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
    """

    name: str
    key: Format | FormatName | None = None
    value: Format | FormatName | None = None
    on_undecodable: OnUndecodable | None = None
    headers: bool = False
    on_error: OnError | None = None

    shown = "topic"

    def __post_init__(self) -> None:
        check_topic(self.name)
        for part in ("key", "value"):  # the parts of a record
            self._set_format(part, getattr(self, part))
        for name in ("on_undecodable", "on_error"):
            if getattr(self, name) is not None:
                check_policy(name, getattr(self, name))
        if not isinstance(self.headers, bool):
            raise TopologyError(
                f"The option headers must be True or False: headers={self.headers!r}.",
                hint="Take headers=True or headers=False.",
            )

    @property
    def default_name(self) -> str:
        """See `Origin`."""
        return self.name

    @property
    def topic(self) -> str:
        """See `Origin`."""
        return self.name

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """See `Origin`."""
        return {"key": self.key, "value": self.value}

    @property
    def keeps_headers(self) -> bool:
        """See `Origin`."""
        return self.headers

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """See `Origin`."""
        return () if self.value is None else Format.of(self.value).drop_reasons

    def under(self, usual: Mapping[str, Any]) -> Topic:
        """See `Origin`."""
        return replace(self, **{option: getattr(self, option) or word for option, word in usual.items()})

    @property
    def fails(self) -> bool:
        """Whether a record that cannot be decoded fails the query."""
        return self.on_undecodable in (None, "fail")

    @property
    def outlives_errors(self) -> bool:
        """Whether a record for which a function raises does not fail the query."""
        return self.on_error not in (None, "fail")

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that its dead letters go to, each once."""
        policies = (self.on_undecodable, self.on_error)
        return tuple(dict.fromkeys(each.topic for each in policies if isinstance(each, DeadLetter)))

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
    """

    name: str
    key: Format | FormatName | None = None
    value: Format | FormatName | None = None
    delivery: Delivery = "exactly_once"

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
                f"There is no such delivery: delivery={self.delivery!r}.",
                hint='Take "exactly_once" or "at_least_once".',
            )

    @property
    def default_name(self) -> str:
        """See `SinkTarget`."""
        return self.name

    @property
    def topic(self) -> str:
        """See `SinkTarget`."""
        return self.name

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """See `SinkTarget`."""
        return {"key": self.key, "value": self.value}

    @property
    def claim(self) -> tuple[str, str]:
        """See `SinkTarget`."""
        return ("topic", self.name)

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        """See `SinkTarget`."""
        for part, kind in (("key", key), ("value", value)):
            form: Format | None = getattr(self, part)
            if form is not None:
                functions.check_written(form, kind, f"{part}s of the output {self.name!r}")

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        """See `SinkTarget`: so that the topic keeps one order, keys are written, and placed, in one way."""
        before, now = keys()
        if before != now:
            raise TopologyError(
                "Two outputs of one topic write their keys differently: records of one key would have no order.",
                given=f"{self.name!r}: keys of {before}, and of {now}",
                hint="Give both the same type of key (select_key) and the same key=...; or write to two topics.",
            )


def check_policy(name: str, given: Any) -> None:
    """Raise unless it says what becomes of bad records.

    Parameters
    ----------
    name : the option's.

    Raises
    ------
    TopologyError : it does not.
    """
    words = _WORDS.get(name, ("fail", "skip"))
    if given not in words and not isinstance(given, DeadLetter):
        raise TopologyError(
            f"There is no such policy for {_BAD[name]}: {name}={given!r:.80}.",
            hint="Take " + ", ".join(f'"{word}"' for word in words) + ' or wm.DeadLetter("topic").',
        )


def check_topic(name: Any, *, writes: bool = False) -> None:
    """Raise where it cannot be the name of a topic; `writes`: of an output.

    Raises
    ------
    TopologyError : it cannot.
    """
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f"This cannot be the name of a Kafka topic: {name!r:.120}.", hint=_topic_hint(name, writes))


def _topic_hint(name: Any, writes: bool) -> str:
    """What stands for what is no topic's name: a path, or several names."""
    if isinstance(name, str) and _PATH.search(name):
        if writes:
            return f"Files are written by wm.Writer('parquet', path={name!r}): stream.to(..., name='files')."
        return (
            f"Files are read as a DataFrame: spark.readStream.schema(...).parquet({name!r}), then "
            "builder.stream(frame, name=..., key=..., timestamp=...)."
        )
    plain = "Letters, digits, '.', '_' and '-', at most 249 of them."
    if isinstance(name, str) and re.search(r"[,*|;?]", name) and not writes:
        return f"{plain} Read each topic by its name, then merge: one.merge(other)."
    return plain
