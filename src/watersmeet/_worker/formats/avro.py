"""Avro: its schemas as types of Spark's, the schema that a type makes, and values read and written.

Values are read and written without logical types: dates, timestamps and decimals become columns by Arrow, exactly,
where fastavro would round a decimal to its precision and make an object of each date. Whether a writer's logical types
are the reader's is another question (`other_meaning`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import accumulate, chain, count
from typing import Any, ClassVar, NamedTuple

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
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._worker.formats import connect
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.connect import MOST_DIGITS
from watersmeet._worker.formats.json import TIMES, Flaws
from watersmeet._worker.formats.limits import AVRO_LEVELS, EMPTY_VALUES, SCHEMA_FIELDS, SCHEMA_LEVELS, nests_beyond
from watersmeet._worker.formats.registry import (
    BadSchema,
    Language,
    References,
    Refused,
    SchemaReading,
    Unwritable,
    Writer,
    WriterValues,
    needed,
    unknown_type,
)
from watersmeet._worker.formats.serdes import POLICY
from watersmeet.errors import EncodingError

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
_CONNECT_NAME = "connect.name"
"""Where Connect's converter has the name of a schema."""
_UNKNOWN_PRECISION = 64
"""What it writes for a precision that it does not know."""


# -- schemas -----------------------------------------------------------------------------------------------


def schema_of(text: str, references: Sequence[str] = ()) -> Schema:
    """The schema to read or write by, of a text, with names in full, and what it refers to within it.

    Parameters
    ----------
    references : the texts of the schemas that it names, those first that others of them need.
    """
    schema = _parsed(text, references, recursive=False)
    for inner in _inner_schemas(schema):
        if isinstance(inner, dict) and inner["type"] == "array" and not _least_bytes(inner["items"], names_of(schema)):
            raise BadSchema("the elements of an array have no bytes, so that nothing limits their number")
    return schema


def written_schema(text: str, references: Sequence[str] = ()) -> Schema:
    """A schema that values were written by: it may hold itself, and its arrays may have elements without bytes.

    Parameters
    ----------
    references : as of `schema_of`.
    """
    return _parsed(text, references, recursive=True)


_NAMED_TYPES = ("boolean", "int", "long", "float", "double", "bytes", "string", "record", "enum", "array", "map")
_AVRO_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _parsed(text: str, references: Sequence[str], *, recursive: bool) -> Schema:
    avro = needed("fastavro.schema")
    broken = (avro.SchemaParseException, avro.UnknownType, ValueError, KeyError, TypeError, AttributeError)
    if any(nests_beyond(document, SCHEMA_LEVELS) for document in (text, *references)):
        raise BadSchema(f"it has more than {SCHEMA_LEVELS} levels")
    try:
        types: dict[str, Any] = {}
        for document in references:
            avro.parse_schema(json.loads(document), named_schemas=types)
        parsed = avro.parse_schema(json.loads(text), named_schemas=types)
    except avro.UnknownType as error:
        raise unknown_type(error.name, _NAMED_TYPES, f"Avro has no type {error.name!r}") from None
    except (*broken, RecursionError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from None
    schema = _SchemaResolver(types, recursive).of(parsed, ())
    if _fields(schema, names_of(schema), {}) > SCHEMA_FIELDS:
        raise BadSchema(f"its values have more than {SCHEMA_FIELDS} fields")
    return schema


def _fields(schema: Schema, names: Mapping[str, Any], counts: dict[str, int]) -> int:
    """How many parts the schema has, each named type counted wherever it stands."""
    if isinstance(schema, list):
        return sum(_fields(inner, names, counts) for inner in schema)
    name = schema if isinstance(schema, str) else record_name(schema)
    if name not in names:
        return 1 + sum(_fields(inner, names, counts) for inner in ([] if isinstance(schema, str) else inner_of(schema)))
    assert name is not None
    if name not in counts:
        # within itself it is one
        counts[name] = 1
        counts[name] = 1 + sum(_fields(inner, names, counts) for inner in inner_of(names[name]))
    return counts[name]


class _SchemaResolver:
    """Makes schemas whole: each named type where it is first used, and by name elsewhere.

    Parameters
    ----------
    types : those that have names.
    recursive : whether one may hold itself.
    """

    def __init__(self, types: Mapping[str, Any], recursive: bool) -> None:
        self._types, self._recursive = types, recursive
        self._expanded: set[str] = set()

    def of(self, schema: Schema, above: tuple[str, ...]) -> Schema:
        """A schema that stands within types of these names."""
        if isinstance(schema, list):
            _check_union(schema)
            return [self.of(branch, above) for branch in schema]
        if isinstance(schema, str):
            if schema in PRIMITIVES or schema == "null":
                return schema
            if schema in above and not self._recursive:
                raise BadSchema(f"{schema} holds itself")
            if schema in self._expanded:
                return schema
            schema = self._types[schema]
        result = {name: value for name, value in schema.items() if not name.startswith("__") and name != "doc"}
        kind = result["type"]
        if kind in NAMED:
            self._expanded.add(result["name"])
            above = (*above, result["name"])
        for inner in ("items", "values"):
            if inner in result:
                result[inner] = self.of(result[inner], above)
        if "fields" in result:
            result["fields"] = [self._field(field, above) for field in result["fields"]]
        if kind not in (*NAMED, "array", "map") and not (isinstance(kind, str) and kind in (*PRIMITIVES, "null")):
            return self.of(kind, above)
        return result

    def _field(self, field: Mapping[str, Any], above: tuple[str, ...]) -> Any:
        result = {name: value for name, value in field.items() if name in ("name", "type", "default", "aliases")}
        return result | {"type": self.of(field["type"], above)}


def _check_union(branches: Sequence[Schema]) -> None:
    kinds = [record_name(branch) or kind_of(branch) for branch in branches]
    twice = next((kind for n, kind in enumerate(kinds) if kind == "union" or kind in kinds[:n]), None)
    if twice is not None:
        raise BadSchema(f"a union has {'another one within it' if twice == 'union' else f'{twice} twice'}")


def _inner_schemas(schema: Schema) -> Iterator[Schema]:
    yield schema
    inner = schema if isinstance(schema, list) else [] if isinstance(schema, str) else inner_of(schema)
    for child in inner:
        yield from _inner_schemas(child)


def inner_of(schema: Mapping[str, Any]) -> list[Schema]:
    """The schemas of what lies within an array, a map or a record."""
    return [schema[name] for name in ("items", "values") if name in schema] + [
        field["type"] for field in schema.get("fields", ())
    ]


def names_of(schema: Schema) -> dict[str, Any]:
    return {
        inner["name"]: inner for inner in _inner_schemas(schema) if isinstance(inner, dict) and inner["type"] in NAMED
    }


def record_name(schema: Schema) -> str | None:
    return schema["name"] if isinstance(schema, dict) and schema["type"] in NAMED else None


def base(schema: Schema, names: Mapping[str, Any]) -> Schema:
    return names[schema] if isinstance(schema, str) and schema in names else schema


def kind_of(schema: Schema) -> str:
    return "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]


def _least_bytes(schema: Schema, names: Mapping[str, Any]) -> int:
    schema = base(schema, names)
    kind = kind_of(schema)
    if kind == "record":
        return sum(_least_bytes(field["type"], names) for field in schema["fields"])
    return {"null": 0, "fixed": schema["size"] if kind == "fixed" else 0}.get(kind, 1)


def without_logical(schema: Schema) -> Schema:
    """The schema as values are read and written by it."""
    if isinstance(schema, list):
        return [without_logical(branch) for branch in schema]
    if isinstance(schema, str):
        return schema
    result = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
    for inner in ("items", "values"):
        if inner in result:
            result[inner] = without_logical(result[inner])
    if "fields" in result:
        result["fields"] = [field | {"type": without_logical(field["type"])} for field in result["fields"]]
    return result


# -- types -------------------------------------------------------------------------------------------------


def type_of_schema(schema: Schema) -> DataType:
    return _type(schema, names_of(schema))


def nullable_branch(schema: Schema, names: Mapping[str, Any]) -> tuple[Schema, bool]:
    """Of a union with null the other branch, of anything else itself, and whether there is null."""
    if not isinstance(schema, list):
        return base(schema, names), False
    branches = [branch for branch in schema if branch != "null"]
    if len(branches) != 1:
        raise BadSchema(f"a union is of null and one other type, this is {json.dumps(schema)[:200]}")
    return base(branches[0], names), len(branches) < len(schema)


def _type(schema: Schema, names: Mapping[str, Any]) -> DataType:
    schema, _ = nullable_branch(schema, names)
    kind, of_connect = kind_of(schema), connect_type(schema)
    if of_connect is not None:
        return of_connect
    if kind == "record":
        own_names = (schema["name"].rpartition(".")[2], *(field["name"] for field in schema["fields"]))
        odd = next((name for name in own_names if not _AVRO_NAME.fullmatch(name)), None)
        if odd is not None:
            raise BadSchema(f"{odd!r} is no name that Avro has")
        return StructType([StructField(field["name"], _type(field["type"], names), True) for field in schema["fields"]])
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


def connect_type(schema: Schema) -> DataType | None:
    """The type of a value with a logical type of Kafka Connect's; None: it has none, or Avro's own says the same."""
    if not isinstance(schema, dict) or _CONNECT_NAME not in schema:
        return None
    name, kind = schema[_CONNECT_NAME], schema["type"]
    if name == connect.DECIMAL and logical_of(schema) == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        precision = MOST_DIGITS if precision == _UNKNOWN_PRECISION else precision
        return DecimalType(precision, scale) if max(precision, scale) <= MOST_DIGITS else StringType()
    made = connect.natural_type(name)
    fits = {"record": (StringType,), "string": TIMES, "int": TIMES, "long": TIMES}.get(kind, ())
    return made if isinstance(made, fits) else None


def _in_connect(schema: Mapping[str, Any]) -> connect.Schema:
    form = {"int": "int32", "long": "int64", "record": "struct"}.get(schema["type"], schema["type"])
    return {"type": form, "name": schema[_CONNECT_NAME], "parameters": {"scale": schema.get("scale", 0)}}


def _without_connect(schema: Schema) -> Schema:
    """The schema as values are written by it: what they mean to Connect is no matter of Avro's."""
    if isinstance(schema, list):
        return [_without_connect(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_connect(each) for name, each in schema.items() if name != _CONNECT_NAME}


def logical_of(schema: Schema) -> str:
    """Its logical type; empty without one, and where it has one that is not of its type, as Avro wants it."""
    if not isinstance(schema, dict):
        return ""
    name, kind = str(schema.get("logicalType", "")), schema["type"]
    if name == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0
        return name if kind in ("bytes", "fixed") and is_valid else ""
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
    name : of the record, if it is one; those within it are called as their fields, behind its name, with a number where
        another has that name.
    """
    return _types_schema(kind, name, set())


def _types_schema(kind: DataType, name: str, used_names: set[str]) -> Schema:
    for types, make in _SCHEMAS:
        if isinstance(kind, types):
            return make(kind, name, used_names)
    raise BadSchema(f"Avro has no {kind.simpleString()}")


def _types_record(kind: Any, name: str, used_names: set[str]) -> Schema:
    odd = next(
        (
            field_name
            for field_name in kind.names
            if not field_name.replace("_", "a").isalnum() or field_name[0].isdigit()
        ),
        None,
    )
    if odd is not None:
        raise BadSchema(f"{odd!r} is no name that Avro has")
    free = next(
        candidate for candidate in chain([name], (f"{name}_{n}" for n in count(2))) if candidate not in used_names
    )
    used_names.add(free)
    fields = [
        {"name": f.name, "type": ["null", _types_schema(f.dataType, f"{free}_{f.name}", used_names)], "default": None}
        for f in kind.fields
    ]
    return {"type": "record", "name": free, "fields": fields}


def _array(kind: Any, name: str, used_names: set[str]) -> Schema:
    return {"type": "array", "items": ["null", _types_schema(kind.elementType, f"{name}_item", used_names)]}


def _map(kind: Any, name: str, used_names: set[str]) -> Schema:
    if not isinstance(kind.keyType, StringType):
        raise BadSchema("the keys of a map are strings")
    return {"type": "map", "values": ["null", _types_schema(kind.valueType, f"{name}_value", used_names)]}


def _logical(kind: str, logical: str, **attributes: int) -> Schema:
    return {"type": kind, "logicalType": logical, **attributes}


_SCHEMAS: tuple[tuple[Any, Callable[[Any, str, set[str]], Schema]], ...] = (
    (StructType, _types_record),
    (ArrayType, _array),
    (MapType, _map),
    (DecimalType, lambda kind, *_: _logical("bytes", "decimal", precision=kind.precision, scale=kind.scale)),
    (DateType, lambda *_: _logical("int", "date")),
    (TimestampType, lambda *_: _logical("long", "timestamp-micros")),
    (TimestampNTZType, lambda *_: _logical("long", "local-timestamp-micros")),
    *((type(kind), lambda *_, avro=avro: avro) for avro, kind in PRIMITIVES.items()),
)


# The bounds of the values of an Avro schema: its own text, or only the bytes.


def unbounded(schema: Schema, names: Mapping[str, Any]) -> bool:
    """Whether values of a whole schema may have more levels, or more values, than follow from it or from their bytes.

    That is so where it holds itself, and where what is repeated has parts that take no bytes.
    """
    return _unbounded(schema, names, (), repeated=False)


def _unbounded(schema: Schema, names: Mapping[str, Any], above: tuple[str, ...], *, repeated: bool) -> bool:
    if isinstance(schema, list):
        # null takes a byte there: the branch's number
        return any(_unbounded(branch, names, above, repeated=repeated) for branch in schema if branch != "null")
    schema = base(schema, names)
    kind, name = kind_of(schema), record_name(schema)
    if name in above:
        return True
    if repeated and (kind == "null" or (kind == "fixed" and not schema["size"]) or schema_is_empty(schema)):
        return True
    inner = [] if isinstance(schema, str) else inner_of(schema)
    path = above if name is None else (*above, name)
    return any(_unbounded(child, names, path, repeated=repeated or kind in ("array", "map")) for child in inner)


def schema_is_empty(schema: Schema) -> bool:
    return kind_of(schema) in ("record", "error") and not schema["fields"]


# Whether bytes are an Avro value of a schema, to the letter: slow, for those that fastavro's word is not enough of.
#
# fastavro takes a negative number for the last symbol or branch, wraps what is beyond 64 bits, and takes any byte for
# true. Each value that it reads is written once more, and if the bytes differ, they are checked here (law 6). Others
# than fastavro would write may be right: blocks with their size, numbers with more bytes than they need.
#
# Its code in C goes as deep as a value does, and makes as many elements as an array says that it has. Where a schema
# bounds neither (`unbounded`), bytes are looked at here before; so this keeps the levels in a list of its own.

_BITS = 64
_WIDTHS = {"float": 4, "double": 8}


@dataclass
class _AvroReader:
    """Bytes, and how far they have been looked at."""

    data: bytes
    at: int = 0

    def long(self) -> int:
        data, at = self.data, self.at
        number = shift = 0
        while True:
            if at >= len(data):
                raise Refused("the bytes end within a value")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= _BITS + 6:
                raise Refused("a number has more than 64 bits")
        if number >> _BITS:
            raise Refused("a number has more than 64 bits")
        self.at = at
        return (number >> 1) ^ -(number & 1)

    def skip(self, count: int) -> None:
        if count < 0:
            raise Refused("a length is negative")
        if self.at + count > len(self.data):
            raise Refused("the bytes end within a value")
        self.at += count


def check(schema: Schema, names: Mapping[str, Any], data: bytes) -> None:
    """Raise unless the bytes are one value of the schema, within its budgets."""
    reader, empty = _AvroReader(data), 0
    # what is still to be looked at, of each value that others lie within
    levels: list[Iterator[Schema]] = [iter([schema])]
    while levels:
        inner = next(levels[-1], None)
        if inner is None:
            levels.pop()
            continue
        start = reader.at
        inner = base(inner, names)
        if isinstance(inner, list):
            inner = base(inner[_branch(inner, reader)], names)
        kind = kind_of(inner)
        if kind in _LEAVES:
            _LEAVES[kind](inner, reader)
        else:
            levels.append(_STRICT_WITHIN[kind](inner, reader))
            if len(levels) > AVRO_LEVELS + 1:
                raise Refused(f"it has more than {AVRO_LEVELS} levels")
        if reader.at == start and (kind in _LEAVES or schema_is_empty(inner)):
            empty += 1
            if empty > EMPTY_VALUES:
                raise Refused(f"it has more than {EMPTY_VALUES} values that take no bytes")
    if reader.at != len(data):
        raise Refused(f"{len(data) - reader.at} bytes behind the value")


# -- values with nothing within ------------------------------------------------------------------------------


def _number(schema: Schema, reader: _AvroReader) -> None:
    value = reader.long()
    if kind_of(schema) == "int" and not -(1 << 31) <= value < 1 << 31:
        raise Refused("a number does not fit into an int")


def _boolean(schema: Schema, reader: _AvroReader) -> None:
    reader.skip(1)
    if reader.data[reader.at - 1] > 1:
        raise Refused("a boolean is 0 or 1")


def _bytes(schema: Schema, reader: _AvroReader) -> None:
    reader.skip(reader.long())


def _text(schema: Schema, reader: _AvroReader) -> None:
    length = reader.long()
    start = reader.at
    reader.skip(length)
    try:
        reader.data[start : reader.at].decode()
    except UnicodeDecodeError:
        raise Refused("a string is not valid UTF-8") from None


def _enum(schema: Schema, reader: _AvroReader) -> None:
    number = reader.long()
    if not 0 <= number < len(schema["symbols"]):
        raise Refused(f"{schema['name']} has no symbol of number {number}")


def _branch(schema: Schema, reader: _AvroReader) -> int:
    number = reader.long()
    if not 0 <= number < len(schema):
        raise Refused(f"a union has no branch of number {number}")
    return number


_LEAVES: dict[str, Callable[[Any, _AvroReader], None]] = {
    "null": lambda schema, reader: None,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    **{kind: lambda schema, reader, width=width: reader.skip(width) for kind, width in _WIDTHS.items()},  # type: ignore[misc]
    "bytes": _bytes,
    "string": _text,
    "fixed": lambda schema, reader: reader.skip(schema["size"]),
    "enum": _enum,
}


# -- values with others within: the schemas of those, each asked for when the one before has been looked at ----


def _strict_record(schema: Schema, reader: _AvroReader) -> Iterator[Schema]:
    return (field["type"] for field in schema["fields"])


def _blocks(schema: Schema, reader: _AvroReader) -> Iterator[Schema]:
    keys: set[bytes] = set()
    inner = schema.get("items", schema.get("values"))
    while True:
        count = reader.long()
        if not count:
            return
        end = None
        if count < 0:
            size = reader.long()
            start = reader.at
            reader.skip(size)
            reader.at, end = start, reader.at
        for _ in range(abs(count)):
            if "values" in schema:
                _key(keys, reader)
            yield inner
        if end is not None and reader.at != end:
            raise Refused("a block has another length than it declares")


def _key(keys: set[bytes], reader: _AvroReader) -> None:
    start = reader.at
    _text("string", reader)
    key = reader.data[start : reader.at]
    if key in keys:
        raise Refused("a map has a key twice")
    keys.add(key)


_STRICT_WITHIN: dict[str, Callable[[Any, _AvroReader], Iterator[Schema]]] = {
    "record": _strict_record,
    "error": _strict_record,
    "array": _blocks,
    "map": _blocks,
}


# What Avro has for simple values, as Arrow columns and back: without logical types, exact to the last digit.

Bad = list[tuple[int, str]]
_MILLIS = 1_000
_MOST_MILLIS = (1 << 63) // _MILLIS - 1
_DECIMAL_BYTES = 16
_INT = 1 << 31
_TYPES = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


def column(schema: Schema, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    """The values as a column, null where they are out of their type's range, and what is wrong with those."""
    kind, logical = kind_of(schema), logical_of(schema)
    if kind in ("bytes", "fixed") and str in set(map(type, values)):
        # a default of the reader's schema, in which a character stands for a byte
        values = [value.encode("latin-1") if isinstance(value, str) else value for value in values]
    if logical == "decimal":
        return _decimals(schema, values)
    if kind == "int":
        return _ints(values, pa.date32() if logical == "date" else pa.int32())
    if kind == "float":
        return pa.array(values, pa.float64()).cast(pa.float32(), safe=False), []
    if kind == "long" and "timestamp" in logical and not logical.endswith("nanos"):
        return _timestamps(logical, values)
    return pa.array(values, _TYPES[kind]), []


def _ints(values: Sequence[Any], target: pa.DataType) -> tuple[pa.Array, Bad]:
    bad: Bad = []
    try:
        array = pa.array(values, pa.int32())
    except (pa.ArrowInvalid, OverflowError):
        bad = [(n, "a number does not fit into an int") for n, v in enumerate(values) if not _fits(v)]
        array = pa.array([v if _fits(v) else None for v in values], pa.int32())
    return array.view(target), bad


def _fits(value: Any) -> bool:
    return value is None or -_INT <= value < _INT


def _timestamps(logical: str, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    array, bad = pa.array(values, pa.int64()), []
    if logical.endswith("millis"):
        # not by pc.abs: of the smallest number that is itself
        beyond = pc.or_(pc.greater(array, _MOST_MILLIS), pc.less(array, -_MOST_MILLIS)).fill_null(False)
        if pc.any(beyond).as_py():
            bad = [(at, "a timestamp is beyond its range") for at in np.flatnonzero(beyond.to_numpy(False)).tolist()]
            array = pc.if_else(beyond, None, array)
        array = pc.multiply(array, _MILLIS)
    return array.view(pa.timestamp("us", None if logical.startswith("local") else "UTC")), bad


def _decimals(schema: Any, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    most = 10 ** schema["precision"]
    numbers: list[int | None] = []
    bad: Bad = []
    for at, value in enumerate(values):
        number = None if value is None else int.from_bytes(value, "big", signed=True)
        if number is not None and (not value or not -most < number < most):
            bad.append((at, f"a decimal has more than {schema['precision']} digits" if value else "a decimal is empty"))
            number = None
        numbers.append(number)
    content = b"".join((number or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    validity = pa.array([number is not None for number in numbers], pa.bool_())
    kind = pa.decimal128(schema["precision"], schema.get("scale", 0))
    return pa.Array.from_buffers(kind, len(numbers), [validity.buffers()[1], pa.py_buffer(content)]), bad


# -- back --------------------------------------------------------------------------------------------------


def plain(schema: Schema, values: pa.Array) -> list[Any]:
    """The values as fastavro writes them."""
    kind, logical = kind_of(schema), logical_of(schema)
    make: Callable[[Any, pa.Array], list[Any]] | None = None
    if logical == "decimal":
        make = _decimal_bytes
    elif kind == "enum":
        make = _symbols
    elif kind == "fixed":
        make = _fixed
    elif logical == "date":
        return list(values.cast(pa.date32()).view(pa.int32()).to_pylist())
    elif pa.types.is_timestamp(values.type):
        make = _counts
    return list(values.to_pylist()) if make is None else make(schema, values)


def _decimal_bytes(schema: Any, values: pa.Array) -> list[Any]:
    numbers = _unscaled(values)
    if schema["type"] == "bytes":
        return [
            n if n is None else n.to_bytes((n + (n < 0)).bit_length() // 8 + 1, "big", signed=True) for n in numbers
        ]
    try:
        return [n if n is None else n.to_bytes(schema["size"], "big", signed=True) for n in numbers]
    except OverflowError:
        raise Unwritable(f"a decimal does not fit into {schema['size']} bytes") from None


def _unscaled(values: pa.Array) -> list[int | None]:
    # not by way of Python's decimals, whose context rounds
    content, size, first = values.buffers()[1], _DECIMAL_BYTES, values.offset
    data = content.to_pybytes()[first * size : (first + len(values)) * size]
    places = range(0, len(data), size)
    validity = values.is_valid().to_pylist()
    return [
        int.from_bytes(data[at : at + size], "little", signed=True) if valid else None
        for at, valid in zip(places, validity, strict=True)
    ]


def _symbols(schema: Any, values: pa.Array) -> list[Any]:
    unknown = set(pc.unique(values).to_pylist()) - {None, *schema["symbols"]}
    if unknown:
        raise Unwritable(f"{min(unknown)!r:.80} is not a symbol of {schema['name']}: {', '.join(schema['symbols'])}")
    return list(values.to_pylist())


def _fixed(schema: Any, values: pa.Array) -> list[Any]:
    items = list(values.to_pylist())
    if any(item is not None and len(item) != schema["size"] for item in items):
        raise Unwritable(f"{schema['name']} takes {schema['size']} bytes")
    return items


def _counts(schema: Any, values: pa.Array) -> list[Any]:
    micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    if not logical_of(schema).endswith("millis"):
        return list(micros.to_pylist())
    millis = pc.divide(micros, _MILLIS)
    if not pc.all(pc.equal(pc.multiply(millis, _MILLIS), micros)).as_py() and micros.null_count < len(micros):
        raise Unwritable("a timestamp has digits beyond milliseconds")
    return list(millis.to_pylist())


# Resolution beyond fastavro's: aliases as Avro's Java has them, inner defaults, and the meaning of values.
#
# Resolution by itself reads milliseconds as microseconds, since it ignores logical types (law 6).

_TIMES = tuple(f"{zone}timestamp-{unit}" for zone in ("", "local-") for unit in ("millis", "micros", "nanos"))
_MEANINGS = frozenset(("decimal", "date", "time-millis", "time-micros", "duration", *_TIMES))
"""Logical types without which a number is another value."""
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def other_meaning(writer: Schema, reader: Schema) -> str | None:
    """Where a writer's value is of another logical type than the reader takes it for; None: nowhere."""
    return _differs(writer, reader, _Named(names_of(writer), names_of(reader), set()), "value")


class _Named(NamedTuple):
    """The named types of writer and reader, and which of their pairs of records have been compared."""

    written: dict[str, Any]
    read: dict[str, Any]
    seen: set[tuple[str, str]]


def _differs(writer: Schema, reader: Schema, types: _Named, place: str) -> str | None:
    written, read, _ = types
    writer, reader = base(writer, written), base(reader, read)
    if isinstance(writer, list) or isinstance(reader, list):
        branches = writer if isinstance(writer, list) else [writer]
        reasons = (_differs(branch, _partner(base(branch, written), reader, read), types, place) for branch in branches)
        return next((reason for reason in reasons if reason), None)
    kinds = kind_of(writer), kind_of(reader)
    if kinds == ("record", "record"):
        return _differs_in_fields(writer, reader, types, place)
    for kind, inner in (("array", "items"), ("map", "values")):
        if kinds == (kind, kind):
            return _differs(writer[inner], reader[inner], types, f"{place}[]")
    meanings = tuple(_meaning(schema) for schema in (writer, reader))
    # what is of another type is refused as its values are read
    resolves = kinds[1] in (kinds[0], *_PROMOTED.get(kinds[0], ()))
    # a reader that does not know Connect's meaning has the number as it is
    as_it_is = not meanings[1] and meanings[0] not in _MEANINGS and not meanings[0].startswith("decimal")
    if meanings[0] == meanings[1] or not resolves or as_it_is:
        return None
    return f"{place} is {meanings[0] or kinds[0]} there, and read as {meanings[1] or kinds[1]}"


def _partner(writer: Schema, reader: Schema, read: Any) -> Schema:
    """The reader's branch that a writer's is read by."""
    if not isinstance(reader, list):
        return reader
    kind = kind_of(writer)
    branches = {kind_of(base(branch, read)): branch for branch in reader}
    return next(
        (branches[candidate] for candidate in (kind, *_PROMOTED.get(kind, ())) if candidate in branches), "null"
    )


def _differs_in_fields(writer: Any, reader: Any, types: _Named, place: str) -> str | None:
    pair = writer["name"], reader["name"]
    if pair in types.seen:
        return None
    types.seen.add(pair)
    theirs = {field["name"]: field["type"] for field in writer["fields"]}
    shared = (field for field in reader["fields"] if field["name"] in theirs)
    reasons = (_differs(theirs[f["name"]], f["type"], types, f"{place}.{f['name']}") for f in shared)
    return next((reason for reason in reasons if reason), None)


def _meaning(schema: Schema) -> str:
    logical = logical_of(schema)
    if logical not in _MEANINGS and connect_type(schema) is not None:
        return str(schema[_CONNECT_NAME])
    if logical not in _MEANINGS:
        return ""
    return f"decimal with scale {schema.get('scale', 0)}" if logical == "decimal" else logical


# -- aliases -----------------------------------------------------------------------------------------------


def renamed(writer: Schema, reader: Schema) -> Schema:
    """The writer's schema with its fields under the reader's names, as Avro's Java applies aliases."""
    aliases: dict[str, dict[str, str]] = {}
    for name, schema in names_of(reader).items():
        field_names = {alias: field["name"] for field in schema.get("fields", ()) for alias in field.get("aliases", ())}
        space = name.rpartition(".")[0]
        for schema_name in schema.get("aliases", ()):
            aliases[schema_name if "." in schema_name or not space else f"{space}.{schema_name}"] = field_names
        aliases[name] = field_names
    # twice, as Java does: an alias of a field whose name is another's alias stands for that one
    for _ in range(2 if any(aliases.values()) else 0):
        if with_inner_defaults(writer) != with_inner_defaults(reader):
            writer = _renamed(writer, aliases)
    return writer


def _renamed(schema: Schema, aliases: Mapping[str, Mapping[str, str]]) -> Schema:
    def fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
        field_names = aliases.get(record["name"], {})
        originals: dict[str, str] = {}
        for field in record["fields"]:
            name = field_names.get(field["name"], field["name"])
            if name in originals:
                raise Refused(
                    f"the fields {originals[name]} and {field['name']} of {record['name']} are both read as {name}"
                )
            originals[name] = field["name"]
        return [
            entry | {"name": name, "type": _renamed(entry["type"], aliases)}
            for name, entry in zip(originals, record["fields"], strict=True)
        ]

    return _with_fields(schema, fields)


def _with_fields(schema: Schema, fields: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> Schema:
    """The schema with other fields and no aliases in its records, also in those in arrays, maps and unions."""
    if isinstance(schema, list):
        return [_with_fields(branch, fields) for branch in schema]
    if isinstance(schema, str):
        return schema
    inner = {name: _with_fields(schema[name], fields) for name in ("items", "values") if name in schema}
    return {**schema, **inner, **({"fields": fields(schema), "aliases": []} if "fields" in schema else {})}


def _of_any_record(reader: Schema, written: Mapping[str, Any]) -> Schema:
    """The reader's schema as fastavro resolves by it: a record of any name is read as a record, as by Avro's Java."""
    made = with_inner_defaults(without_logical(reader))
    names = [name for name, each in written.items() if "fields" in each]
    for each in names_of(made).values():
        each.update({"aliases": names} if "fields" in each else {})
    return made


# -- defaults ----------------------------------------------------------------------------------------------


class _NoDefault(ValueError):
    """A default is no value of its schema."""


def with_inner_defaults(reader: Schema) -> Schema:
    """The reader's schema without aliases, its defaults with what they leave to the defaults of inner fields.

    A default that is no value of its schema is left out: a value that needs it cannot be read.
    """
    return _with_defaults(reader, names_of(reader))


def _with_defaults(schema: Schema, names: Mapping[str, Any]) -> Schema:
    return _with_fields(schema, lambda record: [_with_default(field, names) for field in record["fields"]])


def _with_default(field: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    entry = {"name": field["name"], "type": _with_defaults(field["type"], names)}
    try:
        return entry | {"default": _default(field["type"], field["default"], names)} if "default" in field else entry
    except _NoDefault:
        return entry


def _default(schema: Schema, value: Any, names: Mapping[str, Any]) -> Any:
    schema = base(schema, names)
    if isinstance(schema, list):
        for branch in schema:
            if type(value) in _DEFAULTS[kind_of(base(branch, names))]:
                return _default(branch, value, names)
        raise _NoDefault
    kind = kind_of(schema)
    if type(value) not in _DEFAULTS[kind]:
        raise _NoDefault
    return _RESOLUTION_WITHIN[kind](schema, value, names) if kind in _RESOLUTION_WITHIN else value


def _record_default(schema: Any, value: Any, names: Mapping[str, Any]) -> Any:
    record = {}
    for field in schema["fields"]:
        name = field["name"]
        if name not in value and "default" not in field:
            raise _NoDefault
        record[name] = _default(field["type"], value.get(name, field.get("default")), names)
    return record


def _map_default(schema: Any, value: Any, names: Mapping[str, Any]) -> Any:
    return {key: _default(schema["values"], item, names) for key, item in value.items()}


_RESOLUTION_WITHIN: dict[str, Callable[[Any, Any, Mapping[str, Any]], Any]] = {
    "record": _record_default,
    "error": _record_default,
    "array": lambda schema, given, names: [_default(schema["items"], item, names) for item in given],
    "map": _map_default,
}
_DEFAULTS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("record", "error", "map"), (dict,)),
    "array": (list,),
    "null": (type(None),),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
    **dict.fromkeys(("bytes", "fixed", "string", "enum"), (str,)),
}
"""What a default is in JSON."""


# Avro values as Arrow columns and back, in the workers: fastavro a value at a time, Arrow a column at a time.
#
# Law 6: bytes that are not exactly one value of the writer's schema, or that the reader's cannot take, have a reason.

_SHOWN = 300
_BROKEN = (ValueError, EOFError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, RecursionError)
"""What fastavro raises where bytes are not of a schema."""


class WriterSchema:
    """A schema that values were written by, and how they are read by another.

    Parameters
    ----------
    written : the writer's, whole.
    read : the reader's, whole.
    """

    def __init__(self, written: Schema, read: Schema) -> None:
        written = renamed(written, read)
        reason = other_meaning(written, read)
        if reason is not None:
            raise Refused(reason)
        avro = needed("fastavro")
        self._decoded, self._encoded = avro.schemaless_reader, avro.schemaless_writer
        self._unresolved = needed("fastavro.read").SchemaResolutionError
        self._schema = without_logical(written)
        self._names = names_of(self._schema)
        # fastavro writes any number that it has read for an int, and where it is not read as one nobody looks at it
        ints = written != read and any(kind_of(schema) == "int" for schema in _inner_schemas(self._schema))
        self._checked = ints or unbounded(self._schema, self._names)
        self._written = avro.parse_schema(self._schema)
        self._read = None if written == read else avro.parse_schema(_of_any_record(read, self._names))

    def value(self, data: bytes) -> Any:
        """The value, by the reader's schema."""
        value, exact = None, False
        if not self._checked:
            value, exact = self._once(data)
        if not exact:
            check(self._schema, self._names, data)
        try:
            if self._read is not None or not exact:
                value = self._decoded(BytesIO(data), self._written, self._read)
        except self._unresolved as error:
            raise Refused(f"the schema to read by does not take it: {str(error)[:_SHOWN]}") from None
        except _BROKEN as error:
            raise Refused(f"no value of its schema: {type(error).__name__}: {str(error)[:_SHOWN]}") from None
        if value is None:
            raise Refused("Avro's null (a tombstone has no bytes at all)")
        return value

    def _once(self, data: bytes) -> tuple[Any, bool]:
        """The value by the writer's schema, and whether these are the bytes that fastavro would write for it."""
        stream = BytesIO(data)
        try:
            value = self._decoded(stream, self._written, None)
            out = BytesIO()
            self._encoded(out, self._written, value)
        except _BROKEN:
            return None, False
        return value, stream.tell() == len(data) and out.getvalue() == data


# -- columns -----------------------------------------------------------------------------------------------


def columns_of(schema: Schema, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The values as one column; null, and with a reason, where one is beyond its type.

    Parameters
    ----------
    schema : the reader's, whole.
    """
    flaws, names = Flaws(), names_of(schema)
    array = _column(schema, names, values, range(len(values)), flaws)
    if flaws.found:
        survivors = [None if row in flaws.found else value for row, value in enumerate(values)]
        array = _column(schema, names, survivors, range(len(survivors)), Flaws())
    return array.cast(arrow_type(type_of_schema(schema))), flaws.found


def _column(schema: Schema, names: Any, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    schema, _ = nullable_branch(schema, names)
    kind, of_connect = kind_of(schema), connect_type(schema)
    if of_connect is not None:
        plainly = _column({**without_logical(schema), _CONNECT_NAME: ""}, names, values, rows, flaws)
        array, bad = connect.converted(of_connect, _in_connect(schema), plainly)
        for place, reason in bad:
            flaws.add(rows[place], reason)
        return array
    if kind == "record":
        return _struct(schema, names, values, rows, flaws)
    if kind in ("array", "map"):
        owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
        ends = [0, *accumulate(len(value) if value else 0 for value in values)]
        offsets = pa.array(
            [None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32()
        )
        if kind == "array":
            flat = [element for value in values if value for element in value]
            return pa.ListArray.from_arrays(offsets, _column(schema["items"], names, flat, owners, flaws))
        keys = pa.array([name for value in values if value for name in value], pa.string())
        flat = [inner for value in values if value for inner in value.values()]
        return pa.MapArray.from_arrays(offsets, keys, _column(schema["values"], names, flat, owners, flaws))
    array, bad = column(schema, values)
    for place, reason in bad:
        flaws.add(rows[place], reason)
    return array


def _struct(schema: Any, names: Any, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    fields = [field["name"] for field in schema["fields"]]
    mask = pa.array([value is None for value in values], pa.bool_())
    if not fields:
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    columns = []
    for field in schema["fields"]:
        with flaws.in_field(field["name"]):
            given = [None if value is None else value[field["name"]] for value in values]
            columns.append(_column(field["type"], names, given, rows, flaws))
    return pa.StructArray.from_arrays(columns, fields, mask=mask)


# -- writing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvroWriter:
    """Writes values by a schema."""

    text: str  # the schema, whole, as JSON
    header: bytes  # what stands in front of each value
    what: str  # names the values to the user

    @cached_property
    def _schema(self) -> Schema:
        return json.loads(self.text)

    def __call__(self, values: pa.Array) -> pa.Array:
        """The bytes of each value; null for null."""
        avro = needed("fastavro")
        parsed = avro.parse_schema(without_logical(self._schema))
        validity = values.is_valid().to_numpy(zero_copy_only=False)
        try:
            items = _plain(self._schema, names_of(self._schema), values, validity, "value", top=True)
        except Unwritable as error:
            raise EncodingError(
                "A value does not fit the schema of its sink.",
                given=f"{self.what}: {error}",
                hint=f"Change the values, or the schema: a null needs a union with null; {POLICY}",
            ) from None
        write, header = avro.schemaless_writer, self.header

        def encoded(value: Any) -> bytes:
            out = BytesIO()
            out.write(header)
            write(out, parsed, value, disable_tuple_notation=True)
            return out.getvalue()

        return pa.array([None if item is None else encoded(item) for item in items], pa.binary())


def _plain(
    schema: Schema, names: Any, values: pa.Array, parent_valid: np.ndarray, place: str, *, top: bool = False
) -> Any:
    """Values as fastavro takes them, of struct fields by position."""
    schema, nullable = nullable_branch(schema, names)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if not nullable and not top and (parent_valid & ~valid).any():
        raise Unwritable(f"{place} is null, and may not be")
    kind = kind_of(schema)
    if kind == "record":
        columns = values.flatten()
        inner = [
            _plain(f["type"], names, columns[n], parent_valid & valid, f"{place}.{f['name']}")
            for n, f in enumerate(schema["fields"])
        ]
        fields = [f["name"] for f in schema["fields"]]
        rows = zip(*inner, strict=True) if inner else iter([()] * len(values))
        return [dict(zip(fields, row, strict=True)) if v else None for v, row in zip(valid.tolist(), rows, strict=True)]
    if kind in ("array", "map"):
        return _lists(schema, names, values, place)
    try:
        return plain(schema, values)
    except Unwritable as error:
        raise Unwritable(f"{place}: {error}") from None


def _lists(schema: Any, names: Any, values: pa.Array, place: str) -> list[Any]:
    if kind_of(schema) == "map":
        values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
    flat = values.flatten()
    keys = None
    if kind_of(schema) == "map":
        keys, flat = flat.field(0).to_pylist(), flat.field(1)
    inner = _plain(schema.get("items", schema.get("values")), names, flat, np.ones(len(flat), np.bool_), f"{place}[]")
    items, at = [], 0
    for length in pc.list_value_length(values).to_pylist():
        end = at + (length or 0)
        part = inner[at:end]
        items.append(None if length is None else part if keys is None else dict(zip(keys[at:end], part, strict=True)))
        at = end
    return items


# Avro as a language of schemas.


class Avro(Language):
    """Avro: a value is resolved from its writer's schema to the reader's."""

    registered_as: ClassVar[str] = "AVRO"
    hint: ClassVar[str] = "Give a schema of records, arrays, maps, enums, and unions with null; none may hold itself."

    def type_of(self, text: str, references: References = ()) -> DataType:
        kind = type_of_schema(_language_schema(text, references))
        if isinstance(kind, StructType) and not kind.fields:
            raise BadSchema("the record has no fields")
        return kind

    def whole(self, text: str, references: References = ()) -> str:
        return json.dumps(_language_schema(text, references), sort_keys=True)

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        return _AvroReading(text)

    def schema_for(self, kind: DataType, name: str) -> str:
        record = "".join(char if char.isascii() and char.isalnum() else "_" for char in name)
        return json.dumps(schema_of(json.dumps(schema_for(kind, f"_{record}" if record[0].isdigit() else record))))

    def misfit(self, text: str, kind: DataType) -> str | None:
        return super().misfit(json.dumps(_without_connect(json.loads(text))), kind)

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        return AvroWriter(text, header, what)

    def name_of(self, text: str) -> str | None:
        return record_name(schema_of(text))


class _AvroReading:
    def __init__(self, text: str) -> None:
        self._read = schema_of(text)

    def bare(self) -> WriterValues:
        return WriterSchema(self._read, self._read)

    def written(self, text: str, references: References) -> WriterValues:
        return WriterSchema(written_schema(text, [document for _, document in references]), self._read)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return columns_of(self._read, values)


def _language_schema(text: str, references: References) -> Schema:
    return schema_of(text, [document for _, document in references])
