"""A machine's cache of runs: one memory-mapped file per run, shared by all worker processes.

The manifest is the truth, the cache never is: a file that is missing, altered or cut off is fetched again
from the state store, and every problem of the disk ends in rows held in memory, never in an error or another
result. Runs are immutable and their ids are unique over checkpoints, so a file is right or wrong for ever.

A file is a header of 64 bytes (magic, version, length and CRC of the rest, run id) and an uncompressed Arrow
stream. A process checks the CRC once and then knows the file by inode, size and modification time. Files are
written beside and renamed, so readers see a whole file or none, and two processes that write one run write
the same. Called by `rundata`; retired runs are removed by `runs`, one commit late.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

_HEADER = struct.Struct("<4sHHQQ40s")
_MAGIC, _VERSION = b"MLPR", 1
_WRITE = pa.ipc.IpcWriteOptions(use_threads=False)
_HOUR = 3600.0

Identity = tuple[int, int, int]
"""Inode, size and modification time: a file that keeps them is taken for unchanged."""


@dataclass(frozen=True)
class CacheUse:
    """What the cache did so far in this process."""

    hits: int = 0
    opened: int = 0
    fetched: int = 0
    rejected: int = 0
    failed_writes: int = 0


class RunCache:
    """Runs as memory-mapped files under one directory.

    Parameters
    ----------
    root : the directory; made with rights for its owner alone.
    open_runs : how many runs this process keeps mapped.
    max_age : seconds after which a file that no process opened is swept away; what crashes leave behind.
    """

    def __init__(self, root: str | os.PathLike[str], *, open_runs: int = 512, max_age: float = 7 * 86400) -> None:
        self.root = Path(root)
        self.use = CacheUse()
        self._limit = open_runs
        self._max_age = max_age
        self._mapped: OrderedDict[str, tuple[Identity, pa.RecordBatch]] = OrderedDict()
        self._checked: dict[str, Identity] = {}
        self._lock = threading.RLock()
        with contextlib.suppress(OSError):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root.chmod(0o700)
            self.sweep()

    def open(self, run_id: str, fetch: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """The rows of a run: mapped already, from its file, or fetched and then kept as a file."""
        with self._lock:
            batch = self._from_file(run_id)
            if batch is not None:
                return batch
            self.use = replace(self.use, fetched=self.use.fetched + 1)
            rows = fetch()
            self.publish(run_id, rows)
            mapped = self._from_file(run_id)
            return rows if mapped is None else mapped

    def publish(self, run_id: str, rows: pa.RecordBatch) -> None:
        """Write the file of a run; where the disk does not let us, leave it."""
        with self._lock:
            self._forget(run_id)
            try:
                # A file that we wrote ourselves needs no check.
                self._checked[run_id] = self._write(run_id, rows)
            except OSError:
                self.use = replace(self.use, failed_writes=self.use.failed_writes + 1)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Remove the files of runs that a committed batch has retired; a map that is in use stays valid."""
        with self._lock:
            for run_id in run_ids:  # one turn per run
                self._forget(run_id)
                with contextlib.suppress(OSError):
                    self._path(run_id).unlink()

    def sweep(self, now: float | None = None) -> int:
        """Remove files that no process has opened for `max_age` seconds, and say how many."""
        before = (time.time() if now is None else now) - self._max_age
        swept = 0
        for path in self.root.iterdir():  # one turn per file
            with contextlib.suppress(OSError):
                if path.suffix in (".run", ".tmp") and path.stat().st_atime < before:
                    path.unlink()
                    swept += 1
        return swept

    def _path(self, run_id: str) -> Path:
        return self.root / f"{run_id}.run"

    def _forget(self, run_id: str) -> None:
        self._mapped.pop(run_id, None)
        self._checked.pop(run_id, None)

    def _from_file(self, run_id: str) -> pa.RecordBatch | None:
        """The mapped rows of a run, None where there is no file or not the right one."""
        try:
            stat = os.stat(self._path(run_id))
        except OSError:
            self._forget(run_id)
            return None
        identity = _identity(stat)
        known = self._mapped.get(run_id)
        if known is not None and known[0] == identity:
            self._mapped.move_to_end(run_id)
            self.use = replace(self.use, hits=self.use.hits + 1)
            return known[1]
        self._mapped.pop(run_id, None)
        batch = self._map(run_id, stat, identity)
        if batch is not None:
            self._mapped[run_id] = (identity, batch)
            if len(self._mapped) > self._limit:
                self._mapped.popitem(last=False)
        return batch

    def _map(self, run_id: str, stat: os.stat_result, identity: Identity) -> pa.RecordBatch | None:
        path = self._path(run_id)
        try:
            with pa.memory_map(str(path)) as file:
                content = file.read_buffer()
            if not self._is_right(run_id, content, identity):
                self._reject(path)
                return None
            with pa.ipc.open_stream(content[_HEADER.size :]) as reader:
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
        if content.size < _HEADER.size:
            return False
        magic, version, _, length, crc, name = _HEADER.unpack_from(content)
        body = content[_HEADER.size :]
        said = (magic, version, length, name.rstrip(b"\0"))
        return said == (_MAGIC, _VERSION, body.size, run_id.encode()) and zlib.crc32(body) == crc

    def _reject(self, path: Path) -> None:
        self.use = replace(self.use, rejected=self.use.rejected + 1)
        with contextlib.suppress(OSError):
            path.unlink()

    def _touch(self, path: Path, stat: os.stat_result) -> None:
        # The time of access says for the sweep that a run is in use; the time of modification must stay,
        # other processes know the file by it.
        now = time.time()
        if now - stat.st_atime > _HOUR:
            with contextlib.suppress(OSError):
                os.utime(path, ns=(int(now * 1e9), stat.st_mtime_ns))

    def _write(self, run_id: str, rows: pa.RecordBatch) -> Identity:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_WRITE) as writer:
            writer.write_batch(rows)
        body = sink.getvalue()
        header = _HEADER.pack(_MAGIC, _VERSION, 0, body.size, zlib.crc32(body), run_id.encode())
        descriptor, beside = tempfile.mkstemp(dir=self.root, prefix=f"{run_id}.", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(header)
                file.write(body)
                file.flush()
                identity = _identity(os.fstat(file.fileno()))
            os.replace(beside, self._path(run_id))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        return identity


def _identity(stat: os.stat_result) -> Identity:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
