"""Formats: their types, and who reads and writes them in the workers.

Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
with a reason, so that they can never pass for one. What Spark's own expressions read and write is in
`_spark/formats/columns.py`.
"""

from __future__ import annotations

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

from watersmeet._worker.formats import serdes
from watersmeet._worker.formats.families import debezium, plain
from watersmeet._worker.formats.families.family import Family
from watersmeet._worker.formats.families.json import Json
from watersmeet._worker.formats.families.placed import PlacedValues
from watersmeet._worker.formats.families.registered import RegisteredFamily
from watersmeet._worker.formats.families.windowed import Windowed
from watersmeet._worker.formats.serdes import NumberSerde, Serde
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format


def family_of(form: Format) -> Family:
    """The family of a format."""
    return FAMILIES[form.kind]


_PRIMITIVE: dict[str, plain.Primitive] = {
    "bytes": plain.Primitive(BinaryType(), serdes.BytesSerde()),
    "string": plain.Primitive(StringType(), serdes.TextSerde()),
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
    "avro": RegisteredFamily(),
    "protobuf": RegisteredFamily(),
    "json_schema": RegisteredFamily(),
    "time_windowed": Windowed(family_of, sessions=False),
    "session_windowed": Windowed(family_of, sessions=True),
    "placed": PlacedValues(family_of, lambda kind: format_for(kind)),
    "debezium": debezium.Envelopes(family_of),
    "debezium_key": debezium.DebeziumKeys(family_of),
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
    """The serde of the format in the workers.

    Parameters
    ----------
    kind : type of the values; None: the format's own.
    """
    return family_of(form).serde_of(form, kind)


def describe_format(form: Format | None) -> str:
    """A format in describe() and in a checkpoint: however its schema was spelt."""
    return "by type" if form is None else family_of(form).described(form)


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
        f"The format {form.kind!r} cannot write the {what}, which are {kind.simpleString():.200}: it writes "
        f"{family.written_type(form):.200}.",
        hint=family.hint(form, format_for(kind).kind),
    )


def written_by_workers(form: Format, kind: DataType) -> bool:
    """Whether no expression of Spark's is needed to write values of this type."""
    return family_of(form).written_by_workers(form, kind)


def refuses(form: Format) -> bool:
    """Whether there are values of its type that the format does not write, as a text that is no UUID."""
    return family_of(form).refuses(form)


def writes_without_registry(form: Format) -> bool:
    """Whether it writes without asking a Schema Registry."""
    inner = getattr(form, "inner", None)
    return getattr(form, "registry", None) is None and (not isinstance(inner, Format) or writes_without_registry(inner))
