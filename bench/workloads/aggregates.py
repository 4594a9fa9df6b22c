"""The aggregates, one workload each: watersmeet's topologies, and Spark's own where it has the same.

Those of Kafka Streams are in `Aggregates.java`. All write keys of windows as its serializers do. Spark itself
aggregates in update mode and writes at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.workloads.datasets import EPOCH, key_of
from bench.workloads.workload import Data, Piece, Topics, Workload, spread, written

SALE = "shop long, cents long"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LATENESS = "10 minutes"
"""Of Spark: partitions are read unevenly, and what is late would be left out."""
_VERSION = 1
_FILES = 16
_TOPICS = ("sales",)


# -- data ------------------------------------------------------------------------------------------------------


def sales_data(root: Path, records: int, keys: int, *, shops: int = 100_000, span: int = HOUR_MS) -> Data:
    """Sales over an hour, or so many ms, in order of time, each of a random key."""
    folder = root / "data" / f"sales-{records}-{keys}-{shops}-{span}-{_VERSION}"
    return written(folder, _pieces(records, keys, shops, span), f"{records:,} records, {keys:,} keys", _TOPICS)


def _pieces(records: int, keys: int, shops: int, span: int) -> Iterator[Mapping[str, Piece]]:
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
        at = EPOCH + number * span // _FILES + spread(each, span // _FILES)
        yield {"sales": (key_of(rng.integers(0, keys, each)), texts, at)}


def _sales(keys: int, span: int = HOUR_MS) -> Callable[[Path, bool], Data]:
    """A twentieth of the records and keys will do for a small one."""
    return lambda root, quick: sales_data(root, *((160_000, keys // 20) if quick else (4_000_000, keys)), span=span)


# -- topologies ------------------------------------------------------------------------------------------------


def count(builder: Any, topics: Topics) -> Any:
    """How many sales each key has."""
    return _grouped(builder, topics).count()


def tumbling_count(builder: Any, topics: Topics) -> Any:
    """How many in each minute."""
    import watersmeet as wm

    windows = wm.TimeWindows.of_size_with_no_grace("1 minute")
    return _grouped(builder, topics).windowed_by(windows).count().to_stream()


def hopping_sum(builder: Any, topics: Topics) -> Any:
    """For how much in five minutes, of which some begin each minute."""
    import watersmeet as wm

    windows = wm.TimeWindows.of_size_with_no_grace("5 minutes").advance_by("1 minute")
    summed = _grouped(builder, topics).windowed_by(windows).agg(total=wm.sum(lambda sale: sale["cents"]))
    return summed.map_values(lambda sums: sums["total"]).to_stream()


def sliding_avg(builder: Any, topics: Topics) -> Any:
    """For how much on average, in each different minute."""
    import watersmeet as wm

    windows = wm.SlidingWindows.of_time_difference_with_no_grace("1 minute")
    means = _grouped(builder, topics).windowed_by(windows).agg(mean=wm.avg(lambda sale: sale["cents"]))
    return means.map_values(lambda found: found["mean"]).to_stream()


def session_count(builder: Any, topics: Topics) -> Any:
    """How many in each session, which ends after a minute without any."""
    import watersmeet as wm

    windows = wm.SessionWindows.of_inactivity_gap_with_no_grace("1 minute")
    return _grouped(builder, topics).windowed_by(windows).count().to_stream()


def table_aggregate(builder: Any, topics: Topics) -> Any:
    """For how much each shop has sold, in the last sale of each key."""
    from pyspark.sql import functions as F

    import watersmeet as wm

    sales = builder.table(topics[0], key="long", value=wm.json(SALE))
    by_shop = sales.group_by(lambda key, sale: (sale["shop"], sale["cents"]))
    return by_shop.aggregate(
        lambda: F.lit(0).cast("long"), lambda cents, total: total + cents, lambda cents, total: total - cents
    )


def last_week(builder: Any, topics: Topics) -> Any:
    """How many more on each day than on the same day of the week before: a WTable joined with its own past."""
    from pyspark.sql import functions as F

    import watersmeet as wm

    counts = _grouped(builder, topics).windowed_by(wm.TimeWindows.of_size_with_no_grace("1 day")).count()
    more = counts.left_join(counts, lambda today, before: today - F.coalesce(before, F.lit(0)), shift=wm.previous(7))
    return more.to_stream()


def _grouped(builder: Any, topics: Topics) -> Any:
    import watersmeet as wm

    return builder.stream(topics[0], key="long", value=wm.json(SALE)).group_by_key()


# -- formats ---------------------------------------------------------------------------------------------------


def _windows() -> Mapping[str, Any]:
    import watersmeet as wm

    return {"key": wm.time_windowed("long")}


def _means() -> Mapping[str, Any]:
    return {**_windows(), "value": "double"}


def _sessions() -> Mapping[str, Any]:
    import watersmeet as wm

    return {"key": wm.session_windowed("long")}


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


def _aggregate(
    join: Callable[[Any, Topics], Any], keys: int, *, spark: bool = False, span: int = HOUR_MS, **read: Any
) -> Workload:
    own = partial(in_spark, join.__name__) if spark else None
    return Workload(_sales(keys, span), join, "table", _TOPICS, both_caches=True, cached=True, in_spark=own, **read)


WORKLOADS = {
    "count": _aggregate(count, 1_000_000, spark=True),
    "tumbling_count": _aggregate(tumbling_count, 100_000, spark=True, formats=_windows),
    "hopping_sum": _aggregate(hopping_sum, 100_000, spark=True, formats=_windows),
    "sliding_avg": _aggregate(sliding_avg, 100_000, formats=_means),
    "session_count": _aggregate(session_count, 100_000, formats=_sessions),
    "table_aggregate": _aggregate(table_aggregate, 1_000_000),
    "last_week": _aggregate(last_week, 20_000, span=14 * DAY_MS, formats=_windows),
}
