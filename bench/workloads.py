"""The workloads from Kafka to Kafka: the data of each, and millpond's topology; `StreamsBench.java` has the other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.datasets import EPOCH, SCHEMA, SIDES, Shape, key_of, values
from bench.datasets import prepared as prepared_tables

REFERENCE_DIGITS = 8
"""Of a left value of `foreign_key`: the number of the right row that it refers to."""
ROUNDS = 4
"""Of a workload's data in two parts: all rows come in the first one, which is the first part, updates in the others."""
WINDOW = "10 seconds"
"""Of `stream_stream`, before and after; the grace is as long."""
SHARDS = (4, 20, 50, 200)
"""Of `shards`."""
DAY_MS = 86_400_000
_VERSION = 1
_RECORDS_PER_MS = 10

Piece = tuple[np.ndarray, pa.Array, np.ndarray]
"""Keys, values and timestamps of one side's part of a file."""
Pieces = Iterator[tuple[Piece, Piece]]
Topics = Sequence[str]
"""Of the left and of the right side."""


@dataclass(frozen=True)
class Data:
    """A data set that is written: one folder of files for each side, file by file of about one time."""

    folder: Path
    records: int
    shown: str


@dataclass(frozen=True)
class Workload:
    """One workload.

    Parameters
    ----------
    data : (folder of all data, whether a small one will do) -> its data set.
    join : (builder, topics of the left and of the right side) -> the joined handle.
    equal : what two contenders must agree on: the final "table", all "records", or "count": how many keys have
        results, to a hundredth, since which row of the table a record meets depends on the interleaving.
    parted : whether all rounds but the first are held back until a contender is done with the first.
    cached : whether the record cache changes what millpond writes.
    as_of : whether it is near to quixstreams' `join_asof`.
    """

    data: Callable[[Path, bool], Data]
    join: Callable[[Any, Topics], Any]
    equal: Literal["table", "records", "count"]
    parted: bool = False
    cached: bool = False
    as_of: bool = False


# -- data ------------------------------------------------------------------------------------------------------


def _two_tables(root: Path, quick: bool) -> Data:
    shape = Shape(20_000, 10_000, 2, 10_000) if quick else Shape(1_000_000, 125_000, 8, 125_000)
    return Data(prepared_tables(root, shape), shape.records, f"{shape.keys:,} keys per side")


def _references(root: Path, quick: bool) -> Data:
    """A million left rows on ten thousand right rows, then updates in rounds; one in ten left ones refers elsewhere.

    With rows and updates there at once, whoever reads right updates before the left rows that refer to them has next
    to nothing to do for them.
    """
    left, right, files = (50_000, 500, 4) if quick else (1_000_000, 10_000, 16)
    shown = f"{left:,} left rows on {right:,} right rows, then {ROUNDS - 1} times as many updates"
    folder = root / "data" / f"references-{left}-{ROUNDS}-{_VERSION}"
    return _written(folder, _reference_pieces(left, right, files), shown)


def _reference_pieces(left: int, right: int, files: int) -> Pieces:
    rng = np.random.default_rng([_VERSION, left])
    refers = rng.integers(0, right, left)
    order, told = (
        [rng.permutation(rows), *(rng.integers(0, rows, rows) for _ in range(ROUNDS - 1))] for rows in (left, right)
    )
    for number in range(files):
        turn, part = divmod(number, files // ROUNDS)
        rows, others = (np.array_split(given[turn], files // ROUNDS)[part] for given in (order, told))
        moves = rows[rng.random(len(rows)) < (0.1 if turn else 0)]
        refers[moves] = rng.integers(0, right, len(moves))
        digits = pc.utf8_lpad(pa.array(refers[rows]).cast(pa.string()), REFERENCE_DIGITS, "0")
        rest = pc.utf8_slice_codeunits(values(len(rows), rng), REFERENCE_DIGITS)
        lefts = pc.binary_join_element_wise(digits, rest, "")
        span = len(rows) // _RECORDS_PER_MS
        yield (
            (key_of(rows), lefts, EPOCH + number * span + _spread(len(rows), span)),
            (others, values(len(others), rng), EPOCH + number * span + _spread(len(others), span)),
        )


def _streams(root: Path, quick: bool) -> Data:
    """Two streams in step, in which a record meets about one other within the window."""
    rows, keys, files = (20_000, 20_000, 4) if quick else (2_000_000, 200_000, 16)
    shown = f"{rows:,} records a side, {keys:,} keys, window {WINDOW} before and after"
    return _written(root / "data" / f"streams-{rows}-{keys}-{_VERSION}", _stream_pieces(rows, keys, files), shown)


def a_day(root: Path, quick: bool) -> Data:
    """Two streams in step over a day of event time, an hour a file; a record in five meets another."""
    rows, keys = (24_000, 30) if quick else (2_400_000, 3_000)
    shown = f"{rows:,} records a side over a day, {keys:,} keys, window {WINDOW} before and after"
    return _written(root / "data" / f"day-{rows}-{keys}-{_VERSION}", _stream_pieces(rows, keys, 24, DAY_MS), shown)


def few_records(root: Path) -> Data:
    """Two streams of a thousand records a side and file: so few that what does not depend on them is seen."""
    rows = 16_000
    shown = "1,000 records a side and batch"
    return _written(root / "data" / f"few-{rows}-{_VERSION}", _stream_pieces(rows, 5_000, 16), shown)


def _stream_pieces(rows: int, keys: int, files: int, span: int = 0) -> Pieces:
    rng, each = np.random.default_rng([_VERSION, rows]), rows // files
    span = span or rows // _RECORDS_PER_MS

    def piece(number: int) -> Piece:
        ts = EPOCH + np.arange(number * each, (number + 1) * each) * span // rows - rng.integers(0, 50, each)
        return key_of(rng.integers(0, keys, each)), values(each, rng), ts

    for number in range(files):
        yield piece(number), piece(number)


def _spread(count: int, span: int) -> np.ndarray:
    return np.arange(count) * span // max(1, count)


def _written(folder: Path, pieces: Pieces, shown: str) -> Data:
    counted = folder / "complete"
    if not counted.exists():
        shutil.rmtree(folder, ignore_errors=True)
        records = 0
        for number, sides in enumerate(pieces):
            for side, (keys, contents, ts) in zip(SIDES, sides, strict=True):
                path = folder / side / f"{number:05d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                columns = {"key": keys, "value": contents, "ts": ts, "seq": np.arange(len(keys))}
                pq.write_table(pa.table(columns, schema=SCHEMA), path, compression="none", use_dictionary=False)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
                records += len(keys)
        counted.write_text(str(records))
    return Data(folder, int(counted.read_text()), shown)


# -- topologies ------------------------------------------------------------------------------------------------


def _tables(builder: Any, topics: Topics) -> tuple[Any, Any]:
    left, right = (builder.table(topic, key="long", value="string") for topic in topics)
    return left, right


def _table_table(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    left, right = _tables(builder, topics)
    return left.join(right, F.concat)


def _stream_table(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    left, right = topics
    table = builder.table(right, key="long", value="string")
    return builder.stream(left, key="long", value="string").join(table, F.concat)


def _foreign_key(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    left, right = _tables(builder, topics)
    return left.join(right, F.concat, foreign_key=lambda value: value.substr(1, REFERENCE_DIGITS).cast("long"))


def _stream_stream(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    import millpond as mp

    left, right = (builder.stream(topic, key="long", value="string") for topic in topics)
    return left.join(right, F.concat, mp.JoinWindows.of_time_difference_and_grace(WINDOW, WINDOW))


WORKLOADS = {
    "table_table": Workload(_two_tables, _table_table, "table", cached=True),
    "stream_table": Workload(_two_tables, _stream_table, "count", as_of=True),
    "foreign_key": Workload(_references, _foreign_key, "table", parted=True, cached=True),
    "stream_stream": Workload(_streams, _stream_stream, "records"),
}
