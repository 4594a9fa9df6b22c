"""A run: drivers that start, stand still, die and are passed by, as a seed says; and the judge of what came out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from simulation.driver import Checkpoint, Defect, Driver, Record
from simulation.schedule import Schedule, Stuck, Turn
from simulation.world import Broker, Faults, Files
from watersmeet.errors import ConfigError

INPUT = 12
"""Records of a run."""
BETWEEN = 0.3
"""How often a driver stands still where it has looked and is about to write what it may not write any more."""
TRIES = 8
"""Starts until the last driver has to have come to the end."""


@dataclass(frozen=True)
class Verdict:
    """What came out of a run.

    Parameters
    ----------
    seed : which run.
    outcome : "ok", or what is wrong.
    trace : what was asked, step by step.
    """

    seed: int
    outcome: str
    trace: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing is lost, doubled or stuck without a word."""
        return self.outcome == "ok"


class Run:
    """One run.

    Parameters
    ----------
    seed : says all that happens.
    defects : mistakes that are put back.
    """

    def __init__(self, seed: int, defects: Collection[Defect] = ()) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.schedule = Schedule(self.chance)
        self.faults = Faults(lost_answer=self.chance.choice([0.0, 0.0, 0.02, 0.1]))
        kind = self.chance.choices(["disk", "hdfs", "s3"], [4, 9, 4])[0]
        kind = "s3" if Defect.BOTH_WIN in defects else kind
        files = Files(self.schedule, self.faults, two_steps=kind == "s3")
        broker = Broker(self.schedule, self.faults)
        self.world = Checkpoint(files, broker, kind == "disk", frozenset(defects))
        self.drivers: list[Driver] = []
        self.plan_conflicts = 0
        # drivers that change the topology
        self.changes = self.chance.random() < 0.4
        self.deaths = self.chance.choice([0.0, 0.005, 0.02])
        self.pauses = self.chance.choice([0.0, 0.01, 0.05])
        self.starts = self.chance.randint(1, 3)

    def judged(self) -> Verdict:
        """Run it, and say what came out."""
        outcome = self._outcome()
        return Verdict(self.seed, outcome, () if outcome == "ok" else tuple(self.schedule.trace))

    def _outcome(self) -> str:
        try:
            self.schedule.run(self._between)
            self.faults.lost_answer = 0.0
            last = self._settle()
        except Stuck:
            return "stuck"
        if self.plan_conflicts:
            return "two plans of one batch"
        if last is None:
            return "stuck"
        return self._compared()

    def _between(self) -> None:
        """Before each turn: input comes, drivers start, stand still or die, time passes."""
        chance, broker = self.chance, self.world.broker
        if broker.input < INPUT and chance.random() < 0.15:
            broker.input += chance.randint(1, 3)
            broker.input = min(broker.input, INPUT)
        if len(self.drivers) < self.starts and (not self.drivers or chance.random() < 0.05):
            self._start()
        for turn in self.schedule.turns:
            if turn.ended:
                continue
            if chance.random() < self.deaths:
                self._kill(turn)
            elif chance.random() < (BETWEEN if turn.at_worst else self.pauses):
                turn.stands_until = self.schedule.steps + chance.randint(5, 120)
            turn.at_worst = False
        if chance.random() < 0.01:
            broker.time_passes()
        if not any(not turn.ended for turn in self.schedule.turns) and len(self.drivers) < self.starts:
            self._start()

    def _start(self) -> None:
        number = len(self.drivers)
        # a deploy that is taken back changes the topology once more
        changed = self.changes and number > 0 and self.chance.random() < 0.7
        self._begin(Driver(f"d{number}", self.world, "new" if changed else "old", INPUT))

    def _begin(self, driver: Driver) -> Turn:
        self.drivers.append(driver)
        return self.schedule.start(driver.name, driver.run)

    def _kill(self, turn: Turn) -> None:
        self.schedule.kill(turn)
        driver = next(each for each in self.drivers if each.name == turn.name)
        if self.world.files.locked_by is driver:
            self.world.files.locked_by = None

    def _settle(self) -> Driver | None:
        """The last driver, alone, which comes to the end of the input; None: it does not."""
        self.world.broker.input = INPUT
        self._note_conflicts()
        for _ in range(TRIES):
            record = self._recorded()
            driver = Driver(f"d{len(self.drivers)}", self.world, record.topology if record else "old", INPUT)
            turn = self._begin(driver)
            self.schedule.run()
            self._note_conflicts()
            if turn.failure is None:
                return driver
        return None

    def _recorded(self) -> Record | None:
        # as a start finds it, without turns
        driver = Driver("judge", self.world, "", INPUT)
        self.schedule.is_asked = False
        try:
            return driver._look()
        finally:
            self.schedule.is_asked = True

    def _note_conflicts(self) -> None:
        failures = [turn.failure for turn in self.schedule.turns]
        signs = ("Another query has written batch", "older than the output")
        told = [each for each in failures if isinstance(each, ConfigError) and any(sign in str(each) for sign in signs)]
        self.plan_conflicts = len(told)

    def _compared(self) -> str:
        found = Counter(self.world.broker.records)
        lost = sum(1 for record in range(INPUT) if not found[record])
        doubled = sum(count - 1 for count in found.values())
        if lost:
            return f"lost {lost}"
        if doubled:
            return f"doubled {doubled}"
        wrote = set(self.world.broker.marks)
        return "ok" if len(wrote) <= 1 else "two identities"
