"""The manifest of one shard's state: which runs there are, how they lie upon each other, and a few scalars.

The manifest is the truth: what it does not list does not exist, and every byte it lists is checked against
its checksum, so state is either what was written or an error (never a silently different result). Of a run it has the
id, from which all checksums follow (`description`), and the range of hashes: it has some bytes for a megabyte of state.

A table is a list of **levels**, newest first. A settled level is one **layer**: pieces of runs in ascending, disjoint
ranges of hash (a hot hash may go on in the next piece). A level that is being merged has several layers, newest first,
and `done`, the layer of what is merged already. Merging goes up the hashes: rows that were merged are cut off from the
front of the layers (`Piece.start`), so a hash lies in `done` or in the layers, never in both, and a reader can take all
layers of all levels in order without knowing of merges.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine import rows as types
from watersmeet._engine.row_sizes import check_names
from watersmeet._engine.rows import Int64s, bools
from watersmeet._plan.declaration import BYTES, FLAG, HEADERS, NUMBER, Retention, TableSchema
from watersmeet.errors import CorruptData

# The description of a run: the list of its chunks, which lies before the first of them.
#
# The manifest knows a run by its id alone, which is the checksum of this list, and the list has the checksums of all
# chunks: so every byte is still checked, and a manifest does not grow with what its runs hold. The list has no value of
# its own in the store, since most runs have one chunk, and a value more is a call more.
#
# >>> description = Description(7, 0, (Chunk(2, 4, checksum(b"rows")),))
# >>> found, first = opened(run_id(description), with_description(description, b"rows"))
# >>> found == description, bytes(first)
# (True, b'rows')

_DESCRIPTION_HEADER = struct.Struct("<4sHHQII")
_CHUNK = struct.Struct("<QQ16s")
_MAGIC, _VERSION = b"WMRD", 1


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
    """A run's chunks, and what tells it from another with the same rows."""

    # commit, number: the commit that made the run, and how many runs it had made before
    commit: int
    number: int
    chunks: tuple[Chunk, ...]  # what is stored of the run, in order


def run_id(description: Description) -> str:
    """The id of the run that is described so: no other run of any checkpoint has it."""
    return checksum(_packed(description))


def with_description(description: Description, chunk: bytes) -> bytes:
    """The first chunk as it is stored."""
    return b"".join((_packed(description), chunk))


def opened(run: str, content: bytes) -> tuple[Description, memoryview]:
    """The description of the run of this id, and the first chunk behind it."""
    if len(content) < _DESCRIPTION_HEADER.size:
        raise ValueError(f"{len(content)} bytes are no description")
    magic, version, _, commit, number, count = _DESCRIPTION_HEADER.unpack_from(content)
    end = _DESCRIPTION_HEADER.size + count * _CHUNK.size
    described = memoryview(content)[:end]
    if (magic, version) != (_MAGIC, _VERSION) or len(described) < end or checksum(described) != run:
        raise ValueError("the description does not have its checksum")
    chunks = (
        Chunk(rows, size, digest.hex())
        for rows, size, digest in _CHUNK.iter_unpack(described[_DESCRIPTION_HEADER.size :])
    )
    return Description(commit, number, tuple(chunks)), memoryview(content)[end:]


def _packed(description: Description) -> bytes:
    chunks = description.chunks
    header = _DESCRIPTION_HEADER.pack(_MAGIC, _VERSION, 0, description.commit, description.number, len(chunks))
    return header + b"".join(_CHUNK.pack(c.rows, c.bytes, bytes.fromhex(c.checksum)) for c in chunks)


MAGIC = b"WMMF"
VERSION = 1
_MANIFEST_HEADER = struct.Struct("<4sHH16s")
_LEAST, _MOST = -(2**63), 2**63 - 1
_SCALAR_LEVELS = 2
_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Run:
    """An immutable sorted stretch of rows."""

    id: str  # unique over all checkpoints: the checksum of its description
    # rows, size: its rows, and their bytes when not compressed
    rows: int
    size: int
    # low, high: its smallest and largest hash
    low: int
    high: int
    tombstones: int = 0  # how many of its rows are
    chunks: int = 0  # how many values it has in the store
    time: tuple[int, int] | None = None  # smallest and largest value of the layout's time column, where it has one
    # (domain, largest time in it) of each time domain, where rows are let go and the domains are few
    latest: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Piece:
    """The live rest of a run: its rows from `start` on, with hashes of `low` or more."""

    run: Run
    start: int
    low: int

    @property
    def rows(self) -> int:
        return self.run.rows - self.start

    @property
    def size(self) -> int:
        """About how many bytes they have."""
        return self.run.size * self.rows // max(self.run.rows, 1)

    @property
    def tombstones(self) -> int:
        """About how many of them are tombstones."""
        return self.run.tombstones * self.rows // max(self.run.rows, 1)


Layer = tuple[Piece, ...]


def piece_of(run: Run) -> Piece:
    return Piece(run, 0, run.low)


@dataclass(frozen=True)
class RunLayer:
    """One layer, or several that are being merged into `done`; `credit` is the work, in bytes, saved up."""

    layers: tuple[Layer, ...]
    done: Layer = ()
    credit: int = 0

    @property
    def merging(self) -> bool:
        return len(self.layers) > 1 or bool(self.done)

    @property
    def rows(self) -> int:
        """How many rows it has, versions and tombstones included."""
        return sum(piece.rows for piece in self.pieces())

    @property
    def size(self) -> int:
        """About how many bytes its rows have."""
        return sum(piece.size for piece in self.pieces())

    @property
    def remaining(self) -> int:
        """About how many bytes are not merged yet."""
        return sum(piece.size for layer in self.layers for piece in layer)

    @property
    def tombstones(self) -> int:
        """About how many of its rows are tombstones."""
        return sum(piece.tombstones for piece in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        for layer in (*self.layers, self.done):
            yield from layer


def layers_of(levels: Iterable[RunLayer]) -> list[Layer]:
    """All layers of some levels, newest first."""
    return [layer for level in levels for layer in (*level.layers, level.done) if layer]


@dataclass(frozen=True)
class TableEntry:
    """A table in the manifest: its stored Arrow schema, and its levels, newest first."""

    schema: pa.Schema
    levels: tuple[RunLayer, ...] = ()

    def layers(self) -> list[Layer]:
        """All layers, newest first: the order in which a key is looked for."""
        return layers_of(self.levels)

    def runs(self) -> Iterator[Run]:
        for level in self.levels:
            for piece in level.pieces():
                yield piece.run


@dataclass(frozen=True)
class Manifest:
    """All of a shard's state but the rows themselves."""

    commit: int = 0  # number of the commit that wrote it
    tables: Mapping[str, TableEntry] = field(default_factory=dict)  # by name
    scalars: Mapping[str, Any] = field(default_factory=dict)  # small JSON values by name
    # runs this commit has retired: their cached files may go once it is known to have succeeded
    retired: tuple[str, ...] = ()


def write(manifest: Manifest) -> bytes:
    """The manifest as bytes: header with checksum, then JSON."""
    content = {
        "commit": manifest.commit,
        "tables": {name: _table_out(entry) for name, entry in manifest.tables.items()},
        "scalars": dict(manifest.scalars),
        "retired": manifest.retired,
    }
    body = json.dumps(content, separators=(",", ":")).encode()
    return _MANIFEST_HEADER.pack(MAGIC, VERSION, 0, bytes.fromhex(checksum(body))) + body


def read(content: bytes) -> Manifest:
    """Read a manifest back, or say what is wrong with it."""
    if len(content) < _MANIFEST_HEADER.size or content[:4] != MAGIC:
        raise CorruptData(
            "the manifest of a shard's state is not one",
            given=f"{len(content)} bytes starting with {content[:4]!r}",
            hint="the state was altered or cut off; restart from a copy of the checkpoint",
        )
    _, version, _, digest = _MANIFEST_HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptData(
            "the state was written in an unknown format",
            given=f"format {version}, this watersmeet reads {VERSION}",
            hint="use the version of watersmeet that wrote the checkpoint, or start a new one",
        )
    body = content[_MANIFEST_HEADER.size :]
    if bytes.fromhex(checksum(body)) != digest:
        raise CorruptData(
            "the manifest of a shard's state does not have its checksum",
            given=f"{len(content)} bytes",
            hint="the state was altered or cut off; restart from a copy of the checkpoint",
        )
    try:
        return _manifest_in(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError, pa.ArrowException) as error:
        raise CorruptData(
            "the manifest of a shard's state contradicts itself, though it has its checksum",
            given=f"{type(error).__name__}: {error}"[:200],
            hint="the state was written by something else; restart from a copy of the checkpoint",
        ) from error


def _table_out(entry: TableEntry) -> dict[str, Any]:
    schema = base64.b64encode(entry.schema.serialize().to_pybytes()).decode()
    levels = [[[_layer_out(x) for x in y.layers], _layer_out(y.done), y.credit] for y in entry.levels]
    return {"schema": schema, "levels": levels}


def _layer_out(layer: Layer) -> list[Any]:
    # Lists without names: a large state has some hundred pieces, and every batch writes them all.
    return [[piece.start, piece.low, _run_out(piece.run)] for piece in layer]


def _run_out(run: Run) -> list[Any]:
    return [run.id, run.rows, run.size, run.low, run.high, run.tombstones, run.chunks, run.time, run.latest]


# -- what somebody else may have written: every number is looked at, since merges and lookups go by them ----


def _manifest_in(data: Any) -> Manifest:
    tables = {name: _table_in(entry) for name, entry in data["tables"].items()}
    scalars = {name: _scalar(value, _SCALAR_LEVELS) for name, value in data["scalars"].items()}
    return Manifest(_number(data["commit"]), tables, scalars, tuple(map(_id, data["retired"])))


def _scalar(value: Any, levels: int) -> Any:
    """Whole numbers of 64 bits, alone, in lists or by the number of a time domain."""
    if isinstance(value, dict) and levels:
        return {str(_number(int(name), _LEAST)): _scalar(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list) and levels:
        return [_scalar(item, levels - 1) for item in value]
    return _number(value, _LEAST)


def _table_in(data: dict[str, Any]) -> TableEntry:
    return TableEntry(_schema_in(data["schema"]), tuple(map(_level_in, data["levels"])))


@lru_cache(256)
def _schema_in(content: str) -> pa.Schema:
    # all shards of a table have the same one
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content)))
    check_names(schema)
    return schema


def _level_in(data: list[Any]) -> RunLayer:
    layers, done, credit = data
    level = RunLayer(tuple(map(_layer_in, layers)), _layer_in(done), _number(credit))
    if not level.layers or not any(level.pieces()):
        raise ValueError("a level without rows")
    return level


def _layer_in(data: list[Any]) -> Layer:
    return tuple(_piece_in(run, start, low) for start, low, run in data)


def _piece_in(run: list[Any], start: Any, low: Any) -> Piece:
    piece = Piece(_run_in(run), _number(start), _number(low, _LEAST))
    if piece.start >= piece.run.rows or not piece.run.low <= piece.low <= piece.run.high:
        raise ValueError(f"run {piece.run.id}: from row {start} and hash {low} on")
    return piece


def _run_in(data: list[Any]) -> Run:
    run_id, rows, size, low, high, tombstones, chunks, time, latest = data
    span = None if time is None else (_number(time[0], _LEAST), _number(time[1], _LEAST))
    domains = tuple((_number(domain, _LEAST), _number(at, _LEAST)) for domain, at in latest)
    sizes = (_number(rows), _number(size), _number(low, _LEAST), _number(high, _LEAST))
    run = Run(_id(run_id), *sizes, _number(tombstones), _number(chunks), span, domains)
    if not run.rows or not run.chunks or run.low > run.high or run.tombstones > run.rows:
        raise ValueError(f"run {run.id}: {run.rows} rows, {run.chunks} chunks, hashes {run.low} to {run.high}")
    return run


def _id(value: Any) -> str:
    # it becomes the name of a file
    if not isinstance(value, str) or not _RUN_ID.fullmatch(value):
        raise ValueError(f"{value!r:.50} names no run")
    return value


def _number(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= _MOST:
        raise ValueError(f"{value!r:.50} where a number from {least} on was written")
    return value


# How the rows of a table lie in its runs: the stored columns, and which of them name, sort and expire a row.

TOMBSTONE = "__tombstone"
DUE = "__due"
"""The column, of runs alone, with the places of the rows that are found by time, in order of time; then -1."""
PLACES = b"table"
"""Where a stored schema says how rows are told apart, sorted and let go."""
_TYPES = {FLAG: pa.bool_(), NUMBER: pa.int64(), BYTES: pa.large_binary(), HEADERS: types.HEADERS}


@dataclass(frozen=True)
class TableLayout:
    """How the rows of a table are told apart and sorted."""

    schema: pa.Schema  # stored columns, `hash` and the tombstone flag included
    identity: tuple[str, ...] = ("key",)  # columns that name a row, `key` first; none where rows are only appended
    order: tuple[str, ...] = ()  # columns of numbers that rows of one hash are sorted by
    # time, domain: columns by which rows are let go; without `retained` the time says only what runs are read
    time: str | None = None
    domain: str | None = None
    retained: bool = False  # whether rows are let go by time
    due: tuple[str, ...] | None = None  # flags of the rows that are found by time, as in `TableSchema`
    ends: str | None = None  # of versions of a key, the flag of those that delete it, as in `Retention`

    @classmethod
    def of(cls, table: TableSchema) -> TableLayout:
        """The layout of a declared table."""
        columns = [(name, arrow_type(kind)) for name, kind in table.columns]
        schema = pa.schema([("hash", pa.int64()), *columns, (TOMBSTONE, pa.bool_())]).remove_metadata()
        retention = table.retention
        if retention is None:
            return cls(schema, table.identity, table.order, next(iter(table.order), None))
        return cls(
            schema,
            table.identity,
            table.order,
            retention.time,
            retention.domain,
            retained=True,
            due=table.due,
            ends=retention.ends,
        )

    @property
    def stored(self) -> pa.Schema:
        """The layout of the table in the manifest: the columns, and how rows are told apart, sorted and let go."""
        retention = (self.time, self.domain) if self.retained else None
        metadata: dict[str, Any] = {
            "identity": self.identity,
            "order": self.order,
            "retention": retention,
            "due": self.due,
        }
        if self.ends is not None:
            metadata |= {"ends": self.ends}
        return self.schema.with_metadata({PLACES: json.dumps(metadata)})

    @cached_property
    def in_runs(self) -> pa.Schema:
        return self.schema if self.due is None else self.schema.append(pa.field(DUE, pa.int32()))

    @property
    def appended(self) -> bool:
        return not self.identity

    @property
    def has_one_row_a_key(self) -> bool:
        """Whether there is one row of a key, and none is let go by time."""
        return self.identity == ("key",) and not self.retained

    @property
    def named(self) -> frozenset[str]:
        return frozenset({"hash", *self.identity, *self.order, *filter(None, (self.time, self.domain))})


def arrow_type(kind: Any) -> pa.DataType:
    return _TYPES[kind] if isinstance(kind, str) else kind


def with_due(rows: pa.RecordBatch, layout: TableLayout) -> pa.RecordBatch:
    """The rows of a run with the column `DUE`, where the table has one.

    Of rows that can be replaced all are in it: a newer version hides an older one, whatever its flags are.
    """
    if layout.due is None:
        return rows
    if layout.appended and layout.due:
        places = np.flatnonzero(np.logical_or.reduce([bools(rows, flag) for flag in layout.due]))
    else:
        places = np.arange(len(rows), dtype=np.int64)
    time = rows.column(layout.time).to_numpy(zero_copy_only=False)
    column = np.full(len(rows), -1, dtype=np.int32)
    column[: len(places)] = places[np.argsort(time[places], kind="stable")]
    return rows.append_column(DUE, pa.array(column))


def contradiction(rows: pa.RecordBatch, layout: TableLayout) -> str | None:
    """The fault of a run's rows, if they break an assumption of lookups and merges; None: no fault."""
    numbers = ("hash", TOMBSTONE, *layout.order, *filter(None, (layout.time, layout.domain)))
    missing = [name for name in numbers if rows.column(name).null_count]
    if missing:
        return f"nulls in {', '.join(missing)}"
    by_hash = rows.column("hash").to_numpy(zero_copy_only=True)
    if np.any(by_hash[1:] < by_hash[:-1]):
        return "rows that are not in order of their hashes"
    if layout.due is None:
        return None
    places = rows.column(DUE)
    if places.null_count:
        return "nulls among the places by time"
    indices = places.to_numpy(zero_copy_only=True)
    if np.any((indices < -1) | (indices >= len(rows))):
        return "places by time that it has no rows for"
    return None


def due_between(rows: pa.RecordBatch, layout: TableLayout, low: int, high: int) -> Int64s:
    """Places of the rows of a run that are found by time, low <= time < high, in order of time.

    It touches these rows and as many more as a bisection does, not the run's.
    """
    places = rows.column(DUE).to_numpy(zero_copy_only=True)
    time = rows.column(layout.time).to_numpy(zero_copy_only=True)
    count = bisect_left(range(len(places)), True, key=lambda at: bool(places[at] < 0))
    start = bisect_left(range(count), low, key=lambda at: int(time[places[at]]))
    end = bisect_left(range(count), high, key=lambda at: int(time[places[at]]))
    return np.asarray(places[start:end], dtype=np.int64)


def declared(name: str, schema: pa.Schema) -> TableSchema:
    """The table as it was declared, from what a manifest has of it."""
    metadata = json.loads(schema.metadata[PLACES])
    columns = tuple((field.name, field.type) for field in schema if field.name not in ("hash", TOMBSTONE))
    retention, due = metadata["retention"], metadata["due"]
    return TableSchema(
        name,
        columns,
        identity=tuple(metadata["identity"]),
        order=tuple(metadata["order"]),
        retention=None if retention is None else Retention(retention[0], retention[1], metadata.get("ends")),
        due=None if due is None else tuple(due),
    )
