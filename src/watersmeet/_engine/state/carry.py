"""A shard's state made of what other operators, or the same, had there before the topology was changed.

Runs are carried as they are: their ids depend on their content alone, not on the shard. Rows are written anew where
stored values are to be read as wider types, where rows begin or end to have headers, and where there are other numbers
of shards (law 9: some megabytes at a time). Law 10: who gets what is said by names.

Shards are contiguous ranges of the hash (`exchange.shard_of`), and runs are sorted by it. So each old shard gives each
new shard that overlaps it one stretch of its rows (`divide`), without a look at any other shard, and a new shard puts
the stretches that it gets one behind the other (`put_together`). Law 1: results do not depend on the number of shards,
so what a shard knows beside its rows (times, clocks) is the same in all of them, or the largest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange import lowest_of, shard_of
from watersmeet._engine.rows import ints
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.manifest import TableLayout, declared
from watersmeet._engine.state.runs import ChunkStore, RunReader, State, Table, remove
from watersmeet._plan.declaration import TableSchema
from watersmeet.errors import CorruptData

ADDED = frozenset({"held"})
"""Scalars that say how much there is; of all others the largest counts."""


@dataclass(frozen=True)
class CarriedTables:
    """The tables of a former shard that are carried into another one."""

    # the name of each table until now, and the table, with Arrow types, from now on
    tables: tuple[tuple[str, TableSchema], ...] = ()
    scalars: bool = False  # whether the shard goes on as a whole, with the times that it knows

    def with_table(self, name: str, table: TableSchema, scalars: bool) -> CarriedTables:
        return CarriedTables((*self.tables, (name, table)), self.scalars or scalars)


def carry(store: ChunkStore, parts: Sequence[tuple[bytes, CarriedTables]], cache: RunCache | None = None) -> None:
    """Give a shard that has none a manifest made of others; the chunks that they list lie in the store.

    Parameters
    ----------
    store : the shard's.
    parts : manifests, and what is carried of each.
    cache : where runs lie while rows are written anew; without it they are held in memory.
    """
    manifest, wider = mf.Manifest(), []
    for content, part in parts:
        old = mf.read(content)
        manifest = replace(manifest, commit=max(manifest.commit, old.commit))
        if part.scalars:
            manifest = replace(manifest, scalars={**manifest.scalars, **old.scalars})
        for name, table in part.tables:
            entry = old.tables.get(name)
            if entry is None:
                continue
            if entry.schema.equals(TableLayout.of(table).stored, check_metadata=True):
                manifest = replace(manifest, tables={**manifest.tables, table.name: entry})
            else:
                wider.append((entry, table))
    store.put_manifest(mf.write(manifest))
    if not wider:
        return
    state, reader = State(store, cache), RunReader(store, cache)
    for entry, table in wider:
        _write_wider(state, Table(declared(table.name, entry.schema), entry.layers, reader), table)
    state.commit()
    live = {run.id for entry in state.manifest.tables.values() for run in entry.runs()}
    for run in {run.id: run for entry, _ in wider for run in entry.runs()}.values():
        if run.id not in live:
            remove(store, run)


def _write_wider(state: State, source: Table, table: TableSchema) -> None:
    """All rows of a table, with the columns that they have from now on."""
    target = state.table(table)
    for rows in source.scan():
        target.put(with_columns_of(rows, target))
        state.finish_part()


def with_columns_of(rows: pa.Table, table: Table) -> pa.Table:
    """Rows with the columns that a table has; what they never had is null."""
    return pa.table(
        {
            field.name: rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(len(rows), field.type)
            for field in table.schema
        }
    )


def overlapping(shard: int, of: int, to: int) -> range:
    """The shards among `to` with hashes of a shard among `of`.

    >>> overlapping(1, 2, 5), overlapping(1, 5, 2)
    (range(2, 5), range(0, 1))
    """
    edges = np.array([lowest_of(shard, of), lowest_of(shard + 1, of) - 1])
    first, last = shard_of(edges, to).tolist()
    return range(first, last + 1)


def divide(
    store: ChunkStore,
    carried: CarriedTables,
    shard: int,
    shards: tuple[int, int],
    open_store: Callable[[int], ChunkStore],
    cache: RunCache | None = None,
) -> None:
    """Give each shard that overlaps an old one its part of the old one's state.

    Parameters
    ----------
    store : of the old shard, with a manifest.
    carried : the tables, and whether the times that the shard knows, go on.
    shard : number of the old shard.
    shards : how many there are until now, and from now on.
    open_store : gives the store of a new shard's part, which is empty.
    cache : where runs lie meanwhile; without it they are held in memory.
    """
    of, to = shards
    old, reader = mf.read(store.get_manifest() or b""), RunReader(store, cache)
    targets = {new_shard: State(open_store(new_shard)) for new_shard in overlapping(shard, of, to)}
    for name, table in carried.tables:
        entry = old.tables.get(name)
        if entry is None:
            continue
        source = Table(declared(name, entry.schema), entry.layers, reader)
        # of what every shard has whole, a new one takes one copy
        owners = [new_shard for new_shard in targets if shard_of(np.array([lowest_of(new_shard, to)]), of)[0] == shard]
        for rows in source.scan():
            widened = with_columns_of(rows, targets[min(targets)].table(table))
            parts = [(new_shard, widened) for new_shard in owners] if table.everywhere else _by_shard(widened, to)
            for new_shard, part in parts:
                if new_shard not in targets:
                    raise CorruptData(
                        f"The table {name!r} has rows that do not belong to their shard.",
                        given=f"shard {shard} of {of}, a row of shard {new_shard} of {to}",
                        hint="The state was altered, or this is an error of watersmeet: start it with the shards that "
                        "it had.",
                    )
                targets[new_shard].table(table).put(part)
                targets[new_shard].finish_part()
    for target in targets.values():
        for name, value in old.scalars.items() if carried.scalars else ():
            target.set_scalar(name, value)
        target.commit()


def put_together(parts: Sequence[bytes]) -> bytes:
    """The manifest of a shard that is made of parts, each with its manifest, in the order of their hashes."""
    tables: dict[str, mf.TableEntry] = {}
    scalars: dict[str, Any] = {}
    for part in map(mf.read, parts):
        for name, entry in part.tables.items():
            tables[name] = _concatenated(tables[name], entry) if name in tables else entry
        scalars = _combined(scalars, part.scalars)
    return mf.write(mf.Manifest(1, tables, scalars))


def _by_shard(rows: pa.Table, shards: int) -> Iterable[tuple[int, pa.Table]]:
    """The stretches of rows, which are sorted by hash, that belong to one shard."""
    shard = shard_of(ints(rows, "hash"), shards)
    starts = np.flatnonzero(np.diff(shard, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield int(shard[start]), rows.slice(start, end - start)


def _concatenated(first: mf.TableEntry, second: mf.TableEntry) -> mf.TableEntry:
    """A table and one with higher hashes, as one: a single commit wrote each, as one layer."""
    if not first.levels or not second.levels:
        return first if first.levels else second
    (low,), (high,) = first.levels[0].layers, second.levels[0].layers
    return replace(first, levels=(mf.RunLayer(((*low, *high),)),))


def _combined(left: Any, right: Any, name: str = "") -> Any:
    """Two values of one scalar: numbers, in lists and by names."""
    if isinstance(left, Mapping):
        names = dict.fromkeys([*left, *right])
        return {
            n: _combined(left[n], right[n], name or n) if n in left and n in right else left.get(n, right.get(n))
            for n in names
        }
    if isinstance(left, list):
        length = max(len(left), len(right))
        return [
            _combined(left[n], right[n], name) if n < min(len(left), len(right)) else [*left, *right[len(left) :]][n]
            for n in range(length)
        ]
    return left + right if name in ADDED else max(left, right)
