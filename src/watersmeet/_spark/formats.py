"""Schemas of formats that a start fixes, and a checkpoint records: law 2, a replay writes the same bytes.

A source without a schema goes on with the one that the checkpoint has, where its type is the same. A sink's schema is
registered, or looked up, before the first batch; its number stands in front of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._engine.rows import TOPIC, WITH_ZONE
from watersmeet._plan.nodes import SinkNode, SourceNode
from watersmeet._plan.physical import Physical
from watersmeet._spark.session import handed_over
from watersmeet._worker.ended_rows import HEADERS
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.registry import BadSchema, Handed, Missing, RegistryClient
from watersmeet._worker.formats.serdes import NOT_TEXT, WIDTHS, wrong_width
from watersmeet._worker.process import REGISTRIES
from watersmeet.errors import ChangedTopology, ConfigError
from watersmeet.io.formats import Format, SchemaFormat, SchemaRegistry, WrappingFormat
from watersmeet.io.inputs import Origin

Settled = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By `reads` and `writes`, and by node and part: subject, version or number, and the schema itself."""


def fix_schemas(
    sources: Sequence[SourceNode], sinks: Sequence[SinkNode], recorded: Settled
) -> dict[str, dict[str, dict[str, Any]]]:
    """The schemas of a start; empty where no format has a registry's.

    Parameters
    ----------
    recorded : what the checkpoint has, of an earlier start.
    """
    old = recorded.get("reads", {})
    read, written = _forms(_origins(sources)), _forms((sink, sink.target) for sink in sinks)
    reads = {place: _read(form, old.get(place), place) for place, form, _ in read if _is_latest(form)}
    writes = {place: _written(form, kind) for place, form, kind in written if form.registry is not None}
    return {name: entries for name, entries in (("reads", reads), ("writes", writes)) if entries}


def read_registry(sources: Sequence[SourceNode]) -> bool:
    return any(form.registry is not None for _, form, _ in _forms(_origins(sources)))


def _origins(sources: Sequence[SourceNode]) -> list[tuple[SourceNode, Any]]:
    return [(source, source.origin) for source in sources]


def _forms(ends: Iterable[tuple[SourceNode | SinkNode, Any]]) -> Iterator[tuple[str, SchemaFormat, Any]]:
    """(place, format, type) of all parts that have a schema, of nodes with the topics that they read or write."""
    for node, end in ends:
        for part, form in end.formats.items():
            kind = getattr(node.shape, part)
            if isinstance(form, WrappingFormat) and form.field is not None and isinstance(kind, StructType):
                kind = kind[form.field].dataType
            inner = form.inner if isinstance(form, WrappingFormat) else form
            if isinstance(inner, SchemaFormat):
                yield f"{node.name}/{part}", inner, kind


def _with(form: Any, inner: SchemaFormat) -> Any:
    return inner if isinstance(form, SchemaFormat) else replace(form, inner=inner)


def _is_latest(form: SchemaFormat) -> bool:
    return form.registry is not None and form.schema is None


def _read(form: SchemaFormat, recorded: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    latest = schemas.latest(form)
    current = {"subject": latest.subject, "version": latest.version, "schema": schemas.whole_text(form)}
    if recorded is None or form.version is not None or recorded["subject"] != current["subject"]:
        return current
    if schemas.LANGUAGES[form.kind].type_of(recorded["schema"]) == schemas.type_of(form):
        return dict(recorded)
    raise ChangedTopology(
        "The registry's latest schema has another type than the schema in the checkpoint.",
        given=(
            f"{place}: version {recorded['version']} of {recorded['subject']} in the checkpoint, "
            f"{current['version']} now"
        ),
        hint=f"Read by the old one: wm.{form.kind}(registry=..., version={recorded['version']}); values of newer ones "
        "are read by it where they are compatible. Or begin a new checkpoint.",
    )


def _written(form: SchemaFormat, kind: Any) -> dict[str, Any]:
    language = schemas.LANGUAGES[form.kind]
    try:
        text = schemas.written_text(form, kind)
        schema = language.whole(text)
        if form.validate:
            language.check(schema)
    except BadSchema as error:
        raise schemas.refused(error, form, str(form.schema)) from None
    subject = form.subject_of(language.name_of(schema))
    if subject is None:
        raise ConfigError(
            f"subject_name_strategy={form.subject_name_strategy!r} needs a schema with a name.",
            given=f"subject_name_strategy={form.subject_name_strategy!r}, the {form.part}s of {form.topic!r}",
            hint='Take "TopicNameStrategy", or name it: subject="...".',
        )
    return {"subject": subject, "id": _id_of(form, subject, text), "schema": schema}


def _id_of(form: SchemaFormat, subject: str, text: str) -> int:
    assert form.registry is not None
    client, language = RegistryClient(form.registry.settings), schemas.LANGUAGES[form.kind]
    try:
        payload = language.registration(text)
        return client.id_of(subject, payload, language.registered_as, register=form.auto_register)
    except Missing as error:
        raise ConfigError(
            "The registry does not have the schema of a sink, and auto_register=False forbids to register it.",
            given=f"{error}; the schema is {language.display_text(text)[:300]}",
            hint="Register it, or leave out auto_register=False.",
        ) from None


# -- with what is settled ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registries:
    """All registries of a topology, as its tasks reach them."""

    half: bytes = field(repr=False)  # of their settings
    order: tuple[SchemaRegistry, ...] = ()  # the registries

    def handed(self, registry: Any) -> Any:
        """One of them."""
        return (
            None
            if registry is None
            else Handed(self.half, [candidate is registry for candidate in self.order].index(True))
        )


@contextmanager
def handed_registries(spark: SparkSession, sources: Sequence[SourceNode]) -> Iterator[Registries]:
    """The registries of sources, for tasks of a query that is started while it lasts."""
    registries: list[SchemaRegistry] = []
    for _, form, _ in _forms(_origins(sources)):
        if form.registry is not None and not any(registry is form.registry for registry in registries):
            registries.append(form.registry)
    if not registries:
        yield Registries(b"")
        return
    settings = {str(number): registry.settings for number, registry in enumerate(registries)}
    with handed_over(spark, settings, REGISTRIES) as half:
        yield Registries(half, tuple(registries))


def sources_with_schemas(sources: Sequence[SourceNode], recorded: Settled, registries: Registries) -> list[SourceNode]:
    """The sources with the recorded schemas in their formats, and registries as tasks reach them."""
    updated = []
    for source in sources:
        parts = {}
        for place, form, _ in _forms(_origins([source])):
            text = recorded.get("reads", {}).get(place, {}).get("schema", form.schema)
            part = place.rsplit("/", 1)[1]
            made_of = replace(form, schema=text, version=None, registry=registries.handed(form.registry))
            parts[part] = _with(getattr(source.origin, part), made_of)
        updated.append(replace(source, origin=replace(source.origin, **parts)) if parts else source)
    return updated


def sinks_with_schemas(sinks: Sequence[SinkNode], recorded: Settled) -> list[SinkNode]:
    """The sinks with the recorded schemas and their numbers in their formats."""
    updated = []
    for sink in sinks:
        parts = {}
        for place, form, kind in _forms([(sink, sink.target)]):
            if form.registry is not None:
                entry = recorded.get("writes", {}).get(place)
                if entry is None or schemas.misfit(replace(form, schema=entry["schema"]), kind) is not None:
                    # a batch that was begun with another type is run again with this one
                    entry = _written(form, kind)
                part = place.rsplit("/", 1)[1]
                made_of = replace(form, schema=entry["schema"], id=entry["id"], registry=None)
                parts[part] = _with(getattr(sink.target, part), made_of)
        updated.append(replace(sink, target=replace(sink.target, **parts)) if parts else sink)
    return updated


def with_sinks(physical: Physical, recorded: Settled) -> Physical:
    return replace(physical, plan=physical.plan.with_nodes(sinks_with_schemas(physical.plan.sinks, recorded)))


# Python values of Spark's types: what a test pipes becomes what Spark takes, or is refused with its place.
#
# Spark itself looks at values when a frame is made, a whole run later, and takes no int for a double. Law 6: what is
# of no use is an error; nothing becomes null, is rounded, or is left out.

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


@dataclass
class Unfit(Exception):
    """A value is not of its type."""

    place: str  # of the value within the record, such as ``value.amount``
    fault: str  # what is wrong with it


def fitted(value: Any, kind: DataType, place: str, *, nullable: bool = True) -> Any:
    """The value as Spark takes it for this type: whole numbers for floating ones, structs as Rows.

    Parameters
    ----------
    value : a Python value; a struct is a Row, a dict of fields (those left out are null), or a tuple of all of them.
    place : names the value.
    """
    if value is None:
        if not nullable:
            raise Unfit(place, "it is null, and may not be")
        return None
    for types, fit in _FITS:
        if isinstance(kind, types):
            return fit(value, kind, place)
    return value


def check_zones(value: Any, kind: DataType, place: str) -> None:
    """Raise if a timestamp within a value of the type has no zone: the machine's would be taken."""
    if isinstance(kind, TimestampType) and isinstance(value, datetime) and value.utcoffset() is None:
        raise Unfit(place, f"{value!r}: {WITH_ZONE}")
    if isinstance(kind, StructType) and isinstance(value, Row | Mapping):
        members = value.asDict() if isinstance(value, Row) else value
        for each in kind.fields:
            check_zones(members.get(each.name), each.dataType, f"{place}.{each.name}")
    elif isinstance(kind, ArrayType) and isinstance(value, list | tuple):
        for at, element in enumerate(value):
            check_zones(element, kind.elementType, f"{place}[{at}]")
    elif isinstance(kind, MapType) and isinstance(value, Mapping):
        for key, inner in value.items():
            check_zones(key, kind.keyType, f"a key of {place}")
            check_zones(inner, kind.valueType, f"{place}[{key!r}]")


def _refuse(value: Any, kind: DataType, place: str) -> Unfit:
    return Unfit(place, f"{value!r:.80} is of the type {type(value).__name__}, not {kind.simpleString():.120}")


def _struct(value: Any, kind: Any, place: str) -> Row:
    names = kind.fieldNames()
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        value = dict(zip(value.__fields__, value, strict=True))
    elif isinstance(value, tuple | list):
        if len(value) != len(names):
            raise Unfit(place, f"{len(value)} values are given for the {len(names)} fields {', '.join(names)}")
        value = dict(zip(names, value, strict=True))
    if not isinstance(value, Mapping):
        raise _refuse(value, kind, place)
    unknown = [str(name) for name in value if name not in names]
    if unknown:
        raise Unfit(place, f"there is no field {unknown[0]!r}; the fields are {', '.join(names)}")
    parts = [fitted(value.get(f.name), f.dataType, f"{place}.{f.name}", nullable=f.nullable) for f in kind.fields]
    row: Row = Row(*names)(*parts)
    return row


def _array(value: Any, kind: Any, place: str) -> list[Any]:
    if not isinstance(value, list | tuple) or isinstance(value, Row):
        raise _refuse(value, kind, place)
    inner, nullable = kind.elementType, kind.containsNull
    return [fitted(element, inner, f"{place}[{at}]", nullable=nullable) for at, element in enumerate(value)]


def _map(value: Any, kind: Any, place: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(value, kind, place)
    nullable = kind.valueContainsNull
    return {
        fitted(key, kind.keyType, f"a key of {place}", nullable=False): fitted(
            inner, kind.valueType, f"{place}[{key!r}]", nullable=nullable
        )
        for key, inner in value.items()
    }


def _integer(value: Any, kind: DataType, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _refuse(value, kind, place)
    limit = 2 ** (_BITS[type(kind)] - 1)
    number = int(value)
    if not -limit <= number < limit:
        raise Unfit(place, f"{number} is beyond the limits of {kind.simpleString()}")
    return number


def _floating(value: Any, kind: DataType, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refuse(value, kind, place)
    number = float(value)
    if isinstance(value, Integral) and int(number) != int(value):
        raise Unfit(place, f"{value} is no {kind.simpleString()}: the nearest one is {number!r}")
    return number


def _decimal(value: Any, kind: Any, place: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Integral | Decimal):
        raise _refuse(value, kind, place)
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not isinstance(exponent, int):
        raise Unfit(place, f"{number} is no {kind.simpleString()}")
    integer_digits, zeros = len(text) + exponent, len(text) - len(text.rstrip("0"))
    if text and (integer_digits > kind.precision - kind.scale or -exponent - zeros > kind.scale):
        raise Unfit(place, f"{number} has more digits than {kind.simpleString()}")
    return number


def _instance(*types: type, but: tuple[type, ...] = ()) -> Callable[[Any, DataType, str], Any]:
    def fit(value: Any, kind: DataType, place: str) -> Any:
        if not isinstance(value, types) or isinstance(value, but):
            raise _refuse(value, kind, place)
        return bytes(value) if isinstance(value, bytearray) else value

    return fit


_FITS: tuple[tuple[Any, Callable[[Any, Any, str], Any]], ...] = (
    (StructType, _struct),
    (ArrayType, _array),
    (MapType, _map),
    (tuple(_BITS), _integer),
    ((FloatType, DoubleType), _floating),
    (DecimalType, _decimal),
    (StringType, _instance(str)),
    (BinaryType, _instance(bytes, bytearray)),
    (BooleanType, _instance(bool)),
    ((TimestampType, TimestampNTZType), _instance(datetime)),
    (DateType, _instance(date, but=(datetime,))),
)


# Formats as Spark columns: bytes of plain formats to values, and values to JSON.
#
# Law 6: a null is a tombstone and nothing else is; bytes that are not of the format give a null value together
# with a reason, so that they can never pass for one. All but the plain formats are read in the workers (`serdes`).

_JSON_OPTIONS = {
    "timeZone": "UTC",
    # Spark's own formats end at milliseconds, the types at microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


# -- from bytes --------------------------------------------------------------------------------------------


def reason_of(form: Format, raw: Column) -> Column:
    """Why bytes are not of the format; null where they are. Keep it in a column, so that Spark computes it once."""
    return _PLAIN[form.kind].reason(raw)


def value_of(form: Format, raw: Column, reason: Column) -> Column:
    """The value of bytes; null where `reason`, the column of `reason_of`, is not null."""
    return F.when(reason.isNull() & raw.isNotNull(), _PLAIN[form.kind].value(raw))


@dataclass(frozen=True)
class _Plain:
    """Spark's expressions for a plain format."""

    reason: Callable[[Column], Column]  # of bytes, why they are not of the format
    value: Callable[[Column], Column]  # the value of bytes that are of it


def _number(kind: str) -> _Plain:
    width = WIDTHS[kind]

    def reason(raw: Column) -> Column:
        length = F.octet_length(raw)
        return F.when(length != width, F.concat(F.lit(wrong_width(kind, "")), length.cast("string")))

    def value(raw: Column) -> Column:
        # base -10 makes the bits of 8 bytes a signed number; 4 bytes never reach its sign
        number = F.conv(F.when(F.octet_length(raw) == width, F.hex(raw)), 16, -10).cast("bigint")
        if width == WIDTHS["long"]:
            return number
        return F.when(number >= 2**31, number - 2**32).otherwise(number).cast("int")

    return _Plain(reason, value)


_PLAIN = {
    "bytes": _Plain(lambda raw: F.lit(None).cast("string"), lambda raw: raw),
    "string": _Plain(
        lambda raw: F.when(~F.is_valid_utf8(raw.cast("string")), F.lit(NOT_TEXT)), lambda raw: raw.cast("string")
    ),
    "int": _number("int"),
    "long": _number("long"),
}
"""By a format's kind."""


# -- to bytes ----------------------------------------------------------------------------------------------


def encode_json(value: Column) -> Column:
    """The JSON text of a value as UTF-8, also of types that JSON cannot be read as; null for null."""
    # to_json takes no plain strings and numbers: write {"v":...} and cut the value out of it
    text = F.to_json(F.struct(value.alias("v")), _JSON_OPTIONS)
    return F.when(value.isNotNull(), F.substring(text, F.lit(6), F.length(text) - 6).cast("binary"))


# The record as functions of Columns see it: a struct of its time, its headers and its place in a topic.
#
# Behind an operator a record is its result: it has a time, and headers where a topic keeps them; it stands in no topic.

_FIELDS: dict[str, DataType] = {
    "timestamp": LongType(),
    "headers": HEADERS,
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
}
RECORD_TYPE = StructType([StructField(name, kind, True) for name, kind in _FIELDS.items()])


def record_column(columns: Collection[str], ts: Column, origin: Origin | None, headers: str | None = None) -> Column:
    """The record of each row.

    Parameters
    ----------
    columns : those of the frame.
    ts : the record's time, in ms.
    origin : the input that it stands in; None: in none.
    headers : the column of its own headers; None: those that all rows have, if they have some.
    """
    facts = {"timestamp": ts}
    if headers is not None or "headers" in columns:
        facts["headers"] = F.col(headers or "headers")
    if origin is not None and origin.topic is not None:
        # piped records are of one partition
        partition = F.col("partition") if "partition" in columns else F.lit(0)
        topic = F.lit(origin.topic) if origin.pattern is None else F.col(TOPIC)
        facts |= {"topic": topic, "partition": partition, "offset": F.col("offset")}
    parts = ((name, facts.get(name, F.lit(None)).cast(kind)) for name, kind in _FIELDS.items())
    return F.struct(*(part.alias(name) for name, part in parts))
