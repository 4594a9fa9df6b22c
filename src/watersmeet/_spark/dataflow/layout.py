"""How a plan is laid out on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet._spark.dataflow.processor import LevelProcessor
from watersmeet._worker.wire.wire import Labels

Observer = Callable[[DataFrame, str, "tuple[tuple[str, str], ...]"], DataFrame]


@dataclass(frozen=True)
class SparkLayout:
    """How a plan is laid out on Spark.

    Parameters
    ----------
    labels : labels of the shards.
    tasks : tasks of the exchanges.
    cache_root : folder of a machine's run cache, or `processor.DEFAULT_CACHE`; None: no cache.
    headers : whether records carry headers.
    cases : whether rows carry a case number (test driver).
    observe : adds the counting of dropped records to a frame of wire rows.
    direct_sinks : whether all sinks can be written from wire rows.
    numbered : whether the sinks' rows have the column `sequence`.
    measured : whether workers count more than dropped records (`measures`).
    written : name of the observation that counts the rows of sinks with columns made by Spark; None: they are not
        counted, since Spark looks at each row for that.
    journaled : whether packing gets whole records, for the journal.
    processor : makes the processor of a level.
    """

    labels: Labels
    tasks: int
    cache_root: str | None
    headers: bool
    cases: bool
    observe: Observer
    direct_sinks: bool = False
    numbered: bool = False
    measured: bool = False
    written: str | None = None
    journaled: bool = False
    processor: Callable[..., LevelProcessor] = LevelProcessor
