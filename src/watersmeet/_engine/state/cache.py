"""A machine's cache of runs: one memory-mapped file per run, shared by all worker processes.

The manifest is the truth, the cache never is: a file that is missing, altered or cut off is fetched again
from the state store, and every problem of the disk ends in rows held in memory and a warning, never in an error or
another result. Runs are immutable and their ids are unique over checkpoints, so a file is right or wrong for ever.
A sum in a file does not keep out who may write the file: a folder that is not this user's alone is not used.

A file is a header of 64 bytes (magic, version, length and CRC of the rest, run id) and an uncompressed Arrow
stream. A process checks the CRC once and then knows the file by inode, size and modification time. A change that leaves
these as they are, as by a disk that fails, is found in the background (`watch`): rows that were read meanwhile may be
wrong, so that is the one error that this cache raises. Files are written beside and renamed, so readers see a whole
file or none, and two processes that write one run write the same. Law 9: what is kept follows what lies in the folder,
and that has a limit in bytes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat as modes
import struct
import tempfile
import threading
import time
import warnings
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from watersmeet.errors import ConfigError, CorruptData

# The sums of the cache's files, checked again in the background: what a failing disk alters while it is mapped.

HEADER = struct.Struct("<4sHHQQ40s")
"""Magic, version, nothing, length and CRC of the rest, id of the run."""
CHECK_SECONDS = 1.0
"""At least so long from one file that is checked to the next."""
_PART = 1 << 20

Identity = tuple[int, int, int]
"""Inode, size and modification time: a file that keeps them is taken for unchanged."""


class Checked(Protocol):
    """Files to check."""

    def check_next(self) -> float:
        """Check one of them, all in turn; the seconds that it took."""


def identity_of(stat: os.stat_result) -> Identity:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def keeps_its_sum(path: str, identity: Identity) -> bool:
    """Whether a file has its checksum; one that is gone, or another one by now, is nobody's any more."""
    try:
        # read, not mapped: one that is cut off meanwhile would end the process
        with open(path, "rb") as file:
            if identity_of(os.fstat(file.fileno())) != identity:
                return True
            header, crc = file.read(HEADER.size), 0
            while part := file.read(_PART):
                crc = zlib.crc32(part, crc)
            return identity_of(os.fstat(file.fileno())) != identity or HEADER.unpack(header)[4] == crc
    except FileNotFoundError:
        return True
    except OSError:
        # the disk does not give it back: nor will it to who reads the map
        return False


def in_background(checked: Checked) -> None:
    """Check files from now on, for as long as what has them lives."""
    arguments = (weakref.ref(checked),)
    threading.Thread(target=_watch, args=arguments, name="watersmeet: the cache's sums", daemon=True).start()


def _watch(of: weakref.ref[Checked]) -> None:
    pause = CHECK_SECONDS
    while True:
        time.sleep(pause)
        checked = of()
        if checked is None:
            return
        # a hundredth of a core at most
        pause = max(CHECK_SECONDS, 100 * checked.check_next())
        del checked


_MAGIC, _VERSION = b"WMRC", 1
_WRITE = pa.ipc.IpcWriteOptions(use_threads=False)
_HOUR = 3600.0
_SMALL = 1 << 20
"""Bytes of rows that are put together in memory before they are written."""


@dataclass(frozen=True)
class CacheUse:
    """The counts of the cache so far in this process."""

    hits: int = 0
    opened: int = 0
    fetched: int = 0
    rejected: int = 0
    failed_writes: int = 0


def own_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where it is not there, for this user alone."""
    folder = Path(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # of a link both count: whose it is, and where it leads
    for status in (folder.lstat(), folder.stat()):  # one turn for the name, one for what it leads to
        wrong = _what_lets_others_in(status)
        if wrong is not None:
            raise ConfigError(
                f"The cache folder {folder} is not private: {wrong}.",
                hint="Remove it, or name another one, in a folder where no one else may write.",
            )
    folder.chmod(0o700)
    return folder


def _what_lets_others_in(status: os.stat_result) -> str | None:
    me = os.getuid() if hasattr(os, "getuid") else status.st_uid
    if status.st_uid != me:
        return f"of user {status.st_uid} (this one is {me})"
    if modes.S_ISDIR(status.st_mode) and status.st_mode & 0o022:
        return "into which others may write"
    return None


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


class RunCache:
    """Runs as memory-mapped files under one directory.

    Parameters
    ----------
    root : the directory; made with rights for its owner alone, not used where it has other ones.
    open_runs : how many runs this process keeps mapped.
    max_bytes : of all files, and of those that this process keeps mapped; None: half of what the disk has free.
    max_age : seconds after which a file that no process opened is swept away; what crashes leave behind.
    say : told once why the cache does not help.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        open_runs: int = 512,
        max_bytes: int | None = None,
        max_age: float = 7 * 86400,
        say: Callable[[str], None] = _warn,
    ) -> None:
        self.root = Path(root)
        self._folder = os.path.join(root, "")
        self.use = CacheUse()
        self._limit = open_runs
        self._max_bytes = max_bytes or 0
        self._max_age = max_age
        self._say = say
        self._has_warned = False
        self._written = 0
        self._mapped: OrderedDict[str, tuple[Identity, pa.RecordBatch]] = OrderedDict()
        self._mapped_bytes = 0
        self._checked: dict[str, Identity] = {}
        self._lock = threading.RLock()
        self._checking: list[str] = []
        self._altered: str | None = None
        self._usable = self._settle()

    def _settle(self) -> bool:
        """Whether the folder can be used."""
        try:
            own_folder(self.root)
            size = self.sweep()
            self._max_bytes = self._max_bytes or (shutil.disk_usage(self.root).free + size) // 2
        except (OSError, ConfigError) as problem:
            self._say_once(problem)
            return False
        return True

    def open(self, run_id: str, fetch: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """The rows of a run: mapped already, from its file, or fetched and then kept as a file."""
        with self._lock:
            self._raise_altered()
            batch = self._from_file(run_id) if self._usable else None
            if batch is not None:
                return batch
            self.use = replace(self.use, fetched=self.use.fetched + 1)
            rows = fetch()
            self.publish(run_id, rows)
            mapped = self._from_file(run_id) if self._usable else None
            return rows if mapped is None else mapped

    def publish(self, run_id: str, rows: pa.RecordBatch) -> None:
        """Write the file of a run; where the disk does not let us, leave it."""
        with self._lock:
            self._forget(run_id)
            if not self._usable:
                self.use = replace(self.use, failed_writes=self.use.failed_writes + 1)
                return
            try:
                # A file that we wrote ourselves needs no check.
                self._checked[run_id] = identity = self._write(run_id, rows)
                self._written += identity[1]
                # looking through the folder each time would cost more than writing
                if self._written > self._max_bytes // 16:
                    self.sweep()
            except OSError as problem:
                self.use = replace(self.use, failed_writes=self.use.failed_writes + 1)
                self._say_once(problem)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Remove the files of runs that a committed batch has retired; a map that is in use stays valid."""
        with self._lock:
            for run_id in run_ids:
                self._forget(run_id)
                with contextlib.suppress(OSError):
                    os.unlink(self._path(run_id))

    def let_go(self) -> None:
        """Forget the runs with removed files, by whatever process: their bytes lie on the disk as long as a map."""
        with self._lock:
            for run_id in {*self._mapped, *self._checked}:
                try:
                    identity: Identity | None = identity_of(os.stat(self._path(run_id)))
                except OSError:
                    identity = None
                if self._checked.get(run_id, identity) != identity:
                    del self._checked[run_id]
                if run_id in self._mapped and self._mapped[run_id][0] != identity:
                    self._unmap(run_id)

    def check_next(self) -> float:
        """Compare one of the mapped files with its checksum, all of them in turn; the seconds that it took.

        One that differs is removed, and the next run that is opened raises `CorruptData`.
        """
        with self._lock:
            if not self._checking:
                self._checking = list(self._mapped)
            run_id = self._checking.pop() if self._checking else None
            entry = None if run_id is None else self._mapped.get(run_id)
        start = time.thread_time()
        if run_id is not None and entry is not None and not keeps_its_sum(self._path(run_id), entry[0]):
            with self._lock:
                self._forget(run_id)
                self._reject(self._path(run_id))
                self._altered = self._path(run_id)
        return time.thread_time() - start

    def watch(self) -> None:
        """Check the mapped files from now on in the background, for as long as the cache lives."""
        in_background(self)

    def _raise_altered(self) -> None:
        path, self._altered = self._altered, None
        if path is not None:
            raise CorruptData(
                "A file of the cache has changed while it was in use. Its disk may fail.",
                given=path,
                hint="The file is removed, and the next start fetches its rows anew. Results of the last batches may "
                "be wrong: where that counts, restore a copy of the checkpoint from before, and check the disk, or "
                "name a folder on another one: start(..., local_cache=...).",
            )

    @property
    def known(self) -> set[str]:
        return {*self._mapped, *self._checked}

    @property
    def mapped_bytes(self) -> int:
        return self._mapped_bytes

    def sweep(self, moment: float | None = None) -> int:
        """Remove what no process has opened for `max_age` seconds, then what was opened longest ago beyond `max_bytes`.

        Returns
        -------
        int : bytes that the files have which stay.
        """
        cutoff = (time.time() if moment is None else moment) - self._max_age
        self._written = 0
        size = 0
        # from the one that was opened last on
        for stat, path in sorted(self._files(), key=lambda entry: entry[0].st_atime_ns, reverse=True):
            size += stat.st_size
            if stat.st_atime < cutoff or size > (self._max_bytes or size):
                size -= stat.st_size
                with contextlib.suppress(OSError):
                    path.unlink()
        return size

    def _files(self) -> list[tuple[os.stat_result, Path]]:
        files = []
        for path in self.root.iterdir():
            with contextlib.suppress(OSError):
                stat = path.lstat()
                if path.suffix in (".run", ".tmp") and modes.S_ISREG(stat.st_mode):
                    files.append((stat, path))
        return files

    def _say_once(self, problem: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._say(
                f"The cache of state on this machine cannot be used: {problem}\n"
                "What a batch looks up is fetched from the state store each time.\n"
                "Hint: name a folder of this user alone with room in it: start(..., local_cache=...)."
            )

    def _path(self, run_id: str) -> str:
        # asked for each run of each batch: pathlib would take as long as the system does
        return f"{self._folder}{run_id}.run"

    def _forget(self, run_id: str) -> None:
        self._unmap(run_id)
        self._checked.pop(run_id, None)

    def _unmap(self, run_id: str) -> None:
        if run_id in self._mapped:
            self._mapped_bytes -= self._mapped.pop(run_id)[0][1]

    def _from_file(self, run_id: str) -> pa.RecordBatch | None:
        """The mapped rows of a run, None where there is no file or not the right one."""
        try:
            stat = os.stat(self._path(run_id))
        except OSError:
            self._forget(run_id)
            return None
        identity = identity_of(stat)
        entry = self._mapped.get(run_id)
        if entry is not None and entry[0] == identity:
            self._mapped.move_to_end(run_id)
            self.use = replace(self.use, hits=self.use.hits + 1)
            return entry[1]
        self._unmap(run_id)
        batch = self._map(run_id, stat, identity)
        if batch is not None:
            self._mapped[run_id] = (identity, batch)
            self._mapped_bytes += identity[1]
            while len(self._mapped) > self._limit or self._mapped_bytes > self._max_bytes:  # a few at most
                self._unmap(next(iter(self._mapped)))
        return batch

    def _map(self, run_id: str, stat: os.stat_result, identity: Identity) -> pa.RecordBatch | None:
        path = self._path(run_id)
        try:
            with pa.memory_map(path) as file:
                content = file.read_buffer()
            if not self._is_right(run_id, content, identity):
                self._reject(path)
                return None
            with pa.ipc.open_stream(content[HEADER.size :]) as reader:
                batch = reader.read_next_batch()
        except (OSError, ValueError, pa.ArrowException, StopIteration):
            self._reject(path)
            return None
        self._checked[run_id] = identity
        self._touch(path, stat)
        self.use = replace(self.use, opened=self.use.opened + 1)
        return batch

    def _is_right(self, run_id: str, content: pa.Buffer, identity: Identity) -> bool:
        if self._checked.get(run_id) == identity:
            return True
        if content.size < HEADER.size:
            return False
        magic, version, _, length, crc, name = HEADER.unpack_from(content)
        body = content[HEADER.size :]
        header = (magic, version, length, name.rstrip(b"\0"))
        return header == (_MAGIC, _VERSION, body.size, run_id.encode()) and zlib.crc32(body) == crc

    def _reject(self, path: str) -> None:
        self.use = replace(self.use, rejected=self.use.rejected + 1)
        with contextlib.suppress(OSError):
            os.unlink(path)

    def _touch(self, path: str, stat: os.stat_result) -> None:
        # The time of access says for the sweep that a run is in use; the time of modification must stay,
        # other processes know the file by it.
        moment = time.time()
        if moment - stat.st_atime > _HOUR:
            with contextlib.suppress(OSError):
                os.utime(path, ns=(int(moment * 1e9), stat.st_mtime_ns))

    def _write(self, run_id: str, rows: pa.RecordBatch) -> Identity:
        descriptor, beside = tempfile.mkstemp(dir=self.root, prefix=f"{run_id}.", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "r+b") as file:
                _fill(file, beside, run_id, rows)
                identity = identity_of(os.fstat(file.fileno()))
            os.replace(beside, self._path(run_id))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        return identity


def _fill(file: BinaryIO, path: str, run_id: str, rows: pa.RecordBatch) -> None:
    """Write a run's file, which is empty: from memory where it is small."""
    if rows.nbytes <= _SMALL:
        body = pa.BufferOutputStream()
        _stream(body, rows)
        content = body.getvalue()
        file.write(b"".join((_header(run_id, content), content)))
    else:
        # appended: a file that is truncated goes to the disk when it is closed, and who removes it waits for that
        with pa.OSFile(path, "ab") as sink:
            sink.write(bytes(HEADER.size))
            _stream(sink, rows)
        with pa.memory_map(path) as written:
            content = written.read_buffer()[HEADER.size :]
        file.write(_header(run_id, content))
    file.flush()


def _stream(sink: pa.NativeFile, rows: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITE) as writer:
        writer.write_batch(rows)


def _header(run_id: str, content: pa.Buffer) -> bytes:
    return HEADER.pack(_MAGIC, _VERSION, 0, content.size, zlib.crc32(content), run_id.encode())
