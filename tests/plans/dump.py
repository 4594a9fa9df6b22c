"""Plans as text: what is kept in `*.txt` beside the tests, so that a change of the rewrite shows in a diff.

A topology that has a name is kept whole: its description, then its flows, edges, operators and outlets, a line each,
of which a fact is left out where it has its usual value. Of the many others a line each: the digests of both texts.
Which field a fact lies in is said here alone, so the texts outlive a change of the classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from watersmeet._engine.exchange import (
    FlowColumns,
    LookupOrigin,
    Outlet,
    counted_outlets,
    direct_outlet,
    edge_outlet,
    exit_outlets,
)
from watersmeet._plan.explain import explain
from watersmeet._plan.physical import Edge, Flow, Operator, Physical, with_record_cache
from watersmeet.api.topology import Topology

FLOW = {
    "node": None,
    "stage": 0,
    "parent": None,
    "root": None,
    "operator": None,
    "path": 0,
    "slot": 0,
    "fan": 0,
    "entry": 0,
    "store_path": None,
    "store_slot": 0,
    "carries_old": False,
    "suppress": False,
    "drops_null_key": False,
    "silent": False,
    "drops_silent": False,
}
EDGE = {
    "flow": None,
    "path": None,
    "target": None,
    "side": None,
    "drops_null_key": False,
    "drops_null_value": False,
    "visible": False,
    "stored_ts": False,
    "keeps_time": False,
    "tells_reach": False,
    "old": False,
    "silent": False,
    "drops_silent": False,
    "direct": False,
    "broadcast": False,
}
OPERATOR = {
    "node": None,
    "stem": None,
    "level": None,
    "how": "inner",
    "generation": "current",
    "suppress": (False, False),
    "emits_old": False,
    "emits_visible": False,
    "emits_stored_ts": False,
    "emits_views": False,
    "shared_root": False,
    "slot": 0,
    "fan": 0,
    "window": (0, 0, 0),
    "timing": "none",
    "told_by": (),
    "together": (),
    "domains": False,
    "hold_back": 0,
    "views": (),
    "stores": (),
}
OUTLET = {
    "node": None,
    "target": None,
    "key": None,
    "value": None,
    "old": None,
    "active": None,
    "moves": (),
    "visible": None,
    "visible_from_root": False,
    "stored_ts": False,
    "drops_null_key": False,
    "counts_null_key": True,
    "drops_null_value": False,
    "silent": None,
    "drops_silent": False,
    "keeps_time": False,
    "reach_port": None,
    "extras": (),
    "hash": None,
    "counts_null": None,
    "shard_by": None,
    "broadcast": False,
}


def whole(name: str, topology: Topology) -> str:
    """The texts of a topology under its name."""
    plan = "\n".join(plan_lines(topology.physical))
    return f"== {name}\n{explain(topology.physical)}{plan}\n"


def digests(name: str, topology: Topology) -> str:
    """A line with the digests of the texts of a topology, and its name."""
    plan = "\n".join(plan_lines(topology.physical))
    return f"{_digest(explain(topology.physical))} {_digest(plan)} {name}\n"


def plan_lines(physical: Physical) -> Iterator[str]:
    """All that a plan in levels says, a line a thing."""
    yield f"levels {physical.levels}, slots {physical.slots}, ordered exit {physical.ordered_exit}"
    yield from (f"flow {flow.id}: {_facts(flow, FLOW)}" for flow in physical.flows)
    yield from (f"edge {edge.id}: {_facts(edge, EDGE)}{_carried(physical, edge)}" for edge in physical.edges)
    cached = with_record_cache(physical).operators
    for operator in physical.operators:
        yield f"operator {operator.id}: {_facts(operator, OPERATOR)} {_types(physical, operator)}"
        yield f"  one time: {_facts(physical.with_one_domain().operators[operator.id], {'told_by': ()})}"
        yield f"  cached: {cached[operator.id].cached}"
    for outlet in _outlets(physical):
        yield f"outlet {outlet.port}: {_facts(outlet, OUTLET)}"
    yield from (f"sink {sink}: flow {flow}" for flow, sink in physical.sink_edges)
    stores = ((store, operator.id) for operator in physical.operators for store in operator.stores)
    yield from (f"store {name}: {(operator, name)}" for name, operator in dict(stores).items())


def _outlets(physical: Physical) -> Iterator[Any]:
    for stage in range(physical.levels + 1):
        yield from (_said(physical, edge, edge_outlet(physical, edge, _naming)) for edge in physical.stage_edges(stage))
        yield from exit_outlets(physical, stage, _naming)
        yield from counted_outlets(physical, stage, _naming)
    for operator in physical.operators:
        yield from (direct_outlet(physical, edge) for edge in physical.direct_edges(operator))


def _said(physical: Physical, edge: Edge, outlet: Outlet) -> Outlet:
    """The outlet, saying also where it is not asked for that it would be seen from the root's own place."""
    from_root = physical.flows[edge.flow].store_path is None
    assert outlet.seen is None or outlet.seen.from_root == from_root
    return replace(outlet, seen=LookupOrigin(None, from_root)) if outlet.seen is None else outlet  # type: ignore[arg-type]


def _naming(flow: Flow) -> FlowColumns:
    return FlowColumns("key", "value", "old", None, f"index{flow.id}", "silent")


def _carried(physical: Physical, edge: Edge) -> str:
    side = edge.reads
    carries = " carries" if side.function is not None else ""
    return carries + (f" reason={side.null_reason}" if side.null_reason else "")


def _types(physical: Physical, operator: Operator) -> str:
    reads = physical.reads(operator)
    carried = [f"{name} {_text(kind)}" for name, kind in reads.extras]
    return f"key {_text(reads.key)} values [{', '.join(map(_text, reads.values))}] extras [{', '.join(carried)}]"


def _text(kind: Any) -> str:
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind)


def _facts(thing: object, usual: Mapping[str, object]) -> str:
    """The facts that are not as usual; what has none of that name is as usual."""
    said = ((name, _fact(thing, name, default)) for name, default in usual.items())
    return " ".join(f"{name}={_plain(value)}" for name, value in said if value != usual[name])


PLACES = {
    "visible": "seen.moves",
    "visible_from_root": "seen.from_root",
    "counts_null_key": "ends.counts_null_key",
    "keeps_time": "ends.keeps_time",
    "counts_null": "ends.counts_null",
    "hash": "route.hash",
    "shard_by": "route.shard_by",
    "broadcast": "route.broadcast",
    "reach_port": "route.bounds_port",
}
"""Where an outlet has a fact, if not by its name."""
FIELDS = {"tells_reach": "broadcasts_bounds"}
"""The field of a fact, where the two have different names."""
COLUMNS = {
    **{f"emits_{column}": column for column in ("old", "visible", "stored_ts")},
    **{column: column for column in ("visible", "stored_ts", "old", "silent")},
    "emits_views": "silent",
    "carries_old": "old",
}
"""By fact of a flow, an edge or an operator the column that its rows bring."""


def _fact(thing: object, name: str, default: object) -> object:
    if isinstance(thing, Outlet) and name in PLACES:
        part, field = PLACES[name].split(".")
        return getattr(getattr(thing, part), field, default)
    if name.startswith("drops_"):
        ends = thing.ends.rows if isinstance(thing, Outlet) else getattr(thing, "ends", ())
        return name.removeprefix("drops_") in ends
    if isinstance(thing, (Flow, Edge, Operator)) and name in COLUMNS:
        return COLUMNS[name] in (thing.emits if isinstance(thing, Operator) else thing.columns)
    if name == "timing":
        time = getattr(thing, "time", None)
        return default if time is None else "every" if time.every else "latest"
    parts = (thing, *(getattr(thing, part, None) for part in ("params", "time", "reads")))
    field = FIELDS.get(name, name)
    return next((getattr(part, field) for part in parts if hasattr(part, field)), default)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if hasattr(value, "factor"):
        index = f"+{value.index}*{value.factor}" if value.index else ""
        return f"{value.slot}:{value.constant}{index}"  # type: ignore[attr-defined]
    return str(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
