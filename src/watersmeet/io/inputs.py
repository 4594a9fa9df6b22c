"""Inputs that answer for themselves (`Origin`): rows of a DataFrame, changes of a table.

Vocabulary: nobody else asks which input something is. One table (`_spark/sources/sources.py`) maps its class to the
reader. Topics are in `topics`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from watersmeet.errors import TopologyError
from watersmeet.hints import answering
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.kafka import StartingOffsets, is_number
from watersmeet.io.policies import Policies

Function = Callable[..., Any]


class Origin(ABC):  # noqa: B024  an input that sorts nothing out answers none of it otherwise
    """The origin of an input: it answers the questions of the plan, the start and the checkpoint.

    Attributes
    ----------
    shown : what a picture of the topology calls it.
    frame : the DataFrame that it is read from, as one partition, numbered by one task; None: from none.
    writes_snapshots : whether a start writes its rows into the checkpoint, and goes on while the query runs.
    """

    shown: ClassVar[str] = ""
    writes_snapshots: ClassVar[bool] = False
    frame: Any = None

    @property
    def default_name(self) -> str | None:
        """The input's name where the user gives none; None: he has to give one."""
        return None

    @property
    def topic(self) -> str | None:
        """The Kafka topic, if its records have the partitions and offsets of one; else None.

        One source of Spark's reads all topics, as bytes, which the workers decode.
        """
        return None

    @property
    def pattern(self) -> str | None:
        """The pattern of the topics' names, if it reads all topics with such names; `topic` is then its text."""
        return None

    def reads(self, topic: str | None) -> bool:
        """Whether it reads the Kafka topic of this name."""
        return topic is not None and self.topic == topic

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """Formats of the parts of a record that come as bytes."""
        return {}

    @property
    def keeps_headers(self) -> bool:
        """Whether its records have headers."""
        return False

    @property
    def policies(self) -> Policies:
        """Its policies for bad records, if it has policies and names them."""
        return Policies()

    @property
    def begins_at(self) -> StartingOffsets | None:
        """Where its topic is read from where there is no checkpoint yet; None: where the connection says."""
        return None

    @property
    def timestamp_extractor(self) -> Function | None:
        """The user's function that gives its records' times; None: they have their own."""
        return None

    def under(self, policies: Policies) -> Self:
        """The same input under these policies, if it has some."""
        return self


@dataclass(frozen=True)
class SortedOut(Origin):
    """Bad records of another input, or of the topology, on their way to a topic: nothing is read."""

    goes_to: str

    shown = "dead letters"


def check_complete(frame: Any, options: Mapping[str, Any]) -> None:
    """Raise, naming all of them, where options are missing that a DataFrame needs as an input.

    Parameters
    ----------
    options : the options, by name; None: not given. An order is not missed alone: Parquet files have one.

    Raises
    ------
    TopologyError : so it is.
    """
    # `is None`, never truth: a Column has none
    missing = [f"{name}=" for name in ("name", "key", "timestamp") if name in options and options[name] is None]
    if not missing:
        return
    no_order = options.get("order") is None
    listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
    order = ", and order= unless its files are Parquet" if no_order else ""
    examples = {"name=": "name='orders'", "key=": "key='id'", "timestamp=": "timestamp='at'"}
    example = [*map(examples.__getitem__, missing), *(["order='at'"] if no_order else [])]
    raise TopologyError(
        f"A DataFrame as an input needs {listed}{order}.",
        hint=f"For example {', '.join(example)}. The columns are {', '.join(frame.columns)}.",
    )


@answering
@dataclass(frozen=True, eq=False)
class Rows(Origin):
    """A DataFrame as an input, streaming or static.

    Parameters
    ----------
    frame : the DataFrame. A static one is copied once into the checkpoint's folder and read from there.
    key : a column name, several names (the key is then a struct of them), or a Column.
    value : likewise; None: a struct of all columns that are neither key, timestamp nor order. A null value
        is a tombstone.
    timestamp : a column name or a Column: a timestamp, or milliseconds since 1970 as a long.
    order : names of the columns that order the rows of a batch; may be left out for Parquet files: their rows have an
        order of their own (time and name of the file, number of the row).
    partitioned : whether this order counts for the rows of each key alone, as in a topic that has partitions: the tasks
        of a start then read in parallel, and rows of different keys are merged by time. False: all rows have one order,
        and one task reads them.
    """

    frame: Any = field(repr=False)
    key: Any = None
    value: Any = None
    timestamp: Any = None
    order: Any = None
    partitioned: bool = field(default=False, kw_only=True)

    shown = "DataFrame"
    is_feed: ClassVar[bool] = False  # whether its rows are changes of a table, with the columns of `FEED`

    def __post_init__(self) -> None:
        if not hasattr(self.frame, "schema") or not hasattr(self.frame, "isStreaming"):
            raise TopologyError(
                f"wm.Rows takes a DataFrame, and not {type(self.frame).__name__}.",
                hint='wm.Rows(frame, key="id", timestamp="changed_at")',
            )
        check_complete(self.frame, {"key": self.key, "timestamp": self.timestamp, "order": self.order})
        if self.order is not None:
            self._set_order([self.order] if isinstance(self.order, str) else self.order)

    def _set_order(self, order: Any) -> None:
        names = tuple(order) if isinstance(order, list | tuple) else ()
        if not names or not all(isinstance(name, str) for name in names):
            hint = 'order=["day", "row"]'
            raise TopologyError(f"order must be a column name, or several: order={order!r:.80}.", hint=hint)
        object.__setattr__(self, "order", names)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(timestamp: Any) -> int:
    """A moment in ms since 1970.

    Raises
    ------
    TopologyError : it is neither a number nor a datetime with a time zone.
    """
    if is_number(timestamp):
        return int(timestamp)
    if isinstance(timestamp, datetime) and timestamp.tzinfo is not None:
        return (timestamp - _EPOCH) // timedelta(milliseconds=1)
    raise TopologyError(
        f"starting_timestamp must be a datetime with a time zone, or milliseconds since 1970, not {timestamp!r:.80}.",
        hint="datetime(2026, 1, 31, tzinfo=timezone.utc)",
    )


CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
FEED = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""Columns of a change feed, as Delta and Spark's own `readStream.changes` have them."""


@answering
@dataclass(frozen=True, eq=False)
class Changes:
    """The changes of a table of Delta or Iceberg as an input: first the table as it is, then each commit.

    A table made of it is the lakehouse's table; a stream has a record for each change, with a null value for a
    deletion. Changes are ordered by their commits. Of several changes of a key in one commit the last one counts, so an
    update is one change, not two, and an update of the key deletes the row of the old one (docs/lakehouse.md).

    Parameters
    ----------
    table : the table's name in the session's catalogs, "lake.shop.orders"; or a DataFrame with the columns
        `_change_type`, `_commit_version` and `_commit_timestamp`, such as `spark.readStream.changes(name)`.
    key : the columns that identify a row: a name, several names (the key is then a struct), or a Column. None: the
        identifier fields of a table of Iceberg.
    value : likewise; None: a struct of all columns but key and timestamp.
    timestamp : a column's name or a Column: a timestamp, or milliseconds since 1970 as a long. None: the commit's time.
    starting_version : with the table as of which version (the id of a snapshot of Iceberg) it begins; a stream then
        has only later changes. None: with the table as it is at the first start.
    starting_timestamp : the same by the time of the version: a datetime with a time zone, or milliseconds since 1970.
    options : further options of Spark's reader of a Delta table, such as {"maxFilesPerTrigger": "100"}; of Iceberg
        this one alone, for the snapshots of a batch.

    Examples
    --------
    >>> wm.Changes("shop.orders", key="order_id")  # doctest: +SKIP
    """

    table: Any
    key: Any = None
    value: Any = field(default=None, kw_only=True)
    timestamp: Any = field(default=None, kw_only=True)
    starting_version: int | None = field(default=None, kw_only=True)
    starting_timestamp: datetime | int | None = field(default=None, kw_only=True)
    options: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        version: Any = self.starting_version
        if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 0):
            raise TopologyError(
                f"starting_version={version!r:.80} is no version of a table.",
                hint="DESCRIBE HISTORY lists the versions of a Delta table, <table>.snapshots those of Iceberg.",
            )
        if self.starting_timestamp is not None:
            object.__setattr__(self, "starting_timestamp", milliseconds(self.starting_timestamp))
            if version is not None:
                raise TopologyError(
                    f"Give either starting_version={version} or starting_timestamp=, not both.",
                    hint="Leave one of them out.",
                )
        if not isinstance(self.table, str) and not hasattr(self.table, "isStreaming"):
            raise TopologyError(
                f"wm.Changes takes a table's name or a DataFrame of changes, and not {type(self.table).__name__}.",
                hint='wm.Changes("lake.shop.orders", key="order_id")',
            )
        if not isinstance(self.table, str) and (self.begins or self.options):
            option = self.begins or f"options={dict(self.options)!r:.80}"
            raise TopologyError(
                f"wm.Changes(frame, {option}): a DataFrame takes neither starting_version= nor options=.",
                hint='Give them where it is read: spark.readStream.option("startingVersion", 7).changes(name).',
            )

    @property
    def begins(self) -> str:
        """The option that says with which version it begins; "" where none does."""
        options = ("starting_version", "starting_timestamp")
        return next((f"{name}={getattr(self, name)}" for name in options if getattr(self, name) is not None), "")

    @property
    def table_text(self) -> str:
        """The table in an error."""
        return repr(self.table) if isinstance(self.table, str) else "frame"


@dataclass(frozen=True, eq=False)
class ChangeRows(Rows):
    """The rows of a change feed; made of `Changes`, with the parameters of `Rows`."""

    is_feed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Everything has been checked."""
