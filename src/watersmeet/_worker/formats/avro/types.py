"""Avro's schemas: what types of Spark's they are of, what schema a type makes, and what may be read as what.

Values are read and written without logical types: dates, timestamps and decimals become columns by Arrow, exactly,
where fastavro would round a decimal to its precision and make an object of each date. Whether a writer's logical types
are the reader's is looked at elsewhere (`resolution`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._worker.formats.guarded.budgets import SCHEMA_FIELDS, SCHEMA_LEVELS, nests_beyond
from watersmeet._worker.formats.registered.language import BadSchema
from watersmeet._worker.formats.registered.packages import needed

Schema = Any
"""An Avro schema as JSON has it: a name, a list (a union), or an object."""
PRIMITIVES = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
NAMED = ("record", "enum", "fixed", "error")
_LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
MOST_DIGITS = 38


# -- schemas -----------------------------------------------------------------------------------------------


def schema_of(text: str, references: Sequence[str] = ()) -> Schema:
    """The schema to read or write by, of a text, with names in full, and what it refers to within it.

    Parameters
    ----------
    references : the texts of the schemas that it names, those first that others of them need.

    Raises
    ------
    BadSchema : it is none, it holds itself, it is too large, or its arrays may have more elements than bytes.
    """
    whole = _parsed(text, references, recursive=False)
    for each in _inner_schemas(whole):
        if isinstance(each, dict) and each["type"] == "array" and not _least_bytes(each["items"], names_of(whole)):
            raise BadSchema("the elements of an array have no bytes, so that nothing limits their number")
    return whole


def written_schema(text: str, references: Sequence[str] = ()) -> Schema:
    """A schema that values were written by: it may hold itself, and its arrays may have elements without bytes.

    Parameters
    ----------
    references : as of `schema_of`.

    Raises
    ------
    BadSchema : it is none, or too large.
    """
    return _parsed(text, references, recursive=True)


def _parsed(text: str, references: Sequence[str], *, recursive: bool) -> Schema:
    avro = needed("fastavro.schema")
    broken = (avro.SchemaParseException, avro.UnknownType, ValueError, KeyError, TypeError, AttributeError)
    if any(nests_beyond(each, SCHEMA_LEVELS) for each in (text, *references)):
        raise BadSchema(f"it has more than {SCHEMA_LEVELS} levels")
    try:
        named: dict[str, Any] = {}
        for each in references:
            avro.parse_schema(json.loads(each), named_schemas=named)
        parsed = avro.parse_schema(json.loads(text), named_schemas=named)
    except (*broken, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    whole = _WholeSchemas(named, recursive).of(parsed, ())
    if _fields(whole, names_of(whole), {}) > SCHEMA_FIELDS:
        raise BadSchema(f"its values have more than {SCHEMA_FIELDS} fields")
    return whole


def _fields(schema: Schema, names: Mapping[str, Any], known: dict[str, int]) -> int:
    """How many parts the schema has, each named type counted wherever it stands."""
    if isinstance(schema, list):
        return sum(_fields(each, names, known) for each in schema)
    name = schema if isinstance(schema, str) else record_name(schema)
    if name not in names:
        return 1 + sum(_fields(each, names, known) for each in ([] if isinstance(schema, str) else inner_of(schema)))
    assert name is not None
    if name not in known:
        # within itself it is one
        known[name] = 1
        known[name] = 1 + sum(_fields(each, names, known) for each in inner_of(names[name]))
    return known[name]


class _WholeSchemas:
    """Makes schemas whole: each named type where it is first used, and by name elsewhere.

    Parameters
    ----------
    named : the types that have names.
    recursive : whether one may hold itself.
    """

    def __init__(self, named: Mapping[str, Any], recursive: bool) -> None:
        self._named, self._recursive = named, recursive
        self._seen: set[str] = set()

    def of(self, schema: Schema, above: tuple[str, ...]) -> Schema:
        """A schema that stands within types of these names."""
        if isinstance(schema, list):
            return [self.of(each, above) for each in schema]
        if isinstance(schema, str):
            if schema in PRIMITIVES or schema == "null":
                return schema
            if schema in above and not self._recursive:
                raise BadSchema(f"{schema} holds itself")
            if schema in self._seen:
                return schema
            schema = self._named[schema]
        kept = {name: value for name, value in schema.items() if not name.startswith("__") and name != "doc"}
        kind = kept["type"]
        if kind in NAMED:
            self._seen.add(kept["name"])
            above = (*above, kept["name"])
        for inner in ("items", "values"):
            if inner in kept:
                kept[inner] = self.of(kept[inner], above)
        if "fields" in kept:
            kept["fields"] = [self._field(each, above) for each in kept["fields"]]
        if kind not in (*NAMED, "array", "map") and not (isinstance(kind, str) and kind in (*PRIMITIVES, "null")):
            return self.of(kind, above)
        return kept

    def _field(self, field: Mapping[str, Any], above: tuple[str, ...]) -> Any:
        kept = {name: value for name, value in field.items() if name in ("name", "type", "default", "aliases")}
        return kept | {"type": self.of(field["type"], above)}


def _inner_schemas(schema: Schema) -> Iterator[Schema]:
    yield schema
    inner = schema if isinstance(schema, list) else [] if isinstance(schema, str) else inner_of(schema)
    for each in inner:
        yield from _inner_schemas(each)


def inner_of(schema: Mapping[str, Any]) -> list[Schema]:
    """The schemas of what lies within an array, a map or a record."""
    return [schema[name] for name in ("items", "values") if name in schema] + [
        each["type"] for each in schema.get("fields", ())
    ]


def names_of(schema: Schema) -> dict[str, Any]:
    """The named types of a whole schema."""
    return {each["name"]: each for each in _inner_schemas(schema) if isinstance(each, dict) and each["type"] in NAMED}


def record_name(schema: Schema) -> str | None:
    """The full name of what a schema describes."""
    return schema["name"] if isinstance(schema, dict) and schema["type"] in NAMED else None


def base(schema: Schema, names: Mapping[str, Any]) -> Schema:
    """The schema, where it is a name what that stands for."""
    return names[schema] if isinstance(schema, str) and schema in names else schema


def kind_of(schema: Schema) -> str:
    """Its type: of a union "union"."""
    return "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]


def _least_bytes(schema: Schema, names: Mapping[str, Any]) -> int:
    schema = base(schema, names)
    kind = kind_of(schema)
    if kind == "record":
        return sum(_least_bytes(each["type"], names) for each in schema["fields"])
    return {"null": 0, "fixed": schema["size"] if kind == "fixed" else 0}.get(kind, 1)


def without_logical(schema: Schema) -> Schema:
    """The schema as values are read and written by it."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if isinstance(schema, str):
        return schema
    kept = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
    for inner in ("items", "values"):
        if inner in kept:
            kept[inner] = without_logical(kept[inner])
    if "fields" in kept:
        kept["fields"] = [each | {"type": without_logical(each["type"])} for each in kept["fields"]]
    return kept


# -- types -------------------------------------------------------------------------------------------------


def type_of_schema(schema: Schema) -> DataType:
    """The Spark type of a whole schema's values.

    Raises
    ------
    BadSchema : Spark has none.
    """
    return _type(schema, names_of(schema))


def nullable_branch(schema: Schema, names: Mapping[str, Any]) -> tuple[Schema, bool]:
    """Of a union with null the other branch, of anything else itself, and whether there is null.

    Raises
    ------
    BadSchema : a union of more.
    """
    if not isinstance(schema, list):
        return base(schema, names), False
    rest = [each for each in schema if each != "null"]
    if len(rest) != 1:
        raise BadSchema(f"a union is of null and one other type, this is {json.dumps(schema)[:200]}")
    return base(rest[0], names), len(rest) < len(schema)


def _type(schema: Schema, names: Mapping[str, Any]) -> DataType:
    schema, _ = nullable_branch(schema, names)
    kind = kind_of(schema)
    if kind == "record":
        return StructType([StructField(each["name"], _type(each["type"], names), True) for each in schema["fields"]])
    if kind == "array":
        return ArrayType(_type(schema["items"], names))
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], names))
    if kind == "enum":
        return StringType()
    logical = logical_of(schema)
    if logical == "decimal":
        return _decimal(schema)
    if kind == "fixed":
        return BinaryType()
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if kind not in PRIMITIVES:
        raise BadSchema(f"there are no values of {kind} alone")
    return PRIMITIVES[kind]


def logical_of(schema: Schema) -> str:
    """Its logical type; empty without one, and where it has one that is not of its type, as Avro wants it."""
    if not isinstance(schema, dict):
        return ""
    name, kind = str(schema.get("logicalType", "")), schema["type"]
    if name == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        whole = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0
        return name if kind in ("bytes", "fixed") and whole else ""
    return name


def _decimal(schema: Mapping[str, Any]) -> DataType:
    if schema["precision"] > MOST_DIGITS:
        raise BadSchema(f"a decimal has at most {MOST_DIGITS} digits, this one {schema['precision']}")
    return DecimalType(schema["precision"], schema.get("scale", 0))


# -- a schema of a type ------------------------------------------------------------------------------------


def schema_for(kind: DataType, name: str) -> Schema:
    """A schema of values of this type, everything within them nullable.

    Parameters
    ----------
    name : of the record, if it is one; those within it are called as their fields, behind its name.

    Raises
    ------
    BadSchema : there is none.
    """
    for types, make in _SCHEMAS:
        if isinstance(kind, types):
            return make(kind, name)
    raise BadSchema(f"Avro has no {kind.simpleString()}")


def _record(kind: Any, name: str) -> Schema:
    fields = [
        {"name": f.name, "type": ["null", schema_for(f.dataType, f"{name}_{f.name}")], "default": None}
        for f in kind.fields
    ]
    return {"type": "record", "name": name, "fields": fields}


def _map(kind: Any, name: str) -> Schema:
    if not isinstance(kind.keyType, StringType):
        raise BadSchema("the keys of a map are strings")
    return {"type": "map", "values": ["null", schema_for(kind.valueType, f"{name}_value")]}


def _logical(kind: str, logical: str, **more: int) -> Schema:
    return {"type": kind, "logicalType": logical, **more}


_SCHEMAS: tuple[tuple[Any, Callable[[Any, str], Schema]], ...] = (
    (StructType, _record),
    (ArrayType, lambda kind, name: {"type": "array", "items": ["null", schema_for(kind.elementType, f"{name}_item")]}),
    (MapType, _map),
    (DecimalType, lambda kind, _: _logical("bytes", "decimal", precision=kind.precision, scale=kind.scale)),
    (DateType, lambda *_: _logical("int", "date")),
    (TimestampType, lambda *_: _logical("long", "timestamp-micros")),
    (TimestampNTZType, lambda *_: _logical("long", "local-timestamp-micros")),
    *((type(kind), lambda _kind, _name, avro=avro: avro) for avro, kind in PRIMITIVES.items()),
)
