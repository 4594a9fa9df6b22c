"""Formats: their types, and who reads and writes them in the workers.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. What Spark's own expressions read and write is in
`_spark/formats.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from watersmeet._worker.formats import schemas, serdes
from watersmeet._worker.formats.arrow_types import field_twice
from watersmeet._worker.formats.connect import PAYLOAD
from watersmeet._worker.formats.debezium import (
    NOT_SENT,
    EnvelopeSerde,
    KeySerde,
    envelope_type,
    row_type,
)
from watersmeet._worker.formats.json import nullable, readable
from watersmeet._worker.formats.serdes import (
    WINDOWED_FIELDS,
    DecimalSerde,
    JsonSerde,
    NumberSerde,
    Serde,
    WindowedSerde,
)
from watersmeet.errors import TopologyError
from watersmeet.io.debezium import DebeziumFormat, DebeziumKeyFormat
from watersmeet.io.formats import (
    DecimalFormat,
    Format,
    SchemaFormat,
    WindowedFormat,
    meant_type,
)

# The interface of a family of formats: its types, its serdes, and its texts.
#
# A format is a class of `io` that the user makes, and one line in the table of `formats`; what it shares with others it
# has from here. Law 6: what a format does not write is refused when the topology is built.


class Family(ABC):
    """Formats of one kind, or of some that differ in nothing that matters here. It has no state."""

    is_primitive: ClassVar[bool] = False
    """Whether Spark has expressions to read and write the values."""

    @abstractmethod
    def type_of(self, form: Any) -> DataType:
        """The Spark type of the format's values; all fields within it may be null."""

    @abstractmethod
    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        """The serde of the format in the workers.

        Parameters
        ----------
        kind : type of the values; None: the format's own.
        """

    def described(self, form: Any) -> str:
        """The format in describe() and in a checkpoint, however it is spelt."""
        return str(form)

    def fits(self, form: Any, kind: DataType) -> bool:
        """Whether the format writes values of this type."""
        expected = self.type_of(form)
        # collations are types of their own
        return type(expected) is type(kind) and (expected == kind or isinstance(kind, StringType))

    def refuses(self, form: Any) -> bool:
        """Whether there are values of its type that the format does not write."""
        return False

    def is_left_to_spark(self, kind: DataType) -> bool:
        """Whether Spark alone writes values of this type in it."""
        return False

    def written_type(self, form: Any) -> str:
        """Values of what type it writes, as errors say it."""
        return self.type_of(form).simpleString()

    def hint(self, form: Any, alternative: str) -> str:
        """The hint if it does not write values of a type.

        Parameters
        ----------
        alternative : name of a format that does.
        """
        return (
            f'Take the format "{alternative}", or change the values with .cast("{self.type_of(form).simpleString()}").'
        )


FamilyOf = Callable[[Any], Family]
"""A format's family: what those that hold other formats are made with."""


# Debezium's events and their keys: rows of a table, in JSON or in a format with a schema.


@dataclass(frozen=True)
class _Debezium(Family):
    """What Debezium writes."""

    of: FamilyOf  # the family of the format that it writes in

    def type_of(self, form: Any) -> DataType:
        return self.columns_of(form)

    def described(self, form: Any) -> str:
        """With what is within, however that is spelt."""
        inner = form.inner
        if isinstance(inner, SchemaFormat):
            return str(form).replace(str(inner), self.of(inner).described(inner), 1)
        return str(replace(form, inner=Format("json", self._row_type(form)))) if inner.schema else str(form)

    def columns_of(self, form: Any) -> StructType:
        """The columns of a row, or of a primary key."""
        kind = self._row_type(form)
        if not isinstance(kind, StructType) or not kind.fields:
            message, hint = "Debezium's rows and keys have columns.", 'Name them: "id long, first_name string".'
            raise TopologyError(message, given=kind.simpleString(), hint=hint)
        return kind

    def _row_type(self, form: Any) -> DataType:
        return self.of(form.inner).type_of(form.inner)


class Envelopes(_Debezium):
    """Change events as rows."""

    def serde_of(self, form: DebeziumFormat, kind: DataType | None) -> Serde:
        row, times = self.columns_of(form), form.time == "source"
        options = (form.tombstones, times, form.takes_stored)
        if isinstance(form.inner, SchemaFormat):
            return EnvelopeSerde(self.of(form.inner).serde_of(form.inner, None), None, *options)
        missing = form.inner.missing_columns == "null"
        envelope = JsonSerde(envelope_type(row, documents=form.documents), missing)
        return EnvelopeSerde(envelope, JsonSerde(row) if form.documents else None, *options)

    def type_of(self, form: DebeziumFormat) -> DataType:
        row = self.columns_of(form)
        if not form.takes_stored:
            return row
        flags = StructType([StructField(name, BooleanType()) for name in row.names])
        return StructType([*row.fields, StructField(NOT_SENT, flags)])

    def _row_type(self, form: DebeziumFormat) -> DataType:
        kind = super()._row_type(form)
        # its schema is the envelope's
        return row_type(kind) if isinstance(form.inner, SchemaFormat) else kind


class DebeziumKeys(_Debezium):
    """Keys of change events: the one column, or a struct of several."""

    def type_of(self, form: DebeziumKeyFormat) -> DataType:
        columns = self.columns_of(form)
        return columns[0].dataType if len(columns) == 1 else columns

    def serde_of(self, form: DebeziumKeyFormat, kind: DataType | None) -> Serde:
        columns = self.columns_of(form)
        if isinstance(form.inner, SchemaFormat):
            return KeySerde(self.of(form.inner).serde_of(form.inner, None), tuple(columns.names))
        return KeySerde(JsonSerde(columns), tuple(columns.names))

    def columns_of(self, form: DebeziumKeyFormat) -> StructType:
        """The columns of a primary key."""
        kind = super().columns_of(form)
        if PAYLOAD in kind.names and not isinstance(form.inner, SchemaFormat):
            message = f"A key with a column {PAYLOAD!r} cannot be told from one with its schema."
            hint = 'Without schemas (key.converter.schemas.enable=false) read it as wm.json("payload string").'
            raise TopologyError(message, given=kind.simpleString(), hint=hint)
        return kind


# Windowed keys: a key of any other format, and the times of its window.


@dataclass(frozen=True)
class Windowed(Family):
    """Keys of windows."""

    of: FamilyOf  # the family of the key within
    sessions: bool  # whether a window's end is written too

    def type_of(self, form: WindowedFormat) -> DataType:
        kinds = (self.of(form.inner).type_of(form.inner), LongType(), LongType())
        return StructType([StructField(name, kind) for name, kind in zip(WINDOWED_FIELDS, kinds, strict=True)])

    def serde_of(self, form: WindowedFormat, kind: DataType | None) -> Serde:
        inner = self.of(form.inner).serde_of(form.inner, None if kind is None else _windowed(kind)[0])
        return WindowedSerde(form.kind, inner, self.sessions, form.size_ms)

    def described(self, form: WindowedFormat) -> str:
        """With what is within, however that is spelt."""
        return str(form).replace(str(form.inner), self.of(form.inner).described(form.inner), 1)

    def fits(self, form: WindowedFormat, kind: DataType) -> bool:
        kinds = _windowed(kind)
        return bool(kinds) and self.of(form.inner).fits(form.inner, kinds[0])

    def refuses(self, form: WindowedFormat) -> bool:
        return True

    def written_type(self, form: WindowedFormat) -> str:
        return f"struct<key:{self.of(form.inner).written_type(form.inner)},start:bigint,end:bigint>"

    def hint(self, form: WindowedFormat, alternative: str) -> str:
        return f'It is for keys of windows, structs of key, start and end; here take "{alternative}".'


def _windowed(kind: DataType) -> list[DataType]:
    """The types of key, start and end of windowed keys; nothing where it is no type of such keys."""
    if not isinstance(kind, StructType) or tuple(kind.names) != WINDOWED_FIELDS:
        return []
    key, *times = (field.dataType for field in kind.fields)
    return [key, *times] if all(isinstance(time, LongType) for time in times) else []


# JSON texts: with the type that a user names, or of whatever a sink gets.


class Json(Family):
    """JSON texts."""

    def type_of(self, form: Format) -> DataType:
        kind = _schema(form)
        if not readable(kind):
            raise TopologyError(
                f"JSON cannot be read as {kind.simpleString():.200}.",
                given=kind.simpleString(),
                hint="Maps need string keys; intervals, variants and void have no JSON of their own.",
            )
        return nullable(kind)

    def serde_of(self, form: Format, kind: DataType | None) -> Serde:
        return JsonSerde(self.type_of(form) if kind is None else kind, form.missing_columns == "null")

    def described(self, form: Format) -> str:
        return str(form) if form.schema is None else f"{form.kind}({self.type_of(form).simpleString()})"

    def fits(self, form: Format, kind: DataType) -> bool:
        return form.schema is None or self.type_of(form) == nullable(kind)

    def is_left_to_spark(self, kind: DataType) -> bool:
        return not readable(kind)

    def written_type(self, form: Format) -> str:
        return "any type" if form.schema is None else super().written_type(form)

    def hint(self, form: Format, alternative: str) -> str:
        return "A sink's JSON needs no schema: wm.json()."


def _schema(form: Format) -> DataType:
    if isinstance(form.schema, DataType):
        return form.schema
    try:
        return DataType.fromDDL(str(form.schema))
    except (PySparkException, ValueError) as error:
        unknown = re.search(r'Unsupported data type "(\w+)', str(error))
        meant = meant_type(unknown[1]) if unknown is not None else None
        raise TopologyError(
            f"The schema of a JSON format does not parse: {form.schema!r:.200}.",
            hint=(f"Did you mean {meant} for {unknown[1].lower()}? " if unknown is not None and meant else "")
            + f'Give fields and types: "id long, name string"; a schema of Avro is wm.avro(...), a JSON Schema '
            f"wm.json_schema(...). {str(error).strip().splitlines()[0]}",
        ) from None


# Formats of single values, written as Kafka's own serializers write them.


@dataclass(frozen=True)
class Simple(Family):
    """Values of one type."""

    kind: DataType  # the type
    serde: Serde  # reads and writes them
    some: bool = False  # whether some values of the type alone are written

    def type_of(self, form: Any) -> DataType:
        return self.kind

    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        return self.serde

    def refuses(self, form: Any) -> bool:
        return self.some


class Decimals(Family):
    """Decimals of the format's precision and scale."""

    def type_of(self, form: DecimalFormat) -> DataType:
        return DecimalType(form.precision, form.scale)

    def serde_of(self, form: DecimalFormat, kind: DataType | None) -> Serde:
        return DecimalSerde(form.precision, form.scale)


class Primitive(Simple):
    """Values that Spark's expressions can read and write (`_spark/formats.py`)."""

    is_primitive: ClassVar[bool] = True


# Formats with a schema of a language of its own, such as Avro.


class RegisteredFamily(Family):
    """Values with a schema, alone or in a Schema Registry."""

    def type_of(self, form: SchemaFormat) -> DataType:
        return schemas.type_of(form)

    def serde_of(self, form: SchemaFormat, kind: DataType | None) -> Serde:
        return schemas.serde_of(form, None if kind is None else nullable(kind))

    def described(self, form: SchemaFormat) -> str:
        """With its type, where that is known."""
        return schemas.described(form)

    def fits(self, form: SchemaFormat, kind: DataType) -> bool:
        return schemas.misfit(form, nullable(kind)) is None

    def refuses(self, form: SchemaFormat) -> bool:
        return True

    def written_type(self, form: SchemaFormat) -> str:
        return "types that its language has" if form.schema is None else super().written_type(form)

    def hint(self, form: SchemaFormat, alternative: str) -> str:
        return "Make values of the schema's types, its fields in its order; without a schema one is made of the type."


def family_of(form: Format) -> Family:
    return FAMILIES[form.kind]


_PRIMITIVE: dict[str, Primitive] = {
    "bytes": Primitive(BinaryType(), serdes.BytesSerde()),
    "string": Primitive(StringType(), serdes.TextSerde()),
    "int": Primitive(IntegerType(), NumberSerde("int")),
    "long": Primitive(LongType(), NumberSerde("long")),
}
FAMILIES: dict[str, Family] = {
    **_PRIMITIVE,
    "short": Simple(ShortType(), NumberSerde("short")),
    "float": Simple(FloatType(), NumberSerde("float")),
    "double": Simple(DoubleType(), NumberSerde("double")),
    "boolean": Simple(BooleanType(), serdes.BooleanSerde()),
    "uuid": Simple(StringType(), serdes.UuidSerde(), some=True),
    "decimal": Decimals(),
    "json": Json(),
    "avro": RegisteredFamily(),
    "protobuf": RegisteredFamily(),
    "json_schema": RegisteredFamily(),
    "time_windowed": Windowed(family_of, sessions=False),
    "session_windowed": Windowed(family_of, sessions=True),
    "debezium": Envelopes(family_of),
    "debezium_key": DebeziumKeys(family_of),
}
"""By `Format.kind`."""


def type_of(form: Format) -> DataType:
    """The Spark type of the format's values; all fields within it may be null.

    Raises
    ------
    TopologyError : the schema has none, or two fields of one name.
    """
    kind = family_of(form).type_of(form)
    twice = field_twice(kind)
    if twice is not None:
        raise TopologyError(
            f"The schema of a format names the field {twice!r} twice: {kind.simpleString():.160}.",
            hint="Leave one of them out, or give it the name that it has in the records.",
        )
    return kind


def format_for(kind: DataType) -> Format:
    names = {type(family.kind): name for name, family in _PRIMITIVE.items()}
    return Format(names.get(type(kind), "json"))


def is_primitive(form: Format) -> bool:
    """Whether values of the format are texts, bytes or integers, which Spark has expressions to read."""
    return family_of(form).is_primitive


def serde_of(form: Format, kind: DataType | None = None) -> Serde:
    """The serde of the format in the workers.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    return family_of(form).serde_of(form, kind)


def describe_format(form: Format | None) -> str:
    """A format in describe() and in a checkpoint: however its schema was spelt."""
    return "by type" if form is None else family_of(form).described(form)


def check_writable(form: Format, kind: DataType, subject: str) -> None:
    """Raise unless the format writes values of this type.

    Parameters
    ----------
    subject : names the values to the user.
    """
    family = family_of(form)
    if family.fits(form, kind):
        return
    raise TopologyError(
        f"The format {form.kind!r} cannot write the {subject}, which are {kind.simpleString():.200}: it writes "
        f"{family.written_type(form):.200}.",
        hint=family.hint(form, format_for(kind).kind),
    )


def refuses(form: Format) -> bool:
    """Whether there are values of its type that the format does not write, as a text that is no UUID."""
    return family_of(form).refuses(form)
