"""What recorded topologies are built of: sources, chains of operations, aggregates, suppress.

Owns what parameters mean that several kinds share. Law: what cannot be built is refused with a reason, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proof.oracle.functions import even, mapped, payload, ref
from proof.oracle.graph import Node, Topology
from proof.oracle.records import key_bytes, session_bytes
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.vectors.untold import IncompleteVectorError, join_type
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator, Cogrouped
from proof.oracle.windows.suppress import Room, Suppress
from proof.oracle.windows.window_session import SessionWindowAggregate
from proof.oracle.windows.window_sliding import SlidingWindowAggregate
from proof.oracle.windows.window_time import TimeWindowAggregate, TimeWindows, UnlimitedWindows
from proof.oracle.windows.windowed import Emission, WindowAggregate

Params = Mapping[str, Any]


class Read(dict[str, Any]):
    """Parameters that remember which were asked for: one that nobody asks for is one that is not known here."""

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._asked = {"cache_max_bytes", "store", "emit_interval_ms", "optimization", "retention_ms"}
        # these are of inputs
        self._asked |= {"headers", "timestamp"}

    def __getitem__(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self:
            raise IncompleteVectorError(f"the recording does not tell its {name!r}")
        value = super().__getitem__(name)
        return join_type(value) if name in ("type", "type2") else value

    def get(self, name: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self._asked.add(name)
        return super().get(name, default)

    def check(self) -> None:
        """Raise where a parameter that says something was not asked for."""
        unknown = sorted(name for name in self.keys() - self._asked if dict.__getitem__(self, name))
        if unknown:
            raise IncompleteVectorError(f"unknown parameter {unknown[0]!r}")


def table(topology: Topology, params: Params, topic: str) -> Table:
    """A table source with its operations."""
    source = TableSource(
        topology,
        materialized=bool(params.get(f"{topic}_materialized")),
        history_ms=params.get(f"{topic}_versioned_ms"),
        cached=topology.caching,
    )
    topology.source(topic, source)
    return operations(topology, source, params.get(f"{topic}_ops", ()))


def stream(topology: Topology, topic: str) -> Node:
    """A stream source."""
    source = Node()
    topology.source(topic, source)
    return source


def operations(topology: Topology, parent: Table, ops: Sequence[Params]) -> Table:
    """A chain of table operations in order of construction."""
    node = parent
    for op in ops:
        node = _operation(topology, node, op)
    return node


def _operation(topology: Topology, parent: Table, op: Params) -> Table:
    materialized = bool(op.get("materialized"))
    match op["op"]:
        case "filter" | "filter_not" as name:
            node: Table = TableFilter(parent, even, negate=name == "filter_not", materialized=materialized)
        case "map_values":
            node = TableMapValues(parent, mapped, materialized=materialized)
        case "suppress":
            return Suppress(topology, parent, int(op["ms"]), room=room(op))
        case "to_table":
            source = TableSource(topology, materialized=materialized, cached=topology.caching)
            parent.feed(source)
            return source
        case unknown:
            raise IncompleteVectorError(f"unknown table operation {unknown!r}")
    return cached(topology, node) if materialized else node


def cached(topology: Topology, stored: Table) -> Table:
    """A table with a store of its own, behind the record cache where that is on."""
    if topology.caching:
        stored.enable_cache(topology)
    return stored


def room(spec: Params) -> Room | None:
    """The limits of a buffer that sends entries early; None where there are none."""
    limits = [spec.get(name) for name in ("max_records", "max_bytes")]
    records, size = (float("inf") if limit is None else limit for limit in limits)
    # what lies in state has four bytes more for each text
    return (
        None
        if limits == [None, None]
        else Room(records, size, size_of=lambda key, value: 8 + len(key) + len((value or "").encode()))
    )


def suppressed(topology: Topology, parent: Table, params: Params) -> Table:
    """A table behind suppress, if the parameters ask for it."""
    spec = params.get("suppress")
    if spec is None:
        return parent
    window = params.get("window")
    order = session_bytes if window == "session" else key_bytes
    if spec["until"] == "time_limit":
        return Suppress(topology, parent, int(spec["ms"]), key_order=order, room=room(spec))
    if spec["until"] != "window_closes" or window is None:
        raise IncompleteVectorError(f"cannot suppress until {spec['until']!r} here")
    wait = params.get("grace_ms", 0) + params.get("gap_ms", 0)
    strict = window in ("sliding", "session") and topology.semantics.repaired(17)
    length = params.get("size_ms", params.get("difference_ms", 0))
    return Suppress(topology, parent, wait + int(strict), window_ms=length, key_order=order)


def aggregated(topology: Topology, parent: Node, aggregate: Aggregator) -> Table:
    """An aggregate of a stream by its key."""
    return cached(topology, StreamAggregate(topology, parent, aggregate))


def aggregator(params: Params) -> Aggregator:
    """The aggregator by its name; the kinds that name none use log."""
    name = params.get("agg", "log")
    if name not in AGGREGATORS:
        raise IncompleteVectorError(f"unknown aggregate {name!r}")
    return AGGREGATORS[name]


def grouped(topology: Topology, parent: Table, params: Params) -> Table:
    """An aggregate of a table by what its values refer to."""
    groups = GroupTable(topology, parent, lambda _, value: (ref(value), payload(value)))
    return cached(topology, TableAggregate(topology, groups.topic, aggregator(params)))


def window_aggregate(
    topology: Topology, parent: Node, params: Params, aggregate: Aggregator, *cogrouped: Cogrouped
) -> WindowAggregate:
    """A windowed aggregate of any kind of window, of several streams together where more are given."""
    emission = Emission(
        on_close=params.get("emit", "update") == "close",
        interval_ms=params.get("emit_interval_ms", 0),
        retention_ms=params.get("retention_ms"),
        in_memory=params.get("store") == "in_memory",
    )
    grace = params.get("grace_ms", 0)
    match params["window"]:
        case "tumbling" | "hopping":
            size = params["size_ms"]
            spec = TimeWindows(size, params.get("advance_ms", size), grace)
            return TimeWindowAggregate(topology, parent, aggregate, spec, emission, *cogrouped)
        case "unlimited":
            start = UnlimitedWindows(params.get("start_ms", 0))
            return TimeWindowAggregate(topology, parent, aggregate, start, emission, *cogrouped)
        case "sliding":
            difference = params["difference_ms"]
            return SlidingWindowAggregate(
                topology, parent, aggregate, emission, *cogrouped, difference_ms=difference, grace_ms=grace
            )
        case "session":
            gap = params["gap_ms"]
            return SessionWindowAggregate(topology, parent, aggregate, emission, *cogrouped, gap_ms=gap, grace_ms=grace)
        case unknown:
            raise IncompleteVectorError(f"unknown window {unknown!r}")
