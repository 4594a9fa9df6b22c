"""The bootstrap of an input: a table's snapshot, or an input's history, and where to continue in its topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from watersmeet.errors import TopologyError
from watersmeet.io.dataframes import Rows
from watersmeet.io.inputs import Origin
from watersmeet.io.topic_names import StartingOffsets, check_offsets, is_number
from watersmeet.names import answering

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        _check_begin(self)


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
        _check_begin(self)


Bootstrap = Snapshot | Backfill
"""What an input may begin with."""


def goes_on(begin: Bootstrap) -> bool:
    """Whether it says from where a topic goes on."""
    return begin.starting_offsets is not None or begin.starting_timestamp is not None


def check_bootstrap(begin: Any, kind: str, origin: Origin, name: str) -> None:
    """Raise unless an input can begin with it.

    Parameters
    ----------
    kind : "stream" or "table".
    origin, name : the input's.

    Raises
    ------
    TopologyError : it is something else, or does not say from where a topic goes on.
    """
    if not isinstance(begin, Snapshot if kind == "table" else Backfill) and not isinstance(begin, Backfill):
        raise TopologyError(
            f"A {kind} cannot begin with bootstrap={type(begin).__name__}: a table takes a Snapshot or a Backfill, "
            "a stream a Backfill.",
            given=f"bootstrap={type(begin).__name__}, of the {kind} {name!r}",
            hint='bootstrap=wm.Snapshot(frame, key="id", ...), bootstrap=wm.Backfill(frame, key="id", timestamp="at")',
        )
    if origin.topic is not None and not goes_on(begin):
        raise TopologyError(
            f"The bootstrap of {name!r} needs starting_offsets= or starting_timestamp=: where to continue in the "
            "topic.",
            given=f"the bootstrap of {name!r}",
            hint="starting_offsets={0: 1200, 1: 1187}, or starting_timestamp=.",
        )
    if goes_on(begin) and origin.topic is None:
        raise TopologyError(
            f"The bootstrap of {name!r} takes no offsets: its input is a DataFrame, not a topic.",
            given=f"the bootstrap of {name!r}",
            hint="Leave starting_offsets= and starting_timestamp= out.",
        )


def check_types(found: tuple[Any, Any], wanted: tuple[Any, Any], name: str) -> None:
    """Raise unless the types of key and value that an input begins with are those of the input.

    Raises
    ------
    TopologyError : they are others.
    """
    for part, own, wished in zip(("key", "value"), found, wanted, strict=True):
        if own.simpleString() != wished.simpleString():
            raise TopologyError(
                f"The {part}s of the bootstrap have another type than the {part}s of its input {name!r}.",
                given=f"the bootstrap of {name!r} has {own.simpleString()}; the input {wished.simpleString()}",
                hint=f"Name or make a column of the input's type: {part}=F.col(...).cast(...).",
            )


def _check_begin(begin: Bootstrap) -> None:
    if begin.frame.isStreaming:
        raise TopologyError(
            "A bootstrap takes a static DataFrame, and this one is streaming.",
            given="a streaming DataFrame",
            hint="Read it with spark.read, not spark.readStream.",
        )
    if begin.starting_offsets is not None and begin.starting_timestamp is not None:
        raise TopologyError(
            "Give either starting_offsets= or starting_timestamp=, not both.",
            given="starting_offsets= and starting_timestamp=",
            hint="Leave one of them out.",
        )
    if begin.starting_offsets is not None:
        check_offsets(begin.starting_offsets)
    if begin.starting_timestamp is not None:
        object.__setattr__(begin, "starting_timestamp", _milliseconds(begin.starting_timestamp))


def _milliseconds(given: Any) -> int:
    if is_number(given):
        return int(given)
    if isinstance(given, datetime) and given.tzinfo is not None:
        return (given - _EPOCH) // timedelta(milliseconds=1)
    raise TopologyError(
        f"starting_timestamp must be a datetime with a time zone, or milliseconds since 1970, not {given!r:.80}.",
        given=f"starting_timestamp={given!r}",
        hint="datetime(2026, 1, 31, tzinfo=timezone.utc)",
    )
