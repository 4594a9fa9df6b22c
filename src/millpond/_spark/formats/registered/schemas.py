"""Formats with a schema: their types, their readers and writers, and what a start settles about them.

A source without a schema of its own reads by the registry's latest, which a checkpoint records: a restart reads alike.
A sink's schema has its number from the start on. Law 6: what a value was written by decides whether it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from millpond._spark.formats.avro import types as avro_types
from millpond._spark.formats.avro.letters import Refused
from millpond._spark.formats.avro.types import BadSchema, schema_of
from millpond._spark.formats.avro.values import AvroWriter, WriterSchema, columns_of
from millpond._spark.formats.protobuf.types import (
    BadIndex,
    header_of,
    message_of,
    payload_of,
    type_of_message,
    written_by,
)
from millpond._spark.formats.protobuf.values import Messages, ProtobufWriter
from millpond._spark.formats.protobuf.values import columns_of as message_columns
from millpond._spark.formats.registered.client import Handed, Missing, Reached, Registered, RegistryClient
from millpond._spark.formats.serdes import Decoded
from millpond.errors import ConfigError, TopologyError
from millpond.io.registry import SchemaRegistry
from millpond.io.schema_formats import SchemaFormat

MAGIC = b"\0"
HEADER_BYTES = 5
REGISTRY_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
_LATEST: WeakKeyDictionary[SchemaFormat, Registered] = WeakKeyDictionary()
"""What sources without a schema read by: asked once, so that a topology is of one schema."""
_WRITERS: dict[tuple[str, str, int], Values] = {}
"""By registry, reader's schema and number."""
_MOST_WRITERS = 1_000


def forget() -> None:
    """Ask registries anew for everything."""
    _WRITERS.clear()


# -- types -------------------------------------------------------------------------------------------------


def type_of(form: SchemaFormat) -> DataType:
    """The Spark type of the values that a source has.

    Raises
    ------
    TopologyError : the schema has none.
    ConfigError : the registry does not have it, or does not answer.
    """
    if form.kind == "protobuf":
        try:
            return type_of_message(message_of(str(form.schema)))
        except BadSchema as error:
            what = f"the {form.part or 'value'}s of {form.topic or 'the format'}"
            raise avro_types.refused(error, "the message's", what) from None
    text, references = _text(form)
    try:
        return avro_types.type_of_schema(schema_of(text, references))
    except BadSchema as error:
        raise avro_types.refused(error, text, f"the {form.part or 'value'}s of {form.topic or 'the format'}") from None


def _text(form: SchemaFormat) -> tuple[str, tuple[str, ...]]:
    if form.schema is not None:
        return str(form.schema), ()
    found = latest(form)
    return found.text, tuple(text for _, text in found.references)


def latest(form: SchemaFormat) -> Registered:
    """The schema that a source without one reads by, as the registry had it when it was asked first."""
    if form not in _LATEST:
        assert isinstance(form.registry, SchemaRegistry)
        subject = form.subject_of(None) or ""
        try:
            found = RegistryClient(form.registry.settings).of_subject(subject, form.version)
        except Missing as error:
            raise ConfigError(
                "The registry does not have the schema to read by.",
                given=f"{error}, for the {form.part}s of the topic {form.topic!r}",
                hint='Register it first; or give the schema, mp.avro("...", registry=...), or the name: subject="...".',
            ) from None
        if found.kind != REGISTRY_KINDS[form.kind]:
            raise TopologyError(
                "The registry's schema is of another format.",
                given=f"{subject}: {found.kind}, for the {form.part}s of the topic {form.topic!r} as {form.kind}",
                hint=f"Take the format of {found.kind}.",
            )
        _LATEST[form] = found
    return _LATEST[form]


def described(form: SchemaFormat) -> str:
    """The format in describe() and in a checkpoint, however its schema is spelt."""
    if form.schema is None and form not in _LATEST:
        return form.kind
    return f"{form.kind}({type_of(form).simpleString()})"


def whole_text(form: SchemaFormat) -> str:
    """The schema to read by with all that it refers to."""
    if form.kind == "protobuf":
        return str(form.schema)
    text, references = _text(form)
    return json.dumps(schema_of(text, references), sort_keys=True)


# -- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemaReader:
    """Reads values by a schema.

    Parameters
    ----------
    text : the schema, whole.
    registry : how to reach it; None: values have no number in front.
    kind : its language, as `SchemaFormat` names it.
    """

    text: str
    registry: Handed | Reached | None
    kind: str = "avro"

    def decode(self, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values, and why some bytes are none; those are null, and so are null bytes.

        Raises
        ------
        SourceError : the registry does not answer.
        """
        language = _LANGUAGES[self.kind](self.text)
        value = language.bare().value if self.registry is None else _Framed(self.text, language, self.registry).value
        values: list[Any] = []
        flaws: dict[int, str] = {}
        for row, data in enumerate(raw.to_pylist()):
            made = None
            if data is not None:
                try:
                    made = value(data)
                except Refused as error:
                    flaws[row] = str(error)
            values.append(made)
        column, beyond = language.columns(values)
        return column, flaws | beyond


class Values(Protocol):
    """How values of one writer's schema are read."""

    def value(self, data: bytes) -> Any:
        """A value; `Refused` where the bytes are none."""
        ...


class Language(Protocol):
    """What a schema's language does with one to read by."""

    kind: str
    """As the registry calls it."""
    asked_as: str | None
    """How the registry is to give schemas; None: as they are."""

    def bare(self) -> Values:
        """Values without a number in front."""
        ...

    def written(self, text: str, references: Sequence[str]) -> Values:
        """Values of a registered schema; `BadSchema`, or `Refused`, where they cannot be read."""
        ...

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """The values as a column, and why some are none."""
        ...


class _Avro:
    kind = "AVRO"
    asked_as: str | None = None

    def __init__(self, text: str) -> None:
        self._read = schema_of(text)

    def bare(self) -> Values:
        return WriterSchema(self._read, self._read)

    def written(self, text: str, references: Sequence[str]) -> Values:
        return WriterSchema(schema_of(text, references), self._read)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return columns_of(self._read, values)


class _Protobuf:
    kind = "PROTOBUF"
    asked_as: str | None = "serialized"

    def __init__(self, text: str) -> None:
        self._message = message_of(text)

    def bare(self) -> Values:
        return Messages(self._message)

    def written(self, text: str, references: Sequence[str]) -> Values:
        return _Indexed(written_by(text, references), self._message)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return message_columns(self._message, values)


class _Indexed:
    """Messages of a registered file, with the place of each one's message in it in front."""

    def __init__(self, file: Any, message: Any) -> None:
        self._file, self._message, self._messages = file, message, Messages(message)
        self._refused: dict[tuple[int, ...], str | None] = {}

    def value(self, data: bytes) -> Any:
        try:
            index, payload = payload_of(data)
        except BadIndex as error:
            raise Refused(str(error)) from None
        if index not in self._refused:
            self._refused[index] = self._file.refuses(index, self._message)
        why = self._refused[index]
        if why is not None:
            raise Refused(why)
        return self._messages.value(payload)


_LANGUAGES: dict[str, Callable[[str], Language]] = {"avro": _Avro, "protobuf": _Protobuf}


class _Framed:
    """Values with the number of their schema in front, each number asked for once."""

    def __init__(self, text: str, language: Language, registry: Handed | Reached) -> None:
        settings = registry.settings
        self._text, self._language = text, language
        self._url = str(settings["url"])
        self._client: Callable[[], RegistryClient] = lambda: RegistryClient(settings)
        self._known: dict[int, Values | str] = {}

    def value(self, data: bytes) -> Any:
        if len(data) < HEADER_BYTES:
            raise Refused(f"{len(data)} bytes, where the header of the Schema Registry alone has {HEADER_BYTES}")
        if data[:1] != MAGIC:
            raise Refused(f"the first byte is {data[0]}, where values with a registered schema have 0")
        number = int.from_bytes(data[1:HEADER_BYTES], "big")
        writer = self._known.get(number)
        if writer is None:
            writer = self._known[number] = self._writer(number)
        if isinstance(writer, str):
            raise Refused(writer)
        try:
            return writer.value(data[HEADER_BYTES:])
        except Refused as error:
            raise Refused(f"schema {number}: {error}") from None

    def _writer(self, number: int) -> Values | str:
        place = (self._url, self._text, number)
        if place in _WRITERS:
            return _WRITERS[place]
        try:
            found = self._client().by_id(number, self._language.asked_as)
            if found.kind != self._language.kind:
                return f"schema {number} is of the format {found.kind}"
            made = self._language.written(found.text, [text for _, text in found.references])
        except (Missing, BadSchema, Refused) as error:
            # not kept: it may be there later
            return f"schema {number}: {error}"
        if len(_WRITERS) >= _MOST_WRITERS:
            _WRITERS.clear()
        _WRITERS[place] = made
        return made


def reader(form: SchemaFormat) -> SchemaReader:
    """What reads a source's values."""
    registry = Reached(form.registry.settings) if isinstance(form.registry, SchemaRegistry) else form.registry
    return SchemaReader(whole_text(form), registry, form.kind)


@dataclass(frozen=True)
class SchemaSerde:
    """Values with a schema: what a source reads, or a sink writes.

    Parameters
    ----------
    reader : of a source.
    writer : of a sink.
    """

    reader: SchemaReader | None = None
    writer: AvroWriter | ProtobufWriter | None = None

    def read(self, raw: pa.Array) -> Decoded:
        """Values of the reader's schema."""
        assert self.reader is not None
        values, flaws = self.reader.decode(raw)
        bad = np.zeros(len(raw), dtype=np.bool_)
        bad[list(flaws)] = True
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        """Why they are none."""
        assert self.reader is not None
        return self.reader.decode(pa.array([raw], pa.binary()))[1][0]

    def write(self, values: pa.Array) -> pa.Array:
        """Their bytes by the writer's schema."""
        assert self.writer is not None
        return self.writer(values)


def serde_of(form: SchemaFormat, kind: DataType | None) -> SchemaSerde:
    """What reads a source's values, or writes a sink's of this type."""
    return SchemaSerde(reader(form)) if kind is None else SchemaSerde(None, writer(form, kind))


# -- writing -----------------------------------------------------------------------------------------------


def misfit(form: SchemaFormat, kind: DataType) -> str | None:
    """Why the format does not write values of this type; None where it does."""
    if form.kind == "protobuf":
        made = type_of(form)
        return None if made == kind else f"its message is of {made.simpleString()}"
    try:
        made = avro_types.type_of_schema(written_schema(form, kind))
    except BadSchema as error:
        return str(error)
    return None if made == kind else f"its schema is of {made.simpleString()}"


def written_schema(form: SchemaFormat, kind: DataType) -> Any:
    """The schema, whole, by which a sink writes values of this type.

    Raises
    ------
    BadSchema : there is none.
    """
    if form.schema is not None:
        return schema_of(str(form.schema))
    return schema_of(json.dumps(avro_types.schema_for(kind, _record_name(form))))


def _record_name(form: SchemaFormat) -> str:
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in f"{form.topic}_{form.part}")
    return f"_{name}" if name[0].isdigit() else name


def writer(form: SchemaFormat, kind: DataType) -> AvroWriter | ProtobufWriter:
    """What writes a sink's values of this type."""
    header = b"" if form.id is None else MAGIC + form.id.to_bytes(HEADER_BYTES - 1, "big")
    what = f"the {form.part}s of the topic {form.topic!r}"
    if form.kind == "protobuf":
        text = str(form.schema)
        return ProtobufWriter(text, header and header + header_of(message_of(text)), what)
    return AvroWriter(json.dumps(written_schema(form, kind)), header, what)
