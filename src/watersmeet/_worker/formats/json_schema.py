"""JSON Schema: its schemas as types of Spark's, the schema that a type makes, and values checked and written.

`connect.type` gives a number's width, as Kafka Connect's converter does it, since JSON itself has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from watersmeet._engine.rows import Int64s
from watersmeet._worker.formats.guard import fallen
from watersmeet._worker.formats.json import LEFT_OUT, Flaws, decode, encoded
from watersmeet._worker.formats.limits import SCHEMA_FIELDS, SCHEMA_LEVELS, VALIDATED_LEVELS, nests_beyond
from watersmeet._worker.formats.registry import (
    BadSchema,
    Language,
    References,
    Refused,
    SchemaReading,
    Writer,
    WriterValues,
    needed,
    unknown_type,
)
from watersmeet._worker.formats.serdes import NOT_TEXT, POLICY
from watersmeet.errors import EncodingError

# Documents of JSON Schema, with what they refer to in its place, so that one text says all.
#
# Keywords are those of draft 7 and of 2020-12. Refused are those by which a value may have one of several types.

Schema = Any
"""A schema as JSON has it: an object, or a boolean (anything, nothing)."""
_ONE = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "not"),
)
_SEVERAL = ("oneOf", "anyOf")
_KEPT_ASIDE = ("definitions", "$defs", "$id", "id", "$anchor")
_SAYS_NOTHING = (
    *(*_KEPT_ASIDE, "$schema", "title", "description", "default"),
    *("examples", "deprecated", "readOnly", "writeOnly", "$comment"),
)
_REFUSED = (
    *("allOf", "if", "patternProperties", "prefixItems", "dependentSchemas", "dependencies"),
    *("$dynamicRef", "$recursiveRef"),
)


def resolve(text: str, references: References = ()) -> Schema:
    """The schema of a text, with all that it refers to within it.

    Parameters
    ----------
    references : documents that it may refer to, by the names that it has for them.
    """
    if any(nests_beyond(document, SCHEMA_LEVELS) for document in (text, *(document for _, document in references))):
        raise BadSchema(f"it has more than {SCHEMA_LEVELS} levels")
    try:
        documents = {"": json.loads(text)} | {name: json.loads(document) for name, document in references}
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    names_by_id = {
        document["$id"]: name
        for name, document in documents.items()
        if isinstance(document, dict) and "$id" in document
    }
    try:
        return _Documents(documents, names_by_id).whole(documents[""], "", (("", ""),))
    except RecursionError:
        raise BadSchema("it is too deep") from None


class _Documents:
    def __init__(self, documents: Mapping[str, Any], names_by_id: Mapping[Any, str]) -> None:
        self._documents, self._names_by_id = documents, names_by_id
        self._count = 0

    def whole(self, schema: Schema, document: str, above: tuple[tuple[str, str], ...]) -> Schema:
        """The schema, which stands in a document, with what it refers to in its place.

        Parameters
        ----------
        above : the places that it is referred to from within.
        """
        self._count += 1
        if self._count > SCHEMA_FIELDS:
            raise BadSchema(f"it has more than {SCHEMA_FIELDS} parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise BadSchema(f"a schema is an object, this is {json.dumps(schema)[:80]}")
        refused = next((name for name in _REFUSED if name in schema), None)
        if refused is not None:
            raise BadSchema(f"the keyword {refused}: a value could be of several types")
        if "$ref" in schema:
            return self._target(schema, document, above)
        result = {}
        for name, value in schema.items():
            if name in _KEPT_ASIDE or (name == "$schema" and len(above) > 1):
                continue
            if name in _ONE and isinstance(value, dict | bool):
                result[name] = self.whole(value, document, above)
            elif name in _SEVERAL and isinstance(value, list):
                result[name] = [self.whole(branch, document, above) for branch in value]
            elif name == "properties" and isinstance(value, dict):
                result[name] = {
                    property_name: self.whole(inner, document, above) for property_name, inner in value.items()
                }
            else:
                result[name] = value
        return result

    def _target(self, schema: Mapping[str, Any], document: str, above: tuple[tuple[str, str], ...]) -> Schema:
        beside = [name for name in schema if name != "$ref" and name not in _SAYS_NOTHING and "." not in name]
        if beside:
            raise BadSchema(f"{beside[0]} is not allowed beside a $ref")
        base, _, pointer = str(schema["$ref"]).partition("#")
        name = self._names_by_id.get(base, base) if base else document
        place = (name, pointer)
        if place in above:
            raise BadSchema(f"{schema['$ref']} holds itself")
        if name not in self._documents:
            raise BadSchema(f"{schema['$ref']} is not in the document, and the registry has no reference to it")
        target = self.whole(_at(self._documents[name], pointer, schema["$ref"]), name, (*above, place))
        extras = {keyword: schema[keyword] for keyword in ("$schema", "title") if keyword in schema}
        return target | extras if isinstance(target, dict) else target


def _at(document: Any, pointer: str, ref: str) -> Any:
    """The target of a JSON Pointer (RFC 6901)."""
    target = document
    for part in unquote(pointer).split("/")[1:] if pointer else []:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(name)] if isinstance(target, list) else target[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise BadSchema(f"{ref} leads nowhere") from None
    if pointer and not pointer.startswith("/"):
        raise BadSchema(f"{ref} is no pointer into a document")
    return target


DIALECT = "http://json-schema.org/draft-07/schema#"
_INTEGERS: dict[str, DataType] = {"int8": ByteType(), "int16": ShortType(), "int32": IntegerType()}
_TEXTS: dict[str, DataType] = {"date": DateType(), "date-time": TimestampType()}
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NULL = {"type": "null"}
_JSON_TYPES: dict[type, str] = {type(None): "null", str: "string", bool: "boolean", int: "integer", float: "number"}
_JSON_TYPES |= {dict: "object", list: "array"}


@dataclass(frozen=True)
class SchemaNode:
    """A schema, as values are judged by it."""

    kind: DataType  # the Spark type of its values
    nullable: bool = False  # whether JSON's null is one of them
    fields: tuple[tuple[str, SchemaNode], ...] = ()  # of an object with properties, their names and schemas
    required: frozenset[str] = frozenset()  # the names of those that have to be there
    inner: SchemaNode | None = None  # of an array's elements, or a map's values
    allowed: pa.Array | None = None  # all values that there are; None: all of the type


@lru_cache(maxsize=256)
def node_of(text: str) -> SchemaNode:
    return _node(json.loads(text), "value")


def _node(schema: Schema, place: str) -> SchemaNode:
    if not isinstance(schema, dict):
        raise BadSchema(f"{place} may be anything, or nothing")
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            return _branch(schema, keyword, place)
    names, nullable = _types(schema, place)
    if len(names) != 1:
        reason = "of null alone" if nullable else "of any type: it has no keyword type"
        raise BadSchema(f"{place} is {'one of several types' if names else reason}")
    if names[0] not in _NODES:
        raise unknown_type(str(names[0]), sorted(_NODES), f"{place}: there is no type {names[0]!r}")
    node = _NODES[names[0]](schema, place)
    enum = _enum_values(schema)
    if enum is None:
        return replace(node, nullable=nullable)
    # of objects and arrays alone they are looked at where everything is
    allowed = None if isinstance(node.kind, StructType | ArrayType | MapType) else _allowed(node.kind, enum)
    return replace(node, nullable=nullable and None in enum, allowed=allowed)


def _allowed(kind: DataType, enum: list[Any]) -> pa.Array:
    values, _ = decode(kind, pa.array([json.dumps(value) for value in enum], pa.string()), whole_numbers=True)
    return values.drop_null()


def _branch(schema: Mapping[str, Any], keyword: str, place: str) -> SchemaNode:
    """The one branch beside null."""
    branches = [branch for branch in schema[keyword] if branch != _NULL and not _is_null(branch)]
    if len(branches) != 1:
        raise BadSchema(f"{place}: {keyword} is of null and one other schema")
    if any(name in schema for name in ("type", "properties", "items", "enum", "const")):
        raise BadSchema(f"{place}: {keyword} is not allowed beside a type")
    node = _node(branches[0], place)
    return replace(node, nullable=node.nullable or len(branches) < len(schema[keyword]))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("null", ["null"])


def _enum_values(schema: Mapping[str, Any]) -> list[Any] | None:
    return list(schema["enum"]) if "enum" in schema else [schema["const"]] if "const" in schema else None


def _types(schema: Mapping[str, Any], place: str) -> tuple[list[Any], bool]:
    """The names of types but null, and whether that is one of them."""
    enum = _enum_values(schema)
    declared = schema.get("type")
    if declared is None and enum:
        declared = sorted({_JSON_TYPES[type(value)] for value in enum})
        if declared[:2] == ["integer", "number"] or declared[:3] == ["integer", "null", "number"]:
            declared.remove("integer")
    names = declared if isinstance(declared, list) else [declared] if declared is not None else []
    return [name for name in names if name != "null"], "null" in names


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
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties or (properties == {} and additional is False):
        fields = tuple((name, _node(subschema, f"{place}.{name}")) for name, subschema in properties.items())
        kind = StructType([StructField(name, node.kind, True) for name, node in fields])
        return SchemaNode(kind, fields=fields, required=frozenset(schema.get("required", ())))
    if not isinstance(additional, dict):
        raise BadSchema(f"{place} is an object without properties and without a schema for additionalProperties")
    inner = _node(additional, f"{place}[]")
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
    for types_, schema in _SCHEMAS:
        if isinstance(kind, types_):
            return dict(schema)
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
        reasons = (misfit(nodes[field.name], field.dataType, f"{place}.{field.name}") for field in kind.fields)
        return next((reason for reason in reasons if reason), None)
    pair = (kind, node.kind)
    if node.inner is not None and all(isinstance(side, ArrayType) for side in pair):
        return misfit(node.inner, kind.elementType, f"{place}[]")  # type: ignore[attr-defined]
    if node.inner is not None and all(isinstance(side, MapType) for side in pair):
        return misfit(node.inner, kind.valueType, f"{place}[]")  # type: ignore[attr-defined]
    if kind == node.kind or _is_narrower(kind, node.kind):
        return None
    return f"{place} is {node.kind.simpleString()} there"


def _is_narrower(kind: DataType, target: DataType) -> bool:
    """Whether each number of a type is one of another."""
    if isinstance(target, DoubleType):
        return isinstance(kind, (*_WHOLE, FloatType, DecimalType))
    wide = isinstance(kind, _WHOLE) and isinstance(target, _WHOLE)
    return wide and _WHOLE.index(type(kind)) <= _WHOLE.index(type(target))


# Patterns of JavaScript (ECMA-262, with its flag u, as JSON Schema wants them) as RE2 writes them.
#
# RE2 has most of it under the same signs. Translated is what would mean something else there, and refused what RE2
# alone has. No library does it: those that read JavaScript's patterns search by trying, or write Python's.

_SPACE = r"\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_NO_SPACE = (
    r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
)
_ANY = r"\x{0}-\x{10ffff}"
_ESCAPE = (
    r"\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u(?:\{(?P<wide>[0-9a-fA-F]+)\}|(?P<four>[0-9a-fA-F]{4}))|\\x(?P<two>[0-9a-fA-F]{2})|\\c(?P<control>[A-Za-z])"
    r"|\\(?P<has>[pP])\{(?:(?:Script|sc|General_Category|gc)=)?(?P<property>\w+)\}|\\(?P<plain>.)"
)
_OUTSIDE = re.compile(_ESCAPE + r"|\[\^?\]|\[\^?|\(\?(?:<(?![=!])\w+>|<?[=!]|:)?|.", re.DOTALL)
_INSIDE = re.compile(_ESCAPE + "|.", re.DOTALL)
_CLASS = re.compile(r"\\[dDwWsSpP]")
_SAME = frozenset("dDwWbBnrtfv")


def translated(pattern: str) -> str:
    """The pattern as RE2 writes it."""
    parts, at, inside, previous = [], 0, False, ""
    while at < len(pattern):
        match = (_INSIDE if inside else _OUTSIDE).match(pattern, at)
        assert match is not None
        token, at = match[0], match.end()
        if token.startswith("\\") and match.lastgroup is not None:
            parts.append(_escape(match, inside, pattern))
        elif inside:
            beside_class = token == "-" and (_CLASS.match(previous) or _CLASS.match(pattern, at))
            parts.append("\\" + token if token == "[" or beside_class else token)
            inside = token != "]"
        else:
            parts.append(_outside(token, pattern))
            inside = token in ("[", "[^")
        previous = token
    return "".join(parts)


def _outside(token: str, pattern: str) -> str:
    if token == "(?":
        raise BadSchema(f"the pattern {pattern[:300]!r} has a group that JavaScript does not have")
    if token.startswith("(?<") and token.endswith(">"):
        # nothing refers to it
        return "(?:"
    return {".": r"[^\n\r\x{2028}\x{2029}]", "[]": f"[^{_ANY}]", "[^]": f"[{_ANY}]"}.get(token, token)


def _escape(match: re.Match[str], inside: bool, pattern: str) -> str:
    part = match.groupdict()
    if part["high"]:
        high, low = int(part["high"], 16) - 0xD800, int(part["low"], 16) - 0xDC00
        return f"\\x{{{0x10000 + (high << 10) + low:x}}}"
    number = part["wide"] or part["four"] or part["two"]
    if number:
        return f"\\x{{{number}}}"
    if part["control"]:
        return f"\\x{{{ord(part['control']) % 32:x}}}"
    if part["property"]:
        return f"\\{part['has']}{{{part['property']}}}"
    plain = part["plain"]
    if plain in "sS":
        items = _SPACE if plain == "s" else _NO_SPACE
        return items if inside else f"[{items}]"
    if plain == "0" or (plain == "b" and inside):
        return r"\x{0}" if plain == "0" else r"\x{8}"
    if plain.isascii() and plain.isalpha() and plain not in _SAME:
        raise BadSchema(f"the pattern {pattern[:300]!r} has \\{plain}, which JavaScript does not have, or needs more")
    return f"\\{plain}" if plain.isascii() else plain


# All that a JSON Schema says, looked at by the package jsonschema: its keywords, in bounds that it does not have.
#
# The package knows more than is wanted here. Old drafts have keywords with schemas that it would fetch from an address;
# it searches patterns by trying, which takes for ever for some texts, and compares each element of an array with each.
# So its validators are made of a list of keywords, without a resolver, and some of them are ours. All take time by the
# size of text and schema alone; nothing goes by the clock, so the same text always has the same answer (law 2).

_SHOWN = 300
_ANY_SCHEMA = ("additionalProperties", "contains", "items", "not", "propertyNames")
_OF_SCHEMAS = ("anyOf", "oneOf")
_LIMITS = (
    *("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "divisibleBy"),
    *("maxLength", "minLength", "maxItems", "minItems", "minContains", "maxContains", "maxProperties", "minProperties"),
)
_KEPT = frozenset(
    (
        *(*_ANY_SCHEMA, *_OF_SCHEMAS, *_LIMITS, "properties", "type", "enum", "const", "pattern", "uniqueItems"),
        *("required", "dependentRequired", "unevaluatedProperties"),
    )
)
_WITHOUT_EFFECT = frozenset(("format", "additionalItems", "unevaluatedItems"))
"""Formats are not looked at. Items have one schema, which is for all of them."""


class Number(Decimal):
    """A number as its text has it, which errors show as a number."""

    __repr__ = Decimal.__str__


def refused(text: str, values: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    """Which JSON texts a schema does not take, and why."""
    errors = validator(text).iter_errors
    for row, value in enumerate(values):
        if value is None:
            continue
        if nests_beyond(value, VALIDATED_LEVELS):
            yield row, f"it has more than {VALIDATED_LEVELS} levels, too many for validate=True"
            continue
        try:
            error = next(errors(json.loads(value, parse_float=Number)), None)
        except (ValueError, ArithmeticError, RecursionError) as fault:
            yield row, fallen(fault)
            continue
        if error is not None:
            yield row, f"{error.json_path}: {error.message[:_SHOWN]}"


@lru_cache(maxsize=64)
def validator(text: str) -> Any:
    """The check of values by a whole schema."""
    validators, schema = needed("jsonschema.validators"), json.loads(text, parse_float=Number)
    try:
        dialect = validators.validator_for(schema, default=validators.Draft7Validator)
        # not the format of patterns: it takes those of Python
        dialect.check_schema(json.loads(text), format_checker=needed("jsonschema").FormatChecker(()))
    except needed("jsonschema.exceptions").SchemaError as error:
        raise BadSchema(f"{error.json_path}: {error.message[:_SHOWN]}") from None
    except (TypeError, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    ours = {"pattern": _pattern, "uniqueItems": _unique, "anyOf": _any_of, "oneOf": _one_of}
    ours |= {"unevaluatedProperties": _unevaluated_properties, "multipleOf": _multiple_of, "divisibleBy": _multiple_of}
    keywords = {name: ours.get(name, look) for name, look in dialect.VALIDATORS.items() if name in _KEPT}
    types = dialect.TYPE_CHECKER
    if types.is_type(1.0, "integer"):
        types = types.redefine("integer", lambda _, value: _is_number(value) and _scaled(value)[1] >= 0)
    closed = validators.create(dialect.META_SCHEMA, keywords, type_checker=types)
    # a registry of nothing, which fetches nothing
    nothing = needed("referencing").Registry()
    return closed(_supported_schema(schema, frozenset(dialect.VALIDATORS)), registry=nothing)


def _supported_schema(schema: Any, dialect: frozenset[str]) -> Any:
    """The schema with the keywords of a dialect that are looked at, and nothing else."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise BadSchema("a keyword has something else than a schema")
    result = {name: value for name, value in schema.items() if name in dialect - _WITHOUT_EFFECT}
    unsupported = next((name for name in result if name not in _KEPT), None)
    if unsupported is not None:
        raise BadSchema(f"the keyword {unsupported} is not looked at")
    for name, value in result.items():
        if name in _ANY_SCHEMA or name == "unevaluatedProperties":
            result[name] = _supported_schema(value, dialect)
        elif name in _OF_SCHEMAS:
            result[name] = [_supported_schema(branch, dialect) for branch in value]
        elif name == "properties":
            result[name] = {property_name: _supported_schema(inner, dialect) for property_name, inner in value.items()}
        elif name == "pattern":
            result[name] = _searchable(value)
    if "unevaluatedItems" in dialect and "unevaluatedItems" in schema and "items" not in schema:
        raise BadSchema("the keyword unevaluatedItems needs items")
    kinds = result.get("type", ())
    if not isinstance(kinds, str) and not all(isinstance(kind, str) for kind in kinds):
        raise BadSchema("a type is a schema")
    return result


# -- keywords of ours: (validator, the keyword's value, the instance, the schema) to errors --------------------


def _error(message: str) -> Any:
    return needed("jsonschema.exceptions").ValidationError(message)


def _value_text(value: Any) -> str:
    return json.dumps(value, default=float)[:_SHOWN]


def _searchable(pattern: str) -> tuple[str, str]:
    """A pattern of JavaScript's, and as RE2 writes it, which searches in one pass."""
    expression = translated(pattern)
    try:
        pc.match_substring_regex(pa.array([""]), expression)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise BadSchema(
            f"the pattern {pattern[:_SHOWN]!r} cannot be searched in one pass: {str(error)[:_SHOWN]} (RE2 has neither "
            "look-around nor references back)"
        ) from None
    return pattern, expression


def _pattern(validator: Any, patterns: tuple[str, str], instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, str):
        return
    try:
        is_match = pc.match_substring_regex(pa.array([instance], pa.string()), patterns[1])[0].as_py()
    except UnicodeEncodeError:
        is_match = False
    if not is_match:
        yield _error(f"{_value_text(instance)} does not match {patterns[0]!r}")


def _unique(validator: Any, enabled: bool, instance: Any, schema: Any) -> Iterator[Any]:
    if not enabled or not isinstance(instance, list):
        return
    texts = sorted(map(_canonical, instance))
    if any(first == second for first, second in pairwise(texts)):
        yield _error("an array has an element twice")


def _canonical(value: Any) -> str:
    """The same text for equal values alone: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_comparable(value), sort_keys=True)


def _comparable(value: Any) -> Any:
    if _is_number(value):
        return "n{}e{}".format(*_scaled(value))
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return {name: _comparable(item) for name, item in value.items()} if isinstance(value, dict) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _scaled(number: int | Decimal) -> tuple[int, int]:
    """The number as digits, the last of them not zero, and an exponent of ten."""
    sign, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    mantissa = int(text or "0")
    return -mantissa if sign else mantissa, exponent + len(digits) - len(text) if mantissa else 0


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not _is_number(instance):
        return
    (digits, exponent), (parts, below) = _scaled(instance), _scaled(step)
    above = exponent - below
    # as long as the number has digits: a longer step has no multiple but zero
    fits = above >= 0 and not digits * pow(10, above, parts) % parts
    if above < 0 and -above <= len(str(abs(digits))):
        fits = not digits % (parts * 10**-above)
    if digits and not fits:
        yield _error(f"{instance!r} is not a multiple of {step!r}")


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _any_of(validator: Any, schemas: Any, instance: Any, schema: Any) -> Iterator[Any]:
    errors = _firsts(validator, schemas, instance)
    if None not in errors:
        yield _of_none(schemas, errors, instance)


def _one_of(validator: Any, schemas: Any, instance: Any, schema: Any) -> Iterator[Any]:
    errors = _firsts(validator, schemas, instance)
    if errors.count(None) > 1:
        yield _error(f"{_value_text(instance)} is valid under {errors.count(None)} schemas of oneOf")
    elif None not in errors:
        yield _of_none(schemas, errors, instance)


def _firsts(validator: Any, schemas: Any, instance: Any) -> list[Any]:
    return [next(validator.descend(instance, branch), None) for branch in schemas]


def _of_none(schemas: Any, errors: Sequence[Any], instance: Any) -> Any:
    """Why it is none of them: what the one says that is not for null alone."""
    candidates = [n for n, branch in enumerate(schemas) if branch not in ({"type": "null"}, {"type": ["null"]})]
    if len(candidates) == 1:
        return errors[candidates[0]]
    return _error(f"{_value_text(instance)} is not valid under any of the given schemas")


def _unevaluated_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict) or "additionalProperties" in schema:
        return
    evaluated = {*schema.get("properties", ())}
    for branch in (inner for name in _OF_SCHEMAS for inner in schema.get(name, ())):
        if isinstance(branch, dict) and _fits(validator, instance, branch):
            evaluated |= {*(instance if "additionalProperties" in branch else branch.get("properties", ()))}
    for name in instance:
        if name not in evaluated and not _fits(validator, instance[name], subschema):
            yield _error(f"{name!r} is no property that the schema has")


# Values with a JSON Schema: texts, judged by what the schema says of their type, and if asked for by all that it says.
#
# Law 6: a text that its schema does not take has a reason. A column is looked at as a whole; only who validates has
# Python look at one value after the other.


class Texts:
    """Reads JSON texts by a schema.

    Parameters
    ----------
    text : the schema, whole.
    validate : whether each value is looked at by all that it says.
    """

    def __init__(self, text: str, *, validate: bool) -> None:
        self._node, self._text, self._validate = node_of(text), text, validate

    def bare(self) -> WriterValues:
        return self

    def written(self, text: str, references: References) -> WriterValues:
        """The same: a text says itself what it is, whatever it was written by."""
        return self

    def value(self, data: bytes) -> Any:
        """The text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Refused(NOT_TEXT) from None

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """The values of texts as a column, and why some are none."""
        column, reasons = decode(self._node.kind, pa.array(values, pa.string()), whole_numbers=True)
        flaws = Flaws(reasons)
        _judge(self._node, self._node.kind, column, np.arange(len(column)), flaws, "value")
        if self._validate:
            for row, reason in refused(self._text, [None if n in reasons else v for n, v in enumerate(values)]):
                flaws.add(row, reason)
        if flaws.found:
            positions = np.arange(len(column))
            mask = np.isin(positions, list(flaws.found))
            column = column.take(pa.array(positions, mask=mask))
        return column, flaws.found


# -- judging -----------------------------------------------------------------------------------------------


def _judge(node: SchemaNode, kind: DataType, values: pa.Array, rows: Int64s, flaws: Flaws, place: str) -> None:
    """Give a reason to rows with values that are of the type, but not valid by the schema.

    Parameters
    ----------
    kind : of the values; its fields may be fewer than the schema's, and numbers narrower.
    rows : of each value, the row that it is part of.
    """
    if isinstance(kind, StructType):
        nodes, valid = dict(node.fields), values.is_valid()
        for field, column in zip(kind.fields, values.flatten(), strict=True):
            inner, name = nodes[field.name], f"{place}.{field.name}"
            if column.null_count and field.name in node.required and not inner.nullable:
                _add(pc.and_(valid, column.is_null()), rows, flaws, f"{name} has to be there, and not null")
            _judge(inner, field.dataType, column, rows, flaws, name)
    elif isinstance(kind, ArrayType | MapType):
        assert node.inner is not None
        if isinstance(kind, MapType):
            values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
        flat = values.flatten()
        flat = flat.field(1) if isinstance(kind, MapType) else flat
        owners = np.repeat(rows, pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False))
        if flat.null_count and not node.inner.nullable:
            _add(flat.is_null(), owners, flaws, f"{place}[] may not be null")
        inner_kind = kind.valueType if isinstance(kind, MapType) else kind.elementType
        _judge(node.inner, inner_kind, flat, owners, flaws, f"{place}[]")
    elif isinstance(kind, FloatType | DoubleType):
        _add(pc.invert(pc.is_finite(values)), rows, flaws, f"{place} is no number that JSON has")
    if node.allowed is not None:
        # numbers may be narrower here than the schema's
        invalid = pc.and_(values.is_valid(), pc.invert(pc.is_in(values.cast(node.allowed.type), node.allowed)))
        _add(invalid, rows, flaws, f"{place} is not in its enum")


def _add(where: pa.Array, rows: Int64s, flaws: Flaws, reason: str) -> None:
    if pc.any(where).as_py():
        for row in rows[where.fill_null(False).to_numpy(zero_copy_only=False)].tolist():
            flaws.add(row, reason)


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonSchemaWriter:
    """Writes values as JSON texts that a schema takes."""

    text: str  # the schema, whole
    kind: DataType  # the values' type
    header: bytes  # what stands in front of each text
    what: str  # names the values to the user
    validate: bool  # whether each text is looked at by all that the schema says

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null."""
        node, flaws = node_of(self.text), Flaws()
        _judge(node, self.kind, values, np.arange(len(values)), flaws, "value")
        self._refuse(flaws)
        texts = encoded(values, _with_left_out(node, self.kind))
        if self.validate:
            self._refuse(Flaws(dict(refused(self.text, texts.cast(pa.string()).to_pylist()))))
        return pc.binary_join_element_wise(pa.scalar(self.header), texts, pa.scalar(b""))

    def _refuse(self, flaws: Flaws) -> None:
        if flaws.found:
            raise EncodingError(
                "A value does not fit the schema of its sink.",
                given=f"{self.what}: {flaws.found[min(flaws.found)]}",
                hint=f"Change the values, or the schema: a field that may be null needs null among its types; {POLICY}",
            )


def _with_left_out(node: SchemaNode, kind: DataType) -> DataType:
    """The type, with a mark on fields that are left out where they are null: the schema has no null for them."""
    if isinstance(kind, StructType):
        nodes = dict(node.fields)
        return StructType([_field(nodes[field.name], field) for field in kind.fields])
    if isinstance(kind, ArrayType) and node.inner is not None:
        return ArrayType(_with_left_out(node.inner, kind.elementType))
    if isinstance(kind, MapType) and node.inner is not None:
        return MapType(kind.keyType, _with_left_out(node.inner, kind.valueType))
    return kind


def _field(node: SchemaNode, field: StructField) -> StructField:
    mark = {} if node.nullable else {LEFT_OUT: True}
    return StructField(field.name, _with_left_out(node, field.dataType), True, mark)


# JSON Schema as a language of schemas: JSON texts say themselves what they are, the schema what they may be.


class JsonSchema(Language):
    """JSON Schema: a value is read by the reader's schema alone."""

    registered_as: ClassVar[str] = "JSON"
    hint: ClassVar[str] = (
        "Give a schema of objects with properties, maps (additionalProperties), arrays and simple types, each of one "
        'type or of that and null ("type": ["null", "string"]); none may hold itself.'
    )

    def type_of(self, text: str, references: References = ()) -> DataType:
        return node_of(self.whole(text, references)).kind

    def whole(self, text: str, references: References = ()) -> str:
        """As of each language; the order of properties is that of the type."""
        return json.dumps(resolve(text, references))

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        return Texts(text, validate=validate)

    def schema_for(self, kind: DataType, name: str) -> str:
        return json.dumps(schema_for(kind, name))

    def misfit(self, text: str, kind: DataType) -> str | None:
        """As of each language: of an object the order does not matter, and numbers may be narrower."""
        return misfit(node_of(text), kind)

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        return JsonSchemaWriter(text, kind, header, what, validate)

    def name_of(self, text: str) -> str | None:
        title = json.loads(text).get("title")
        return title if isinstance(title, str) and title else None

    def check(self, text: str) -> None:
        validator(text)
