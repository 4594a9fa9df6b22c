"""Formats of keys and values: how they are written as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from millpond.errors import TopologyError

FormatName = Literal["bytes", "string", "int", "long", "json"]
FORMAT_HINT = 'Take "bytes", "string", "int" (4 bytes), "long" (8 bytes) or mp.json("id long, name string").'
SCHEMA_HINT = 'Name fields and types: mp.json("id long, name string"), or give a StructType.'


@dataclass(frozen=True)
class Format:
    """How a key or a value is written as bytes.

    Parameters
    ----------
    kind : "bytes", "string" (UTF-8), "int" (4 bytes big-endian), "long" (8 bytes big-endian) or "json".
    schema : of json: a schema in DDL ("id long, name string") or a Spark type; a sink needs none.
    """

    kind: str
    schema: Any = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FormatName):
            raise TopologyError("There is no such format.", given=repr(self.kind), hint=FORMAT_HINT)
        if self.kind != "json" and self.schema is not None:
            what = f"The format {self.kind!r} takes no schema."
            raise TopologyError(what, given=repr(self.schema), hint="Leave it out.")
        if self.schema is not None and not _is_schema(self.schema):
            raise TopologyError("This is not a schema.", given=repr(self.schema), hint=SCHEMA_HINT)

    @classmethod
    def of(cls, given: Any) -> Format:
        """The format that a user means: a Format, or the name of one.

        Raises
        ------
        TopologyError : neither.
        """
        if isinstance(given, Format):
            return given
        if isinstance(given, str):
            return cls(given)
        raise TopologyError("There is no such format.", given=repr(given), hint=FORMAT_HINT)

    def __str__(self) -> str:
        if self.schema is None:
            return self.kind
        return f"json({self.schema if isinstance(self.schema, str) else self.schema.simpleString()})"


def json(schema: Any = None) -> Format:
    """The format of JSON texts, read strictly (decision 13); a source needs their schema, a sink takes what comes.

    Parameters
    ----------
    schema : the fields in DDL ("id long, name string"), or a Spark type such as a StructType.

    Examples
    --------
    >>> str(json("id long, name string"))
    'json(id long, name string)'
    """
    return Format("json", schema)


def _is_schema(given: Any) -> bool:
    return (isinstance(given, str) and bool(given.strip())) or hasattr(given, "simpleString")
