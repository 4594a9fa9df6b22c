"""Kinds of operators of tables: the source, filter, map_values, to_stream, the join on the primary key.

Owns their two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

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
from proof.oracle.graph import Node
from proof.oracle.tables.multi_join import MultiJoin
from proof.oracle.tables.table import TableSource
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.tables.table_table import table_table_join


def _source_node(site: OracleSite, _: list[Any], params: Params) -> list[Any]:
    table = TableSource(site.topology, materialized=bool(params.get("stored")), history_ms=params.get("history"))
    site.topology.source(site.name, table)
    return [table]


def _source(site: BuildSite, _: list[Any], params: Params) -> list[Any]:
    options: Any = {"store": site.store(params), "history": history_of(params), **options_of(site, params)}
    return [site.builder.table(site.name, **site.formats(), **options)]


def _filter_params(choices: Choices, generation: str) -> Params:
    return {"negate": choices.chance(40), **stored(choices, generation)}


def _filter(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    method = inputs[0].filter_not if params["negate"] else inputs[0].filter
    return [method(site.library.lift(text.even, "boolean"), name=site.name, store=site.store(params))]


def _filter_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    def holds(_key: Any, value: str) -> bool:
        return bool(text.even(value))

    kept = bool(params.get("stored"))
    return [TableFilter(inputs[0], holds, negate=params["negate"], materialized=kept, topology=site.topology)]


def _map_values(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    mapper = site.library.lift(text.mapped, "string")
    return [inputs[0].map_values(mapper, name=site.name, store=site.store(params))]


def _map_values_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return [TableMapValues(inputs[0], text.mapped, materialized=bool(params.get("stored")), topology=site.topology)]


def _to_stream_node(_site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    node = Node()
    inputs[0].feed(node)
    return [node]


def _join_params(choices: Choices, generation: str) -> Params:
    return {"how": choices.pick(("inner", "left", "outer")), **stored(choices, generation)}


def _join(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    join = getattr(inputs[0], method_of(params["how"]))
    joiner = site.library.lift(text.plus, "string")
    return [join(inputs[1], joiner, name=site.name, store=site.store(params))]


def _join_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    sides, kept = (inputs[0], inputs[1]), bool(params.get("stored"))
    return [table_table_join(site.topology, sides, params["how"], text.plus, materialized=kept)]


def _multi_params(choices: Choices, generation: str) -> Params:
    hows = ["outer"] * 2 if choices.chance(20) else [choices.pick(("inner", "left")) for _ in range(2)]
    return {"hows": hows, **stored(choices, generation)}


def _multi_join(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    joiner = site.library.lift(text.all_plus, "string")
    options = {"how": params["hows"], "name": site.name, "store": site.store(params)}
    return [inputs[0].multi_join(inputs[1:], joiner, **options)]


def _multi_node(_: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return [MultiJoin(inputs, params["hows"], text.all_plus)]


STREAM, TABLE = ("stream",), ("table",)
KINDS: dict[str, OperatorKind] = {
    "table": OperatorKind((), TABLE, _source, _source_node, remembered),
    "table_filter": OperatorKind(TABLE, TABLE, _filter, _filter_node, _filter_params),
    "table_map_values": OperatorKind(TABLE, TABLE, _map_values, _map_values_node, stored),
    "to_stream": OperatorKind(
        TABLE,
        STREAM,
        lambda site, inputs, _: [inputs[0].to_stream(name=site.name)],
        _to_stream_node,
    ),
    "table_table": OperatorKind(TABLE * 2, TABLE, _join, _join_node, _join_params, weight=8),
    "multi_join": OperatorKind(
        TABLE * 3, TABLE, _multi_join, _multi_node, _multi_params, weight=3, generations=("current",)
    ),
    "table_to": OperatorKind(
        TABLE,
        (),
        sink,
        sink_node,
        weight=0,
    ),
}
