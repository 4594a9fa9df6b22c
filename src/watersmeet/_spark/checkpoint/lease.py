"""One query per checkpoint: who comes second is refused, or takes over, and then the first one commits nothing more.

Within a process all is known. Between processes a lock on a file in the checkpoint says it, where the checkpoint
lies on a disk of this machine: the system takes the lock away when its process dies. Everywhere a start takes the next
epoch of the checkpoint as well, and a query asks before each commit whether it is still the last one: where there is no
lock, the second start takes the checkpoint over (docs/checkpoints.md).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.checkpoint.folders import (
    S3A,
    Folder,
    HadoopFiles,
    add_conditional_files,
    await_sources,
    file_manager,
    local_folder,
    overwrites,
)
from watersmeet._spark.checkpoint.record import CheckpointFiles
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH, is_committed, reads_nothing
from watersmeet._spark.session import FILE_MANAGER, on_this_disk, path_on_this_machine
from watersmeet.errors import ConfigError

# The epochs of a checkpoint: each start takes the next one, and with it the checkpoint from the former owner.
#
# An epoch is a file that is made only where it is not there yet. So of two that take one number, one gets an error. The
# owner of an epoch checks, before each commit, whether a later one has been taken; nothing depends on a clock.

FOLDER = "watersmeet/epochs"
KEPT = 16
"""Files of earlier epochs that are left for a reader's eyes."""
_DIGITS = 10
_END = ".ended"
_ASKED = ".asked"
RUNS = "A query runs on this checkpoint already."
"""Said to a start that is refused, since a query has the lease."""
_ONE_QUERY = (
    "Run one query per checkpoint. The results that are written stay; stop the other query before you start this one "
    "again."
)


class Epochs:
    """The epochs of one checkpoint, as one start sees them.

    Parameters
    ----------
    files : where they lie.
    owner : a name that no other start has.
    who : says to people who that is.
    checkpoint : as the user wrote it.

    Attributes
    ----------
    number : of the epoch that is held; 0: none.
    is_fresh : whether nobody runs under the epoch before: it was ended, or there was none.
    """

    def __init__(self, files: Folder, owner: str, who: str, checkpoint: str) -> None:
        self._files, self._owner, self._who, self._checkpoint = files, owner, who, checkpoint
        self._text = json.dumps({"owner": owner, "who": who})
        self.number = 0
        self.is_fresh = False

    def take(self) -> None:
        """Take the next epoch: the former owner finds out before it commits."""
        names = self._files.names()
        last = _last(names)
        name = _name(last + 1)
        # an answer that was lost leaves a file that is ours
        if not self._files.create(name, self._text) and self._owner_of(name) != self._owner:
            raise ConfigError(
                "Another query is being started on this checkpoint.",
                given=f"{self._checkpoint}: epoch {last + 1} is taken by {self._who_of(name)}",
                hint=_ONE_QUERY,
            )
        self.number, self.is_fresh = last + 1, has_ended(names)
        for old in names:
            if _number(old) <= last - KEPT:
                self._files.remove(old)

    def is_exclusive(self) -> bool:
        """Create the epoch's file again. True: the file system refuses; False: it does not, and the file is removed."""
        if not self._files.create(_name(self.number), self._text):
            return True
        self._files.remove(_name(self.number))
        return False

    def check(self) -> None:
        """Return where the epoch is still the last one."""
        last = _last(self._files.names())
        if last == self.number:
            return
        if last < self.number:
            raise ConfigError(
                "The checkpoint was removed or replaced while the query ran: nothing more is written.",
                given=f"{self._checkpoint}: epoch {self.number} of this query is gone",
                hint="Start the query again, on the checkpoint that is there now.",
            )
        raise ConfigError(
            "Another query has taken this checkpoint over: this one writes nothing more.",
            given=f"{self._checkpoint}: this query has epoch {self.number}, epoch {last} was taken by "
            f"{self._who_of(_name(last))}",
            hint=_ONE_QUERY,
        )

    def end(self) -> None:
        """Say that nothing runs under the epoch any more; again is no error."""
        # a checkpoint that is gone stays so
        if self.number and _name(self.number) in self._files.names():
            self._files.create(_name(self.number) + _END, self._who)

    def withdraw(self) -> None:
        """Give back an epoch under which nothing was written: the owner of the one before goes on."""
        name, self.number = _name(self.number), 0
        if self._owner_of(name) == self._owner:
            self._files.remove(name)

    def _owner_of(self, name: str) -> str:
        return _body(self._files.text(name)).get("owner", "")

    def _who_of(self, name: str) -> str:
        return _body(self._files.text(name)).get("who", "somebody")


def may_be_shared(*, has_lock: bool, is_fresh: bool) -> bool:
    """Whether somebody may still be about to write a record, who is yet to find out that the checkpoint is another's.

    Then a start writes its record again, so that it holds against one that comes late. Batches need nothing of the
    kind: a query plans a batch before it asks for its epoch and commits, so the plan is in the log.

    Parameters
    ----------
    has_lock : whether a lock keeps all others out.
    is_fresh : whether the epoch before was ended.
    """
    return not has_lock and not is_fresh


def has_ended(names: list[str]) -> bool:
    """Whether nobody runs under the last epoch of these files: it was ended, or there is none."""
    last = _last(names)
    return last == 0 or _name(last) + _END in names


def _last(names: list[str]) -> int:
    return max(map(_number, names), default=0)


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def _number(name: str) -> int:
    first = name.removesuffix(_END)
    return int(first) if first.isdecimal() else 0


def _body(text: str) -> dict[str, str]:
    try:
        body = json.loads(text)
    except ValueError:
        # its writer died before it wrote
        return {}
    return body if isinstance(body, dict) else {}


END_SECONDS = 1.0
"""For so long a query may take to end when that is decided, without being left to the background."""
BATCH_SECONDS = 60.0
"""For so long a changed topology waits for the batch of a query that runs elsewhere."""
_LOOK_SECONDS = 0.02
_ASK_SECONDS = 0.1
_lock = threading.Lock()
_leases: dict[str, MachineLease] = {}


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
        local = path_on_this_machine(checkpoint)
        self.key = checkpoint.rstrip("/") if local is None else os.path.realpath(local)
        self._checkpoint, self._folder = checkpoint, folder
        self._file: Any = None
        self._epochs: Epochs | None = None
        self._is_written = False
        self._seal: Folder | None = None
        self._ending: threading.Thread | None = None
        self._request = threading.Event()
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
        return 0 if self._epochs is None else self._epochs.number

    @property
    def is_fresh(self) -> bool:
        """Whether nobody runs under the epoch before."""
        return self._epochs is not None and self._epochs.is_fresh

    @property
    def is_shared(self) -> bool:
        """Whether a query may still run elsewhere: no lock keeps it out, and nobody has said that it has ended."""
        if self.has_lock or self._epochs is not None:
            return may_be_shared(has_lock=self.has_lock, is_fresh=self.is_fresh)
        files = self.reserve()
        return files is not None and not has_ended(files.names())

    def seal(self, found: CheckpointFiles, *, behind_batch: bool) -> bool:
        """Plan the next batch as one that reads nothing, so that a query that runs elsewhere can plan none.

        Whether the checkpoint has to be looked at again: a batch was planned, by this start or by that query.

        Parameters
        ----------
        found : what was found in the checkpoint.
        behind_batch : whether to wait for a batch that is planned and not committed yet, `BATCH_SECONDS` at most.
        """
        planned, committed = found.ends
        if planned == NO_BATCH or self._is_written or not self.is_shared:
            return False
        until, plans = time.monotonic() + BATCH_SECONDS, found.spark_folder
        if planned > committed and (not behind_batch or reads_nothing(plans, planned)):
            return False
        while planned > committed and not is_committed(plans, planned):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
        seal = f"offsets/{planned + 1}"
        if plans.log(seal, plans.text(f"offsets/{planned}"), self.file_manager):
            self._seal = plans.below(seal)
        return True

    def reserve(self, *, make: bool = False) -> Folder | None:
        """Lock the checkpoint, where a lock works, and find its epochs. It ends no query that runs elsewhere.

        Parameters
        ----------
        make : whether to do so also where the checkpoint does not exist yet.
        """
        root = self._root()
        if root is not None:
            if not make and not root.is_dir():
                return None
            root.mkdir(parents=True, exist_ok=True)
            if self._file is None:
                self._lock(root / "lock")
            return local_folder(root.parent / FOLDER)
        if self._folder is None:
            return None
        if self.file_manager is None and isinstance(self._folder, HadoopFiles):
            self.file_manager = self._file_manager(self._folder)
        return self._folder.below(FOLDER)

    def secure(self) -> bool:
        """Take lock and epoch, unless that is done; whether it was done now. A query that runs elsewhere ends."""
        if self._epochs is not None or (files := self.reserve(make=True)) is None:
            return False
        epochs = Epochs(files, uuid.uuid4().hex, f"{socket.gethostname()}, process {os.getpid()}", self._checkpoint)
        epochs.take()
        if self.file_manager is not None and not epochs.is_exclusive():
            epochs.withdraw()
            raise overwrites(self._checkpoint, S3A, "Use a store that knows If-None-Match, as Amazon's S3 does")
        self._epochs = epochs
        return True

    def write_under(self) -> None:
        """Check, and note that something is written under the epoch from here on: it is not withdrawn any more."""
        self.check()
        self._is_written = True

    def begun(self, query: StreamingQuery) -> StreamingQuery:
        """Note the query that runs on the checkpoint, and return it. On S3, wait first until its sources are made."""
        self.query = query
        if self.file_manager is not None:
            await_sources(query)
        return query

    def check(self) -> None:
        """Return where nobody has taken the checkpoint over."""
        if self._epochs is not None:
            self._epochs.check()

    @property
    def is_asked(self) -> bool:
        """Whether a start waits for this lease, and asks its query to end (`take_behind`)."""
        root = self._root() if self.has_lock else None
        name = f"{_name(self.epoch)}{_ASKED}"
        return self._request.is_set() or (root is not None and (root.parent / FOLDER / name).exists())

    def ask(self) -> None:
        """Ask the query to end; it runs in this process."""
        self._request.set()

    def _root(self) -> Path | None:
        """The folder of watersmeet's own files, if it is one of this machine."""
        local = self._folder.local_path() if self._folder is not None else None
        if local is None and not on_this_disk(self._checkpoint):
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
    def _file_manager(folder: HadoopFiles) -> str | None:
        configured, conditional = folder.spark.conf.get(FILE_MANAGER, None), folder.is_conditional()
        manager = file_manager(folder.path, folder.kind(), configured, conditional=conditional)
        if manager is not None:
            add_conditional_files(folder.spark, folder.path)
        return manager

    def release(self) -> None:
        """Give it back; again is no error."""
        with _lock:
            if _leases.get(self.key) is self:
                del _leases[self.key]
            calls, self._at_end = self._at_end, []
        for call in calls:
            call()
        if self._epochs is not None:
            # of a session that is gone the next start takes over; who ran before a start that failed goes on
            with suppress(Exception):
                (self._epochs.end if self._is_written else self._withdraw)()
            self._epochs = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _withdraw(self) -> None:
        assert self._epochs is not None
        if self._seal is not None:
            self._epochs.check()
            self._seal.remove()
        self._epochs.withdraw()

    def release_at_end(self) -> None:
        """Give it back when its query, which is to end, has ended: now, or in the background."""
        with _lock:  # one who waits for the query and one who stops it come here at once
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
    """The lease of a checkpoint, without its epoch: a start takes that when all is checked (`secure`).

    Parameters
    ----------
    folder : the checkpoint's, where there is a session; without one only a checkpoint of this machine is locked.
    """
    lease = MachineLease(checkpoint, folder)
    previous = _leases.get(lease.key)
    if previous is not None and previous.ended:
        previous.wait()
        previous.release()
    with _lock:
        if _leases.setdefault(lease.key, lease) is not lease:
            raise _runs(checkpoint, "in this process")
    try:
        lease.reserve()
    except BaseException:
        lease.release()
        raise
    return lease


def take_behind(checkpoint: str, folder: Folder) -> MachineLease:
    """The lease of a checkpoint, behind the batch of a query that has it: that one is asked to end.

    The request to another process names the epoch of that query, so that no later one ends by it.
    """
    key = MachineLease(checkpoint, folder).key
    while True:
        try:
            return take(checkpoint, folder)
        except ConfigError as refusal:
            if refusal.message != RUNS:
                raise
        epochs, lease = folder.below(FOLDER), _leases.get(key)
        if lease is not None and lease.query is not None:
            lease.ask()
        elif last := _last(epochs.names()):
            epochs.create(f"{_name(last)}{_ASKED}", "")
        time.sleep(_ASK_SECONDS)


def may_run(checkpoint: str, folder: Folder) -> bool:
    """Whether a query has the lease, or, where there is no lock, may have it."""
    try:
        lease = take(checkpoint, folder)
    except ConfigError as refusal:
        if refusal.message != RUNS:
            raise
        return True
    try:
        return lease.is_shared
    finally:
        lease.release()


def _runs(checkpoint: str, where: str) -> ConfigError:
    return ConfigError(
        RUNS, given=f"{checkpoint}, {where}", hint="Stop it first (query.stop()), or begin another checkpoint."
    )
