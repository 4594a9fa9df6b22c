"""EngineRunner: recordings through the engine without JVM, in one batch or cut into several.

Called by the conformance command and by the tests of split and shard invariance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from millpond.testing.arrow import arrow_builder
from millpond.testing.engine import EngineDriver
from millpond.testing.oracle.records import Result
from millpond.testing.recordings import History
from millpond.testing.runners.library import ArrowLibrary
from millpond.testing.runners.topologies import OUTPUT, build_recorded, unsupported
from millpond.topology import Topology


class EngineRunner:
    """Runs each history through the engine.

    Parameters
    ----------
    shards : shards of each operator.
    cuts : records per batch; None: one batch.
    """

    def __init__(self, *, shards: int = 2, cuts: int | None = None) -> None:
        self._shards = shards
        self._cuts = cuts
        self._topologies: dict[str, Topology] = {}

    def supports(self, history: History) -> str | None:
        """Kinds whose operators exist."""
        return unsupported(history)

    def run_many(self, histories: Sequence[History]) -> list[list[list[Result]]]:
        """Results per history and step."""
        return [self.run(history) for history in histories]

    def run(self, history: History) -> list[list[Result]]:
        """Results of each step of one history."""
        driver = EngineDriver(self._topology(history), shards=self._shards)
        output: list[list[Result]] = [[] for _ in history.steps]
        size = self._cuts or len(history.steps) or 1
        for start in range(0, len(history.steps), size):
            for step in history.steps[start : start + size]:
                assert step.topic is not None, "a record has a topic"
                driver.pipe(step.topic, step.key, step.value, ts=step.ts)
            driver.run_batch()
            for result in driver.read(OUTPUT):
                output[result.step].append(Result(result.key, result.value, result.ts))
        return output

    def _topology(self, history: History) -> Topology:
        key = json.dumps([history.kind, dict(history.params), history.version], sort_keys=True)
        if key not in self._topologies:
            builder = build_recorded(history, ArrowLibrary(), lambda g: arrow_builder("recorded", generation=g))
            self._topologies[key] = builder.build()
        return self._topologies[key]
