"""The roots of a stage: the sources and operators with rows in its frame, and their facts."""

from __future__ import annotations

from watersmeet._engine.exchange.watermark import Watermark, watermark_of
from watersmeet._plan.dead_letters import letter_sources
from watersmeet._plan.physical import Physical
from watersmeet._spark.dataflow.outlets import outlets_of, peeks_of
from watersmeet._spark.dataflow.stage import Stage
from watersmeet._worker.packing.packing import PackedStage


def roots_of(stage: Stage) -> dict[int, str]:
    """Name of each root of the stage, by its number."""
    return {stage.root_number(f): f.node for f in stage.flows if f.parent is None}


def packed_stage(physical: Physical, stage: Stage, number: int, *, exits: bool, times: bool = True) -> PackedStage:
    """The facts of the plan for the packing of a stage.

    Parameters
    ----------
    number : of the stage.
    exits : whether rows of outputs take one more exchange.
    times : whether its rows move the time of operators.
    """
    return PackedStage(
        outlets=outlets_of(physical, stage, number, exits=exits),
        slots=physical.slots,
        roots=roots_of(stage),
        peeks=peeks_of(physical, stage),
        watermarks=_watermarks_of(physical, stage) if times else (),
        first=_global_roots(physical),
        dead_letters=_dead_letter_roots(physical, stage),
        patterns=_pattern_roots(physical, stage) if number == 0 else (),
    )


def _dead_letter_roots(physical: Physical, stage: Stage) -> dict[int, str]:
    """Of the stage's roots those that are dead letters, and the names of their sources."""
    letters = letter_sources(physical.plan)
    return {number: letters[name] for number, name in roots_of(stage).items() if letters.get(name)}


def _pattern_roots(physical: Physical, stage: Stage) -> tuple[int, ...]:
    """Of the stage's roots those that have the topics of a pattern."""
    mine, sources = roots_of(stage), physical.plan.sources
    return tuple(n for n, s in enumerate(sources) if s.origin.pattern is not None and mine.get(n) == s.name)


def _global_roots(physical: Physical) -> tuple[int, ...]:
    """Numbers of the sources that are global tables, which go first."""
    return tuple(n for n, source in enumerate(physical.plan.sources) if source.shape.kind == "global")


def _watermarks_of(physical: Physical, stage: Stage) -> tuple[Watermark, ...]:
    """The rows of time from the stage's sources to the operators that they reach."""
    watermarks = []
    for operator, time in physical.timed:
        mine = tuple(f"root:{number}" for number, name in roots_of(stage).items() if name in time.told_by)
        if mine:
            watermarks.append(watermark_of(physical, operator, mine))
    return tuple(watermarks)
