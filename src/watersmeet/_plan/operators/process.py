"""process: a processor's stores and timers, and the records it sends (docs/processors.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet._plan.nodes import ProcessNode as Node
from watersmeet._plan.nodes.processors import ProcessorStore
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

UNTIL = "until"
"""The column with the last moment of an entry that lasts for a while; its domain stands beside it."""
ENTRY = "entry"
"""The column that tells a key's entries apart."""


@dataclass(frozen=True)
class ProcessParams(Params):
    """Of a processor.

    Parameters
    ----------
    make, called : gives it, and what it is called in texts.
    sent_key, sent_value : types of what it sends; no type of a key: the records' own.
    stores : its stores.
    timers : whether it has timers of stream time.
    wall_timers : whether it has timers of the wall clock.
    sources : what each source of the plan is called: its topic, or the input's name.
    """

    make: Callable[[], Any] = field(metadata=FOLLOWS, compare=False)
    called: str = field(metadata=FOLLOWS)
    sent_key: Any = field(metadata=FOLLOWS)
    sent_value: Any = field(metadata=FOLLOWS)
    stores: tuple[ProcessorStore, ...] = field(metadata=FOLLOWS)
    timers: bool = field(metadata=FOLLOWS)
    wall_timers: bool = field(metadata=FOLLOWS)
    sources: tuple[str, ...] = field(metadata=FOLLOWS)

    def typed(self, convert: Callable[[Any], Any]) -> ProcessParams:
        def as_one(kind: Any) -> Any:
            return None if kind is None else convert(kind)

        stores = tuple(replace(each, entry=as_one(each.entry), value=convert(each.value)) for each in self.stores)
        given = {"sent_key": as_one(self.sent_key), "sent_value": convert(self.sent_value), "stores": stores}
        return replace(self, **given)


class ProcessSpec(Spec[Node]):
    """See `Spec`."""

    stem = "process"
    keeps_partition = True
    fans_out = True
    grows = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Records; null values among them, where they are wanted."""
        shape, drops = site.input(0).shape, site.node.drops_null
        return Reads(shape.key, (SpecSide(shape.value, drops_null_value=drops, looked_up=False, silent="dropped"),))

    def params(self, site: SpecSite[Node]) -> ProcessParams:
        node = site.node
        sources = tuple(source.origin.topic or source.input for source in site.plan.sources)
        return ProcessParams(node.make, node.called, *node.sends, node.stores, node.timers, node.wall_timers, sources)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The stores, in the order of their declaration; then timers of stream time, then of the wall clock."""
        node = site.node
        kept = tuple(_table(store, node.shape.key) for store in node.stores)
        names = (("timers", node.timers), ("wall_timers", node.wall_timers))
        waiting = (held_schema(f"{node.name}.{name}", node.shape.key, (), replaced=True) for name, has in names if has)
        return (*kept, *waiting)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns((("value", site.node.shape.value),))

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """Records that timers send have the timers' time, so it holds nothing back for longer than they are due."""
        node = site.node
        waits = node.timers or node.wall_timers or any(store.ttl_ms is not None for store in node.stores)
        return TimeOfSpec(hold=0 if waits else None, dropped_move=False, reaches=False, by_wall=node.wall_timers)


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
