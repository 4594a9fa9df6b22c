"""JSON Schema's types: what types of Spark's they are, and what schema a type makes.

`connect.type` gives a number's width, as Kafka Connect's converter does it, since JSON itself has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

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
    TimestampType,
)

from watersmeet._worker.formats.json_schema.documents import Schema
from watersmeet._worker.formats.registered.language import BadSchema

DIALECT = "http://json-schema.org/draft-07/schema#"
_INTEGERS: dict[str, DataType] = {"int8": ByteType(), "int16": ShortType(), "int32": IntegerType()}
_TEXTS: dict[str, DataType] = {"date": DateType(), "date-time": TimestampType()}
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NULL = {"type": "null"}
_LONGS = 1 << 63


@dataclass(frozen=True)
class SchemaNode:
    """A schema, as values are judged by it.

    Parameters
    ----------
    kind : the Spark type of its values.
    nullable : whether JSON's null is one of them.
    fields : of an object with properties, their names and schemas.
    required : the names of those that have to be there.
    inner : of an array's elements, or a map's values.
    allowed : all values that there are; None: all of the type.
    """

    kind: DataType
    nullable: bool = False
    fields: tuple[tuple[str, SchemaNode], ...] = ()
    required: frozenset[str] = frozenset()
    inner: SchemaNode | None = None
    allowed: tuple[Any, ...] | None = None


@lru_cache(maxsize=256)
def node_of(text: str) -> SchemaNode:
    """A whole schema.

    Raises
    ------
    BadSchema : it has no type.
    """
    return _node(json.loads(text), "value")


def _node(schema: Schema, place: str) -> SchemaNode:
    if not isinstance(schema, dict):
        raise BadSchema(f"{place} may be anything, or nothing")
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            return _branch(schema, keyword, place)
    names, nullable = _types(schema, place)
    if len(names) != 1:
        said = "of null alone" if nullable else "of any type: it has no keyword type"
        raise BadSchema(f"{place} is {'one of several types' if names else said}")
    if names[0] not in _NODES:
        raise BadSchema(f"{place}: there is no type {names[0]!r}")
    made = _NODES[names[0]](schema, place)
    given = _given(schema)
    if given is None:
        return replace(made, nullable=nullable)
    nullable = nullable and None in given
    if isinstance(made.kind, StringType):
        return replace(made, nullable=nullable, allowed=tuple(each for each in given if type(each) is str))
    if isinstance(made.kind, LongType):
        longs = (each for each in given if type(each) is int and -_LONGS <= each < _LONGS)
        return replace(made, nullable=nullable, allowed=tuple(longs))
    # other values are looked at where everything is
    return replace(made, nullable=nullable)


def _branch(schema: Mapping[str, Any], keyword: str, place: str) -> SchemaNode:
    """The one branch beside null."""
    rest = [each for each in schema[keyword] if each != _NULL and not _is_null(each)]
    if len(rest) != 1:
        raise BadSchema(f"{place}: {keyword} is of null and one other schema")
    if any(name in schema for name in ("type", "properties", "items", "enum", "const")):
        raise BadSchema(f"{place}: {keyword} is not allowed beside a type")
    made = _node(rest[0], place)
    return replace(made, nullable=made.nullable or len(rest) < len(schema[keyword]))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("null", ["null"])


def _given(schema: Mapping[str, Any]) -> list[Any] | None:
    return list(schema["enum"]) if "enum" in schema else [schema["const"]] if "const" in schema else None


def _types(schema: Mapping[str, Any], place: str) -> tuple[list[Any], bool]:
    """The names of types but null, and whether that is one of them."""
    given = _given(schema)
    named = schema.get("type")
    if named is None and given:
        named = sorted({"null" if each is None else "string" if isinstance(each, str) else "other" for each in given})
    names = named if isinstance(named, list) else [named] if named is not None else []
    return [each for each in names if each != "null"], "null" in names


def _string(schema: Mapping[str, Any], place: str) -> SchemaNode:
    if schema.get("contentEncoding") == "base64" or schema.get("connect.type") == "bytes":
        return SchemaNode(BinaryType())
    return SchemaNode(_TEXTS.get(schema.get("format", ""), StringType()))


def _integer(schema: Mapping[str, Any], place: str) -> SchemaNode:
    return SchemaNode(_INTEGERS.get(schema.get("connect.type", ""), LongType()))


def _number(schema: Mapping[str, Any], place: str) -> SchemaNode:
    return SchemaNode(FloatType() if schema.get("connect.type") == "float32" else DoubleType())


def _array(schema: Mapping[str, Any], place: str) -> SchemaNode:
    if not isinstance(schema.get("items"), dict):
        raise BadSchema(f"{place} is an array that has no one schema for its items")
    inner = _node(schema["items"], f"{place}[]")
    return SchemaNode(ArrayType(inner.kind), inner=inner)


def _object(schema: Mapping[str, Any], place: str) -> SchemaNode:
    properties, more = schema.get("properties"), schema.get("additionalProperties")
    if properties or (properties == {} and more is False):
        fields = tuple((name, _node(each, f"{place}.{name}")) for name, each in properties.items())
        kind = StructType([StructField(name, each.kind, True) for name, each in fields])
        return SchemaNode(kind, fields=fields, required=frozenset(schema.get("required", ())))
    if not isinstance(more, dict):
        raise BadSchema(f"{place} is an object without properties and without a schema for additionalProperties")
    inner = _node(more, f"{place}[]")
    return SchemaNode(MapType(StringType(), inner.kind), inner=inner)


_NODES: dict[str, Callable[[Mapping[str, Any], str], SchemaNode]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": lambda schema, place: SchemaNode(BooleanType()),
    "array": _array,
    "object": _object,
}


# -- a schema of a type ------------------------------------------------------------------------------------


def schema_for(kind: DataType, name: str) -> dict[str, Any]:
    """A schema of values of this type, everything within them nullable.

    Parameters
    ----------
    name : its title.

    Raises
    ------
    BadSchema : there is none.
    """
    return {"$schema": DIALECT, "title": name, **_schema(kind)}


def _schema(kind: DataType) -> dict[str, Any]:
    if isinstance(kind, StructType):
        properties = {field.name: _or_null(field.dataType) for field in kind.fields}
        # closed, so that a further field is compatible with what the registry has
        return {"type": "object", "properties": properties, "additionalProperties": False}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _or_null(kind.elementType)}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "object", "connect.type": "map", "additionalProperties": _or_null(kind.valueType)}
    for types, made in _SCHEMAS:
        if isinstance(kind, types):
            return dict(made)
    raise BadSchema(f"JSON Schema has no {kind.simpleString()}; cast it, or give the schema")


def _or_null(kind: DataType) -> dict[str, Any]:
    return {"oneOf": [_NULL, _schema(kind)]}


_SCHEMAS: tuple[tuple[type[DataType], dict[str, Any]], ...] = (
    (StringType, {"type": "string"}),
    (BooleanType, {"type": "boolean"}),
    (LongType, {"type": "integer"}),
    *((type(kind), {"type": "integer", "connect.type": name}) for name, kind in _INTEGERS.items()),
    (DoubleType, {"type": "number"}),
    (FloatType, {"type": "number", "connect.type": "float32"}),
    *((type(kind), {"type": "string", "format": name}) for name, kind in _TEXTS.items()),
    (BinaryType, {"type": "string", "contentEncoding": "base64", "connect.type": "bytes"}),
)


# -- writing -----------------------------------------------------------------------------------------------


def misfit(node: SchemaNode, kind: DataType, place: str = "value") -> str | None:
    """Why values of a type are none of a schema; None where their JSON text is one."""
    if isinstance(kind, StructType) and isinstance(node.kind, StructType):
        nodes = dict(node.fields)
        for name in kind.names:
            if name not in nodes:
                return f"{place} has no property {name!r} there"
        lost = sorted(node.required - set(kind.names))
        if lost:
            return f"{place} lacks the property {lost[0]!r}, which has to be there"
        found = (misfit(nodes[each.name], each.dataType, f"{place}.{each.name}") for each in kind.fields)
        return next((why for why in found if why), None)
    pair = (kind, node.kind)
    if node.inner is not None and all(isinstance(each, ArrayType) for each in pair):
        return misfit(node.inner, kind.elementType, f"{place}[]")  # type: ignore[attr-defined]
    if node.inner is not None and all(isinstance(each, MapType) for each in pair):
        return misfit(node.inner, kind.valueType, f"{place}[]")  # type: ignore[attr-defined]
    if kind == node.kind or _is_narrower(kind, node.kind):
        return None
    return f"{place} is {node.kind.simpleString()} there"


def _is_narrower(kind: DataType, wanted: DataType) -> bool:
    """Whether each number of a type is one of another."""
    if isinstance(wanted, DoubleType):
        return isinstance(kind, (*_WHOLE, FloatType, DecimalType))
    wide = isinstance(kind, _WHOLE) and isinstance(wanted, _WHOLE)
    return wide and _WHOLE.index(type(kind)) <= _WHOLE.index(type(wanted))
