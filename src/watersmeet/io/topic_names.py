"""Arguments for Kafka topics: names, several names as one stream, patterns of names, and starting offsets."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.errors import TopologyError
from watersmeet.names import answering

StartingOffsets = Mapping[int, int] | Literal["earliest", "latest"]
_PATH = re.compile(r"/|\\\\|\.(?:parquet|json|csv|avro|orc)$")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OF_PYTHON = re.compile(r"\(\?P|\(\?\(|\(\?#|\(\?\w*[ax]|\{,|\\Z|\\A")
"""What Python's patterns have and Java's have not, or otherwise."""


@answering
@dataclass(frozen=True)
class TopicPattern:
    """Topics by a pattern of their names, as the source of a stream.

    Spark looks for topics with such names before each batch: one that is created later joins between two batches, and
    is read from its beginning. Kafka Streams: `StreamsBuilder.stream(Pattern)`; Spark: `subscribePattern`.

    Parameters
    ----------
    pattern : a regular expression for the whole name, such as "orders-.*"; Spark reads it as Java's `Pattern`.

    Raises
    ------
    TopologyError : it is no regular expression, or one that Java reads otherwise.

    Examples
    --------
    >>> orders = builder.stream(wm.TopicPattern("orders-.*"), key="string", value="string")  # doctest: +SKIP
    """

    pattern: str

    def __post_init__(self) -> None:
        given: Any = self.pattern
        if not isinstance(given, str) or not given:
            raise TopologyError(
                f"The pattern of a TopicPattern must be a text: pattern={given!r:.120}.",
                hint='wm.TopicPattern("orders-.*")',
            )
        other = _OF_PYTHON.search(given)
        if other is not None:
            raise TopologyError(
                f"wm.TopicPattern({given!r:.120}) has {other[0]!r}, which Java's regular expressions do not have or "
                "read otherwise.",
                hint="The whole name has to match, so no anchors are needed. Leave out named groups, comments and the "
                "flags a and x, and write {0,3} for {,3}.",
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)
                re.compile(given)
        except FutureWarning as warning:
            raise TopologyError(
                f"Java reads the set of characters in wm.TopicPattern({given!r:.120}) otherwise: {warning}.",
                hint="A set has characters and ranges alone: [a-z0-9]. Put a backslash before [, &, |, ~ or - in it.",
            ) from None
        except (re.error, OverflowError, RecursionError) as error:
            raise TopologyError(
                f"wm.TopicPattern({given!r:.120}) is not a regular expression: {error}.",
                hint='".*" stands for any characters, "[.]" for a dot: wm.TopicPattern("orders-.*").',
            ) from None


def matches(pattern: str, topic: str) -> bool:
    """Whether the whole name of a topic matches a pattern."""
    return re.fullmatch(pattern, topic) is not None


def check_topic(name: Any, *, writes: bool = False) -> None:
    """Raise where it cannot be the name of a topic; `writes`: of an output.

    Raises
    ------
    TopologyError : it cannot.
    """
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f"This cannot be the name of a Kafka topic: {name!r:.120}.", hint=_topic_hint(name, writes))


def _topic_hint(name: Any, writes: bool) -> str:
    """Hints for a wrong topic name: a path, or several names."""
    if isinstance(name, str) and _PATH.search(name):
        if writes:
            return f"Files are written by wm.Writer('parquet', path={name!r}): stream.to(..., name='files')."
        return (
            f"Files are read as a DataFrame: spark.readStream.schema(...).parquet({name!r}), then "
            "builder.stream(frame, name=..., key=..., timestamp=...)."
        )
    plain = "Letters, digits, '.', '_' and '-', at most 249 of them."
    if isinstance(name, str) and re.search(r"[,;]", name) and not writes:
        return f"{plain} Read several topics as a list: builder.stream({re.split('[,; ]+', name)!r:.120}, ...)."
    if isinstance(name, str) and re.search(r"[*|?]", name) and not writes:
        return f"{plain} A pattern of names: builder.stream(wm.TopicPattern({name!r:.120}), ...)."
    return plain


def are_topics(source: Any) -> bool:
    """Whether a source is a list of names, also one without any."""
    return isinstance(source, list | tuple | set) and all(isinstance(each, str) for each in source)


def check_topics(names: Any, bootstrap: Any) -> Sequence[str]:
    """The names, each once and in an order of their own.

    Raises
    ------
    TopologyError : there are none, one is there twice, they have no order, or a history is to be of all of them.
    """
    if isinstance(names, set):
        raise TopologyError(
            f"The topics need an order, which decides between records of one time, and a set has none: {names!r:.80}.",
            hint=f"builder.stream({sorted(names)!r:.80}, ...)",
        )
    if not names:
        raise TopologyError(
            "builder.stream([]) needs a topic: the list is empty.", hint="builder.stream(['orders'], ...)"
        )
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise TopologyError(f"The topic {twice!r} is named twice.", hint="Name each topic once.")
    if bootstrap is not None:
        raise TopologyError(
            f"bootstrap= belongs to one topic, and the stream has {len(names)} topics.",
            hint="Read each topic with its own bootstrap=, then merge: one.merge(other).",
        )
    return list(names)


def check_offsets(given: Any) -> None:
    """Raise unless these are places from where a topic is read.

    Raises
    ------
    TopologyError : they are none.
    """
    named = isinstance(given, Mapping) and all(is_number(each) for pair in given.items() for each in pair)
    if not (named and given) and given not in ("earliest", "latest"):
        raise TopologyError(
            f"starting_offsets must be offsets by the numbers of the partitions, not {given!r:.120}.",
            given=f"starting_offsets={given!r}",
            hint='starting_offsets={0: 1200, 1: 1187}, "earliest" or "latest".',
        )


def is_number(given: Any) -> bool:
    """Whether this is a number of a partition, an offset or a time."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0
