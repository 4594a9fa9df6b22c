"""What a format costs: orders as bytes to columns and back on one core, in each format beside our own JSON, by turns.

Run by its path, no JVM needed: `python bench/studies/inputs/formats.py [records]`. In each turn every format reads
and writes the same orders, so that what the machine does meanwhile is done to all of them; a rate is a median of CPU
time over the turns, a ratio the median of a turn's ratios. Confluent's serdes for Kafka Streams are not on Maven
Central; so this is beside our own JSON, whose rate beside Kafka Streams' is that of the workload `orders`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.formats import serde_of, type_of
from watersmeet._worker.formats.json_schema import schema_for
from watersmeet.io.formats import Format

TURNS = 7
JSON = "json"
_AVRO = {
    **dict.fromkeys(("customer", "item"), "string"),
    **{"quantity": "int", "amount": "double", "express": "boolean"},
}
_FIELD = descriptor_pb2.FieldDescriptorProto
_PROTOBUF = {"string": _FIELD.TYPE_STRING, "int": _FIELD.TYPE_INT32, "double": _FIELD.TYPE_DOUBLE}
Turn = Mapping[str, tuple[float, float]]
"""By format, CPU seconds of reading and of writing."""


def formats() -> dict[str, Format]:
    """Orders in each format, all of one type."""
    fields = [{"name": name, "type": kind} for name, kind in _AVRO.items()]
    avro = wm.avro({"type": "record", "name": "Order", "fields": fields})
    kind = type_of(avro)
    schema = wm.json_schema(schema_for(kind, "Order"))
    return {JSON: wm.json(kind), "avro": avro, "protobuf": wm.protobuf(_message()), "json_schema": schema}


def _message() -> Any:
    """A message of optional fields."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="bench", syntax="proto3")
    made = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(_AVRO.items()):
        field = made.field.add(name=name, number=number + 1, type=_PROTOBUF.get(kind, _FIELD.TYPE_BOOL))
        field.label, field.oneof_index, field.proto3_optional = _FIELD.LABEL_OPTIONAL, number, True
    for name in _AVRO:
        made.oneof_decl.add(name=f"_{name}")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("bench.Order"))


def orders(count: int) -> pa.Array:
    """Orders as those of the workload `orders`."""
    rng = np.random.default_rng(1)
    columns = [
        pa.array([f"customer {n}" for n in rng.integers(0, 200_000, count).tolist()]),
        pa.array([f"item {n}" for n in rng.integers(0, 10_000, count).tolist()]),
        pa.array(rng.integers(1, 10, count), pa.int32()),
        pa.array(rng.integers(100, 50_000, count) / 100),
        pa.array(rng.random(count) < 0.5),
    ]
    return pa.StructArray.from_arrays(columns, list(_AVRO))


def turn(forms: Mapping[str, Format], values: pa.Array) -> Turn:
    """Each format once: its bytes are written, and read again.

    Raises
    ------
    RuntimeError : they are not read as what was written.
    """
    found = {}
    for name, form in forms.items():
        kind = type_of(form)
        written, writing = _timed(serde_of(form, kind).write, values)
        read, reading = _timed(serde_of(form).read, written)
        if not read.values.equals(values.cast(arrow_type(kind))):
            raise RuntimeError(f"{name} reads other orders than it has written.")
        found[name] = reading, writing
    return found


def _timed(work: Callable[[pa.Array], Any], given: pa.Array) -> tuple[Any, float]:
    begin = time.process_time()
    made = work(given)
    return made, time.process_time() - begin


def table(turns: list[Turn], count: int) -> str:
    """Rates of each format, and what they are beside JSON's."""
    rows = ["| | read, records/s | written | read, beside JSON | written |", "|---|---|---|---|---|"]
    for name in turns[0]:
        rates = [f"{count / median(each[name][way] for each in turns):,.0f}" for way in (0, 1)]
        ratios = [f"{median(each[JSON][way] / each[name][way] for each in turns):.2f}" for way in (0, 1)]
        rows.append(f"| {name} | {' | '.join([*rates, *ratios])} |")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    forms, values = formats(), orders(count)
    # the first turn imports
    turn(forms, values)
    print(table([turn(forms, values) for _ in range(TURNS)], count))


if __name__ == "__main__":
    main()
