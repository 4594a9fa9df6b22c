"""Blobs that were altered, behind headers that fit."""

from __future__ import annotations

import random
from contextlib import suppress
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from tests.hostile.mutations import OTHER, RIGHT, headed, mutated
from watersmeet._engine import row_sizes

ROWS = 300


def some_table(chance: random.Random) -> pa.Table:
    """Rows of every kind of column that a blob may have."""
    rows = chance.choice([0, 1, 3, 40, ROWS])
    texts = [chance.choice([None, "", "a", "äß", "x" * chance.randrange(50)]) for _ in range(rows)]
    numbers = [chance.choice([None, 0, -1, 2**62]) for _ in range(rows)]
    lists = [chance.choice([None, [], ["a", None], texts[:3]]) for _ in range(rows)]
    columns = {
        "text": pa.array(texts, chance.choice([pa.string(), pa.large_string()])),
        "number": pa.array(numbers, pa.int64()),
        "flag": pa.array([n is None for n in numbers]),
        "bytes": pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
        "list": pa.array(lists, pa.list_(pa.string())),
        "struct": pa.array([{"a": n, "b": ts} for n, ts in zip(numbers, lists, strict=True)]) if rows else None,
        "map": pa.array([[("k", 1)] * (at % 3) for at in range(rows)], pa.map_(pa.string(), pa.int64())),
        "decimal": pa.array([Decimal(at) / 4 for at in range(rows)], pa.decimal128(12, 2)),
        "word": pa.array(texts, pa.string()).dictionary_encode(),
        "fixed": pa.array([b"abcd"] * rows, pa.binary(4)),
        "nothing": pa.nulls(rows),
    }
    names = chance.sample([name for name, column in columns.items() if column is not None], chance.randint(1, 5))
    return pa.table({name: columns[name] for name in names})


def touched(table: pa.Table) -> None:
    """Every value, read as kernels read them: what lies outside of the buffers is read here."""
    for column in table.columns:
        column.combine_chunks()
        column.take(pa.array(np.arange(len(table))[::-1]))
    # Python's decimals do not go as far as Arrow's; names within structs are read here for the first time
    with suppress(InvalidOperation, UnicodeDecodeError):
        table.to_pydict()


def blobs(chance: random.Random, number: int) -> str:
    """A blob whose Arrow stream was altered, behind a header that fits."""
    table = some_table(chance)
    content = row_sizes.encode(table, compress=chance.random() < 0.5)
    broken = mutated(chance, content[16:], row_sizes.encode(some_table(chance))[16:])
    if chance.random() < 0.1:
        return RIGHT if row_sizes.decode(mutated(chance, content)).equals(table) else OTHER
    found = row_sizes.decode(headed(broken))
    touched(found)
    return RIGHT if found.equals(table) else OTHER


def lying(chance: random.Random, number: int) -> str:
    """A blob one of whose offsets, sizes or indices lies, and nothing else: Arrow reads it without complaint."""
    rows = chance.randint(1, 40)
    offsets = np.sort(np.random.default_rng(number).integers(0, 50, rows + 1)).astype(np.int32)
    offsets[0], offsets[-1] = 0, 50
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"x" * 50)]
    text = pa.Array.from_buffers(pa.string(), rows, buffers)
    nested = pa.ListArray.from_arrays(pa.array(offsets), pa.array(range(50), pa.int64()))
    index = np.random.default_rng(number).integers(0, 2, rows).astype(np.int32)
    words = pa.DictionaryArray.from_arrays(pa.array(index), pa.array(["a", "b"]))
    array, told = chance.choice([(text, offsets), (nested, offsets), (words, index)])
    content = row_sizes.encode(pa.table({"column": array}), compress=False)
    lies = told.copy()
    lies[chance.randrange(len(lies))] = chance.choice([-1, 2**31 - 1, 2_000_000_000, 51, -(2**31)])
    assert told.tobytes() in content
    touched(row_sizes.decode(content.replace(told.tobytes(), lies.tobytes(), 1)))
    return OTHER
