"""Formats with a schema: their types, their readers and writers, and what a start settles about them.

A source without a schema of its own reads by the registry's latest, which a checkpoint records: a restart reads alike.
A sink's schema has its number from the start on. Law 6: what a value was written by decides whether it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from millpond._spark.formats.avro import types as avro_types
from millpond._spark.formats.avro.letters import Refused
from millpond._spark.formats.avro.types import BadSchema, schema_of
from millpond._spark.formats.avro.values import AvroWriter, WriterSchema, columns_of
from millpond._spark.formats.registered.client import Handed, Missing, Reached, Registered, RegistryClient
from millpond._spark.formats.serdes import Decoded
from millpond.errors import ConfigError, TopologyError
from millpond.io.registry import SchemaRegistry
from millpond.io.schema_formats import SchemaFormat

MAGIC = b"\0"
HEADER_BYTES = 5
REGISTRY_KINDS = {"avro": "AVRO"}
_LATEST: WeakKeyDictionary[SchemaFormat, Registered] = WeakKeyDictionary()
"""What sources without a schema read by: asked once, so that a topology is of one schema."""
_WRITERS: dict[tuple[str, str, int], WriterSchema] = {}
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
    """

    text: str
    registry: Handed | Reached | None

    def decode(self, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values, and why some bytes are none; those are null, and so are null bytes.

        Raises
        ------
        SourceError : the registry does not answer.
        """
        read = schema_of(self.text)
        value = (
            WriterSchema(read, read).value if self.registry is None else _Framed(self.text, read, self.registry).value
        )
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
        column, beyond = columns_of(read, values)
        return column, flaws | beyond


class _Framed:
    """Values with the number of their schema in front, each number asked for once."""

    def __init__(self, text: str, read: Any, registry: Handed | Reached) -> None:
        settings = registry.settings
        self._text, self._read = text, read
        self._url = str(settings["url"])
        self._client: Callable[[], RegistryClient] = lambda: RegistryClient(settings)
        self._known: dict[int, WriterSchema | str] = {}

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

    def _writer(self, number: int) -> WriterSchema | str:
        place = (self._url, self._text, number)
        if place in _WRITERS:
            return _WRITERS[place]
        try:
            found = self._client().by_id(number)
            if found.kind != "AVRO":
                return f"schema {number} is of the format {found.kind}"
            written = schema_of(found.text, [text for _, text in found.references])
            made = WriterSchema(written, self._read)
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
    return SchemaReader(whole_text(form), registry)


@dataclass(frozen=True)
class SchemaSerde:
    """Values with a schema: what a source reads, or a sink writes.

    Parameters
    ----------
    reader : of a source.
    writer : of a sink.
    """

    reader: SchemaReader | None = None
    writer: AvroWriter | None = None

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


def writer(form: SchemaFormat, kind: DataType) -> AvroWriter:
    """What writes a sink's values of this type."""
    header = b"" if form.id is None else MAGIC + form.id.to_bytes(HEADER_BYTES - 1, "big")
    what = f"the {form.part}s of the topic {form.topic!r}"
    return AvroWriter(json.dumps(written_schema(form, kind)), header, what)
