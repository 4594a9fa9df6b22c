"""Ctrl-C while a program waits for its query: the first ends it behind its batch, the second at once, a third raises.

PySpark's own answer cancels the jobs under way, and the batch fails. A handler of the program's own stays.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming import StreamingQuery

LOOK_SECONDS = 0.5
"""Between two looks whether Ctrl-C was pressed: a call into the JVM is not broken off by it."""
_MOST_PRESSES = 2
SAID = "watersmeet: the query ends when its batch is written; Ctrl-C again stops it at once."


def wait(
    query: StreamingQuery, timeout: float | None, drain: Callable[[float], bool], stop: Callable[[], None]
) -> bool | None:
    """Wait until the query ends, `timeout` seconds at most; whether it has ended where one is given.

    Parameters
    ----------
    query : Spark's.
    timeout : in seconds; None: as long as it takes.
    drain : ends the query behind its batch, waits so many seconds for that, and says whether it has ended.
    stop : ends the query at once.
    """
    if timeout is not None and timeout <= 0:
        return query.awaitTermination(timeout)  # type: ignore[arg-type]  # which says what is wrong
    until = None if timeout is None else time.monotonic() + timeout
    with _presses() as pressed:
        while not pressed():
            rest = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - time.monotonic())
            if rest <= 0:
                return False
            if query.awaitTermination(max(rest, 0.001)):  # type: ignore[arg-type]
                return None if until is None else True
        print(SAID, file=sys.stderr, flush=True)
        while not drain(LOOK_SECONDS):
            if pressed() > 1:
                stop()
                break
    return None if until is None else True


@contextmanager
def _presses() -> Iterator[Callable[[], int]]:
    """Counts Ctrl-C while it lasts, where the answer to it would be Python's or PySpark's."""
    count = 0

    def press(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > _MOST_PRESSES:
            # a sink that hangs keeps Spark's own stop waiting
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: count
        return
    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler or str(getattr(before, "__module__", "")).startswith("pyspark.")
    if ours:
        signal.signal(signal.SIGINT, press)
    try:
        yield lambda: count
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
