"""How runs become fewer: which levels are merged, how much of it a commit does, and the merge itself.

Size-tiered: a dozen levels of one size class (of the smallest, two) are merged into one of the next, and all newer
levels into the oldest when half of the rows are there for nothing, because newer ones have replaced them or time has
passed them; so a row is rewritten about 1 + log12(state / batch) times, and a table's state is about twice what lives.
How many rows are there for nothing is seen from a sample, once there are as many newer ones as in the oldest.
Large rows are not merged so: where commits are large, too, what stands in the oldest levels is relocated, above them.
A merge goes up the hashes in steps and may stop after each (see `manifest`), so that a commit's work is bounded
by a few times its batch even where the state is a thousand times larger.

Why so many levels: one costs a lookup 0.1 microseconds per key, a rewritten row 2 on Spark (50 MB/s);
docs/decisions/state.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import rows as columns
from watersmeet._engine.keys import KeyGroups, combine_hashes, group_keys, hash_keys
from watersmeet._engine.row_sizes import Picked, in_pieces
from watersmeet._engine.rows import Bools, Int64s, bools, gather, order_of
from watersmeet._engine.rows import joined as together
from watersmeet._engine.state.manifest import TOMBSTONE, Layer, Piece, RunLayer, TableLayout, layers_of
from watersmeet.errors import StateError

_LAST_HASH = 2**63 - 1
_LEAST_SAMPLED, _MOST_SAMPLED = 1 << 10, 1 << 14
_NEXT_SAMPLE = 0x9E3779B97F4A7C15
"""From where one commit's sample begins to the next one's, of 2**64: near the golden section, it comes everywhere."""

Load = Callable[[Piece], pa.RecordBatch]
"""Gives the visible rows of a piece."""
Left = Callable[[Sequence[pa.RecordBatch]], int]
"""How many rows are left of those of several layers, newest first, when nothing lies below them."""
Choose = Callable[[pa.RecordBatch], Int64s]
"""Which rows are kept, in the order of runs; it sees all columns but values."""
Wasteful = Callable[[Sequence[Layer]], bool]
"""Whether of these layers, down to the oldest, at least half of the rows are there for nothing."""


@dataclass(frozen=True)
class Policy:
    """When to merge, and how much of it at a time."""

    fanout: int = 12  # levels of one size class that are merged into one
    # tiny, few: so many levels of up to so many bytes are merged: a level costs a lookup as much as to write it anew
    tiny: int = 64 << 10
    few: int = 2
    small: int = 1 << 20  # bytes up to which a merge is done at once, whatever the batch
    work: int = 2  # bytes to merge per byte of a batch, for each merge under way
    steps: int = 32  # in at most about this many steps a merge is done, however small the batches: each leaves a run
    segment: int = 64 << 20  # bytes of a step and so of a run, at most
    # large_row, bulk, part: a commit of so many bytes, which is this part of its table, relocates rows of so many bytes
    large_row: int = 256
    bulk: int = 4 << 20
    part: int = 32


def plan(
    levels: Sequence[RunLayer], policy: Policy, wasteful: Wasteful, size_limit: int | None = None
) -> tuple[RunLayer, ...]:
    """Put levels that are due to be merged together; neighbours in age only, none that is being merged.

    Parameters
    ----------
    size_limit : bytes of a level beyond which it is left as it is; None: none is.
    """
    planned = list(levels)
    at = 0
    while at < len(planned):
        start = _group_start(planned, at, policy, wasteful, size_limit)
        if start is None:
            at += 1
            continue
        layers = tuple(level.layers[0] for level in planned[start : at + 1])
        planned[start : at + 1] = [RunLayer(layers)]
        at = start + 1
    if planned and not planned[-1].merging and 2 * planned[-1].tombstones >= planned[-1].rows:
        # The rows that these tombstones were for are gone with a level that was older.
        planned[-1] = RunLayer((*planned[-1].layers, ()))
    return tuple(planned)


def _group_start(
    levels: list[RunLayer], last: int, policy: Policy, wasteful: Wasteful, size_limit: int | None
) -> int | None:
    """The newest level of a group due to be merged with `last` as its oldest level; None if there is none."""
    if _is_left(levels[last], size_limit):
        return None
    tier = _tier(levels[last], policy)
    start, peers, newer = last, 1, 0
    while start > 0 and not _is_left(levels[start - 1], size_limit):
        above = _tier(levels[start - 1], policy)
        if above > tier and last < len(levels) - 1:
            break
        start -= 1
        peers += above >= tier
        newer += levels[start].rows + levels[start].tombstones
    if start == last:
        return None
    if peers >= (policy.few if tier == 0 else policy.fanout):
        return start
    # a tombstone counts twice, since it removes two; fewer newer rows than older ones cannot replace half of them all
    oldest_may_be_due = last == len(levels) - 1 and newer >= levels[last].rows
    layers = [level.layers[0] for level in levels[start : last + 1]]
    return start if oldest_may_be_due and wasteful(layers) else None


def _is_left(level: RunLayer, size_limit: int | None) -> bool:
    return level.merging or (size_limit is not None and level.size > size_limit)


def is_wasteful(layers: Sequence[Layer], commit: int, load: Load, left: Left, changes: int) -> bool:
    """Whether a merge would leave at most half of some layers' rows, judged by some of them.

    The sample is all rows between the hashes of two rows of the oldest layer, others at each commit: the same for
    in every replay of the commit. It is chosen by rows since some tables' hashes lie close together.

    Parameters
    ----------
    changes : rows that the commit brings: the sample is at most twice as many, or a thousand.
    """
    if not layers[-1]:
        return True
    base = max(reversed(layers), key=lambda layer: sum(piece.rows for piece in layer))
    base_rows = sum(piece.rows for piece in base)
    total = sum(piece.rows for layer in layers for piece in layer)
    sampled = base_rows * min(_MOST_SAMPLED, max(_LEAST_SAMPLED, 2 * changes)) // total
    offset = (commit * _NEXT_SAMPLE % 2**64) * base_rows >> 64
    low, high = _hashes_between(base, offset, sampled, load)
    near = [piece for layer in layers for piece in layer if piece.low <= high and piece.run.high >= low]
    slices = [_between(load(piece), low, high) for piece in near]
    rows: int = sum(batch.num_rows for batch in slices)
    return 2 * left(slices) <= rows


def _hashes_between(layer: Layer, at: int, rows: int, load: Load) -> tuple[int, int]:
    """Hash of the row `at` of a layer, and of the one so many rows on; of a piece's last rows where it ends before."""
    by_hash = np.zeros(0, dtype=np.int64)
    for piece in layer:
        if at < piece.rows:
            by_hash = hashes(load(piece))
            break
        at -= piece.rows
    at = max(0, min(at, len(by_hash) - 1 - rows))
    return int(by_hash[at]), int(by_hash[min(at + rows, len(by_hash) - 1)])


def _between(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    """A run's rows with these hashes, both included."""
    by_hash = hashes(batch)
    start, end = by_hash.searchsorted(low, side="left"), by_hash.searchsorted(high, side="right")
    return batch.slice(int(start), int(end - start))


def has_large_rows(levels: Sequence[RunLayer], size: int, policy: Policy) -> bool:
    """Whether rows are moved less by relocating than by merging, in a commit that brings so many bytes."""
    if size < policy.bulk or size < part_of(levels, policy):
        return False
    return _size(levels) >= policy.large_row * sum(level.rows for level in levels)


def part_of(levels: Sequence[RunLayer], policy: Policy) -> int:
    """Bytes of a level, of a table with large rows, that are not merged any more."""
    return max(policy.small, _size(levels) // policy.part)


def work_to_relocate(
    levels: Sequence[RunLayer], size: int, policy: Policy, wasteful: Wasteful
) -> tuple[int, tuple[RunLayer, ...]]:
    """How many bytes of the oldest levels to relocate in this commit, and the levels with what is saved up then."""
    *upper_levels, oldest = levels
    if oldest.merging or not upper_levels:
        return 0, tuple(levels)
    credit, step = oldest.credit + policy.work * size, min(2 * part_of(levels, policy), policy.segment)
    if credit < step:
        return 0, (*upper_levels, replace(oldest, credit=credit))
    rows = sum(level.rows + level.tombstones for level in levels)
    if 2 * max(level.rows for level in levels) > rows or not wasteful(layers_of(levels)):
        return 0, (*upper_levels, replace(oldest, credit=step))
    return credit, (*upper_levels, replace(oldest, credit=0))


def _size(levels: Sequence[RunLayer]) -> int:
    return sum(level.size for level in levels)


def _tier(level: RunLayer, policy: Policy) -> int:
    """The size class of a level: 0 up to `tiny`, then one more for each factor of `fanout`."""
    size = level.size
    tier = 0
    while size > min(policy.tiny, policy.small):
        size //= policy.fanout
        tier += 1
    return tier


def share(level: RunLayer, batch_bytes: int, policy: Policy) -> tuple[int, RunLayer]:
    """How many bytes of a level to merge in this commit, and the level with what it then has saved up."""
    remaining = level.remaining
    credit = level.credit + policy.work * batch_bytes
    if remaining <= max(credit, policy.small):
        return remaining, level
    total = level.size
    step = max(policy.fanout * policy.small, total // policy.steps)
    work = credit if credit >= step else 0
    return work, replace(level, credit=credit - work)


@dataclass(frozen=True)
class MergedRows:
    """Rows at the front of some layers, newest first, and what is left of the layers."""

    slices: tuple[pa.RecordBatch, ...]
    layers: tuple[Layer, ...]
    used_up: tuple[str, ...]


def take_front(layers: Sequence[Layer], size: int, load: Load) -> MergedRows:
    """Take all rows up to some hash, about `size` bytes of them and at least one."""
    cut = _cut(layers, size, load)
    slices: list[pa.RecordBatch] = []
    left: list[Layer] = []
    used_up: list[str] = []
    for layer in layers:
        remaining: list[Piece] = []
        for piece in layer:
            if piece.low > cut:
                remaining.append(piece)
                continue
            batch = load(piece)
            count = batch.num_rows
            if piece.run.high > cut:
                count = int(np.searchsorted(hashes(batch), cut, side="right"))
                remaining.append(Piece(piece.run, piece.start + count, cut + 1))
            else:
                used_up.append(piece.run.id)
            slices.append(batch.slice(0, count))
        left.append(tuple(remaining))
    return MergedRows(tuple(slices), tuple(left), tuple(used_up))


def _cut(layers: Sequence[Layer], size: int, load: Load) -> int:
    """The hash up to which the layers have about `size` bytes: hashes are even, so the largest tells."""
    total = RunLayer(tuple(layers)).remaining
    if total <= size:
        return _LAST_HASH
    largest = max(layers, key=lambda layer: sum(piece.rows for piece in layer))
    skip = sum(piece.rows for piece in largest) * size // total
    for piece in largest:
        if skip < piece.rows:
            return int(hashes(load(piece))[skip])
        skip -= piece.rows
    return _LAST_HASH


def hashes(batch: pa.RecordBatch) -> Int64s:
    by_hash: Int64s = batch.column("hash").to_numpy(zero_copy_only=True)
    return by_hash


def newest(rows: pa.RecordBatch, layout: TableLayout, *, drop_tombstones: bool) -> Int64s:
    """Of rows given newest first, the newest of each identity, in the order of runs."""
    keep = distinct(rows, layout).first
    if drop_tombstones:
        keep = keep[~tombstones(rows, keep)]
    return keep[order(rows, keep, layout)]


def select_rows(
    slices: Sequence[pa.RecordBatch], layout: TableLayout, choose: Choose, segment: int
) -> Iterator[pa.RecordBatch]:
    """The rows of all slices that `choose` names, in its order: in one batch, or in several of `segment` bytes.

    A hot key's rows may be more than fit into one array: their values are gathered piece by piece.
    """
    if sum(batch.nbytes for batch in slices) <= columns.ARRAY_BYTES:
        rows = joined(slices, layout.schema)
        yield rows.take(pa.array(choose(rows)))
        return
    at = choose(without_values(slices, layout))
    table = pa.Table.from_batches(slices, schema=layout.schema)
    for piece in in_pieces({name: Picked(table.column(name), at) for name in layout.schema.names}, segment):
        yield from piece.combine_chunks().to_batches()


def without_values(slices: Sequence[pa.RecordBatch], layout: TableLayout) -> pa.RecordBatch:
    """The rows of all slices with the columns that name and sort them, and others of a fixed width."""
    schema = narrow(layout)
    return joined([batch.select(schema.names) for batch in slices], schema)


def narrow(layout: TableLayout) -> pa.Schema:
    """The columns that say which rows are kept, in which order."""
    return pa.schema([f for f in layout.schema if f.name in layout.identity or pa.types.is_primitive(f.type)])


def distinct(rows: pa.RecordBatch, layout: TableLayout) -> KeyGroups:
    """The rows grouped by identity."""
    first = rows.column(layout.identity[0])
    if len(layout.identity) == 1:
        return group_keys(hashes(rows), first)
    parts = [rows.column(name) for name in layout.identity]
    mixed = hashes(rows)
    for part in parts[1:]:
        mixed = combine_hashes(mixed, hash_keys(part))
    return group_keys(mixed, pa.StructArray.from_arrays(parts, list(layout.identity)))


def order(rows: pa.RecordBatch, keep: Int64s, layout: TableLayout) -> Int64s:
    by = [rows.column(name).to_numpy(zero_copy_only=False)[keep] for name in layout.order]
    by_hash = hashes(rows)[keep]
    return order_of([by_hash, *by])


def tombstones(rows: pa.RecordBatch, at: Int64s) -> Bools:
    return np.asarray(pc.take(rows.column(TOMBSTONE), pa.array(at)).to_numpy(zero_copy_only=False), dtype=np.bool_)


def joined(slices: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all batches in one."""
    filled = [batch for batch in slices if batch.num_rows]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return pa.concat_batches(filled)


# The writes of a commit to a table: rows to put and to delete, as pointers to their values.
#
# Law 9: values are gathered once, when the commit writes them, in the order of the run and a piece at a time; until
# then a change holds what names and sorts its rows, and pointers.

PutColumn: TypeAlias = pa.Array | pa.ChunkedArray | Picked
"""A column of a put: there already, or to be gathered when the commit writes it."""


@dataclass(frozen=True)
class PutRows:
    """Rows of one put."""

    named: pa.RecordBatch  # the columns that say which rows are kept, in which order; the tombstone flag, too
    values: Mapping[str, Picked]  # the other columns, null for what is deleted

    @property
    def bytes(self) -> int:
        """About how many bytes its rows will have."""
        return int(self.named.nbytes + sum(picked.sizes().sum() for picked in self.values.values()))

    @classmethod
    def of(cls, layout: TableLayout, columns: Mapping[str, PutColumn], deleted: Bools) -> PutRows:
        """The rows of these columns, of which those that `deleted` marks are to be removed."""
        schema = narrow(layout)
        anything, pointers = deleted.any(), np.arange(len(deleted), dtype=np.int64)
        pointers[deleted] = -1
        key_columns = []
        for field in schema:
            column = pa.array(deleted) if field.name == TOMBSTONE else _as_array(columns[field.name], field.type)
            key_columns.append(
                gather(column, pointers) if anything and field.name not in layout.named | {TOMBSTONE} else column
            )
        values = {}
        for name in layout.schema.names:
            if name not in schema.names:
                source = columns[name]
                picked = source if isinstance(source, Picked) else Picked(source, pointers)
                values[name] = Picked(picked.values, np.where(deleted, -1, picked.pointers)) if anything else picked
        return cls(pa.RecordBatch.from_arrays(key_columns, schema=schema), values)


def check(layout: TableLayout, table: str, columns: Mapping[str, PutColumn], count: int) -> None:
    """Refuse columns that are not the table's, or not `count` rows long."""
    fields = [field for field in layout.schema if field.name != TOMBSTONE]
    lengths = set(map(length, columns.values()))
    if {field.name for field in fields} != set(columns) or lengths != {count}:
        raise _misfit(table, layout, f"{count} flags for {max(lengths, default=0)} rows of {list(columns)}")
    for field in fields:
        column = columns[field.name]
        if not isinstance(column, Picked) and column.type != field.type:
            raise _misfit(table, layout, f"column {field.name} is {column.type}, the table has {field.type}")


def sorted_rows(
    changes: Sequence[PutRows], layout: TableLayout, choose: Callable[[pa.RecordBatch], Int64s], segment: int
) -> Iterator[pa.RecordBatch]:
    """The rows that `choose` names, in its order, in batches of about `segment` bytes."""
    rows = joined([change.named for change in changes], narrow(layout))
    at = choose(rows)
    if not len(at):
        return
    columns = {name: Picked(rows.column(name), at) for name in rows.schema.names}
    for name in layout.schema.names:
        if name not in columns:
            picked = _joined([change.values[name] for change in changes], layout.schema.field(name).type)
            columns[name] = Picked(picked.values, picked.pointers[at])
    ordered = {name: columns[name] for name in layout.schema.names}
    for piece in in_pieces(ordered, segment):
        arrays = [_as_array(piece.column(field.name), field.type) for field in layout.schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _joined(parts: Sequence[Picked], kind: pa.DataType) -> Picked:
    """The rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.values) for part in parts)])
    pointers = [np.where(p.pointers < 0, -1, p.pointers + start) for p, start in zip(parts, starts, strict=False)]
    return Picked(together([part.values for part in parts], kind), np.concatenate(pointers))


def _as_array(source: PutColumn, kind: pa.DataType) -> pa.Array:
    column = source.part(0, length(source)) if isinstance(source, Picked) else source
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column if column.type == kind else column.cast(kind)


def length(column: PutColumn) -> int:
    return len(column.pointers) if isinstance(column, Picked) else len(column)


def _misfit(table: str, layout: TableLayout, detail: str) -> StateError:
    fields = (field for field in layout.schema if field.name != TOMBSTONE)
    return StateError(
        f"rows do not fit the table {table!r}",
        given=detail,
        hint=f"its columns are {', '.join(f'{field.name}: {field.type}' for field in fields)}",
    )


# Expired rows: those that a merge may leave out, and runs that are dropped without being read.
#
# Law 3: each row is judged by the floor of its own time domain, so that a quiet domain keeps nothing of the others.
# Rows below their floor may be found until a merge or a drop removes them: lookups go by time as well.

MOST_DOMAINS = 16
"""Domains that a run's description tells apart, at most: a topic's partitions are seldom more for one key's shard."""
_NEVER = -(2**63)


@dataclass(frozen=True)
class Floors:
    """The time of each domain below which rows are not wanted any more; a domain without floor keeps all."""

    floors: Mapping[int, int]

    def wanted(self, rows: pa.RecordBatch, layout: TableLayout) -> Bools:
        """Which rows have not been passed."""
        if not self.floors or layout.time is None:
            return np.ones(len(rows), dtype=np.bool_)
        time = rows.column(layout.time).to_numpy(zero_copy_only=False)
        return np.asarray(time >= self._floor_of(rows, layout))

    def _floor_of(self, rows: pa.RecordBatch, layout: TableLayout) -> Int64s:
        domain = np.zeros(rows.num_rows, dtype=np.int64)
        if layout.domain is not None:
            domain = rows.column(layout.domain).to_numpy(zero_copy_only=False)
        domains, floors = self._arrays
        at = np.minimum(np.searchsorted(domains, domain), len(domains) - 1)
        return np.where(domains[at] == domain, floors[at], _NEVER)

    def expired_versions(self, rows: pa.RecordBatch, keep: Int64s, layout: TableLayout) -> Bools:
        """Of the kept rows, which are all versions of some keys, those that no lookup of these times can find any more.

        A version goes when the one after it is no later than the floor of its domain, and with it all before it; the
        latest one, where it deletes the key and lies below the floor.
        """
        assert layout.time is not None
        assert layout.ends is not None
        time = rows.column(layout.time).to_numpy(zero_copy_only=False)[keep]
        at = pa.array(keep)
        groups = group_keys(hashes(rows)[keep], rows.column("key").take(at))
        order = order_of([groups.group_of_row, time])
        last = np.zeros(len(order), dtype=np.bool_)
        last[groups.starts[1:] - 1] = True
        until = np.where(last, time[order] + 1, np.append(time[order][1:], 0))
        floors = self._floor_of(rows, layout)[keep[order]]
        obsolete = (until <= floors) & (~last | bools(rows, layout.ends)[keep[order]])
        places = np.arange(len(order), dtype=np.int64)
        last_survivor = np.maximum.accumulate(np.where(obsolete, -1, places))
        result = np.zeros(len(order), dtype=np.bool_)
        result[order] = last_survivor < np.repeat(groups.starts[:-1], groups.sizes)
        return result

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        domains = np.array(sorted(self.floors), dtype=np.int64)
        return domains, np.array([self.floors[int(domain)] for domain in domains], dtype=np.int64)

    def alive(self, piece: Piece, layout: TableLayout) -> bool:
        """Whether a run may have rows that are wanted.

        Versions of one row have the same time but may be of several domains: where a newer one may hide an older one,
        a run goes when its times are below all floors.
        """
        run = piece.run
        if run.time is None or not self.floors or layout.ends is not None:
            return True
        if layout.appended and run.latest:
            return any(time >= self.floors.get(domain, _NEVER) for domain, time in run.latest)
        return run.time[1] >= min(self.floors.values())

    def dropped(self, levels: Sequence[RunLayer], layout: TableLayout) -> tuple[tuple[RunLayer, ...], list[str]]:
        """The levels without the runs that time has passed, and the ids of these runs."""
        expired = [p.run.id for level in levels for p in level.pieces() if not self.alive(p, layout)]
        if not expired:
            return tuple(levels), expired
        passed = frozenset(expired)
        survivors = []
        for level in levels:
            layers = tuple(tuple(p for p in layer if p.run.id not in passed) for layer in level.layers)
            layers = tuple(filter(None, layers))
            done = tuple(p for p in level.done if p.run.id not in passed)
            if layers:
                survivors.append(replace(level, layers=layers, done=done))
            elif done:
                survivors.append(RunLayer((done,)))
        return tuple(survivors), expired


def latest(rows: pa.RecordBatch, layout: TableLayout) -> tuple[tuple[int, int], ...]:
    """(domain, largest time in it) of each domain of some rows; nothing where they are many."""
    if not layout.retained or not layout.appended or layout.time is None:
        return ()
    time = rows.column(layout.time).to_numpy(zero_copy_only=False)
    if layout.domain is None:
        return ((0, int(time.max())),)
    domains, place = np.unique(rows.column(layout.domain).to_numpy(zero_copy_only=False), return_inverse=True)
    if len(domains) > MOST_DOMAINS:
        return ()
    newest = np.full(len(domains), _NEVER, dtype=np.int64)
    np.maximum.at(newest, place, time)
    return tuple((int(domain), int(newest[at])) for at, domain in enumerate(domains))
