"""What `wm.session` gives in a worker of Spark's, which has no session.

A function that lies in a module is sent by the module's name, and a worker imports the module to find it. Whatever the
module does at its top then happens there too: a test module that makes its session at its top is to be imported all the
same.
"""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

from watersmeet._worker import task
from watersmeet.errors import ConfigError


class NoSession:
    """Stands for the session in a worker: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ConfigError(
            f"A worker of Spark has no session, and a function reads {name!r} of one.",
            hint="The module is imported in the workers, which call its functions: use the session within functions "
            "(a fixture, def main()), and leave the module's top to wm.session(...) alone.",
        )


def session_of_worker() -> SparkSession | None:
    """The replacement of the session in a worker; None on the driver."""
    return cast("SparkSession", NoSession()) if task.in_task() else None
