"""Kinds of suppress: of any table until a time limit, of tables by windows until these close, too.

Owns their two constructions. Where it is not known of which windows a table's keys are, behind a join, and where these
never close, the limit of time is taken. What sends records early when it is full stands with a limit of time, too; its
buffer is that of one shard (row 33 of section A), so a case of it has one. Law: as in `kinds`.
"""

from __future__ import annotations

import struct
from typing import Any

from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params
from proof.oracle.records import Windowed, key_bytes
from proof.oracle.windows.suppress import Room, Suppress
from watersmeet.windows import BufferConfig, Suppressed, UnlimitedWindows

UNBOUNDED = BufferConfig.unbounded()


def _limit(choices: Choices, _generation: str) -> Params:
    limits = {"records": choices.pick((0, 1, 2, 3))} if choices.chance(30) else {}
    return {"ms": choices.pick((0, 1, 5, 20)), **limits}


def _buffer(params: Params) -> BufferConfig:
    if "bytes" not in params:
        return BufferConfig.max_records(params["records"]) if "records" in params else UNBOUNDED
    limited = BufferConfig.max_bytes(params["bytes"])
    return limited.with_max_records(params["records"]) if "records" in params else limited


def _strict(params: Params) -> BufferConfig:
    """The buffer, which stops the query when it is full, if it is to."""
    return _buffer(params).shut_down_when_full() if params.get("refuses") else _buffer(params)


def _room(site: OracleSite, params: Params) -> Room | None:
    if not {"records", "bytes"} & params.keys():
        return None
    records, size = (params.get(name, float("inf")) for name in ("records", "bytes"))
    return Room(records, size, bool(params.get("refuses")), lambda key, value: 4 + len(key) + site.shape.size(value))


def _windowed_limit(choices: Choices, generation: str) -> Params:
    return {**_limit(choices, generation), "close": choices.chance(60)}


def _suppress(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    return [inputs[0].suppress(Suppressed(params["ms"], _strict(params)), name=site.name)]


def _suppress_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return [Suppress(site.topology, inputs[0], params["ms"], room=_room(site, params))]


def _windowed(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    closes = params["close"] and not isinstance(inputs[0]._windows, UnlimitedWindows)
    limited = Suppressed(params["ms"], _strict(params))
    final = Suppressed.until_window_closes(_strict(params) if params.get("refuses") else UNBOUNDED)
    until = final if closes else limited
    return [inputs[0].suppress(until, name=site.name)]


def _windowed_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    aggregate = aggregate_above(inputs[0])
    order = _struct_bytes if aggregate is None else aggregate.serialized
    if aggregate is None or not params["close"] or not aggregate.closes:
        return [Suppress(site.topology, inputs[0], params["ms"], key_order=order, room=_room(site, params))]
    wait = aggregate.last_moment_ms() + 1 if site.topology.semantics.repaired(17) else aggregate.wait_ms()
    room = _room(site, params) if params.get("refuses") else None
    return [Suppress(site.topology, inputs[0], wait, window_ms=aggregate.length_ms(), key_order=order, room=room)]


def aggregate_above(node: Any) -> Any:
    """The aggregate whose keys a table has, through steps that leave keys as they are; None: there is none."""
    while not hasattr(node, "serialized"):
        if not hasattr(node, "_parent"):
            return None
        node = node._parent
    return node


def _struct_bytes(key: Windowed) -> bytes:
    """Each field behind a flag and its length."""
    fields = (key_bytes(key.key), struct.pack(">q", key.start), struct.pack(">q", key.end))
    return b"".join(struct.pack(">bi", 1, len(field)) + field for field in fields)


TABLE, WINDOWED = ("table",), ("windowed",)
CURRENT = ("current",)
KINDS: dict[str, OperatorKind] = {
    "suppress": OperatorKind(
        TABLE, TABLE, _suppress, _suppress_node, _limit, weight=4, timed=True, holds=lambda _: True, generations=CURRENT
    ),
    "windowed_suppress": OperatorKind(
        WINDOWED,
        WINDOWED,
        _windowed,
        _windowed_node,
        _windowed_limit,
        weight=5,
        timed=True,
        holds=lambda _: True,
        generations=CURRENT,
    ),
}
