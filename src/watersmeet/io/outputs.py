"""Outputs that answer for themselves (`SinkTarget`): files, functions, and outputs of the user's own.

Vocabulary: nobody else asks which output something is. One table (`_spark/outputs/outputs.py`) maps its class to the
writer. Topics are in `topics`, tables in `databases`.
"""

from __future__ import annotations

import os
import re
from abc import ABC
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from watersmeet.errors import ConfigError, FunctionError, TopologyError, did_you_mean
from watersmeet.hints import answering, check_called
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.kafka import setting_texts

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
    """An output of the user's own, wrapped as a sink target: its class may use any names."""

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
    if option == "checkpoint" and (wild := re.search(r"[*?\[\]{}]", path)):
        message = f"{option}={path!r:.120} has {wild[0]!r}, which Spark's readers take for a pattern."
        raise ConfigError(message, hint="Choose a path without * ? [ ] { }.")
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
