"""A dedup by a processor, of many keys and of a hot one: watersmeet's, and Spark's own with transformWithStateInPandas.

That of Kafka Streams is in `Dedup.java`. An id of a key is sent again where it was not sent for ten seconds; all three
keep the time at which each was sent in a map of the key, by the time of the records.
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
from bench.workloads.workload import RECORDS_PER_MS, Data, Piece, Topics, Workload, spread, written

WAIT_MS = 10_000
IDS = 40_000
"""Ids of all keys: each comes about every four seconds."""
_VERSION = 1
_FILES = 16
_TOPICS = ("clicks",)


# -- data ------------------------------------------------------------------------------------------------------


def clicks_data(root: Path, records: int, keys: int) -> Data:
    """Records in order of time, each with an id of its key."""
    folder = root / "data" / f"clicks-{records}-{keys}-{_VERSION}"
    return written(folder, _pieces(records, keys), f"{records:,} records, {keys:,} keys", _TOPICS)


def _pieces(records: int, keys: int) -> Iterator[Mapping[str, Piece]]:
    rng, each = np.random.default_rng([_VERSION, records, keys]), records // _FILES
    span = each // RECORDS_PER_MS
    for number in range(_FILES):
        ids = rng.integers(0, IDS, each)
        texts = pc.binary_join_element_wise(pa.scalar("id-"), pa.array(ids).cast(pa.string()), "")
        yield {"clicks": (key_of(ids % keys), texts, EPOCH + number * span + spread(each, span))}


def _clicks(keys: int) -> Callable[[Path, bool], Data]:
    return lambda root, quick: clicks_data(root, 48_000 if quick else 960_000, keys)


# -- watersmeet ------------------------------------------------------------------------------------------------


class Dedup:
    """Sends an id that was not sent for ten seconds."""

    def init(self, context: Any) -> None:
        """Find the store."""
        self.sent = context.get_store("sent")

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        last = self.sent.get(record.value)
        if last is None or record.timestamp - last >= WAIT_MS:
            self.sent.put(record.value, record.timestamp)
            context.forward(record)


def by_processor(builder: Any, topics: Topics) -> Any:
    """By a processor with a map of each key."""
    import watersmeet as wm

    clicks = builder.stream(topics[0], key="long", value="string")
    return clicks.process_values(Dedup, value="string", stores=[wm.MapStore("sent", "string", "long")])


def step(key: Any, value: str, sent: dict[str, int] | None, context: Any) -> tuple[dict[str, int], list[str]]:
    """The same as a step of a grouped stream, whose state is a map as a value."""
    sent = sent or {}
    last = sent.get(value)
    if last is not None and context.timestamp - last < WAIT_MS:
        return sent, []
    return {**sent, value: context.timestamp}, [value]


def by_step(builder: Any, topics: Topics) -> Any:
    """By the short form."""
    clicks = builder.stream(topics[0], key="long", value="string").group_by_key()
    return clicks.process(dict, step, state="map<string, long>", returns="string")


# -- Spark's own -----------------------------------------------------------------------------------------------


def in_spark(frame: Any) -> Any:
    """By transformWithStateInPandas: a map state of each key."""
    columns = frame.select("key", "value", "timestamp")
    return columns.groupBy("key").transformWithStateInPandas(
        statefulProcessor=_processor(),
        outputStructType="key binary, value binary",
        outputMode="Update",
        timeMode="None",
    )


def _processor() -> Any:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class PerKey(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.sent = handle.getMapState("sent", "id binary", "at long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            for part in rows:
                found = []
                times = part["timestamp"].astype("int64") // 1_000_000
                for value, at in zip(part["value"], times, strict=True):
                    last = self.sent.getValue((value,)) if self.sent.containsKey((value,)) else None
                    if last is None or at - last[0] >= WAIT_MS:
                        self.sent.updateValue((value,), (int(at),))
                        found.append(value)
                yield pd.DataFrame({"key": [key[0]] * len(found), "value": found})

        def close(self) -> None:
            pass

    return PerKey()


def _dedup(by: Callable[[Any, Topics], Any], keys: int, *, spark: bool = False) -> Workload:
    return Workload(_clicks(keys), by, "records", _TOPICS, in_spark=partial(in_spark) if spark else None)


WORKLOADS = {
    "dedup": _dedup(by_processor, 10_000, spark=True),
    "dedup_hot": _dedup(by_processor, 1, spark=True),
    "dedup_step": _dedup(by_step, 10_000),
}
