"""One level in Spark: a StatefulProcessor that hosts all operators of a level, keyed by label.

Each (operator, shard) is handled once per batch: its blobs are decoded, the engine's operator runs over
them, results go out as blobs. Blobs for later levels pass untouched. Called by `compile`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from millpond._engine import blob
from millpond._engine.cache import RunCache
from millpond._engine.exchange import Drops, Outlet, pack
from millpond._engine.level import run_operator
from millpond._engine.operator import Setting
from millpond._engine.runs import State
from millpond._spark.state import SparkChunkStore
from millpond._spark.wire import Labels, output_port
from millpond._spark.worker import settle

_Wire = Row("label", "port", "blob", "count")


class LevelProcessor(StatefulProcessor):
    """Runs the operators of one level.

    Parameters
    ----------
    settings : operators of the level, by number.
    sides : side of each edge, by port.
    labels : how (target, shard) are labelled.
    cache_root : folder of the machine's run cache; None: no cache.
    direct : outlets of operators whose results go straight to another operator.
    """

    def __init__(
        self,
        settings: dict[int, Setting],
        sides: dict[int, int],
        labels: Labels,
        cache_root: str | None,
        direct: dict[int, tuple[Outlet, ...]],
    ) -> None:
        self._direct = direct
        self._settings = settings
        self._sides = sides
        self._labels = labels
        self._cache_root = cache_root
        self._store: SparkChunkStore | None = None

    def init(self, handle: Any) -> None:
        """Declare the state variables; Spark calls this on the driver as well."""
        self._store = SparkChunkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Run the label's operator over its blobs."""
        settle()
        label = key[0]
        target, _ = self._labels.place(label)
        setting = self._settings.get(target)
        if setting is None:
            for row in rows:
                yield _Wire(label, row["port"], row["blob"], None)
            return
        assert self._store is not None
        state = State(self._store, _cache(self._cache_root))
        for table in run_operator(setting, self._inputs(rows), state):
            for piece in blob.pieces(table):
                if self._direct.get(target):
                    yield from self._handed_on(piece, label, setting)
                else:
                    yield _Wire(label, output_port(target), blob.encode(piece), None)

    def close(self) -> None:
        """Nothing is held open."""

    def _handed_on(self, rows: pa.Table, label: int, setting: Setting) -> Iterator[Row]:
        """Rows for the next operator of the same node, packed here."""
        target, shard = self._labels.place(label)
        case = pa.array(np.full(len(rows), shard // self._labels.shards, dtype=np.int64))
        rows = rows.append_column("case", case)
        drops: Drops = Counter()
        for parcel in pack(rows, self._direct[target], self._labels.shards, setting.slots, drops):
            onward = self._labels.label(parcel.target, parcel.shard)
            yield _Wire(onward, parcel.port, blob.encode(parcel.rows), None)

    def _inputs(self, rows: Iterator[Row]) -> dict[int, pa.Table]:
        sides: dict[int, list[pa.Table]] = {}
        for row in rows:
            sides.setdefault(self._sides[row["port"]], []).append(blob.decode(row["blob"]))
        return {side: pa.concat_tables(tables) for side, tables in sides.items()}


@cache
def _cache(root: str | None) -> RunCache | None:
    """One cache per worker process, so that opened maps outlive a batch."""
    return None if root is None else RunCache(root)
