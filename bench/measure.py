"""What a turn costs: CPU and memory of its whole process tree from /proc, rates from its batches.

Called by `turns`, which runs each turn as a process of its own, and by the workloads for the rates.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Batch:
    """One batch of a run: seconds since the epoch, and its records."""

    begin: float
    end: float
    records: int


@dataclass(frozen=True)
class Rates:
    """Records per second of a whole run and of its second half.

    The second half begins with the batch in which half of the records have been read.
    """

    records: int
    seconds: float
    whole: float
    half_records: int
    second_half: float
    half_time: float
    end_time: float


def rates(started: float, batches: Sequence[Batch]) -> Rates:
    """Rates of a run that started at `started`.

    Raises
    ------
    ValueError : there are fewer than two batches with records.
    """
    full = [batch for batch in batches if batch.records]
    if len(full) < 2:
        raise ValueError(f"a rate of the second half needs two batches, there are {len(full)}")
    total = sum(batch.records for batch in full)
    read, at = 0, 0
    while 2 * read < total and at < len(full) - 1:  # one turn per batch
        read += full[at].records
        at += 1
    end = full[-1].end
    late, half = sum(batch.records for batch in full[at:]), full[at - 1].end
    return Rates(total, end - started, total / (end - started), late, late / (end - half), half, end)


def batches_of(progress: Sequence[Any]) -> list[Batch]:
    """Batches in the progress that Spark keeps of a query."""
    found = []
    for each in progress:  # one turn per batch
        begin = datetime.fromisoformat(each["timestamp"].replace("Z", "+00:00")).timestamp()
        seconds = each["durationMs"].get("triggerExecution", 0) / 1000
        found.append(Batch(begin, begin + seconds, int(each["numInputRows"])))
    return found


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, of which some may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):  # one turn per file
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


@dataclass
class Usage:
    """CPU-seconds and peak memory of a tree of processes."""

    cpu: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    threads: dict[int, tuple[str, float]] = field(default_factory=dict)
    peak_bytes: int = 0
    looks: list[tuple[float, float]] = field(default_factory=list)

    def cpu_between(self, begin: float, end: float) -> float:
        """CPU-seconds between two times (seconds since the epoch), as near as the looks are."""
        before = [cpu for at, cpu in self.looks if at <= begin]
        until = [cpu for at, cpu in self.looks if at <= end]
        return (until[-1] if until else 0.0) - (before[-1] if before else 0.0)

    @property
    def cpu_seconds(self) -> float:
        """Of all processes that were ever seen."""
        return sum(self.cpu.values())

    def by_thread(self) -> dict[str, float]:
        """CPU-seconds of the JVM's threads, by name without number, from the most on."""
        kinds: dict[str, float] = {}
        for name, seconds in self.threads.values():  # one turn per thread
            kinds[name] = kinds.get(name, 0.0) + seconds
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def by_kind(self) -> dict[str, float]:
        """CPU-seconds by program."""
        kinds: dict[str, float] = {}
        for pid, seconds in self.cpu.items():  # one turn per process
            name = self.names.get(pid, "?")
            kinds[name] = kinds.get(name, 0.0) + seconds
        return kinds


class Sampler:
    """Watches the tree below a process until it is stopped; what ended between two looks is lost.

    Parameters
    ----------
    root : the process.
    interval : seconds between looks.
    """

    def __init__(self, root: int, interval: float = 0.25) -> None:
        self.usage = Usage()
        self._root = root
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        look = 0
        while not self._done.wait(self._interval):
            self._look(memory=look % 4 == 0)
            look += 1

    def _look(self, *, memory: bool) -> None:
        stats = _stats()
        tree = _tree(self._root, {pid: parent for pid, (parent, _, _) in stats.items()})
        total = 0
        for pid in tree:  # one turn per process
            _, seconds, name = stats[pid]
            self.usage.cpu[pid] = max(self.usage.cpu.get(pid, 0.0), seconds)
            self.usage.names[pid] = name
            if name == "java" and memory:
                self._look_at_threads(pid)
            total += _pss(pid) if memory else 0
        self.usage.looks.append((time.time(), self.usage.cpu_seconds))
        self.usage.peak_bytes = max(self.usage.peak_bytes, total)

    def _look_at_threads(self, pid: int) -> None:
        """CPU-seconds of a JVM's threads: which part is garbage collection, which compilation."""
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/task").iterdir():  # one turn per thread
                with contextlib.suppress(OSError, ValueError, IndexError):
                    name, _, seconds = _stat(entry / "stat")
                    # Spark names a thread anew for each task: what it has used so far is counted under the last name.
                    kind = "Executor task" if name.startswith("Executor task") else re.sub(r"[#\d]+$", "", name)
                    self.usage.threads[int(entry.name)] = (kind, seconds)


def _stats() -> dict[int, tuple[int, float, str]]:
    """(parent, CPU-seconds, name) of every process."""
    found = {}
    for entry in Path("/proc").iterdir():  # one turn per process
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, parent, seconds = _stat(entry / "stat")
            found[int(entry.name)] = (parent, seconds, name)
    return found


def _stat(path: Path) -> tuple[str, int, float]:
    """(name, parent, CPU-seconds) of a process or thread."""
    text = path.read_text()
    fields = text[text.rindex(")") + 2 :].split()
    name = text[text.index("(") + 1 : text.rindex(")")]
    return name, int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICK


def _tree(root: int, parents: dict[int, int]) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():  # one turn per process
        children.setdefault(parent, []).append(pid)
    tree, todo = [], [root] if root in parents else []
    while todo:  # one turn per process
        pid = todo.pop()
        tree.append(pid)
        todo += children.get(pid, [])
    return tree


def _pss(pid: int) -> int:
    """Memory of a process, pages that it shares counted in shares."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
