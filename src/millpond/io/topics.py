"""Kafka topics as inputs and as outputs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from millpond.errors import TopologyError
from millpond.io.formats import FORMAT_HINT, Format, FormatName

Delivery = Literal["exactly_once", "at_least_once"]
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True)
class DeadLetter:
    """Undecodable records are to go, as they came, to another topic; not there yet: a start refuses it."""

    topic: str

    def __post_init__(self) -> None:
        _check_topic(self.topic)


OnUndecodable = Literal["fail", "skip"] | DeadLetter


@dataclass(frozen=True)
class Topic:
    """A Kafka topic as an input.

    Parameters
    ----------
    name : the topic.
    key, value : the formats of its keys and values. A null value is a tombstone, and nothing else is.
    on_undecodable : what becomes of bytes that are not of that format: "fail" stops the query and says where
        they are, "skip" leaves the record out and counts it (`DeadLetter`: not yet, a start refuses it).
    headers : whether records keep their headers.
    """

    name: str
    key: Format | FormatName | None = None
    value: Format | FormatName | None = None
    on_undecodable: OnUndecodable = "fail"
    headers: bool = False

    def __post_init__(self) -> None:
        _check_topic(self.name)
        for part in ("key", "value"):  # the parts of a record
            self._set_format(part, getattr(self, part))
        if self.on_undecodable not in ("fail", "skip") and not isinstance(self.on_undecodable, DeadLetter):
            raise TopologyError(
                "There is no such policy for undecodable records.",
                given=f"on_undecodable={self.on_undecodable!r}",
                hint='Take "fail" or "skip".',
            )

    def _set_format(self, part: str, given: Any) -> None:
        if given is None:
            raise TopologyError(
                f"The topic {self.name!r} needs a format for its {part}s.",
                given=f"{part}=None",
                hint=f"{part}=...: {FORMAT_HINT}",
            )
        form = Format.of(given)
        if form.unreadable is not None:
            what, found, hint = form.unreadable
            what = f"{what}, which the topic {self.name!r} needs for its {part}s."
            raise TopologyError(what, given=f"{part}={found}", hint=hint)
        object.__setattr__(self, part, form)


@dataclass(frozen=True)
class TopicSink:
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

    def __post_init__(self) -> None:
        _check_topic(self.name)
        for part in ("key", "value"):  # the parts of a record
            if getattr(self, part) is not None:
                form = Format.of(getattr(self, part))
                if form.unwritable is not None:
                    hint = "Take mp.json(), or leave the format out."
                    raise TopologyError(form.unwritable, given=f"{part}={form}", hint=hint)
                object.__setattr__(self, part, form)
        if self.delivery not in get_args(Delivery):
            raise TopologyError(
                "There is no such delivery.",
                given=f"delivery={self.delivery!r}",
                hint='Take "exactly_once" or "at_least_once".',
            )


def _check_topic(name: Any) -> None:
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            "This cannot be the name of a Kafka topic.",
            given=repr(name),
            hint="Letters, digits, '.', '_' and '-', at most 249 of them.",
        )
