"""Formats with a schema: their types, their readers and writers, and what a start settles about them.

A source without a schema of its own reads by the registry's latest, which a checkpoint records: a restart reads alike.
A sink's schema has its number from the start on. Law 6: what a value was written by decides whether it can be read.
The language of a schema answers the rest (`language`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from watersmeet._worker.formats.avro import Avro
from watersmeet._worker.formats.guard import PASSED_ON, fallen
from watersmeet._worker.formats.json_schema import JsonSchema
from watersmeet._worker.formats.protobuf import Protobuf
from watersmeet._worker.formats.registry import (
    BadSchema,
    Endless,
    Handed,
    Language,
    Missing,
    Reached,
    References,
    Refused,
    RegisteredSchema,
    RegistryClient,
    SchemaReading,
    Writer,
    WriterValues,
)
from watersmeet._worker.formats.serdes import Decoded
from watersmeet.errors import ConfigError, TopologyError
from watersmeet.io.formats import SchemaFormat, SchemaRegistry

MAGIC = b"\0"
HEADER_BYTES = 5
LANGUAGES: dict[str, Language] = {"avro": Avro(), "protobuf": Protobuf(), "json_schema": JsonSchema()}
"""By the kind of a format."""
_LATEST: WeakKeyDictionary[SchemaFormat, RegisteredSchema] = WeakKeyDictionary()
"""What sources without a schema read by: asked once, so that a topology is of one schema."""
_WRITERS: dict[tuple[str, str, int], WriterValues] = {}
"""By registry, reader's schema and number."""
_MOST_WRITERS = 1_000
_REFUSED: dict[tuple[str, str, int], tuple[str, float]] = {}
"""By the same, why a number's values are not read, and until when that is not asked for again."""
_REFUSED_SECONDS = 5.0
_LARGEST = (1 << 31) - 1
"""Numbers are Java's int in a registry. Asked for a larger one it answers as if it had no such address."""


def forget() -> None:
    _WRITERS.clear()
    _REFUSED.clear()


# -- types -------------------------------------------------------------------------------------------------


def type_of(form: SchemaFormat) -> DataType:
    """The Spark type of the values that a source has."""
    language, (text, references) = LANGUAGES[form.kind], _text(form)
    try:
        if form.validate:
            language.check(language.whole(text, references))
        return language.type_of(text, references)
    except BadSchema as error:
        raise refused(error, form, text) from None


def refused(error: BadSchema, form: SchemaFormat, text: str) -> TopologyError:
    """The error for a schema that cannot be used."""
    language = LANGUAGES[form.kind]
    whose = f"The schema of the {form.part or 'value'}s of {form.topic or 'the format'}"
    return TopologyError(
        f"{whose} has no type of Spark: {error}.",
        given=language.display_text(text)[:300],
        hint=f"{error.meant} {language.hint}".strip(),
    )


def _text(form: SchemaFormat) -> tuple[str, References]:
    if form.schema is not None:
        return str(form.schema), ()
    registered = latest(form)
    return registered.text, registered.references


def latest(form: SchemaFormat) -> RegisteredSchema:
    """The schema that a source without one reads by, as the registry had it when it was asked first."""
    if form not in _LATEST:
        assert isinstance(form.registry, SchemaRegistry)
        subject = form.subject_of(None) or ""
        try:
            registered = RegistryClient(form.registry.settings).of_subject(subject, form.version)
        except Endless as error:
            raise TopologyError(
                "The registry's schema is not valid.",
                given=f"{subject}: {error}, for the {form.part}s of the topic {form.topic!r}",
                hint="Register it with valid references, or give the schema itself.",
            ) from None
        except Missing as error:
            raise ConfigError(
                f"The registry does not have the schema of the {form.part}s of the topic {form.topic!r}.",
                given=f"{error}, for the {form.part}s of the topic {form.topic!r}",
                hint='Register it first; or give the schema, wm.avro("...", registry=...), or the name: subject="...".',
            ) from None
        if registered.kind != LANGUAGES[form.kind].registered_as:
            raise TopologyError(
                f"The registry's schema is {registered.kind}, and the {form.part}s of {form.topic!r} are read as "
                f"{form.kind}.",
                given=f"{subject}: {registered.kind}, for the {form.part}s of the topic {form.topic!r} as {form.kind}",
                hint=f"Read them with the format of {registered.kind}.",
            )
        _LATEST[form] = registered
    return _LATEST[form]


def described(form: SchemaFormat) -> str:
    if form.schema is None and form not in _LATEST:
        return form.kind
    return f"{form.kind}({type_of(form).simpleString()})"


def whole_text(form: SchemaFormat) -> str:
    """The schema to read by with all that it refers to."""
    return LANGUAGES[form.kind].whole(*_text(form))


# -- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemaReader:
    """Reads values by a schema."""

    text: str  # the schema, whole
    registry: Handed | Reached | None  # how to reach it; None: values have no number in front
    kind: str  # its language, as `SchemaFormat` names it
    validate: bool = False  # whether values are looked at by all that the schema says

    def decode(self, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values, and why some bytes are none; those are null, and so are null bytes."""
        language = LANGUAGES[self.kind]
        reading = language.reading(self.text, validate=self.validate)
        if self.registry is None:
            value = reading.bare().value
        else:
            value = _Framed(self.text, language, reading, self.registry).value
        values: list[Any] = []
        flaws: dict[int, str] = {}
        for row, data in enumerate(raw.to_pylist()):
            decoded = None
            if data is not None:
                try:
                    decoded = value(data)
                except Refused as error:
                    flaws[row] = str(error)
                except PASSED_ON:
                    raise
                except Exception as error:
                    flaws[row] = fallen(error)
            values.append(decoded)
        column, beyond = reading.columns(values)
        return column, flaws | beyond


class _Framed:
    """Values with the number of their schema in front, each number asked for once."""

    def __init__(self, text: str, language: Language, reading: SchemaReading, registry: Handed | Reached) -> None:
        settings = registry.settings
        self._text, self._language, self._reading = text, language, reading
        self._url = str(settings["url"])
        self._client: Callable[[], RegistryClient] = lambda: RegistryClient(settings)
        self._writers: dict[int, WriterValues | str] = {}

    def value(self, data: bytes) -> Any:
        if len(data) < HEADER_BYTES:
            raise Refused(f"{len(data)} bytes, where the header of the Schema Registry alone has {HEADER_BYTES}")
        if data[:1] != MAGIC:
            raise Refused(f"the first byte is {data[0]}, where values with a registered schema have 0")
        number = int.from_bytes(data[1:HEADER_BYTES], "big")
        if number > _LARGEST:
            raise Refused(f"schema {number}: a number that no registry gives")
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = self._writer(number)
        if isinstance(writer, str):
            raise Refused(writer)
        try:
            return writer.value(data[HEADER_BYTES:])
        except Refused as error:
            raise Refused(f"schema {number}: {error}") from None

    def _writer(self, number: int) -> WriterValues | str:
        place = (self._url, self._text, number)
        if place in _WRITERS:
            return _WRITERS[place]
        reason, until = _REFUSED.get(place, ("", 0.0))
        if monotonic() < until:
            return reason
        fetched = self._fetch(number)
        if isinstance(fetched, str):
            # it may be there later, and a batch may have many numbers that are not
            _keep(_REFUSED, place, (fetched, monotonic() + _REFUSED_SECONDS))
        else:
            _keep(_WRITERS, place, fetched)
        return fetched

    def _fetch(self, number: int) -> WriterValues | str:
        try:
            schema = self._client().by_id(number, self._language.asked_as)
            if schema.kind != self._language.registered_as:
                return f"schema {number} is of the format {schema.kind}"
            return self._reading.written(schema.text, schema.references)
        except (Missing, Endless, BadSchema, Refused) as error:
            return f"schema {number}: {error}"
        except PASSED_ON:
            raise
        except Exception as error:
            # a library's, at a schema that it does not know what to do with
            return f"schema {number}: {fallen(error)}"


def _keep(cache: dict[tuple[str, str, int], Any], place: tuple[str, str, int], entry: Any) -> None:
    if len(cache) >= _MOST_WRITERS:
        cache.clear()
    cache[place] = entry


def reader(form: SchemaFormat) -> SchemaReader:
    registry = Reached(form.registry.settings) if isinstance(form.registry, SchemaRegistry) else form.registry
    return SchemaReader(whole_text(form), registry, form.kind, form.validate)


@dataclass(frozen=True)
class SchemaSerde:
    """Values with a schema: what a source reads, or a sink writes."""

    reader: SchemaReader | None = None  # of a source
    writer: Writer | None = None  # of a sink

    def read(self, raw: pa.Array) -> Decoded:
        """Values of the reader's schema."""
        assert self.reader is not None
        values, flaws = self.reader.decode(raw)
        bad = np.zeros(len(raw), dtype=np.bool_)
        bad[list(flaws)] = True
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        assert self.reader is not None
        return self.reader.decode(pa.array([raw], pa.binary()))[1][0]

    def write(self, values: pa.Array) -> pa.Array:
        assert self.writer is not None
        return self.writer(values)


def serde_of(form: SchemaFormat, kind: DataType | None) -> SchemaSerde:
    """The serde of a source's values, or of a sink's values of this type."""
    return SchemaSerde(reader(form)) if kind is None else SchemaSerde(None, writer(form, kind))


# -- writing -----------------------------------------------------------------------------------------------


def misfit(form: SchemaFormat, kind: DataType) -> str | None:
    """Why the format does not write values of this type; None where it does."""
    language = LANGUAGES[form.kind]
    try:
        return language.misfit(language.whole(written_text(form, kind)), kind)
    except BadSchema as error:
        return str(error)


def written_text(form: SchemaFormat, kind: DataType) -> str:
    """The schema by which a sink writes values of this type, as it is given, or made of the type."""
    if form.schema is not None:
        return str(form.schema)
    return LANGUAGES[form.kind].schema_for(kind, f"{form.topic}_{form.part}")


def writer(form: SchemaFormat, kind: DataType) -> Writer:
    """The writer of a sink's values of this type."""
    language = LANGUAGES[form.kind]
    header = b"" if form.id is None else MAGIC + form.id.to_bytes(HEADER_BYTES - 1, "big")
    text, subject = language.whole(written_text(form, kind)), f"the {form.part}s of the topic {form.topic!r}"
    return language.writer(text, kind, header, subject, validate=form.validate)
