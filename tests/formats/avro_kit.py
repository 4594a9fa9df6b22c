"""Random schemas of Avro with values of theirs, as Arrow has them."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

NAMES = itertools.count()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = st.integers(-(10**15), 10**15)


def _record(draw: Any, depth: int) -> Any:
    fields = [{"name": f"f{n}", "type": draw(schemas(depth - 1))} for n in range(draw(st.integers(1, 4)))]
    return {"type": "record", "name": f"R{next(NAMES)}", "fields": fields}


@st.composite
def schemas(draw: Any, depth: int = 2, nullable: bool = True) -> Any:
    """Schemas that Spark has a type for."""
    leaves = ["boolean", "int", "long", "float", "double", "bytes", "string"]
    kinds = ["leaf", "enum", "fixed", "decimal", "fixed decimal", "date", "time", "uuid"]
    kind = draw(st.sampled_from(kinds + (["record", "array", "map"] if depth else [])))
    made: Any
    if kind == "leaf":
        made = draw(st.sampled_from(leaves))
    elif kind == "record":
        made = _record(draw, depth)
    elif kind == "array":
        made = {"type": "array", "items": draw(schemas(depth - 1))}
    elif kind == "map":
        made = {"type": "map", "values": draw(schemas(depth - 1))}
    else:
        made = _special(draw, kind)
    return ["null", made] if nullable and draw(st.booleans()) else made


def _special(draw: Any, kind: str) -> Any:
    number = next(NAMES)
    if kind == "enum":
        return {"type": "enum", "name": f"E{number}", "symbols": ["A", "B", "C"]}
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{number}", "size": 3}
    precision = draw(st.integers(1, 38))
    decimal = {"logicalType": "decimal", "precision": precision, "scale": draw(st.integers(0, precision))}
    if kind == "decimal":
        return {"type": "bytes", **decimal}
    if kind == "fixed decimal":
        return {"type": "fixed", "name": f"D{number}", "size": 17, **decimal}
    if kind == "date":
        return {"type": "int", "logicalType": "date"}
    if kind == "uuid":
        return {"type": "string", "logicalType": "uuid"}
    zone, unit = draw(st.sampled_from(["", "local-"])), draw(st.sampled_from(["millis", "micros"]))
    return {"type": "long", "logicalType": f"{zone}timestamp-{unit}"}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema, as `pa.array` takes them."""
    if isinstance(schema, list):
        return st.none() | values(schema[1])
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    kind = schema if isinstance(schema, str) else schema["type"]
    if logical == "decimal":
        most = 10 ** schema["precision"] - 1
        digits = st.integers(-most, most)
        return digits.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -schema["scale"])))
    if logical == "date":
        return st.integers(-700_000, 2_900_000).map(lambda n: date(1970, 1, 1) + timedelta(days=n))
    if "timestamp" in logical:
        step = 1000 if logical.endswith("millis") else 1
        zone = None if logical.startswith("local") else UTC
        return MICROS.map(lambda n: (EPOCH + timedelta(microseconds=n // step * step)).replace(tzinfo=zone))
    if kind == "record":
        return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=3)
    if kind == "map":
        keys = st.text(max_size=3) | st.sampled_from(["-type", "-name"])
        return st.dictionaries(keys, values(schema["values"]), max_size=3).map(lambda made: list(made.items()))
    return {**_LEAVES, "enum": st.sampled_from("ABC"), "fixed": st.binary(min_size=3, max_size=3)}[kind]


_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=4),
    "string": st.text(max_size=4),
}
