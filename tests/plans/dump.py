"""Plans as text: what is kept in `*.txt` beside the tests, so that a change of the rewrite shows in a diff.

A topology that has a name is kept whole: its description, then its flows, edges, operators and outlets, a line each,
of which a fact is left out where it has its usual value. Of the many others a line each: the digests of both texts.
Which field a fact lies in is said here alone, so the texts outlive a change of the classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from millpond._engine.outlets import FlowColumns, counted_outlets, direct_outlet, edge_outlet, exit_outlets
from millpond._plan.physical import Flow, Operator, Physical
from millpond._plan.record_cache import with_record_cache
from millpond._plan.sides import extra_function, extra_reason, extras_of, key_of, values_of
from millpond.topology import Topology

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
    return f"== {name}\n{topology.describe()}{plan}\n"


def digests(name: str, topology: Topology) -> str:
    """A line with the digests of the texts of a topology, and its name."""
    plan = "\n".join(plan_lines(topology.physical))
    return f"{_digest(topology.describe())} {_digest(plan)} {name}\n"


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
    yield from (f"store {name}: {place}" for name, place in physical.store_of.items())


def _outlets(physical: Physical) -> Iterator[Any]:
    for stage in range(physical.levels + 1):
        yield from (edge_outlet(physical, edge, _naming) for edge in physical.stage_edges(stage))
        yield from exit_outlets(physical, stage, _naming)
        yield from counted_outlets(physical, stage, _naming)
    for operator in physical.operators:
        yield from (direct_outlet(physical, edge) for edge in physical.direct_edges(operator))


def _naming(flow: Flow) -> FlowColumns:
    return FlowColumns("key", "value", "old", None, f"index{flow.id}", "silent")


def _carried(physical: Physical, edge: Any) -> str:
    carries = " carries" if extra_function(physical, edge) is not None else ""
    reason = extra_reason(physical, edge)
    return carries + (f" reason={reason}" if reason else "")


def _types(physical: Physical, operator: Operator) -> str:
    key, values, extras = (of(physical, operator) for of in (key_of, values_of, extras_of))
    carried = [f"{name} {_text(kind)}" for name, kind in extras]
    return f"key {_text(key)} values [{', '.join(map(_text, values))}] extras [{', '.join(carried)}]"


def _text(kind: Any) -> str:
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind)


def _facts(thing: object, usual: Mapping[str, object]) -> str:
    """The facts that are not as usual; what has none of that name is as usual."""
    said = ((name, _fact(thing, name, default)) for name, default in usual.items())
    return " ".join(f"{name}={_plain(value)}" for name, value in said if value != usual[name])


def _fact(thing: object, name: str, default: object) -> object:
    return getattr(thing, name, default)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if hasattr(value, "factor"):
        index = f"+{value.index}*{value.factor}" if value.index else ""
        return f"{value.slot}:{value.constant}{index}"  # type: ignore[attr-defined]
    return str(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
