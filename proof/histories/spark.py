"""The same random topologies through real Spark: several side by side in one query, many cases in one run.

Owns how cases are bundled, since a Spark run costs seconds whatever goes through it. Law: each part of a
bundle is what the oracle builds too, unconnected to the others, so a difference names its part by its sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from proof.histories.blueprint import Blueprint, beside
from proof.histories.case import Case
from proof.histories.check import Difference, Steps, by_step, first_difference, lines_of, run_oracle
from proof.histories.draw import draw_blueprint, draw_records
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.functions import ColumnLifts
from proof.histories.kinds.registry import build, is_limited, sinks_of
from proof.histories.last_results import out_of_step
from proof.histories.subjects.times import with_times
from watersmeet.api.builder import StreamsBuilder
from watersmeet.testing.driver import TopologyTestDriver


@dataclass(frozen=True)
class Bundle:
    """Cases of one topology, which consists of several unconnected ones.

    Parameters
    ----------
    cases : the cases; all of one blueprint and number of shards.
    parts : how many topologies stand side by side.
    """

    cases: tuple[Case, ...]
    parts: int

    @property
    def histories(self) -> int:
        """How many histories of one topology each it holds."""
        return self.parts * len(self.cases)


def bundle_of(seed: int, number: int, *, parts: int = 5, cases: int = 20) -> Bundle:
    """The bundle of a seed and a number, without what is compared by last results alone."""
    dice = Dice(f"{seed}/bundle/{number}")
    keys = dice.pick(("string", "long"))
    generation = dice.pick(("current",) * 4 + ("spurious",))
    drawn = (draw_blueprint(dice, keys=keys, generation=generation) for _ in count())
    drawn = (with_times(Dice(f"{seed}/times/{number}/{at}"), each) for at, each in enumerate(drawn))
    within = (b for b in drawn if not out_of_step(b))
    together = beside([next(within) for _ in range(parts)])
    shards = 1 if is_limited(together) else dice.pick((1, 2, 3))
    records = [draw_records(dice, together, most=12 * parts) for _ in range(cases)]
    return Bundle(tuple(Case(together, piped, shards=shards) for piped in records), parts)


def check_bundle(bundle: Bundle, spark: Any = None) -> list[Difference]:
    """What is different on Spark, case by case."""
    found: list[Difference] = []
    for case, got in zip(bundle.cases, run_on_spark(bundle.cases, spark), strict=True):
        expected, _ = run_oracle(case)
        step = first_difference(expected, got, lines_of(case.blueprint, one=False))
        if step is not None:
            found.append(Difference(case, "results", f"results of step {step} differ", step, expected, got))
    return found


def run_on_spark(cases: tuple[Case, ...], spark: Any = None) -> list[Steps]:
    """Results per case and step, of cases of one blueprint, in one run."""
    blueprint: Blueprint = cases[0].blueprint
    builder = StreamsBuilder("histories", generation=blueprint.generation)
    build(blueprint, builder, ColumnLifts())
    driver = TopologyTestDriver(builder.build(), spark, shards=cases[0].shards)
    for number, case in enumerate(cases):
        for record in case.records:
            driver.pipe(record.source, record.key, record.value, ts=record.ts, case=str(number))
    return [
        by_step(len(case.records), {sink: driver.read(sink, case=str(number)) for sink in sinks_of(blueprint)})
        for number, case in enumerate(cases)
    ]
