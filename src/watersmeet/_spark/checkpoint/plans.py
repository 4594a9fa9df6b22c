"""The plans of a query's batches, as Spark's offset log has them when a batch is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from watersmeet._spark.checkpoint.batches import NONE
from watersmeet._spark.checkpoint.checkpoint import Checkpoint
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._worker.batch_plan import BatchPlan, of_topology, planned


class HasEpoch(Protocol):
    """A lease."""

    @property
    def epoch(self) -> int:
        """The epoch that it has; 0: none yet."""


@dataclass(frozen=True)
class Plans:
    """Gives the plan of a batch by its number.

    Parameters
    ----------
    logs : where Spark's logs lie.
    topology : digest of what makes results.
    lease : the query's; its epoch is checked when a batch is written. None: nothing will be written.
    untold_up_to : the last batch that an earlier watersmeet can have planned, which marked it by its number alone.
    """

    logs: Folder
    topology: str
    lease: HasEpoch | None
    untold_up_to: int = NONE

    @staticmethod
    def of(place: Checkpoint, lease: HasEpoch | None, last: int) -> Plans:
        """Those of a start.

        Parameters
        ----------
        place : the checkpoint, before this start has written its record.
        lease : of the start.
        last : number of the last batch that is planned.
        """
        return Plans(place.place, of_topology(asdict(place.facts)), lease, NONE if place.epoch else last)

    def __call__(self, batch: int) -> BatchPlan:
        """The plan of a batch that Spark has planned."""
        name = f"offsets/{batch}"
        given = {"may_be_untold": batch <= self.untold_up_to, "where": f"{self.logs}/{name}"}
        epoch = 0 if self.lease is None else self.lease.epoch
        return planned(self.logs.text(name), self.topology, epoch=epoch, **given)  # type: ignore[arg-type]
