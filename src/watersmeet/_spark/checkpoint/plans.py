"""The plans of a query's batches, as Spark's offset log has them when a batch is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._worker.batch_plan import BatchPlan, of_topology, planned


class HasEpoch(Protocol):
    """A lease."""

    @property
    def epoch(self) -> int:
        """The epoch that it has; 0: none yet."""


@dataclass(frozen=True)
class Plans:
    """Gives the plan of a batch by its number."""

    logs: Folder  # where Spark's logs lie
    topology: str  # digest of what makes results
    lease: HasEpoch | None  # the query's; its epoch is checked when a batch is written. None: nothing will be written

    @staticmethod
    def of(place: Checkpoint, lease: HasEpoch | None) -> Plans:
        """Those of a start with its lease."""
        return Plans(place.place, of_topology(asdict(place.facts)), lease)

    def __call__(self, batch: int) -> BatchPlan:
        """The plan of a batch that Spark has planned."""
        name = f"offsets/{batch}"
        epoch = 0 if self.lease is None else self.lease.epoch
        return planned(self.logs.text(name), self.topology, epoch=epoch, where=f"{self.logs}/{name}")
