"""The words for inputs and outputs: formats, topics, rows of DataFrames, sinks, and the connection to Kafka.

Vocabulary: frozen declarations, checked when they are made, on the user's own line. What needs a schema (is
there such a column, can its type be a timestamp) is checked by `_spark.sources` and `_spark.formats`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from millpond.errors import ConfigError, TopologyError

Delivery = Literal["exactly_once", "at_least_once"]
FormatName = Literal["bytes", "string", "int", "long", "json"]
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORMAT_HINT = 'Take "bytes", "string", "int" (4 bytes), "long" (8 bytes) or mp.json("id long, name string").'
_SCHEMA_HINT = 'Name fields and types: mp.json("id long, name string"), or give a StructType.'


@dataclass(frozen=True)
class Format:
    """How a key or a value is written as bytes.

    Parameters
    ----------
    kind : "bytes", "string" (UTF-8), "int" (4 bytes big-endian), "long" (8 bytes big-endian) or "json".
    schema : of json: a schema in DDL ("id long, name string") or a Spark type; a sink needs none.
    """

    kind: str
    schema: Any = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FormatName):
            raise TopologyError("There is no such format.", given=repr(self.kind), hint=_FORMAT_HINT)
        if self.kind != "json" and self.schema is not None:
            what = f"The format {self.kind!r} takes no schema."
            raise TopologyError(what, given=repr(self.schema), hint="Leave it out.")
        if self.schema is not None and not _is_schema(self.schema):
            raise TopologyError("This is not a schema.", given=repr(self.schema), hint=_SCHEMA_HINT)

    @classmethod
    def of(cls, given: Any) -> Format:
        """The format that a user means: a Format, or the name of one.

        Raises
        ------
        TopologyError : neither.
        """
        if isinstance(given, Format):
            return given
        if isinstance(given, str):
            return cls(given)
        raise TopologyError("There is no such format.", given=repr(given), hint=_FORMAT_HINT)

    def __str__(self) -> str:
        if self.schema is None:
            return self.kind
        return f"json({self.schema if isinstance(self.schema, str) else self.schema.simpleString()})"


def json(schema: Any = None) -> Format:
    """The format of JSON texts, read strictly (decision 13); a source needs their schema, a sink takes what comes.

    Parameters
    ----------
    schema : the fields in DDL ("id long, name string"), or a Spark type such as a StructType.

    Examples
    --------
    >>> str(json("id long, name string"))
    'json(id long, name string)'
    """
    return Format("json", schema)


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
                hint=f"{part}=...: {_FORMAT_HINT}",
            )
        form = Format.of(given)
        if form.kind == "json" and form.schema is None:
            raise TopologyError(
                f"JSON is read with a schema, which the topic {self.name!r} needs for its {part}s.",
                given=f"{part}=json without a schema",
                hint=_SCHEMA_HINT,
            )
        object.__setattr__(self, part, form)


@dataclass(frozen=True, eq=False)
class Rows:
    """A DataFrame as an input, streaming or static.

    Parameters
    ----------
    frame : the DataFrame. A static one is copied once into the checkpoint's folder and read from there.
    key : a column name, several names (the key is then a struct of them), or a Column.
    value : likewise; None: a struct of all columns that are neither key, timestamp nor order. A null value
        is a tombstone.
    timestamp : a column name or a Column: a timestamp, or milliseconds since 1970 as a long.
    order : names of the columns that order the rows of a batch; may be left out for Parquet files, whose rows
        have an order of their own (time and name of the file, number of the row).
    """

    frame: Any = field(repr=False)
    key: Any = None
    value: Any = None
    timestamp: Any = None
    order: Any = None

    def __post_init__(self) -> None:
        if not hasattr(self.frame, "schema") or not hasattr(self.frame, "isStreaming"):
            raise TopologyError(
                "Rows are made from a DataFrame.",
                given=type(self.frame).__name__,
                hint='mp.Rows(frame, key="id", timestamp="changed_at")',
            )
        # `is None`, never truth: a Column has none
        missing = [part for part in ("key", "timestamp") if getattr(self, part) is None]
        if missing:
            raise TopologyError(
                f"The rows of a DataFrame need a {missing[0]}.",
                given=f"{missing[0]}=None",
                hint=f"Name its column: {missing[0]}=... The columns are {', '.join(self.frame.columns)}.",
            )
        if self.order is not None:
            self._set_order([self.order] if isinstance(self.order, str) else self.order)

    def _set_order(self, given: Any) -> None:
        names = tuple(given) if isinstance(given, list | tuple) else ()
        if not names or not all(isinstance(name, str) for name in names):
            hint = 'order=["day", "row"]'
            raise TopologyError("The order is a column name, or several.", given=repr(given), hint=hint)
        object.__setattr__(self, "order", names)


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
                object.__setattr__(self, part, Format.of(getattr(self, part)))
        if self.delivery not in get_args(Delivery):
            raise TopologyError(
                "There is no such delivery.",
                given=f"delivery={self.delivery!r}",
                hint='Take "exactly_once" or "at_least_once".',
            )


@dataclass(frozen=True, init=False)
class Writer:
    """Any of Spark's writers as an output: files, console, memory, a table format.

    Parameters
    ----------
    format : what `DataFrame.writeStream.format` takes.
    path : where it writes, if it writes files.
    options : the writer's own. Columns are key, value, timestamp, sequence (for `millpond.latest`), headers if any.
    """

    format: str
    path: str | None
    options: Mapping[str, str]

    def __init__(self, format: str, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        _check_writer(format)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "path", None if path is None else str(path))
        object.__setattr__(self, "options", {name: _text(value) for name, value in options.items()})

    def __hash__(self) -> int:
        return hash((self.format, self.path, tuple(sorted(self.options.items()))))

    def __repr__(self) -> str:
        return f"Writer({self.format!r}, path={self.path!r}, options={sorted(self.options)})"


@dataclass(frozen=True)
class ForeachBatch:
    """A function of the user as an output: it is called with each batch's rows and the batch's number.

    Parameters
    ----------
    function : takes a DataFrame with columns key, value, timestamp, sequence (and headers), and the batch's number.
        After a failure it may be called again with the same number and the same rows.
    """

    function: Callable[[Any, int], None]

    def __post_init__(self) -> None:
        given: Any = self.function
        if not callable(given):
            hint = "def write(frame, batch_id): ..."
            raise TopologyError("ForeachBatch takes a function.", given=repr(given), hint=hint)


@dataclass(frozen=True, init=False, repr=False)
class Kafka:
    """The connection to a Kafka cluster. Its repr shows no secrets.

    Parameters
    ----------
    bootstrap_servers : "host:port,host:port".
    max_records_per_batch : at most so many records in one batch, over all topics, in proportion to backlog.
    starting_offsets : where all but global tables begin where there is no checkpoint yet: "earliest" or "latest".
    consumer : settings of Kafka's Java client, which reads, by its names.
    producer : settings of librdkafka, which writes, by its names.
    source : further options of Spark's Kafka source, by Spark's names.
    options : settings of both clients, with dots or underscores: `security_protocol="SASL_SSL"`,
        `sasl_mechanism`, `sasl_username`, `sasl_password`, `ssl_ca_location` (PEM).

    Examples
    --------
    >>> Kafka("localhost:9092", security_protocol="SASL_SSL", sasl_password="canary")
    Kafka('localhost:9092', sasl.password=..., security.protocol='SASL_SSL')
    """

    bootstrap_servers: str
    max_records_per_batch: int
    starting_offsets: str
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    source: Mapping[str, str]
    options: Mapping[str, str]

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        max_records_per_batch: int = 1_000_000,
        starting_offsets: str = "earliest",
        consumer: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        _check_connection(bootstrap_servers, max_records_per_batch, starting_offsets)
        object.__setattr__(self, "bootstrap_servers", bootstrap_servers)
        object.__setattr__(self, "max_records_per_batch", max_records_per_batch)
        object.__setattr__(self, "starting_offsets", starting_offsets)
        object.__setattr__(self, "consumer", _client_settings(consumer or {}))
        object.__setattr__(self, "producer", _client_settings(producer or {}))
        object.__setattr__(self, "options", _client_settings(options))
        object.__setattr__(self, "source", {name: _text(value) for name, value in (source or {}).items()})
        refused = [name for name in self.source if name.lower() in _REFUSED]
        if refused:
            raise ConfigError(
                "The Kafka source cannot take this option.",
                given=refused[0],
                hint=_REFUSED[refused[0].lower()],
            )

    def __repr__(self) -> str:
        shown = [repr(self.bootstrap_servers), *_shown(self.options)]
        sides = {side: ", ".join(_shown(getattr(self, side))) for side in ("consumer", "producer", "source")}
        shown += [f"{side}=({settings})" for side, settings in sides.items() if settings]
        return f"Kafka({', '.join(shown)})"


_ONE_TASK = "Leave it out: it gives one partition to several tasks, and its records lose their order."
_OWN = "Leave it out: millpond names the topics itself."
_REFUSED = {
    "minpartitions": _ONE_TASK,
    "maxrecordsperpartition": _ONE_TASK,
    "subscribe": _OWN,
    "subscribepattern": _OWN,
    "assign": _OWN,
    "startingoffsets": 'Kafka(..., starting_offsets="earliest") or "latest".',
    "endingoffsets": "Leave it out: a stream has no end.",
    "maxoffsetspertrigger": "Kafka(..., max_records_per_batch=...).",
    "minoffsetspertrigger": "Leave it out: it holds records back for a time that no replay repeats.",
    "maxtriggerdelay": "Leave it out: it holds records back for a time that no replay repeats.",
    "includeheaders": "Leave it out: it follows from headers=True of a topic.",
    "kafka.bootstrap.servers": "They are the first argument of Kafka(...).",
}
# The values that a repr may show; whatever is not known to be harmless may be a secret.
_HARMLESS = frozenset({"security.protocol", "sasl.mechanism", "client.id", "failOnDataLoss"})


def _check_connection(servers: Any, limit: Any, start: Any) -> None:
    # the address itself is not shown: a user may have put a whole URL with a password there
    if not isinstance(servers, str) or not re.fullmatch(r"[^@\s]+:\d+", servers):
        raise ConfigError("Kafka needs the address of its servers.", hint='mp.Kafka("host:9092,host:9092")')
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(
            "The rate limit is a number of records per batch.",
            given=f"max_records_per_batch={limit!r}",
            hint="Leave it out, or give 1 or more.",
        )
    if start not in ("earliest", "latest"):
        raise ConfigError(
            "There is no such beginning.",
            given=f"starting_offsets={start!r}",
            hint='"earliest" or "latest"; where a checkpoint exists, it decides.',
        )


def _shown(settings: Mapping[str, str]) -> list[str]:
    return [f"{n}={v!r}" if n in _HARMLESS else f"{n}=..." for n, v in sorted(settings.items())]


def _client_settings(given: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", ".").removeprefix("kafka."): _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_schema(given: Any) -> bool:
    return (isinstance(given, str) and bool(given.strip())) or hasattr(given, "simpleString")


def _check_writer(format: Any) -> None:
    if not isinstance(format, str) or not format:
        hint = 'mp.Writer("parquet", path="...")'
        raise TopologyError("A writer needs a format.", given=repr(format), hint=hint)
    if format == "kafka":
        raise TopologyError(
            "Spark's own Kafka writer may write records twice and sets no timestamps.",
            given="Writer('kafka')",
            hint='Write to the topic: stream.to("topic"), or mp.TopicSink("topic", ...).',
        )


def _check_topic(name: Any) -> None:
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            "This cannot be the name of a Kafka topic.",
            given=repr(name),
            hint="Letters, digits, '.', '_' and '-', at most 249 of them.",
        )
