"""The words for inputs and outputs: formats, topics, rows of DataFrames, sinks, and the connection to Kafka.

Vocabulary: frozen declarations, checked when they are made, on the user's own line; imports errors alone, so
that a topology can be written down without Spark. What they do is in `_spark.formats`, `_spark.sources` and
`_spark.sinks`, which ask `origins` for one of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from millpond.errors import ConfigError, TopologyError

Delivery = Literal["exactly_once", "at_least_once"]
PLAIN_FORMATS = ("bytes", "string", "int", "long")
DELIVERIES = ("exactly_once", "at_least_once")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORMAT_HINT = 'Take "bytes", "string", "int" (4 bytes), "long" (8 bytes) or mp.json("id long, name string").'
# The values that a repr may show; whatever is not known to be harmless may be a secret.
_HARMLESS = frozenset(
    {"security.protocol", "sasl.mechanism", "client.id", "request.timeout.ms", "isolation.level"}
)


@dataclass(frozen=True)
class Format:
    """How a key or a value is written as bytes.

    Parameters
    ----------
    kind : "bytes", "string" (UTF-8), "int" (4 bytes big-endian), "long" (8 bytes big-endian) or "json".
    schema : of json: a schema in DDL ("id long, name string"), or a Spark type.
    """

    kind: str
    schema: Any = None

    def __post_init__(self) -> None:
        if self.kind not in (*PLAIN_FORMATS, "json"):
            raise TopologyError("There is no such format.", given=repr(self.kind), hint=_FORMAT_HINT)
        if self.kind == "json" and not _is_schema(self.schema):
            raise TopologyError(
                "JSON is read with a schema.",
                given=repr(self.schema),
                hint='Name fields and types: mp.json("id long, name string"), or give a StructType.',
            )
        if self.kind != "json" and self.schema is not None:
            raise TopologyError(
                f"The format {self.kind!r} takes no schema.", given=repr(self.schema), hint="Leave it out."
            )

    @classmethod
    def of(cls, given: Any) -> Format:
        """The format that a user means: a Format, or the name of a plain one.

        Raises
        ------
        TopologyError : neither.
        """
        if isinstance(given, Format):
            return given
        if given == "json":
            raise TopologyError(
                "JSON is read with a schema.", given="'json'", hint='mp.json("id long, name string")'
            )
        if isinstance(given, str) and given in PLAIN_FORMATS:
            return cls(given)
        raise TopologyError("There is no such format.", given=repr(given), hint=_FORMAT_HINT)

    def __str__(self) -> str:
        if self.schema is None:
            return self.kind
        return f"json({self.schema if isinstance(self.schema, str) else self.schema.simpleString()})"


def json(schema: Any) -> Format:
    """The format of JSON texts with this schema.

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
    """Undecodable records go, as they are, to another topic."""

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
        they are, "skip" leaves the record out and counts it, `DeadLetter("topic")` also sends it there.
    headers : whether records keep their headers.
    """

    name: str
    key: Any = None
    value: Any = None
    on_undecodable: OnUndecodable = "fail"
    headers: bool = False

    def __post_init__(self) -> None:
        _check_topic(self.name)
        # One turn per part of the record.
        for part in ("key", "value"):
            given = getattr(self, part)
            if given is None:
                raise TopologyError(
                    f"The topic {self.name!r} needs a format for its {part}s.",
                    given=f"{part}=None",
                    hint=f"{part}=...: {_FORMAT_HINT}",
                )
            object.__setattr__(self, part, Format.of(given))
        if self.on_undecodable not in ("fail", "skip") and not isinstance(self.on_undecodable, DeadLetter):
            raise TopologyError(
                "There is no such policy for undecodable records.",
                given=f"on_undecodable={self.on_undecodable!r}",
                hint='Take "fail", "skip" or mp.DeadLetter("topic").',
            )


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

    frame: Any
    key: Any = None
    value: Any = None
    timestamp: Any = None
    order: Any = None

    def __post_init__(self) -> None:
        if not hasattr(self.frame, "schema") or not hasattr(self.frame, "isStreaming"):
            raise TopologyError("Rows are made from a DataFrame.", given=repr(self.frame))
        # One turn per option that a frame cannot do without.
        for part in ("key", "timestamp"):
            if getattr(self, part) is None:
                raise TopologyError(
                    f"Rows of a DataFrame need a {part}.",
                    given=f"{part}=None",
                    hint=f"Name its column: Rows(frame, key=..., timestamp=...). {self._columns()}",
                )
        order = self.order
        if order is not None:
            order = (order,) if isinstance(order, str) else tuple(order)
            if not order or not all(isinstance(name, str) for name in order):
                raise TopologyError("The order is a column name or several.", given=repr(self.order))
            object.__setattr__(self, "order", order)

    def _columns(self) -> str:
        return f"Its columns are {', '.join(self.frame.columns)}."


@dataclass(frozen=True)
class TopicSink:
    """A Kafka topic as an output.

    Parameters
    ----------
    name : the topic; it has to exist.
    key, value : formats; left out, they follow from the types: string, int, long and bytes as Kafka's
        serializers write them, anything else as JSON.
    delivery : "exactly_once" (a reader with `read_committed` sees each record once) or "at_least_once".
    """

    name: str
    key: Any = None
    value: Any = None
    delivery: Delivery = "exactly_once"

    def __post_init__(self) -> None:
        _check_topic(self.name)
        # One turn per part of the record.
        for part in ("key", "value"):
            if getattr(self, part) is not None:
                object.__setattr__(self, part, Format.of(getattr(self, part)))
        if self.delivery not in DELIVERIES:
            raise TopologyError(
                "There is no such delivery.",
                given=f"delivery={self.delivery!r}",
                hint=f"Take one of {', '.join(map(repr, DELIVERIES))}.",
            )


@dataclass(frozen=True, init=False)
class Writer:
    """Any of Spark's writers as an output: files, console, memory, a table format.

    Parameters
    ----------
    format : what `DataFrame.writeStream.format` takes.
    path : where it writes, if it writes files.
    options : the writer's own.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __init__(self, format: str, path: str | None = None, **options: Any) -> None:
        if not isinstance(format, str) or not format:
            raise TopologyError(
                "A writer needs a format.", given=repr(format), hint='mp.Writer("parquet", path="...")'
            )
        if format == "kafka":
            raise TopologyError(
                "Spark's own Kafka writer may write records twice and sets no timestamps.",
                given="Writer('kafka')",
                hint='Write to the topic: stream.to("topic"), or mp.TopicSink("topic", ...).',
            )
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "options", {name: _text(value) for name, value in options.items()})

    def __hash__(self) -> int:
        return hash((self.format, self.path, tuple(sorted(self.options.items()))))

    def __repr__(self) -> str:
        names = "".join(f", {name}=..." for name in sorted(self.options))
        return f"Writer({self.format!r}, path={self.path!r}{names})"


@dataclass(frozen=True)
class ForeachBatch:
    """A function of the user as an output: it is called with each batch's rows and the batch's number.

    Parameters
    ----------
    function : takes a DataFrame with columns key, value, timestamp (and headers) and the number of the batch.
        After a failure it may be called again with the same number and the same rows.
    """

    function: Callable[[Any, int], None]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TopologyError(
                "ForeachBatch takes a function.",
                given=repr(self.function),
                hint="def write(frame, batch_id): ...",
            )


@dataclass(frozen=True, init=False)
class Kafka:
    """The connection to a Kafka cluster. Its repr shows no secrets.

    Parameters
    ----------
    bootstrap_servers : "host:port,host:port".
    max_offsets_per_trigger : at most so many records in one batch, over all topics.
    source, sink : settings for one side alone: the source is Kafka's Java client, the sink librdkafka.
    options : client settings for both, with dots or underscores: `security_protocol="SASL_SSL"`,
        `**{"sasl.password": "..."}`. With sasl_mechanism, sasl_username and sasl_password both sides log in.

    Examples
    --------
    >>> Kafka("localhost:9092", security_protocol="SASL_SSL", sasl_password="canary")
    Kafka('localhost:9092', sasl.password=..., security.protocol='SASL_SSL')
    """

    bootstrap_servers: str
    options: Mapping[str, str]
    source: Mapping[str, str]
    sink: Mapping[str, str]
    max_offsets_per_trigger: int

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        max_offsets_per_trigger: int = 1_000_000,
        source: Mapping[str, Any] | None = None,
        sink: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
            raise ConfigError(
                "Kafka needs the address of its servers.",
                given=f"a {type(bootstrap_servers).__name__}",
                hint='mp.Kafka("host:9092")',
            )
        limit = max_offsets_per_trigger
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigError(
                "The rate limit is a number of records per batch.",
                given=repr(limit),
                hint="Leave it out, or 1 or more.",
            )
        object.__setattr__(self, "bootstrap_servers", bootstrap_servers)
        object.__setattr__(self, "max_offsets_per_trigger", limit)
        object.__setattr__(self, "options", _settings(options))
        object.__setattr__(self, "source", _settings(source or {}))
        object.__setattr__(self, "sink", _settings(sink or {}))

    def __repr__(self) -> str:
        shown = [repr(self.bootstrap_servers)]
        shown += [_shown(name, value) for name, value in sorted(self.options.items())]
        for side in ("source", "sink"):
            names = ", ".join(_shown(name, value) for name, value in sorted(getattr(self, side).items()))
            shown += [f"{side}=({names})"] if names else []
        return f"Kafka({', '.join(shown)})"

    __str__ = __repr__


def _shown(name: str, value: str) -> str:
    return f"{name}={value!r}" if name in _HARMLESS else f"{name}=..."


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", ".").removeprefix("kafka."): _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_schema(given: Any) -> bool:
    return (isinstance(given, str) and bool(given.strip())) or hasattr(given, "simpleString")


def _check_topic(name: Any) -> None:
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            "This cannot be the name of a Kafka topic.",
            given=repr(name),
            hint="Letters, digits, '.', '_' and '-', at most 249 of them.",
        )
