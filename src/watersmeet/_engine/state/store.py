"""Where the bytes of one shard's state lie: the contract of a chunk store, one in memory, one of files.

A store belongs to one (operator, shard). It holds one manifest and chunks under (run, chunk), and knows
nothing of what they mean (law 5: bulk verbs, plain bytes). It need not write through: what is put must be
there when the surrounding transaction commits and gone when it does not, as Spark's state store has it.

>>> store = MemoryChunkStore()
>>> store.put_chunk("run", 0, b"rows")
>>> before = store.snapshot()
>>> store.remove_chunk("run", 0)
>>> store.restore(before)
>>> store.get_chunk("run", 0)
b'rows'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol


class ChunkStore(Protocol):
    """The interface of state to its store."""

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        ...

    def put_manifest(self, manifest: bytes) -> None:
        """Replace the manifest."""
        ...

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        ...

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """Store one chunk of a run."""
        ...

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk of a run; no error if it is not there."""
        ...


@dataclass(frozen=True)
class Traffic:
    """The traffic of a store so far: calls and bytes, which is the cost of state on Spark."""

    reads: int = 0
    writes: int = 0
    removes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class StoreSnapshot:
    """The content of a store at one time; restoring it is what a crash before the commit looks like."""

    manifest: bytes | None
    chunks: Mapping[tuple[str, int], bytes]


@dataclass
class MemoryChunkStore:
    """A store in a dictionary, for the test driver and for tests.

    Attributes
    ----------
    chunks : what is stored, by (run, chunk).
    traffic : calls and bytes so far.
    """

    manifest: bytes | None = None
    chunks: dict[tuple[str, int], bytes] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        self._read(self.manifest or b"")
        return self.manifest

    def put_manifest(self, manifest: bytes) -> None:
        """Replace the manifest."""
        self._wrote(manifest)
        self.manifest = manifest

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        blob = self.chunks[run, chunk]
        self._read(blob)
        return blob

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """Store one chunk of a run."""
        self._wrote(blob)
        self.chunks[run, chunk] = blob

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk of a run; no error if it is not there."""
        self.traffic = replace(self.traffic, removes=self.traffic.removes + 1)
        self.chunks.pop((run, chunk), None)

    def snapshot(self) -> StoreSnapshot:
        """Remember the content as it is."""
        return StoreSnapshot(self.manifest, MappingProxyType(dict(self.chunks)))

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Go back to a remembered content; the traffic goes on counting."""
        self.manifest, self.chunks = snapshot.manifest, dict(snapshot.chunks)

    def _read(self, blob: bytes) -> None:
        was = self.traffic
        self.traffic = replace(was, reads=was.reads + 1, bytes_read=was.bytes_read + len(blob))

    def _wrote(self, blob: bytes) -> None:
        was = self.traffic
        self.traffic = replace(was, writes=was.writes + 1, bytes_written=was.bytes_written + len(blob))


@dataclass
class FolderChunkStore:
    """A store of files in a folder of its own: for state on its way into or out of a checkpoint.

    Attributes
    ----------
    folder : where chunks lie; it exists.
    manifest : what lists them, held in memory.
    """

    folder: Path
    manifest: bytes | None = None

    def get_manifest(self) -> bytes | None:
        """See `ChunkStore`."""
        return self.manifest

    def put_manifest(self, manifest: bytes) -> None:
        """See `ChunkStore`."""
        self.manifest = manifest

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """See `ChunkStore`."""
        try:
            return self._file(run, chunk).read_bytes()
        except FileNotFoundError:
            raise KeyError((run, chunk)) from None

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """See `ChunkStore`."""
        self._file(run, chunk).write_bytes(blob)

    def remove_chunk(self, run: str, chunk: int) -> None:
        """See `ChunkStore`."""
        self._file(run, chunk).unlink(missing_ok=True)

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """All chunks, one at a time: (run, chunk, content)."""
        for file in sorted(self.folder.glob("*-*")):
            run, _, chunk = file.name.rpartition("-")
            yield run, int(chunk), file.read_bytes()

    def _file(self, run: str, chunk: int) -> Path:
        return self.folder / f"{run}-{chunk}"
