"""Schemas by chance, with values, for libraries that read the same beside one another: a writer's and a reader's."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor as F

from tests.formats.fuzz.draws import varint, zigzag

# -- JSON Schema ---------------------------------------------------------------------------------------------

_PATTERNS = [r"^[\w-.]+$", r"^\p{L}+$", r"(?<n>a)b", r"^\d{2,3}$", r"a|b$", r"^[^\s]*$", r"^.$", r"[a-c-]"]
_TEXTS = ["", "a", "ab", "é", "12", "a.b-c", " ", "\n", "😀", "b"]
_NUMBERS = ["0", "1", "2.0", "5", "0.07", "19.99", "0.005", "-3", "1e2", "4.35", "1E-2", "7.50"]


def json_schema(draw: Random, depth: int = 2) -> dict[str, Any]:
    """A schema of JSON Schema."""
    pick = draw.choice(["integer", "number", "string", "boolean", "enum", *(("object", "array") * 2 if depth else ())])
    if pick == "enum":
        return draw.choice([{"enum": [1, 5]}, {"enum": ["a", "é"]}, {"const": 2}, {"enum": [0.07, 5]}, {"const": True}])
    if pick in ("integer", "number"):
        limits = {"minimum": 1, "maximum": 5, "exclusiveMinimum": 0.07, "exclusiveMaximum": 19.99}
        limits["multipleOf"] = draw.choice([0.01, 0.1, 2, 0.05, 1.5])
        return {"type": pick, **{name: limits[name] for name in draw.sample(list(limits), draw.randint(0, 2))}}
    if pick == "string":
        limits = {"minLength": 1, "maxLength": 2, "pattern": draw.choice(_PATTERNS)}
        return {"type": pick, **{name: limits[name] for name in draw.sample(list(limits), draw.randint(0, 2))}}
    if pick == "boolean":
        return {"type": pick}
    if pick == "array":
        more = draw.choice([{}, {"uniqueItems": True}, {"minItems": 1}, {"maxItems": 1}])
        return {"type": pick, "items": json_schema(draw, depth - 1), **more}
    names = [f"f{n}" for n in range(draw.randint(1, 3))]
    more = draw.choice([{}, {"additionalProperties": False}, {"minProperties": 1}, {"required": names[:1]}])
    return {"type": pick, "properties": {name: json_schema(draw, depth - 1) for name in names}, **more}


def json_text(draw: Random, schema: dict[str, Any]) -> str:
    """A text that a schema may take."""
    kind = schema.get("type") if draw.random() < 0.95 else draw.choice(["string", "number", "boolean"])
    if kind in ("integer", "number"):
        return draw.choice(_NUMBERS)
    if kind == "string":
        return json.dumps(draw.choice(_TEXTS))
    if kind == "boolean":
        return draw.choice(["true", "false"])
    if kind == "array":
        return f"[{','.join(json_text(draw, schema['items']) for _ in range(draw.randint(0, 3)))}]"
    if kind == "object":
        there = [(name, each) for name, each in schema["properties"].items() if draw.random() < 0.8]
        parts = [f'"{name}":{json_text(draw, each)}' for name, each in there]
        parts += draw.choice([[], [], ['"more":1']])
        return "{" + ",".join(parts) + "}"
    return draw.choice(["1", "5", '"a"', "2", "2.0", "true", "0.07", '"é"'])


# -- Avro ----------------------------------------------------------------------------------------------------

_AVRO_LEAVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
_NARROWER = {"long": ["int"], "float": ["int", "long"], "double": ["int", "long", "float"]}
_NARROWER |= {"string": ["bytes"], "bytes": ["string"]}
_LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
_SYMBOLS = ["A", "B", "C", "D"]
_LONGS = [0, -1, 1, 63, -65, 1 << 24, (1 << 24) + 1, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 53, (1 << 53) + 1]
_LONGS += [(1 << 63) - 1, -(1 << 63), (1 << 60) + (1 << 36) + 1]
_DOUBLES = [0.0, -0.0, 1.5, 0.1, -1e308, 5e-324, float("inf"), float("nan")]


class AvroPair:
    """A schema to read by, and one of a writer: the reader's with changes, of which some keep it from being read.

    Parameters
    ----------
    draw : what decides.
    """

    def __init__(self, draw: Random) -> None:
        self._draw, self._numbers = draw, count()
        self._spaces = draw.choice([[""], ["n."], ["n.", "n.m."]])
        self._named: list[dict[str, Any]] = []
        self.reader = self._record(2)
        self._writers: dict[str, str] = {}
        self.writer = self._written(self.reader)

    def _name(self, stem: str) -> str:
        return self._draw.choice(self._spaces) + f"{stem}{next(self._numbers)}"

    # what is read

    def _record(self, depth: int) -> Any:
        draw, name = self._draw, self._name("R")
        fields = [self._field(f"f{n}", depth) for n in range(draw.randint(1, 4))]
        names = [each["name"] for each in fields]
        for each in fields:
            if draw.random() < 0.25:
                each["aliases"] = draw.sample(["x", "y", "z", *names], draw.randint(1, 2))
        more = {"aliases": [draw.choice(["W1", "n.W2", "W3"])]} if draw.random() < 0.2 else {}
        return {"type": "record", "name": name, "fields": fields, **more}

    def _field(self, name: str, depth: int) -> Any:
        kind = self._kind(depth)
        if self._draw.random() < 0.3:
            kind = self._draw.choice([["null", kind], [kind, "null"]])
        made = {"name": name, "type": kind}
        return made | {"default": self._default(kind)} if self._draw.random() < 0.6 else made

    def _kind(self, depth: int) -> Any:
        draw, pick = self._draw, self._draw.random()
        if self._named and pick < 0.06:
            return draw.choice(self._named)["name"]
        if depth and pick < 0.2:
            return self._record(depth - 1)
        if depth and pick < 0.4:
            inner = draw.choice([self._kind(depth - 1), ["null", self._kind(depth - 1)]])
            return draw.choice([{"type": "array", "items": inner}, {"type": "map", "values": inner}])
        if pick < 0.6:
            return draw.choice(_LOGICAL)
        if pick < 0.7:
            return self._enum_or_fixed()
        return draw.choice(_AVRO_LEAVES)

    def _enum_or_fixed(self) -> Any:
        draw = self._draw
        made: Any = {"type": "fixed", "name": self._name("F"), "size": draw.randint(0, 3)}
        if draw.random() < 0.6:
            made = {"type": "enum", "name": self._name("E"), "symbols": draw.sample(_SYMBOLS, draw.randint(1, 4))}
            if draw.random() < 0.4:
                made["default"] = draw.choice(made["symbols"])
        if draw.random() < 0.3:
            made["aliases"] = [draw.choice(["V1", "n.V2"])]
        self._named.append(made)
        return made

    def _default(self, kind: Any) -> Any:
        draw = self._draw
        if isinstance(kind, list):
            # Java has another branch's default at times as the first one's
            return self._default(kind[0])
        kind = next((each for each in self._named if each["name"] == kind), kind)
        base = kind["type"] if isinstance(kind, dict) else kind
        if base == "record":
            left = [each for each in kind["fields"] if "default" not in each or draw.random() < 0.4]
            return {each["name"]: self._default(each["type"]) for each in left}
        if base == "array":
            return [self._default(kind["items"]) for _ in range(draw.randint(0, 2))]
        if base == "map":
            return {f"k{n}": self._default(kind["values"]) for n in range(draw.randint(0, 2))}
        if base == "enum":
            return draw.choice(kind["symbols"])
        if base == "fixed":
            return "".join(draw.choice("a\0\xff") for _ in range(kind["size"]))
        return draw.choice(_AVRO_DEFAULTS[base])

    # what is written

    def _written(self, schema: Any) -> Any:
        draw = self._draw
        if isinstance(schema, list):
            made = [each if each == "null" else self._written(each) for each in schema]
            return draw.choice([made, made, made[::-1], self._union(made), next(e for e in made if e != "null")])
        if isinstance(schema, str) and schema not in _AVRO_LEAVES:
            return self._writers.get(schema, "int")
        kind = schema["type"] if isinstance(schema, dict) else schema
        if draw.random() < 0.01:
            return draw.choice([*_AVRO_LEAVES, *_LOGICAL])
        made = self._changed(schema, kind)
        return self._union([made]) if draw.random() < 0.15 else made

    def _changed(self, schema: Any, kind: str) -> Any:
        draw = self._draw
        if kind == "record":
            return self._written_record(schema)
        for inner in ("items", "values"):
            if kind in ("array", "map") and inner in schema:
                return {"type": kind, inner: self._written(schema[inner])}
        if kind in ("enum", "fixed"):
            made = self._renamed(schema, 0.2) | ({"size": 4} if kind == "fixed" and draw.random() < 0.1 else {})
            if kind == "enum" and draw.random() < 0.3:
                made["symbols"] = draw.sample(_SYMBOLS, draw.randint(1, 4))
            return made
        if isinstance(schema, dict):
            return draw.choice([*[schema] * 10, kind, schema | {"scale": 1}])
        return draw.choice([schema, schema, *_NARROWER.get(kind, [])])

    def _renamed(self, schema: Any, chance: float) -> dict[str, Any]:
        """Without what a reader alone has, maybe under an alias, in another namespace, or under another name."""
        draw, name = self._draw, schema["name"]
        known = [*schema.get("aliases", []), *(["n.V2", "W1"] if draw.random() < 0.2 else [])]
        full = [each if "." in each else self._spaces[0] + each for each in known]
        free = [each for each in full if each not in self._writers.values()]
        if draw.random() < chance:
            name = draw.choice([*free, *free, "o." + name.rpartition(".")[2], self._name("O")])
        self._writers[schema["name"]] = name
        return {key: each for key, each in schema.items() if key not in ("aliases", "default")} | {"name": name}

    def _written_record(self, schema: Any) -> Any:
        draw, made = self._draw, self._renamed(schema, 0.4)
        fields = []
        for each in schema["fields"]:
            if draw.random() < (0.3 if "default" in each else 0.01):
                continue
            name = draw.choice(each["aliases"]) if draw.random() < 0.5 and "aliases" in each else each["name"]
            if name not in [other["name"] for other in fields]:
                fields.append({"name": name, "type": self._written(each["type"])})
        for n in range(draw.choice([0, 0, 1, 2])):
            fields.append({"name": f"more{n}", "type": self._more(made["name"])})
        if draw.random() < 0.3:
            draw.shuffle(fields)
        return made | {"fields": fields}

    def _more(self, above: str) -> Any:
        """What no reader asks for."""
        draw, leaf = self._draw, self._draw.choice(_AVRO_LEAVES)
        inner = {"type": "record", "name": self._name("M"), "fields": [{"name": "a", "type": leaf}]}
        choices = [leaf, ["null", above], inner, {"type": "array", "items": inner}, {"type": "map", "values": leaf}]
        return draw.choice(
            [*choices, ["null", leaf, inner], {"type": "enum", "name": self._name("M"), "symbols": ["A"]}]
        )

    def _union(self, made: list[Any]) -> Any:
        """A union of these and another branch."""
        flat = [each for branch in made for each in (branch if isinstance(branch, list) else [branch])]
        kinds = [each["type"] if isinstance(each, dict) else each for each in flat]
        more = self._draw.choice([each for each in ["null", *_AVRO_LEAVES] if each not in kinds])
        return [*flat, more] if self._draw.random() < 0.5 else [more, *flat]


_AVRO_DEFAULTS: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "int": [0, -7, (1 << 31) - 1],
    "long": [0, -7, (1 << 63) - 1],
    "float": [0, 1.5, -2, 0.1],
    "double": [0, 1.5, 1e300, -7],
    "bytes": ["", "a\u00ff", "\u0000"],
    "string": ["", "é", "😀"],
}


def avro_bytes(draw: Random, schema: Any, names: dict[str, Any], depth: int = 0) -> bytes:
    """A value of a schema by chance, as bytes."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        branches = [n for n, each in enumerate(schema) if depth < 6 or each == "null"] or [0]
        branch = draw.choice(branches)
        return zigzag(branch) + avro_bytes(draw, schema[branch], names, depth + 1)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return b"".join(avro_bytes(draw, each["type"], names, depth + 1) for each in schema["fields"])
    if kind in ("array", "map"):
        return _avro_blocks(draw, schema, names, depth)
    if kind == "enum":
        return zigzag(draw.randrange(len(schema["symbols"])))
    if kind == "fixed":
        return draw.randbytes(schema["size"])
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return zigzag(2) + draw.choice([b"\0\7", b"\xff\x9c"])
    return _AVRO_BYTES[kind](draw)


def _avro_blocks(draw: Random, schema: Any, names: dict[str, Any], depth: int) -> bytes:
    made, number = b"", 0
    for _ in range(draw.choice([0, 1, 1, 2]) if depth < 6 else 0):
        block, size = b"", draw.randint(1, 2)
        for _ in range(size):
            if "values" in schema:
                number += 1
                block += zigzag(2) + f"k{number}".encode()
            block += avro_bytes(draw, schema.get("items", schema.get("values")), names, depth + 1)
        made += (zigzag(size) if draw.random() < 0.7 else zigzag(-size) + zigzag(len(block))) + block
    return made + b"\0"


def _lengthy(data: bytes) -> bytes:
    return zigzag(len(data)) + data


_AVRO_BYTES: dict[str, Callable[[Random], bytes]] = {
    "null": lambda draw: b"",
    "boolean": lambda draw: draw.choice([b"\0", b"\1"]),
    "int": lambda draw: zigzag(draw.choice([each for each in _LONGS if -(1 << 31) <= each < 1 << 31])),
    "long": lambda draw: zigzag(draw.choice(_LONGS)),
    "float": lambda draw: struct.pack("<f", draw.choice([0.0, -0.0, 1.5, 0.1, 3e38, float("inf"), float("nan")])),
    "double": lambda draw: struct.pack("<d", draw.choice(_DOUBLES)),
    "bytes": lambda draw: _lengthy(draw.choice([b"", b"a", b"\xff", "é".encode(), b"\0\0"])),
    "string": lambda draw: _lengthy(draw.choice(["", "a", "é", "\0", "😀"]).encode()),
}


# -- Protobuf ------------------------------------------------------------------------------------------------

IMPORTED = (timestamp_pb2, duration_pb2, wrappers_pb2)
_VARINTS = (F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_SINT32, F.TYPE_SINT64, F.TYPE_BOOL)
_FIXED = {F.TYPE_FIXED32: 4, F.TYPE_SFIXED32: 4, F.TYPE_FLOAT: 4}
_FIXED |= {F.TYPE_FIXED64: 8, F.TYPE_SFIXED64: 8, F.TYPE_DOUBLE: 8}
_SCALARS = [*_VARINTS, *_FIXED, F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_ENUM]
_KEYS = [each for each in _SCALARS if each not in (F.TYPE_FLOAT, F.TYPE_DOUBLE, F.TYPE_BYTES, F.TYPE_ENUM)]
_WELL_KNOWN = ["Timestamp", "Duration", "Int64Value", "UInt32Value", "StringValue", "BoolValue", "DoubleValue"]
_VARINT, _I64, _LEN, _GROUP, _END, _I32 = range(6)


def protobuf_file(draw: Random) -> Any:
    """A file with a message M: of proto2, where enums are closed, or of proto3, where they are open."""
    proto3 = draw.random() < 0.5
    file = descriptor_pb2.FileDescriptorProto(
        name="fuzz.proto", package="fuzz", syntax="proto3" if proto3 else "proto2"
    )
    file.dependency.extend(each.DESCRIPTOR.name for each in IMPORTED)
    symbols = file.enum_type.add(name="E")
    symbols.options.allow_alias = True
    for name, number in (("A", 0), ("B", 2), ("C", 2), ("D", -1)):
        symbols.value.add(name=name, number=number)
    _message(draw, file.message_type.add(name="M"), ".fuzz.M", proto3, 2)
    return file


def _message(draw: Random, message: Any, path: str, proto3: bool, depth: int) -> None:
    if draw.random() < 0.5:
        message.oneof_decl.add(name="one")
        _field(draw, message, path, proto3, depth, 1, one=True)
        _field(draw, message, path, proto3, depth, 2, one=True)
    for number in range(3, draw.randint(4, 8)):
        _field(draw, message, path, proto3, depth, draw.choice([number, number * 1_000, (1 << 29) - number]), one=False)


def _field(draw: Random, message: Any, path: str, proto3: bool, depth: int, number: int, *, one: bool) -> None:
    made = message.field.add(name=f"f{len(message.field)}", number=number, type=draw.choice(_SCALARS))
    made.label = F.LABEL_REPEATED if not one and draw.random() < 0.3 else F.LABEL_OPTIONAL
    if not one and depth and draw.random() < 0.15:
        entry = message.nested_type.add(name=f"{made.name.upper()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=F.LABEL_OPTIONAL, type=draw.choice(_KEYS))
        _typed(draw, entry, entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL), path, proto3, depth - 1)
        made.type, made.type_name, made.label = F.TYPE_MESSAGE, f"{path}.{entry.name}", F.LABEL_REPEATED
        return
    _typed(draw, message, made, path, proto3, depth)
    if one:
        made.oneof_index = 0
    elif made.label == F.LABEL_REPEATED:
        if made.type in (*_VARINTS, *_FIXED, F.TYPE_ENUM) and draw.random() < 0.5:
            made.options.packed = draw.random() < 0.5
    elif proto3 and made.type != F.TYPE_MESSAGE and draw.random() < 0.4:
        made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{made.name}")
    elif not proto3 and draw.random() < 0.08:
        made.label = F.LABEL_REQUIRED
    elif not proto3 and draw.random() < 0.5:
        made.default_value = {F.TYPE_STRING: "s", F.TYPE_ENUM: "B", F.TYPE_BOOL: "true", F.TYPE_INT32: "7"}.get(
            made.type, ""
        )
        if not made.default_value:
            made.ClearField("default_value")


def _typed(draw: Random, message: Any, field: Any, path: str, proto3: bool, depth: int) -> None:
    field.type, pick = draw.choice(_SCALARS), draw.random()
    if pick < 0.15:
        field.type, field.type_name = F.TYPE_MESSAGE, f".google.protobuf.{draw.choice(_WELL_KNOWN)}"
    elif depth and pick < 0.4 and not message.options.map_entry:
        inner = message.nested_type.add(name=f"N{len(message.nested_type)}")
        _message(draw, inner, f"{path}.{inner.name}", proto3, depth - 1)
        field.type, field.type_name = F.TYPE_MESSAGE, f"{path}.{inner.name}"
    elif field.type == F.TYPE_ENUM:
        field.type_name = ".fuzz.E"


def protobuf_bytes(draw: Random, message: Any, depth: int = 0) -> bytes:
    """A message by chance: fields in any order and several times, packed or not, and such as it does not know."""
    parts = []
    for field in message.fields:
        times = 1 if field.is_required else draw.choice([0, 1, 1, 1, 2])
        parts += [_occurrence(draw, field, depth) for _ in range(times)]
    unknown = [0, 0, 0, 1, 2] if not message.GetOptions().map_entry else [0] * 19 + [1]
    parts += [_unknown(draw, 0) for _ in range(draw.choice(unknown))]
    draw.shuffle(parts)
    return b"".join(parts)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _lengthened(data: bytes) -> bytes:
    return varint(len(data)) + data


def _occurrence(draw: Random, field: Any, depth: int) -> bytes:
    if draw.random() < 0.02:
        return _unknown(draw, 0, field.number)
    if field.type == F.TYPE_MESSAGE:
        return _tag(field.number, _LEN) + _lengthened(protobuf_bytes(draw, field.message_type, depth + 1))
    if field.type in (F.TYPE_STRING, F.TYPE_BYTES):
        odd = [b"\xff"] if field.type == F.TYPE_BYTES or draw.random() < 0.1 else []
        return _tag(field.number, _LEN) + _lengthened(draw.choice([b"", b"a", "é😀".encode(), *odd]))
    wire = {4: _I32, 8: _I64}[_FIXED[field.type]] if field.type in _FIXED else _VARINT
    if field.is_repeated and draw.random() < 0.5:
        return _tag(field.number, _LEN) + _lengthened(b"".join(_scalar(draw, field) for _ in range(draw.randint(0, 3))))
    return _tag(field.number, wire) + _scalar(draw, field)


def _scalar(draw: Random, field: Any) -> bytes:
    if field.type in _FIXED:
        width = _FIXED[field.type]
        if field.type in (F.TYPE_FLOAT, F.TYPE_DOUBLE) and draw.random() < 0.7:
            return struct.pack("<f" if width == 4 else "<d", draw.choice([0.0, -0.0, 0.1, float("inf"), float("nan")]))
        return draw.choice([bytes(width), b"\xff" * width, draw.randbytes(width)])
    number = draw.choice([0, 2, -1] * 3 + [7]) if field.type == F.TYPE_ENUM else draw.choice([0, 1, 2, -2, *_LONGS])
    if field.containing_type.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        number = draw.choice([0, 1, 999_999_999, -1, 253_402_300_799])
    made = varint(number)
    # with more bytes than it needs; of ten bytes Java has another number where the last is zero
    return made if draw.random() < 0.95 or len(made) > 7 else made[:-1] + bytes([made[-1] | 0x80]) + b"\x80\0"


def _unknown(draw: Random, depth: int, number: int = 0) -> bytes:
    number = number or draw.choice([0] * (draw.random() < 0.1) + [100, 15_000, 1 << 20, (1 << 29) - 1])
    wire = draw.choice([_VARINT, _I64, _LEN, _I32, *([_GROUP] * 2 if depth < 3 else [])])
    body = {_VARINT: varint(draw.choice(_LONGS)), _I64: bytes(8), _LEN: _lengthened(b"ab"), _I32: bytes(4)}.get(wire)
    if body is None:
        inner = [_unknown(draw, depth + 1) for _ in range(draw.randint(0, 2))]
        body = b"".join(inner) + _tag(number, _END)
    return _tag(number, wire) + body
