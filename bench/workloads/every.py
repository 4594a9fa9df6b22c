"""The workloads from Kafka to Kafka: the data of each, and watersmeet's topology; `StreamsBench.java` has the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.workloads import aggregates, dedup, demo, json_records, nexmark
from bench.workloads.datasets import EPOCH, Shape, key_of, values
from bench.workloads.datasets import prepared as prepared_tables
from bench.workloads.workload import RECORDS_PER_MS, ROUNDS, Data, Piece, Topics, Workload, spread, written

REFERENCE_DIGITS = 8
"""Of a left value of `foreign_key`: the number of the right row that it refers to."""
WINDOW = "10 seconds"
"""Of `stream_stream`, before and after; the grace is as long."""
FIVE = ("one", "two", "three", "four", "five")
"""The tables of `multi_join`, which has one join of all, and of `join_chain`, which has four joins of two."""
ONE = ("readings",)
"""The stream of `large_states`, whose state has a row of a kilobyte for each key, as ShuffleBench's does."""
LARGE_BYTES = 1_000
SHARDS, MANY_SHARDS = (4, 20, 200), (64, 512)
"""Of `shards`, with few records and with more."""
DAY_MS = 86_400_000
_VERSION = 1

Pieces = Iterator[Mapping[str, Piece]]


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
    return written(folder, _reference_pieces(left, right, files), shown)


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
        span = len(rows) // RECORDS_PER_MS
        yield {
            "left": (key_of(rows), lefts, EPOCH + number * span + spread(len(rows), span)),
            "right": (others, values(len(others), rng), EPOCH + number * span + spread(len(others), span)),
        }


def _five_tables(root: Path, quick: bool) -> Data:
    """All rows of five tables, then as many updates of single ones as there are rows, in rounds."""
    keys, files = (5_000, 4) if quick else (100_000, 16)
    shown = f"{keys:,} keys in each of five tables, then {(ROUNDS - 1) * len(FIVE) * keys:,} updates of single tables"
    return written(root / "data" / f"five-{keys}-{ROUNDS}-{_VERSION}", _five_pieces(keys, files), shown, FIVE)


def _five_pieces(keys: int, files: int) -> Pieces:
    rng, each = np.random.default_rng([_VERSION, keys]), files // ROUNDS
    span = keys // each // RECORDS_PER_MS
    for number in range(files):
        turn, part = divmod(number, each)
        piece = {}
        for side in FIVE:
            rows = np.array_split(rng.integers(0, keys, keys) if turn else np.arange(keys), each)[part]
            piece[side] = (key_of(rows), values(len(rows), rng), EPOCH + number * span + spread(len(rows), span))
        yield piece


def _streams(root: Path, quick: bool) -> Data:
    """Two streams in step, in which a record meets about one other within the window."""
    rows, keys, files = (20_000, 20_000, 4) if quick else (2_000_000, 200_000, 16)
    shown = f"{rows:,} records a side, {keys:,} keys, window {WINDOW} before and after"
    return written(root / "data" / f"streams-{rows}-{keys}-{_VERSION}", _stream_pieces(rows, keys, files), shown)


def a_day(root: Path, quick: bool) -> Data:
    """Two streams in step over a day of event time, an hour a file; a record in five meets another."""
    rows, keys = (24_000, 30) if quick else (2_400_000, 3_000)
    shown = f"{rows:,} records a side over a day, {keys:,} keys, window {WINDOW} before and after"
    return written(root / "data" / f"day-{rows}-{keys}-{_VERSION}", _stream_pieces(rows, keys, 24, DAY_MS), shown)


def few_records(root: Path) -> Data:
    """Two streams of a thousand records a side and file: so few that what does not depend on them is seen."""
    rows = 16_000
    shown = "1,000 records a side and batch"
    return written(root / "data" / f"few-{rows}-{_VERSION}", _stream_pieces(rows, 5_000, 16), shown)


def records_of_many_shards(root: Path) -> Data:
    """Two streams of twenty thousand records a side and file: forty a side for each of 512 shards."""
    rows = 200_000
    shown = "20,000 records a side and batch"
    return written(root / "data" / f"many-{rows}-{_VERSION}", _stream_pieces(rows, 50_000, 10), shown)


def _stream_pieces(rows: int, keys: int, files: int, span: int = 0) -> Pieces:
    rng, each = np.random.default_rng([_VERSION, rows]), rows // files
    span = span or rows // RECORDS_PER_MS

    def piece(number: int) -> Piece:
        ts = EPOCH + np.arange(number * each, (number + 1) * each) * span // rows - rng.integers(0, 50, each)
        return key_of(rng.integers(0, keys, each)), values(each, rng), ts

    for number in range(files):
        yield {"left": piece(number), "right": piece(number)}


def _large_rows(root: Path, quick: bool) -> Data:
    """A stream of texts of a kilobyte; about four for each key."""
    rows, keys, files = (20_000, 5_000, 4) if quick else (2_000_000, 500_000, 16)
    shown = f"{rows:,} records of 1 kB, {keys:,} keys"
    return written(root / "data" / f"large-{rows}-{keys}-{_VERSION}", _large_pieces(rows, keys, files), shown, ONE)


def _large_pieces(rows: int, keys: int, files: int) -> Pieces:
    rng, each = np.random.default_rng([_VERSION, rows]), rows // files
    span = each // RECORDS_PER_MS
    for number in range(files):
        texts = values(each, rng, LARGE_BYTES)
        yield {ONE[0]: (key_of(rng.integers(0, keys, each)), texts, EPOCH + number * span + spread(each, span))}


# -- topologies ------------------------------------------------------------------------------------------------


def _tables(builder: Any, topics: Topics) -> tuple[Any, Any]:
    left, right = (builder.table(topic, key="long", value="string") for topic in topics)
    return left, right


def _table_table(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    left, right = _tables(builder, topics)
    return left.join(right, F.concat)


def _multi_join(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    first, *others = (builder.table(topic, key="long", value="string") for topic in topics)
    return first.multi_join(others, F.concat)


def _join_chain(builder: Any, topics: Topics) -> Any:
    from pyspark.sql import functions as F

    joined, *others = (builder.table(topic, key="long", value="string") for topic in topics)
    for other in others:
        joined = joined.join(other, F.concat)
    return joined


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

    import watersmeet as wm

    left, right = (builder.stream(topic, key="long", value="string") for topic in topics)
    return left.join(right, F.concat, wm.JoinWindows.of_time_difference_and_grace(WINDOW, WINDOW))


def _large_states(builder: Any, topics: Topics) -> Any:
    import watersmeet as wm

    latest = builder.stream(topics[0], key="long", value="string").group_by_key().agg(text=wm.last(lambda value: value))
    return latest.map_values(lambda row: row["text"].substr(1, 8)).to_stream()


WORKLOADS = {
    "table_table": Workload(_two_tables, _table_table, "table", cached=True),
    "multi_join": Workload(_five_tables, _multi_join, "table", FIVE, parted=True, cached=True),
    "join_chain": Workload(_five_tables, _join_chain, "table", FIVE, parted=True, cached=True),
    "stream_table": Workload(_two_tables, _stream_table, "count", as_of=True),
    "foreign_key": Workload(_references, _foreign_key, "table", parted=True, cached=True),
    "stream_stream": Workload(_streams, _stream_stream, "records"),
    "large_states": Workload(_large_rows, _large_states, "table", ONE, cached=True),
    **json_records.WORKLOADS,
    **demo.WORKLOADS,
    **aggregates.WORKLOADS,
    **dedup.WORKLOADS,
    **nexmark.WORKLOADS,
}
PLAIN = {**json_records.PLAIN, **demo.PLAIN}
"""What stands beside others: measured with them, never alone."""
EVERY = {**WORKLOADS, **PLAIN}
