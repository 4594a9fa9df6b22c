"""Keeps the journal of a running query: a folder for each batch, in which tasks put the records that they read.

A folder counts when its batch is committed, and when the file that says that it is whole is there: this one is written
when all outputs have the batch, and before Spark commits it. So a batch that was broken off has left nothing; when it
is run again, its folder begins anew.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.spark_logs import last_committed_batch
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.session import check_threads
from watersmeet._worker.pack import SUFFIX
from watersmeet._worker.task_reports import BatchRequest
from watersmeet.errors import ConfigError, CorruptData
from watersmeet.windows import Duration, duration_ms

# Where the journal lies, and which of its batches count.

WHOLE = "whole.json"
"""The file that says that a batch is there as a whole, and since when."""


def folder_of(spark_folder: Folder) -> Path | None:
    """The journal's folder, if it is on a disk of this machine; it need not be there.

    Parameters
    ----------
    spark_folder : of the checkpoint.
    """
    path = spark_folder.local_path()
    return None if path is None else path.absolute() / "journal"


def folders(journal: Path) -> list[tuple[int, Path]]:
    """The folders of batches, in order of their numbers, those that do not count among them."""
    batches = [(int(folder.name), folder) for folder in journal.glob("[0-9]*") if folder.name.isdecimal()]
    return sorted(batches)


def remove(folder: Path) -> None:
    """Remove a batch: it does not count any more before the first of its files is gone."""
    (folder / WHOLE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def ended_ms(folder: Path) -> int | None:
    """When a batch was written, in ms since 1970; None: it is not there as a whole."""
    try:
        return int(json.loads((folder / WHOLE).read_text(encoding="utf-8"))["ended_ms"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def journaled_name(source: SourceNode) -> str:
    """The name of an input in a journal, by which a changed topology finds it: its topics, else its own name."""
    return source.origin.topic or source.origin.pattern or source.name


@dataclass(frozen=True)
class JournalWriter:
    """Brackets each batch of a query."""

    folder: Path  # the journal's
    keep_ms: int | None  # how long batches are kept; None: for ever
    guard: Callable[[], None]  # raises where the checkpoint is another query's
    sources: tuple[str, ...]  # the names of its sources, by their numbers in the rows
    _batches: deque[tuple[int, Path]] = field(default_factory=deque)

    @classmethod
    def joining(
        cls,
        spark_folder: Folder,
        explain: bool | Duration,
        gate: BatchGate,
        guard: Callable[[], None],
        sources: Sequence[SourceNode],
    ) -> Callable[[], None]:
        """The function that has a gate call the journal's writer; it does nothing where the option asks for none."""
        if explain is False:
            return lambda: None
        check_threads(f"explain={explain!r}")
        if not gate.stands:
            raise ConfigError(
                f"explain={explain!r} cannot see the batches of this query: its only output is one of Spark's "
                "own sinks.",
                hint="Write a second output, or the same rows by wm.ForeachBatch(function).",
            )
        folder = folder_of(spark_folder)
        if folder is None:
            raise ConfigError(
                f"explain={explain!r} needs a checkpoint on a disk that this machine has mounted: {spark_folder}.",
                hint="Leave explain= out, or begin a checkpoint in a folder that all machines of the cluster mount.",
            )
        keep_ms = None if explain is True else duration_ms(explain, "explain")
        return partial(cls(folder, keep_ms, guard, tuple(map(journaled_name, sources))).join, gate)

    def join(self, gate: BatchGate) -> None:
        """Have the gate call this object before and after each batch, and remove what is too old."""
        self._batches.extend(folders(self.folder))
        self._expire()
        gate.join(self._start, self._end)

    def _start(self, request: BatchRequest) -> None:
        # who was passed by removes nothing: the batch is another query's now
        self.guard()
        folder = self.folder / str(request.batch)
        # one that was broken off
        while self._batches and self._batches[-1][0] >= request.batch:
            self._batches.pop()
        remove(folder)
        folder.mkdir(parents=True)
        request.journal = str(folder)
        self._expire()

    def _end(self, batch: int) -> None:
        folder = self.folder / str(batch)
        beside = folder / f".{WHOLE}.new"
        beside.write_text(
            json.dumps({"ended_ms": time.time_ns() // 1_000_000, "sources": self.sources}), encoding="utf-8"
        )
        beside.replace(folder / WHOLE)
        self._batches.append((batch, folder))

    def _expire(self) -> None:
        """Remove the batches that are older than the journal is to be, the oldest first."""
        if self.keep_ms is None:
            return
        oldest = time.time_ns() // 1_000_000 - self.keep_ms
        while self._batches:
            _, folder = self._batches[0]
            end_ms = ended_ms(folder)
            if end_ms is not None and end_ms >= oldest:
                break
            self._batches.popleft()
            with suppress(OSError):
                remove(folder)


# The journal, read: the batches that count, and the records in them as tasks have written them.

_HINT = 'Start the topology with explain="1 day". If it was: the journal begins with the next batch.'
_DAMAGED = "Remove this folder of the journal; the query does not need it."


@dataclass(frozen=True)
class JournalBatch:
    """A batch of the journal."""

    number: int  # the batch's
    folder: Path  # where its files lie
    ended_ms: int  # when it was written, in ms since 1970

    def sources(self) -> tuple[str, ...]:
        """The names of its sources, by their numbers in the rows; see `journaled_name`."""
        try:
            return tuple(json.loads((self.folder / WHOLE).read_text(encoding="utf-8"))["sources"])
        except FileNotFoundError:
            raise self._removed() from None

    def frames(self) -> Iterator[tuple[pa.Table, bool]]:
        """The rows of each task, and whether they are a table's snapshot."""
        for file in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                with pa.ipc.open_file(str(file)) as reader:
                    yield reader.read_all(), file.name.startswith("snapshot")
            except FileNotFoundError:
                raise self._removed() from None
            except (pa.ArrowException, OSError) as error:
                raise CorruptData("A file of the journal cannot be read.", given=str(file), hint=_DAMAGED) from error
        # a batch loses this mark before its files
        if ended_ms(self.folder) != self.ended_ms:
            raise self._removed()

    def _removed(self) -> ConfigError:
        return ConfigError(
            f"Batch {self.number} left the journal while it was read.", given=str(self.folder), hint="Ask again."
        )


@dataclass(frozen=True)
class Journal:
    """The batches that can be replayed: those before the last one that was committed, without a gap."""

    batches: tuple[JournalBatch, ...]  # in order; at least one
    committed: int  # the last batch that was committed

    @property
    def is_complete(self) -> bool:
        """Whether it begins with the first batch of the checkpoint, and ends with the last one."""
        return self.batches[0].number == 0 and self.batches[-1].number == self.committed

    @classmethod
    def of(cls, spark_folder: Folder) -> Journal:
        """The journal of a checkpoint."""
        journal = folder_of(spark_folder)
        committed = last_committed_batch(spark_folder)
        listing = [] if journal is None else folders(journal)
        entries = {number: (folder, ended_ms(folder)) for number, folder in listing if number <= committed}
        batches = [JournalBatch(n, folder, end_ms) for n, (folder, end_ms) in entries.items() if end_ms is not None]
        if not batches:
            raise ConfigError("The checkpoint has no journal of its input records.", given=spark_folder, hint=_HINT)
        last = batches[-1].number
        unbroken = list(takewhile(lambda pair: pair[1].number == last - pair[0], enumerate(reversed(batches))))
        return cls(tuple(batch for _, batch in reversed(unbroken)), committed)
