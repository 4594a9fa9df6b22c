"""A driver on a checkpoint, with the code of a query wherever it decides: leases, records, plans, marks.

What Spark does (its logs, a batch that was begun is run again) is modelled; what watersmeet does in a start and in a
batch stands here step by step, as in `_spark/query/start.py` and `_spark/outputs`. A `Defect` puts one of the mistakes
back that the simulation has to find.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

from simulation.world import Broker, Fenced, Files
from watersmeet._spark.checkpoint.folders import S3A, Folder, file_manager
from watersmeet._spark.checkpoint.lease import Epochs, may_be_shared
from watersmeet._spark.checkpoint.record import holding
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan, Marker, is_in, plan_of_log
from watersmeet.errors import ConfigError

HDFS = "org.apache.hadoop.hdfs.DistributedFileSystem"
RECORDS, EPOCHS = "watersmeet/topology", "watersmeet/epochs"
NONE = -1


class Defect(Enum):
    """What was wrong once, or could be."""

    BOTH_WIN = auto()
    """Spark's own file managers, which look first and then write, are used."""
    NUMBER_ALONE = auto()
    """A batch is marked by its number, without its plan: that loses results if another defect is there, too."""
    RECORD_FIRST = auto()
    """A start writes its record, and is refused afterwards."""
    NO_CHECK = auto()
    """A driver does not ask before it commits whether its epoch is the last one."""
    NO_RECORD = auto()
    """A start that takes a checkpoint over leaves the record as it is."""


@dataclass
class Checkpoint:
    """What all drivers see of the world.

    Attributes
    ----------
    has_lock : whether the file system has locks that go with their process.
    """

    files: Files
    broker: Broker
    has_lock: bool
    defects: frozenset[Defect]


@dataclass
class Record:
    """What a start writes down, and goes by."""

    id: str
    number: int
    topology: str
    logs: str
    epoch: int = 0


class _EpochFolder:
    """What epochs need of a `Folder`."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def names(self) -> list[str]:
        return self.files.names(EPOCHS)

    def create(self, name: str, text: str) -> bool:
        return self.files.create(f"{EPOCHS}/{name}", text)

    def text(self, name: str) -> str:
        return self.files.read(f"{EPOCHS}/{name}")

    def remove(self, name: str) -> None:
        self.files.content.pop(f"{EPOCHS}/{name}", None)


class Driver:
    """One start of a topology, and the query behind it.

    Parameters
    ----------
    name : no other start has it.
    checkpoint : the world.
    topology : what it runs; another one than is recorded is a change (`evolve=True`).
    until : records of input after which there is nothing more.
    """

    def __init__(self, name: str, checkpoint: Checkpoint, topology: str, until: int) -> None:
        self.name, self.world, self.topology, self.until = name, checkpoint, topology, until
        self.files, self.broker = checkpoint.files, checkpoint.broker
        self.epochs = Epochs(cast(Folder, _EpochFolder(self.files)), name, name, "cp")
        self.manager: str | None = None
        self.record: Record | None = None
        self.producer: tuple[str, int] | None = None
        self.marker: Marker | None = None

    def has(self, defect: Defect) -> bool:
        """Whether a mistake is put back."""
        return defect in self.world.defects

    # -- a start --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start, and run batches until there is nothing more."""
        try:
            if self.has(Defect.RECORD_FIRST):
                record, is_new = self._fitting()
                self._write_record(record, is_new=is_new)
                self._take_lease()
            else:
                self._take_lease()
                record, is_new = self._fitting()
                self._write_record(record, is_new=is_new)
            self.record = record
            self._run_batches()
            self.epochs.end()
        finally:
            if self.files.locked_by is self:
                self.files.locked_by = None

    def _take_lease(self) -> None:
        if not self.has(Defect.BOTH_WIN):
            kind = S3A if self.files.two_steps else HDFS
            self.manager = file_manager("cp", kind, None, conditional=True)
        if self.world.has_lock:
            self.files.schedule.step("lock")
            if self.files.locked_by is not None:
                raise ConfigError("A query runs on this checkpoint already.")
            self.files.locked_by = self
        self.epochs.take()

    def _fitting(self) -> tuple[Record, bool]:
        """The record to go by, and whether it is yet to be written."""
        found = self._look()
        if found is None or not self._numbers(found.logs, "offsets"):
            number = 0 if found is None else found.number + 1
            return Record(self.name, number, self.topology, "", self.epochs.number), True
        shared = may_be_shared(has_lock=self.world.has_lock, is_fresh=self.epochs.is_fresh)
        last = max(self._numbers(found.logs, "offsets"), default=NONE)
        epoch, number = self.epochs.number, found.number + 1
        if found.topology == self.topology:
            return Record(found.id, number, self.topology, found.logs, epoch), shared and not self.has(Defect.NO_RECORD)
        done = max(self._numbers(found.logs, "commits"), default=NONE)
        if last > done:
            raise ConfigError("A planned batch is not finished: only the topology that planned it can finish it.")
        logs = f"changed/{self.name}/"
        self._hand_over(found.logs, logs, done)
        return Record(found.id, number, self.topology, logs, epoch), True

    def _hand_over(self, old: str, new: str, last: int) -> None:
        plan = self.files.read(f"{old}offsets/{last}")
        for number in range(max(last - 1, 0), last + 1):
            self.files.log(f"{new}offsets/{number}", plan, self.manager)
        self.files.log(f"{new}commits/{last}", "v1", self.manager)

    def _look(self) -> Record | None:
        rows = [json.loads(self.files.content[f"{RECORDS}/{name}"]) for name in self.files.names(RECORDS)]
        return Record(**holding(rows)) if rows else None

    def _write_record(self, record: Record, *, is_new: bool) -> None:
        if not is_new:
            return
        if not self.has(Defect.RECORD_FIRST):
            self._check()
        self.files.append(RECORDS, json.dumps(vars(record)))

    def _numbers(self, logs: str, log: str) -> list[int]:
        return [int(name) for name in self.files.names(f"{logs}{log}")]

    # -- batches --------------------------------------------------------------------------------------------------

    def _run_batches(self) -> None:
        assert self.record is not None
        logs = self.record.logs
        # as Spark does: the last plan, the end of the one before it, and only then whether it was committed
        batch = max(self._numbers(logs, "offsets"), default=NONE)
        before = self._end(logs, batch - 1) if batch > 0 else 0
        start = self._end(logs, batch)
        if batch > max(self._numbers(logs, "commits"), default=NONE):
            self._batch(batch, before, start)
        while start < self.until:
            end = self.broker.input
            if end == start:
                self.files.schedule.step("wait for input")
                continue
            batch += 1
            self.files.log(f"{logs}offsets/{batch}", _plan(end), self.manager)
            self._batch(batch, start, end)
            start = end

    def _end(self, logs: str, batch: int) -> int:
        return 0 if batch == NONE else int(self.files.read(f"{logs}offsets/{batch}").split("\n")[2])

    def _batch(self, batch: int, start: int, end: int) -> None:
        assert self.record is not None
        plan = self._batch_plan(batch)
        self._check()
        self._write(batch, range(start, end), plan)
        self._check()
        self.files.log(f"{self.record.logs}commits/{batch}", "v1", self.manager)

    def _batch_plan(self, batch: int) -> BatchPlan:
        assert self.record is not None
        if self.has(Defect.NUMBER_ALONE):
            return UNKNOWN
        log = f"{self.record.logs}offsets/{batch}"
        return plan_of_log(self.files.read(log), self.topology, epoch=self.epochs.number, where=log)

    def _write(self, batch: int, records: range, plan: BatchPlan) -> None:
        """As `TransactionalSender` and `DriverCommit` do."""
        for _ in range(2):
            try:
                if not self._begin(batch, plan):
                    return
                break
            except Fenced:
                continue
            except ConfigError:
                # who was passed by is told that, and not that the output is ahead
                self._check()
                raise
        else:
            raise Fenced(self.name)
        name, epoch = self.producer or ("", 0)
        self.broker.send(name, epoch, records)
        self._check()
        self.broker.commit(name, epoch, (batch, plan.text()))
        self.marker = Marker(batch, plan)

    def _begin(self, batch: int, plan: BatchPlan) -> bool:
        assert self.record is not None
        name = self._group(self.record.id)
        if self.producer is None:
            self.producer = (name, self.broker.init(name))
            found = self.broker.mark(name)
            self.marker = None if found is None else Marker.of(*found)
        if is_in(self.marker, batch, plan, name):
            return False
        try:
            self.broker.begin(*self.producer)
        except Fenced:
            self.producer = None
            raise
        return True

    def _check(self) -> None:
        if not self.has(Defect.NO_CHECK):
            self.epochs.check()

    @staticmethod
    def _group(identity: str) -> str:
        return f"app-{identity}-driver"


def _plan(end: int) -> str:
    return f'v1\n{{"batchWatermarkMs":0}}\n{end}'
