"""A progress bar over the batches of a running query.

Reads Spark's own progress: how many records each batch took.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

_LOOK_EVERY = 0.2


@dataclass
class Run:
    """What the query has done so far, over all its starts."""

    records: int = 0
    batches: int = 0
    seconds: float = 0.0
    first: tuple[int, float] = (0, 0.0)  # records and seconds of the first batch
    drops: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def warm_rate(self) -> float | None:
        """Records per second after the first batch, for which Spark has to start its workers."""
        records, seconds = self.first
        return (self.records - records) / (self.seconds - seconds) if self.batches > 1 else None

    def took(self, records: int, seconds: float) -> None:
        """One more batch, so many seconds after the query's start."""
        if not self.batches:
            self.first = records, seconds
        self.records += records
        self.batches += 1


def follow(query: Any, run: Run, bar: tqdm[Any]) -> None:
    """Keep the bar going until the query has read all there is, and add what it did to `run`.

    Raises whatever the query failed with; an interrupt stops the query first.
    """
    begin = time.perf_counter()
    seen: set[int] = set()
    try:
        ended = False
        # a last look after the end: the last batch's progress comes with it
        while not ended:
            ended = query.awaitTermination(_LOOK_EVERY)
            for progress in query.recentProgress:
                if progress["numInputRows"] and progress["batchId"] not in seen:
                    seen.add(progress["batchId"])
                    run.took(progress["numInputRows"], time.perf_counter() - begin)
                    bar.set_postfix_str(f"batch {run.batches}", refresh=False)
                    bar.update(progress["numInputRows"])
        run.drops.update(query.drops)
    finally:
        query.stop()
        run.seconds += time.perf_counter() - begin
