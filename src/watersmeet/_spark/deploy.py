"""A changed topology beside the one that runs: it is made ready while that one writes, and then takes its place.

The running topology (blue) has the checkpoint. The next one (green) is made in a folder of its own, as every change
is (`evolve`): a copy of the state at one batch of the running one is carried into it, and then it runs the same batches
with its outputs shut, each by the plan that the running one has committed. So its state is at each batch what a change
without a pause would have left there.

The switch is the start of a changed topology, which has the least to do: the running query ends behind its batch, the
next one takes the lease, runs what is left to the last committed batch, and its record, in one piece, puts it into
effect (docs/decisions/changes.md). Until then all of it may vanish: the checkpoint is the running one's.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from watersmeet._plan.logical import Plan
from watersmeet._plan.physical import Physical
from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import (
    CHANGED,
    REPLACED,
    VOID,
    Begin,
    Checkpoint,
    CheckpointFacts,
    CheckpointFiles,
    look,
    name_occurrences,
    source_indexes,
    version_before,
    with_tasks,
)
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH, last_committed_batch
from watersmeet._spark.evolve import Handover
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.stores.comparison import Comparison, compare_frames
from watersmeet._spark.stores.read import StateReader
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData

LOG = logging.getLogger("watersmeet.query")
LONGEST_PAUSE = 60.0
"""Seconds that the batches may take which are left when the running query is asked to end: until then nobody writes."""
_COPIES = 5
_LOOK_SECONDS = 0.1
_REMOTE_LOOK_SECONDS = 1.0
_COPIED = ("metadata", "offsets", "commits", "sources", "state")
_LONGER = (
    'Start the running one with a longer trigger, such as trigger="10 seconds"; or use evolve=True, which stops it.'
)


class CommittedPlans:
    """The plans of the batches that a running query commits: a thread keeps them, as the query's log has the last ten.

    Parameters
    ----------
    logs : the folder of Spark's logs.
    """

    def __init__(self, logs: Folder) -> None:
        self._logs, self._plans, self._closed = logs, dict[int, str](), threading.Event()
        self._seconds = _REMOTE_LOOK_SECONDS if logs.local_path() is None else _LOOK_SECONDS
        self._keep()
        threading.Thread(target=self._follow, name=f"plans of {logs}", daemon=True).start()

    def __getitem__(self, batch: int) -> str:
        """The plan of a committed batch, as Spark wrote it."""
        plan = self._plans.get(batch) or self._logs.text(f"offsets/{batch}") or self._logs.text(f"{PLANS}/{batch}")
        if not plan:
            raise ConfigError(
                f"The running query has removed the plan of batch {batch} before it was read.",
                given=self._logs,
                hint=_LONGER,
            )
        return plan

    @property
    def last(self) -> int:
        """Number of the last committed batch."""
        return last_committed_batch(self._logs)

    def close(self) -> None:
        self._closed.set()

    def _follow(self) -> None:
        with suppress(Exception):  # the error is raised where the plan is needed
            while not self._closed.wait(self._seconds):
                self._keep()

    def _keep(self) -> None:
        for batch in sorted(map(int, self._logs.names("commits/[0-9]*"))):
            if batch not in self._plans and (plan := self._logs.text(f"offsets/{batch}")):
                self._plans[batch] = plan


# The plans of a topology that was deployed: by them the one before it can follow, and take its place again.

PLANS = "plans"
"""Their folder, beside Spark's logs."""
_MOST_PLANS = 1_000
_BEGUN = f"{PLANS}/begun"


def keep_plans(gate: BatchGate, logs: Folder) -> None:
    """Have the plan of each batch kept behind its outputs, of a topology that was deployed; of so many batches."""
    count = len(logs.names(f"{PLANS}/*"))

    def keep(batch: int) -> None:
        nonlocal count
        count += 1
        if count <= _MOST_PLANS:
            logs.put(f"{PLANS}/{batch}", logs.text(f"offsets/{batch}"))
        elif count == _MOST_PLANS + 1:
            logs.remove(PLANS)

    if count:
        gate.join(passing=keep)


def has_plans(logs: Folder, first: int, last: int) -> bool:
    """Whether the plans of these committed batches can be read."""
    return {*range(first, last + 1)} <= {int(name) for name in logs.names("offsets/[0-9]*", f"{PLANS}/[0-9]*")}


def followed_plan(
    plan: str, own_plan: str, inputs: tuple[Sequence[str], Sequence[str]], topics: Mapping[str, Begin]
) -> str:
    """The plan of a batch as the next topology has it: what both read ends where it does, the rest stays where it is.

    Parameters
    ----------
    plan : of the running topology.
    own_plan : of the batch before, of the next topology.
    inputs : names of the sources of both, in order.
    topics : what the next topology reads of each source of Kafka's.
    """
    version, header, *ends = plan.rstrip("\n").split("\n")
    by_source = dict(zip(name_occurrences(inputs[0]), ends, strict=True))
    own_ends = zip(name_occurrences(inputs[1]), own_plan.rstrip("\n").split("\n")[2:], strict=True)
    carried = [_followed_end(by_source.get(at, VOID), end, topics.get(at[0])) for at, end in own_ends]
    return "\n".join([version, header, *carried])


def _followed_end(end: str, own_end: str, source: Begin | None) -> str:
    if end == VOID:
        return own_end
    if source is None:
        return end
    offsets = {} if own_end == VOID else json.loads(own_end)
    offsets |= {name: parts for name, parts in json.loads(end).items() if source.reads(name)}
    return json.dumps(offsets, separators=(",", ":")) if offsets else VOID


class Deployment:
    """One changed topology that is made ready beside the running one.

    Parameters
    ----------
    physical : the next topology.
    files : the content of the checkpoint, which is the running topology's.
    checkpoint : the checkpoint as it is to be.
    topics : what each Kafka source reads from now on.
    former_logs : logs and state of the next topology, which ran before this one; None: state is carried over.

    Attributes
    ----------
    batch : number of the last batch that the next topology has run.
    comparisons : of each store of both topologies, the rows that differ behind one batch.
    """

    def __init__(
        self,
        physical: Physical,
        files: CheckpointFiles,
        checkpoint: Checkpoint,
        topics: Mapping[str, Begin],
        former_logs: Folder | None = None,
    ) -> None:
        assert files.last is not None
        assert files.binding is not None
        self._physical, self._running_record, self._old = physical, files.last, files.binding
        self._checkpoint, self._topics, self._former_logs = checkpoint, topics, former_logs
        self._running = files.spark_folder
        self._copy = checkpoint.spark_folder.below("running")
        self._plans = CommittedPlans(self._running)
        self._run_batch: Callable[[], None] = lambda: None
        # of the last round: whether it has gained on the running query, and what a batch has taken
        self._gains, self._batch_seconds = True, 0.0
        self.batch = NO_BATCH
        self.comparisons: tuple[Comparison, ...] = ()

    @property
    def target(self) -> Folder:
        """Where the logs and the state of the next topology lie."""
        return self._checkpoint.spark_folder

    # -- beside the running query ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the next topology's state."""
        self.clear()
        if self._former_logs is None:
            self.carry()
        else:
            self.take_up(self._former_logs)
        # Spark runs no two queries of one id; that of the running one comes back at the switch
        self.target.put("metadata", json.dumps({"id": str(uuid.uuid4())}))

    def take_up(self, former_logs: Folder) -> None:
        """Copy what the next topology left when another one took its place."""
        for name in _COPIED:
            former_logs.link(name, self.target)
        self.batch = last_committed_batch(self.target)
        for name in self.target.names("offsets/[0-9]*"):
            if int(name) > self.batch:  # a batch without records, which kept it from planning any
                self.target.remove(f"offsets/{name}")

    def carry(self) -> None:
        """Carry a copy of the running topology's state into the levels of the next one."""
        self.batch = self.copy_running()
        handover = (self._physical, self._copy, self._old, self._checkpoint, self.batch, self._topics)
        Handover(*handover).run_beside()

    def clear(self) -> None:
        """Remove what changes that broke off have left; that of the topology before the running one stays."""
        changed, former = self._checkpoint.folder.below(CHANGED), version_before(self._checkpoint.folder)
        live_logs = {
            record.logs for record in (self._running_record, None if former is None else former.last) if record
        }
        for name in changed.names():
            if f"{CHANGED}/{name}" not in live_logs:
                changed.remove(name)

    def copy_running(self) -> int:
        """Copy logs and state of the running topology, by hard links on a disk; number of the copy's last batch."""
        for _ in range(_COPIES):
            batch = self._plans.last
            if batch == NO_BATCH:
                raise ConfigError(
                    "The running query has not committed its first batch.",
                    given=self._checkpoint.folder,
                    hint="Deploy the changed topology when that is done.",
                )
            self._copy.remove()
            for name in _COPIED:
                self._running.link(name, self._copy)
            # of a batch that is still in its log Spark has let go of nothing
            if self._running.text(f"commits/{batch}") and self._copy.text(f"offsets/{batch}"):
                return batch
        raise ConfigError(
            "The running query removes its state faster than it can be copied.",
            given=self._running,
            hint=_LONGER,
        )

    def catch_up(self, run_batch: Callable[[], None]) -> None:
        """Run what the running query has committed, until no more batches are gained on it.

        Parameters
        ----------
        run_batch : runs the batch that is planned in the target, without outputs.

        Raises
        ------
        ConfigError : what is left then takes longer than `LONGEST_PAUSE`.
        """
        self._run_batch = run_batch
        while distance := self._plans.last - self.batch:
            if not self._gains:
                if (pause := distance * self._batch_seconds) <= LONGEST_PAUSE:
                    return
                raise ConfigError(
                    f"The changed topology does not catch up: the running query is {distance} batches ahead, and it "
                    f"would take {pause:.0f} seconds without results to run them.",
                    given=self._checkpoint.folder,
                    hint=_LONGER,
                )
            LOG.info("The changed topology is %d batches behind the running query.", distance)
            start = time.monotonic()
            self.follow(self.batch + distance)
            self._batch_seconds = (time.monotonic() - start) / distance
            self._gains = self._plans.last - self.batch < distance

    def follow(self, last: int) -> None:
        """Run all batches up to this one, each as the running query has planned it."""
        # the rows of tables that were replaced before are no input any more
        old = [name if name != REPLACED else "" for name in self._old.inputs]
        new = self._checkpoint.facts.inputs
        for batch in range(self.batch + 1, last + 1):
            plan = self._plans[batch]
            self._copy_sources(old, new)
            own_plan = self.target.text(f"offsets/{batch - 1}")
            plan = followed_plan(plan, own_plan, (old, new), self._topics)
            self.target.create(f"offsets/{batch}", with_tasks(plan, self._checkpoint.facts.tasks))
            self._run_batch()
            if last_committed_batch(self.target) != batch:
                raise CorruptData(
                    f"Batch {batch} of the changed topology was not committed.",
                    given=self.target,
                    hint="Deploy it again: that begins with a new copy.",
                )
            self.batch = batch

    def _copy_sources(self, old: Sequence[str], new: Sequence[str]) -> None:
        for old_index, new_index in source_indexes(old, new).items():
            names = {*self.target.names(f"sources/{new_index}/*")}
            for name in self._running.names(f"sources/{old_index}/*"):
                if name not in names:
                    self._running.copy(f"sources/{old_index}/{name}", self.target, f"sources/{new_index}/{name}")

    def compare(self, most: int | None) -> None:
        """Compare the stores of both topologies behind one batch.

        Parameters
        ----------
        most : rows that may differ; None: any number.

        Raises
        ------
        ChangedTopology : more differ.
        """
        batch = self.copy_running()
        self.follow(batch)
        sides = (self._copy, self._old), (self.target, self._checkpoint.facts)
        names = [name for name in self._checkpoint.facts.stores if name in self._old.stores]
        self.comparisons = tuple(
            compare_frames(f"store {name}", old, new)
            for name in names
            for old, new in [[_rows(*side, batch, name) for side in sides]]
        )
        self._copy.remove()
        count = sum(store.added + store.changed + store.removed for store in self.comparisons)
        for comparison in self.comparisons:
            (LOG.info if comparison.is_empty else LOG.warning)("Behind batch %d: %s", batch, comparison)
        if most is not None and count > most:
            raise ChangedTopology(
                f"{count} rows of the changed topology differ, and if_equal={most}: the running query continues.",
                given="\n".join([str(self._checkpoint.folder), *map(str, self.comparisons)]),
                hint="If the rows are as they are meant to be, deploy it with a larger if_equal, or without it.",
            )

    # -- the switch --------------------------------------------------------------------------------------------

    def lease(self) -> leases.MachineLease:
        """The lease of the checkpoint, which the running query gives back behind its batch."""
        folder, until = self._checkpoint.folder, time.monotonic() + leases.BATCH_SECONDS
        while True:
            lease = leases.take_behind(folder.path, folder)
            # where Spark's own sink writes alone, a query finishes its batch behind its end
            if not lease.has_lock or not look(folder).unfinished or time.monotonic() > until:
                return lease
            lease.release()
            time.sleep(_LOOK_SECONDS)

    def pending(self, files: CheckpointFiles) -> Checkpoint:
        """The checkpoint as it is to be, where it is still the running topology's."""
        last = files.last
        if last is None or (last.logs, last.facts) != (self._running_record.logs, self._running_record.facts):
            raise ConfigError(
                "Another topology was started on the checkpoint, or the same with other options, while this one was "
                "made ready.",
                given=self._checkpoint.folder,
                hint="Deploy it again.",
            )
        return replace(self._checkpoint, number=last.number + 1, epoch=last.epoch)

    def finish(self, files: CheckpointFiles) -> None:
        """Run what is left to the last batch of the query that has ended; the record is yet to be written."""
        self.follow(files.ends[1])
        self._plans.close()
        self.target.put("metadata", self._running.text("metadata"))
        self.target.create(_BEGUN, "")
        self._copy.remove()

    def discard(self) -> None:
        """Remove all of it, unless the record has put it into effect."""
        self._plans.close()
        last = look(self._checkpoint.folder).last
        if last is None or last.logs != self._checkpoint.logs:
            self.target.remove()


def _rows(folder: Folder, facts: CheckpointFacts, batch: int, store: str) -> DataFrame:
    columns = StoreColumns.read(facts.stores[store])
    labels = facts.addresses[columns.node][store]
    return StateReader(folder, batch).rows(store, columns, labels[:1] if columns.whole else labels)


def refuse_deployment(plan: Plan, folder: Folder) -> None:
    """Raise where a topology has inputs of which a query writes more than Spark's logs."""
    inputs: dict[str, Any] = {
        "topics by a pattern": plan.patterns,
        "wm.Changes of a table of Iceberg": any(source.origin.writes_snapshots for source in plan.sources),
    }
    for subject, is_read in inputs.items():
        if is_read:
            raise ConfigError(
                f"deploy=True does not work for a topology that reads {subject}.",
                given=f"topology {plan.application!r}, {folder}",
                hint="End the running query with query.drain(), and start this one with evolve=True.",
            )
