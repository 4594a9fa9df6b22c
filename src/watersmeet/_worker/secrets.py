"""The half of a client's settings that a task is told, and how the other half, which came with its function, is added.

The driver's side, and why they are split, is in `_spark/session/credentials.py`.
"""

from __future__ import annotations

import json
from typing import Any

from watersmeet._worker.task import job_property
from watersmeet.errors import ConfigError

PROPERTY = "watersmeet.kafka.secret"
"""Name of the job's property; tools that black out by name know the word in it."""
REGISTRIES = "watersmeet.registry.secret"
"""The same for Schema Registries."""


def received(half: bytes, name: str = PROPERTY) -> dict[str, Any]:
    """The settings, in a task, from the half that came with the function.

    Raises
    ------
    ConfigError : the other half did not come.
    """
    given = job_property(name)
    if given is None:
        raise ConfigError(
            f"The task was not told how to reach {'Kafka' if name == PROPERTY else 'the Schema Registry'}.",
            given=f"no property {name} of the job",
            hint="Results leave through the query that Topology.start begins; its frames cannot be run by themselves.",
        )
    settings: dict[str, Any] = json.loads(combined(half, bytes.fromhex(given)))
    return settings


def combined(one: bytes, other: bytes) -> bytes:
    """Both halves as one, or a half of it."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
