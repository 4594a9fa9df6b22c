"""Formats: their types, and as Spark columns, values to bytes, and bytes of plain formats to values.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. All but the plain formats are read in the workers (`serdes`).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from watersmeet._spark.formats import serdes
from watersmeet._spark.formats.families import debezium, plain
from watersmeet._spark.formats.families.family import Family
from watersmeet._spark.formats.families.json import Json
from watersmeet._spark.formats.families.registered import Registered
from watersmeet._spark.formats.families.windowed import Windowed
from watersmeet._spark.formats.serdes import NumberSerde, Serde
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format

ENCODING = {"spark.sql.ansi.enabled": "false"}
"""What Spark is to be told while it takes up the columns that `encode` gives: else it casts no number to bytes."""


def family_of(form: Format) -> Family:
    """What answers for a format."""
    return FAMILIES[form.kind]


_PRIMITIVE: dict[str, plain.Primitive] = {
    "bytes": plain.Bytes(BinaryType(), serdes.BytesSerde()),
    "string": plain.Text(StringType(), serdes.TextSerde()),
    "int": plain.Primitive(IntegerType(), NumberSerde("int")),
    "long": plain.Primitive(LongType(), NumberSerde("long")),
}
FAMILIES: dict[str, Family] = {
    **_PRIMITIVE,
    "short": plain.Simple(ShortType(), NumberSerde("short")),
    "float": plain.Simple(FloatType(), NumberSerde("float")),
    "double": plain.Simple(DoubleType(), NumberSerde("double")),
    "boolean": plain.Simple(BooleanType(), serdes.BooleanSerde()),
    "uuid": plain.Simple(StringType(), serdes.UuidSerde(), some=True),
    "decimal": plain.Decimals(),
    "json": Json(),
    "avro": Registered(),
    "protobuf": Registered(),
    "json_schema": Registered(),
    "time_windowed": Windowed(family_of, sessions=False),
    "session_windowed": Windowed(family_of, sessions=True),
    "debezium": debezium.Envelopes(family_of),
    "debezium_key": debezium.Keys(family_of),
}
"""By `Format.kind`."""


def type_of(form: Format) -> DataType:
    """The Spark type of the format's values; all fields within it may be null.

    Raises
    ------
    TopologyError : the schema does not parse, or JSON cannot be read as this type.
    """
    return family_of(form).type_of(form)


def format_for(kind: DataType) -> Format:
    """The format that a sink takes for values of this type, when none was named."""
    names = {type(family.kind): name for name, family in _PRIMITIVE.items()}
    return Format(names.get(type(kind), "json"))


def is_primitive(form: Format) -> bool:
    """Whether values of the format are texts, bytes or integers, which Spark has expressions to read."""
    return family_of(form).is_primitive


def serde_of(form: Format, kind: DataType | None = None) -> Serde:
    """What reads and writes the format in the workers.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    return family_of(form).serde_of(form, kind)


def describe_format(form: Format | None) -> str:
    """A format in describe() and in a checkpoint: however its schema was spelt."""
    return "by type" if form is None else family_of(form).described(form)


# -- from bytes --------------------------------------------------------------------------------------------


def decode(form: Format, raw: Column) -> tuple[Column, Column]:
    """(value, reason) of bytes of a plain format: reason is null where they are of it, and where they are null."""
    reason = reason_of(form, raw)
    return value_of(form, raw, reason), reason


def reason_of(form: Format, raw: Column) -> Column:
    """First step: why bytes are not of the format. Who keeps each step in a column of its own has it computed once."""
    return _PRIMITIVE[form.kind].reason_of(form, raw)


def value_of(form: Format, raw: Column, reason: Column) -> Column:
    """Second step: the value; null where there is a reason."""
    return _PRIMITIVE[form.kind].value_of(form, raw, reason)


# -- to bytes ----------------------------------------------------------------------------------------------


def check_writable(form: Format, kind: DataType, what: str) -> None:
    """Raise unless the format writes values of this type.

    Parameters
    ----------
    what : names the values to the user.

    Raises
    ------
    TopologyError : it does not; the hint names a format or a cast that does.
    """
    family = family_of(form)
    if family.fits(form, kind):
        return
    raise TopologyError(
        f"The format {form.kind!r} does not write the {what}, which are {kind.simpleString():.200}: it is of "
        f"{family.written_type(form):.200}.",
        hint=family.hint(form, format_for(kind).kind),
    )


def written_by_workers(form: Format, kind: DataType) -> bool:
    """Whether no expression of Spark's is needed to write values of this type."""
    return family_of(form).written_by_workers(form, kind)


def refuses(form: Format) -> bool:
    """Whether there are values of its type that the format does not write, as a text that is no UUID."""
    return family_of(form).refuses(form)


def encode(form: Format, value: Column, kind: DataType | None = None) -> Column:
    """The bytes of values, as Kafka's serializers write them; a null stays null. Needs `ENCODING`.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    return family_of(form).encode(form, value, kind)


def encode_combined(prefix_form: Format, suffix_form: Format, key: Column) -> Column:
    """The bytes of a one-to-many join's keys as KIP-213 lays them out, so that "a" is no prefix of "ab".

    That is the length of the prefix's bytes as 4 bytes big-endian, these bytes, and those of the suffix.
    """
    prefix, suffix = encode(prefix_form, key["prefix"]), encode(suffix_form, key["suffix"])
    return F.concat(encode(Format("int"), F.octet_length(prefix)), prefix, suffix)
