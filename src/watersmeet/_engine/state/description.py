"""The description of a run: the list of its chunks, which lies before the first of them.

The manifest knows a run by its id alone, which is the checksum of this list, and the list has the checksums of all
chunks: so every byte is still checked, and a manifest does not grow with what its runs hold. The list has no value of
its own in the store, since most runs have one chunk, and a value more is a call more.

>>> description = Description(7, 0, (Chunk(2, 4, checksum(b"rows")),))
>>> found, first = opened(run_id(description), before(description, b"rows"))
>>> found == description, bytes(first)
(True, b'rows')
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import pyarrow as pa

_HEADER = struct.Struct("<4sHHQII")
_CHUNK = struct.Struct("<QQ16s")
_MAGIC, _VERSION = b"MLPT", 1


def checksum(content: bytes | memoryview | pa.Buffer) -> str:
    """The checksum of chunks, descriptions and manifests: 128 bits of BLAKE2b, as text."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Chunk:
    """One stored value: how many rows and bytes it holds, and their checksum; no rows: it goes on with the last one."""

    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Description:
    """A run's chunks, and what tells it from another with the same rows.

    Parameters
    ----------
    commit, number : the commit that made the run, and how many runs it had made before.
    chunks : what is stored of the run, in order.
    """

    commit: int
    number: int
    chunks: tuple[Chunk, ...]


def run_id(description: Description) -> str:
    """The id of the run that is described so: no other run of any checkpoint has it."""
    return checksum(_packed(description))


def before(description: Description, chunk: bytes) -> bytes:
    """The first chunk as it is stored."""
    return b"".join((_packed(description), chunk))


def opened(run: str, content: bytes) -> tuple[Description, memoryview]:
    """The description of the run of this id, and the first chunk behind it.

    Raises
    ------
    ValueError : it is not this run's description.
    """
    if len(content) < _HEADER.size:
        raise ValueError(f"{len(content)} bytes are no description")
    magic, version, _, commit, number, count = _HEADER.unpack_from(content)
    end = _HEADER.size + count * _CHUNK.size
    described = memoryview(content)[:end]
    if (magic, version) != (_MAGIC, _VERSION) or len(described) < end or checksum(described) != run:
        raise ValueError("the description does not have its checksum")
    chunks = (Chunk(rows, size, digest.hex()) for rows, size, digest in _CHUNK.iter_unpack(described[_HEADER.size :]))
    return Description(commit, number, tuple(chunks)), memoryview(content)[end:]


def _packed(description: Description) -> bytes:
    chunks = description.chunks
    header = _HEADER.pack(_MAGIC, _VERSION, 0, description.commit, description.number, len(chunks))
    return header + b"".join(_CHUNK.pack(c.rows, c.bytes, bytes.fromhex(c.checksum)) for c in chunks)
