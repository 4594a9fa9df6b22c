"""A shard's state made of what other operators, or the same, had there before the topology was changed.

Runs are taken over as they are: their ids depend on their content alone, not on the shard. Only where stored values are
to be read as wider types, or rows begin or end to have headers, are rows written anew (law 9: some megabytes at a
time). Law 10: who gets what is said by names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.layout import TableLayout, declared
from watersmeet._engine.state.rundata import RunReader, remove
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.store import ChunkStore
from watersmeet._engine.state.table import Table
from watersmeet._plan.operators.spec import TableSchema


@dataclass(frozen=True)
class CarriedTables:
    """The tables that a shard takes over from a former one.

    Parameters
    ----------
    tables : the name of each table until now, and the table, with Arrow types, from now on.
    scalars : whether it goes on as a whole, with the times that it knows.
    """

    tables: tuple[tuple[str, TableSchema], ...]
    scalars: bool


def carry(store: ChunkStore, parts: Sequence[tuple[bytes, CarriedTables]], cache: RunCache | None = None) -> None:
    """Give a shard that has none a manifest made of others; the chunks that they list lie in the store.

    Parameters
    ----------
    store : the shard's.
    parts : manifests, and what is taken of each.
    cache : where runs lie while rows are written anew; without it they are held in memory.
    """
    manifest, wider = mf.Manifest(), []
    for content, part in parts:
        before = mf.read(content)
        manifest = replace(manifest, commit=max(manifest.commit, before.commit))
        if part.scalars:
            manifest = replace(manifest, scalars={**manifest.scalars, **before.scalars})
        for name, table in part.tables:
            entry = before.tables.get(name)
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
    kept = {run.id for entry in state.manifest.tables.values() for run in entry.runs()}
    for run in {run.id: run for entry, _ in wider for run in entry.runs()}.values():
        if run.id not in kept:
            remove(store, run)


def _write_wider(state: State, before: Table, table: TableSchema) -> None:
    """All rows of a table, with the columns that they have from now on; what they never had is null."""
    target = state.table(table)
    for rows in before.scan():
        columns = {
            field.name: rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(len(rows), field.type)
            for field in target.schema
        }
        target.put(pa.table(columns))
        state.finish_part()
