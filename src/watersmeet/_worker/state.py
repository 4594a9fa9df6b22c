"""The chunk store over Spark's state: the manifest in a ValueState, chunks in a MapState.

State variables belong to the grouping key that Spark is handling, so one store object serves every shard
in its turn. Passes the same contract tests as the store in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

MANIFEST = "manifest"
CHUNKS = "chunks"
_CONTENT = StructType([StructField("content", BinaryType())])
_CHUNK = StructType([StructField("run", StringType()), StructField("chunk", IntegerType())])
VALUE = (MANIFEST, _CONTENT)
MAP = (CHUNKS, _CHUNK, _CONTENT)
"""The variables as they are declared: in each task of a level, and schemas in words the JVM would parse each time."""


class Calls(Protocol):
    """Calls to the state server, with answers that may come later (`state_calls`)."""

    def late(self, call: Callable[..., None], *given: Any) -> None:
        """Call what only writes."""
        ...

    def manifest(self, label: int, ask: Callable[[], bytes | None]) -> bytes | None:
        """The label's manifest, asked for now if it has not been."""
        ...


class SparkChunkStore:
    """A ChunkStore in the state store of a running query.

    Parameters
    ----------
    handle : what Spark gives `StatefulProcessor.init`.
    """

    def __init__(self, handle: Any) -> None:
        self._manifest = handle.getValueState(*VALUE)
        self._chunks = handle.getMapState(*MAP)
        self._label = 0
        self._calls: Calls | None = None

    def begin(self, label: int, calls: Calls | None) -> None:
        """Spark handles this label from now on; `calls` may know its manifest, and does not wait for writes."""
        self._label, self._calls = label, calls

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        return self._stored() if self._calls is None else self._calls.manifest(self._label, self._stored)

    def put_manifest(self, manifest: bytes) -> None:
        """Replace the manifest."""
        self._write(self._manifest.update, (manifest,))

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        row = self._chunks.getValue((run, chunk))
        if row is None:
            raise KeyError((run, chunk))
        return bytes(row[0])

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """Store one chunk of a run."""
        self._write(self._chunks.updateValue, (run, chunk), (blob,))

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk of a run."""
        self._write(self._chunks.removeKey, (run, chunk))

    def _stored(self) -> bytes | None:
        row = self._manifest.get()
        return None if row is None else bytes(row[0])

    def _write(self, call: Callable[..., None], *given: Any) -> None:
        if self._calls is None:
            call(*given)
        else:
            self._calls.late(call, *given)
