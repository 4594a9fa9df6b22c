"""Of which types keys and values are: the texts of a history, coded into doubles, decimals, bytes, arrays and structs.

The oracle knows names of keys and texts of values; the engine gets what codes them, one to one. What comes out of the
engine must be what codes some text, in every field and to the bit (a NaN apart, of which there is one): so a value that
was mixed of two others, rounded, or lost a null within is found. Keys are those that go wrong: NaN, 0.0 beside -0.0,
the empty array and one with a null, a struct of nulls, decimals written with several scales. Law: two keys are one
where their serialized bytes are, and these give the order of keys.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any
from zlib import crc32

import pyarrow as pa

from proof.oracle.records import Windowed
from watersmeet.io.formats import Format

NAN, INFINITY = float("nan"), float("inf")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000007))[0]
"""A NaN of other bits: the same key, and the same number."""

_DECIMAL = pa.decimal128(30, 2)
TYPES: dict[str, pa.DataType] = {
    "double": pa.float64(),
    "decimal": _DECIMAL,
    "binary": pa.binary(),
    "array": pa.list_(pa.string()),
    "struct": pa.struct([("t", pa.string()), ("d", pa.float64()), ("a", pa.list_(pa.int32()))]),
}
_RECORD = pa.struct(
    [
        ("text", pa.string()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(12, 3)),
        ("bytes", pa.binary()),
        ("parts", pa.list_(pa.string())),
        ("within", pa.struct([("n", pa.int32()), ("flag", pa.bool_())])),
        ("by_name", pa.map_(pa.string(), pa.float64())),
    ]
)
KEYS = ("double", "decimal", "binary", "array", "struct")
VALUES = ("string", "double", "decimal", "binary", "array", "record")

_KEYS_OF: dict[str, dict[str, Any]] = {
    "double": {"a": NAN, "b": -0.0, "a\x00": 0.0, "": -INFINITY, "é": 1.5},
    "decimal": {"a": Decimal("1.00"), "b": Decimal("-1.00"), "a\x00": Decimal("0.00"), "": Decimal(10**27)},
    "binary": {"a": b"\x00", "b": b"\x00\x00", "a\x00": b"\xff", "": b""},
    "array": {"a": [], "b": [None], "a\x00": [None, None], "": [""], "é": ["é", None]},
    "struct": {
        "a": {"t": None, "d": NAN, "a": None},
        "b": {"t": None, "d": None, "a": None},
        "a\x00": {"t": "", "d": -0.0, "a": []},
        "": {"t": "", "d": 0.0, "a": []},
        "é": {"t": None, "d": 0.0, "a": [None]},
    },
}
_VALUES_OF: dict[str, dict[str, Any]] = {
    "double": {"": NAN, "1": -0.0, "2": 0.0, "3": INFINITY, "x": 5e-324},
    "decimal": {"": Decimal("0.00"), "1": Decimal("-0.01")},
    "binary": {},
    "array": {},
    "record": {},
}


@dataclass(frozen=True)
class NamedKey:
    """A key that the oracle knows by its name: the one of this type that the name stands for."""

    kind: str
    name: str

    @property
    def serialized(self) -> bytes:
        """Its bytes, which decide the order in every store."""
        return _bytes(TYPES[self.kind], coded_key(self))


class ArrowFormat(Format):
    """A format of a topology without Spark: an Arrow type."""

    def __init__(self, arrow: pa.DataType) -> None:
        object.__setattr__(self, "kind", "arrow")
        object.__setattr__(self, "schema", arrow)


@dataclass(frozen=True)
class TypeShape:
    """The types of the keys and values of a topology.

    Parameters
    ----------
    keys : "string", "long", or one of `KEYS`.
    values : one of `VALUES`; with keys of text: "string".
    """

    keys: str = "string"
    values: str = "string"

    @cached_property
    def key_type(self) -> pa.DataType:
        """Of keys, in Arrow."""
        return {"string": pa.string(), "long": pa.int64(), **TYPES}[self.keys]

    @cached_property
    def value_type(self) -> pa.DataType:
        """Of values, in Arrow."""
        return {"string": pa.string(), "record": _RECORD, **TYPES}[self.values]

    def key_format(self) -> Format:
        """How a source of a topology without Spark reads keys."""
        return ArrowFormat(self.key_type) if self.keys in TYPES else Format(self.keys)

    def value_format(self) -> Format:
        """How a source of a topology without Spark reads values."""
        return ArrowFormat(self.value_type) if self.values != "string" else Format("string")

    def key(self, given: Any) -> Any:
        """A record's key as the oracle has it."""
        return NamedKey(self.keys, given) if self.keys in TYPES and given is not None else given

    def piped_key(self, given: Any) -> Any:
        """A record's key as the engine gets it, which may be written otherwise than functions write it."""
        coded = self.coded(self.key(given))
        if isinstance(coded, Decimal):
            return coded.normalize()
        return OTHER_NAN if coded != coded else coded

    def coded(self, given: Any) -> Any:
        """What stands in Arrow for a key, a value, a list of these or a struct of both."""
        if isinstance(given, NamedKey):
            return coded_key(given)
        if isinstance(given, str):
            return given if self.values == "string" else _coded_value(self.values, given)
        if isinstance(given, list):
            return [self.coded(each) for each in given]
        return {name: self.coded(each) for name, each in given.items()} if isinstance(given, dict) else given

    def read_key(self, given: Any) -> Any:
        """The key that an output has, as the oracle has it."""
        if isinstance(given, dict) and set(given) == {"key", "start", "end"}:
            return Windowed(self.read_key(given["key"]), given["start"], given["end"])
        return self._read(given, "key", self.keys)

    def read_value(self, given: Any) -> Any:
        """The value that an output has, as the oracle has it."""
        return self._read(given, "value", self.values)

    def reader(self, kind: pa.DataType) -> Callable[[Any], Any]:
        """What reads the elements of an array of this type, that a function is called with."""
        if kind == self.value_type:
            return self.read_value
        return self.read_key if kind == self.key_type else lambda given: given

    def plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of texts as one of what codes them."""
        if self.values == "string":
            return function
        return lambda *values: self.coded(function(*(self.read_value(value) for value in values)))

    def initial(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """What an aggregate begins with."""
        if self.values == "string":
            return function
        return lambda: pa.scalar(self.coded(function()), self.value_type)

    def size(self, given: str | None) -> int:
        """What a value counts for in a buffer that is limited by bytes (docs/semantics/suppress.md)."""
        return _size(self.value_type, self.coded(given))

    def _read(self, given: Any, what: str, kind: str) -> Any:
        if given is None or kind in ("string", "long"):
            return given
        known = _TEXTS.get((what, kind, frozen(given)))
        if known is None:
            raise ValueError(f"nothing is coded as this {what} of type {kind}: {given!r}")
        return NamedKey(kind, known) if what == "key" else known


PLAIN = TypeShape()
_TEXTS: dict[tuple[str, str, Hashable], str] = {}
"""By (key or value, type, what codes it) the text that is coded."""


def coded_key(key: NamedKey) -> Any:
    """What a key is in Python."""
    known = _KEYS_OF[key.kind]
    made = known[key.name] if key.name in known else _KEY_CODES[key.kind](key.name)
    return _noted("key", key.kind, key.name, made)


def _coded_value(kind: str, text: str) -> Any:
    known = _VALUES_OF[kind]
    return _noted("value", kind, text, known[text] if text in known else _VALUE_CODES[kind](text))


def _noted(what: str, kind: str, text: str, made: Any) -> Any:
    other = _TEXTS.setdefault((what, kind, frozen(made)), text)
    if other != text:
        raise ValueError(f"{text!r} and {other!r} are coded alike. Hint: take more bits for the type {kind}")
    return made


def _number(text: str) -> int:
    """A number as good as different for each text."""
    content = text.encode()
    return (crc32(content) << 16) + (crc32(content[::-1]) & 0xFFFF)


_KEY_CODES: dict[str, Callable[[str], Any]] = {
    "double": lambda text: _number(text) + 0.5,
    "decimal": lambda text: Decimal(_number(text)).scaleb(-2),
    "binary": lambda text: b"k" + text.encode(),
    "array": lambda text: ["k", text],
    "struct": lambda text: {"t": text, "d": None, "a": [len(text), None]},
}
_VALUE_CODES: dict[str, Callable[[str], Any]] = {
    "double": lambda text: _number(text) + 0.5,
    "decimal": lambda text: Decimal(_number(text)).scaleb(-2),
    "binary": lambda text: text.encode()[::-1],
    "array": lambda text: [each or None for each in text.split("|")] if text else [],
    "record": lambda text: {
        "text": text or None,
        "double": (NAN, -0.0, 0.0, -INFINITY, None, 1 / 3)[crc32(text.encode()) % 6],
        "decimal": Decimal(len(text)).scaleb(-3) if len(text) % 2 else None,
        "bytes": text.encode()[:3],
        "parts": [part or None for part in text.split("|")[:3]] if text else None,
        "within": {"n": len(text), "flag": None} if len(text) % 3 else None,
        "by_name": [(text[:2], NAN)] if len(text) % 4 else [],
    },
}


def frozen(given: Any) -> Hashable:
    """A value by its bits, with one NaN: what can be compared and looked up."""
    if isinstance(given, float):
        return "double", b"NaN" if given != given else struct.pack(">d", given)
    if isinstance(given, Decimal):
        return "decimal", int(given.scaleb(6))
    if isinstance(given, dict):
        # a map is pairs in Arrow, and a dictionary where plain functions see it
        fields = {**given, "by_name": list(given["by_name"].items())} if _has_map(given) else given
        return "fields", tuple((name, frozen(value)) for name, value in fields.items())
    if isinstance(given, list | tuple):
        return "items", tuple(map(frozen, given))
    return type(given).__name__, given


def _has_map(record: dict[str, Any]) -> bool:
    return isinstance(record.get("by_name"), dict)


def _bytes(kind: pa.DataType, given: Any) -> bytes:
    """The serialized form: within structs and arrays each element has a flag and its length before it."""
    if pa.types.is_floating(kind):
        return struct.pack(">d", NAN if given != given else given)
    if pa.types.is_decimal(kind):
        return int(given.scaleb(kind.scale)).to_bytes(16, "big", signed=True)
    if pa.types.is_integer(kind):
        return struct.pack(">i", given)
    if pa.types.is_struct(kind):
        return b"".join(_framed(field.type, given[field.name]) for field in kind)
    if pa.types.is_list(kind):
        return b"".join(_framed(kind.value_type, each) for each in given)
    return bytes(given) if isinstance(given, bytes) else given.encode()


def _size(kind: pa.DataType, given: Any) -> int:
    """Text and bytes have their length and 4, a fixed width this and 1, a struct 1 beside its fields, an array 4."""
    if pa.types.is_struct(kind):
        return 1 + sum(_size(field.type, None if given is None else given[field.name]) for field in kind)
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return 4 + sum(_size(pair, {"key": key, "value": value}) for key, value in given or ())
    if pa.types.is_list(kind):
        return 4 + sum(_size(kind.value_type, each) for each in given or ())
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return 4 + len(given.encode() if isinstance(given, str) else given or b"")
    return 1 + int(kind.bit_width) // 8


def _framed(kind: pa.DataType, given: Any) -> bytes:
    content = b"" if given is None else _bytes(kind, given)
    return struct.pack(">bi", given is not None, len(content)) + content
