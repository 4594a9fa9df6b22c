"""Formats of keys and values: how they are written as bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from dataclasses import field as own_field
from typing import Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.names import answered, answering

FormatName = Literal["bytes", "string", "short", "int", "long", "float", "double", "boolean", "uuid", "json"]
FORMAT_HINT = (
    'Take "bytes", "string", "short" (2 bytes), "int" (4 bytes), "long" (8 bytes), "float", "double", "boolean", '
    '"uuid", wm.decimal(10, 2), wm.json("id long, name string"), wm.avro(...), wm.protobuf(...) or wm.json_schema(...).'
)
SCHEMA_HINT = 'Name fields and types: wm.json("id long, name string"), or give a StructType.'
_MOST_DIGITS = 38


@answering
@dataclass(frozen=True)
class Format:
    """How a key or a value is written as bytes.

    Parameters
    ----------
    kind : "bytes", "string" (UTF-8), "short", "int" or "long" (2, 4 or 8 bytes big-endian), "float" or "double" (IEEE,
        4 or 8 bytes big-endian), "boolean" (one byte), "uuid" (its text), or "json". Those with parameters of their own
        are made by functions: `watersmeet.decimal`, `watersmeet.time_windowed`, `watersmeet.session_windowed`.
    schema : of json: a schema in DDL ("id long, name string") or a Spark type; a sink needs none.
    """

    kind: str
    schema: Any = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(FormatName):
            raise _no_format(self.kind)
        if self.kind != "json" and self.schema is not None:
            what = f"The format {self.kind!r} takes no schema."
            raise TopologyError(what, given=repr(self.schema), hint="Leave it out.")
        if self.schema is not None and not is_schema(self.schema):
            raise TopologyError(f"This is not a schema: {self.schema!r:.200}.", hint=SCHEMA_HINT)

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
            return Format(given)
        raise _no_format(given)

    @property
    def gives_time(self) -> bool:
        """Whether a record's event time is in its value, and not the time that Kafka has of it."""
        return False

    @property
    def names_transactions(self) -> bool:
        """Whether a value, read as JSON, names the transaction of a database that it belongs to."""
        return False

    def of_topic(self, topic: str, part: str) -> Format:
        """The same of a topic's keys or values, where that makes a difference."""
        return self

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        """Why a source cannot read it: what is wrong, what was given, and a hint. None: it can."""
        if self.kind == "json" and self.schema is None:
            return "JSON is read with a schema", "json without a schema", SCHEMA_HINT
        return None

    @property
    def unwritable(self) -> str | None:
        """Why no sink can write it; None: sinks can."""
        return None

    @property
    def placed_by(self) -> Format | None:
        """Of keys, the format of what within them decides a record's partition; None: all of it does."""
        return None

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """Why a source drops records of the format that are well-formed."""
        return ()

    def __str__(self) -> str:
        if self.schema is None:
            return self.kind
        return f"{self.kind}({self.schema if isinstance(self.schema, str) else self.schema.simpleString()})"


@dataclass(frozen=True)
class WrappingFormat(Format):
    """A format around another one.

    Parameters
    ----------
    inner : the format within.
    """

    inner: Format = own_field(default_factory=lambda: Format("bytes"))

    @property
    def field(self) -> str | None:
        """The field of its values that the format within writes; None: it is no struct of parts."""
        return None

    @property
    def gives_time(self) -> bool:
        """Whether a record's event time is in its value, and not the time that Kafka has of it."""
        return False

    @property
    def names_transactions(self) -> bool:
        """Whether a value, read as JSON, names the transaction of a database that it belongs to."""
        return False

    def of_topic(self, topic: str, part: str) -> Format:
        """As of each format: that of what is within."""
        return replace(self, inner=self.inner.of_topic(topic, part))

    @property
    def unreadable(self) -> tuple[str, str, str] | None:
        """As of each format: that of what is within."""
        return self.inner.unreadable


@dataclass(frozen=True)
class PlacedFormat(WrappingFormat):
    """Values beside the partitions that a partitioner gives them: structs of `value` and `partition`.

    Workers take the partition off again before they write the value (`_worker/formats/placed.py`).

    Parameters
    ----------
    by_type : whether the format of the value follows from its type; else it is `inner`.
    """

    kind: str = "placed"
    by_type: bool = False

    def __post_init__(self) -> None:
        """Nothing is to be checked: nobody writes it down."""

    @property
    def field(self) -> str | None:
        """As of each format."""
        return "value"

    def __str__(self) -> str:
        return f"placed({'by type' if self.by_type else self.inner})"


@dataclass(frozen=True)
class DecimalFormat(Format):
    """Decimals as Kafka Connect's logical type writes them; see `decimal`."""

    kind: str = "decimal"
    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        digits: tuple[Any, Any] = (self.precision, self.scale)
        whole = {type(number) for number in digits} == {int}
        if not whole or not 1 <= self.precision <= _MOST_DIGITS or not 0 <= self.scale <= self.precision:
            raise TopologyError(
                f"A decimal needs 1 to {_MOST_DIGITS} digits, and not more of them behind the point.",
                given=f"decimal({self.precision!r}, {self.scale!r})",
                hint="wm.decimal(10, 2): ten digits, two of them behind the point.",
            )

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@answered
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


@answered
def decimal(precision: int, scale: int = 0) -> Format:
    """The format of decimals as Kafka Connect's `Decimal` writes them: Kafka itself has no serializer of decimals.

    The bytes are the number without its point in two's complement, the highest byte first and no byte more than it
    takes, as Java's `BigInteger.toByteArray` gives it; where the point stands is not written.

    Parameters
    ----------
    precision : digits in all, 1 to 38.
    scale : digits behind the point.

    Examples
    --------
    >>> str(decimal(10, 2))
    'decimal(10, 2)'
    """
    return DecimalFormat(precision=precision, scale=scale)


def _no_format(given: Any) -> TopologyError:
    """The error for what is no format."""
    called = getattr(given, "__name__", "") if callable(given) else ""
    if called in _MADE:
        return TopologyError(f"Unknown format: wm.{called} is a function.", hint=f"Call it: {_MADE[called]}.")
    if hasattr(given, "simpleString"):
        kind = f"{type(given).__name__}: {given.simpleString():.160}"
        return TopologyError(f"Unknown format: a {kind}.", hint="It is the schema of one: wm.json(schema).")
    name = str(given).lower() if isinstance(given, str) else called
    near = _CALLED.get(name, name)
    first = f'Did you mean "{near}"? ' if near in get_args(FormatName) else _of_types(name)
    return TopologyError(f"Unknown format {given!r:.160}.", hint=first + FORMAT_HINT)


def _of_types(name: str) -> str:
    """The hint for the name of a type of Spark's that is no format."""
    if name in _TIMES:
        return f'A {name} is written as {_TIMES[name]}, or is a field of JSON, wm.json("at {name}"). '
    digits = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    if digits is not None:
        return f"Write wm.decimal({digits[1]}, {digits[2]}). "
    return f'Write wm.json("{name}"). ' if name.startswith(("struct<", "array<", "map<")) else ""


_TIMES = {
    "timestamp": '"long", ms since 1970, with F.unix_millis(...) and F.timestamp_millis(...)',
    "date": '"int", days since 1970, with F.unix_date(...) and F.date_from_unix_date(...)',
}
_MADE = {
    "json": "wm.json('id long, name string')",
    "decimal": "wm.decimal(10, 2)",
    "avro": "wm.avro(schema)",
    "protobuf": "wm.protobuf(schema, message='Order')",
    "json_schema": "wm.json_schema(schema)",
}
"""How the functions that make formats are called."""
_CALLED = {
    **dict.fromkeys(("integer", "int32"), "int"),
    **dict.fromkeys(("bigint", "int64"), "long"),
    **dict.fromkeys(("str", "text", "varchar", "utf8"), "string"),
    **dict.fromkeys(("byte", "binary", "bytearray"), "bytes"),
    **dict.fromkeys(("bool",), "boolean"),
    "smallint": "short",
    "real": "float",
}
"""Formats by the names of SQL and Python."""


def is_schema(given: Any) -> bool:
    """Whether it is a schema by its looks: a text, or a type of Spark's."""
    return (isinstance(given, str) and bool(given.strip())) or hasattr(given, "simpleString")
