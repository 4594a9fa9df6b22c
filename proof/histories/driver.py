"""A driver that is rough with the engine: blobs come in any order and in pieces, batches crash and run again.

Owns the promise that a replayed batch gives identical bytes, results and state (laws 1, 2 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random
from typing import Any

import pyarrow as pa

from proof.engine import EngineBatch, EngineDriver
from watersmeet._engine import row_sizes
from watersmeet._engine.state.runs import MemoryChunkStore, StoreSnapshot
from watersmeet._plan.physical import Operator
from watersmeet.api.topology import Topology

Content = dict[tuple[int, int], StoreSnapshot]


class ReplayDiffersError(Exception):
    """A batch that was run again gave other bytes; the message says which."""


class RoughBatch(EngineBatch):
    """A batch whose shards get their blobs shuffled and cut; it remembers the bytes of its results if it is to."""

    def __init__(self, driver: EngineDriver, random: Random, *, remembers: bool) -> None:
        super().__init__(driver)
        self._random = random
        self._remembers = remembers
        self.written: list[tuple[str, bytes]] = []

    def _run_operator(self, operator: Operator, shard: int, mail: list[tuple[int, bytes]]) -> Iterator[pa.Table]:
        pieces = [(port, piece) for port, content in mail for piece in self._cut(content)]
        self._random.shuffle(pieces)
        return super()._run_operator(operator, shard, pieces)

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        for sink, rows in super().finish():
            if self._remembers:
                self.written.append((sink, row_sizes.encode(rows.combine_chunks())))
            yield sink, rows

    def _cut(self, content: bytes) -> Iterator[bytes]:
        # What is not cut need not be read.
        rows = row_sizes.decode(content) if self._random.random() < 0.5 else None
        if rows is None or len(rows) < 2:
            yield content
            return
        at = self._random.randrange(1, len(rows))
        yield row_sizes.encode(rows.slice(0, at))
        yield row_sizes.encode(rows.slice(at))


class RoughDriver(EngineDriver):
    """Runs a topology batch by batch, each twice if `replay`.

    Parameters
    ----------
    topology, shards : as for `EngineDriver`.
    replay : whether a batch is run, undone as a crash before the commit undoes it, and run again.
    shuffle : seed of the order of blobs.
    partitioned, idle_after_ms, record_cache : as for `EngineDriver`.
    rescaled : by turns behind each batch, over how many shards the state is divided anew; 0: it stays as it is.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        shards: int,
        replay: bool,
        shuffle: int,
        partitioned: bool = False,
        idle_after_ms: int = 0,
        record_cache: bool = False,
        rescaled: Sequence[int] = (),
    ) -> None:
        super().__init__(
            topology, shards=shards, partitioned=partitioned, idle_after_ms=idle_after_ms, record_cache=record_cache
        )
        self._replay = replay
        self._random = Random(shuffle)
        self._batch: RoughBatch | None = None
        self._rescaled = cycle(rescaled or (0,))

    def new_batch(self) -> EngineBatch:
        self._batch = RoughBatch(self, self._random, remembers=self._replay)
        return self._batch

    def run_batch(self) -> None:
        """Process what was piped as one micro-batch; once more if the driver replays. Then divide the state anew."""
        if self._replay:
            self._run_twice()
        else:
            super().run_batch()
        if shards := next(self._rescaled):
            self.rescale(shards)

    def _run_twice(self) -> None:
        piped, before, wall, begun = list(self._piped), self.content(), self._wall_clock, self._begun
        results, drops = {name: list(rows) for name, rows in self._results.items()}, self.drops.copy()
        super().run_batch()
        first = self._bytes()
        self._restore(before)
        self._piped, self._wall_clock, self._begun = piped, wall, begun
        self._results.clear()
        self._results.update(results)
        self.drops.clear()
        self.drops.update(drops)
        super().run_batch()
        for what, one, other in zip(("results", "state"), first, self._bytes(), strict=True):
            if one != other:
                raise ReplayDiffersError(f"a replayed batch wrote other {what}")

    def content(self) -> Content:
        """What all stores hold."""
        return {place: store.snapshot() for place, store in self.stores.items()}

    def _bytes(self) -> tuple[Any, Any]:
        assert self._batch is not None, "a batch has run"
        state = {place: (kept.manifest, dict(kept.chunks)) for place, kept in self.content().items()}
        return self._batch.written, {place: held for place, held in state.items() if held != (None, {})}

    def _restore(self, before: Content) -> None:
        empty = MemoryChunkStore().snapshot()
        for place, store in self.stores.items():
            store.restore(before.get(place, empty))
