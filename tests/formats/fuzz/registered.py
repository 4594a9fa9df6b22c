"""Values of Avro behind the number of a registered schema, of which some hold themselves, and some double."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

import watersmeet as wm
from dev.registry import SchemaRegistryServer
from tests.formats.fuzz.draws import Draw, Subject, zigzag
from watersmeet._worker.formats import schemas

A = {"name": "a", "type": "int"}


def record(*fields: Any, name: str = "n") -> Any:
    """A schema of records."""
    return {"type": "record", "name": name, "fields": list(fields)}


READ = record(A)
LIST = record(A, {"name": "next", "type": ["null", "n"]})
TREE = record(A, {"name": "more", "type": {"type": "array", "items": "n"}})
MAPS = record(A, {"name": "m", "type": {"type": "map", "values": "n"}})
EMPTIES = record({"name": "x", "type": {"type": "array", "items": record(name="e")}}, A)
NULLS = record({"name": "x", "type": {"type": "array", "items": "null"}}, A)
NEWER = record({"name": "b", "type": "string"}, A)
MILLIS = record({"name": "a", "type": {"type": "int", "logicalType": "date"}})
DEEP = (1, 2, 50, 200, 255, 256, 300, 1_500, 20_000)
"""Records within one another; the first five are within the budget."""
WITHIN = 5


def doubled(times: int) -> Any:
    """A schema of whose values each step has two of the one before: more of them than any memory holds."""
    made: Any = {"type": "record", "name": "d0", "fields": []}
    for n in range(1, times):
        fields = [{"name": "x", "type": made}, {"name": "y", "type": f"d{n - 1}"}]
        made = {"type": "record", "name": f"d{n}", "fields": fields}
    return {"type": "record", "name": "n", "fields": [{"name": "a", "type": "int"}, {"name": "z", "type": made}]}


def nested(depth: int) -> Any:
    """A schema of so many records within one another, each of its own name."""
    made: Any = "int"
    for n in range(depth):
        made = {"type": "record", "name": f"r{n}" if n < depth - 1 else "n", "fields": [{"name": "a", "type": made}]}
    return made


def framed(number: int, data: bytes) -> bytes:
    """Bytes behind a schema's number."""
    return b"\0" + number.to_bytes(4, "big") + data


def encoded(schema: Any, value: Any) -> bytes:
    """What fastavro writes."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def _list(depth: int) -> bytes:
    return b"\2" + b"\2\2" * (depth - 1) + b"\0"


def _tree(depth: int) -> bytes:
    return b"\2" + b"\2\2" * (depth // 2) + b"\0" * (depth // 2 + 1)


def _maps(depth: int) -> bytes:
    return b"\2" + b"\2\2k\2" * (depth // 2) + b"\0" * (depth // 2 + 1)


@contextmanager
def registry() -> Iterator[tuple[SchemaRegistryServer, dict[str, int]]]:
    """A registry, and the numbers of the writers' schemas."""
    with SchemaRegistryServer().running() as server:
        schemas.forget()
        texts = {"list": LIST, "tree": TREE, "maps": MAPS, "empties": EMPTIES, "nulls": NULLS, "newer": NEWER}
        texts |= {"read": READ, "millis": MILLIS, "doubled": doubled(40), "nested": nested(80), "deep": nested(250)}
        numbers = {name: server.add(f"{name}-value", schema) for name, schema in texts.items()}
        numbers["garbage"] = server.add("garbage-value", "{")
        numbers["brackets"] = server.add("brackets-value", "[" * 100_000)
        numbers["proto"] = server.add("proto-value", 'syntax = "proto3";', "PROTOBUF")
        yield server, numbers


def subject(draw: Draw, server: SchemaRegistryServer, numbers: dict[str, int]) -> Subject:
    """What a source reads that has a registry."""
    form = wm.avro(json.dumps(READ), registry=wm.SchemaRegistry(server.url, max_retries=0))
    good = [framed(numbers["read"], b"\2"), framed(numbers["newer"], encoded(NEWER, {"b": "x", "a": 1}))]
    good += [framed(numbers["list"], _list(n)) for n in DEEP[:WITHIN]]
    good += [framed(numbers["tree"], _tree(n)) for n in DEEP[:WITHIN]]
    good += [framed(numbers["maps"], _maps(n)) for n in DEEP[:WITHIN]]
    good += [framed(numbers[name], zigzag(3) + b"\0\2") for name in ("empties", "nulls")]
    bad = [framed(numbers["list"], _list(n)) for n in DEEP[WITHIN + 1 :]]
    bad += [framed(numbers["tree"], _tree(2 * n)) for n in DEEP[WITHIN + 1 :]]
    bad += [
        framed(numbers[name], zigzag(n) + b"\0\2") for name in ("empties", "nulls") for n in (10**6, 3 * 10**7, 1 << 60)
    ]
    bad += [framed(n, b"\2") for n in (*numbers.values(), 10**6, (1 << 31) - 1, (1 << 31), (1 << 32) - 1)]
    values = pa.array([{"a": 1}] * len(good), pa.struct([pa.field("a", pa.int32())]))
    bad = [each for each in bad if each != good[0]]
    return Subject("registered", schemas.serde_of(form, None), good, values, bad)
