"""How settings with secrets reach tasks."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._worker.process import SECRETS_PROPERTY, combined

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
