"""The status of a query: all that its page, and `watersmeet top`, show of it, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyspark

from watersmeet._plan.dead_letters import letter_sources
from watersmeet._plan.explain import explain
from watersmeet._plan.physical import Physical
from watersmeet._plan.pictures.picture import Picture, picture_of
from watersmeet._plan.pictures.svg import svg
from watersmeet._spark.metrics.as_json import metrics_as_json, run_as_json, without_keys
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.picture_counts import picture_counts
from watersmeet._spark.metrics.query_facts import reason_of
from watersmeet._spark.serving.dead_letters import LetterTopics
from watersmeet.io.kafka import Kafka
from watersmeet.versions import own_version


@dataclass(frozen=True)
class QueryStatus:
    """A query, as far as it is shown.

    Parameters
    ----------
    name : the query's.
    checkpoint : where it continues from.
    topology : what it runs.
    failure : why it has ended by itself; None: it has not.
    is_active : whether it runs.
    doing : what Spark says that it does.
    metrics : its numbers.
    kafka : its connection; None: it has none.
    """

    name: str
    checkpoint: str
    topology: Physical
    failure: Callable[[], Exception | None]
    is_active: Callable[[], bool]
    doing: Callable[[], str]
    metrics: Callable[[], Metrics]
    kafka: Kafka | None = None

    @cached_property
    def picture(self) -> Picture:
        """The picture of its topology."""
        return picture_of(self.topology)

    @cached_property
    def svg(self) -> str:
        """The same, as SVG."""
        return svg(self.picture)

    @cached_property
    def text(self) -> str:
        """The topology as text."""
        return explain(self.topology)

    def as_json(self) -> dict[str, Any]:
        """All numbers as JSON has them."""
        now, failure = self.metrics(), self.failure()
        counts = picture_counts(self.picture, now)
        return {
            "query": self.name,
            "application": self.topology.plan.application,
            "checkpoint": self.checkpoint,
            "versions": {"watersmeet": own_version(), "spark": pyspark.__version__},
            "active": now.active,
            "doing": self.doing() if now.active else None,
            "error": None if failure is None else str(failure),
            "reason": None if failure is None else reason_of(str(failure)),
            **metrics_as_json(without_keys(now)),
            **run_as_json(now),
            "rate": None if now.batch is None else now.batch.rate,
            "dead_letters": self._dead_letters(now),
            "picture": {
                "nodes": [box.node for box in self.picture.boxes],
                "arrows": counts.arrows,
                "drops": counts.drops,
            },
        }

    def last_dead_letters(self) -> list[dict[str, Any]]:
        """The last dead letters, the newest first.

        Raises
        ------
        WatersmeetError : their topics cannot be read.
        """
        topics = tuple(dict.fromkeys(topic for topic, _, _ in self._letter_outputs()))
        return LetterTopics(self.kafka, topics).last() if topics and self.kafka is not None else []

    def _dead_letters(self, now: Metrics) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "of": of, "records": now.produced.get(sink)} for topic, of, sink in self._letter_outputs()
        ]

    def _letter_outputs(self) -> Iterator[tuple[str, str, str]]:
        """Topic of each output of dead letters, the input that they belong to, and the output's name."""
        plan = self.topology.plan
        letters = letter_sources(plan)
        for sink in plan.sinks:
            of = letters.get(sink.inputs[0])
            if of is not None:
                yield str(sink.output), of, sink.name
