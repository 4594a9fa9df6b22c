"""One query per checkpoint: who comes second is refused, or takes over, and then the first one commits nothing more.

Within a process all is known. Between processes a lock on a file in the checkpoint says it, where the checkpoint
lies on a disk of this machine: the system takes the lock away when its process dies. Everywhere a start takes the next
epoch of the checkpoint as well, and a query asks before each commit whether it is still the last one: where there is no
lock, the second start takes the checkpoint over (docs/checkpoints.md).
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.checkpoint.conditional_files import add_conditional_files, await_sources
from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._spark.checkpoint.epoch_files import FOLDER, EpochsElsewhere, EpochsHere
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.fencing.epochs import EpochFiles, Epochs
from watersmeet._spark.fencing.file_systems import S3A, file_manager, overwrites
from watersmeet._spark.session.settings import FILE_MANAGER, on_this_disk, path_on_this_machine
from watersmeet.errors import ConfigError

END_SECONDS = 1.0
"""For so long a query may take to end when that is decided, without being left to the background."""
_lock = threading.Lock()
_taken: dict[str, MachineLease] = {}


class MachineLease:
    """The right to run upon a checkpoint.

    Attributes
    ----------
    query : the query that runs; None while it is being started.
    key : names the checkpoint, however it was written.
    file_manager : the class by which Spark has to write the checkpoint; None: as the session has it.
    """

    def __init__(self, checkpoint: str, folder: Folder | None = None) -> None:
        self.query: StreamingQuery | None = None
        self.file_manager: str | None = None
        here = path_on_this_machine(checkpoint)
        self.key = checkpoint.rstrip("/") if here is None else os.path.realpath(here)
        self._checkpoint, self._folder = checkpoint, folder
        self._file: Any = None
        self._epochs: Epochs | None = None
        self._ending: threading.Thread | None = None
        self._at_end: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something done when it is given back."""
        self._at_end.append(call)

    @property
    def has_lock(self) -> bool:
        """Whether a lock of the file system keeps all others out."""
        return self._file is not None

    @property
    def epoch(self) -> int:
        """The epoch that it has; 0: none yet."""
        return 0 if self._epochs is None else self._epochs.number

    @property
    def is_fresh(self) -> bool:
        """Whether nobody runs under the epoch before."""
        return self._epochs is not None and self._epochs.is_fresh

    def secure(self, *, make: bool = False) -> bool:
        """Take lock and epoch, where that is not done; whether it was done now.

        Parameters
        ----------
        make : whether to do so also where the checkpoint does not exist yet.

        Raises
        ------
        ConfigError : another process has the lock, or has taken the epoch just now; or the checkpoint lies where two
            could both write one plan.
        """
        if self._epochs is not None:
            return False
        root = self._root()
        if root is not None:
            if not make and not root.is_dir():
                return False
            root.mkdir(parents=True, exist_ok=True)
            self._lock(root / "lock")
            files: EpochFiles = EpochsHere(root.parent / FOLDER)
        elif self._folder is not None:
            disk = Disk(self._folder.spark)
            self.file_manager = self._file_manager(disk, self._folder)
            if not make and not disk.names(self._folder.below("watersmeet").path):
                return False
            files = EpochsElsewhere(disk, self._folder.below(FOLDER).path)
        else:
            return False
        epochs = Epochs(files, uuid.uuid4().hex, f"{socket.gethostname()}, process {os.getpid()}", self._checkpoint)
        epochs.take()
        if self.file_manager is not None and not epochs.is_exclusive():
            raise overwrites(self._checkpoint, S3A, "Use a store that knows If-None-Match, as Amazon's S3 does")
        self._epochs = epochs
        return True

    def begun(self, query: StreamingQuery) -> StreamingQuery:
        """Note the query that runs on the checkpoint, and return it. On S3, wait first until its sources are made."""
        self.query = query
        if self.file_manager is not None:
            await_sources(query)
        return query

    def check(self) -> None:
        """Return where nobody has taken the checkpoint over.

        Raises
        ------
        ConfigError : somebody has, or it is gone.
        """
        if self._epochs is not None:
            self._epochs.check()

    def _root(self) -> Path | None:
        """The folder of watersmeet's own files, if it is one of this machine."""
        here = self._folder.here() if self._folder is not None else None
        if here is None and not on_this_disk(self._checkpoint):
            return None
        return Path(self.key) / "watersmeet"

    def _lock(self, path: Path) -> None:
        # Windows has no such locks
        if find_spec("fcntl") is None:
            return
        locks = import_module("fcntl")
        # held as long as the query runs
        file = path.open("a")
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
        except OSError as error:
            file.close()
            # a file system without locks is like one that is elsewhere
            if isinstance(error, BlockingIOError):
                raise _runs(self._checkpoint, "in another process of this machine") from None
            return
        self._file = file

    @staticmethod
    def _file_manager(disk: Disk, folder: Folder) -> str | None:
        given, conditional = folder.spark.conf.get(FILE_MANAGER, None), disk.is_conditional(folder.path)
        found = file_manager(folder.path, disk.kind(folder.path), given, conditional=conditional)
        if found is not None:
            add_conditional_files(folder.spark, folder.path)
        return found

    def release(self) -> None:
        """Give it back; again is no error."""
        with _lock:
            if _taken.get(self.key) is self:
                del _taken[self.key]
            calls, self._at_end = self._at_end, []
        for call in calls:
            call()
        if self._epochs is not None:
            # whatever a session says that is gone: the next start then takes the checkpoint over
            with suppress(Exception):
                self._epochs.end()
            self._epochs = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def release_at_end(self) -> None:
        """Give it back when its query, which is to end, has ended: now, or in the background."""
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
        """Wait until its query, which is to end, has committed its batch."""
        # one that has failed says so, and one of a session that is gone says whatever
        with suppress(Exception):
            self.query.awaitTermination()  # type: ignore[union-attr]


def take(checkpoint: str, folder: Folder | None = None) -> MachineLease:
    """The lease of a checkpoint.

    Parameters
    ----------
    folder : the checkpoint's, where there is a session; without one only a checkpoint of this machine is secured.

    Raises
    ------
    ConfigError : a query of this process, or of this machine, runs upon it.
    """
    lease = MachineLease(checkpoint, folder)
    before = _taken.get(lease.key)
    if before is not None and before.ended:
        before.wait()
        before.release()
    with _lock:
        if _taken.setdefault(lease.key, lease) is not lease:
            raise _runs(checkpoint, "in this process")
    try:
        lease.secure()
    except BaseException:
        lease.release()
        raise
    return lease


def _runs(checkpoint: str, where: str) -> ConfigError:
    return ConfigError(
        "A query runs on this checkpoint already.",
        given=f"{checkpoint}, {where}",
        hint="Stop it first (query.stop()), or begin another checkpoint.",
    )
