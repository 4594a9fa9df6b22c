"""What Avro's own resolution does not look at: whether a writer's value means what the reader takes it for.

Resolution by itself reads milliseconds as microseconds, since it ignores logical types (law 6).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from watersmeet._worker.formats.avro.types import Schema, base, kind_of, logical_of, names_of

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


def _differs(writer: Schema, reader: Schema, named: _Named, place: str) -> str | None:
    written, read, _ = named
    writer, reader = base(writer, written), base(reader, read)
    if isinstance(writer, list) or isinstance(reader, list):
        branches = writer if isinstance(writer, list) else [writer]
        found = (_differs(each, _partner(base(each, written), reader, read), named, place) for each in branches)
        return next((why for why in found if why), None)
    kinds = kind_of(writer), kind_of(reader)
    if kinds == ("record", "record"):
        return _differs_in_fields(writer, reader, named, place)
    for kind, inner in (("array", "items"), ("map", "values")):
        if kinds == (kind, kind):
            return _differs(writer[inner], reader[inner], named, f"{place}[]")
    meanings = tuple(_meaning(each) for each in (writer, reader))
    if meanings[0] == meanings[1] or "null" in kinds:
        return None
    return f"{place} is {meanings[0] or kinds[0]} there, and read as {meanings[1] or kinds[1]}"


def _partner(writer: Schema, reader: Schema, read: Any) -> Schema:
    """The reader's branch that a writer's is read by."""
    if not isinstance(reader, list):
        return reader
    kind = kind_of(writer)
    branches = {kind_of(base(each, read)): each for each in reader}
    return next((branches[each] for each in (kind, *_PROMOTED.get(kind, ())) if each in branches), "null")


def _differs_in_fields(writer: Any, reader: Any, named: _Named, place: str) -> str | None:
    pair = writer["name"], reader["name"]
    if pair in named.seen:
        return None
    named.seen.add(pair)
    theirs = {each["name"]: each["type"] for each in writer["fields"]}
    for field in reader["fields"]:
        name = next((each for each in (field["name"], *field.get("aliases", ())) if each in theirs), None)
        if name is not None:
            why = _differs(theirs[name], field["type"], named, f"{place}.{field['name']}")
            if why:
                return why
    return None


def _meaning(schema: Schema) -> str:
    logical = logical_of(schema)
    if logical not in _MEANINGS:
        return ""
    return f"decimal with scale {schema.get('scale', 0)}" if logical == "decimal" else logical
