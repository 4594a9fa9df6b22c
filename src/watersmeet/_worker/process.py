"""Preparation of the Python processes in which Spark runs functions of watersmeet."""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from watersmeet.errors import ConfigError

CACHE, SPOOL = range(2)
"""What there may be to say."""
_SAID = mmap.mmap(-1, 2)
"""A byte for each, shared by the processes that are forked from this one: whether one of them has said it."""
_BATCH = "streaming.sql.batchId"
"""Spark's name for the number of the batch, in what it tells its tasks."""
KEPT_BYTES = 48 << 20
"""What a worker keeps for its next task beside what it began with: the batches of a trickle never need more."""


@cache
def freeze_imports() -> int:
    """Once per process: what has been imported is no longer looked through for garbage; what it has, in bytes.

    Spark's worker collects garbage after every task. With pandas, pyarrow and Spark's own modules loaded that is
    60 ms each time, a sixth of all Python time of a busy query, and finds nothing: modules stay.
    """
    gc.collect()
    gc.freeze()
    return own_bytes()


def give_back() -> None:
    """At the end of a task: free memory goes to the system, where it is much (law 9).

    While a level's workers are busy those that pack and write are not, and the other way round; each of them would keep
    what its largest task has taken.
    """
    if own_bytes() - freeze_imports() <= KEPT_BYTES:
        return
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def own_bytes() -> int:
    """Resident memory of this process that is not mapped from files; 0 where the system does not say (not Linux)."""
    resident, files = _pages("self")
    return (resident - files) * os.sysconf("SC_PAGE_SIZE")


def resident_bytes(process: int | None = None) -> int:
    """Resident memory of a process, this one if none is named; 0 where the system does not say (not Linux)."""
    return _pages("self" if process is None else str(process))[0] * os.sysconf("SC_PAGE_SIZE")


def _pages(process: str) -> tuple[int, int]:
    try:
        _, resident, files, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0, 0
    return int(resident), int(files)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """The C library's own way to give memory back, which glibc alone has."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def say(kind: int, text: str) -> None:
    """Warn, once for all workers of a daemon that has watersmeet imported (`worker_daemon`), else once in each."""
    if _SAID[kind] == 0:
        _SAID[kind] = 1
        warnings.warn(text, stacklevel=1)


# Calls that may not come back: each in a thread of its own, which keeps no program from ending, as a pool's would.

T = TypeVar("T")


class TookTooLong(Exception):
    """A call did not return in time."""


def in_background(call: Callable[[], T], name: str) -> Future[T]:
    """The result or error of a running call.

    Parameters
    ----------
    name : of its thread.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name=f"watersmeet: {name}", daemon=True).start()
    return future


def call_with_timeout(seconds: float, call: Callable[[], T], name: str) -> T:
    """The result or error of a call; its thread is given up if it does not return in time."""
    future = in_background(call, name)
    # a call may raise TimeoutError itself, so that of `result` would not tell
    if not wait([future], seconds).done:
        raise TookTooLong
    return future.result()


# The Spark task that this process runs; the test driver's own process runs none.


def in_task() -> bool:
    """Whether this process runs a Spark task."""
    return TaskContext.get() is not None


def partition() -> int:
    """The number of the task's partition; 0 outside a task."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def attempt_id() -> int:
    """The number of this attempt, unique in the application; 0 outside a task."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def tried_before() -> bool:
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def job_property(name: str) -> str | None:
    """A property that the driver has set for the job; None where it has not, and outside a task."""
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None


def batch_number() -> int | None:
    """The number of the task's batch; None where Spark does not say it (PYSPARK_PIN_THREAD=false), and outside one."""
    number = job_property(_BATCH)
    return int(number) if number else None


# How a task puts the two halves of a client's settings together: one came with its function, one with its job.
#
# `_spark/session.py` splits them, and says why.

SECRETS_PROPERTY = "watersmeet.kafka.secret"
"""The job's property with Kafka's half. Tools that redact by name look for the word "secret"."""
REGISTRIES = "watersmeet.registry.secret"
"""The job's property with the Schema Registry's half."""


def received(half: bytes, name: str = SECRETS_PROPERTY) -> dict[str, Any]:
    """The settings, in a task, from the half that came with the function."""
    secret = job_property(name)
    if secret is None:
        raise ConfigError(
            f"The task has no settings for {'Kafka' if name == SECRETS_PROPERTY else 'the Schema Registry'}.",
            given=f"no property {name} of the job",
            hint="Start the topology with Topology.start(...): its frames cannot be run by themselves.",
        )
    settings: dict[str, Any] = json.loads(combined(half, bytes.fromhex(secret)))
    return settings


def combined(left: bytes, right: bytes) -> bytes:
    """The bytes of two halves put together, or a half of bytes and the other half."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# Files and folders that must outlive a loss of power: written through to the disk.


def sync(path: Path) -> None:
    """Return when the disk has what a file holds, or which names a folder has."""
    if os.name == "nt" and path.is_dir():
        # Windows opens no folders
        return
    place = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
