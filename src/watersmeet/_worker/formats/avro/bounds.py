"""The bounds of the values of an Avro schema: its own text, or only the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet._worker.formats.avro.types import Schema, base, inner_of, kind_of, record_name


def unbounded(schema: Schema, names: Mapping[str, Any]) -> bool:
    """Whether values of a whole schema may have more levels, or more values, than follow from it or from their bytes.

    That is so where it holds itself, and where what is repeated has parts that take no bytes.
    """
    return _unbounded(schema, names, (), repeated=False)


def _unbounded(schema: Schema, names: Mapping[str, Any], above: tuple[str, ...], *, repeated: bool) -> bool:
    if isinstance(schema, list):
        # null takes a byte there: the branch's number
        return any(_unbounded(each, names, above, repeated=repeated) for each in schema if each != "null")
    schema = base(schema, names)
    kind, name = kind_of(schema), record_name(schema)
    if name in above:
        return True
    if repeated and (kind == "null" or (kind == "fixed" and not schema["size"]) or schema_is_empty(schema)):
        return True
    inner = [] if isinstance(schema, str) else inner_of(schema)
    within = above if name is None else (*above, name)
    return any(_unbounded(each, names, within, repeated=repeated or kind in ("array", "map")) for each in inner)


def schema_is_empty(schema: Schema) -> bool:
    """Whether it is a record without fields."""
    return kind_of(schema) in ("record", "error") and not schema["fields"]
