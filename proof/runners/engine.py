"""EngineRunner: recordings through the engine without JVM, in one batch or cut into several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle.records import Result, Windowed
from proof.oracle.streams.recorded_programs import BY_WALL
from proof.recordings import History, topology_key
from proof.runners.library import ArrowLibrary
from proof.runners.topologies import build_recorded, shards_of, unsupported
from proof.runners.vectors import new_values
from watersmeet.api.topology import Topology


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
        self._topologies: dict[str, tuple[Topology, dict[str, str | None]]] = {}

    def supports(self, history: History) -> str | None:
        """Kinds whose operators exist."""
        return unsupported(history)

    def observed(self, history: History) -> History:
        """Whole changes are seen by their new values."""
        return new_values(history)

    def run_many(self, histories: Sequence[History]) -> list[list[list[Result]]]:
        """Results per history and step."""
        return [self.run(history) for history in histories]

    def run(self, history: History) -> list[list[Result]]:
        """Results of each step of one history."""
        topology, outputs = self._topology(history)
        driver = EngineDriver(topology, shards=shards_of(history, self._shards))
        if history.kind in BY_WALL:
            return self._run_by_wall(history, driver, outputs)
        size = self._cuts or len(history.steps) or 1
        for start in range(0, len(history.steps), size):
            for step in history.steps[start : start + size]:
                if step.topic is not None:  # the wall clock moves nothing here
                    driver.pipe(step.topic, step.key, step.value, ts=step.ts)
            driver.run_batch()
        return by_step(history, {name: driver.read(name) for name in outputs}, outputs)

    def _run_by_wall(
        self, history: History, driver: EngineDriver, outputs: Mapping[str, str | None]
    ) -> list[list[Result]]:
        """What the wall clock lets go is a result of the step that moves it: a batch of its own."""
        found: list[list[Result]] = [[] for _ in history.steps]
        piped: list[int] = []
        wall = 0

        def read(step: int | None) -> None:
            driver.run_batch()
            for name, sink in outputs.items():
                for record in driver.read(name):
                    result = Result(_key(record.key), record.value, record.ts, sink)
                    found[piped[record.step] if step is None else step].append(result)

        for number, step in enumerate(history.steps):
            if step.advance_ms is not None:
                read(None)
                wall += step.advance_ms
                driver.show_wall_clock(wall)
                read(number)
                continue
            assert step.topic is not None, "a record has a topic"
            piped.append(number)
            driver.pipe(step.topic, step.key, step.value, ts=step.ts)
            if self._cuts and len(piped) % self._cuts == 0:
                read(None)
        read(None)
        return found

    def _topology(self, history: History) -> tuple[Topology, dict[str, str | None]]:
        key = topology_key(history)
        if key not in self._topologies:
            builder, outputs = build_recorded(
                history, ArrowLibrary(), lambda g: arrow_builder("recorded", generation=g)
            )
            self._topologies[key] = builder.build(), outputs
        return self._topologies[key]


def by_step(
    history: History, outputs: Mapping[str, Sequence[Any]], sinks: Mapping[str, str | None]
) -> list[list[Result]]:
    """Records of all outputs as results per step, in the order in which they were made."""
    steps: list[list[Result]] = [[] for _ in history.steps]
    piped = [number for number, step in enumerate(history.steps) if step.topic is not None]
    records = [(record, sinks[name]) for name, read in outputs.items() for record in read]
    for record, sink in sorted(records, key=lambda pair: pair[0].position):
        steps[piped[record.step]].append(Result(_key(record.key), record.value, record.ts, sink))
    return steps


def _key(key: Any) -> Any:
    """A key as recordings have it: those of windows are no plain structs."""
    return Windowed(**key) if isinstance(key, Mapping) and tuple(key) == Windowed._fields else key
