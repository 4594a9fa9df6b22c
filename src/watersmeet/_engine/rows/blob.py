"""Arrow tables as plain bytes: the one format of everything that crosses an exchange or enters state.

Law 5: no Python object is pickled; a blob is an Arrow IPC stream (lz4 buffers) behind a 16 byte header of
magic, format version and payload length. The length is there because an IPC stream cut between two messages
still reads without error: it would silently be a shorter table.

>>> import pyarrow as pa
>>> decode(encode(pa.table({"key": [1, 2]}))).num_rows
2
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from watersmeet._engine.rows.sizes import cut, row_bytes
from watersmeet.errors import CorruptData

MAGIC = b"MLPD"
VERSION = 1
PIECE_BYTES = 1 << 20
"""Rows of one blob at most, before compression: far below what the JVM's buffers and sockets suffer from."""
_HEADER = struct.Struct("<4sHHQ")
# One worker process per core does the work: Arrow's own threads would only contend with the others.
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def encode(table: pa.Table | pa.RecordBatch, *, compress: bool = True) -> bytes:
    """Write a table or batch as one blob; `compress=False` where the bytes stay on this machine."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_LZ4 if compress else _PLAIN) as writer:
        writer.write(table)
    body = sink.getvalue()
    return b"".join((_HEADER.pack(MAGIC, VERSION, 0, body.size), memoryview(body)))


def decode(blob: bytes | memoryview | pa.Buffer) -> pa.Table:
    """Read one blob back; uncompressed buffers are not copied, so the table keeps the blob alive.

    Every offset, length and text is checked: Arrow takes them as they are written, and its kernels read memory where
    they lead. For rows of five columns that takes 15 ns each, half of what reading the stream takes.

    Raises
    ------
    CorruptData : it is no blob, or not all of one, or its arrays contradict themselves.
    """
    buffer = blob if isinstance(blob, pa.Buffer) else pa.py_buffer(blob)
    _check_header(buffer)
    try:
        with pa.ipc.open_stream(buffer[_HEADER.size :], options=_READ) as reader:
            table = reader.read_all()
        table.validate(full=True)
        # a name that is no text is found out where it is read
        _ = table.column_names
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptData(
            "the Arrow stream inside a blob cannot be read",
            given=f"{buffer.size} bytes: {error}",
            hint="the stored or sent bytes were altered; restore the checkpoint from a copy",
        ) from error


def check_names(schema: pa.Schema) -> None:
    """Raise where a name in a schema is no text, which else is found out where it is read.

    Raises
    ------
    UnicodeDecodeError : one is not.
    """
    fields = list(schema)
    while fields:
        field = fields.pop()
        kind = field.type
        # read for what that raises
        _ = field.name, getattr(kind, "tz", None)
        fields += [kind.field(at) for at in range(kind.num_fields)]


def _check_header(buffer: pa.Buffer) -> None:
    if buffer.size < _HEADER.size:
        raise CorruptData(
            "a blob is shorter than its header",
            given=f"{buffer.size} bytes",
            hint="the stored or sent bytes were cut off",
        )
    magic, version, _, length = _HEADER.unpack_from(buffer, 0)
    if magic != MAGIC:
        raise CorruptData(
            "these bytes are not a watersmeet blob",
            given=f"first bytes {magic!r}, expected {MAGIC!r}",
            hint="they were written by something else or altered",
        )
    if version != VERSION:
        raise CorruptData(
            "a blob has an unknown format version",
            given=f"version {version}, this watersmeet reads {VERSION}",
            hint="it was written by another version of watersmeet: use that version to read it",
        )
    if length != buffer.size - _HEADER.size:
        raise CorruptData(
            "a blob does not have the length it was written with",
            given=f"{buffer.size - _HEADER.size} bytes after the header, expected {length}",
            hint="the stored or sent bytes were cut off or glued together",
        )


def pieces(rows: pa.Table, limit: int = PIECE_BYTES) -> Iterator[pa.Table]:
    """The rows in slices of about `limit` bytes at most, at least one row each, for blobs of bounded size."""
    given = rows.nbytes
    if given <= limit:
        # most blobs are small, and to ask a slice for its bytes takes as long as to write it
        if len(rows):
            yield rows
        return
    count = max(1, -(-given // limit))
    size = max(1, -(-len(rows) // count))
    for start in range(0, len(rows), size):
        piece = rows.slice(start, size)
        # rows of very different sizes are cut by what each has
        spans = [(0, len(piece))] if piece.nbytes <= 2 * limit else cut(row_bytes(piece), limit)
        for begin, end in spans:
            yield piece.slice(begin, end - begin)
