"""What a query holds at a moment: memory, threads, open files and clients of its processes; files of its folders."""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMORY, THREADS, OPEN, OBJECTS, HEAP, CLIENTS = "MB", "threads", "open files", "objects", "heap, MB", "Kafka clients"
_LIBRDKAFKA, _JAVA_CLIENT = "rdk:main", "kafka-producer-"
_KINDS = (
    (r"^state/\d+/\d+/\.?\d+\.(changelog|zip)(\.crc)?$", "state: {1}{2}"),
    (r"^state/\d+/\d+/SSTs/", "state: SSTs"),
    (r"^state/", "state: rest"),
    (r"^(offsets|commits|sources|metadata|watersmeet/\w+)\b", "{1}"),
)


def processes() -> dict[str, float]:
    """Numbers of this process ("driver"), its JVM ("JVM") and the JVM's Python processes together ("workers")."""
    found: dict[str, float] = defaultdict(float)
    for part, pid in _parts():
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            held = {
                name: value.split()[0] for name, _, value in (line.partition(":") for line in status) if value.split()
            }
            found[f"{part}: {MEMORY}"] += int(held.get("VmRSS", "0")) / 1024
            found[f"{part}: {THREADS}"] += int(held["Threads"])
            found[f"{part}: {OPEN}"] += len(os.listdir(f"/proc/{pid}/fd"))
            found[f"{part}: processes"] += 1
            found[f"{part}: {CLIENTS}"] += sum(name.startswith((_LIBRDKAFKA, _JAVA_CLIENT)) for name in _threads(pid))
    return {name: round(number, 1) for name, number in found.items()}


def live(spark: Any) -> dict[str, float]:
    """What is alive behind a collection: objects of this process, and bytes of the JVM's heap."""
    gc.collect()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.java.lang.System.gc()
    used = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
    return {f"driver: {OBJECTS}": len(gc.get_objects()), f"JVM: {HEAP}": round(used, 1)}


def files(folder: Path, since: float = 0.0, until: float = float("inf")) -> dict[str, int]:
    """How many files there are below a checkpoint by kind, or how many of them were written within a time."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and since <= path.stat().st_mtime < until:
                found[kind(str(path.relative_to(folder)))] += 1
    return dict(sorted(found.items()))


def kind(name: str) -> str:
    """What a file of a checkpoint is, by its path in it."""
    for pattern, called in _KINDS:
        match = re.match(pattern, name)
        if match:
            said = called.format(match.group(0), *(each or "" for each in match.groups()))
            return f"{said}.crc" if name.endswith(".crc") and not said.endswith(".crc") else said
    return "rest"


def _parts() -> Iterator[tuple[str, int]]:
    yield "driver", os.getpid()
    todo = [(pid, "JVM") for pid in _children(os.getpid()) if _name(pid) == "java"]
    while todo:
        pid, part = todo.pop()
        yield part, pid
        todo += [(child, "workers") for child in _children(pid)]


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _threads(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield (task / "comm").read_text()
