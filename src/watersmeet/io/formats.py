"""Formats of keys and values: how they are written as bytes."""

from __future__ import annotations

import json as texts
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as own_field
from difflib import get_close_matches
from typing import Any, Literal, get_args

from watersmeet.errors import ConfigError, TopologyError, did_you_mean
from watersmeet.hints import answered, answering
from watersmeet.io.kafka import setting_in_error
from watersmeet.windows import Duration, duration_ms

FormatName = Literal["bytes", "string", "short", "int", "long", "float", "double", "boolean", "uuid", "json"]
FORMAT_HINT = (
    'Take "bytes", "string", "short" (2 bytes), "int" (4 bytes), "long" (8 bytes), "float", "double", "boolean", '
    '"uuid", wm.decimal(10, 2), wm.json("id long, name string"), wm.avro(...), wm.protobuf(...) or wm.json_schema(...).'
)
SCHEMA_HINT = 'Name fields and types: wm.json("id long, name string"), or give a StructType.'
_MOST_DIGITS = 38
MissingColumns = Literal["error", "null"]


@answering
@dataclass(frozen=True)
class Format:
    """How a key or a value is written as bytes.

    Parameters
    ----------
    kind : "bytes", "string" (UTF-8), "short", "int" or "long" (2, 4 or 8 bytes big-endian), "float" or "double" (IEEE,
        4 or 8 bytes big-endian), "boolean" (one byte), "uuid" (its text), or "json". Those with parameters of their own
        are made by functions: `watersmeet.decimal`, `watersmeet.time_windowed`, `watersmeet.session_windowed`.
    schema : of json: a schema in DDL ("id long, name string") or a Spark type; a sink needs none.
    missing_columns : of json: see `json`.
    """

    kind: str
    schema: Any = None
    missing_columns: MissingColumns = own_field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in get_args(FormatName):
            raise _no_format(self.kind)
        if self.kind != "json" and self.schema is not None:
            message = f"The format {self.kind!r} takes no schema."
            raise TopologyError(message, given=repr(self.schema), hint="Leave it out.")
        if self.schema is not None and not is_schema(self.schema):
            raise TopologyError(f"This is not a schema: {self.schema!r:.200}.", hint=SCHEMA_HINT)

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
            return Format(given)
        raise _no_format(given)

    @property
    def gives_time(self) -> bool:
        """Whether a record's event time is in its value, and not the time that Kafka has of it."""
        return False

    @property
    def names_transactions(self) -> bool:
        """Whether a value, read as JSON, names the transaction of a database that it belongs to."""
        return False

    @property
    def takes_stored(self) -> bool:
        """Whether a value may need that of the row which a table has stored."""
        return False

    def of_topic(self, topic: str, part: str) -> Format:
        """The same of a topic's keys or values, where that makes a difference."""
        return self

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        """Why a source cannot read it: what is wrong, what was given, and a hint. None: it can."""
        if self.kind == "json" and self.schema is None:
            return "JSON is read with a schema", "json without a schema", SCHEMA_HINT
        return None

    @property
    def unwritable(self) -> str | None:
        """Why no sink can write it; None: sinks can."""
        return None

    def __str__(self) -> str:
        if self.schema is None:
            return self.kind
        return f"{self.kind}({self.schema if isinstance(self.schema, str) else self.schema.simpleString()})"


@dataclass(frozen=True)
class WrappingFormat(Format):
    """A format around another one.

    Parameters
    ----------
    inner : the format within.
    """

    inner: Format = own_field(default_factory=lambda: Format("bytes"))

    @property
    def field(self) -> str | None:
        """The field of its values that the format within writes; None: it is no struct of parts."""
        return None

    def of_topic(self, topic: str, part: str) -> Format:
        return replace(self, inner=self.inner.of_topic(topic, part))

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        return self.inner.unreadable


@dataclass(frozen=True)
class DecimalFormat(Format):
    """Decimals as Kafka Connect's logical type writes them; see `decimal`."""

    kind: str = "decimal"
    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        digits: tuple[Any, Any] = (self.precision, self.scale)
        integral = {type(number) for number in digits} == {int}
        if not integral or not 1 <= self.precision <= _MOST_DIGITS or not 0 <= self.scale <= self.precision:
            raise TopologyError(
                f"A decimal needs 1 to {_MOST_DIGITS} digits, and not more of them behind the point.",
                given=f"decimal({self.precision!r}, {self.scale!r})",
                hint="wm.decimal(10, 2): ten digits, two of them behind the point.",
            )

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@answered
def json(schema: Any = None, *, missing_columns: MissingColumns = "error") -> Format:
    """The format of JSON texts, read strictly; a source needs their schema, a sink takes what comes.

    Of Kafka Connect's `{"schema": ..., "payload": ...}` the payload is read. The text null is a null.

    Parameters
    ----------
    schema : the fields in DDL ("id long, name string"), or a Spark type such as a StructType.
    missing_columns : of a record with Connect's schema, where this has no such column: "error" refuses the record,
        "null" reads null, as of events from before the column was added.

    Examples
    --------
    >>> str(json("id long, name string"))
    'json(id long, name string)'
    """
    if missing_columns not in get_args(MissingColumns):
        hint = '"error": a record without the column is refused; "null": the column is null.'
        raise TopologyError(f"Unknown missing_columns={missing_columns!r} of a format.", hint=hint)
    return Format("json", schema, missing_columns=missing_columns)


@answered
def decimal(precision: int, scale: int = 0) -> Format:
    """The format of decimals as Kafka Connect's `Decimal` writes them: Kafka itself has no serializer of decimals.

    The bytes are the number without its point in two's complement, the highest byte first and no byte more than it
    takes, as Java's `BigInteger.toByteArray` gives it; where the point stands is not written.

    Parameters
    ----------
    precision : digits in all, 1 to 38.
    scale : digits behind the point.

    Examples
    --------
    >>> str(decimal(10, 2))
    'decimal(10, 2)'
    """
    return DecimalFormat(precision=precision, scale=scale)


def _no_format(value: Any) -> TopologyError:
    function_name = getattr(value, "__name__", "") if callable(value) else ""
    if function_name in _MADE:
        return TopologyError(
            f"Unknown format: wm.{function_name} is a function.", hint=f"Call it: {_MADE[function_name]}."
        )
    if hasattr(value, "simpleString"):
        kind = f"{type(value).__name__}: {value.simpleString():.160}"
        return TopologyError(f"Unknown format: a {kind}.", hint="It is the schema of one: wm.json(schema).")
    name = str(value).lower() if isinstance(value, str) else function_name
    near = _CALLED.get(name.partition("(")[0], name)
    first = f'Did you mean "{near}"? ' if near in get_args(FormatName) else _of_types(name)
    return TopologyError(f"Unknown format {value!r:.160}.", hint=first + FORMAT_HINT)


def _of_types(name: str) -> str:
    """The hint for the name of a type of Spark's that is no format."""
    if name in _TIMES:
        return f'A {name} is written as {_TIMES[name]}, or is a field of JSON, wm.json("at {name}"). '
    digits = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    if digits is not None:
        return f"Write wm.decimal({digits[1]}, {digits[2]}). "
    return f'Write wm.json("{name}"). ' if name.startswith(("struct<", "array<", "map<")) else ""


_TIMES = {
    "timestamp": '"long", ms since 1970, with F.unix_millis(...) and F.timestamp_millis(...)',
    "date": '"int", days since 1970, with F.unix_date(...) and F.date_from_unix_date(...)',
}
_MADE = {
    "json": "wm.json('id long, name string')",
    "decimal": "wm.decimal(10, 2)",
    "avro": "wm.avro(schema)",
    "protobuf": "wm.protobuf(Order)",
    "json_schema": "wm.json_schema(schema)",
    "debezium": "wm.debezium('id long, name string')",
    "debezium_key": "wm.debezium_key('id long')",
    "time_windowed": "wm.time_windowed('string', size='5 minutes')",
    "session_windowed": "wm.session_windowed('string')",
}
"""How the functions that make formats are called."""
_CALLED = {
    **dict.fromkeys(("integer", "int32"), "int"),
    **dict.fromkeys(("bigint", "int64"), "long"),
    **dict.fromkeys(("str", "text", "varchar", "char", "nvarchar", "utf8"), "string"),
    **dict.fromkeys(("byte", "binary", "bytearray"), "bytes"),
    **dict.fromkeys(("bool",), "boolean"),
    "smallint": "short",
    "real": "float",
}
"""Formats by the names of SQL and Python."""
_TYPES = (
    *("binary", "boolean", "byte", "date", "decimal", "double", "float", "int", "long", "short", "string", "timestamp"),
    *("array<string>", "map<string, long>", "struct<n: long>"),
)
_MEANT = {
    **{**_CALLED, "bytes": "binary", "byte": "byte", "binary": "binary", "bytearray": "binary"},
    **dict.fromkeys(("datetime", "timestamptz", "instant"), "timestamp"),
    **{"dict": "struct<n: long>", "object": "struct<n: long>", "list": "array<string>", "array": "array<string>"},
    **dict.fromkeys(("number", "float64", "numeric", "real"), "double"),
    **dict.fromkeys(("uuid", "json", "jsonb", "enum"), "string"),
    **{"float": "double", "int": "long", "integer": "int"},
}
"""Spark's words for types of Python and of databases."""


def meant_type(name: str) -> str | None:
    """The type, in Spark's words, that another language's name stands for, or a misspelt one; None: none is near.

    >>> meant_type("datetime"), meant_type("lng"), meant_type("zebra")
    ('timestamp', 'long', None)
    """
    near = get_close_matches(name.lower(), _TYPES, n=1, cutoff=0.8)
    return _MEANT.get(name.lower()) or (near[0] if near else None)


def is_schema(value: Any) -> bool:
    """Whether it is a schema by its looks: a text, or a type of Spark's."""
    return (isinstance(value, str) and bool(value.strip())) or hasattr(value, "simpleString")


# The connection to a Schema Registry.

_NUMBERS = frozenset(
    {"cache.capacity", "cache.latest.ttl.sec", "max.retries", "retries.max.wait.ms", "retries.wait.ms", "timeout"}
)
_TEXTS = frozenset(
    {
        *("basic.auth.credentials.source", "basic.auth.user.info", "proxy", "ssl.ca.location"),
        *("ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
    }
)
"""The settings of confluent-kafka's client, besides those that begin with "bearer.auth."."""
_URL = re.compile(r"https?://[^@\s]+")


@answering
@dataclass(frozen=True, init=False, repr=False)
class SchemaRegistry:
    """The connection to a Schema Registry. Its repr shows no secrets.

    Parameters
    ----------
    url : "https://host:8081", several with commas between them; no user or password in it.
    username, password : of HTTP's basic authentication.
    options : settings of confluent-kafka's `SchemaRegistryClient` by its names, with dots or underscores:
        `ssl_ca_location`, `ssl_certificate_location`, `ssl_key_location`, `bearer_auth_...`, `timeout` (s, default 30),
        `max_retries` (default 3).

    Raises
    ------
    ConfigError : the address is none.

    Examples
    --------
    >>> SchemaRegistry("http://localhost:8081", username="ann", password="canary")
    SchemaRegistry('http://localhost:8081', basic.auth.user.info=...)
    """

    url: str
    options: Mapping[str, Any]

    def __init__(self, url: str, *, username: str | None = None, password: str | None = None, **options: Any) -> None:
        # the address itself is not shown: a user may have put a password there
        if not all(_URL.fullmatch(address.strip()) for address in str(url).split(",")):
            bare = re.fullmatch(r"[\w.-]+:\d+", str(url))
            if bare:
                raise ConfigError(
                    f"The address of a Schema Registry must begin with http:// or https://: {url!r}.",
                    hint=f"wm.SchemaRegistry('http://{url}').",
                )
            raise ConfigError(
                "The address of a Schema Registry must be a URL without a user or a password.",
                hint='wm.SchemaRegistry("https://host:8081", username="...", password="...")',
            )
        settings = {name.replace("_", "."): value for name, value in options.items()}
        if (username is None) != (password is None):
            raise ConfigError(
                f"The {'password' if password is None else 'username'} is missing.",
                given=f"only {'username' if password is None else 'password'}=",
                hint='wm.SchemaRegistry("https://host:8081", username="...", password="...")',
            )
        login = settings.get("basic.auth.user.info")
        if isinstance(login, str) and ":" not in login:
            raise ConfigError(
                "basic_auth_user_info= is a user and a password with a colon between them, and has no colon.",
                hint='wm.SchemaRegistry("https://host:8081", username="...", password="...")',
            )
        if username is not None:
            settings["basic.auth.user.info"] = f"{username}:{password}"
        _check_registry_settings(settings)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "options", settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of confluent-kafka's client; they may hold secrets."""
        return {"timeout": 30, **self.options, "url": self.url}

    def __repr__(self) -> str:
        settings = [f"{n}={v!r}" if n in _NUMBERS else f"{n}=..." for n, v in sorted(self.options.items())]
        return f"SchemaRegistry({', '.join([repr(self.url), *settings])})"

    def __hash__(self) -> int:
        return hash(self.url)


def _check_registry_settings(settings: Mapping[str, Any]) -> None:
    names = {name.replace(".", "_"): name for name in sorted(_NUMBERS | _TEXTS)}
    for name, value in settings.items():
        option, is_number = name.replace(".", "_"), isinstance(value, int | float) and not isinstance(value, bool)
        if option not in names and not name.startswith("bearer.auth."):
            usual = f"username=..., password=..., {'=, '.join(names)}= and bearer_auth_...= are its settings."
            message = f"wm.SchemaRegistry has no setting {option}=."
            raise ConfigError(message, hint=did_you_mean(option, names, usual, form="{}=".format, cutoff=0.55))
        if not (is_number and value >= 0 if name in _NUMBERS else isinstance(value, str | bool) or callable(value)):
            kind = "a number, 0 or more: timeout=30 of seconds, retries_wait_ms=1000" if name in _NUMBERS else "a text"
            message = f"wm.SchemaRegistry takes no {option}={setting_in_error(str(value))}."
            raise ConfigError(message, hint=f"{option}= is {kind}; leave out what is to be as usual.")


# Formats with a schema in a language of its own, alone or with a Schema Registry.

SubjectNameStrategy = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
_REGISTRY = 'registry=wm.SchemaRegistry("http://host:8081")'
_EXAMPLES = {
    "avro": 'wm.avro({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]})',
    "json_schema": 'wm.json_schema({"type": "object", "properties": {"amount": {"type": "number"}}})',
}


@dataclass(frozen=True, eq=False)
class SchemaFormat(Format):
    """A format with a schema, as `wm.avro` gives it.

    Parameters
    ----------
    kind : "avro", "protobuf" or "json_schema".
    schema : as text; None: a source takes the registry's, a sink makes one of the type of what it writes.
    registry : it has the schemas by the number before each value; None: values have no such number.
    subject_name_strategy : what subjects are called by.
    auto_register : whether a start registers a sink's schema that the registry does not have.
    version : of the subject, which a source reads by; None: the latest.
    subject : its name, where no strategy says it.
    topic, part : of which topic's keys or values.
    id : of a sink, the number in front of each value, known from the start on.
    validate : of JSON Schema, whether each value is looked at by all that the schema says.
    """

    registry: SchemaRegistry | None = None
    subject_name_strategy: SubjectNameStrategy = "TopicNameStrategy"
    auto_register: bool = True
    version: int | None = None
    subject: str | None = None
    topic: str = ""
    part: str = ""
    id: int | None = None
    validate: bool = False

    def __post_init__(self) -> None:
        if self.subject_name_strategy not in get_args(SubjectNameStrategy):
            raise TopologyError(
                f"Unknown subject_name_strategy={self.subject_name_strategy!r:.80}.",
                hint=f"Take one of {', '.join(map(repr, get_args(SubjectNameStrategy)))}.",
            )
        if self.schema is None and self.registry is None:
            raise TopologyError(
                f"The format {self.kind!r} needs a schema, or a registry that has it.",
                given=f"wm.{self.kind}() without either",
                hint=f"{_EXAMPLES[self.kind]}, or wm.{self.kind}({_REGISTRY}).",
            )
        if self.version is not None and (self.registry is None or self.schema is not None or not _counts(self.version)):
            lacks = "a schema is given already" if self.schema is not None else "registry= is left out"
            is_number = _counts(self.version)
            fault = f"and {lacks}" if is_number and (self.schema is not None or self.registry is None) else ""
            raise TopologyError(
                f"version= is the number of a schema in the registry{fault and ', '}{fault}: "
                f"version={self.version!r:.80}.",
                hint=("Leave version= out, or the schema. " if fault and self.schema is not None else "")
                + f"wm.{self.kind}({_REGISTRY}, version=1)",
            )

    # what a source's is of is known of each by itself
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return self.kind

    def of_topic(self, topic: str, part: str) -> SchemaFormat:
        """The same of a topic's keys or values."""
        return replace(self, topic=topic, part=part)

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        if self.schema is not None or self.subject_of(None) is not None:
            return None
        message = "The registry is asked for a subject's schema"
        hint = f'Name it: wm.{self.kind}(registry=..., subject="shop.Order"); or give the schema.'
        return message, f"{self.kind} with {self.subject_name_strategy!r}, and without a schema", hint

    def subject_of(self, record: str | None) -> str | None:
        """The subject of a schema; None where a name is needed and it has none.

        Parameters
        ----------
        record : the full name of what the schema describes, if it has one.
        """
        if self.subject is not None:
            return self.subject
        if self.subject_name_strategy == "TopicNameStrategy":
            return f"{self.topic}-{self.part}"
        if record is None:
            return None
        return record if self.subject_name_strategy == "RecordNameStrategy" else f"{self.topic}-{record}"


@answered
def avro(
    schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    registry: SchemaRegistry | None = None,
    subject_name_strategy: SubjectNameStrategy = "TopicNameStrategy",
    auto_register: bool = True,
    version: int | None = None,
    subject: str | None = None,
) -> Format:
    """The format of Avro values: with a registry as Confluent's serializers write them, else the bare values.

    Parameters
    ----------
    schema : in Avro's JSON, as text or as Python has it. Left out, a source reads by the registry's, and a sink
        writes by one made of its type.
    registry : where schemas are found by the number that stands in front of each value.
    subject_name_strategy : what a sink's subject is called by: its topic, its record, or both.
    auto_register : whether a start registers a sink's schema that the registry does not have; else it is refused.
    version : of the subject, which a source reads by; None: the latest when the topology is built.
    subject : its name, in place of the one that the strategy says.

    Raises
    ------
    TopologyError : neither a schema nor a registry, or they do not fit each other.

    Examples
    --------
    >>> str(avro('"string"'))
    'avro'
    """
    _check_registry("avro", registry)
    text = None if schema is None else _json_text(schema, "avro")
    return SchemaFormat("avro", text, registry, subject_name_strategy, auto_register, version, subject)


@answered
def json_schema(
    schema: str | Mapping[str, Any] | None = None,
    *,
    registry: SchemaRegistry | None = None,
    subject_name_strategy: SubjectNameStrategy = "TopicNameStrategy",
    auto_register: bool = True,
    version: int | None = None,
    subject: str | None = None,
    validate: bool = False,
) -> Format:
    """The format of JSON with a JSON Schema: with a registry as Confluent's serializers write it, else the bare texts.

    The schema makes the type: an object with properties is a struct, one with `additionalProperties` alone a map,
    "integer" a long, "number" a double, a string with the format "date" or "date-time" a date or a timestamp. The type,
    required fields, nulls and enums are always checked.

    Parameters
    ----------
    schema : of draft 7 or 2020-12, as text or as Python has it. Left out, a source reads by the registry's, and a sink
        writes by one made of its type.
    registry : where schemas are found by the number that stands in front of each value.
    subject_name_strategy : what a sink's subject is called by: its topic, its schema's title, or both.
    auto_register : whether a start registers a sink's schema that the registry does not have; else it is refused.
    version : of the subject, which a source reads by; None: the latest when the topology is built.
    subject : its name, in place of the one that the strategy says.
    validate : whether the package jsonschema looks at each value by all that the schema says (lengths, patterns,
        limits), which takes many times as long as reading it. A source looks by the schema that it reads by.

    Raises
    ------
    TopologyError : neither a schema nor a registry, or they do not fit each other.

    Examples
    --------
    >>> str(json_schema({"type": "object", "properties": {"id": {"type": "integer"}}}))
    'json_schema'
    """
    _check_registry("json_schema", registry)
    if schema is not None and not isinstance(schema, Mapping) and not str(schema).lstrip().startswith("{"):
        message = f"The option schema of json_schema must be a JSON object: schema={schema!r:.80}."
        raise TopologyError(message, given=f"{schema!r:.200}", hint=_EXAMPLES["json_schema"])
    text = None if schema is None else _json_text(schema, "json_schema")
    return SchemaFormat(
        "json_schema",
        text,
        registry,
        subject_name_strategy,
        auto_register,
        version,
        subject,
        validate=validate,
    )


@answered
def protobuf(
    message: Any,
    *,
    registry: SchemaRegistry | None = None,
    subject_name_strategy: SubjectNameStrategy = "TopicNameStrategy",
    auto_register: bool = True,
    subject: str | None = None,
) -> Format:
    """The format of Protobuf messages: with a registry as Confluent's serializers write them, else the bare messages.

    Parameters
    ----------
    message : a generated class of messages, or a descriptor of them; it goes to the workers as its files' descriptors.
    registry : where files are found by the number that stands in front of each message.
    subject_name_strategy : what a sink's subject is called by: its topic, its message, or both.
    auto_register : whether a start registers a sink's file that the registry does not have; else it is refused.
    subject : its name, in place of the one that the strategy says.

    Raises
    ------
    TopologyError : it is no message.

    Examples
    --------
    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> str(protobuf(Timestamp))
    'protobuf'
    """
    _check_registry("protobuf", registry)
    described = getattr(message, "DESCRIPTOR", message)
    if not hasattr(described, "full_name") or not hasattr(described, "nested_types"):
        hint = "wm.protobuf(Order), where Order is a class that protoc made."
        raise TopologyError(
            f"wm.protobuf takes a class of messages, and not {message!r:.120}.", given=repr(message)[:200], hint=hint
        )
    files: dict[str, bytes] = {}
    _collect(described.file, files)
    text = texts.dumps(
        {"message": described.full_name, "files": [b64encode(content).decode() for content in files.values()]}
    )
    return SchemaFormat("protobuf", text, registry, subject_name_strategy, auto_register, subject=subject)


def _collect(file: Any, files: dict[str, bytes]) -> None:
    """The descriptors of a file, behind those of the files that it needs."""
    for dependency in file.dependencies:
        _collect(dependency, files)
    files.setdefault(file.name, file.serialized_pb)


def _json_text(schema: Any, kind: str) -> str:
    try:
        if isinstance(schema, str):
            # a name such as string is a schema too
            return texts.dumps(texts.loads(schema) if schema.lstrip()[:1] in '{["' else schema)
        return texts.dumps(schema)
    except (TypeError, ValueError) as error:
        excerpt = f"{schema!r:.200}: {error}"
        raise TopologyError("The schema cannot be read as JSON.", given=excerpt, hint=_EXAMPLES[kind]) from None


def _counts(version: Any) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version > 0


def _check_registry(kind: str, registry: object) -> None:
    if not isinstance(registry, SchemaRegistry | None):
        raise TopologyError(
            f"The registry of wm.{kind} must be a wm.SchemaRegistry: registry={type(registry).__name__}.",
            hint=f"wm.{kind}({_REGISTRY})",
        )


# Formats of windowed keys, as Kafka Streams' serializers of them write them.

_SIZE_HINT = 'wm.time_windowed("long", size="5 minutes"): the size of the windows, which the bytes do not tell.'


@dataclass(frozen=True)
class WindowedFormat(WrappingFormat):
    """Keys of windows; see `time_windowed` and `session_windowed`.

    Parameters
    ----------
    kind : "time_windowed" or "session_windowed".
    inner : the format of the key within.
    size_ms : of time windows; None: not known, and not needed to write them.
    """

    size_ms: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.inner, WindowedFormat):
            message = "The key within a windowed key is not windowed itself."
            raise TopologyError(message, given=str(self), hint='wm.time_windowed("long", size="5 minutes")')
        if self.size_ms is not None and self.size_ms < 1:
            raise TopologyError(f"size must be 1 ms or more: size={self.size_ms} ms.", hint=_SIZE_HINT)

    @property
    def field(self) -> str | None:
        return "key"

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        if self.kind == "time_windowed" and self.size_ms is None:
            return "Keys of time windows are read with the windows' size", f"{self} without a size", _SIZE_HINT
        return super().unreadable

    def __str__(self) -> str:
        return f"{self.kind}({self.inner}{'' if self.size_ms is None else f', {self.size_ms} ms'})"


@answered
def time_windowed(key: Format | FormatName, size: Duration | None = None) -> Format:
    """The format of keys of time windows: the key's bytes, and the window's start as 8 bytes big-endian.

    So Kafka Streams' `TimeWindowedSerializer` writes them. Here they are structs of `key`, `start` and `end` (times in
    ms), as windowed aggregates have them. A sink places a record by the key within, as Kafka Streams does.

    Parameters
    ----------
    key : the format of the key within.
    size : of the windows, to read them; windows of another size are refused. A sink needs none.

    Examples
    --------
    >>> str(time_windowed("long", size="5 minutes"))
    'time_windowed(long, 300000 ms)'
    """
    size_ms = None if size is None else duration_ms(size, "size")
    return WindowedFormat("time_windowed", inner=Format.of(key), size_ms=size_ms)


@answered
def session_windowed(key: Format | FormatName) -> Format:
    """The format of keys of sessions: the key's bytes, the session's end, and its start, as 8 bytes big-endian each.

    So Kafka Streams' `SessionWindowedSerializer` writes them; else as `time_windowed`.

    Parameters
    ----------
    key : the format of the key within.

    Examples
    --------
    >>> str(session_windowed("string"))
    'session_windowed(string)'
    """
    return WindowedFormat("session_windowed", inner=Format.of(key))
