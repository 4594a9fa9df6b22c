"""The mark of a written batch: its number and its plan. A number alone says too little if two drivers run.

Spark's offset log is the plan: batch N reads up to the ends that `offsets/N` has, however often it is run. Two drivers
that know different plans of batch N (a rolling deploy, a file system that lets both write `offsets/N`) give different
results under one number. The second one must then fail; to leave the batch out as written loses results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigError, CorruptData

_VERSION = 1
_TOLD = 400
"""Signs of a plan's ends that a mark tells; brokers take 4,096 bytes (`offset.metadata.max.bytes`)."""
_DIGITS = 32


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a batch.

    Parameters
    ----------
    ends : digest of the ends up to which it reads; empty: not known, as in the marks of an earlier watersmeet.
    topology : digest of what makes results of that.
    told : the ends as text, perhaps cut off, for an error.
    epoch : of the lease under which it is written; 0: none.
    may_be_untold : whether an earlier watersmeet has planned the batch, so that its mark has no plan.
    """

    ends: str = ""
    topology: str = ""
    told: str = ""
    epoch: int = 0
    may_be_untold: bool = False

    def text(self) -> str:
        """The text beside the number of the batch."""
        if not self.ends:
            return ""
        body = {"v": _VERSION, "ends": self.ends, "topology": self.topology, "epoch": self.epoch, "told": self.told}
        return json.dumps(body, separators=(",", ":"))

    def __str__(self) -> str:
        if not self.ends:
            return "of an earlier watersmeet, which noted the number alone"
        lease = f", epoch {self.epoch}" if self.epoch else ""
        return f"up to {self.told} (plan {self.ends[:8]}, topology {self.topology[:8]}{lease})"


UNKNOWN = BatchPlan()


@dataclass(frozen=True)
class Marker:
    """The mark of an output: the last batch, and its plan."""

    batch: int
    plan: BatchPlan = UNKNOWN

    @staticmethod
    def of(batch: int, text: str | None) -> Marker:
        """The marker that was written as this number and text."""
        try:
            body = json.loads(text or "")
            plan = BatchPlan(body["ends"], body["topology"], body["told"], int(body["epoch"]))
        except (ValueError, KeyError, TypeError):
            # of an earlier watersmeet, or of a later one in another form
            plan = UNKNOWN
        return Marker(batch, plan)


def digest(body: Any) -> str:
    """Of what JSON can say."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


def planned(log: str, topology: str, *, epoch: int, may_be_untold: bool, where: str) -> BatchPlan:
    """The plan that a file of Spark's offset log says.

    The ends alone count: when it was written, and under which settings, is not what the batch reads.

    Parameters
    ----------
    log : what the file holds.
    topology : digest of what makes results.
    epoch, may_be_untold : as in `BatchPlan`.
    where : the file.

    Raises
    ------
    CorruptData : it is no file of the log.
    """
    version, _, rest = log.rstrip("\n").partition("\n")
    _, _, ends = rest.partition("\n")
    if not version.startswith("v") or not ends:
        raise CorruptData(
            "The plan of the batch cannot be read.",
            given=where,
            hint="Restore the whole checkpoint from one copy (parts of different times do not fit together).",
        )
    lines = ends.split("\n")
    told = "; ".join(lines)
    told = told if len(told) <= _TOLD else f"{told[:_TOLD]}..."
    return BatchPlan(digest(lines), topology, told, epoch, may_be_untold)


def is_in(found: Marker | None, batch: int, plan: BatchPlan, where: str) -> bool:
    """Whether an output has a batch: this number, made of this plan.

    Parameters
    ----------
    found : what the output has; None: nothing.
    batch, plan : what is to be written.
    where : names the output, or who writes it.

    Raises
    ------
    ConfigError : it has a later batch, or this number with another plan.
    """
    if found is None or found.batch < batch:
        return False
    if found.batch > batch:
        raise older(f"batch {batch} is to be written, batch {found.batch} is in ({where})")
    if not plan.ends or _same(found.plan, plan):
        return True
    raise ConfigError(
        f"Another query has written batch {batch}, and read other records or has another topology: two run on this "
        "checkpoint.",
        given=f"{where}\nwritten: {found.plan}\nplanned here: {plan}",
        hint="Run one query per checkpoint: stop the other one. Its output stays; the results of this one's plan "
        "are not written. Continue with the checkpoint and the topology of the written plan, or begin a new "
        "checkpoint and new outputs.",
    )


def older(given: str) -> ConfigError:
    """The error for an output with batches that are yet to come."""
    return ConfigError(
        "The checkpoint is older than the output, which already has later batches of this query.",
        given=given,
        hint="Restore the newest checkpoint, or start from an empty one (the output is then written "
        "again from the start).",
    )


def _same(written: BatchPlan, plan: BatchPlan) -> bool:
    if not written.ends:
        return plan.may_be_untold
    return (written.ends, written.topology) == (plan.ends, plan.topology)


def of_topology(facts: Mapping[str, Any]) -> str:
    """The digest of what makes results of a plan's records.

    Functions are none of it: one that nothing kept depends on may change before a batch is run again. Nor are
    partition counts, which may grow.

    Parameters
    ----------
    facts : of the checkpoint, as it records them.
    """
    names = ("topology", "generation", "shards", "tasks", "effects")
    return digest({name: facts[name] for name in names})
