"""A level's rows straight from Arrow, without a frame of pandas for each label (law 8: faster, nothing else).

Spark's worker makes objects of all rows, groups them, makes frames of each group, and Arrow of what each gives: about a
millisecond for each label, however few rows it has. Here the rows of a batch stay in Arrow, and results of many labels
go out in one batch. It takes Spark's function apart for that; where that looks otherwise than it does in PySpark 4.3,
or a processor is not a level, Spark's own function runs. `_spark/worker_daemon.py` puts it in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from watersmeet._worker.pack import wire_together
from watersmeet._worker.wire import WireRow

# Calls to Spark's state server: answers are read later, manifests of many labels come at once (law 8: faster alone).
#
# Spark's client waits for the answer of each call, some tenths of a millisecond, and a shard with a few rows makes ten
# of them. The server handles one call after the other and answers in this order. So calls that answer nothing but that
# they have succeeded are read before the next answer that counts, and the calls for many manifests are sent together.
# An error is raised later than by Spark's client, but in the same task: its end waits for all answers. Where the client
# looks otherwise than in PySpark 4.3, its own ways are taken.

T = TypeVar("T")
AHEAD = 32
"""Manifests that are asked for together."""
MOST = 96
"""Answers that may be outstanding: they must fit into a socket, else both ends would wait for each other."""
_STATE_CALLS_NEEDED = ("set_implicit_key", "_send_proto_message", "_receive_proto_message", "_deserialize_from_bytes")
_RECEIVE = "_receive_"


class StateCalls:
    """The calls of one task.

    Parameters
    ----------
    client : Spark's; its ways to receive are replaced.
    keeps : whether a label has state that its operator reads.
    """

    def __init__(self, client: Any, keeps: Callable[[int], bool]) -> None:
        self._client = client
        self._keeps = keeps
        self._deferring = False
        self._outstanding: deque[Callable[[bytes], None] | None] = deque()
        self._coming: deque[int] = deque()
        self._manifests: dict[int, bytes | None] = {}
        self._recording, self._get = False, b""
        self._receive, self._send = client._receive_proto_message, client._send_proto_message
        for name in [member for member in dir(client) if member.startswith(_RECEIVE)]:
            setattr(client, name, partial(self._received, getattr(client, name)))
        client._receive_proto_message, client._send_proto_message = self._received_or_late, self._sent

    @classmethod
    def of(cls, client: Any, keeps: Callable[[int], bool]) -> StateCalls | None:
        """The calls of a client; None: it is not as it was known."""
        return cls(client, keeps) if all(hasattr(client, name) for name in _STATE_CALLS_NEEDED) else None

    def late(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call what only writes, and leave its answers for later."""
        self._deferring = True
        try:
            return call(*arguments)
        finally:
            self._deferring = False

    def read_answers(self) -> None:
        """Read all answers that are outstanding."""
        while self._outstanding:
            answered = self._outstanding.popleft()
            status, error, value = self._receive()
            if status != 0:
                raise PySparkRuntimeError(f"Error in a call to the state server: {error}")
            if answered is not None:
                answered(value)

    def coming(self, labels: Iterable[int]) -> None:
        self._coming.extend(labels)

    def fetch_ahead(self, label: int) -> None:
        """A label's turn comes: ask for its manifest, and for those of labels behind it, where they are not known."""
        # how Spark asks for one is known when it has asked for the first
        if label in self._manifests or not self._get or not self._keeps(label):
            return
        # a label whose rows lie in two batches is named by both, and is done by now
        while self._coming and self._coming.popleft() != label:
            pass
        self._ask(label)
        for _ in range(min(AHEAD - 1, len(self._coming))):
            following = self._coming.popleft()
            if self._keeps(following):
                self._ask(following)
        self.read_answers()

    def manifest(self, label: int, ask: Callable[[], bytes | None]) -> bytes | None:
        """The label's manifest, asked for now if it has not been."""
        if label in self._manifests:
            return self._manifests.pop(label)
        self._recording = True
        try:
            return ask()
        finally:
            self._recording = False

    def _ask(self, label: int) -> None:
        def answered(value: bytes) -> None:
            row = self._client._deserialize_from_bytes(value) if len(value) else None
            self._manifests[label] = None if row is None else bytes(row[0])

        self.late(self._client.set_implicit_key, (label,))
        self._send(self._get)
        self._outstanding.append(answered)

    def _sent(self, message: bytes) -> None:
        if self._recording:
            self._get = message
        self._send(message)

    def _received_or_late(self) -> Any:
        if not self._deferring:
            return self._received(self._receive)
        self._outstanding.append(None)
        if len(self._outstanding) >= MOST:
            self.read_answers()
        return 0, "", b""

    def _received(self, receive: Callable[[], Any]) -> Any:
        self.read_answers()
        return receive()


TAKES_WIRE = "takes_wire"
"""Attribute of a processor that a `Wire` may be given to."""
KEEPS_STATE = "keeps_state"
"""Its method that says of a label whether its operator has state here."""
_NAME = "transform_with_state_func"
_STRAIGHT_NEEDED = ("udf", "stateful_processor_api_client", "key_offsets", "value_offsets", "output_schema")

Function = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Wire:
    """Port and blob of each row of one label, in place of frames: its reader returns `WireRow`s.

    Parameters
    ----------
    rows : the pairs.
    calls : to the state server, with answers that are read later; None: Spark's own.
    """

    def __init__(self, rows: Iterator[tuple[int, bytes]], calls: StateCalls | None = None) -> None:
        self._rows = rows
        self.calls = calls

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self._rows


def straight(function: Any) -> Any:
    """Spark's function for the rows of a task, or ours in its place where it runs a level.

    Parameters
    ----------
    function : the first of what `pyspark.worker.read_udfs` gives.
    """
    if getattr(function, "__name__", "") != _NAME or function.__closure__ is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    if not set(_STRAIGHT_NEEDED) <= set(cells):
        return function
    udf, client, keys, values, schema = (cells[name].cell_contents for name in _STRAIGHT_NEEDED)
    processor = _processor(udf)
    if not getattr(processor, TAKES_WIRE, False) or len(keys) != 1 or len(schema.fields) != 1:
        return function
    modes = function.__globals__.get("TransformWithStateInPandasFuncMode")
    if modes is None:
        return function
    calls = StateCalls.of(client, getattr(processor, KEEPS_STATE, _none))
    return _function(_ProcessorCall(udf, client, calls, modes), keys[0], values, schema.fields[0].name)


def _processor(udf: Any) -> Any:
    """The processor that Spark's function calls, as far down as it is wrapped; None: it is not found."""
    while udf is not None and not hasattr(udf, "__self__"):
        names = getattr(getattr(udf, "__code__", None), "co_freevars", ())
        udf = udf.__closure__[names.index("f")].cell_contents if "f" in names else None
    return getattr(getattr(udf, "__self__", None), "_stateful_processor", None)


def _none(label: int) -> bool:
    return False


@dataclass(frozen=True)
class _ProcessorCall:
    """Spark's call of a processor."""

    udf: Any
    client: Any
    calls: StateCalls | None
    modes: Any

    def rows(self, label: int, rows: Iterator[tuple[int, bytes]]) -> Iterator[WireRow]:
        """The results of a label's rows."""
        arguments = (self.client, self.modes.PROCESS_DATA, (label,), Wire(rows, self.calls))
        if self.calls is None:
            return iter(self.udf(*arguments))
        self.calls.fetch_ahead(label)
        return iter(self.calls.late(self.udf, *arguments))

    def end(self) -> None:
        for mode in (self.modes.PROCESS_TIMER, self.modes.COMPLETE):
            for _ in self.udf(self.client, mode, None, iter([])):
                raise AssertionError("a level gives nothing behind its rows")


def _function(call: _ProcessorCall, key: int, values: Sequence[int], name: str) -> Function:
    def run(split_index: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labelled = groupby(_labelled(batches, key, values, call.calls), key=itemgetter(0))
        results = (call.rows(label, chain.from_iterable(map(itemgetter(1), parts))) for label, parts in labelled)
        rows: Iterator[WireRow] = chain.from_iterable(results)
        for batch in wire_together(rows):
            struct = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            yield pa.RecordBatch.from_arrays([struct], names=[name])
        call.end()

    return run


def _labelled(
    batches: Iterator[pa.RecordBatch], key: int, values: Sequence[int], calls: StateCalls | None
) -> Iterator[tuple[int, Iterator[tuple[int, bytes]]]]:
    """(label, port and blob of rows), part by part: all parts of a label stand behind one another."""
    for batch in batches:
        if not batch.num_rows:
            continue
        labels = batch.column(key).to_numpy()
        columns = {batch.schema.names[at]: batch.column(at) for at in values}
        ports, blobs = columns["port"].to_pylist(), columns["blob"].to_pylist()
        starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1)).tolist()
        if calls is not None:
            calls.coming(labels[starts].tolist())
        for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
            yield int(labels[start]), zip(ports[start:end], blobs[start:end], strict=True)


# The chunk store over Spark's state: the manifest in a ValueState, chunks in a MapState.
#
# State variables belong to the grouping key that Spark is handling, so one store object serves every shard
# in its turn. Passes the same contract tests as the store in memory.

MANIFEST = "manifest"
CHUNKS = "chunks"
_CONTENT = StructType([StructField("content", BinaryType())])
_CHUNK = StructType([StructField("run", StringType()), StructField("chunk", IntegerType())])
VALUE = (MANIFEST, _CONTENT)
MAP = (CHUNKS, _CHUNK, _CONTENT)
"""The variables as they are declared: in each task of a level, and schemas in words the JVM would parse each time."""


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
        self._calls: StateCalls | None = None

    def begin(self, label: int, calls: StateCalls | None) -> None:
        """Spark handles this label from now on; `calls` may know its manifest, and does not wait for writes."""
        self._label, self._calls = label, calls

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        return self._read_manifest() if self._calls is None else self._calls.manifest(self._label, self._read_manifest)

    def put_manifest(self, manifest: bytes) -> None:
        self._write(self._manifest.update, (manifest,))

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        row = self._chunks.getValue((run, chunk))
        if row is None:
            raise KeyError((run, chunk))
        return bytes(row[0])

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        self._write(self._chunks.updateValue, (run, chunk), (blob,))

    def remove_chunk(self, run: str, chunk: int) -> None:
        self._write(self._chunks.removeKey, (run, chunk))

    def _read_manifest(self) -> bytes | None:
        row = self._manifest.get()
        return None if row is None else bytes(row[0])

    def _write(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._calls is None:
            call(*arguments)
        else:
            self._calls.late(call, *arguments)
