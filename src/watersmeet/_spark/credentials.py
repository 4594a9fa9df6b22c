"""How settings with secrets reach tasks, and columns that name no line of the user's."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import utils
from pyspark.sql import SparkSession

from watersmeet._worker.process import SECRETS_PROPERTY, combined

# Columns of watersmeet's own are made without telling Spark which line of Python made them.
#
# For each operation on a column PySpark asks the session for its settings and tells the JVM where in the program it is:
# some ten calls for one. Errors then name that line, which helps where it is the user's. Law 8: this is an internal of
# PySpark's; where it is not there, everything works as before, with more calls.

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
            previous = _inside.pop()
            if not _inside:
                setattr(utils, _FLAG, previous)


# How the Kafka client's settings, which may hold secrets, reach the tasks that write.
#
# Values pickled into a function lie in block stores and broadcast files, and the properties of a job lie in the
# event log, unless the session was made with a setting of the same name: Spark blacks out only those. So neither
# has the settings. They are split: a random pad goes as a property of the job, and what the pad turns into the
# settings goes with the function. One without the other says nothing but the length.


@contextmanager
def handed_over(spark: SparkSession, settings: Mapping[str, Any], name: str = SECRETS_PROPERTY) -> Iterator[bytes]:
    """The settings that a function needs for `received`, in tasks of the jobs that this thread starts while it lasts.

    A streaming query that is started while it lasts keeps the property for all its jobs.
    """
    content = json.dumps(dict(settings)).encode()
    pad = secrets.token_bytes(len(content))
    context = spark.sparkContext
    context.setLocalProperty(name, pad.hex())
    try:
        yield combined(content, pad)
    finally:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # documented: removes it
