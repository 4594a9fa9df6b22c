"""Streams in FROM: windows, joins of streams in a time, and joins of a stream with tables as of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from watersmeet.sql.joins import BOUNDS, How, Result, Wanted, compared, reference_to
from watersmeet.sql.queries import OF_ARRAYS, Condition, SelectQuery
from watersmeet.sql.rows import (
    KEY,
    LEFT,
    RIGHT,
    VALUE,
    Fields,
    Key,
    Name,
    Relation,
    Tree,
    call,
    checked,
    literal,
    maker,
    of_pair,
    of_row,
    rebased,
    root,
    roots_of,
    same,
)
from watersmeet.sql.text import SESSION
from watersmeet.windows import JoinWindows, SessionWindows, TimeWindows

_WINDOWS = {"TUMBLE": 1, "HOP": 2, "SESSION": 1}
_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000, "WEEK": 604_800_000}


def milliseconds(query: SelectQuery, node: Tree) -> int:
    """The length of an interval."""
    if isinstance(node, exp.Interval):
        text = " ".join(part.name for part in (node.this, node.unit) if part is not None).split()
        pairs = list(zip(text[::2], text[1::2], strict=False))
        units = [unit.upper().removesuffix("S") for _, unit in pairs]
        if pairs and all(
            unit in _UNITS and number.lstrip("-").isdigit() for (number, _), unit in zip(pairs, units, strict=True)
        ):
            return sum(int(number) * _UNITS[unit] for (number, _), unit in zip(pairs, units, strict=True))
    hint = "Write INTERVAL 5 MINUTES, in days or smaller units."
    raise query.error(node, f"{node.sql()} is no length of time.", hint)


def stream_of(
    query: SelectQuery, first: Tree, joins: Sequence[Tree], arrays: Sequence[Tree], clause: Tree
) -> tuple[Relation, list[Condition]]:
    """The records of the stream in FROM, joined, once for each element of arrays; what is left of WHERE."""
    rows = _source(query, first)
    sides = [(_source(query, join.this), join) for join in joins]
    names = [_element_name(query, node) for node in arrays]
    for name in names:
        query.tables[name[0]] = Relation(None, {name: literal(0)}, Key((), ()), {})
    where = query._conditions(clause)
    for right, join in sides:
        rows = _joined(query, rows, right, join, where)
    for node, name in zip(arrays, names, strict=True):
        rows = exploded(query, rows, (node.expressions or [node.this.this])[0], name)
    return rows, where


def _element_name(query: SelectQuery, node: Tree) -> Name:
    """The column of UNNEST(a) AS x(t), or of LATERAL VIEW explode(a) x AS t."""
    alias = node.args.get("alias")
    names = [element.name for element in alias.args.get("columns") or [alias.this]] if alias else []
    is_plain = type(node.this) is exp.Explode or isinstance(node, exp.Unnest)
    if len(names) != 1 or not is_plain or node.args.get("outer") or node.args.get("offset"):
        hint = "FROM clicks CROSS JOIN UNNEST(tags) AS t(tag), or LATERAL VIEW explode(tags) t AS tag."
        raise query.error(node, "The elements of an array make one column, which needs a name.", hint)
    return alias.name or names[0], names[0]


def _source(query: SelectQuery, node: Tree) -> Relation:
    if not (isinstance(node, exp.Table) and isinstance(node.this, exp.Func)):
        query._add(node)
        return query.tables[query._name(node)]
    function = node.this
    name = (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).upper()
    name = "SESSION" if name == SESSION else name
    if name not in _WINDOWS:
        hint = "TUMBLE, HOP and SESSION give the windows of a stream."
        raise query.error(node, f"{name} is not taken in FROM.", hint)
    arguments = function.expressions
    if not arguments or not isinstance(arguments[0], exp.Column):
        raise query.error(node, f"{name} takes a stream first.", f"{name}(clicks, INTERVAL 1 HOUR).")
    table = exp.Table(this=arguments[0].this.copy(), alias=node.args.get("alias"))
    table.meta.update(arguments[0].this.meta)
    remainder = list(arguments[1:])
    rows = query.table(table)
    if not rows.is_stream:
        hint = "Declare a stream: CREATE STREAM clicks (...) WITH (topic = 'clicks')."
        raise query.error(arguments[0], f"{name} takes a stream, and {arguments[0].name} is a table.", hint)
    if remainder and (isinstance(remainder[0], exp.Column) or remainder[0].name.upper() == "DESCRIPTOR"):
        _check_time(query, remainder.pop(0), rows)
    if not _WINDOWS[name] <= len(remainder) <= _WINDOWS[name] + 1:
        example = f"{name}(clicks, {'INTERVAL 1 MINUTE, ' * (name == 'HOP')}INTERVAL 1 HOUR)"
        hint = f"Write {example}."
        raise query.error(node, f"{name} takes {_WINDOWS[name]} length{'s' * (_WINDOWS[name] > 1)}, and a grace.", hint)
    lengths = [milliseconds(query, element) for element in remainder]
    alias = node.alias or arguments[0].name
    windows = query._added(node, lambda: _windows(name, lengths))
    bounds = {(alias, name): root(f"#{name}") for name in ("window_start", "window_end")}
    columns = {**rows.under(alias).columns, **bounds}
    query.tables[alias] = replace(rows, columns=columns, facts={**rows.facts, "windows": windows})
    query.places[alias], node.meta["name"] = node, alias
    return query.tables[alias]


def _windows(name: str, lengths: Sequence[int]) -> Any:
    if name == "SESSION":
        return SessionWindows.of_inactivity_gap_and_grace(f"{lengths[0]} ms", f"{(*lengths, 0)[1]} ms")
    size = lengths[1] if name == "HOP" else lengths[0]
    grace = (*lengths, 0)[_WINDOWS[name]]
    windows = TimeWindows.of_size_and_grace(f"{size} ms", f"{grace} ms")
    return windows.advance_by(f"{lengths[0]} ms") if name == "HOP" else windows


def _check_time(query: SelectQuery, node: Tree, rows: Relation) -> None:
    column = node.expressions[0] if node.expressions else node
    if column.name.lower() != str(rows.facts.get("time") or "").lower():
        message = f"The stream's time is {rows.facts.get('time') or 'that of its records'}, and not {column.name}."
        raise query.error(column, message, "Declare it: CREATE STREAM ... WITH (timestamp = 'at').")


def _joins(query: SelectQuery, condition: Condition, left: Relation, right: Relation) -> bool:
    """Whether a condition of WHERE says how two sides meet: an equality, or a bound of time."""
    reads = condition.reads
    if not reads <= left.aliases | right.aliases or not reads & left.aliases or not reads & right.aliases:
        return False
    bounds = [_bound(query, part, left, right) for part in _comparisons(condition.tree)] if right.is_stream else [None]
    return isinstance(condition.tree.unnest(), exp.EQ) or None not in bounds


def _joined(query: SelectQuery, left: Relation, right: Relation, join: Tree, where: list[Condition]) -> Relation:
    node = join.this
    version = node.args.get("version") if isinstance(node, exp.Table) else None
    if not query._is_inner(join) and join.kind in ("SEMI", "ANTI"):
        raise query.error(join, f"A stream has no {join.kind} JOIN.", "LEFT JOIN, and IS [NOT] NULL in WHERE.")
    if join.side not in ("", "LEFT") and not (join.side == "FULL" and right.is_stream):
        raise query.error(join, f"A stream has no {join.side} JOIN with a table.", "Take JOIN or LEFT JOIN.")
    conditions = query._on(join)
    for condition in [element for element in where if not join.side and _joins(query, element, left, right)]:
        where.remove(condition)
        conditions.append(condition)
    entries = query._checked_pairs(left, right, conditions)
    if not (right.is_stream or join.side):
        keys = [part.sql() for part in right.key.parts]
        entries = [entry for entry in entries if entry[2].sql() in keys] or entries
    occupied = [condition for condition, _, _ in entries]
    remainder = [condition for condition in conditions if condition not in occupied]
    pairs = [(former, latter) for _, former, latter in entries]
    if not pairs:
        raise query._no_equality(query._name(node), conditions)
    if not left.is_stream:
        hint = "Write the stream first: FROM clicks JOIN users ON ..."
        raise query.error(join, "The table stands before the stream in this join.", hint)
    if right.is_stream:
        rows: Relation = query._added(join, lambda: _in_time(query, left, right, pairs, remainder, join))
    else:
        if version is not None and right.facts.get("history") is None and not right.is_global:
            raise query.error(version, "The table keeps no history.", "CREATE TABLE ... WITH (history = '1 day', ...).")
        rows = query._added(join, lambda: _with_table(query, left, right, pairs, join))
        rows = _remaining_conditions(query, rows, remainder, join)
    query.rows = rows
    return rows


def _remaining_conditions(query: SelectQuery, rows: Relation, remainder: Sequence[Condition], join: Tree) -> Relation:
    for condition in remainder:
        if join.side:
            message = "This condition is no equality, and a left join of a stream takes only equalities."
            raise query.error(condition.tree, message, "Put it into WHERE, or into a view.")
        rows = rows.filtered(query._predicate(condition.tree, rows))
    return rows


def _result(sides: Sequence[Relation], moves: Sequence[Mapping[str, Tree]], side: str) -> Result:
    forms: dict[str, How] = {"": "inner", "LEFT": "left", "FULL": "outer"}
    return Result().sides(sides, moves, Wanted(forms[side], (), None))


def _with_table(query: SelectQuery, left: Relation, right: Relation, pairs: Any, join: Tree) -> Relation:
    refers = reference_to(right, pairs, left)
    if refers is None:
        names = ", ".join(right.key.names) or "none"
        hint = "Join by equality with the whole key."
        raise query.error(join, f"A stream finds rows of a table by their key, which is {names}.", hint)
    if refers.beside:
        message = f"A join of a stream and a table compares the table's key, {', '.join(right.key.names)}, alone."
        raise query.error(join, message, "Write the other equalities into WHERE.")
    assert right.key.make is not None, "it refers"
    outcome = right.key.make(refers.trees)
    if right.is_global:
        moves = ({VALUE: root(LEFT)}, {VALUE: root(RIGHT), KEY: rebased(outcome, {VALUE: root(LEFT)})})
        result = _result((left, right), moves, join.side)
        call = left.handle.left_join if join.side else left.handle.join
        handle = call(right.handle, of_pair(result.fields.struct), key=of_row(outcome))
        return Relation(handle, result.columns, left.key, left.facts)
    if outcome.sql() != root(KEY).sql():
        left = rekeyed(left, outcome)
    result = _result((left, right), ({VALUE: root(LEFT)}, {VALUE: root(RIGHT)}), join.side)
    call = left.handle.left_join if join.side else left.handle.join
    handle = call(right.handle, of_pair(result.fields.struct))
    return Relation(handle, result.columns, Key((root(KEY),), ("key",)), left.facts)


def _value_columns(rows: Relation) -> tuple[Fields, dict[Name, Tree]]:
    """All columns in the value, those of the key, too."""
    fields = Fields()
    stays = {name for name, tree in rows.columns.items() if roots_of(tree) & BOUNDS}
    items = rows.columns.items()
    return fields, {name: tree if name in stays else fields.add(tree, name[1], name[0]) for name, tree in items}


def rekeyed(rows: Relation, key: Tree) -> Relation:
    """The records under another key; what columns read of the old one goes into the value."""
    fields, columns = _value_columns(rows)
    pair = lambda k, v: (of_row(key)(k, v), of_row(fields.struct)(k, v))  # noqa: E731
    return replace(rows, handle=rows.handle.map(pair), columns=columns, key=Key((root(KEY),), ("key",)))


def _in_time(
    query: SelectQuery, left: Relation, right: Relation, pairs: Any, remainder: Sequence[Condition], join: Tree
) -> Relation:
    earlier_ms, later_ms = _bounds(query, left, right, remainder, join)
    grace = max(int(rows.facts.get("grace") or 0) for rows in (left, right))
    widest = max(earlier_ms, later_ms, 0)
    windows = (
        JoinWindows.of_time_difference_and_grace(f"{widest} ms", f"{grace} ms")
        .before(f"{earlier_ms} ms")
        .after(f"{later_ms} ms")
    )
    keys = compared(left, right, pairs)
    assert keys is not None, "the pairs have been checked"
    make = maker([f"k{number}" for number in range(len(pairs))], single=len(pairs) == 1)
    sides = [
        rows if same(make(parts), root(KEY)) else rekeyed(rows, make(parts))
        for rows, parts in zip((left, right), keys, strict=True)
    ]
    result = _result(sides, ({VALUE: root(LEFT)}, {VALUE: root(RIGHT)}), join.side)
    call = {"": "join", "LEFT": "left_join", "FULL": "outer_join"}[join.side]
    handle = getattr(sides[0].handle, call)(sides[1].handle, of_pair(result.fields.struct), windows)
    return Relation(handle, result.columns, Key((root(KEY),), ("key",)), {**left.facts, "time": None})


def _comparisons(tree: Tree) -> list[Tree]:
    if not isinstance(tree, exp.Between):
        return [tree]
    low, high = tree.args["low"], tree.args["high"]
    return [exp.GTE(this=tree.this, expression=low), exp.LTE(this=tree.this, expression=high)]


def exploded(query: SelectQuery, rows: Relation, array: Tree, name: Name) -> Relation:
    """The records of a stream once for each element of an array, which is a column of this name."""
    if not rows.is_stream:
        raise query.error(array, *OF_ARRAYS)
    resolved = query.resolved(array, rows)
    checked(rows, query.source, [resolved], [array])
    element = exp.column("element")
    fields, columns = _value_columns(rows)
    columns[name] = fields.add(element, name[1], name[0])
    values = exp.Lambda(this=fields.struct, expressions=[element.this])
    present = exp.Coalesce(this=resolved, expressions=[call("array")])
    handle = query._added(array, lambda: rows.handle.flat_map_values(of_row(call("transform", present, values))))
    return replace(rows, handle=handle, columns=columns)


def _bounds(
    query: SelectQuery, left: Relation, right: Relation, remainder: Sequence[Condition], join: Tree
) -> tuple[int, int]:
    """How far a right record may lie before and after a left one, in ms."""
    earlier_ms: int | None = None
    later_ms: int | None = None
    for condition in remainder:
        tree = condition.tree
        for part in _comparisons(tree):
            entries = _bound(query, part, left, right)
            if entries is None:
                message = "This condition is no equality and no bound of time, and a join of streams takes only those."
                hint = "Put it into WHERE; a bound compares the columns that WITH (timestamp = ...) declares."
                raise query.error(tree, message, hint)
            way, distance = entries
            if way == "lower":
                earlier_ms = -distance
            else:
                later_ms = distance
    if earlier_ms is None or later_ms is None:
        times = [rows.facts.get("time") or "at" for rows in (left, right)]
        names = [next(iter(rows.columns), ("a", ""))[0] for rows in (left, right)]
        raise query.error(
            join,
            "A join of two streams needs both bounds of their distance in time.",
            f"AND {names[1]}.{times[1]} BETWEEN {names[0]}.{times[0]} - INTERVAL 5 MINUTES AND {names[0]}.{times[0]} + "
            "INTERVAL 5 MINUTES.",
        )
    return earlier_ms, later_ms


def _bound(query: SelectQuery, tree: Tree, left: Relation, right: Relation) -> tuple[str, int] | None:
    """("lower" or "upper", distance in ms) of a condition right.time >= left.time + distance."""
    if not isinstance(tree, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    sides = [_time(query, side, left, right) for side in (tree.this, tree.expression)]
    if None in sides:
        return None
    (former, shift), (latter, offset) = sides  # type: ignore[misc]
    if former == latter:
        return None
    strict = isinstance(tree, exp.GT | exp.LT)
    greater = isinstance(tree, exp.GT | exp.GTE)
    if former == "left":  # left + shift >= right + more
        greater, distance = not greater, shift - offset
    else:
        distance = offset - shift
    return ("lower", distance + strict) if greater else ("upper", distance - strict)


def _time(query: SelectQuery, tree: Tree, left: Relation, right: Relation) -> tuple[str, int] | None:
    """(the side that has the time, the ms added to it)."""
    tree = tree.unnest()
    if isinstance(tree, exp.Add | exp.Sub) and isinstance(tree.expression, exp.Interval):
        inner = _time(query, tree.this, left, right)
        length = milliseconds(query, tree.expression)
        return None if inner is None else (inner[0], inner[1] + (length if isinstance(tree, exp.Add) else -length))
    if not isinstance(tree, exp.Column):
        return None
    for name, rows in (("left", left), ("right", right)):
        time = str(rows.facts.get("time") or "").lower()
        owners = {alias.lower() for alias in rows.aliases}
        if tree.name.lower() == time and (not tree.table or tree.table.lower() in owners):
            return name, 0
    return None
