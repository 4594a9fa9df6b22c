"""Who can be killed, and when."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Strike:
    """One kill.

    Parameters
    ----------
    victim : "worker": the one Python process that reaches the moment; "executor": the JVM that it works for;
        "driver": the whole process tree (Python, JVM, executors, all workers); "broker": Kafka's JVM.
    moment : a name of `MOMENTS`, or "random".
    """

    victim: str
    moment: str

    @property
    def named(self) -> bool:
        """Whether the victim dies at a moment of its own work."""
        return self.moment != "random"


MOMENTS = {
    "pack": "while rows are cut into routed batches for the exchange",
    "between_levels": "when the first level has saved its state and the second one begins",
    "put_chunk": "while state is written: behind a chunk",
    "put_manifest": "while state is written: behind a manifest",
    "merge": "in a step of a merge of runs",
    "handed_back": "when all tasks have ended, before the driver writes what they have handed back",
    "before_commit": "when all records of a task, or those handed back, are sent, before the transaction is committed",
    "after_commit": "when the transaction is committed, those of others perhaps not",
    "between_commits": "between the sink's commit and Spark's commit of the batch",
    "random": "at any moment",
}
OF_THE_DRIVER = ("handed_back", "between_commits")
"""Moments that are none of a task's."""
STRIKES = (
    *(Strike("worker", moment) for moment in MOMENTS if moment not in OF_THE_DRIVER),
    *(Strike("driver", moment) for moment in MOMENTS),
    Strike("driver", "random"),
    Strike("broker", "random"),
)
ON_EXECUTORS = tuple(Strike("executor", moment) for moment in MOMENTS if moment not in OF_THE_DRIVER)
"""What can be struck besides, where Spark has executors of their own."""
WRITERS = ("driver", "both", "tasks")
"""Who writes the output: the driver what is below the limit, the tasks all, or both: the limit changes all the time."""
VICTIMS = ("worker", "executor", "driver", "broker")
MOST_PASSED = {"pack": 12, "put_chunk": 6, "put_manifest": 4, "merge": 6, "between_levels": 6}
"""How many calls in a process are let pass at most; of the other moments 2."""


def strikes_for(
    levels: int, random: Random, executors: int = 0, victims: Collection[str] = VICTIMS, writers: str = "both"
) -> list[Strike]:
    """All strikes at these victims that a topology of so many levels and these writers can meet, in random order."""
    all_there_are = (*STRIKES, *(ON_EXECUTORS if executors else ()))
    met = [strike for strike in all_there_are if levels > 1 or strike.moment != "between_levels"]
    met = [strike for strike in met if strike.victim in victims and _is_met(strike, writers)]
    random.shuffle(met)
    return met


def _is_met(strike: Strike, writers: str) -> bool:
    if strike.moment == "handed_back":
        return writers != "tasks"
    return writers != "driver" or strike.victim == "driver" or not strike.moment.endswith("_commit")


def passed(strike: Strike, random: Random) -> int:
    """How many calls are let pass before the strike."""
    return random.randint(0, MOST_PASSED.get(strike.moment, 2))
