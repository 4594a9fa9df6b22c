"""Columns of watersmeet's own are made without telling Spark which line of Python made them.

For each operation on a column PySpark asks the session for its settings and tells the JVM where in the program it is:
some ten calls for one. Errors then name that line, which helps where it is the user's. Law 8: this is an internal of
PySpark's; where it is not there, everything works as before, with more calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

_FLAG = "_enable_debugging_cache"
_lock = threading.Lock()
_inside: list[bool | None] = []
"""What the flag is to be again, once for each that is inside: threads may be so at once."""


@contextmanager
def unnamed() -> Iterator[None]:
    """While it lasts, columns get no origin; not for what calls a function of the user's."""
    if not hasattr(utils, _FLAG):
        yield
        return
    with _lock:
        _inside.append(_inside[0] if _inside else getattr(utils, _FLAG))
        setattr(utils, _FLAG, False)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                setattr(utils, _FLAG, before)
