"""Records that may end the process, tried in a process of their own: which of them do is found by halving.

A forked process decodes a part and ends. Where it ends by a signal that only its own code can have raised, the part is
halved; a single record has to do so twice.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE})
"""What comes from outside, such as SIGKILL when a machine lacks memory, says nothing of a record."""
_TIMES = 2
_SECONDS = 600.0
"""A process that has not ended by then is ended, and has told nothing."""
_TURN = 0.005


@dataclass(frozen=True)
class TrialPart:
    """Records one after the other.

    Parameters
    ----------
    start, end : the first, and the one behind the last.
    killed_by : the signal by which the one record ends a process; None: they have been decoded without.
    """

    start: int
    end: int
    killed_by: int | None = None


def parts(decode: Callable[[pa.Array], object], raw: pa.Array) -> list[TrialPart]:
    """The records in parts that can be decoded together, and each of those that cannot be decoded at all.

    Parameters
    ----------
    decode : is called in other processes.
    """
    return list(_parts(decode, raw, 0, len(raw)))


def _parts(decode: Callable[[pa.Array], object], raw: pa.Array, start: int, end: int) -> Iterator[TrialPart]:
    ended_by = _tried(decode, raw[start:end])
    if end - start > 1 and ended_by is not None:
        middle = (start + end) // 2
        yield from _parts(decode, raw, start, middle)
        yield from _parts(decode, raw, middle, end)
        return
    again = (_tried(decode, raw[start:end]) for _ in range(_TIMES - 1))
    yield TrialPart(start, end, ended_by if ended_by is not None and all(each in FAULTS for each in again) else None)


def _tried(decode: Callable[[pa.Array], object], raw: pa.Array) -> int | None:
    """The signal by which a process ended that decoded these; None: it did not, or not by one of `FAULTS`."""
    with warnings.catch_warnings():
        # Arrow's threads are not in the forked one, and nothing there waits for them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            # many may end like this, and each would show where
            faulthandler.disable()
            decode(raw)
        finally:
            # whatever was raised is raised once more where it can be handled
            os._exit(0)
    status = _waited_for(child)
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
    return number if number in FAULTS else None


def _waited_for(child: int) -> int | None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(_TURN)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
