"""What a workload from Kafka to Kafka is, and how the files of its data are written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.workloads.datasets import SIDES
from bench.workloads.readings import Reading, as_bytes

ROUNDS = 4
"""Of a workload's data in two parts: the first round is the first part, the others are the second."""
RECORDS_PER_MS = 10
Piece = tuple[pa.Array | np.ndarray, pa.Array, np.ndarray]
"""Keys, values and timestamps of one topic's part of a file."""
Topics = Sequence[str]


@dataclass(frozen=True)
class Data:
    """A data set that is written: one folder of files for each topic, file by file of about one time."""

    folder: Path
    records: int
    shown: str
    sides: tuple[str, ...] = SIDES


@dataclass(frozen=True)
class Workload:
    """One workload.

    Parameters
    ----------
    data : (folder of all data, whether a small one will do) -> its data set.
    join : (builder, its topics in the data's order) -> the handle, or the handles, whose records are written, each to a
        topic of its own.
    equal : what two contenders must agree on: the final "table", all "records", or "count": how many keys have
        results, to a hundredth, since which row of the table a record meets depends on the interleaving.
    topics : of its data.
    outputs : how many topics are written.
    compared : how many of these, from the first, are compared; None: all. What several keys leave under one key depends
        on the interleaving.
    values_as : what values are compared as, where the contenders' texts of one may differ.
    formats : () -> those that watersmeet writes in, as options of `to`, where they are not its own choice.
    parted : whether all rounds but the first are held back until a contender is done with the first.
    cached : whether the record cache changes what watersmeet writes.
    as_of : whether it is near to quixstreams' `join_asof`.
    both_caches : whether Kafka Streams has turns with its cache in every round: where the cache may be faster.
    in_spark : (frame of Kafka's columns) -> key and value of Spark's own aggregation, if it has the same.
    plain : the workload of the same shape whose values are texts: what watersmeet's own rate is compared with.
    """

    data: Callable[[Path, bool], Data]
    join: Callable[[Any, Topics], Any]
    equal: Literal["table", "records", "count"]
    topics: tuple[str, ...] = SIDES
    outputs: int = 1
    compared: int | None = None
    values_as: Reading = as_bytes
    formats: Callable[[], Mapping[str, Any]] = dict
    parted: bool = False
    cached: bool = False
    as_of: bool = False
    both_caches: bool = False
    in_spark: Callable[[Any], Any] | None = None
    plain: str | None = None


def handles_of(workload: Workload, builder: Any, topics: Topics) -> tuple[Any, ...]:
    """The handles whose records a workload writes."""
    made = workload.join(builder, topics)
    return made if isinstance(made, tuple) else (made,)


def spread(count: int, span: int) -> np.ndarray:
    """So many times, evenly over a span."""
    return np.arange(count) * span // max(1, count)


def written(folder: Path, pieces: Iterable[Mapping[str, Piece]], shown: str, sides: tuple[str, ...] = SIDES) -> Data:
    """The data set of these pieces, each a file of every topic that it names; written once."""
    counted = folder / "complete"
    if not counted.exists():
        shutil.rmtree(folder, ignore_errors=True)
        records = 0
        for number, named in enumerate(pieces):
            for side, (keys, contents, ts) in named.items():
                path = folder / side / f"{number:05d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                columns = {"key": keys, "value": contents, "ts": ts, "seq": np.arange(len(keys))}
                pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
                records += len(keys)
        counted.write_text(str(records))
    return Data(folder, int(counted.read_text()), shown, sides)
