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
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from watersmeet._engine.rows.blob import check_names
from watersmeet._engine.state.description import checksum
from watersmeet.errors import CorruptData

MAGIC = b"MLPM"
VERSION = 5
"""1: shards were remainders of the hash; 2: they were ranges of it, and tables were of three kinds; 3: what a run is
made of lies in its first chunk; 4: tables are of one kind, and runs say how far the times of their domains reach; 5:
aggregates of grouped tables keep exact sums of doubles."""
_HEADER = struct.Struct("<4sHH16s")
_LEAST, _MOST = -(2**63), 2**63 - 1
_SCALAR_LEVELS = 2
_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Run:
    """An immutable sorted stretch of rows.

    Parameters
    ----------
    id : unique over all checkpoints: the checksum of its description.
    rows, size : its rows, and their bytes when not compressed.
    low, high : its smallest and largest hash.
    tombstones : how many of its rows are.
    chunks : how many values it has in the store.
    time : smallest and largest value of the layout's time column, where it has one.
    latest : (domain, largest time in it) of each time domain, where rows are let go and the domains are few.
    """

    id: str
    rows: int
    size: int
    low: int
    high: int
    tombstones: int = 0
    chunks: int = 0
    time: tuple[int, int] | None = None
    latest: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Piece:
    """The live rest of a run: its rows from `start` on, with hashes of `low` or more."""

    run: Run
    start: int
    low: int

    @property
    def rows(self) -> int:
        """How many rows are to be seen."""
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


def whole(run: Run) -> Piece:
    """All of a run."""
    return Piece(run, 0, run.low)


@dataclass(frozen=True)
class RunLayer:
    """One layer, or several that are being merged into `done`; `credit` is the work, in bytes, saved up."""

    layers: tuple[Layer, ...]
    done: Layer = ()
    credit: int = 0

    @property
    def merging(self) -> bool:
        """Whether a merge is under way."""
        return len(self.layers) > 1 or bool(self.done)

    @property
    def rows(self) -> int:
        """How many rows it has, versions and tombstones included."""
        return sum(piece.rows for piece in self.pieces())

    @property
    def remaining(self) -> int:
        """About how many bytes are not merged yet."""
        return sum(piece.size for layer in self.layers for piece in layer)

    @property
    def tombstones(self) -> int:
        """About how many of its rows are tombstones."""
        return sum(piece.tombstones for piece in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """All its pieces."""
        for layer in (*self.layers, self.done):
            yield from layer


@dataclass(frozen=True)
class TableEntry:
    """A table in the manifest: its stored Arrow schema, and its levels, newest first."""

    schema: pa.Schema
    levels: tuple[RunLayer, ...] = ()

    def layers(self) -> list[Layer]:
        """All layers, newest first: the order in which a key is looked for."""
        return [layer for level in self.levels for layer in (*level.layers, level.done) if layer]

    def runs(self) -> Iterator[Run]:
        """All runs."""
        for level in self.levels:
            for piece in level.pieces():
                yield piece.run


@dataclass(frozen=True)
class Manifest:
    """All of a shard's state but the rows themselves.

    Parameters
    ----------
    commit : number of the commit that wrote it.
    tables : by name.
    scalars : small JSON values by name.
    retired : runs this commit has retired: their cached files may go once it is known to have succeeded.
    """

    commit: int = 0
    tables: Mapping[str, TableEntry] = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)
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
    return _HEADER.pack(MAGIC, VERSION, 0, bytes.fromhex(checksum(body))) + body


def read(content: bytes) -> Manifest:
    """Read a manifest back, or say what is wrong with it."""
    if len(content) < _HEADER.size or content[:4] != MAGIC:
        raise CorruptData(
            "the manifest of a shard's state is not one",
            given=f"{len(content)} bytes starting with {content[:4]!r}",
            hint="the state was altered or cut off; restart from a copy of the checkpoint",
        )
    _, version, _, digest = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptData(
            "the state was written in an unknown format",
            given=f"format {version}, this watersmeet reads {VERSION}",
            hint="use the version of watersmeet that wrote the checkpoint, or start a new one",
        )
    body = content[_HEADER.size :]
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
        return {str(_number(int(name), _LEAST)): _scalar(each, levels - 1) for name, each in value.items()}
    if isinstance(value, list) and levels:
        return [_scalar(each, levels - 1) for each in value]
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
