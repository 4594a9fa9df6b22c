"""Preparation of the Python processes in which Spark runs functions of watersmeet."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import warnings
from functools import cache
from pathlib import Path

import pyarrow as pa

CACHE, SPOOL = range(2)
"""What there may be to say."""
_SAID = mmap.mmap(-1, 2)
"""A byte for each, shared by the processes that are forked from this one: whether one of them has said it."""
KEPT_BYTES = 48 << 20
"""What a worker keeps for its next task beside what it began with: the batches of a trickle never need more."""


@cache
def settle() -> int:
    """Once per process: what has been imported is no longer looked through for garbage; what it has, in bytes.

    Spark's worker collects garbage after every task. With pandas, pyarrow and Spark's own modules loaded that is
    60 ms each time, a sixth of all Python time of a busy query, and finds nothing: modules stay.
    """
    gc.collect()
    gc.freeze()
    return own_bytes()


def give_back() -> None:
    """At the end of a task: free memory goes to the system, where it is much (law 9).

    While a level's workers are busy those that pack and write are not, and the other way round; each of them would keep
    what its largest task has taken.
    """
    if own_bytes() - settle() <= KEPT_BYTES:
        return
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def own_bytes() -> int:
    """Resident memory of this process that is not mapped from files; 0 where the system does not say (not Linux)."""
    resident, files = _pages("self")
    return (resident - files) * os.sysconf("SC_PAGE_SIZE")


def resident_bytes(process: int | None = None) -> int:
    """Resident memory of a process, this one if none is named; 0 where the system does not say (not Linux)."""
    return _pages("self" if process is None else str(process))[0] * os.sysconf("SC_PAGE_SIZE")


def _pages(process: str) -> tuple[int, int]:
    try:
        _, resident, files, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0, 0
    return int(resident), int(files)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """The C library's own way to give memory back, which glibc alone has."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def say(what: int, text: str) -> None:
    """Warn, once for all workers of a daemon that has watersmeet imported (`daemon`), else once in each."""
    if _SAID[what] == 0:
        _SAID[what] = 1
        warnings.warn(text, stacklevel=1)
