"""What a turn costs: CPU and memory of its whole process tree from /proc, rates from its batches."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import defaultdict
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
    while 2 * read < total and at < len(full) - 1:
        read += full[at].records
        at += 1
    end = full[-1].end
    late, half = sum(batch.records for batch in full[at:]), full[at - 1].end
    return Rates(total, end - started, total / (end - started), late, late / (end - half), half, end)


def batches_of(progress: Sequence[Any]) -> list[Batch]:
    """Batches in the progress that Spark keeps of a query."""
    found = []
    for each in progress:
        begin = datetime.fromisoformat(each["timestamp"].replace("Z", "+00:00")).timestamp()
        seconds = each["durationMs"].get("triggerExecution", 0) / 1000
        found.append(Batch(begin, begin + seconds, int(each["numInputRows"])))
    return found


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, of which some may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


@dataclass
class Usage:
    """CPU-seconds and peak memory of a tree of processes.

    Attributes
    ----------
    cpu : of each process.
    peak_bytes : of all processes at once.
    at_peak : these bytes by part: "java", "driver" and "workers", and for each of them "..., files": what is mapped
        from files, and can be dropped at any time.
    looks : (time, CPU-seconds so far), a look after the other.
    parts : (time, CPU-seconds so far by part) where parts were asked for: a JVM's threads are parts of their own,
        "java/" and what the kernel calls them, without number; "java/programs" is what it started and saw end.
    """

    cpu: dict[int, float] = field(default_factory=dict)
    peak_bytes: int = 0
    at_peak: dict[str, int] = field(default_factory=dict)
    looks: list[tuple[float, float]] = field(default_factory=list)
    parts: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def cpu_between(self, begin: float, end: float) -> float:
        """CPU-seconds between two times (seconds since the epoch), as near as the looks are."""
        before = [cpu for at, cpu in self.looks if at <= begin]
        until = [cpu for at, cpu in self.looks if at <= end]
        return (until[-1] if until else 0.0) - (before[-1] if before else 0.0)

    def parts_between(self, begin: float, end: float) -> dict[str, float]:
        """The same by part."""
        before = [parts for at, parts in self.parts if at <= begin]
        until = [parts for at, parts in self.parts if at <= end]
        first = before[-1] if before else {}
        return {name: seconds - first.get(name, 0.0) for name, seconds in (until[-1] if until else {}).items()}

    @property
    def cpu_seconds(self) -> float:
        """Of all processes that were ever seen."""
        return sum(self.cpu.values())


class Sampler:
    """Watches the tree below a process until it is stopped; what ended between two looks is lost.

    Parameters
    ----------
    root : the process.
    interval : seconds between looks.
    parts : whether `Usage.parts` is wanted: it costs a look at every thread of every JVM.
    """

    def __init__(self, root: int, interval: float = 0.25, *, parts: bool = False) -> None:
        self.usage = Usage()
        self._root = root
        self._interval = interval
        self._parts = _Parts(root) if parts else None
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
        held: dict[str, int] = defaultdict(int)
        for pid in tree:
            _, seconds, name = stats[pid]
            self.usage.cpu[pid] = max(self.usage.cpu.get(pid, 0.0), seconds)
            if self._parts:
                self._parts.look_at(pid, name, seconds)
            if memory:
                part = "java" if name == "java" else "driver" if pid == self._root else "workers"
                own, files = _memory(pid)
                held[part] += own
                held[f"{part}, files"] += files
        now = time.time()
        self.usage.looks.append((now, self.usage.cpu_seconds))
        if self._parts:
            self.usage.parts.append((now, dict(self._parts.seconds)))
        if sum(held.values()) > self.usage.peak_bytes:
            self.usage.peak_bytes, self.usage.at_peak = sum(held.values()), dict(held)


class _Parts:
    """CPU-seconds by part, added up from look to look: Spark names a thread anew for each task that it runs."""

    def __init__(self, root: int) -> None:
        self.seconds: dict[str, float] = {}
        self._root = root
        self._last: dict[tuple[str, int], float] = {}

    def look_at(self, pid: int, name: str, seconds: float) -> None:
        """A process."""
        more = self._more("process", pid, seconds)
        if name != "java":
            self._add("driver" if pid == self._root else name, more)
            return
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._add("java/programs", self._more("programs", pid, _stat(Path(f"/proc/{pid}/stat"))[3]))
        for number, thread, used in _threads(pid):
            used = self._more("thread", number, used)
            more -= used
            self._add(f"java/{thread}", used)
        self._add("java/ended threads", more)

    def _add(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def _more(self, kind: str, number: int, seconds: float) -> float:
        """CPU-seconds since the last look at it; all where it was not there, or was another of the same number."""
        before = self._last.get((kind, number), 0.0)
        self._last[(kind, number)] = seconds
        return seconds - before if seconds >= before else seconds


def _stats() -> dict[int, tuple[int, float, str]]:
    """(parent, CPU-seconds, name) of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, parent, seconds, _ = _stat(entry / "stat")
            found[int(entry.name)] = (parent, seconds, name)
    return found


def _threads(pid: int) -> list[tuple[int, str, float]]:
    """(number, name without number, CPU-seconds) of a process's threads."""
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                name, _, seconds, _ = _stat(entry / "stat")
                found.append((int(entry.name), re.sub(r"[-#\d]+$", "", name), seconds))
    return found


def cpu_seconds(pid: int) -> float:
    """Of a process and those of its threads, since its start."""
    return _stat(Path(f"/proc/{pid}/stat"))[2]


def _stat(path: Path) -> tuple[str, int, float, float]:
    """(name, parent, CPU-seconds, those of children that have ended) of a process or thread."""
    text = path.read_text()
    fields = text[text.rindex(")") + 2 :].split()
    name = text[text.index("(") + 1 : text.rindex(")")]
    own, children = (int(fields[at]) + int(fields[at + 1]) for at in (11, 13))
    return name, int(fields[1]), own / _TICK, children / _TICK


def _tree(root: int, parents: dict[int, int]) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    tree, todo = [], [root] if root in parents else []
    while todo:
        pid = todo.pop()
        tree.append(pid)
        todo += children.get(pid, [])
    return tree


def _memory(pid: int) -> tuple[int, int]:
    """Bytes of a process of its own and mapped from files, pages that it shares counted in shares."""
    with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        held = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":") for line in lines)}
        files = held["Pss_File"] + held["Pss_Shmem"]
        return held["Pss"] - files, files
    return 0, 0
