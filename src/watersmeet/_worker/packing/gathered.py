"""Results of many shards of one operator, packed together: the fixed cost of packing is a task's, not a shard's.

A shard alone would send one blob to each shard of the next operator: with as many shards on both
sides their square, of a row or two each. Held together until the task's end, or until they are large (law 9), they are
as many as a stage would make that packs a task's rows. Nothing depends on it but speed: a shard's rows stay in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet._engine.rows.columns import stacked

HELD_BYTES = 16 << 20
"""Of one operator's results, held together at most."""
SMALL = 256 << 10
"""Bytes of results that are held at most: larger ones gain nothing, and are views of what else would be let go."""


class Gathered:
    """The results that one task holds."""

    def __init__(self) -> None:
        self._held: dict[int, list[pa.Table]] = {}
        self._sizes: dict[int, int] = {}

    def add(self, target: int, results: pa.Table) -> pa.Table | None:
        """Results of an operator; what is to be packed now, None: nothing yet."""
        size = results.nbytes
        held = self._held.setdefault(target, [])
        held.append(results)
        self._sizes[target] = self._sizes.get(target, 0) + size
        if size <= SMALL and self._sizes[target] < HELD_BYTES:
            return None
        return self._taken(target)

    def rest(self) -> Iterator[tuple[int, pa.Table]]:
        """All that is still held, operator by operator, which is held no more."""
        for target in list(self._held):
            yield target, self._taken(target)

    def __bool__(self) -> bool:
        return bool(self._held)

    def _taken(self, target: int) -> pa.Table:
        del self._sizes[target]
        parts = self._held.pop(target)
        return parts[0] if len(parts) == 1 else stacked(parts).combine_chunks()
