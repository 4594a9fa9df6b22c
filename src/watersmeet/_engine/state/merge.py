"""How runs become fewer: which levels are merged, how much of it a commit does, and the merge itself.

Size-tiered: a dozen levels of one size class (of the smallest, two) are merged into one of the next, and all newer
levels into the oldest when half of the rows are there for nothing, because newer ones have replaced them or time has
passed them; so a row is rewritten about 1 + log12(state / batch) times, and a table's state is about twice what lives.
How many rows are there for nothing is seen from a sample, once there are as many newer ones as in the oldest.
A merge goes up the hashes in steps and may stop after each (see `manifest`), so that a commit's work is bounded
by a few times its batch even where the state is a thousand times larger.

Why so many levels: one costs a lookup 0.1 microseconds per key, a rewritten row 2 on Spark (50 MB/s);
docs/decisions/0002 has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s, order_of
from watersmeet._engine.keys.keys import KeyGroups, combine_hashes, group_keys, hash_keys
from watersmeet._engine.rows import columns
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.layout import TOMBSTONE, TableLayout
from watersmeet._engine.state.manifest import Layer, Piece, RunLayer

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
    """When to merge, and how much of it at a time.

    Parameters
    ----------
    fanout : levels of one size class that are merged into one.
    tiny, few : so many levels of up to so many bytes are merged: a level costs a lookup as much as to write it anew.
    small : bytes up to which a merge is done at once, whatever the batch.
    work : bytes to merge per byte of a batch, for each merge under way.
    steps : in at most about this many steps a merge is done, however small the batches: each leaves a run.
    segment : bytes of a step and so of a run, at most.
    """

    fanout: int = 12
    tiny: int = 64 << 10
    few: int = 2
    small: int = 1 << 20
    work: int = 2
    steps: int = 32
    segment: int = 64 << 20


def plan(levels: Sequence[RunLayer], policy: Policy, wasteful: Wasteful) -> tuple[RunLayer, ...]:
    """Put levels that are due to be merged together; neighbours in age only, none that is being merged."""
    planned = list(levels)
    at = 0
    while at < len(planned):
        begin = _group_begin(planned, at, policy, wasteful)
        if begin is None:
            at += 1
            continue
        layers = tuple(level.layers[0] for level in planned[begin : at + 1])
        planned[begin : at + 1] = [RunLayer(layers)]
        at = begin + 1
    if planned and not planned[-1].merging and 2 * planned[-1].tombstones >= planned[-1].rows:
        # The rows that these tombstones were for are gone with a level that was older.
        planned[-1] = RunLayer((*planned[-1].layers, ()))
    return tuple(planned)


def _group_begin(levels: list[RunLayer], last: int, policy: Policy, wasteful: Wasteful) -> int | None:
    """The newest level of a group due to be merged with `last` as its oldest level; None if there is none."""
    if levels[last].merging:
        return None
    tier = _tier(levels[last], policy)
    begin, peers, newer = last, 1, 0
    while begin > 0 and not levels[begin - 1].merging:
        above = _tier(levels[begin - 1], policy)
        if above > tier and last < len(levels) - 1:
            break
        begin -= 1
        peers += above >= tier
        newer += levels[begin].rows + levels[begin].tombstones
    if begin == last:
        return None
    if peers >= (policy.few if tier == 0 else policy.fanout):
        return begin
    # a tombstone counts twice, since it removes two; fewer newer rows than older ones cannot replace half of them all
    oldest_may_be_due = last == len(levels) - 1 and newer >= levels[last].rows
    layers = [level.layers[0] for level in levels[begin : last + 1]]
    return begin if oldest_may_be_due and wasteful(layers) else None


def is_wasteful(layers: Sequence[Layer], commit: int, load: Load, left: Left, changes: int) -> bool:
    """Whether a merge would leave at most half of some layers' rows, judged by some of them.

    The sample is all rows between the hashes of two rows of the oldest layer, others at each commit: the same for
    in every replay of the commit. It is chosen by rows since some tables' hashes lie close together.

    Parameters
    ----------
    changes : rows that the commit brings: the sample is at most twice as many, or a thousand.
    """
    oldest = sum(piece.rows for piece in layers[-1])
    if not oldest:
        return True
    total = sum(piece.rows for layer in layers for piece in layer)
    sampled = oldest * min(_MOST_SAMPLED, max(_LEAST_SAMPLED, 2 * changes)) // total
    begin = (commit * _NEXT_SAMPLE % 2**64) * oldest >> 64
    low, high = _hashes_between(layers[-1], begin, sampled, load)
    near = [piece for layer in layers for piece in layer if piece.low <= high and piece.run.high >= low]
    slices = [_between(load(piece), low, high) for piece in near]
    rows: int = sum(batch.num_rows for batch in slices)
    return 2 * left(slices) <= rows


def _hashes_between(layer: Layer, at: int, rows: int, load: Load) -> tuple[int, int]:
    """Hash of the row `at` of a layer, and of the one so many rows on; of a piece's last rows where it ends before."""
    found = np.zeros(0, dtype=np.int64)
    for piece in layer:
        if at < piece.rows:
            found = hashes(load(piece))
            break
        at -= piece.rows
    at = max(0, min(at, len(found) - 1 - rows))
    return int(found[at]), int(found[min(at + rows, len(found) - 1)])


def _between(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    """A run's rows with these hashes, both included."""
    by_hash = hashes(batch)
    begin, end = by_hash.searchsorted(low, side="left"), by_hash.searchsorted(high, side="right")
    return batch.slice(int(begin), int(end - begin))


def _tier(level: RunLayer, policy: Policy) -> int:
    """The size class of a level: 0 up to `tiny`, then one more for each factor of `fanout`."""
    size = sum(piece.size for piece in level.pieces())
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
    total = remaining + sum(piece.size for piece in level.done)
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
        rest: list[Piece] = []
        for piece in layer:
            if piece.low > cut:
                rest.append(piece)
                continue
            batch = load(piece)
            count = batch.num_rows
            if piece.run.high > cut:
                count = int(np.searchsorted(hashes(batch), cut, side="right"))
                rest.append(Piece(piece.run, piece.start + count, cut + 1))
            else:
                used_up.append(piece.run.id)
            slices.append(batch.slice(0, count))
        left.append(tuple(rest))
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
    """The hash column, without a copy."""
    by_hash: Int64s = batch.column("hash").to_numpy(zero_copy_only=True)
    return by_hash


def newest(rows: pa.RecordBatch, layout: TableLayout, *, drop_tombstones: bool) -> Int64s:
    """Of rows given newest first, the newest of each identity, in the order of runs."""
    keep = distinct(rows, layout).first
    if drop_tombstones:
        keep = keep[~tombstones(rows, keep)]
    return keep[order(rows, keep, layout)]


def chosen(
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
    whole = pa.Table.from_batches(slices, schema=layout.schema)
    for piece in in_pieces({name: Picked(whole.column(name), at) for name in layout.schema.names}, segment):
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
    """The order that sorts the kept rows by hash, then by the layout's columns."""
    by = [rows.column(name).to_numpy(zero_copy_only=False)[keep] for name in layout.order]
    by_hash = hashes(rows)[keep]
    return order_of([by_hash, *by])


def tombstones(rows: pa.RecordBatch, at: Int64s) -> Bools:
    """Which of the given rows are tombstones."""
    return np.asarray(pc.take(rows.column(TOMBSTONE), pa.array(at)).to_numpy(zero_copy_only=False), dtype=np.bool_)


def joined(slices: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all batches in one."""
    filled = [batch for batch in slices if batch.num_rows]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return pa.concat_batches(filled)
