"""How the Kafka client's settings, which may hold secrets, reach the tasks that write.

What is pickled into a function lies in block stores and broadcast files, and the properties of a job lie in the
event log, unless the session was made with a setting of the same name: Spark blacks out only those. So neither
has the settings. They are split: a random pad goes as a property of the job, and what the pad turns into the
settings goes with the function. One without the other says nothing but the length.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigError

PROPERTY = "watersmeet.kafka.secret"
"""Name of the job's property; tools that black out by name know the word in it."""
REGISTRIES = "watersmeet.registry.secret"
"""The same for Schema Registries."""


@contextmanager
def handed_over(spark: SparkSession, settings: Mapping[str, Any], name: str = PROPERTY) -> Iterator[bytes]:
    """What a function needs for `received`, in tasks of the jobs that this thread starts while it lasts.

    A streaming query that is started while it lasts keeps the property for all its jobs.
    """
    content = json.dumps(dict(settings)).encode()
    pad = secrets.token_bytes(len(content))
    context = spark.sparkContext
    context.setLocalProperty(name, pad.hex())
    try:
        yield _combined(content, pad)
    finally:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # documented: removes it


def received(half: bytes, name: str = PROPERTY) -> dict[str, Any]:
    """The settings, in a task, from the half that came with the function.

    Raises
    ------
    ConfigError : the other half did not come.
    """
    context = TaskContext.get()
    given = None if context is None else context.getLocalProperty(name)
    if given is None:
        raise ConfigError(
            f"The task was not told how to reach {'Kafka' if name == PROPERTY else 'the Schema Registry'}.",
            given=f"no property {name} of the job",
            hint="Results leave through the query that Topology.start begins; its frames cannot be run by themselves.",
        )
    settings: dict[str, Any] = json.loads(_combined(half, bytes.fromhex(given)))
    return settings


def _combined(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
