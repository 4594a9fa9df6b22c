"""How a task puts the two halves of a client's settings together: one came with its function, one with its job.

`_spark/session/credentials.py` splits them, and says why.
"""

from __future__ import annotations

import json
from typing import Any

from watersmeet._worker.task import job_property
from watersmeet.errors import ConfigError

PROPERTY = "watersmeet.kafka.secret"
"""The job's property with Kafka's half. Tools that redact by name look for the word "secret"."""
REGISTRIES = "watersmeet.registry.secret"
"""The job's property with the Schema Registry's half."""


def received(half: bytes, name: str = PROPERTY) -> dict[str, Any]:
    """The settings, in a task, from the half that came with the function.

    Raises
    ------
    ConfigError : the other half did not come.
    """
    given = job_property(name)
    if given is None:
        raise ConfigError(
            f"The task has no settings for {'Kafka' if name == PROPERTY else 'the Schema Registry'}.",
            given=f"no property {name} of the job",
            hint="Start the topology with Topology.start(...): its frames cannot be run by themselves.",
        )
    settings: dict[str, Any] = json.loads(combined(half, bytes.fromhex(given)))
    return settings


def combined(one: bytes, other: bytes) -> bytes:
    """The bytes of two halves put together, or a half of bytes and the other half."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
