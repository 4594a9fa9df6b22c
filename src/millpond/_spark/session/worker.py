"""What millpond does for the Python processes that Spark runs its functions in."""

from __future__ import annotations

import gc
import mmap
import warnings
from functools import cache

CACHE, SPOOL = range(2)
"""What there may be to say."""
_SAID = mmap.mmap(-1, 2)
"""A byte for each, shared by the processes that are forked from this one: whether one of them has said it."""


@cache
def settle() -> None:
    """Once per process: what has been imported is no longer looked through for garbage.

    Spark's worker collects garbage after every task. With pandas, pyarrow and Spark's own modules loaded that is
    60 ms each time, a sixth of all Python time of a busy query, and finds nothing: modules stay.
    """
    gc.collect()
    gc.freeze()


def say(what: int, text: str) -> None:
    """Warn, once for all workers of a daemon that has millpond imported (`daemon`), else once in each."""
    if _SAID[what] == 0:
        _SAID[what] = 1
        warnings.warn(text, stacklevel=1)
