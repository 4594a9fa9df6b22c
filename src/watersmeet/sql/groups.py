"""Groups of rows: aggregates by name, distinct rows, what is taken of two tables, the first n rows of each group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from pyspark.sql.types import ArrayType, DataType, DecimalType, DoubleType, IntegerType, StructField, StructType
from sqlglot import exp

from watersmeet.aggregates.collections import collect_list, collect_set, count_distinct, last_k, mode, percentile, top_k
from watersmeet.aggregates.extremes import bool_and, bool_or, first, last, max, max_by, min, min_by
from watersmeet.aggregates.sums import avg, count, stddev, sum
from watersmeet.aggregates.user_defined import python
from watersmeet.api.folds import named_groups
from watersmeet.sql.joins import struct_key
from watersmeet.sql.rows import (
    KEY,
    VALUE,
    Key,
    Name,
    Relation,
    Tree,
    all_of,
    call,
    cast,
    exists,
    expressions,
    field_of,
    literal,
    of_row,
    of_two,
    rebased,
    root,
    roots_of,
    struct_of,
    when,
)
from watersmeet.windows import EmitStrategy

ROWS = "rows"
"""The field that counts the rows of a group."""


@dataclass(frozen=True)
class Used:
    """An aggregate: the library's, what it reads, what it is of no rows (None: null), what its result becomes."""

    make: Callable[..., Any]
    arguments: tuple[Tree, ...] = ()
    empty: int | None = None
    finish: Callable[[Tree], Tree] | None = None
    stream_only: bool = False


_OF_ONE: dict[str, Callable[..., Any]] = {
    of.__name__: of
    for of in (
        avg,
        sum,
        stddev,
        min,
        max,
        mode,
        first,
        last,
        bool_and,
        bool_or,
        collect_list,
        collect_set,
        count_distinct,
    )
}
_OF_TWO = {"max_by": max_by, "min_by": min_by}
_ALIASES = {
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "logical_and": "bool_and",
    "every": "bool_and",
    "logical_or": "bool_or",
    "some": "bool_or",
    "any": "bool_or",
    "mean": "avg",
    "any_value": "min",
    "array_agg": "collect_list",
    "array_unique_agg": "collect_set",
    "first_value": "first",
    "last_value": "last",
    "arg_max": "max_by",
    "arg_min": "min_by",
    "quantile": "percentile",
    "string_agg": "listagg",
    "group_concat": "listagg",
}
"""Other names of aggregates: of Spark's SQL, of the parser's."""
NAMES = frozenset(
    {*_OF_ONE, *_OF_TWO, "count", "percentile", "median", "count_if", "top_k", "last_k", "variance", "listagg"}
)
"""The aggregates that are taken."""


def aggregate_name(node: Tree) -> str | None:
    """The name of an aggregate that is taken; None: it is none."""
    if not isinstance(node, exp.Func | exp.Any):
        return None
    name = node.name if isinstance(node, exp.Anonymous) else "any" if isinstance(node, exp.Any) else node.sql_name()
    name = _ALIASES.get(name.lower(), name.lower())
    return name if name in NAMES else None


def is_other_aggregate(node: Tree) -> bool:
    """Whether a node is an aggregate that is not taken."""
    return isinstance(node, exp.AggFunc) and aggregate_name(node) is None


def used(name: str, arguments: Sequence[Tree], condition: Tree | None, kinds: Sequence[DataType]) -> Used:
    """An aggregate of arguments, of the rows for which a condition holds."""
    first_argument = arguments[0] if arguments else None
    if condition is not None:
        first_argument = when(condition, literal(1) if first_argument is None else first_argument)
    remainder = tuple(arguments[1:])
    if name == "count":
        counted = () if first_argument is None else (_all_known(first_argument, remainder),)
        return Used(count, counted, empty=0)
    if name == "count_if":
        return Used(
            count, (when(arguments[0] if condition is None else all_of([condition, arguments[0]]), literal(1)),), 0
        )
    if name == "count_distinct":
        distinct = first_argument if not remainder else _all_known(first_argument, remainder, struct=True)
        return Used(count_distinct, (distinct,), empty=0)
    assert first_argument is not None, "who asks has counted them"
    if name == "avg" and isinstance(kinds[0], DecimalType):
        return Used(_mean, (first_argument,), finish=lambda path: _decimal_mean(path, kinds[0]))
    if name in _OF_ONE:
        return Used(_OF_ONE[name], (first_argument,), stream_only=name in ("first", "last"))
    if name == "variance":
        return Used(stddev, (first_argument,), finish=lambda path: exp.Mul(this=path, expression=path.copy()))
    if name == "listagg":
        return Used(collect_list, (first_argument,), finish=partial(_texts, remainder))
    if name in _OF_TWO:
        by = arguments[1] if condition is None else when(condition, arguments[1])
        return Used(lambda value, by: _OF_TWO[name](value, by=by), (arguments[0], by))
    if name in ("percentile", "median"):
        part = 0.5 if name == "median" else float(arguments[1].sql())
        return Used(lambda value: percentile(value, p=part), (cast(first_argument, DoubleType()),))
    size = int(float(arguments[1].sql()))
    make = top_k if name == "top_k" else last_k
    return Used(lambda value: make(value, k=size), (first_argument,), stream_only=name == "last_k")


def _all_known(head: Tree, remainder: Sequence[Tree], *, struct: bool = False) -> Tree:
    """A tree that is null where one of several is."""
    trees = (head, *remainder)
    if not remainder:
        return head
    value = struct_of({f"v{n}": tree for n, tree in enumerate(trees)}) if struct else literal(1)
    return when(all_of(exists(tree) for tree in trees), value)


def _mean(value: Any) -> Any:
    """A mean of decimals: SQL makes it of a sum and a count."""
    return sum(value)


def _decimal_mean(path: Tree, kind: Any) -> Tree:
    precision, scale = kind.precision, kind.scale
    digits = 38 if precision + 4 > 38 else precision + 4
    to = DecimalType(digits, 38 if scale + 4 > 38 else scale + 4)
    name = path.expression.name
    quotient = exp.Div(this=root(VALUE, name), expression=root(VALUE, f"{name}_n"))
    return cast(quotient, to)


def _texts(separator: Sequence[Tree], path: Tree) -> Tree:
    """A text of a list, in order of its parts, so that the order of changes makes no difference; null of none."""
    text = call("array_join", call("sort_array", path), *(separator or [literal("")]))
    return when(exp.GT(this=call("size", path), expression=literal(0)), text)


def grouped(
    rows: Relation,
    groups: Mapping[str, Tree],
    uses: Mapping[str, Used],
    *,
    former: bool = False,
    emit: str | None = None,
) -> Relation:
    """The rows by group, with a column for each; `former`: all rows are one group, which stays where there are none."""
    fields: dict[str, Tree] = {}
    aggregates: dict[str, Any] = {}
    for name, use in uses.items():
        arguments = {name if not n else f"{name}_{n}": tree for n, tree in enumerate(use.arguments)}
        fields |= arguments
        readers = [field_of(field) for field in arguments]
        if use.make is _mean:
            aggregates[name], aggregates[f"{name}_n"] = sum(*readers), count(*readers)
        else:
            aggregates[name] = use.make(*readers)
    row_count = next((name for name, use in uses.items() if use.make is count and not use.arguments), None)
    counts = row_count or ROWS
    if row_count is None and not former:
        aggregates[counts] = count()
    if rows.is_stream:
        aggregates = aggregates or {counts: count()}
        return _of_stream(rows, groups, uses, aggregates, struct_of(fields or {ROWS: literal(1)}), emit)
    key, entire = group_key(rows, groups)
    selector = of_two(entire, struct_of(fields or {ROWS: literal(1)}))
    groups_of_rows = rows.handle.group_by(selector)
    handle = groups_of_rows.agg(**aggregates) if former else named_groups(groups_of_rows, counts, aggregates)
    columns: dict[Name, Tree] = {("", name): part for name, part in zip(groups, key.parts, strict=True)}
    columns.update(_results(uses))
    return Relation(handle, columns, key, {})


def _results(uses: Mapping[str, Used]) -> dict[Name, Tree]:
    columns: dict[Name, Tree] = {}
    for name, use in uses.items():
        path = root(VALUE, name)
        if use.empty is not None:
            path.meta.update(certain=True, empty=use.empty)
        columns[("", name)] = path if use.finish is None else use.finish(path)
    return columns


def _of_stream(
    rows: Relation,
    groups: Mapping[str, Tree],
    uses: Mapping[str, Used],
    aggregates: Mapping[str, Any],
    value: Tree,
    emit: Any,
) -> Relation:
    """The groups of a stream, in its windows if FROM has some."""
    windows = rows.facts.get("windows")
    plain = {name: tree for name, tree in groups.items() if not roots_of(tree) & _BOUNDS.keys()}
    key, entire = group_key(rows, plain)
    grouped_by = rows.handle.map(of_two(entire, value)).group_by_key()
    if windows is not None:
        grouped_by = grouped_by.windowed_by(windows)
        if emit == "final":
            grouped_by = grouped_by.emit_strategy(EmitStrategy.on_window_close())
        key = replace(key, parts=tuple(rebased(part, {KEY: root(KEY, "key")}) for part in key.parts))
    columns: dict[Name, Tree] = {}
    parts = dict(zip(plain, key.parts, strict=True))
    for name, tree in groups.items():
        columns[("", name)] = parts[name] if name in parts else rebased(tree, _BOUNDS)
    if windows is not None:
        bounds = tuple(call("timestamp_millis", root(KEY, element)) for element in ("start", "end"))
        key = Key((*key.parts, *bounds), (*key.names, "window_start", "window_end"))
    columns.update(_results(uses))
    return Relation(grouped_by.agg(**aggregates), columns, key, {})


_BOUNDS = {f"#window_{element}": call("timestamp_millis", root(KEY, element)) for element in ("start", "end")}
"""What the bounds of a window are in the keys of its rows."""


def group_key(rows: Relation, groups: Mapping[str, Tree]) -> tuple[Key, Tree]:
    """The key of groups, and the tree that makes it; one that is never null is the key itself."""
    if not groups:
        return Key((), (), lambda _: literal(0), True), literal(0)
    names, trees = list(groups), list(groups.values())
    certain = all(tree.meta.get("known") for tree in trees)
    if len(names) == 1 and certain:
        return Key((root(KEY),), tuple(names), lambda entries: entries[0], True), trees[0]
    return struct_key(names, certain=certain), struct_of(groups)


def distinct(rows: Relation) -> Relation:
    """The different rows."""
    names = {column: tree for (_, column), tree in rows.columns.items()}
    return grouped(rows, names, {})


# What is taken of two tables.


def _branch(rows: Relation, kinds: Sequence[DataType], names: Sequence[str]) -> Tree:
    """The value of rows in a union: their columns under these names, in these types."""
    trees = [cast(tree, kind) for tree, kind in zip(rows.columns.values(), kinds, strict=True)]
    return struct_of(dict(zip(names, trees, strict=True)))


def _merged(streams: Iterable[Any]) -> Any:
    return reduce(lambda former, latter: former.merge(latter), streams)


def union(parts: Sequence[Relation], kinds: Sequence[DataType]) -> Relation:
    """All rows of several tables, or the records of several streams; their columns have these types."""
    names = [column for _, column in parts[0].columns]
    columns = {("", name): root(VALUE, name) for name in names}
    if all(part.is_stream for part in parts):
        streams = [part.handle.map(of_two(literal(0), _branch(part, kinds, names))) for part in parts]
        return Relation(_merged(streams), columns, Key((), ()), parts[0].facts)
    types = [part.key_type for part in parts]
    streams = []
    for number, part in enumerate(parts):
        keys = {f"k{n}": root(KEY) if n == number else cast(exp.Null(), kind) for n, kind in enumerate(types)}
        value = of_row(_branch(part, kinds, names))
        key = of_row(struct_of({"branch": literal(number), **keys}))
        streams.append(part.handle.map_values(value).to_stream(key=key))
    parts_of_key = (root(KEY, "branch"), *(root(KEY, f"k{n}") for n in range(len(types))))
    names_of_key = ("branch", *(f"k{n}" for n in range(len(types))))
    return Relation(_merged(streams).to_table(), columns, Key(parts_of_key, names_of_key), {})


def of_both(former: Relation, latter: Relation, kinds: Sequence[DataType], *, pairing: bool) -> Relation:
    """The different rows that are in both, or in the first and not in the other one."""
    rows = union([former, latter], kinds)
    groups = {column: tree for (_, column), tree in rows.columns.items()}
    branch = root(KEY, "branch")
    uses = {
        f"in_{number}": Used(count, (when(exp.EQ(this=branch.copy(), expression=literal(number)), literal(1)),), 0)
        for number in (0, 1)
    }
    entries = grouped(rows, groups, uses)
    presence = exp.GT(this=root(VALUE, "in_0"), expression=literal(0))
    other_there = (exp.GT if pairing else exp.EQ)(this=root(VALUE, "in_1"), expression=literal(0))
    columns = {name: tree for name, tree in entries.columns.items() if name[1] in groups}
    return replace(entries.filtered(exp.and_(presence, other_there)), columns=columns)


# The first n rows of each group, by an order.

Order = tuple[Tree, bool, bool]
"""(what orders, whether the largest is first, whether nulls are first)"""


def first_rows(
    rows: Relation, groups: Mapping[str, Tree], order: Sequence[Order], limit: int, number: str | None
) -> Relation:
    """The first rows of each group; `number` is the column of their places, from 1, if there is one."""
    names = [column for _, column in rows.columns]
    trees = list(rows.columns.values())
    sorts = {f"s{n}": tree for n, (tree, _, _) in enumerate(order)}
    sorts["tie"] = call("to_json", struct_of({"key": root(KEY)}))
    value = struct_of({f"c{n}": tree for n, tree in enumerate(trees)} | sorts)
    key, entire = group_key(rows, groups)
    collected = rows.handle.group_by(of_two(entire, value)).agg(rows=collect_list(lambda row: row))
    kinds = rows.types(trees)
    key_type = expressions().kind(collected.key_type)
    struct = StructType([StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])
    place = StructType([StructField("group", key_type), StructField("place", IntegerType())])
    pair = ArrayType(StructType([StructField("key", place), StructField("value", struct)]))
    directions = tuple((descending, nulls_first) for _, descending, nulls_first in order)
    occupied = collected.to_stream().flat_map(python(first_ranks(directions, len(trees), limit), pair))
    columns: dict[Name, Tree] = {("", name): root(VALUE, f"c{n}") for n, name in enumerate(names)}
    if number is not None:
        columns[("", number)] = root(KEY, "place")
    parts = [rebased(part, {KEY: root(KEY, "group")}) for part in key.parts]
    make = key.make
    assert make is not None, "groups make their keys"
    return Relation(
        occupied.to_table(),
        columns,
        Key(
            (*parts, root(KEY, "place")),
            (*key.names, number or "place"),
            lambda entries: struct_of({"group": make(entries[:-1]), "place": entries[-1]}),
            key.certain,
        ),
        {},
    )


def first_ranks(directions: Sequence[tuple[bool, bool]], width: int, limit: int) -> Callable[..., Any]:
    """A plain function that gives a group's first rows by place, and nulls for the places that it does not fill."""

    def pairs(key: Any, value: Any) -> list[Any]:
        rows = sorted((value or {}).get("rows") or [], key=lambda row: row["tie"])
        for number in reversed(range(len(directions))):
            descending, nulls_first = directions[number]
            name = f"s{number}"
            nulls = [row for row in rows if row[name] is None]
            remainder_rows = [row for row in rows if row[name] is not None]
            remainder_rows.sort(key=lambda row: (row[name] != row[name], row[name]), reverse=descending)
            rows = [*nulls, *remainder_rows] if nulls_first else [*remainder_rows, *nulls]
        entries: list[Any] = [{f"c{n}": row[f"c{n}"] for n in range(width)} for row in rows[:limit]]
        entries += [None] * (limit - len(entries))
        return [{"key": {"group": key, "place": place + 1}, "value": row} for place, row in enumerate(entries)]

    return pairs
