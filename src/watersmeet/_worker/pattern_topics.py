"""The topics of patterns, as the driver tells a batch's tasks: a property of the job, since others may join."""

from __future__ import annotations

import json

from watersmeet._engine.rows.topic_slots import TOPICS, Topics
from watersmeet._worker.task import job_property

PROPERTY = "watersmeet.topics"
"""The job's property that has them."""


def as_property(topics: Topics) -> str:
    """The property that `take_topics` reads."""
    return json.dumps({str(source): list(names) for source, names in topics.items()})


def take_topics() -> None:
    """Know them in this task; without the property nothing changes."""
    given = job_property(PROPERTY)
    if given:
        TOPICS.set({int(source): names for source, names in json.loads(given).items()})
