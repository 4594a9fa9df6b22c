"""What drivers meet: a file system and a broker, of which each call is one step, with answers that may be lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.schedule import Schedule
from watersmeet._spark.checkpoint.folders import CONDITIONAL_MANAGER


class LostAnswer(Exception):
    """What was asked for is done, and nobody is told."""


class Fenced(Exception):
    """Another writer has taken the transactional id."""


class Concurrent(Exception):
    """A file of Spark's log is there already."""


@dataclass
class Faults:
    """How often what goes wrong."""

    lost_answer: float = 0.0


class Files:
    """A checkpoint's file system.

    Parameters
    ----------
    schedule : gives turns.
    faults : what goes wrong.
    two_steps : whether Spark's own file manager looks first and then writes, so that two may both win.
    """

    def __init__(self, schedule: Schedule, faults: Faults, *, two_steps: bool) -> None:
        self.schedule, self.faults, self.two_steps = schedule, faults, two_steps
        self.content: dict[str, str] = {}
        self.locked_by: object | None = None
        self._records = 0

    def _lost(self) -> bool:
        return self.schedule.chance.random() < self.faults.lost_answer

    def create(self, path: str, text: str) -> bool:
        """Make a file that is not there, in one step; False: it is there."""
        self.schedule.step(f"create {path}")
        if path in self.content:
            return False
        self.content[path] = text
        if self._lost():
            # the client asks again, and finds its own file
            self.schedule.step(f"create {path} again")
            return False
        return True

    def read(self, path: str) -> str:
        """What a file holds; "" where there is none."""
        self.schedule.step(f"read {path}")
        return self.content.get(path, "")

    def names(self, folder: str) -> list[str]:
        """Names of a folder's files."""
        self.schedule.step(f"list {folder}")
        return [path.removeprefix(f"{folder}/") for path in self.content if path.startswith(f"{folder}/")]

    def append(self, folder: str, text: str) -> None:
        """Write a file of a name that nobody else has."""
        self.schedule.step(f"append {folder}", at_worst=True)
        self._records += 1
        self.content[f"{folder}/part-{self._records}"] = text

    def log(self, path: str, text: str, manager: str | None = None) -> None:
        """What a file manager does with a file of Spark's logs; None: Spark's own."""
        self.schedule.step(f"log {path}")
        if path in self.content:
            raise Concurrent(path)
        if self.two_steps and manager != CONDITIONAL_MANAGER:
            self.schedule.step(f"log {path}, behind the look", at_worst=True)
        self.content[path] = text
        if self._lost():
            raise LostAnswer(path)


@dataclass
class Transaction:
    """What is open."""

    records: list[int] = field(default_factory=list)


class Broker:
    """Transactional ids, groups and one topic."""

    def __init__(self, schedule: Schedule, faults: Faults) -> None:
        self.schedule, self.faults = schedule, faults
        self.epochs: dict[str, int] = {}
        self.open: dict[str, Transaction] = {}
        self.marks: dict[str, tuple[int, str]] = {}
        self.records: list[int] = []
        self.input = 0

    def init(self, name: str) -> int:
        """Take an id over: what is open under it is ended."""
        self.schedule.step(f"init {name}")
        return self._fence(name)

    def _fence(self, name: str) -> int:
        self.open.pop(name, None)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def mark(self, name: str) -> tuple[int, str] | None:
        """The number and the text that a group has committed."""
        self.schedule.step(f"mark of {name}")
        return self.marks.get(name)

    def begin(self, name: str, epoch: int) -> None:
        """Begin a transaction."""
        self.schedule.step(f"begin {name}")
        self._check(name, epoch)
        self.open[name] = Transaction()

    def send(self, name: str, epoch: int, records: range) -> None:
        """Write records."""
        self.schedule.step(f"send {records} by {name}")
        self._check(name, epoch)
        if name not in self.open:
            raise Fenced(name)
        self.open[name].records += records

    def commit(self, name: str, epoch: int, mark: tuple[int, str]) -> None:
        """Commit what is open, with a mark."""
        self.schedule.step(f"commit {mark[0]} by {name}")
        self._check(name, epoch)
        if name not in self.open:
            raise Fenced(name)
        self.records += self.open.pop(name).records
        self.marks[name] = mark
        if self.schedule.chance.random() < self.faults.lost_answer:
            raise LostAnswer(name)

    def time_passes(self) -> None:
        """What the broker does when transactions last too long: it ends them and fences their writers."""
        for name in list(self.open):
            self._fence(name)

    def _check(self, name: str, epoch: int) -> None:
        if self.epochs.get(name) != epoch:
            raise Fenced(name)
