"""One query per checkpoint: refused at the start where this process, or another one of this machine, runs one.

Within a process all is known. Between processes a lock on a file in the checkpoint says it, where the checkpoint
lies on a disk of this machine: the system takes the lock away when its process dies. Elsewhere there is no lock;
Spark's log of batches and Kafka's fencing then stop one of the two (docs/checkpoints.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from millpond._spark.session.settings import on_this_disk, path_on_this_machine
from millpond.errors import ConfigError

END_SECONDS = 1.0
"""For so long a query may take to end when that is decided, without being left to the background."""
_lock = threading.Lock()
_taken: dict[str, Lease] = {}


class Lease:
    """The right to run upon a checkpoint.

    Attributes
    ----------
    query : the query that runs; None while it is being started.
    key : names the checkpoint, however it was written.
    """

    def __init__(self, checkpoint: str) -> None:
        self.query: StreamingQuery | None = None
        here = path_on_this_machine(checkpoint)
        self.key = checkpoint.rstrip("/") if here is None else os.path.realpath(here)
        self._checkpoint = checkpoint
        self._file: Any = None
        self._ending: threading.Thread | None = None
        self._at_end: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something done when it is given back."""
        self._at_end.append(call)

    def secure(self) -> None:
        """Take the lock, where the checkpoint exists already and has one; once is enough.

        Raises
        ------
        ConfigError : another process has it.
        """
        # Windows has no such locks
        if self._file is not None or not on_this_disk(self._checkpoint) or find_spec("fcntl") is None:
            return
        locks = import_module("fcntl")
        # held as long as the query runs
        file = open(os.path.join(self.key, "millpond", "lock"), "a")  # noqa: SIM115
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
        except OSError as error:
            file.close()
            # a file system without locks is like one that is elsewhere
            if isinstance(error, BlockingIOError):
                raise _runs(self._checkpoint, "in another process of this machine") from None
            return
        self._file = file

    def release(self) -> None:
        """Give it back; again is no error."""
        with _lock:
            if _taken.get(self.key) is self:
                del _taken[self.key]
            calls, self._at_end = self._at_end, []
        for call in calls:
            call()
        if self._file is not None:
            self._file.close()
            self._file = None

    def release_at_end(self) -> None:
        """Give it back when its query, whose end is decided, has ended: now, or in the background."""
        if self._ending is None:
            self._ending = threading.Thread(target=self._release_behind, name=f"end of {self.key}", daemon=True)
            self._ending.start()
        self._ending.join(END_SECONDS)

    def _release_behind(self) -> None:
        self.wait()
        self.release()

    @property
    def ended(self) -> bool:
        """Whether the end of its query is decided, on its own too; it may still be committing a batch."""
        if self.query is None:
            return False
        try:
            return not self.query.isActive
        except Exception:  # whatever a session says that is gone
            return True

    def wait(self) -> None:
        """Wait until its query, whose end is decided, has committed its batch."""
        # one that has failed says so, and one of a session that is gone says whatever
        with suppress(Exception):
            self.query.awaitTermination()  # type: ignore[union-attr]


def take(checkpoint: str) -> Lease:
    """The lease of a checkpoint.

    Raises
    ------
    ConfigError : a query of this process, or of this machine, runs upon it.
    """
    lease = Lease(checkpoint)
    before = _taken.get(lease.key)
    if before is not None and before.ended:
        before.wait()
        before.release()
    with _lock:
        if _taken.setdefault(lease.key, lease) is not lease:
            raise _runs(checkpoint, "in this process")
    try:
        lease.secure()
    except ConfigError:
        lease.release()
        raise
    return lease


def _runs(checkpoint: str, where: str) -> ConfigError:
    return ConfigError(
        "A query runs on this checkpoint already.",
        given=f"{checkpoint}, {where}",
        hint="Stop it first (query.stop()), or begin another checkpoint.",
    )
