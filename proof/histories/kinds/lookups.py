"""Kinds of operators that look up another key than the record's own: foreign keys and global tables.

Owns their two constructions. Law: as in `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params, method_of, options_of, stored
from proof.oracle.records import Joiner, Key, Value
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.global_lookup import (
    GlobalLookup,
    GlobalTable,
    GlobalTableLookup,
    GlobalView,
    KeyMapper,
)
from proof.oracle.tables.many_to_many import ManyToManyJoin
from proof.oracle.tables.multi_join import MultiJoin
from proof.oracle.tables.one_to_many import OneToManyJoin
from proof.oracle.tables.table_filter import TableFilter
from proof.oracle.windows.aggregate import GroupTable, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS
from watersmeet.api.joins import rows_of
from watersmeet.api.tables import KTable


def _how(choices: Choices, generation: str) -> Params:
    return {"how": choices.pick(("inner", "left"))}


def _how_stored(choices: Choices, generation: str) -> Params:
    return {**_how(choices, generation), **stored(choices, generation)}


def _plus(site: BuildSite) -> Any:
    lifted = site.library.lift(text.plus, "string")
    return lambda left, right: lifted(left, right)


def _extractor(site: BuildSite) -> Any:
    return site.library.lift(text.referrer(site.keys), site.keys)


def _foreign_key(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    join = getattr(inputs[0], method_of(params["how"]))
    options = {"foreign_key": _extractor(site), "name": site.name, "store": site.store(params)}
    return [join(inputs[1], _plus(site), **options)]


def _foreign_key_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    extractor = text.referrer(site.keys)
    result = foreign_key_join(site.topology, inputs[0], inputs[1], params["how"], extractor, text.plus)
    if params.get("stored"):
        result.require_lookup()
    return [result]


def _one_to_many(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    combined = site.library.lift(text.both_keys(site.keys), site.keys)
    options = {"key": _extractor(site), "name": site.name, "store": site.store(params)}
    result_key = lambda prefix, suffix: combined(prefix, suffix)  # noqa: E731
    return [inputs[0].one_to_many_join(inputs[1], _plus(site), result_key=result_key, **options)]


def _one_to_many_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    one, many = inputs
    combined = text.both_keys(site.keys)
    refer = text.referrer(site.keys)
    return [OneToManyJoin(site.topology, many, one, refer, text.plus, result_key=lambda key: combined(*key))]


def _existing(left: Value, right: Value) -> Value:
    """The joiner of a semi join."""
    return left


def _missing(left: Value, right: Value) -> Value:
    """The joiner of an anti join."""
    return left if right is None else None


def _either(left: Value, right: Value) -> Value:
    """The joiner of a union."""
    return right if left is None else left


SETS: dict[str, tuple[str, Joiner]] = {
    "semi_join": ("inner", _existing),
    "intersect": ("inner", _existing),
    "anti_join": ("left", _missing),
    "subtract": ("left", _missing),
    "union": ("outer", _either),
}
"""The methods of sets of tables: type of the join that each is, and its joiner."""


def _set_of(choices: Choices, generation: str) -> Params:
    method = choices.pick(tuple(SETS))
    way = choices.pick(("key", "foreign_key")) if method.endswith("join") else "key"
    return {"method": method, "way": way, **stored(choices, generation)}


def _value_set_of(choices: Choices, generation: str) -> Params:
    return {"method": choices.pick(("semi_join", "anti_join")), "way": "on", **stored(choices, generation)}


def _set(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    options = {} if params["way"] == "key" else {params["way"]: _extractor(site)}
    return [getattr(inputs[0], params["method"])(inputs[1], name=site.name, store=site.store(params), **options)]


def _set_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    left, right = inputs
    how, joiner = SETS[params["method"]]
    if params["way"] == "key":
        return [MultiJoin([left, right], [how], joiner)]
    refer = text.referrer(site.keys)
    if params["way"] == "on":
        groups = GroupTable(site.topology, right, lambda _, value: (refer(value), "row"))
        counts = TableAggregate(site.topology, groups.topic, AGGREGATORS["count"])
        right = TableFilter(counts, lambda _, count: count > 0)
    result = foreign_key_join(site.topology, left, right, how, refer, joiner)
    if params.get("stored"):
        result.require_lookup()
    return [result]


def _many_to_many(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    combined = site.library.lift(text.pair_key(site.keys), site.keys)
    options = {"on": _extractor(site), "name": site.name, "store": site.store(params)}
    join = getattr(inputs[0], method_of(params["how"]))
    return [join(inputs[1], _plus(site), result_key=lambda left, right: combined(left, right), **options)]


def _many_to_many_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    combined, refer = text.pair_key(site.keys), text.referrer(site.keys)
    result_key = lambda key: combined(*key)  # noqa: E731
    left, right = inputs
    join = ManyToManyJoin(site.topology, left, right, params["how"], (refer, refer), text.plus, result_key=result_key)
    return [join]


def _global(site: BuildSite, _: list[Any], params: Params) -> list[Any]:
    return [
        site.builder.global_table(site.name, **site.formats(), store=site.store(params), **options_of(site, params))
    ]


def _global_node(site: OracleSite, _: list[Any], __: Params) -> list[Any]:
    table = GlobalTable()
    site.topology.source(site.name, table)
    return [table]


def _stream_global(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    join = getattr(inputs[0], method_of(params["how"]))
    return [join(inputs[1], _plus(site), key=_extractor(site), name=site.name)]


def _table_global(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    join = getattr(inputs[0], method_of(params["how"]))
    options = {"foreign_key": _extractor(site), "name": site.name, "store": site.store(params)}
    return [join(inputs[1], _plus(site), **options)]


def _lookup_node(made: Any) -> Any:
    def nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
        return [made(site.topology, inputs[0], inputs[1], params["how"], _mapper(site), text.plus)]

    return nodes


def _mapper(site: OracleSite) -> KeyMapper:
    referrer = text.referrer(site.keys)

    def mapper(_key: Key, value: Value) -> Key:
        return referrer(value)

    return mapper


def _how_of_view(choices: Choices, generation: str) -> Params:
    return {**_how(choices, generation), "view": choices.pick(("inner", "left"))}


def _through_view(lookup: Any) -> Any:
    """The lookup of a view of two global tables, instead of one."""

    def handles(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
        join = getattr(inputs[1], method_of(params["view"]))
        view = join(inputs[2], _plus(site), key=_extractor(site), name=f"{site.name}-view")
        made: list[Any] = lookup(site, [inputs[0], view], params)
        return made

    return handles


def nested(sides: list[Any], params: Params, join: Callable[[Any, Any, str], Any]) -> Any:
    """The join of three tables: of one with that of the others on its right, or on its left."""
    first, second, third = sides
    how, inner = params["hows"]
    if params["right"]:
        return join(first, join(second, third, inner), how)
    return join(join(first, second, inner), third, how)


def _stored_view(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    """The rows of a view's store, as the table that they are."""
    names = iter((f"{site.name}-inner", site.name))

    def join(left: Any, right: Any, how: str) -> Any:
        name = next(names)
        method = getattr(left, method_of(how))
        return method(right, _plus(site), key=_extractor(site), name=name, store=f"{name}-store")

    view = nested(inputs, params, join)
    return [KTable(view._construction, rows_of(view._side).node)]


def _stored_view_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    def join(left: Any, right: Any, how: str) -> Any:
        return foreign_key_join(site.topology, left, right, how, text.referrer(site.keys), text.plus)

    return [nested([table.rows(site.topology) for table in inputs], params, join)]


def _how_of_stored_view(choices: Choices, generation: str) -> Params:
    return {"hows": [choices.pick(("inner", "left")) for _ in range(2)], "right": choices.chance(50)}


def _view_node(made: Any) -> Any:
    def nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
        view = GlobalView(inputs[1], inputs[2], params["view"], _mapper(site), text.plus)
        found: list[Any] = _lookup_node(made)(site, [inputs[0], view], params)
        return found

    return nodes


STREAM, TABLE, GLOBAL = ("stream",), ("table",), ("global",)
CURRENT = ("current",)
KINDS: dict[str, OperatorKind] = {
    "global": OperatorKind((), GLOBAL, _global, _global_node, stored, generations=CURRENT),
    "foreign_key": OperatorKind(
        TABLE * 2,
        TABLE,
        _foreign_key,
        _foreign_key_node,
        _how_stored,
        weight=6,
        deferred=True,
        generations=CURRENT,
    ),
    "one_to_many": OperatorKind(
        TABLE * 2,
        TABLE,
        _one_to_many,
        _one_to_many_node,
        stored,
        weight=4,
        deferred=True,
        generations=CURRENT,
    ),
    "table_set": OperatorKind(TABLE * 2, TABLE, _set, _set_node, _set_of, weight=4, deferred=True, generations=CURRENT),
    "value_set": OperatorKind(
        TABLE * 2, TABLE, _set, _set_node, _value_set_of, weight=2, deferred=True, generations=CURRENT
    ),
    "many_to_many": OperatorKind(
        TABLE * 2,
        TABLE,
        _many_to_many,
        _many_to_many_node,
        lambda choices, generation: {"how": choices.pick(("inner", "left", "outer")), **stored(choices, generation)},
        weight=4,
        deferred=True,
        generations=CURRENT,
    ),
    "stream_global": OperatorKind(
        STREAM + GLOBAL,
        STREAM,
        _stream_global,
        _lookup_node(GlobalLookup),
        _how,
        weight=3,
        relaxes=lambda params, generation: params["how"] == "left" and generation == "current",
        generations=CURRENT,
    ),
    "table_global": OperatorKind(
        TABLE + GLOBAL,
        TABLE,
        _table_global,
        _lookup_node(GlobalTableLookup),
        _how_stored,
        weight=3,
        generations=CURRENT,
    ),
    "stream_view": OperatorKind(
        STREAM + GLOBAL * 2,
        STREAM,
        _through_view(_stream_global),
        _view_node(GlobalLookup),
        _how_of_view,
        weight=2,
        relaxes=lambda params, generation: params["how"] == "left" and generation == "current",
        generations=CURRENT,
    ),
    "stored_view": OperatorKind(
        GLOBAL * 3,
        TABLE,
        _stored_view,
        _stored_view_node,
        _how_of_stored_view,
        weight=0,
        deferred=True,
        generations=CURRENT,
    ),
    "table_view": OperatorKind(
        TABLE + GLOBAL * 2,
        TABLE,
        _through_view(_table_global),
        _view_node(GlobalTableLookup),
        _how_of_view,
        weight=1,
        generations=CURRENT,
    ),
}
