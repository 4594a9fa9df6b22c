"""How old records are when their batch begins, as a histogram, of which their latency is made behind the batch.

A task that runs again has to count the same once more (`measures`), so no task asks its own clock: the driver says with
a property of the job when the batch began. The time between the begin and the outputs is added where it is known.
A bucket is an eighth of a doubling, so an age is known to 5 percent, and a latency, which is put into
a bucket again, to 9.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from watersmeet._engine.arrays import Int64s
from watersmeet._worker import task

PROPERTY = "watersmeet.begun_ms"
"""The job's property that says when the batch began, in ms since 1970."""
_STEPS = 8
"""Buckets for each doubling."""


def begun_ms() -> int | None:
    """When the batch of this task began; None: nobody says it."""
    given = task.job_property(PROPERTY)
    return int(given) if given else None


def buckets_of(ages_ms: Int64s) -> Mapping[int, int]:
    """The number of ages in each bucket.

    >>> dict(buckets_of(np.array([-5, 0, 1, 1000])))
    {0: 2, 1: 1, 80: 1}
    """
    known = np.maximum(ages_ms, 1).astype(np.float64)
    numbers = np.where(ages_ms < 1, 0, np.floor(_STEPS * np.log2(known)).astype(np.int64) + 1)
    found, counts = np.unique(numbers, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def bucket_of(ms: float) -> int:
    """The number of the bucket that a time is in."""
    return next(iter(buckets_of(np.array([round(ms)], dtype=np.int64))))


def middle_ms(bucket: int) -> float:
    """The time that stands for a bucket.

    >>> [round(middle_ms(number)) for number in (0, 1, 80)]
    [0, 1, 981]
    """
    return 0.0 if bucket == 0 else float(2.0 ** ((bucket - 0.5) / _STEPS))
