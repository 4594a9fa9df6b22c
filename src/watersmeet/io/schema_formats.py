"""Formats with a schema in a language of its own, alone or with a Schema Registry."""

from __future__ import annotations

import json as texts
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format
from watersmeet.io.registry import SchemaRegistry
from watersmeet.names import answered

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
                given=f"subject_name_strategy={self.subject_name_strategy!r}",
                hint=f"Take one of {', '.join(map(repr, get_args(SubjectNameStrategy)))}.",
            )
        if self.schema is None and self.registry is None:
            raise TopologyError(
                f"The format {self.kind!r} needs a schema, or a registry that has it.",
                given=f"wm.{self.kind}() without either",
                hint=f"{_EXAMPLES[self.kind]}, or wm.{self.kind}({_REGISTRY}).",
            )
        if self.version is not None and (self.registry is None or self.schema is not None or not _counts(self.version)):
            raise TopologyError(
                f"version must be the number of a schema in the registry: version={self.version!r:.80}.",
                given=f"version={self.version!r}" + (" and a schema" if self.schema is not None else ""),
                hint=f"wm.{self.kind}({_REGISTRY}, version=1)",
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
        """As of each format."""
        if self.schema is not None or self.subject_of(None) is not None:
            return None
        what = "The registry is asked for a subject's schema"
        hint = f'Name it: wm.{self.kind}(registry=..., subject="shop.Order"); or give the schema.'
        return what, f"{self.kind} with {self.subject_name_strategy!r}, and without a schema", hint

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
    if schema is not None and not isinstance(schema, Mapping) and not str(schema).lstrip().startswith("{"):
        what = "A JSON Schema is an object."
        raise TopologyError(what, given=f"{schema!r:.200}", hint=_EXAMPLES["json_schema"])
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
    described = getattr(message, "DESCRIPTOR", message)
    if not hasattr(described, "full_name") or not hasattr(described, "nested_types"):
        hint = "wm.protobuf(Order), where Order is a class that protoc made."
        raise TopologyError(
            f"wm.protobuf takes a class of messages, and not {message!r:.120}.", given=repr(message)[:200], hint=hint
        )
    files: dict[str, bytes] = {}
    _collect(described.file, files)
    text = texts.dumps({"message": described.full_name, "files": [b64encode(each).decode() for each in files.values()]})
    return SchemaFormat("protobuf", text, registry, subject_name_strategy, auto_register, subject=subject)


def _collect(file: Any, files: dict[str, bytes]) -> None:
    """The descriptors of a file, behind those of the files that it needs."""
    for each in file.dependencies:
        _collect(each, files)
    files.setdefault(file.name, file.serialized_pb)


def _json_text(schema: Any, kind: str) -> str:
    try:
        if isinstance(schema, str):
            # a name such as string is a schema too
            return texts.dumps(texts.loads(schema) if schema.lstrip()[:1] in '{["' else schema)
        return texts.dumps(schema)
    except (TypeError, ValueError) as error:
        given = f"{schema!r:.200}: {error}"
        raise TopologyError("The schema cannot be read as JSON.", given=given, hint=_EXAMPLES[kind]) from None


def _counts(version: Any) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version > 0
