"""Fields of JSON objects that a type does not name, for Arrow's parser: from a few of the texts, bounded.

The parser could find out by itself; then each name that one text of thousands has becomes a column of thousands of
rows, and the writers of the texts choose the names. So they are taken from the first texts, as long as they are few.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

_TEXTS = 8
"""So many are looked at."""
_MOST_NAMES = 128
"""With more of them, or of arrays in them, the texts are read one by one."""
_MOST_BYTES = 1 << 16
"""Of one of the texts that are looked at."""


class _Unlike(Exception):
    """The texts are too different, or have too many names."""


def widened(schema: pa.Schema, texts: pa.Array) -> pa.Schema | None:
    """A schema with the names that the first texts have and it has not, behind its own; None if it is unknown.

    Parameters
    ----------
    texts : UTF-8, none null.
    """
    sample = texts[:_TEXTS].to_pylist()
    if any(len(text) > _MOST_BYTES for text in sample):
        return None
    try:
        found = [json.loads(text) for text in sample]
        made = _Names().struct(pa.struct(list(schema)), found)
    except (_Unlike, ValueError, RecursionError):
        return None
    return pa.schema(list(made))


class _Names:
    """Types of what is there, as long as the names are few."""

    def __init__(self) -> None:
        self._left = _MOST_NAMES

    def struct(self, known: pa.StructType, objects: list[Any]) -> pa.StructType:
        """A type of objects, wider by what they have."""
        fields = []
        for field in known:
            given = [each[field.name] for each in objects if each.get(field.name) is not None]
            fields.append(pa.field(field.name, self._known(field.type, given), field.nullable))
        more = dict.fromkeys(name for each in objects for name in each if known.get_field_index(name) < 0)
        self._count(len(more))
        return pa.struct([*fields, *(pa.field(n, self._type([e[n] for e in objects if n in e])) for n in more)])

    def _known(self, kind: pa.DataType, given: list[Any]) -> pa.DataType:
        """A type that the schema has, where it is one of objects wider by what they have."""
        if pa.types.is_struct(kind):
            return self.struct(kind, self._all(dict, given))
        if pa.types.is_list(kind):
            return pa.list_(self._known(kind.value_type, self._elements(given)))
        return kind

    def _type(self, given: list[Any]) -> pa.DataType:
        """A type of values that no schema names; a number is any, since nothing but its being one is looked at."""
        values = [each for each in given if each is not None]
        if not values:
            return pa.null()
        if isinstance(values[0], dict):
            return self.struct(pa.struct([]), self._all(dict, values))
        if isinstance(values[0], list):
            self._count(1)
            return pa.list_(self._type(self._elements(values)))
        if isinstance(values[0], bool):
            return pa.bool_()
        return pa.string() if isinstance(values[0], str) else pa.float64()

    def _count(self, types: int) -> None:
        self._left -= types
        if self._left < 0:
            raise _Unlike

    def _elements(self, given: list[Any]) -> list[Any]:
        return [each for value in self._all(list, given) for each in value if each is not None]

    def _all(self, wanted: type, given: list[Any]) -> list[Any]:
        if any(type(each) is not wanted for each in given):
            raise _Unlike
        return given
