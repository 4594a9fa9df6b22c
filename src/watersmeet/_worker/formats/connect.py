"""Kafka Connect's JSON and its logical types: the object around a value, and what a schema makes of the value.

Connect's converter writes `{"schema": ..., "payload": ...}`, and null as a text. The schema says what JSON cannot: of
bytes that they are a decimal of some scale, of a number which unit of time it counts. Law 6: the payload is read as
its schema says; a column that the schema has not, or has as something else, is a reason, and never a null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as own_field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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

from watersmeet._engine import keys
from watersmeet._engine.rows import Bools, Int64s
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json import DAY_MICROS, NULL_TEXT, TIMES, Bad, decode, leaf_column, times
from watersmeet._worker.formats.limits import JSON_LEVELS, nests_beyond

Schema = Mapping[str, Any]
"""A schema of Connect's, as its JSON has it."""
Convert = Callable[[pa.Array], tuple[pa.Array, Bad]]
PAYLOAD = "payload"
"""Where the value is."""
_MEMBER = re.compile(r'\s*"(schema|payload)"\s*:\s*')
_BETWEEN, _AFTER = re.compile(r"\s*,"), re.compile(r"\s*\}\s*")
_TYPES = ("struct", "array", "map", "string", "bytes", "boolean", "float", "double", "int8", "int16", "int32", "int64")
_BEGINS = ('{"schema":', '{"payload":')
_MOST_SEARCHES = 64
"""So many times the texts that begin like one are looked for; those with other schemas are taken apart one by one."""
_ENVELOPE = frozenset(("op", "after", "source"))
_SHOWN = 400


@dataclass(frozen=True)
class SchemaGroup:
    """Texts of one schema."""

    schema: Schema | None  # of all; None: they have none
    rows: Int64s  # where they stand
    texts: pa.Array  # without the object around them


def decoded(kind: DataType, texts: pa.Array, *, missing: bool = False) -> tuple[pa.Array, dict[int, str]]:
    """The values of JSON texts, as `decode` reads them, of Connect's objects those within. Null texts are null.

    Parameters
    ----------
    kind : what the texts are to be. With a field called payload, no object is taken for Connect's.
    missing : whether a column that the schema of a text has not is null; else such texts have a reason.
    """
    own = isinstance(kind, StructType) and PAYLOAD in kind.names
    groups = [] if own else schema_groups(texts)
    if not groups:
        values, flaws = decode(kind, texts)
        flaws |= _envelopes(kind, texts, values)
    else:
        flaws, columns = {}, []
        for group in groups:
            column, reasons = _of_group(kind, group, missing)
            columns.append(column)
            flaws |= {int(group.rows[row]): why for row, why in reasons.items()}
        places = np.argsort(np.concatenate([group.rows for group in groups]), kind="stable")
        values = pa.concat_arrays(columns).take(pa.array(places))
    return values, {row: why for row, why in flaws.items() if why != NULL_TEXT}


def _of_group(kind: DataType, group: SchemaGroup, missing: bool) -> tuple[pa.Array, dict[int, str]]:
    """The values of one schema's texts, and why some are none."""
    if group.schema is None:
        return decode(kind, group.texts)
    fault = None if missing else missing_columns(kind, group.schema)
    if fault is None:
        return _by_schema(kind, group.schema, group.texts)
    there = pc.and_(group.texts.is_valid(), pc.not_equal(group.texts, "null")).fill_null(False)
    rows = np.flatnonzero(there.to_numpy(zero_copy_only=False)).tolist()
    return pa.nulls(len(group.texts), arrow_type(kind)), dict.fromkeys(rows, fault)


def _by_schema(kind: DataType, schema: Schema, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    values, flaws = _read(reading(kind, schema), texts)
    # decimal.format=NUMERIC of the converter: a text is never the digits there, as it may be of bytes
    rows = [row for row, why in flaws.items() if why.endswith(_NO_TEXT)]
    if rows and DECIMAL in str(schema):
        others, still = _read(reading(kind, schema, numeric=True), texts.take(pa.array(rows)))
        places = np.arange(len(values))
        places[rows] = len(values) + np.arange(len(rows))
        values = pa.concat_arrays([values, others]).take(pa.array(places))
        mended = {row for at, row in enumerate(rows) if at not in still}
        flaws = {row: why for row, why in flaws.items() if row not in mended}
    return values, flaws


def _read(way: Reading, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    values, flaws = decode(way.kind, texts)
    if way.convert is None:
        return values, flaws
    values, bad = way.convert(values)
    beyond = dict(reversed(bad))
    if beyond:
        right = np.ones(len(values), dtype=np.bool_)
        right[list(beyond)] = False
        values = pc.if_else(pa.array(right), values, pa.scalar(None, values.type))
    return values, beyond | flaws


# -- the object around a value -----------------------------------------------------------------------------


def schema_groups(texts: pa.Array) -> list[SchemaGroup]:
    """The texts by the schemas that they come with, each row in one group; nothing where none has one."""
    begins = [pc.starts_with(texts, begin).fill_null(False) for begin in _BEGINS]
    left: Bools = pc.or_(*begins).to_numpy(zero_copy_only=False).copy()
    if not left.any():
        return []
    rest, searches = np.ones(len(texts), dtype=np.bool_), 0
    parts: dict[str, list[tuple[Int64s, pa.Array]]] = {}
    while left.any():
        first = int(left.argmax())
        left[first] = False
        apart = _parts(texts[first].as_py())
        if apart is None:
            continue
        schema, before, payload, after = apart
        of_schema = parts.setdefault(schema, [])
        of_schema.append((np.array([first]), pa.array([payload], texts.type)))
        rest[first] = False
        if before and searches < _MOST_SEARCHES:
            # the converter writes the schema first, so that texts of one schema begin alike
            alike = pc.and_(pc.starts_with(texts, before), pc.ends_with(texts, after)).fill_null(False)
            rows, searches = np.flatnonzero(left & alike.to_numpy(zero_copy_only=False)), searches + 1
            left[rows] = rest[rows] = False
            of_schema.append((rows, _payloads(texts.take(pa.array(rows)), before, after)))
    groups = [
        SchemaGroup(json.loads(schema), np.concatenate([at for at, _ in some]), pa.concat_arrays([t for _, t in some]))
        for schema, some in parts.items()
    ]
    if rest.any():
        groups.append(SchemaGroup(None, np.flatnonzero(rest), texts.filter(pa.array(rest))))
    return groups if parts else []


def _parts(text: str) -> tuple[str, str, str, str] | None:
    """Of a text with a schema: its schema, the text before the payload, the payload, the text behind it.

    Returns
    -------
    None where it is something else. Nothing stands before the payload where that comes first.
    """
    if nests_beyond(text, JSON_LEVELS):
        return None
    spans: dict[str, tuple[int, int]] = {}
    at, behind = 1, _BETWEEN
    for _ in range(2):
        member = _MEMBER.match(text, at)
        try:
            end = 0 if member is None else json.JSONDecoder().raw_decode(text, member.end())[1]
        except (ValueError, RecursionError):
            return None
        rest = behind.match(text, end)
        if member is None or rest is None or member[1] in spans:
            return None
        spans[member[1]] = member.end(), end
        at, behind = rest.end(), _AFTER
    if at < len(text):
        return None
    schema, (start, stop) = text[slice(*spans["schema"])], spans[PAYLOAD]
    known = json.loads(schema)
    if known is not None and (not isinstance(known, dict) or known.get("type") not in _TYPES):
        return None
    first = start < spans["schema"][0]
    return schema, "" if first else text[:start], text[start:stop], text[stop:]


def _payloads(texts: pa.Array, before: str, after: str) -> pa.Array:
    raw = texts.cast(pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary())
    return pc.binary_slice(raw, len(before.encode()), -len(after.encode())).cast(texts.type)


# -- columns that are not there ----------------------------------------------------------------------------


def missing_columns(kind: DataType, schema: Schema) -> str | None:
    """The reason for texts of a schema that has not all columns of a type; None: it has them."""
    names, there = next(_missing(kind, schema, ""), ([], []))
    if not names:
        return None
    what = f"the event's own schema has no column {', '.join(map(repr, names))}; it has {', '.join(there)}"
    return f"{what[:_SHOWN]}. {_cure(names, there)}"


def _cure(names: list[str], there: list[str]) -> str:
    if set(there) >= _ENVELOPE and not set(names) <= _ENVELOPE:
        return _OF_DEBEZIUM
    if set(names) & _ENVELOPE:
        return "It is no change event of Debezium's; flattened events are read with wm.json"
    return 'Where earlier events lack a column that was added later, missing_columns="null" reads it as null'


_OF_DEBEZIUM = "It is a change event of Debezium's: read such a topic with wm.debezium"


def _missing(kind: DataType, schema: Schema, place: str) -> Iterator[tuple[list[str], list[str]]]:
    """Of each struct within a type the names that the schema has not, and those that it has."""
    form = schema.get("type")
    if isinstance(kind, StructType) and form == "struct" and isinstance(schema.get("fields"), list):
        fields = {str(part.get("field")): part for part in schema["fields"] if isinstance(part, dict)}
        names = [f"{place}{name}" for name in kind.names if name not in fields]
        if names:
            yield names, list(fields)
        for field in kind.fields:
            if field.name in fields:
                yield from _missing(field.dataType, fields[field.name], f"{place}{field.name}.")
    elif isinstance(kind, ArrayType) and form == "array":
        yield from _missing(kind.elementType, _object(schema.get("items")), place)
    elif isinstance(kind, MapType) and form == "map":
        yield from _missing(kind.valueType, _object(schema.get("values")), place)


def _envelopes(kind: DataType, texts: pa.Array, values: pa.Array) -> dict[int, str]:
    """Change events of Debezium's without their schema, of which the type has no column."""
    columns = values.flatten() if isinstance(kind, StructType) else []
    if not columns or not all(column.null_count for column in columns):
        return {}
    empty = reduce(pc.and_, (column.is_null() for column in columns), values.is_valid())
    for name in _ENVELOPE if pc.any(empty).as_py() else ():
        empty = pc.and_(empty, pc.match_substring(texts, f'"{name}"'))
    rows = np.flatnonzero(empty.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    return {row: _OF_DEBEZIUM for row in rows if set(json.loads(texts[row].as_py())) >= _ENVELOPE}


# -- types -------------------------------------------------------------------------------------------------

MOST_DIGITS = 38
"""Of a decimal of Spark's."""
_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
DECIMAL, VARIABLE = f"{_CONNECT}Decimal", "io.debezium.data.VariableScaleDecimal"
_INTEGERS = (ShortType, IntegerType, LongType)
_COUNTS: dict[str, tuple[DataType, int]] = {
    f"{_CONNECT}Timestamp": (TimestampType(), 1_000),
    f"{_CONNECT}Date": (DateType(), DAY_MICROS),
    f"{_TIME}Timestamp": (TimestampNTZType(), 1_000),
    f"{_TIME}MicroTimestamp": (TimestampNTZType(), 1),
    f"{_TIME}NanoTimestamp": (TimestampNTZType(), -1_000),
    f"{_TIME}Date": (DateType(), DAY_MICROS),
}
"""Of numbers that count from 1970 on: their type, and how many microseconds one is, or minus how many are one."""
_TEXTS: dict[str, DataType] = {
    f"{_TIME}ZonedTimestamp": TimestampType(),
    f"{_TIME}IsoTimestamp": TimestampNTZType(),
    f"{_TIME}IsoDate": DateType(),
}
_INFINITE = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
"""What PostgreSQL's driver takes infinite timestamps for, in microseconds."""
_FIRST_DAY = -2_440_588
"""In the year 4713 before Christ, PostgreSQL's first; its driver takes infinite dates for days before it."""
_PLAIN: dict[str, DataType] = {
    "string": StringType(),
    "bytes": BinaryType(),
    "boolean": BooleanType(),
    "float": FloatType(),
    "double": DoubleType(),
    **dict.fromkeys(("int8", "int16", "int32"), IntegerType()),
    "int64": LongType(),
}
_MOST_BYTES, _MOST_SCALE = 1 << 16, 1 << 17
"""Of a decimal: PostgreSQL's have up to 147,455 digits, and 131,072 of them before the point."""
_SCALE = re.compile(r"-?[0-9]{1,5}")
_UNBOUNDED = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NO_TEXT = "a binary is wanted where there is a number"
_VARIABLE_TYPE = StructType([StructField("scale", IntegerType()), StructField("value", BinaryType())])


@dataclass(frozen=True)
class Reading:
    """How values of a schema are read as a type."""

    kind: DataType  # what they are to be read as first
    # what makes a column of that one of the type, and says what is wrong with which row; None: it is that
    convert: Convert | None = None


def natural_type(name: str) -> DataType | None:
    """The type of values of a logical type, where it is another than that of what they are written as."""
    if name == VARIABLE:
        return StringType()
    return _COUNTS[name][0] if name in _COUNTS else _TEXTS.get(name)


def converted(kind: DataType, schema: Schema, column: pa.Array) -> tuple[pa.Array, Bad]:
    """Values of a logical type as its natural type, of a column as they are written."""
    found = _leaf(kind, schema, numeric=False)
    assert isinstance(found, Reading), f"{schema} is not read as {kind}"
    return (column, []) if found.convert is None else found.convert(column)


def reading(kind: DataType, schema: Schema, place: str = "", *, numeric: bool = False) -> Reading:
    """How values of a schema are read as a type.

    Parameters
    ----------
    place : the path of the field, for reasons.
    numeric : whether decimals are numbers.
    """
    form = schema.get("type")
    if isinstance(kind, StructType) and form == "struct":
        given = schema.get("fields")
        known = {str(_object(each).get("field")): each for each in (given if isinstance(given, list) else ())}
        inner = [
            reading(f.dataType, _object(known.get(f.name)), f"{place}.{f.name}" if place else f.name, numeric=numeric)
            for f in kind.fields
        ]
        made: DataType = StructType([StructField(n, each.kind) for n, each in zip(kind.names, inner, strict=True)])
        return Reading(made, _of_fields(kind, inner))
    if isinstance(kind, ArrayType) and form == "array":
        element = reading(kind.elementType, _object(schema.get("items")), f"{place}[]", numeric=numeric)
        return Reading(ArrayType(element.kind), _of_elements(kind, element))
    found = _leaf(kind, schema, numeric)
    if isinstance(found, str):
        why = f"{place or 'the value'} is {schema.get('name') or form}: {found}"
        return Reading(_written(schema), lambda column: _refused(kind, column, why))
    if found.convert is None:
        return found
    return Reading(found.kind, _placed(found.convert, place or "the value"))


def _written(schema: Schema) -> DataType:
    return _VARIABLE_TYPE if schema.get("name") == VARIABLE else _PLAIN.get(str(schema["type"]), StringType())


def _object(given: Any) -> Schema:
    """A schema within another; what is none says nothing."""
    return given if isinstance(given, dict) else {}


def _refused(kind: DataType, column: pa.Array, why: str) -> tuple[pa.Array, Bad]:
    there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return pa.nulls(len(column), arrow_type(kind)), [(row, why) for row in there]


def _placed(convert: Convert, place: str) -> Convert:
    def made(column: pa.Array) -> tuple[pa.Array, Bad]:
        values, bad = convert(column)
        return values, [(row, f"{place}: {why}") for row, why in bad]

    return made


def _of_fields(kind: StructType, inner: list[Reading]) -> Convert | None:
    if all(part.convert is None for part in inner):
        return None

    def made(column: pa.StructArray) -> tuple[pa.Array, Bad]:
        columns: list[pa.Array] = []
        flaws: Bad = []
        for field, each in zip(column.flatten(), inner, strict=True):
            values, bad = (field, []) if each.convert is None else each.convert(field)
            columns.append(values)
            flaws += bad
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind)), mask=mask), flaws

    return made


def _of_elements(kind: ArrayType, element: Reading) -> Convert | None:
    convert = element.convert
    if convert is None:
        return None

    def made(column: pa.ListArray) -> tuple[pa.Array, Bad]:
        values, bad = convert(column.flatten())
        rows = pc.list_parent_indices(column).to_pylist() if bad else []
        lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        mask = column.is_null() if column.null_count else None
        made = pa.ListArray.from_arrays(offsets, values, mask=mask).cast(arrow_type(kind))
        return made, [(rows[at], why) for at, why in bad]

    return made


def _leaf(kind: DataType, schema: Schema, numeric: bool) -> Reading | str:
    """How a value without others within is read, or what else to do."""
    name, form = str(schema.get("name") or ""), str(schema.get("type"))
    if name in (DECIMAL, VARIABLE):
        return _of_decimals(kind, schema, numeric)
    if form not in _PLAIN or isinstance(kind, StructType | ArrayType):
        return Reading(kind)
    if isinstance(kind, DecimalType) and form == "bytes":
        return "declare it as binary"
    if isinstance(kind, TIMES):
        return _of_times(kind, name, form)
    return Reading(kind)


def _of_times(kind: DataType, name: str, form: str) -> Reading | str:
    wanted = natural_type(name)
    if wanted is None:
        return Reading(kind) if form == "string" and not name else f"declare it as {_PLAIN[form].simpleString()}"
    zoned = name.endswith("ZonedTimestamp") and isinstance(kind, TimestampNTZType)
    if isinstance(kind, DateType) is not isinstance(wanted, DateType) or zoned:
        return f"declare it as {'date' if isinstance(wanted, DateType) else 'timestamp'}"
    if name in _TEXTS:
        return Reading(StringType(), lambda column: _of_iso(column, kind))
    return Reading(LongType(), lambda column: _of_counts(column, _COUNTS[name][1], kind))


def _of_counts(column: pa.Array, unit: int, kind: DataType) -> tuple[pa.Array, Bad]:
    counts = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if isinstance(kind, DateType):
        return _of_days(column, counts, kind)
    beyond = np.zeros(len(counts), dtype=np.bool_)
    if unit > 0:
        most = np.iinfo(np.int64).max // unit
        beyond = (counts > most) | (counts < -most)
        counts = np.where(beyond, 0, counts) * unit
    else:
        counts = counts // -unit
    return _times_of(column, counts, kind, beyond)


def _of_days(column: pa.Array, days: np.ndarray, kind: DataType) -> tuple[pa.Array, Bad]:
    bad = (days < _FIRST_DAY) | (days > np.iinfo(np.int32).max)
    return _with_flaws(column, np.where(bad, 0, days).astype(np.int32), kind, bad, "an infinite date")


def _times_of(column: pa.Array, counts: np.ndarray, kind: DataType, beyond: np.ndarray) -> tuple[pa.Array, Bad]:
    return _with_flaws(column, counts, kind, beyond | np.isin(counts, _INFINITE), "an infinite timestamp")


def _with_flaws(
    column: pa.Array, counts: np.ndarray, kind: DataType, bad: np.ndarray, what: str
) -> tuple[pa.Array, Bad]:
    """The counts as the type, null where the column is, or one is bad."""
    bad = bad & column.is_valid().to_numpy(zero_copy_only=False)
    mask = bad | column.is_null().to_numpy(zero_copy_only=False)
    made = pa.array(counts, mask=mask).view(arrow_type(kind))
    instead = "string" if pa.types.is_string(column.type) else "int" if isinstance(kind, DateType) else "long"
    cure = f"declare it as {instead}, in Avro by a schema without connect.name"
    why = f"{what}, or one beyond its type's range: {cure}"
    return made, [(row, why) for row in np.flatnonzero(bad).tolist()]


def _of_iso(column: pa.Array, kind: DataType) -> tuple[pa.Array, Bad]:
    """Dates and timestamps of Debezium's texts: those without a zone end with Z, too."""
    bare = column if isinstance(kind, TimestampType) else pc.replace_substring_regex(column, "Z$", "")
    made, lost = times(bare, kind)
    whole = pa.int32() if isinstance(kind, DateType) else pa.int64()
    counts = made.view(whole).fill_null(0).to_numpy(zero_copy_only=False)
    bad = np.isin(np.arange(len(made)), lost)
    if isinstance(kind, DateType):
        bad |= counts < _FIRST_DAY
        return _with_flaws(column, counts, kind, bad, "an infinite date")
    return _times_of(column, counts, kind, bad)


def _of_decimals(kind: DataType, schema: Schema, numeric: bool) -> Reading | str:
    variable = schema.get("name") == VARIABLE
    if isinstance(kind, StructType if variable else BinaryType):
        return Reading(kind)
    if not isinstance(kind, (DecimalType, StringType, *_INTEGERS)):
        return "declare it as decimal or string; as double with decimal.handling.mode=double"
    if variable:
        return Reading(_VARIABLE_TYPE, lambda column: _of_variable(column, kind))
    if numeric:
        return Reading(kind) if isinstance(kind, DecimalType) else "declare it as decimal"
    said = str(_object(schema.get("parameters")).get("scale"))
    if not _SCALE.fullmatch(said):
        return "its schema has no scale"
    scale = int(said)
    return Reading(BinaryType(), lambda column: of_digits(column, scale, kind))


def of_digits(column: pa.Array, scale: int, kind: DataType) -> tuple[pa.Array, Bad]:
    """Decimals of their digits in two's complement.

    Parameters
    ----------
    scale : digits behind the point.
    kind : a decimal, an integer, or a string for their text.
    """
    if isinstance(kind, DecimalType) and 0 <= scale <= MOST_DIGITS:
        made, bad = keys.decimals(column, pa.decimal128(MOST_DIGITS, scale))
        try:
            if not bad.any():
                return made.cast(arrow_type(kind)), []
        except pa.ArrowInvalid:
            pass  # not all fit
    return _of_numbers([None if each is None else _number(each, scale) for each in column.to_pylist()], kind)


def _of_variable(column: pa.StructArray, kind: DataType) -> tuple[pa.Array, Bad]:
    given = [None if each is None else (each["value"], each["scale"]) for each in column.to_pylist()]
    return _of_numbers([None if each is None else _number(*each) for each in given], kind)


def _number(digits: bytes | None, scale: int | None) -> Decimal | str:
    """The number; a text that is none where there is none, or one beyond what any database has."""
    if not digits or scale is None or len(digits) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return ""
    return Decimal(int.from_bytes(digits, "big", signed=True)).scaleb(-scale, _UNBOUNDED)


def _of_numbers(numbers: list[Any], kind: DataType) -> tuple[pa.Array, Bad]:
    bad = [(row, "there is no byte of a decimal, or too many") for row, each in enumerate(numbers) if each == ""]
    given = [None if each == "" else each for each in numbers]
    if isinstance(kind, StringType):
        return pa.array([None if each is None else f"{each:f}" for each in given], pa.string()), bad
    if isinstance(kind, _INTEGERS):
        given = [int(each) if each is not None and each == each.to_integral_value() else each for each in given]
    made, more = leaf_column(kind, given)
    return made, [*bad, *more]


# -- columns that no record has ----------------------------------------------------------------------------

LOOKS = 1_000
"""So many records of a task are looked at, and so many of an input say what it has."""
_MOST_NAMES, _MOST_LETTERS = 10, 60
Report = tuple[int, Sequence[str], Sequence[str]]
"""How many texts were looked at, the names that none of them has, the names that the format has not."""


def absent_columns(names: Sequence[str], values: pa.Array, texts: pa.Array, within: str = "") -> Report:
    """The report of texts; those with their schema are left out, since it says itself what there is.

    Parameters
    ----------
    names : of the format's columns.
    values : what was read of the texts, and of others.
    within : the member of each object that has the columns; empty: the object itself.
    """
    columns = values.flatten() if pa.types.is_struct(values.type) else [values]
    empty = [name for name, column in zip(names, columns, strict=True) if column.null_count == len(column)]
    some = [text for text in texts.drop_null().slice(0, LOOKS).to_pylist() if not text.startswith(_BEGINS)]
    if not empty:
        return len(some), (), ()
    there: dict[str, None] = {}
    for text in some:
        with suppress(ValueError, RecursionError):
            members = json.loads(text)
            members = members.get(within) if within and isinstance(members, dict) else members
            there |= dict.fromkeys(members if isinstance(members, dict) else ())
    others = [name[:_MOST_LETTERS] for name in there if name not in names]
    return len(some), [name[:_MOST_LETTERS] for name in empty if name not in there][:_MOST_NAMES], others[:_MOST_NAMES]


@dataclass
class AbsentColumns:
    """The columns of one input that no record has had.

    Attributes
    ----------
    records : how many were looked at.
    """

    records: int = 0
    _absent: Sequence[str] | None = None
    _others: dict[str, None] = own_field(default_factory=dict)
    _is_known: bool = False

    def add(self, report: Report) -> None:
        """Take a report; those of no record say nothing."""
        records, absent, others = report
        if records:
            self.records += records
            self._absent = [name for name in absent if self._absent is None or name in self._absent]
            self._others |= dict.fromkeys(others)

    def warning(self, source: str, part: str) -> tuple[str, str] | None:
        """The message and the cure, once; None: nothing is wrong, or it is known."""
        if self._is_known or not self._absent or not self._others:
            return None
        self._is_known = True
        names, there = ", ".join(map(repr, self._absent)), ", ".join(self._others)
        return (
            f"No {part} of the first {self.records:,} of {source!r} has {names}, which its format names. "
            f"Other names that it has: {there}.",
            "Names are case-sensitive. Write those that are there; a column that comes later is read then.",
        )
