"""process: a processor's stores and timers, and the records it sends (docs/processors.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet._plan.nodes import ProcessorsNode as Node
from watersmeet._plan.nodes.processors import ProcessorStore, TableRead
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import (
    FOLLOWS,
    NUMBER,
    STAMP,
    Params,
    Reads,
    ResultColumns,
    Retention,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)
from watersmeet._plan.operators.versioned_table import VersionedTableSpec, versions

UNTIL = "until"
"""The column with the last moment of an entry that lasts for a while; its domain stands beside it."""
ENTRY = "entry"
"""The column that tells a key's entries apart."""


@dataclass(frozen=True)
class MemberParams(Params):
    """Of one processor.

    Parameters
    ----------
    make, called : gives it, and what it is called in texts.
    sent_key, sent_value : types of what it sends; no type of a key: the records' own.
    stores : names of its stores.
    timers : whether it has timers of stream time.
    wall_timers : whether it has timers of the wall clock.
    in_bulk : whether it is called with the records of many keys at once.
    """

    make: Callable[[], Any] = field(metadata=FOLLOWS, compare=False)
    called: str = field(metadata=FOLLOWS)
    sent_key: Any = field(metadata=FOLLOWS)
    sent_value: Any = field(metadata=FOLLOWS)
    stores: tuple[str, ...] = field(metadata=FOLLOWS)
    timers: bool = field(metadata=FOLLOWS)
    wall_timers: bool = field(metadata=FOLLOWS)
    in_bulk: bool = field(metadata=FOLLOWS)


@dataclass(frozen=True)
class ProcessParams(Params):
    """Of processors that have their stores together.

    Parameters
    ----------
    members : the processors.
    stores : their stores, each once.
    reads : the tables that they read, in the order of their sides behind the members'.
    sources : what each source of the plan is called: its topic, or the input's name.
    """

    members: tuple[MemberParams, ...] = field(metadata=FOLLOWS)
    stores: tuple[ProcessorStore, ...] = field(metadata=FOLLOWS)
    reads: tuple[TableRead, ...] = field(metadata=FOLLOWS)
    sources: tuple[str, ...] = field(metadata=FOLLOWS)

    @property
    def timers(self) -> bool:
        """Whether any of them has timers, of either clock."""
        return any(each.timers or each.wall_timers for each in self.members)

    @property
    def by_wall(self) -> bool:
        """Whether any of them goes by the wall clock."""
        return any(each.wall_timers for each in self.members)

    def typed(self, convert: Callable[[Any], Any]) -> ProcessParams:
        def as_one(kind: Any) -> Any:
            return None if kind is None else convert(kind)

        stores = tuple(replace(each, entry=as_one(each.entry), value=convert(each.value)) for each in self.stores)
        members = tuple(
            replace(each, sent_key=as_one(each.sent_key), sent_value=convert(each.sent_value)) for each in self.members
        )
        reads = tuple(replace(each, key=convert(each.key)) for each in self.reads)
        return replace(self, members=members, stores=stores, reads=reads)


class ProcessSpec(Spec[Node]):
    """See `Spec`."""

    stem = "process"
    mixes_keys = True
    keeps_partition = True
    fans_out = True
    grows = True
    # of versioned tables that a processor reads
    drop_reasons = VersionedTableSpec.drop_reasons

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Records, null values among them, where they are wanted; then the tables that are read."""
        node = site.node
        records = (
            SpecSide(site.input(side).shape.value, drops_null_value=each.drops_null, looked_up=False, silent="dropped")
            for side, each in enumerate(node.members)
        )
        tables = (_side(site.input(read.input).shape.value, read) for read in node.reads)
        return Reads(node.shape.key, (*records, *tables))

    def meets(self, site: SpecSite[Node]) -> bool:
        node = site.node
        records, tables = ([node.inputs[side] for side in sides] for sides in (range(len(node.members)), node.looks_up))
        return any(site.plan.meet_in_step(one, other) for one in records for other in tables)

    def params(self, site: SpecSite[Node]) -> ProcessParams:
        node = site.node
        sources = tuple(source.origin.topic or source.input for source in site.plan.sources)
        members = tuple(
            MemberParams(
                each.make,
                each.called,
                *each.sends,
                tuple(store.name for store in each.stores),
                each.timers,
                each.wall_timers,
                each.in_bulk,
            )
            for each in node.members
        )
        return ProcessParams(members, node.all_stores, node.reads, sources)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The stores; of each processor timers of stream time, then of the wall clock; the tables that are read."""
        node, key = site.node, site.node.shape.key
        kept = tuple(_table(store, key) for store in node.all_stores)
        names = (
            f"{each.name}.{name}"
            for each in node.members
            for name, has in (("timers", each.timers), ("wall_timers", each.wall_timers))
            if has
        )
        waiting = (held_schema(name, key, (), replaced=True) for name in names)
        return (*kept, *waiting, *_tables(site, taken))

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns((("value", site.node.shape.value),))

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """Records that timers send have the timers' time, so it holds nothing back for longer than they are due."""
        node = site.node
        by_wall, expires = any(e.wall_timers for e in node.members), any(s.ttl_ms is not None for s in node.all_stores)
        waits = by_wall or expires or any(each.timers for each in node.members)
        reaches = node.looks_up_as_of or False
        return TimeOfSpec(hold=0 if waits else None, dropped_move=False, reaches=reaches, by_wall=by_wall)


def _side(value: Any, read: TableRead) -> SpecSide:
    if read.everywhere:
        return SpecSide(value, broadcast=True, looked_up=False, silent="dropped")
    return SpecSide(value, silent="any", nulls_reach=read.history_ms is not None)


def _tables(site: SpecSite[Node], taken: frozenset[str]) -> Iterator[TableSchema]:
    """The tables that are read, as the processor stores them: their current rows, their versions, or a whole copy."""
    node = site.node
    asked = {side: store for store, (reader, side) in site.rules.aliases.items() if reader == node.name}
    names = set(taken)
    for read in node.reads:
        table = site.input(read.input)
        own = f"{node.members[read.member].name}.{read.name}"
        columns = (("key", read.key), ("value", table.shape.value), STAMP)
        if read.everywhere:
            # the first who reads a global table has its store
            named = table.store is not None and table.store not in names
            found = TableSchema(table.store if named and table.store else own, columns, everywhere=True)
        elif read.history_ms is None:
            found = TableSchema(asked.get(read.input, own), columns, copies=table.name)
        else:
            found = versions(asked.get(read.input, own), read.key, table.shape.value)
        names.add(found.name)
        yield found


def _table(store: ProcessorStore, key: Any) -> TableSchema:
    """A row for each entry; one that lasts for a while is another row when it is put again."""
    entry = () if store.entry is None else ((ENTRY, store.entry),)
    columns = (("key", key), *entry, ("value", store.value), STAMP)
    identity = ("key", *(name for name, _ in entry))
    if store.ttl_ms is None:
        return TableSchema(store.name, columns, identity)
    return TableSchema(
        store.name,
        (*columns, (UNTIL, NUMBER), ("domain", NUMBER)),
        (*identity, UNTIL, "domain"),
        order=(UNTIL,),
        retention=Retention(UNTIL, "domain"),
    )
