"""Kinds of aggregates without windows: of a grouped stream, and of a grouped table.

Owns their two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds import named
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params, history_of, remembered, stored
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator
from watersmeet.aggregates.user_defined import python

OF_STREAMS = ("count", "reduce", "log", "reset")
OF_TABLES = ("count", "reduce", "log", "set")


def _fold_of(names: tuple[str, ...], by_name: tuple[str, ...]) -> Any:
    def draw(choices: Choices, generation: str) -> Params:
        return {"fold": named.drawn(choices, names, by_name), **remembered(choices, generation)}

    return draw


def _value(key: Any) -> str | None:
    """What a row of any text brings to its group: the text without its first letter, null of the empty one."""
    return None if not key else key[1:]


def _counted(site: BuildSite, grouped: Any, params: Params) -> Any:
    """Counts as text, so that any operator may stand behind them."""
    shown = site.library.lift(str, "string")
    counted = grouped.count(store=site.store(params), history=history_of(params))
    return counted.map_values(shown, name=site.name)


def outputs_of(aggregate: Any, params: Params) -> list[Any]:
    """The output, and behind it what else keeps rows."""
    if named.is_named(params["fold"]):
        return [TableMapValues(aggregate, named.finish(params["fold"])), aggregate]
    return [TableMapValues(aggregate, str), aggregate] if params["fold"] == "count" else [aggregate]


def aggregator_of(fold: str) -> Aggregator:
    """The oracle's, by the fold that was drawn."""
    return named.aggregator(fold) if named.is_named(fold) else AGGREGATORS[fold]


def _steps(site: BuildSite, fold: Aggregator, *, takes_back: bool) -> tuple[Any, ...]:
    """Adder and, of a table, subtractor: of (aggregate, value) for a reduce, else of (value, aggregate)."""
    functions = [fold.add, fold.subtract] if takes_back else [fold.add]
    if fold.initial is None:
        return tuple(python(site.shape.plain(function)) for function in functions if function is not None)
    return tuple(python(site.shape.plain(_swapped(function))) for function in functions if function is not None)


def _swapped(function: Any) -> Any:
    return lambda value, aggregate: function(aggregate, value)


def folded(site: BuildSite, grouped: Any, params: Params, *, takes_back: bool) -> list[Any]:
    """The aggregate of what is grouped, by the fold that was drawn."""
    if params["fold"] == "count":
        return [_counted(site, grouped, params)]
    if named.is_named(params["fold"]):
        kept: Any = {"store": site.store(params), "history": history_of(params)}
        return [named.handles(site.library, grouped, params["fold"], name=site.name, **kept)]
    fold = AGGREGATORS[params["fold"]]
    steps = _steps(site, fold, takes_back=takes_back)
    options: Any = {"name": site.name, "store": site.store(params), "history": history_of(params)}
    if fold.initial is None:
        return [grouped.reduce(*steps, **options)]
    return [grouped.aggregate(site.shape.initial(fold.initial), *steps, **options)]


def _stream(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    return folded(site, inputs[0].group_by_key(), params, takes_back=False)


def _stream_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    history = params.get("history")
    aggregate = StreamAggregate(site.topology, inputs[0], aggregator_of(params["fold"]), history_ms=history)
    return outputs_of(aggregate, params)


def cogrouped_folds() -> tuple[Aggregator, Aggregator]:
    """What two cogrouped streams do to one aggregate."""
    fold = AGGREGATORS["log"]
    assert fold.subtract is not None, "a log is taken back, too"
    return fold, replace(fold, add=fold.subtract)


def cogrouped(site: BuildSite, streams: list[Any]) -> Any:
    """Two streams, cogrouped."""
    one, other = (python(site.shape.plain(_swapped(fold.add))) for fold in cogrouped_folds())
    first, second = (stream.group_by_key() for stream in streams)
    return first.cogroup(one).cogroup(second, other)


def _cogroup(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    initial = cogrouped_folds()[0].initial
    assert initial is not None, "a log begins with something"
    begin = site.shape.initial(initial)
    return [cogrouped(site, inputs).aggregate(begin, name=site.name, store=site.store(params))]


def _cogroup_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    one, other = cogrouped_folds()
    return [StreamAggregate(site.topology, inputs[0], one, (inputs[1], other))]


def _table(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    group, value = site.library.lift(text.referrer(site.keys), site.keys), site.library.lift(_value, "string")
    grouped = inputs[0].group_by(lambda row: (group(row), value(row)), name=f"{site.name}-group")
    return folded(site, grouped, params, takes_back=True)


def _table_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    referrer = text.referrer(site.keys)
    groups = GroupTable(site.topology, inputs[0], lambda _, value: (referrer(value), _value(value)))
    return grouped_node(site, groups, params)


def grouped_node(site: OracleSite, groups: GroupTable, params: Params) -> list[Any]:
    """The aggregate of a grouped table, by the fold that was drawn."""
    history = params.get("history")
    aggregate = TableAggregate(site.topology, groups.topic, aggregator_of(params["fold"]), history_ms=history)
    return outputs_of(aggregate, params)


CURRENT = ("current",)
KINDS: dict[str, OperatorKind] = {
    "stream_aggregate": OperatorKind(
        ("stream",), ("table",), _stream, _stream_node, _fold_of(OF_STREAMS, named.OF_STREAMS), weight=6
    ),
    "cogroup": OperatorKind(
        ("stream",) * 2, ("table",), _cogroup, _cogroup_node, stored, weight=3, generations=CURRENT
    ),
    "table_aggregate": OperatorKind(
        ("table",),
        ("table",),
        _table,
        _table_node,
        _fold_of(OF_TABLES, named.OF_TABLES),
        weight=6,
        deferred=True,
        generations=CURRENT,
    ),
}
