"""Kinds of windowed aggregates, and of what is done to tables whose keys are structs of key and window.

Owns their two constructions. Such a table has a shape of its own, "windowed": only what takes any key may stand behind
it, and joins with its like; a new key leads back among the others. Law: as in `kinds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proof.histories import calendar
from proof.histories.kinds import aggregates, named, tables
from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params, stored
from proof.oracle.graph import MapRecord
from proof.oracle.tables.table import TableSource
from proof.oracle.windows.aggregate import GroupTable
from proof.oracle.windows.aggregation import AGGREGATORS, Cogrouped
from proof.oracle.windows.window_session import SessionWindowAggregate
from proof.oracle.windows.window_sliding import SlidingWindowAggregate
from proof.oracle.windows.window_time import TimeWindowAggregate
from proof.oracle.windows.window_time import TimeWindows as OracleTimeWindows
from proof.oracle.windows.window_time import UnlimitedWindows as OracleUnlimitedWindows
from proof.oracle.windows.windowed import Emission
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

FOLDS = ("count", "reduce", "log", "reset")


def _params(choices: Choices, generation: str) -> Params:
    """Windows of few sizes, so that two tables have some in common."""
    drawn = {
        "windows": choices.pick(("tumbling", "hopping", "sliding", "session", "tumbling", "hopping", "unlimited")),
        "size": choices.pick((5, 10, 10, 20)),
        "grace": choices.pick((0, 0, 3, 30)),
        "close": choices.chance(40),
        "fold": named.drawn(choices, FOLDS, named.OF_STREAMS),
        **stored(choices, generation),
    }
    # what never closes cannot be emitted on close
    return {**drawn, "close": drawn["close"] and drawn["windows"] != "unlimited"}


def _on_close(params: Params) -> bool:
    return bool(params["close"])


def _cogroup_params(choices: Choices, generation: str) -> Params:
    return {**_params(choices, generation), "fold": "log"}


def _windows(params: Params) -> Any:
    size, grace = params["size"], params["grace"]
    match params["windows"]:
        case "sliding":
            return SlidingWindows(size, grace)
        case "session":
            return SessionWindows(size, grace)
        case "unlimited":
            return UnlimitedWindows(grace)
        case "calendar":
            return calendar.windows(params)
        case kind:
            return TimeWindows(size, _advance(kind, size), grace)


def _advance(kind: str, size: int) -> int:
    return size if kind == "tumbling" else (size + 1) // 2


def _aggregate(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    grouped = inputs[0].group_by_key().windowed_by(_windows(params)).emit_strategy(EmitStrategy(params["close"]))
    if params["fold"] == "count":
        return [grouped.count(store=site.store(params)).map_values(site.library.lift(str, "string"), name=site.name)]
    if named.is_named(params["fold"]):
        return [named.handles(site.library, grouped, params["fold"], name=site.name, store=site.store(params))]
    fold, options = AGGREGATORS[params["fold"]], {"name": site.name, "store": site.store(params)}
    plain = site.shape.plain
    if fold.initial is None:
        return [grouped.reduce(python(plain(fold.add)), **options)]
    steps = [python(plain(lambda value, aggregate: fold.add(aggregate, value)))]
    if params["windows"] == "session":
        assert fold.merge is not None, "a session aggregate needs a merger"
        steps.append(python(plain(fold.merge)))
    return [grouped.aggregate(site.shape.initial(fold.initial), *steps, **options)]


def _aggregate_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    size, grace = params["size"], params["grace"]
    fold, others = aggregates.aggregator_of(params["fold"]), tuple[Cogrouped, ...]()
    if len(inputs) > 1:
        fold, other = aggregates.cogrouped_folds()
        others = ((inputs[1], other),)
    common = (site.topology, inputs[0], fold)
    emission = Emission(on_close=params["close"])
    node: Any
    match params["windows"]:
        case "sliding":
            node = SlidingWindowAggregate(*common, emission, *others, difference_ms=size, grace_ms=grace)
        case "session":
            node = SessionWindowAggregate(*common, emission, *others, gap_ms=size, grace_ms=grace)
        case "calendar":
            node = TimeWindowAggregate(*common, calendar.oracle(params), emission, *others)
        case "unlimited":
            node = TimeWindowAggregate(*common, OracleUnlimitedWindows(grace), emission, *others)
        case kind:
            windows = OracleTimeWindows(size, _advance(kind, size), grace)
            node = TimeWindowAggregate(*common, windows, emission, *others)
    return aggregates.outputs_of(node, params)


def _cogroup(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    streams = aggregates.cogrouped(site, inputs)
    grouped = streams.windowed_by(_windows(params)).emit_strategy(EmitStrategy(params["close"]))
    fold, _ = aggregates.cogrouped_folds()
    assert fold.merge is not None, "sessions are merged"
    assert fold.initial is not None, "a log begins with something"
    shape = site.shape
    steps = [python(shape.plain(fold.merge))] if params["windows"] == "session" else []
    return [grouped.aggregate(shape.initial(fold.initial), *steps, name=site.name, store=site.store(params))]


def _stream(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = site.library.lift(text.referrer(site.keys), site.keys)
    return [inputs[0].to_stream(name=f"{site.name}-stream").select_key(selector, name=site.name)]


def _stream_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    selector = text.referrer(site.keys)
    return [MapRecord(inputs[0], lambda record: replace(record, key=selector(record.value))).moves()]


def _group_params(choices: Choices, generation: str) -> Params:
    """Groups by what a value refers to, or the windows of each key together."""
    return {**_GROUP.draw(choices, generation), "by": choices.pick(("value", "key"))}


def _group(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    if params["by"] == "value":
        return _GROUP.handles(site, inputs, params)
    key_of = site.builder._construction.functions.field
    grouped = inputs[0].group_by(lambda key, value: (key_of(key, "key"), value), name=f"{site.name}-group")
    return aggregates.folded(site, grouped, params, takes_back=True)


def _group_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    if params["by"] == "value":
        return _GROUP.nodes(site, inputs, params)
    groups = GroupTable(site.topology, inputs[0], lambda windowed, value: (windowed.key, value))
    return aggregates.grouped_node(site, groups, params)


def _as_table(inputs: list[Any]) -> list[Any]:
    return [each.to_stream().to_table() for each in inputs]


def _as_table_nodes(site: OracleSite, inputs: list[Any]) -> list[Any]:
    nodes = [TableSource(site.topology) for _ in inputs]
    for node, above in zip(nodes, inputs, strict=True):
        above.feed(node)
    return nodes


def _filter(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    method = inputs[0].filter_not if params["negate"] else inputs[0].filter
    return [method(site.library.lift(text.even, "boolean"), name=site.name)]


def _map_values(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    return [inputs[0].map_values(site.library.lift(text.mapped, "string"), name=site.name)]


def _negate(choices: Choices, _: str) -> Params:
    return {"negate": choices.chance(40)}


WINDOWED, TABLE, STREAM = ("windowed",), ("table",), ("stream",)
_FILTER, _MAPPED = (tables.KINDS[name] for name in ("table_filter", "table_map_values"))
_GROUP = aggregates.KINDS["table_aggregate"]
CURRENT = ("current",)
KINDS: dict[str, OperatorKind] = {
    "window_aggregate": OperatorKind(
        STREAM,
        WINDOWED,
        _aggregate,
        _aggregate_node,
        _params,
        weight=10,
        timed=True,
        holds=_on_close,
        generations=CURRENT,
    ),
    "window_cogroup": OperatorKind(
        STREAM * 2,
        WINDOWED,
        _cogroup,
        _aggregate_node,
        _cogroup_params,
        weight=3,
        timed=True,
        holds=_on_close,
        generations=CURRENT,
    ),
    "windowed_filter": OperatorKind(WINDOWED, WINDOWED, _filter, _FILTER.nodes, _negate, weight=1, generations=CURRENT),
    "windowed_map_values": OperatorKind(WINDOWED, WINDOWED, _map_values, _MAPPED.nodes, weight=1, generations=CURRENT),
    "windowed_stream": OperatorKind(WINDOWED, STREAM, _stream, _stream_node, weight=4, generations=CURRENT),
    "windowed_group": replace(_GROUP, takes=WINDOWED, handles=_group, nodes=_group_node, draw=_group_params),
    "windowed_table_group": replace(
        _GROUP,
        takes=WINDOWED,
        handles=lambda site, inputs, params: _GROUP.handles(site, _as_table(inputs), params),
        nodes=lambda site, inputs, params: _GROUP.nodes(site, _as_table_nodes(site, inputs), params),
        weight=2,
    ),
}
