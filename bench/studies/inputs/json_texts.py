"""What a JSON text costs to read: microseconds of CPU a record on one core, this checkout beside others.

Run by its path, no JVM needed: `python bench/studies/inputs/json_texts.py [CHECKOUT ...]`. A process of each checkout
reads each shape of texts some times; a figure is the least of them. Texts are NEXMark's events, or objects of 40 fields
of which 4 are declared, alone and with what makes reading harder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

ROOT = Path(__file__).resolve().parents[3]
if not os.environ.get("STUDY_TURN"):
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.nexmark import generator, queries

RECORDS, TURNS = 8_192, 5
Object = dict[str, Any]
_TYPES: dict[str, DataType] = {"string": StringType(), "bigint": LongType(), "timestamp_ntz": TimestampNTZType()}


def struct(**fields: DataType) -> StructType:
    """A type of these fields."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _of_nexmark(fields: str) -> StructType:
    return struct(**{name: _TYPES[kind] for name, kind in (each.split() for each in fields.split(", "))})


DECLARED = struct(id=LongType(), name=StringType(), amount=DoubleType(), flag=BooleanType())
DECIMAL = struct(**{f.name: DecimalType(12, 2) if f.name == "amount" else f.dataType for f in DECLARED.fields})
MAP = StructType([*DECLARED.fields, StructField("m", MapType(StringType(), StringType()))])
LINES = StructField("a", ArrayType(struct(x=LongType(), y=StringType())))
NEXMARK = struct(
    event_type=IntegerType(),
    person=_of_nexmark(queries.PERSON),
    auction=_of_nexmark(queries.AUCTION),
    bid=_of_nexmark(queries.BID),
)


def _four(number: int) -> Object:
    return {"id": number, "name": f"name {number % 1000}", "amount": number * 0.25, "flag": bool(number % 2)}


def _forty(number: int) -> Object:
    kinds: tuple[Any, ...] = (number, f"text {number}", number * 1.5, None, True)
    others = {f"field_{place}": kinds[place % len(kinds)] for place in range(36)}
    return {**dict(list(others.items())[:18]), **_four(number), **dict(list(others.items())[18:])}


def _mixture(number: int) -> Object:
    text = _forty(number) | {"m": {"k": "x"}, "a": [{"x": number, "y": "t"}] * (number % 4)}
    return _optional(number, text) | ({"rare": 1} if number % 100 == 0 else {})


def _optional(number: int, text: Object) -> Object:
    return {name: value for name, value in text.items() if name != "amount" or number % 2}


SHAPES: dict[str, tuple[DataType, Callable[[int], Object]]] = {
    "4 fields": (DECLARED, _four),
    "4 fields, one of them a decimal": (DECIMAL, _four),
    "4 fields and a map": (MAP, lambda n: _four(n) | {"m": {"k": "x", f"k{n % 7}": "y"}}),
    "4 of 40 fields": (DECLARED, _forty),
    "and 1 text in 100 with another field": (DECLARED, lambda n: _forty(n) | ({"rare": 1} if n % 100 == 0 else {})),
    "and an object with names of its own": (DECLARED, lambda n: _forty(n) | {"u": {f"k{n}": 1}}),
    "and a decimal": (DECIMAL, _forty),
    "and a field that half of the texts leave out": (DECLARED, lambda n: _optional(n, _forty(n))),
    "and 1 text in 100 that is refused": (DECLARED, lambda n: _forty(n) | ({"id": "x"} if n % 100 == 0 else {})),
    "and decimal, map, array, optional and other fields": (
        StructType([*DECIMAL.fields, *MAP.fields[4:], LINES]),
        _mixture,
    ),
}


def texts() -> Iterator[tuple[str, DataType, pa.Array]]:
    """The name, the declared type and the texts of each shape."""
    events = generator.events(generator.Shape(4 * RECORDS, generators=4, rate=10_000), 0, 0, RECORDS)
    yield "NEXMark's events", NEXMARK, events.values.cast(pa.string())
    for name, (kind, make) in SHAPES.items():
        yield name, kind, pa.array([json.dumps(make(number)) for number in range(RECORDS)], pa.string())


def turn() -> None:
    """Prints the microseconds of each shape, read by the checkout that is first on the path."""
    from watersmeet._worker.formats.json import decode

    found = {}
    for name, kind, given in texts():
        decode(kind, given)
        spent = []
        for _ in range(TURNS):
            begin = time.process_time()
            decode(kind, given)
            spent.append(time.process_time() - begin)
        found[name] = min(spent) / RECORDS * 1e6
    print(json.dumps(found))


def main() -> None:
    """Measures each checkout, and prints a table."""
    roots = [*map(Path, sys.argv[1:]), ROOT]
    columns = []
    for root in roots:
        path = os.pathsep.join([str(root.resolve() / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "STUDY_TURN": "1"}
        done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
        columns.append(json.loads(done.stdout))
    for name in columns[0]:
        print(f"| {name} |", " | ".join(f"{column[name]:.2f}" for column in columns), "|")


if __name__ == "__main__":
    turn() if os.environ.get("STUDY_TURN") else main()
