"""Inputs and outputs that answer for themselves, outputs of the user's own, changes of tables, and bad-record policies.

Vocabulary: nobody else asks which output something is. One table (`_spark/outputs/outputs.py`) maps its class to the
writer.
"""

from __future__ import annotations

import os
import re
from abc import ABC
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from watersmeet.errors import ConfigError, FunctionError, TopologyError, did_you_mean
from watersmeet.hints import answering, check_called
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.kafka import StartingOffsets, check_topic, is_number, setting_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from watersmeet.functions import FunctionBackend


WrittenBy = Literal["driver", "tasks"]
Names = tuple[str, str]
"""Of two outputs, the earlier one first."""
KeyTexts = Callable[[], tuple[str, str]]
"""Types and formats of two outputs' keys, as text."""


class SinkTarget(ABC):  # noqa: B024  an output of files or a function answers none of it otherwise
    """The target of an output: it answers the questions of the plan, the start and the checkpoint.

    Attributes
    ----------
    shown : what a picture of the topology calls it.
    keeps_rows : whether it keeps a row for each key, as a table does; only tables are then written to it.
    """

    shown: ClassVar[str] = ""
    keeps_rows: ClassVar[bool] = False

    @property
    def default_name(self) -> str | None:
        """The output's name where the user gives none; None: he has to give one."""
        return None

    @property
    def topic(self) -> str | None:
        """The Kafka topic that it is; None: it is none. Outputs of one topic leave in one order (law 2)."""
        return None

    @property
    def is_placed(self) -> bool:
        """Whether a function of the user's says which partition each record goes to."""
        return False

    @property
    def feeds_back(self) -> bool:
        """Whether the topology may read what it writes there."""
        return False

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """Formats of the parts of a record that are written as bytes; None: by type. Nothing: rows are kept as such."""
        return {}

    @property
    def claim(self) -> Hashable | None:
        """The place that it writes to: outputs of one claim must fit each other (`check_beside`). None: no claim."""
        return None

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:  # noqa: B027  it need not be said
        """Raise unless it can write keys and values of these types; called on the line that writes to it.

        Raises
        ------
        TopologyError : it cannot.
        """

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:  # noqa: B027  it need not be said
        """Raise unless it goes together with an earlier output of the same claim.

        Raises
        ------
        TopologyError : it does not.
        """

    def recorded(self, *, alone: bool) -> Mapping[str, Any]:
        """The record of it in a checkpoint, as JSON, besides its name.

        Parameters
        ----------
        alone : whether it may be Spark's own sink: the topology's only output, and no input by a pattern.
        """
        return {}


@dataclass(frozen=True)
class BatchInfo:
    """Which batch an output of one's own is given.

    Parameters
    ----------
    number : of the batch; the first is 0. A batch that is run again has its number, and the same rows.
    writer : who writes: a name that no other query and no other task has, the same at every start.
    task : number of the task that writes; None: the driver does.
    """

    number: int
    writer: str
    task: int | None = None


class Output:
    """An output of your own, as a class with one method.

    `table.to(HttpOutput(url), name="http")`: `write` gets the rows of each batch, records of a stream or changes of a
    table. By itself it is at least once: a batch that failed, or that the driver did not live to commit, is run again,
    with the same number and the same rows, and `write` is called again. It is exactly once where writing a row again
    changes nothing, as under a key. Or where what it writes to keeps `batch.writer` and `batch.number`, in one
    transaction with the rows, and `last_batch` answers the number: watersmeet then leaves out the batches that are
    there, and refuses a checkpoint that is older than the output.

    Attributes
    ----------
    written_by : "driver" calls `write` once for each batch, with all its rows, which have to fit into the driver's
        memory; "tasks" has each task of the last exchange call it with its own, in the workers: the object is pickled.
    keeps_rows : whether it keeps a row for each key: then a stream is refused, which is no table.

    Examples
    --------
    >>> class Printed(Output):
    ...     def write(self, rows, batch):
    ...         print(batch.number, rows.select(["key", "value"]).to_pylist())
    >>> Printed().written_by
    'driver'
    """

    written_by: ClassVar[WrittenBy] = "driver"
    keeps_rows: ClassVar[bool] = False

    def write(self, rows: pa.Table, batch: BatchInfo) -> None:
        """Write rows; when it returns, they must be safe.

        Parameters
        ----------
        rows : columns key, value (null: a tombstone), timestamp, sequence, and headers where a topic keeps them. Each
            key's rows stand in order, and all of them are in one call. It is not called without rows.
        batch : the number of their batch.

        Raises
        ------
        Exception : whatever it likes: the query fails with a `SinkError` that names the line, nothing of the batch
            is committed, and the next start runs it again.
        """

    def last_batch(self, writer: str) -> int | None:
        """The number of the last batch of this writer's that the output has; -1: none. None: that is not known.

        It is asked at the start, and before each `write`, on the same machine as that.

        Parameters
        ----------
        writer : as `BatchInfo` has it.
        """
        return None

    def check_types(self, key: pa.DataType, value: pa.DataType) -> None:
        """Raise unless keys and values of these types can be written; called on the line of `to(...)`.

        Raises
        ------
        TopologyError : they cannot.
        """

    def check(self) -> None:
        """Raise unless the output can be reached; called at each start, on the driver.

        Raises
        ------
        ConfigError : it cannot.
        """


@dataclass(frozen=True)
class UserOutputTarget(SinkTarget):
    """An output of the user's own, as a sink target: so his class may have any names that it likes."""

    output: Output

    shown = "own output"

    def __post_init__(self) -> None:
        written_by: object = self.output.written_by
        if written_by not in get_args(WrittenBy):
            raise TopologyError(
                f"Unknown written_by={written_by!r:.80}.",
                given=f"class {type(self.output).__name__}",
                hint='Take written_by = "driver", or "tasks".',
            )
        class_name = type(self.output).__name__
        if type(self.output).write is Output.write:
            raise FunctionError(f"{class_name} has no method write.", hint="def write(self, rows, batch): ...")
        check_called(self.output.write, f"{class_name}.write", ("rows", "batch"), "def write(self, rows, batch)")

    def __repr__(self) -> str:
        return f"{type(self.output).__name__}(...)"

    @property
    def keeps_rows(self) -> bool:  # type: ignore[override]
        """See `SinkTarget`."""
        return self.output.keeps_rows

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        self.output.check_types(functions.as_arrow(key), functions.as_arrow(value))


# Policies for bad records: one value for an input, an operator, an output or a whole topology.
#
# Vocabulary: the three policies travel as one (`Policies`); who sorts records out asks it for the one that decides
# there.

_BAD = {
    "on_undecodable": "undecodable records",
    "on_error": "records for which a function raises",
    "on_drop": "records that are dropped",
    "on_invalid_timestamp": "records without a valid timestamp",
}
_WORDS = {"on_drop": ("skip",), "on_invalid_timestamp": ("fail", "skip", "own")}


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
OnInvalidTimestamp = Literal["fail", "skip", "own"] | DeadLetter
Policy = Literal["fail", "skip", "own"] | DeadLetter


@dataclass(frozen=True)
class Policies:
    """Policies for bad records. None: the next wider policy applies, in the end `USUAL`.

    Parameters
    ----------
    on_undecodable : records with bytes that an input's formats cannot decode.
    on_error : those for which a function raises, or that an output's format does not write.
    on_drop : those that are late, expired, or without the key or value that an operator needs.
    on_invalid_timestamp : those for which an input's timestamp extractor gives no time, or raises.
    """

    on_undecodable: OnUndecodable | None = None
    on_error: OnError | None = None
    on_drop: OnDrop | None = None
    on_invalid_timestamp: OnInvalidTimestamp | None = None

    @property
    def said(self) -> Mapping[str, Policy]:
        """Those that are said, by their options."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        return {option: policy for option, policy in values.items() if policy is not None}

    def check(self) -> Policies:
        """Raise unless each of them says what becomes of bad records.

        Raises
        ------
        TopologyError : one does not.
        """
        for option, policy in self.said.items():
            _check(option, policy)
        return self

    def over(self, usual: Policies) -> Policies:
        """These; of those that are not said, the usual ones."""
        return Policies(**{**usual.said, **self.said})  # type: ignore[arg-type]

    def only(self, of: Policies) -> Policies:
        """Of these, the ones that others say, too."""
        return Policies(**{option: policy for option, policy in self.said.items() if option in of.said})  # type: ignore[arg-type]

    @property
    def fails(self) -> bool:
        """Whether a record that cannot be decoded fails the query."""
        return self.on_undecodable in (None, "fail")

    @property
    def tolerates_errors(self) -> bool:
        """Whether a record for which a function raises does not fail the query."""
        return self.on_error not in (None, "fail")

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that dead letters go to, each once."""
        return tuple(dict.fromkeys(policy.topic for policy in self.said.values() if isinstance(policy, DeadLetter)))


_OF_RUN: ContextVar[Policies | None] = ContextVar("policies of a run", default=None)


@contextmanager
def policies_of_run(policies: Policies) -> Iterator[None]:
    """Builders that are made meanwhile take these policies in place of their own, and keep those that are not given."""
    token = _OF_RUN.set(policies)
    try:
        yield
    finally:
        _OF_RUN.reset(token)


USUAL = Policies("fail", "fail", "skip", "fail")
"""What holds where nothing is said."""
OF_INPUTS = Policies("fail", "fail", on_invalid_timestamp="fail")
"""The policies that inputs have."""
USUAL_BEHIND_INPUTS = Policies(on_error="fail", on_drop="skip")
"""Those behind the inputs, of operators and outputs."""


@dataclass(frozen=True)
class OperatorPolicies:
    """Policies for records that end after the inputs of a topology.

    Parameters
    ----------
    usual : what holds at operators and outputs.
    named : by their names, what holds at single ones in place of it.
    """

    usual: Policies = USUAL_BEHIND_INPUTS
    named: tuple[tuple[str, Policies], ...] = field(default=())

    def at(self, name: str) -> Policies:
        """The policies of an operator or an output."""
        return next((policies for key, policies in self.named if key == name), Policies()).over(self.usual)

    def tolerates_errors(self, name: str) -> bool:
        """Whether a record for which a function raises, or that cannot be written, does not fail the query there."""
        return self.at(name).tolerates_errors

    @property
    def drops(self) -> tuple[Policy, ...]:
        """All policies for dropped records."""
        layers = (self.usual, *(layer for _, layer in self.named))
        return tuple(layer.on_drop for layer in layers if layer.on_drop is not None)

    @property
    def dead_letters(self) -> tuple[str, ...]:
        """The topics that dead letters go to, each once: those of errors first."""
        layers = (self.usual, *(layer for _, layer in self.named))
        policies = [*(layer.on_error for layer in layers), *self.drops]
        return tuple(dict.fromkeys(policy.topic for policy in policies if isinstance(policy, DeadLetter)))


def named_policies(name: Any, policies: Policies) -> Policies:
    """The policies of an operator or an output, checked.

    Raises
    ------
    TopologyError : it has no name, or none is said, or one is no policy.
    """
    if not name or not isinstance(name, str) or not policies.said:
        raise TopologyError(
            "policies(...) needs the name of an operator or an output, and at least one policy.",
            given=f"policies({name!r}, on_error={policies.on_error!r}, on_drop={policies.on_drop!r})",
            hint='builder.policies("counts", on_drop=wm.DeadLetter("late"))',
        )
    return policies.check()


def topology_policies(on_undecodable: Any, on_error: Any, on_drop: Any) -> Policies:
    """The policies of a topology, which says all of them; a run may replace them (`policies_of_run`).

    Raises
    ------
    TopologyError : one is no policy.
    """
    policies = Policies(on_undecodable, on_error, on_drop)
    for option in ("on_undecodable", "on_error", "on_drop"):
        _check(option, getattr(policies, option))
    return (_OF_RUN.get() or Policies()).over(policies)


def _check(option: str, policy: Any) -> None:
    words = _WORDS.get(option, ("fail", "skip"))
    if policy not in words and not isinstance(policy, DeadLetter):
        raise TopologyError(
            f"Unknown policy {option}={policy!r:.80} for {_BAD[option]}.",
            hint="Take " + ", ".join(f'"{word}"' for word in words) + ' or wm.DeadLetter("topic").',
        )


# Questions that an input answers for itself.
#
# Vocabulary: nobody else asks which input something is. One table (`_spark/sources/sources.py`) maps its class to the
# reader.

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


# DataFrames as inputs; Spark's writers and functions of batches as outputs.

FILES = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
"""Formats of files."""
_TEXT_CODECS = ("none", "bzip2", "gzip", "lz4", "snappy", "deflate", "zstd")
_CODECS = {
    "parquet": ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"),
    "orc": ("none", "uncompressed", "snappy", "zlib", "lzo", "zstd", "lz4", "brotli"),
    "avro": ("uncompressed", "snappy", "deflate", "bzip2", "xz", "zstandard"),
    **dict.fromkeys(("json", "csv", "text", "xml"), _TEXT_CODECS),
}
"""By the format of files, what compression= may be."""
_TIMES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale", "encoding", "charset")
_FILE_OPTIONS = {
    "parquet": (),
    "orc": (),
    "avro": ("avroSchema", "recordName", "recordNamespace", "positionalFieldMatching"),
    "text": ("lineSep", "encoding"),
    "json": (*_TIMES, "lineSep", "ignoreNullFields", "pretty", "writeNonAsciiCharacterAsCodePoint"),
    "csv": (
        *(*_TIMES, "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "escapeQuotes", "quoteAll"),
        *("header", "nullValue", "emptyValue", "lineSep", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
    ),
    "xml": (
        *_TIMES,
        "rowTag",
        "rootTag",
        "declaration",
        "arrayElementName",
        "nullValue",
        "attributePrefix",
        "valueTag",
    ),
}
"""The options that Spark's writers of files have besides; those with a dot are Hadoop's."""
_ALL_FILES = ("compression", "codec", "maxRecordsPerFile", "partitionOverwriteMode", "mergeSchema", "retention")
_NESTED = re.compile(r"struct|array|list|map|large_list", re.IGNORECASE)


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


@answering
@dataclass(frozen=True, init=False)
class Writer(SinkTarget):
    """Any of Spark's writers as an output: files, console, memory, a table format.

    Parameters
    ----------
    format : what `DataFrame.writeStream.format` takes.
    path : where it writes, if it writes files.
    options : the writer's own. Columns are key, value, timestamp, sequence (for `watersmeet.latest`), headers if any.
    """

    format: str
    path: str | None
    options: Mapping[str, str]

    shown = "files"

    def __init__(self, format: str, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        _check_writer(format)
        _check_options(format, path, options)
        if format in FILES:
            check_path(str(path), "path")
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "path", None if path is None else str(path))
        object.__setattr__(self, "options", setting_texts(f"wm.Writer({format!r})", options))

    def __hash__(self) -> int:
        return hash((self.format, self.path, tuple(sorted(self.options.items()))))

    def __repr__(self) -> str:
        return f"Writer({self.format!r}, path={self.path!r}, options={sorted(self.options)})"

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        if self.format == "text":
            raise TopologyError(
                "Writer('text') writes one column, and a record has key, value, timestamp and sequence.",
                hint="Take csv, json or parquet: wm.Writer('json', path=...).",
            )
        for part, kind in (("key", key), ("value", value)):
            if self.format == "csv" and _NESTED.match(str(kind)):
                raise TopologyError(
                    f"Writer('csv') writes no struct, array or map, and the {part} is {kind!s:.120}.",
                    hint="Take parquet or json: wm.Writer('parquet', path=...); or make a text of it: "
                    "stream.map_values(lambda value: F.to_json(value)).",
                )

    @property
    def claim(self) -> tuple[str, str] | None:
        return None if self.path is None else ("path", self.path)

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        raise TopologyError(
            f"Two outputs write to {self.path}: of each batch only the rows of one would stay.",
            given=f"{self.path}: {names[0]!r} and {names[1]!r}",
            hint="Merge them first: one.merge(other).to(...); or give each a path of its own.",
        )

    def recorded(self, *, alone: bool) -> Mapping[str, Any]:
        return {} if self.path is None else {"path": self.path, "listed": alone}


@answering
@dataclass(frozen=True)
class ForeachBatch(SinkTarget):
    """A function of the user as an output: it is called with each batch's rows and the batch's number.

    Parameters
    ----------
    function : takes a DataFrame with columns key, value, timestamp, sequence (and headers), and the batch's number.
        After a failure it may be called again with the same number and the same rows.
    """

    function: Callable[[Any, int], None]

    shown = "function"

    def __post_init__(self) -> None:
        function: Any = self.function
        if not callable(function):
            hint = "def write(frame, batch_id): ..."
            raise TopologyError(f"ForeachBatch takes a function, and not {function!r:.80}.", hint=hint)
        name = getattr(function, "__name__", type(function).__name__)
        check_called(function, f"The function {name} of ForeachBatch", ("frame", "batch"), "def write(frame, batch)")


def check_path(path: str, option: str) -> None:
    """Raise where a path begins with what a shell replaces and Spark does not, has two slashes for three, or is HTTP's.

    Raises
    ------
    ConfigError : so it does.
    """
    if re.match("https?://", path):
        raise ConfigError(
            f"{option}={path!r:.120} is an address of HTTP, and no folder.",
            hint=f"Name the folder: {option}='/data/orders'. A query that serves tables is asked by wm.connect(url), "
            "or `watersmeet top URL`.",
        )
    full_path = os.path.expandvars(os.path.expanduser(path)) if path.startswith(("~", "$")) else path
    full_path = re.sub("^file://(?!/)", "file:///", full_path)
    if full_path != path or path.startswith(("~", "$")):
        full_path = "/data/orders" if full_path == path else full_path
        raise ConfigError(
            f"{option}={path!r:.120} is no whole path.", hint=f"Write it out: {option}={full_path!r:.120}."
        )


def _check_options(format: str, path: Any, options: Mapping[str, Any]) -> None:
    cures = {
        "name": "The output has it: stream.to(wm.Writer(...), name='files').",
        "options": "Each by its name: wm.Writer('csv', path='/data/orders', header=True).",
        "mode": "Leave it out: batches are appended.",
        **dict.fromkeys(
            ("partitionBy", "partition_by", "bucketBy", "sortBy"),
            "Spark's stream of files knows it, this output does not: write with wm.ForeachBatch(function).",
        ),
        **dict.fromkeys(
            ("checkpointLocation", "checkpoint", "trigger", "outputMode", "queryName"),
            "The start has it: topology.start(spark, checkpoint=..., trigger='1 minute').",
        ),
    }
    for name in cures.keys() & options.keys():
        raise TopologyError(f"wm.Writer has no option {name}={options[name]!r:.80}.", hint=cures[name])
    if format in FILES and path is None:
        raise TopologyError(
            f"wm.Writer({format!r}) writes files, and path= is left out.",
            hint=f"wm.Writer({format!r}, path='/data/orders')",
        )
    if format == "memory" and path is None and "queryName" not in options:
        raise TopologyError(
            "wm.Writer('memory') needs path=, the name of its table.", hint='wm.Writer("memory", path="results")'
        )
    if format in FILES:
        _check_file_options(format, options)


def _check_file_options(format: str, options: Mapping[str, Any]) -> None:
    """Raise for an option that Spark's writer of files does not have: Spark would pass it over."""
    names = {name.lower(): name for name in (*_ALL_FILES, *_FILE_OPTIONS[format])}
    for name, value in options.items():
        if "." not in name and name.lower() not in names:
            usual = f"It has {', '.join(names.values())}."
            hint = did_you_mean(name.lower(), names, usual, form=lambda near: f"{names[near]}=")
            raise TopologyError(f"wm.Writer({format!r}) has no option {name}={value!r:.80}.", hint=hint)
        if name.lower() in ("compression", "codec"):
            _check_word(f"{name}=", str(value), _CODECS[format], f"wm.Writer({format!r})")


def _check_word(option: str, word: str, words: Sequence[str], owner: str) -> None:
    if word.lower() not in words:
        hint = did_you_mean(word.lower(), words, form=repr, suffix=f"It has {', '.join(words)}.")
        raise TopologyError(f"{owner} has no {option}{word!r:.80}.", hint=hint)


_WRITERS = (*sorted(FILES), "console", "memory", "noop", "delta", "iceberg")


def _check_writer(format: Any) -> None:
    if not isinstance(format, str) or not format:
        hint = 'wm.Writer("parquet", path="...")'
        raise TopologyError(f"wm.Writer needs a format: format={format!r:.80}.", hint=hint)
    usual = format in _WRITERS
    hint = "" if usual else did_you_mean(format.lower(), _WRITERS, form="wm.Writer({!r}, ...)".format, cutoff=0.8)
    if hint:
        raise TopologyError(f"Unknown format {format!r} of wm.Writer: Spark does not have it.", hint=hint)
    if format == "kafka":
        raise TopologyError(
            "Writer('kafka') may write records twice, and sets no timestamps.",
            hint='Write to the topic: stream.to("topic"), or wm.TopicSink("topic", ...).',
        )
