"""Calls that may not come back: each in a thread of its own, which keeps no program from ending, as a pool's would."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """A call has not come back in time."""


def in_background(call: Callable[[], T], name: str) -> Future[T]:
    """The result or error of a running call.

    Parameters
    ----------
    name : of its thread.
    """
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # raised where it is waited for
            found.set_exception(error)

    threading.Thread(target=run, name=f"watersmeet: {name}", daemon=True).start()
    return found


def call_with_timeout(seconds: float, call: Callable[[], T], name: str) -> T:
    """The result or error of a call; its thread is given up if it does not return in time.

    Raises
    ------
    TookTooLong : it has not.
    """
    found = in_background(call, name)
    # a call may raise TimeoutError itself, so that of `result` would not tell
    if not wait([found], seconds).done:
        raise TookTooLong
    return found.result()
