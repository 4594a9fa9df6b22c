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
    ConfigError : it is something else, is one of Spark Connect, or has been stopped.
    """
    if not (hasattr(given, "conf") and hasattr(given, "createDataFrame")):
        raise ConfigError(
            f"This call takes a Spark session, and not {type(given).__name__}: {given!r:.80}.",
            hint=f"Make one, spark = wm.session('app'), and call {call}.",
        )
    if is_connect(given):
        raise of_connect(f"{type(given).__module__}.{type(given).__name__}", call)
    if _has_stopped(given):
        raise ConfigError(
            "The Spark session has been stopped: nothing can run in it any more.",
            hint=f"Make another, spark = wm.session('app'), and call {call}.",
        )


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no JVM beside it (serverless compute gives such ones)."""
    return any(each.__module__.startswith("pyspark.sql.connect.") for each in type(spark).__mro__)


def of_connect(given: str, call: str) -> ConfigError:
    """The error that a session of Spark Connect cannot do this.

    Parameters
    ----------
    given : the session, or where it would be.
    call : how what gets the session is called, for the hint.
    """
    return ConfigError(
        f"A session of Spark Connect, as serverless compute has it, cannot run a topology: {given:.120}.",
        hint=f"Run the program on the driver (spark-submit, a classic cluster, or local[*]), without SPARK_REMOTE: "
        f"spark = wm.session('app'), {call}; docs/deploy.md#spark-connect-and-serverless.",
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
        # of a stopped context it asks what is not there any more
        _ = spark.sparkContext.defaultParallelism
    except AttributeError as error:
        return "NoneType" in str(error)
    except Exception:
        return False
    return False
