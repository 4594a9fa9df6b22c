"""Kinds of operators of streams: sources, sinks, stateless ones, to_table, the join with a table.

Owns their two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import (
    BuildSite,
    OperatorKind,
    OracleSite,
    Params,
    history_of,
    method_of,
    options_of,
    remembered,
    sink,
    sink_node,
    stored,
)
from proof.oracle.graph import MapRecord, Node, Topology
from proof.oracle.records import Record
from proof.oracle.streams.distinct import distinct
from proof.oracle.streams.expiry import expiry
from proof.oracle.streams.map_async import MapAsync
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.table import TableSource

PREDICATES = {"even": text.even, "long": text.long}
MODERN = ("current", "spurious")


class Spread(Node):
    """Forwards one record for each piece of a record's value."""

    def __init__(self, parent: Node, key_of: Callable[[str | None], Any] | None = None) -> None:
        """Read this parent; the pieces go under its record's key, unless a function says under which."""
        super().__init__()
        self._key_of = key_of
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Forward the pieces, each to the end before the next."""
        for value in text.pieces(record.value) or ():
            key = record.key if self._key_of is None else self._key_of(value)
            self.forward(replace(record, key=key, value=value))


def source(topology: Topology, name: str) -> Node:
    """A stream source."""
    node = Node()
    topology.source(name, node)
    return node


def _predicate(choices: Choices, _generation: str) -> Params:
    return {"holds": choices.pick(tuple(PREDICATES)), "negate": choices.chance(40)}


def _lifted(site: BuildSite, params: Params, name: str = "holds") -> Any:
    return site.library.lift(PREDICATES[params[name]], "boolean")


def _filter(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    method = inputs[0].filter_not if params["negate"] else inputs[0].filter
    return [method(_lifted(site, params), name=site.name)]


def _filter_node(_site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    holds = PREDICATES[params["holds"]]
    return [MapRecord(inputs[0], lambda r: r if bool(holds(r.value)) != params["negate"] else None)]


def _map_values(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    if params.get("asks"):
        return [inputs[0].map_async(text.answer, returns="string", concurrency=params["asks"], name=site.name)]
    mapper = site.library.lift(text.mapped, "string")
    if params.get("sees"):
        timed, field = site.library.lift(text.with_time, "string"), site.builder._construction.functions.field
        mapper = lambda value, record: timed(value, text.as_number(field(record, "timestamp")))  # noqa: E731
    return [inputs[0].map_values(mapper, name=site.name)]


def _map_values_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    if params.get("asks"):
        return [MapAsync(site.topology, inputs[0], text.mapped)]
    if params.get("sees"):
        return [MapRecord(inputs[0], lambda record: replace(record, value=text.with_time(record.value, record.ts)))]
    return [MapRecord(inputs[0], lambda record: replace(record, value=text.mapped(record.value)))]


def _select_key(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = site.library.lift(text.referrer(site.keys), site.keys)
    return [inputs[0].select_key(selector, name=site.name)]


def _select_key_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = text.referrer(site.keys)
    return [MapRecord(inputs[0], lambda record: replace(record, key=selector(record.value))).moves()]


def _select_one(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = site.library.lift(text.one_key(site.keys), site.keys)
    return [inputs[0].select_key(selector, name=site.name)]


def _select_one_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = text.one_key(site.keys)
    return [MapRecord(inputs[0], lambda record: replace(record, key=selector(record.value))).moves()]


def _look_at(_key: Any, value: Any) -> None:
    """Look at a value, which is of any type."""
    text.even(str(value))


def _map(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = site.library.lift(text.referrer(site.keys), site.keys)
    mapper = site.library.lift(text.mapped, "string")
    return [inputs[0].map(lambda value: (selector(value), mapper(value)), name=site.name)]


def _map_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = text.referrer(site.keys)
    return [MapRecord(inputs[0], lambda r: replace(r, key=selector(r.value), value=text.mapped(r.value))).moves()]


def _flat_map(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    kind = {"long": "bigint"}.get(site.keys, site.keys)
    mapper = site.library.lift(text.pairs(site.keys), f"array<struct<key:{kind},value:string>>")
    return [inputs[0].flat_map(mapper, name=site.name)]


def _flat_map_values(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    return [inputs[0].flat_map_values(site.library.lift(text.pieces, "array<string>"), name=site.name)]


def _merge_node(_site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    merged = Node()
    for parent in inputs:
        parent.feed(merged)
    return [merged]


def _split_params(choices: Choices, _generation: str) -> Params:
    return {"first": choices.pick(("even", "long")), "rest": choices.chance(60)}


def _split(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    names = _branches(params)
    branches = {name: _lifted(site, {"holds": name}) for name in names}
    streams = inputs[0].split(branches, default="rest" if params["rest"] else None, name=site.name)
    return [streams[names[0]], streams["rest" if params["rest"] else names[1]]]


def _split_node(_site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    first, second = (PREDICATES[name] for name in _branches(params))

    def branch(record: Record) -> int:
        return 0 if first(record.value) else 1 if second(record.value) else 2

    def only(number: int) -> MapRecord:
        return MapRecord(inputs[0], lambda record: record if branch(record) == number else None)

    nodes = [only(number) for number in range(3)]
    return [nodes[0], nodes[2 if params["rest"] else 1]]


def _branches(params: Params) -> tuple[str, str]:
    return ("even", "long") if params["first"] == "even" else ("long", "even")


def _repartition_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    return [MapRecord(inputs[0], lambda r: r if site.relaxed or r.key is not None else None).moves()]


def _through_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    sink_node(site, inputs, params)
    return _repartition_node(site, inputs, params)


def _expiring_params(choices: Choices, generation: str) -> Params:
    return {**stored(choices, generation), "ttl": choices.pick((1, 5, 20)), "record": choices.chance(40)}


def _expiring(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    ttl, since = timedelta(milliseconds=params["ttl"]), "record" if params["record"] else "update"
    return [inputs[0].to_table(name=site.name, store=site.store(params), ttl=ttl, since=since)]


def _expiring_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    changes = expiry(site.topology, inputs[0], params["ttl"], of_record=params["record"])
    table = TableSource(site.topology, materialized=bool(params.get("stored")))
    changes.feed(table)
    return [table]


def _to_table_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    table = TableSource(site.topology, materialized=bool(params.get("stored")), history_ms=params.get("history"))
    inputs[0].feed(table)
    return [table]


def _join_type(choices: Choices, generation: str) -> Params:
    how = {"how": choices.pick(("inner", "left") if generation in MODERN else ("left",))}
    return {**how, "grace": choices.pick((0, 1, 4, 25))} if generation == "current" else how


def _join(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    join, table = getattr(inputs[0], method_of(params["how"])), inputs[1]
    grace = _grace(params, table._construction.history_of(table._node))
    kept = None if grace is None else timedelta(milliseconds=grace)
    return [join(table, site.library.lift(text.plus, "string"), grace=kept, name=site.name)]


def _join_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    grace = grace_of(params, inputs[1])
    return [StreamTableJoin(site.topology, inputs[0], inputs[1], params["how"], text.plus, grace_ms=grace)]


def grace_of(params: Params, table: Any) -> int | None:
    """The grace of a join with this node of the oracle's, where the table remembers as much."""
    return _grace(params, _history(table))


def _grace(params: Params, history: int | None) -> int | None:
    """The grace that was drawn, where the table remembers as much."""
    grace = params.get("grace")
    return None if grace is None or history is None or history < grace else int(grace)


def _history(table: Any) -> int | None:
    """The history of a table, or of what it is computed from."""
    if not table.versioned:
        return None
    while not hasattr(table, "history_ms"):
        table = table._parent
    return int(table.history_ms)


def _distinct_params(choices: Choices, _generation: str) -> Params:
    return {"within": choices.pick((None, 1, 5, 20, 60)), "by": choices.pick(("key", "key", "reference", "value"))}


def _extractor(params: Params, keys: str) -> Any:
    return text.referrer(keys) if params["by"] == "reference" else lambda value: value


def _distinct(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    within = None if params["within"] is None else timedelta(milliseconds=params["within"])
    key = None
    if params["by"] != "key":
        kind = site.keys if params["by"] == "reference" else "text"
        key = site.library.lift(_extractor(params, site.keys), kind)
    return [inputs[0].distinct(key, within=within, name=site.name)]


def _distinct_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    key = None if params["by"] == "key" else _extractor(params, site.keys)
    return [distinct(site.topology, inputs[0], params["within"], key)]


STREAM, TABLE = ("stream",), ("table",)
KINDS: dict[str, OperatorKind] = {
    "stream": OperatorKind(
        (),
        STREAM,
        lambda site, _, params: [site.builder.stream(site.name, **site.formats(), **options_of(site, params))],
        lambda site, _, __: [source(site.topology, site.name)],
    ),
    "filter": OperatorKind(STREAM, STREAM, _filter, _filter_node, _predicate),
    "map_values": OperatorKind(STREAM, STREAM, _map_values, _map_values_node),
    "select_key": OperatorKind(STREAM, STREAM, _select_key, _select_key_node),
    "select_one": OperatorKind(STREAM, STREAM, _select_one, _select_one_node, weight=1),
    "flat_map_values": OperatorKind(STREAM, STREAM, _flat_map_values, lambda _, inputs, __: [Spread(inputs[0])]),
    "map": OperatorKind(STREAM, STREAM, _map, _map_node, weight=1),
    "flat_map": OperatorKind(
        STREAM,
        STREAM,
        _flat_map,
        lambda site, inputs, _: [Spread(inputs[0], text.referrer(site.keys)).moves()],
        weight=1,
    ),
    "peek": OperatorKind(
        STREAM,
        STREAM,
        lambda site, inputs, _: [inputs[0].peek(_look_at, name=site.name)],
        lambda _site, inputs, _: [MapRecord(inputs[0], lambda record: record)],
        weight=1,
    ),
    "through": OperatorKind(
        STREAM,
        STREAM,
        lambda site, inputs, _: [inputs[0].through(site.name)],
        _through_node,
        weight=1,
        writes=True,
    ),
    "merge": OperatorKind(
        STREAM * 2,
        STREAM,
        lambda site, inputs, _: [inputs[0].merge(inputs[1], name=site.name)],
        _merge_node,
    ),
    "split": OperatorKind(STREAM, STREAM * 2, _split, _split_node, _split_params),
    "repartition": OperatorKind(
        STREAM,
        STREAM,
        lambda site, inputs, _: [inputs[0].repartition(name=site.name)],
        _repartition_node,
        weight=1,
    ),
    "to_table": OperatorKind(
        STREAM,
        TABLE,
        lambda site, inputs, params: [
            inputs[0].to_table(name=site.name, store=site.store(params), history=history_of(params))
        ],
        _to_table_node,
        remembered,
        weight=4,
    ),
    "expiring": OperatorKind(
        STREAM,
        TABLE,
        _expiring,
        _expiring_node,
        _expiring_params,
        weight=3,
        timed=True,
        holds=lambda _: True,
        generations=("current",),
    ),
    "stream_table": OperatorKind(
        STREAM + TABLE,
        STREAM,
        _join,
        _join_node,
        _join_type,
        weight=6,
        relaxes=lambda params, generation: params["how"] == "left" and generation == "current",
        holds=lambda params: params.get("grace", 0) > 0,
    ),
    "distinct": OperatorKind(
        STREAM,
        STREAM,
        _distinct,
        _distinct_node,
        _distinct_params,
        weight=4,
        timed=True,
        relaxes=lambda _params, _generation: True,
        generations=("current",),
    ),
    "to": OperatorKind(
        STREAM,
        (),
        sink,
        sink_node,
        weight=0,
    ),
}
