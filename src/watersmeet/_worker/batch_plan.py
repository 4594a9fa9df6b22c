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
OLDER = "The checkpoint is older than the output, which already has later batches of this query."


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a batch."""

    # digest of the ends up to which it reads; empty: not known, as where no checkpoint plans the batch
    ends: str = ""
    topology: str = ""  # digest of what makes results of that
    told: str = ""  # the ends as text, perhaps cut off, for an error
    epoch: int = 0  # of the lease under which it is written; 0: none

    def text(self) -> str:
        """The text beside the number of the batch."""
        if not self.ends:
            return ""
        body = {"v": _VERSION, "ends": self.ends, "topology": self.topology, "epoch": self.epoch, "told": self.told}
        return json.dumps(body, separators=(",", ":"))

    def __str__(self) -> str:
        if not self.ends:
            return "not known: the mark has the number alone"
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
            # somebody else has written it, or another version
            plan = UNKNOWN
        return Marker(batch, plan)


def digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


def plan_of_log(log: str, topology: str, *, epoch: int, where: str) -> BatchPlan:
    """The plan that a file of Spark's offset log says.

    The ends alone count: when it was written, and under which settings, is not what the batch reads.

    Parameters
    ----------
    log : what the file holds.
    topology : digest of what makes results.
    epoch : as in `BatchPlan`.
    where : the file.
    """
    version, _, body = log.rstrip("\n").partition("\n")
    _, _, ends = body.partition("\n")
    if not version.startswith("v") or not ends:
        raise CorruptData(
            "The plan of the batch cannot be read.",
            given=where,
            hint="Restore the whole checkpoint from one copy (parts of different times do not fit together).",
        )
    lines = ends.split("\n")
    summary = "; ".join(lines)
    summary = summary if len(summary) <= _TOLD else f"{summary[:_TOLD]}..."
    return BatchPlan(digest(lines), topology, summary, epoch)


def is_in(marker: Marker | None, batch: int, plan: BatchPlan, where: str) -> bool:
    """Whether an output has a batch: this number, made of this plan.

    Parameters
    ----------
    marker : what the output has; None: nothing.
    batch, plan : what is to be written.
    where : names the output, or who writes it.
    """
    if marker is None or marker.batch < batch:
        return False
    if marker.batch > batch:
        raise older(f"batch {batch} is to be written, batch {marker.batch} is in ({where})")
    if not plan.ends or (marker.plan.ends, marker.plan.topology) == (plan.ends, plan.topology):
        return True
    raise ConfigError(
        f"Another query has written batch {batch}, and read other records or has another topology: two run on this "
        "checkpoint.",
        given=f"{where}\nwritten: {marker.plan}\nplanned here: {plan}",
        hint="Run one query per checkpoint: stop the other one. Its output stays; the results of this one's plan "
        "are not written. Continue with the checkpoint and the topology of the written plan, or begin a new "
        "checkpoint and new outputs.",
    )


def older(detail: str) -> ConfigError:
    """The error for an output with batches that are yet to come."""
    return ConfigError(
        OLDER,
        given=detail,
        hint="Restore the newest checkpoint, or start from an empty one (the output is then written "
        "again from the start).",
    )


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
