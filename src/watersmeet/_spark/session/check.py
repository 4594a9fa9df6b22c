"""The session that a user gives: whether it is one, and whether it still runs."""

from __future__ import annotations

import os
from typing import Any

from watersmeet.errors import ConfigError


def check_session(given: Any, call: str) -> None:
    """Raise unless it is a Spark session that runs.

    Parameters
    ----------
    call : how what gets the session is called, for the hint.

    Raises
    ------
    ConfigError : it is something else, or has been stopped.
    """
    if not (hasattr(given, "conf") and hasattr(given, "createDataFrame")):
        raise ConfigError(
            f"This call takes a Spark session, and not {type(given).__name__}: {given!r:.80}.",
            hint=f"Make one, spark = wm.session('app'), and call {call}.",
        )
    if _has_stopped(given):
        raise ConfigError(
            "The Spark session has been stopped: nothing can run in it any more.",
            hint=f"Make another, spark = wm.session('app'), and call {call}.",
        )


def check_threads(needed_by: str) -> None:
    """Raise where PySpark does not keep a thread of the JVM for each of Python's.

    Such a thread has the properties of its jobs, and can end its query without an interruption.

    Parameters
    ----------
    needed_by : the call or the option that needs these threads.

    Raises
    ------
    ConfigError : PYSPARK_PIN_THREAD is not true.
    """
    given = os.environ.get("PYSPARK_PIN_THREAD", "true")
    if given.lower() != "true":
        raise ConfigError(
            f"{needed_by} does not work with PYSPARK_PIN_THREAD={given}: PySpark then shares threads of the JVM.",
            hint="Leave that variable out.",
        )


def _has_stopped(spark: Any) -> bool:
    try:
        # of a stopped context it asks what is not there any more; a session of Spark Connect has no context
        _ = spark.sparkContext.defaultParallelism
    except AttributeError as error:
        return "NoneType" in str(error)
    except Exception:
        return False
    return False
