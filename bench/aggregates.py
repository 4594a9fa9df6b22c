"""The aggregates as Kafka Streams has them, one workload each: made ready for the day when millpond has them, too.

Their topologies are in `Aggregates.java`; `Workload.join` is None until millpond's stands here. Spark's own aggregation
in update mode, which writes at least once, runs where it has the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.datasets import EPOCH, key_of
from bench.workload import Data, Piece, Workload, spread, written

SALE = "shop long, cents long"
HOUR_MS = 3_600_000
LATENESS = "10 minutes"
"""Of Spark: partitions are read unevenly, and what is late would be left out."""
_VERSION = 1
_FILES = 16
_TOPICS = ("sales",)


# -- data ------------------------------------------------------------------------------------------------------


def sales_data(root: Path, records: int, keys: int, *, shops: int = 100_000) -> Data:
    """Sales over an hour, in order of time, each of a random key."""
    folder = root / "data" / f"sales-{records}-{keys}-{shops}-{_VERSION}"
    return written(folder, _pieces(records, keys, shops), f"{records:,} records, {keys:,} keys", _TOPICS)


def _pieces(records: int, keys: int, shops: int) -> Iterator[Mapping[str, Piece]]:
    rng, each = np.random.default_rng([_VERSION, records, keys]), records // _FILES
    for number in range(_FILES):
        texts = pc.binary_join_element_wise(
            pa.scalar('{"shop":'),
            pa.array(rng.integers(0, shops, each)).cast(pa.string()),
            pa.scalar(',"cents":'),
            pa.array(rng.integers(1, 50_000, each)).cast(pa.string()),
            pa.scalar("}"),
            "",
        )
        at = EPOCH + number * HOUR_MS // _FILES + spread(each, HOUR_MS // _FILES)
        yield {"sales": (key_of(rng.integers(0, keys, each)), texts, at)}


def _sales(keys: int) -> Callable[[Path, bool], Data]:
    """A twentieth of the records and keys will do for a small one."""
    return lambda root, quick: sales_data(root, *((160_000, keys // 20) if quick else (4_000_000, keys)))


# -- Spark's own -----------------------------------------------------------------------------------------------


def in_spark(aggregate: str, frame: Any) -> Any:
    """Key and value as Kafka Streams writes them, of Spark's own aggregation.

    Parameters
    ----------
    frame : Kafka's columns.
    """
    from pyspark.sql import functions as F

    sale = F.from_json(F.col("value").cast("string"), SALE)
    rows = frame.select(F.col("key"), sale.alias("sale"), F.col("timestamp").alias("at"))
    if aggregate == "count":
        return rows.groupBy("key").agg(_long(F.count("*")).alias("value"))
    rows = rows.withWatermark("at", LATENESS)
    if aggregate == "tumbling_count":
        counted = rows.groupBy("key", F.window("at", "1 minute")).agg(F.count("*").alias("n"))
        return counted.select(_of_window(), _long(F.col("n")).alias("value"))
    summed = rows.groupBy("key", F.window("at", "5 minutes", "1 minute")).agg(F.sum("sale.cents").alias("sum"))
    return summed.select(_of_window(), _long(F.col("sum")).alias("value"))


def _long(number: Any) -> Any:
    from pyspark.sql import functions as F

    return F.unhex(F.lpad(F.hex(number), 16, "0"))


def _of_window() -> Any:
    from pyspark.sql import functions as F

    start = F.unix_millis(F.col("window.start"))
    return F.concat(F.col("key"), _long(start)).alias("key")


def _aggregate(name: str, keys: int, *, spark: bool = False) -> Workload:
    own = partial(in_spark, name) if spark else None
    return Workload(_sales(keys), None, "table", _TOPICS, both_caches=True, in_spark=own)


WORKLOADS = {
    "count": _aggregate("count", 1_000_000, spark=True),
    "tumbling_count": _aggregate("tumbling_count", 100_000, spark=True),
    "hopping_sum": _aggregate("hopping_sum", 100_000, spark=True),
    "sliding_avg": _aggregate("sliding_avg", 100_000),
    "session_count": _aggregate("session_count", 100_000),
    "table_aggregate": _aggregate("table_aggregate", 1_000_000),
}
