"""The benchmarks' data: changes of two tables as Parquet files, the same on every machine, written once.

Keys are longs spread over all 64 bits, values 100 random printable characters (which no compression makes
smaller). Each side is first filled, key by key in random order, then updated at random keys. A file is a
side's part of one batch. The files lie under .bench/ and are made again when the
shape asked for is another.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIDES = ("left", "right")
VALUE_BYTES = 100
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.string()), ("ts", pa.int64()), ("seq", pa.int64())])
DDL = "key long, value string, ts long, seq long"
EPOCH = 1_700_000_000_000
_VERSION = 1


@dataclass(frozen=True)
class Shape:
    """What a data set holds, per side.

    Parameters
    ----------
    keys : distinct keys.
    fill : rows per file while the keys are filled.
    updates : files of updates behind that.
    rows : rows of each of them.
    """

    keys: int
    fill: int
    updates: int
    rows: int

    @property
    def name(self) -> str:
        """Folder of the data set."""
        return f"v{_VERSION}-{self.keys}-{self.fill}-{self.updates}x{self.rows}"

    @property
    def filled(self) -> int:
        """Rows of both sides that fill the tables."""
        return 2 * self.keys

    @property
    def records(self) -> int:
        """Rows of both sides."""
        return 2 * (self.keys + self.updates * self.rows)


def prepared(root: Path, shape: Shape) -> Path:
    """The folder with the data set's files, written if they are not there."""
    folder = root / "data" / shape.name
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for number, side in enumerate(SIDES):
        _write_side(folder / side, shape, np.random.default_rng([_VERSION, number, shape.keys]))
    (folder / "complete").touch()
    return folder


def _write_side(folder: Path, shape: Shape, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    universe = key_of(np.arange(shape.keys, dtype=np.uint64))
    filled = rng.permutation(universe)
    picks = [filled[at : at + shape.fill] for at in range(0, shape.keys, shape.fill)]
    picks += [universe[rng.integers(0, shape.keys, shape.rows)] for _ in range(shape.updates)]
    seq = 0
    for number, keys in enumerate(picks):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(_rows(keys, seq, rng), path, compression="none", use_dictionary=False)
        # Spark's file source reads in order of modification time
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        seq += len(keys)


def key_of(numbers: np.ndarray) -> np.ndarray:
    """Distinct longs of all sizes, one per number: an odd factor permutes the 64-bit words."""
    return (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _rows(keys: np.ndarray, seq: int, rng: np.random.Generator) -> pa.Table:
    count = len(keys)
    numbers = np.arange(seq, seq + count, dtype=np.int64)
    jitter = rng.integers(0, 50, count)
    return pa.table(
        {"key": keys, "value": values(count, rng), "ts": EPOCH + numbers // 10 - jitter, "seq": numbers},
        schema=SCHEMA,
    )


def values(count: int, rng: np.random.Generator, size: int = VALUE_BYTES) -> pa.Array:
    """Random texts of so many printable characters each."""
    data = rng.integers(32, 127, count * size, dtype=np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
