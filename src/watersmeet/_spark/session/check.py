"""The session that a user gives: whether it is one, and whether it still runs."""

from __future__ import annotations

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


def _has_stopped(spark: Any) -> bool:
    try:
        # of a stopped context it asks what is not there any more; a session of Spark Connect has no context
        _ = spark.sparkContext.defaultParallelism
    except AttributeError as error:
        return "NoneType" in str(error)
    except Exception:
        return False
    return False
