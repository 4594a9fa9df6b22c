"""Who goes next: threads of which one runs at a time, in an order that a seed says.

A driver's code is what a query runs, which knows nothing of turns. So each driver has a thread, and gives its turn up
wherever the model of a file system or of a broker is asked (`step`). There it may stand still for long, or die.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

MOST_STEPS = 4_000
"""After so many a run is stuck."""


class Killed(BaseException):
    """The driver dies here: no code of its own runs any more."""


class Stuck(Exception):
    """The run does not come to an end."""


class Turn:
    """One driver's thread."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self.name = name
        self.killed = self.ended = False
        self.stands_until = 0
        self.at_worst = False
        self.go = threading.Semaphore(0)
        self._call = call
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.given: threading.Semaphore = threading.Semaphore(0)

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.killed:
                self._call()
        except BaseException as failure:  # judged by whoever drew the run
            self.failure = failure
        self.ended = True
        self.given.release()


class Schedule:
    """The turns of one run.

    Parameters
    ----------
    chance : says who goes next.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps = 0
        self.turns: list[Turn] = []
        self.current: Turn | None = None
        self.trace: list[str] = []
        # whoever judges asks the world without a turn
        self.is_asked = True

    def start(self, name: str, call: Callable[[], None]) -> Turn:
        """A driver that begins when it gets its first turn."""
        turn = Turn(name, call)
        self.turns.append(turn)
        turn.thread.start()
        return turn

    def step(self, what: str, *, at_worst: bool = False) -> None:
        """Give the turn up before something is asked of the world.

        Parameters
        ----------
        at_worst : whether to stand still here is what does most harm.
        """
        if not self.is_asked:
            return
        turn = self.current
        assert turn is not None
        turn.at_worst = at_worst
        self.trace.append(f"{turn.name}: {what}")
        turn.given.release()
        turn.go.acquire()
        if turn.killed:
            raise Killed

    def run(self, between: Callable[[], None] = lambda: None) -> None:
        """Give turns until nobody is left.

        Parameters
        ----------
        between : called between two turns; it may kill, stop and start drivers.

        Raises
        ------
        Stuck : they do not end.
        """
        while True:
            between()
            living = [turn for turn in self.turns if not turn.ended]
            if not living:
                return
            self.steps += 1
            if self.steps > MOST_STEPS:
                self.kill_all()
                raise Stuck
            awake = [turn for turn in living if turn.stands_until <= self.steps]
            if not awake:
                # time passes: nobody waits for anything but time
                self.steps = min(turn.stands_until for turn in living)
                continue
            self._give(self.chance.choice(awake))

    def _give(self, turn: Turn) -> None:
        self.current = turn
        turn.go.release()
        turn.given.acquire()

    def kill(self, turn: Turn) -> None:
        """The driver dies at the place where it is."""
        turn.killed = True
        while not turn.ended:
            self._give(turn)

    def kill_all(self) -> None:
        """All of them die."""
        for turn in self.turns:
            self.kill(turn)
