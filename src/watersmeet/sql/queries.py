"""A query as rows: names and types are checked, subqueries become joins, each clause what the library has for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from pyspark.errors import AnalysisException, ParseException
from sqlglot import exp

from watersmeet.errors import SqlError, WatersmeetError, did_you_mean
from watersmeet.sql import groups
from watersmeet.sql.joins import How, Wanted, by_reference, joined, joint, never_compared, reference_to
from watersmeet.sql.rows import (
    Key,
    Name,
    Relation,
    Tree,
    all_of,
    checked,
    common_type,
    computed,
    field_path,
    is_large,
    is_path,
    is_root,
    literal,
    refused_by_spark,
    renamed,
    struct_of,
    unwindowed,
)
from watersmeet.sql.text import Source, instead

_AROUND = ("order", "limit", "offset")
_PARTS = {
    exp.Select: "with_ expressions distinct from_ joins laterals where group having qualify order limit cluster",
    exp.SetOperation: "with_ this expression distinct by_name order limit offset",
    exp.Subquery: "with_ this alias order limit offset",
    exp.Table: "this alias version",
    exp.Join: "this kind side method on using",
    exp.Limit: "this expression limit_options",
    exp.Group: "expressions all cube rollup grouping_sets",
    exp.Fetch: "direction count limit_options",
    exp.LimitOptions: "rows",
}
"""What a query takes of these nodes, by the parser's names."""
OF_ARRAYS = (
    "EXPLODE and UNNEST take an array of a stream, and FROM has a table.",
    "Look into a table's array by FILTER, EXISTS or ARRAY_CONTAINS.",
)
_VERSION = "Leave it out: a view of tables has their latest rows. A stream joins a table with history AS OF its time."
Environment = Mapping[str, Relation]
"""Tables, views and streams by name, in small letters."""


def conjuncts(tree: Tree | None) -> list[Tree]:
    """The conditions that must hold all together."""
    if tree is None:
        return []
    if isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And | exp.Paren):
        return conjuncts(tree.this)
    if isinstance(tree, exp.And):
        return [*conjuncts(tree.this), *conjuncts(tree.expression)]
    if isinstance(tree, exp.Or):
        # an equality that stands in every branch joins
        first, latter = conjuncts(tree.this), {element.sql() for element in conjuncts(tree.expression)}
        return [*(element for element in first if element.sql() in latter and isinstance(element, exp.EQ)), tree]
    return [tree]


def own_nodes(tree: Tree) -> Iterator[Tree]:
    """The nodes of a tree without those of its subqueries."""
    yield from tree.walk(bfs=False, prune=lambda node: isinstance(node, exp.Select | exp.SetOperation))


@dataclass(frozen=True)
class Condition:
    """A condition as it is written, and the names of the tables that it reads."""

    tree: Tree
    reads: frozenset[str]


Equality = tuple[Condition, Tree, Tree]
"""A condition that is one, and its trees over the left and the right rows."""


class SelectQuery(ABC):
    """One SELECT on its way to rows: of the text, of what tables there are, within another one."""

    def __init__(self, source: Source, names: Environment, outer: SelectQuery | None = None) -> None:
        self.source, self.names, self.outer = source, dict(names), outer
        self.rows: Any = None
        self.tables: dict[str, Relation] = {}
        self.places: dict[str, Any] = {}
        self._read: frozenset[str] | None = None
        self._marks = 0

    @abstractmethod
    def select(self, tree: Tree, limits: Mapping[str, int]) -> Relation:
        """The rows of a SELECT, after its tables are joined and filtered."""

    @abstractmethod
    def join_stream(
        self, first: Tree, joins: Sequence[Tree], arrays: Sequence[Tree], clause: Tree
    ) -> tuple[Relation, list[Condition]]:
        """The records of the stream in FROM, joined; what is left of WHERE."""

    @abstractmethod
    def aggregate(self, names: Mapping[str, Tree], trees: Sequence[Tree]) -> tuple[Relation, list[Tree]]:
        """The groups of the rows, and trees over them."""

    def error(self, place: Any, message: str, hint: str) -> SqlError:
        """An error on a place of the text."""
        return self.source.error(place, message, hint)

    # -- names

    def resolved(self, tree: Tree, rows: Relation | None = None) -> Tree:
        """A tree with the columns of rows in the place of their names."""
        entries = rows or self.rows

        def replaced(node: Tree) -> Tree:
            if isinstance(node, exp.Column) and not is_root(node):
                return self._column(node, entries)
            return node

        return tree.copy().transform(replaced) if tree.parent is None else _moved(tree, replaced)

    def _column(self, node: Tree, rows: Relation) -> Tree:
        tree = self.find(node, rows)
        if tree is None:
            raise self.unknown(node, rows)
        return tree

    def find(self, node: Tree, rows: Relation) -> Tree | None:
        """The tree of a column that is written; None: there is none of that name."""
        parts = [element.name for element in node.parts]
        alias = parts[0].lower()
        if len(parts) == 1 or all(name[0].lower() != alias for name in rows.columns):
            alias = None
        column, *fields = parts if alias is None else parts[1:]
        matches = [
            (name, tree)
            for name, tree in rows.columns.items()
            if name[1].lower() == column.lower() and alias in (None, name[0].lower())
        ]
        if alias is None and len(matches) > 1:
            owners = " and ".join(f"{name[0]}.{name[1]}" for name, _ in matches)
            hint = f"Write {matches[0][0][0]}.{column}."
            raise self.error(node, f"The column {column} is ambiguous: there are {owners}.", hint)
        return field_path(matches[0][1].copy(), *fields) if matches else None

    def unknown(self, node: Tree, rows: Relation) -> SqlError:
        """The error for a column that is not there."""
        written = node.sql()
        names = [f"{alias}.{column}" if alias else column for alias, column in rows.columns]
        columns = [column.lower() for _, column in rows.columns]
        suffix = f"The columns are {', '.join(names[:12]) or 'none'}."
        hint = instead("column", node.name) or did_you_mean(
            node.name.lower(), [column for column in columns if column != node.name.lower()], suffix=suffix
        )
        return self.error(node, f"There is no column {written}.", hint)

    # -- FROM

    def table(self, node: Tree) -> Relation:
        """The rows of a table, a view or a subquery in FROM, under their name."""
        if isinstance(node, exp.Subquery):
            rows = type(self)(self.source, self.names, self.outer).run(node, self._limits(node))
            return self._renamed(node, rows, f"q{len(self.tables)}")
        if not isinstance(node, exp.Table):
            name = type(node).__name__.upper()
            raise self.error(node, f"{name} is not taken in FROM.", "Name a table, a view, a stream or a subquery.")
        if isinstance(node.this, exp.Func):
            hint = "TUMBLE, HOP and SESSION give the windows of a stream."
            raise self.error(node, f"{node.this.name or node.this.sql()} is not taken in FROM.", hint)
        name = node.name
        entries = self.names.get(name.lower())
        if entries is None:
            hint = did_you_mean(name.lower(), self.names, suffix=f"Declare it first: CREATE TABLE {name} (...).")
            raise self.error(node, f"There is no table, view or stream {name}.", hint)
        return self._renamed(node, entries, name)

    def _renamed(self, node: Tree, rows: Relation, otherwise: str = "") -> Relation:
        names = node.alias_column_names
        return renamed(self.source, node.args["alias"] if names else node, rows, node.alias or otherwise, names)

    def _limits(self, node: Tree) -> dict[str, int]:
        """By column of a subquery in FROM, up to which value the query around it reads: of ROW_NUMBER()."""
        select = node.find_ancestor(exp.Select)
        where = None if select is None or node.alias_column_names else select.args.get("where")
        entries: dict[str, int] = {}
        for condition in conjuncts(where.this if where else None):
            bound = upper_bound(condition)
            if bound is not None and bound[0].table.lower() in ("", node.alias.lower()):
                name = bound[0].name.lower()
                entries[name] = min(bound[1], entries.get(name, bound[1]))
        return entries

    # -- the whole

    def run(self, tree: Tree, limits: Mapping[str, int] | None = None) -> Relation:
        """The rows of a query."""
        tree = self.unwrapped(tree)
        self._with(tree)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree)
        if not isinstance(tree, exp.Select):
            raise self.error(tree, f"{type(tree).__name__} is no query.", "Write SELECT ... FROM ...")
        self._check_clauses(tree)
        self._read = columns_read(tree)
        where = self._join(tree)
        self._filter(where)
        return self.select(tree, limits or {})

    def unwrapped(self, tree: Tree) -> Tree:
        """A query without parentheses; of one with clauses behind them or a UNION, SELECT * FROM (...) with these."""
        self._check_parts(tree)
        clauses = {name: tree.args[name] for name in _AROUND if tree.args.get(name)}
        if isinstance(tree, exp.Subquery):
            clauses |= {"with_": tree.args["with_"]} if tree.args.get("with_") else {}
        if isinstance(tree, exp.Subquery | exp.Paren) and not clauses:
            return self.unwrapped(tree.this)
        if isinstance(tree, exp.Select) or not clauses:
            return tree
        inner = tree.copy()
        for name in clauses:
            inner.set(name, None)
        first = exp.From(this=exp.Subquery(this=inner))
        copies = {name: node.copy() for name, node in clauses.items()}
        return exp.Select(expressions=[exp.Star()], from_=first, **copies)

    def _with(self, tree: Tree) -> None:
        clause = tree.args.get("with_")
        for element in clause.expressions if clause else ():
            if clause.args.get("recursive"):
                raise self.error(element, "WITH RECURSIVE is not taken.", "Write the levels that there are one by one.")
            rows = type(self)(self.source, self.names, self.outer).run(element.this, {})
            self.names[element.alias.lower()] = self._renamed(element, rows)

    def _check_parts(self, node: Tree) -> None:
        """Raise for a part of a node that means nothing here."""
        names = next((parts.split() for kind, parts in _PARTS.items() if isinstance(node, kind)), node.args)
        for name, value in node.args.items():
            if value and name not in names:
                place, word = (value[0], name.removesuffix("s")) if isinstance(value, list) else (value, name)
                hint = instead("clause", name, "Leave it out: docs/sql.md lists what a query takes.")
                place = place if isinstance(place, exp.Expression) else node
                raise self.error(place, f"{word.upper().replace('_', ' ').strip()} is not taken.", hint)

    def _check_clauses(self, tree: Tree) -> None:
        self._check_parts(tree)
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            hint = "SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) <= 1."
            raise self.error(distinct, "DISTINCT ON is not taken.", hint)
        for node in (node for child in tree.iter_expressions() for node in own_nodes(child)):
            self._check_function(node)
            self._check_parts(node)
            if isinstance(node, exp.Any | exp.All) and isinstance(node.this.unnest(), exp.Query):
                word = type(node).__name__.upper()
                hint = "a = ANY (...) is a IN (...); another one is EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND ...)."
                raise self.error(node, f"{word} of a subquery is not taken.", hint)
        if tree.args.get("from_") is None:
            raise self.error(tree, "The query has no FROM.", "A view is of tables: SELECT ... FROM orders.")

    def _check_function(self, node: Tree) -> None:
        """Raise for a function of ksqlDB or Flink SQL, and for one that makes several rows."""
        in_from = isinstance(node.parent, exp.Table)
        name = node.name.lower() if isinstance(node, exp.Anonymous) and not in_from else ""
        if hint := instead("function", name):
            raise self.error(node, f"The function {name.upper()} is not taken.", hint)
        clock = isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) or name in ("now", "unix_timestamp")
        if clock or isinstance(node, exp.Rand | exp.Uuid):
            message = f"{name.upper() or node.sql_name()} gives another value whenever a record is read again."
            hint = "Take a column of a time (ttl lets rows of a table go), or of the record: xxhash64(id), sha1(id)."
            raise self.error(node, message, hint)
        is_item = isinstance(node.parent, exp.Select | exp.Alias | exp.Join | exp.Lateral)
        is_taken = is_item and type(node) in (exp.Explode, exp.Unnest)
        if isinstance(node, exp.Explode | exp.Inline | exp.Unnest) and not is_taken:
            message = f"{node.sql_name()} makes several rows of one, and is not taken here or within an expression."
            raise self.error(node, message, "Select EXPLODE(tags) AS tag alone, of a stream.")
        if isinstance(node, exp.Literal) and self.source.text[node.meta.get("start", 0)] == '"':
            self._check_quotes(node)
        if isinstance(node, exp.JSONExtract) and not isinstance(node.expression, exp.Literal | exp.JSONPath):
            raise self.error(node, "-> does not read a field here.", "Write it with a point: address.city.")

    def _check_quotes(self, node: Tree) -> None:
        """Raise for a column in double quotes, which make a text in Spark's dialect."""
        tables = {part.name.lower() for part in node.find_ancestor(exp.Select).find_all(exp.Table)} & self.names.keys()
        if any(node.name == column for table in tables for _, column in self.names[table].columns):
            message = f'"{node.name}" is a text, as in all double quotes, and there is a column {node.name}.'
            raise self.error(node, message, f"Write the column `{node.name}`, and the text '{node.name}'.")

    def _set_operation(self, tree: Tree) -> Relation:
        parts = [type(self)(self.source, self.names, self.outer).run(element) for element in (tree.left, tree.right)]
        widths = [len(part.columns) for part in parts]
        word = type(tree).__name__.upper()
        if tree.args.get("by_name"):
            raise self.error(tree.right, f"{word} BY NAME is not taken.", "Select the columns in the same order.")
        if widths[0] != widths[1]:
            message = f"{word} has {widths[0]} columns on the left and {widths[1]} on the right."
            raise self.error(tree.right, message, "Name as many.")
        if parts[0].is_stream != parts[1].is_stream:
            raise self.error(tree.right, f"{word} of a stream and a table is not taken.", "Aggregate the stream first.")
        kinds = []
        sides = [part.types(list(part.columns.values())) for part in parts]
        for number, pair in enumerate(zip(*sides, strict=True), 1):
            kind = common_type(*pair)
            if kind is None:
                types = " and ".join(kind.simpleString() for kind in pair)
                raise self.error(tree.right, f"Column {number} of the {word} is {types}.", "Cast one of them.")
            kinds.append(kind)
        is_distinct = bool(tree.args.get("distinct"))
        if isinstance(tree, exp.Union):
            rows = groups.union(parts, kinds)
            if not is_distinct:
                return rows
            if rows.is_stream:
                raise self.error(tree, "UNION of streams drops no duplicates.", "Write UNION ALL.")
            return groups.distinct(rows)
        if not is_distinct or parts[0].is_stream:
            raise self.error(tree, f"{word} ALL, or {word} of streams, is not taken.", f"Write {word} of tables.")
        return groups.of_both(parts[0], parts[1], kinds, pairing=isinstance(tree, exp.Intersect))

    # -- joins

    def _join(self, tree: Tree) -> list[Condition]:
        first = tree.args.get("from_").this
        joins = tree.args.get("joins") or []
        arrays = [*(join.this for join in joins if isinstance(join.this, exp.Unnest)), *tree.args.get("laterals", [])]
        joins = [join for join in joins if not isinstance(join.this, exp.Unnest)]
        if _has_stream(self, first, joins):
            self.rows, where = self.join_stream(first, joins, arrays, tree.args.get("where"))
            return where
        if arrays:
            raise self.error(arrays[0], *OF_ARRAYS)
        outer = any(element.side in ("RIGHT", "FULL") for element in joins)
        for element in (first, *(join.this for join in joins)):
            if element.args.get("version"):
                raise self.error(element, "AS OF is not taken of tables alone.", _VERSION)
            self._add(element)
        if joins:
            self.tables = {name: unwindowed(rows) for name, rows in self.tables.items()}
        where = self._conditions(tree.args.get("where"))
        if not outer:
            self._narrow_all(where, self.tables.keys() - {self._name(join.this) for join in joins if join.side})
        pending, current = [self._name(first)], None
        for element in joins:
            if not self._is_inner(element):
                current = self._gathered(current, pending, where if not outer else [])
                pending = []
                current = self._side_join(current, element)
                continue
            pending.append(self._name(element.this))
            if not outer:
                where += self._on(element)
                continue
            # rows that a later outer join keeps must not be taken out by what WHERE says
            local = self._on(element)
            current = self._gathered(current, pending, local)
            for condition in local:
                current = self._filtered(current, condition.tree)
            pending = []
        self.rows = self._gathered(current, pending, where)
        return where

    def _narrow_all(self, where: list[Condition], names: AbstractSet[str]) -> None:
        """Filter tables of these names by the conditions that read one alone."""
        for condition in [*where]:
            if len(condition.reads) == 1 and condition.reads <= names and _is_plain(condition.tree):
                (name,) = condition.reads
                self.tables[name] = self._filtered(self.tables[name], condition.tree)
                where.remove(condition)

    def _is_inner(self, join: Tree) -> bool:
        if join.args.get("method"):
            hint = "Write JOIN ... ON a.id = b.id."
            if join.args["method"] == "ASOF":
                hint = "A stream meets a table as of its time: JOIN t FOR SYSTEM_TIME AS OF s.at ON t.id = s.id."
            raise self.error(join, f"{join.args['method']} JOIN is not taken.", hint)
        return not join.side and join.kind in ("", "INNER", "CROSS")

    def _name(self, node: Tree) -> str:
        return str(node.meta["name"])

    def _add(self, node: Tree) -> None:
        rows = self.table(node)
        name = next((alias for alias, _ in rows.columns), node.alias_or_name)
        if name.lower() in {element.lower() for element in self.tables}:
            raise self.error(node, f"Two tables are called {name}.", f"Give one a name: {name} AS other.")
        node.meta["name"] = name
        if is_large(rows):
            rows = computed(rows)
        self.tables[name], self.places[name] = rows, node

    def _on(self, join: Tree) -> list[Condition]:
        using = join.args.get("using") or []
        conditions = self._conditions(join.args.get("on"))
        right = self._name(join.this)
        for column in using:
            label = column.name.lower()
            owners = (name for name, rows in self.tables.items() for _, field in rows.columns if field.lower() == label)
            left = next((name for name in owners if name != right), None)
            if left is None:
                raise self.error(column, f"No table before has the column {column.name}.", "Write ON a.x = b.y.")
            equal = exp.EQ(this=exp.column(column.name, left), expression=exp.column(column.name, right))
            conditions.append(Condition(equal, frozenset({left, right})))
        return conditions

    def _conditions(self, clause: Tree | None) -> list[Condition]:
        tree = clause.this if isinstance(clause, exp.Where) else clause
        return [Condition(element, self._reads(element)) for element in conjuncts(tree)]

    def _reads(self, tree: Tree) -> frozenset[str]:
        """The tables that a condition reads; of one with a subquery, all."""
        if not _is_plain(tree):
            return frozenset(self.tables)
        return frozenset(name for node in own_nodes(tree) if isinstance(node, exp.Column) for name in self._owner(node))

    def _owner(self, node: Tree) -> list[str]:
        everything = {name: tree for rows in self.tables.values() for name, tree in rows.columns.items()}
        entire = Relation(None, everything, Key((), ()), {})
        if self.rows is not None and not self.tables:
            return []
        tree = self.find(node, entire)
        if tree is None:
            if self.outer is not None and self.outer.knows(node):
                return ["<outer>"]
            raise self.unknown(node, entire)
        parts = [element.name.lower() for element in node.parts]
        owners = [name for name in self.tables if name.lower() == parts[0]] if len(parts) > 1 else []
        return owners or [name for name, rows in self.tables.items() if self.find(node, rows) is not None]

    def knows(self, node: Tree) -> bool:
        """Whether this query, or one around it, has a column."""
        if self.rows is not None and self.find(node, self.rows) is not None:
            return True
        return self.outer is not None and self.outer.knows(node)

    def _filtered(self, rows: Relation, tree: Tree) -> Relation:
        """The rows for which a condition of theirs holds."""
        predicate = self._predicate(tree, rows)
        return cast(Relation, self._added(tree, lambda: rows.filtered(predicate)))

    def _gathered(self, current: Relation | None, pending: list[str], where: list[Condition]) -> Relation:
        """Join what is joined by inner joins, in an order in which each has an equality with those before."""
        names = list(pending)
        if current is None:
            current = self.tables[names.pop(0)]
        while names:
            ranked = [(self._rank(current, self.tables[name], where), -n, name) for n, name in enumerate(names)]
            rank, _, name = max(ranked)
            if rank == 0:
                raise self._no_equality(name, where)
            names.remove(name)
            current = self._inner(current, self.tables[name], where, name)
        return current

    def _pairs(self, left: Relation, right: Relation, where: Sequence[Condition]) -> list[Equality]:
        entries = []
        for condition in where:
            tree = condition.tree.unnest()
            if not isinstance(tree, exp.EQ) or not _is_plain(tree):
                continue
            for first, second in ((tree.this, tree.expression), (tree.expression, tree.this)):
                sides = self._reads(first), self._reads(second)
                if all(sides) and sides[0] <= left.aliases and sides[1] <= right.aliases:
                    entries.append((condition, self.resolved(first, left), self.resolved(second, right)))
                    break
        return entries

    def _rank(self, left: Relation, right: Relation, where: Sequence[Condition]) -> int:
        """How well two sides join: by a key of the right, of the left, by other values, or not at all."""
        pairs = [(former, latter) for _, former, latter in self._checked_pairs(left, right, where)]
        if not pairs and not right.is_one_row and not left.is_one_row:
            return 0
        if reference_to(right, pairs, left) is not None:
            return 3
        if reference_to(left, [(latter, former) for former, latter in pairs], right) is not None:
            return 2
        return 1 if pairs else 0

    def _checked_pairs(self, left: Relation, right: Relation, where: Sequence[Condition]) -> list[Equality]:
        """The equalities of two sides; the types of each are such that Spark compares them."""
        entries = self._pairs(left, right, where)
        for condition, former, latter in entries:
            for rows, tree in ((left, former), (right, latter)):
                checked(rows, self.source, [tree], [condition.tree])
        self._check_types(left, right, [entry[1:] for entry in entries], [entry[0].tree for entry in entries])
        return entries

    def _check_types(self, left: Relation, right: Relation, pairs: Any, places: Sequence[Tree]) -> None:
        """Raise for a pair of values that Spark compares by a cast alone."""
        wrong = never_compared(left, right, pairs)
        if wrong is not None:
            number, *kinds = wrong
            message = f"Values of two types are never equal: {' and '.join(kind.simpleString() for kind in kinds)}."
            raise self.error(places[number], message, "Cast one of them to the type of the other.")

    def split(
        self, left: Relation, right: Relation, conditions: Sequence[Condition]
    ) -> tuple[list[tuple[Tree, Tree]], list[Condition]]:
        """The pairs that are equal of two sides, and the other conditions."""
        entries = self._checked_pairs(left, right, conditions)
        equal = [condition for condition, _, _ in entries]
        return [(former, latter) for _, former, latter in entries], [
            element for element in conditions if element not in equal
        ]

    def _no_equality(self, name: str, where: Sequence[Condition]) -> SqlError:
        about = [element.tree for element in where if name in element.reads and len(element.reads) > 1]
        return self.error(
            about[0] if about else self._node_of(name),
            f"The join with {name} has no equality.",
            f"Join by one: ... JOIN {name} ON a.x = {name}.y. If every row is to meet every other, give both a column "
            "with a constant, and join by that.",
        )

    def _node_of(self, name: str) -> Any:
        return self.places.get(name, 0)

    def _inner(self, left: Relation, right: Relation, where: list[Condition], name: str) -> Relation:
        pairs, where[:] = self.split(left, right, where)
        if left.is_one_row and not pairs:
            left, right = right, left
        rows = self._joined(left, right, Wanted("inner", pairs, self._columns_needed(left, right)), name)
        return self._apply(rows, where)

    def _apply(self, rows: Relation, where: list[Condition]) -> Relation:
        """Filter by the conditions that can be evaluated by now."""
        for condition in [*where]:
            if len(condition.reads) > 1 and condition.reads <= rows.aliases and _is_plain(condition.tree):
                rows = self._filtered(rows, condition.tree)
                where.remove(condition)
        return rows

    def _joined(
        self, left: Relation, right: Relation, request: Wanted, place: Any, beside: Any = (None, None)
    ) -> Relation:
        rows: Relation | None = self._added(place, lambda: joined(left, right, request, beside))
        if rows is None:
            raise self.error(
                place if not isinstance(place, str) else self._node_of(place),
                f"This {request.form} join is not by a key, and has a condition on both sides beside the equalities.",
                "Take an inner join, or put the condition into the key that is joined by.",
            )
        return rows

    def _added(self, place: Any, make: Callable[[], Any]) -> Any:
        """The outcome of a call of the library; an error of its own gets the place."""
        try:
            return make()
        except SqlError:
            raise
        except (AnalysisException, ParseException) as error:
            raise refused_by_spark(self.source, place, error) from None
        except WatersmeetError as error:
            at = self._node_of(place) if isinstance(place, str) else place
            raise self.error(at, str(error.message), error.hint or "Look at the operator's page.") from error

    def _columns_needed(self, *sides: Relation) -> frozenset[Name] | None:
        if self._read is None:
            return None
        return frozenset(
            name for rows in sides for name in rows.columns if name[1].lower() in self._read or name[1].startswith("$")
        )

    def _side_join(self, left: Relation, join: Tree) -> Relation:
        right = self.tables[self._name(join.this)]
        if join.kind in ("SEMI", "ANTI"):
            return self._semi_join(left, right, join)
        if join.side not in ("LEFT", "RIGHT", "FULL"):
            raise self.error(join, f"{join.side or join.kind} JOIN is not taken.", "INNER, LEFT, RIGHT and FULL are.")
        conditions = self._on(join)
        form: How = "outer" if join.side == "FULL" else "left"
        if join.side == "RIGHT":
            left, right = right, left
        ours, theirs = left.aliases, right.aliases
        pairs, remainder = self.split(left, right, conditions)
        local = [element.tree for element in remainder if element.reads <= ours]
        latter = [element.tree for element in remainder if element.reads <= theirs and not element.reads <= ours]
        pairing = [element.tree for element in remainder if not element.reads <= ours and not element.reads <= theirs]
        beside = tuple(
            all_of(self._predicate(element, rows) for element in trees)
            for trees, rows in ((local, left), (latter, right))
        )
        condition = all_of(self._two_sided(element, left, right) for element in pairing)
        if not pairs and not right.is_one_row:
            raise self._no_equality(self._name(join.this), conditions)
        request = Wanted(form, pairs, self._columns_needed(left, right), condition)
        return self._joined(left, right, request, join, beside)

    def _predicate(self, tree: Tree, rows: Relation) -> Tree:
        predicate = self.resolved(tree, rows)
        checked(rows, self.source, [predicate], [tree])
        return predicate

    def _two_sided(self, tree: Tree, left: Relation, right: Relation) -> Tree:
        pairing = {name: joint(element, left=True) for name, element in left.columns.items()}
        pairing |= {name: joint(element, left=False) for name, element in right.columns.items()}
        return self.resolved(tree, Relation(None, pairing, Key((), ()), {}))

    def _semi_join(self, left: Relation, right: Relation, join: Tree) -> Relation:
        pairs, remainder = self.split(left, right, self._on(join))
        for condition in [*remainder]:
            if condition.reads <= right.aliases:
                right = self._filtered(right, condition.tree)
                remainder.remove(condition)
        if remainder or not pairs:
            message = f"{join.kind} JOIN needs equalities, and takes conditions on the right side alone beside them."
            hint = "Write WHERE [NOT] EXISTS (SELECT 1 FROM ... WHERE ...)."
            raise self.error(remainder[0].tree if remainder else join, message, hint)
        return self._matching(left, right, pairs, negate=join.kind == "ANTI", place=join)

    # -- subqueries

    def _matching(self, left: Relation, right: Relation, pairs: Any, *, negate: bool, place: Any) -> Relation:
        """The rows that meet one, or none, of the right."""
        entries, again = self._different(right, pairs)
        if reference_to(right, pairs, left) is not None:
            entries, again = right, list(pairs)
        names = frozenset(left.columns)
        if not negate:
            return self._joined(left, entries, Wanted("inner", again, names), place)
        mark = ("", self._mark())
        rows = self._joined(left, entries, Wanted("left", again, names, mark=mark), place)
        none = exp.Not(this=exp.Paren(this=rows.columns[mark].copy()))
        columns = {name: tree for name, tree in rows.columns.items() if name != mark}
        return replace(rows.filtered(none), columns=columns)

    def _mark(self) -> str:
        self._marks += 1
        return f"${self._marks}"

    def _different(self, rows: Relation, pairs: Any) -> tuple[Relation, list[tuple[Tree, Tree]]]:
        """The distinct values by which the right side is compared, and each left value with the one it must equal."""
        entries = groups.grouped(rows, {f"v{n}": latter for n, (_, latter) in enumerate(pairs)}, {})
        return entries, [(former, part) for (former, _), part in zip(pairs, entries.key.parts, strict=True)]

    def _filter(self, where: list[Condition]) -> None:
        for condition in where:
            tree = condition.tree
            if not _is_plain(tree) and self._is_alone(tree):
                continue
            self.keep(tree, tree)

    def keep(self, tree: Tree, place: Tree) -> None:
        """Keep the rows for which a condition holds, subqueries among it."""
        predicate = self.with_subqueries(tree)
        checked(self.rows, self.source, [predicate], [place])
        self.rows = self._added(place, partial(self.rows.filtered, predicate))

    def _is_alone(self, tree: Tree) -> bool:
        """Whether a condition is EXISTS or IN, or its opposite, alone: then the rows are kept at once."""
        node, negate = tree, False
        while isinstance(node, exp.Paren | exp.Not):
            negate ^= isinstance(node, exp.Not)
            node = node.this
        if not isinstance(node, exp.Exists) and not (isinstance(node, exp.In) and node.args.get("query")):
            return False
        right, pairs, extra = self._meeting(node, negate=negate)
        if extra:
            right, pairs = self._meeting_more(right, pairs, extra)
        self.rows = self._matching(self.rows, right, pairs, negate=negate, place=node)
        return True

    def with_subqueries(self, tree: Tree) -> Tree:
        """A tree over the rows, with its subqueries as columns of theirs."""
        return self.resolved(self.attached(tree))

    def attached(self, tree: Tree, chooses: Callable[[Tree], bool] = lambda _: True) -> Tree:
        """A tree with columns in the place of the subqueries chosen; what was resolved before reads rows of before."""
        node = next((element for element in own_nodes(tree) if _is_subquery(element) and chooses(element)), None)
        if node is None:
            return tree
        column = self._attached(node)
        value = exp.Column(this=exp.Identifier(this=column[1], quoted=True), table=None)
        if node is tree:
            return value
        entire = tree.copy()
        place = next(n for n, element in enumerate(own_nodes(tree)) if element is node)
        next(element for n, element in enumerate(own_nodes(entire)) if n == place).replace(value)
        return self.attached(entire, chooses)

    def _attached(self, node: Tree) -> Name:
        mark = ("", self._mark())
        if isinstance(node, exp.Subquery):
            return self._scalar(node, mark)
        right, pairs, extra = self._meeting(node, negate=True)
        if extra:
            right, pairs = self._meeting_more(right, pairs, extra)
        entries, again = self._different(right, pairs)
        names = frozenset(self.rows.columns)
        self.rows = self._joined(self.rows, entries, Wanted("left", again, names, mark=mark), node)
        return mark

    def _inside(self, select: Tree) -> tuple[SelectQuery, list[tuple[Tree, Tree]], list[Tree]]:
        """A subquery's tables, joined and filtered; what is equal in it and around it; other conditions on both."""
        inner = type(self)(self.source, self.names, self)
        inner._with(select)
        inner._check_clauses(select)
        inner._read = columns_read(select)
        where = inner._join(select)
        pairs, extra, local = [], [], []
        for condition in where:
            if "<outer>" not in condition.reads:
                local.append(condition)
                continue
            pair = inner._equal_outside(condition.tree)
            if pair is None:
                extra.append(condition.tree)
            else:
                pairs.append(pair)
        inner._filter(local)
        resolved = [(self.resolved(outside), inner.resolved(inside)) for outside, inside in pairs]
        return inner, resolved, extra

    def _equal_outside(self, tree: Tree) -> tuple[Tree, Tree] | None:
        """(what is outside, what is inside) of an equality of both."""
        tree = tree.unnest()
        if not isinstance(tree, exp.EQ):
            return None
        reads = [self._reads(side) for side in (tree.this, tree.expression)]
        if reads[0] == {"<outer>"} and "<outer>" not in reads[1]:
            return tree.this, tree.expression
        if reads[1] == {"<outer>"} and "<outer>" not in reads[0]:
            return tree.expression, tree.this
        return None

    def _meeting(self, node: Tree, *, negate: bool) -> tuple[Relation, list[tuple[Tree, Tree]], list[Tree]]:
        """The rows of EXISTS or IN, what is equal, and other conditions on both sides."""
        query = self.unwrapped(node.args["query"] if isinstance(node, exp.In) else node.this)
        if isinstance(node, exp.Exists) and isinstance(query, exp.Select):
            limit: Tree = query.args.get("limit")
            if limit is not None and (limit.args.get("count") or limit.expression).name == "0":
                raise self.error(limit, "LIMIT 0 leaves no row: EXISTS is never true.", "Leave LIMIT out.")
            query.args = {name: part for name, part in query.args.items() if name not in ("distinct", "order", "limit")}
        compared: list[tuple[Tree, Tree]] = []
        has_places = any(item.find(exp.Window) for item in query.expressions)
        if isinstance(query, exp.Select) and not _is_aggregate(query) and not has_places:
            inner, pairs, extra = self._inside(query)
            rows = inner.rows
            if isinstance(node, exp.In):
                compared = self._compared(node, [inner.resolved(item.unalias()) for item in query.expressions])
        else:
            rows, pairs, extra = type(self)(self.source, self.names, None).run(query), [], []
            if isinstance(node, exp.In):
                compared = self._compared(node, list(rows.columns.values()))
        if (
            isinstance(node, exp.In)
            and negate
            and not all(tree.meta.get("known") for pair in compared for tree in pair)
        ):
            hint = "Write NOT EXISTS (SELECT 1 FROM ... WHERE ...), or declare both columns NOT NULL."
            raise self.error(node, "NOT IN of a subquery is neither true nor false where a value is null.", hint)
        if not compared and not pairs:
            hint = "Name one: EXISTS (SELECT 1 FROM payments p WHERE p.id = o.id)."
            raise self.error(node, "This subquery has no equality with the query around it.", hint)
        compared += pairs
        self._check_types(self.rows, rows, compared, [node] * len(compared))
        return rows, compared, extra

    def _compared(self, node: Tree, items: list[Tree]) -> list[tuple[Tree, Tree]]:
        sides = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        if len(sides) != len(items):
            columns = "one column" if len(sides) == 1 else f"{len(sides)} columns"
            message = f"IN takes a subquery of {columns}, and this one has {len(items)}."
            raise self.error(node, message, "Select as many as it compares.")
        return [(self.resolved(side), item) for side, item in zip(sides, items, strict=True)]

    def _meeting_more(self, right: Relation, pairs: Any, extra: Sequence[Tree]) -> tuple[Relation, Any]:
        """The rows that meet one by equalities and other conditions, by their key."""
        left = self.rows
        request = Wanted("inner", pairs, None)
        pairing = self._joined(_numbered(left, "$l"), _numbered(right, "$r"), request, extra[0])
        parts = [pairing.columns[("$l", f"$k{n}")] for n in range(len(left.key.parts))]
        ids = list(left.key.parts)
        if ids and not left.key.certain:  # a part may be null, which no part equals; a struct of parts equals its like
            parts, ids = ([struct_of({f"p{n}": part for n, part in enumerate(side)})] for side in (parts, ids))
        keys = {("", f"k{n}"): part for n, part in enumerate(parts)}
        for tree in extra:
            meets = _named_sides(self, tree, left, right, pairing)
            pairing = pairing.filtered(meets)
        entries = replace(pairing, columns=keys)
        return entries, list(zip(ids, parts, strict=True))

    def _scalar(self, node: Tree, mark: Name) -> Name:
        """The column of a subquery of one value."""
        query = self.unwrapped(node)
        if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.expressions[0].is_star:
            hint = "Select one value: (SELECT MAX(x) ...)."
            raise self.error(node, "A subquery in an expression must select one column.", hint)
        inner, pairs, extra = self._inside(query)
        if extra:
            hint = "Write a view with GROUP BY the columns that are equal, and join the view."
            message = "A subquery of one value joins the query around it by equalities alone."
            raise self.error(extra[0], message, hint)
        item = query.expressions[0].unalias()
        keep = frozenset({*self.rows.columns, mark})
        limited = _is_gathered(query)
        if limited or not _is_aggregate(query):
            refers = None if limited else reference_to(inner.rows, pairs, self.rows)
            if refers is None or refers.beside:
                hint = "Select an aggregate, without GROUP BY or HAVING: MAX(x); or name the whole key in WHERE."
                raise self.error(node, "This subquery may have several rows.", hint)
            value = inner.with_subqueries(item)
            entries = replace(inner.rows, columns={mark: value})
            self.rows = self._left_value(entries, pairs, keep, mark, node)
            return mark
        names = {f"v{n}": inside for n, (_, inside) in enumerate(pairs)}
        rows, (value,) = inner.aggregate(names, [item])
        entries = replace(rows, columns={mark: _of_nothing(value)})
        again = [(outside, part) for (outside, _), part in zip(pairs, rows.key.parts, strict=True)]
        self.rows = self._left_value(entries, again, keep, mark, node)
        return mark

    def _left_value(self, entries: Relation, again: Any, keep: frozenset[Name], mark: Name, node: Tree) -> Relation:
        """The rows with the value of an aggregate that each meets; where there is none, that of no rows."""
        refers = reference_to(entries, again, self.rows)
        if refers is None:
            raise self.error(node, "The values that are equal have types that do not meet.", "Cast one of them.")
        value = entries.columns[mark]
        assert not refers.beside, "what is equal is the key"
        fields = {("", f"{mark[1]}{n}"): path for n, path in enumerate(_paths(value))}
        rows: Relation = self._added(
            node,
            lambda: by_reference(
                self.rows,
                replace(entries, columns=fields),
                refers.trees,
                Wanted("left", again, keep | frozenset(fields)),
            ),
        )
        moved = value.copy()
        for name, path in fields.items():
            moved = _replaced(moved, path, rows.columns[name])
        columns = {name: tree for name, tree in rows.columns.items() if name not in fields}
        return replace(rows, columns={**columns, mark: moved})


def _paths(tree: Tree) -> list[Tree]:
    paths = [node for node in tree.walk(bfs=False, prune=is_path) if is_path(node)]
    return list({node.sql(): node.copy() for node in paths}.values())


def _replaced(tree: Tree, path: Tree, to: Tree) -> Tree:
    text = path.sql()
    return tree.transform(
        lambda node: to.copy() if isinstance(node, exp.Dot | exp.Column) and node.sql() == text else node
    )


def _of_nothing(value: Tree) -> Tree:
    """The value of aggregates, where a count is 0 if there is no group."""

    def counted(node: Tree) -> Tree:
        if node.meta.get("empty") is None:
            return node
        plain = node.copy()
        return exp.Coalesce(this=plain, expressions=[literal(int(plain.meta.pop("empty")))])

    return value.copy().transform(counted)


def _numbered(rows: Relation, alias: str) -> Relation:
    """The rows under names of their own, so that those of another side are others."""
    columns = {(alias, f"$c{n}"): tree for n, tree in enumerate(rows.columns.values())}
    keys = {(alias, f"$k{n}"): tree for n, tree in enumerate(rows.key.parts)}
    return replace(rows, columns={**columns, **keys})


def _named_sides(query: SelectQuery, tree: Tree, left: Relation, right: Relation, pairing: Relation) -> Tree:
    """A condition on both sides, over the rows in which they have met."""
    first, second = (
        Relation(
            None, {name: pairing.columns[(alias, f"$c{n}")] for n, name in enumerate(rows.columns)}, Key((), ()), {}
        )
        for alias, rows in (("$r", right), ("$l", left))
    )

    def replaced(node: Tree) -> Tree:
        if isinstance(node, exp.Column) and not is_root(node):
            return query.find(node, first) or query._column(node, second)
        return node

    return _moved(tree, replaced)


def _moved(tree: Tree, replaced: Callable[[Tree], Tree]) -> Tree:
    """A copy of a tree, transformed; columns that were put in are not looked at again."""
    if isinstance(tree, exp.Column):
        return replaced(tree)
    copy = tree.copy()
    columns = [node for node in own_nodes(copy) if isinstance(node, exp.Column) and not is_root(node)]
    originals = [node for node in own_nodes(tree) if isinstance(node, exp.Column) and not is_root(node)]
    for node, original in zip(columns, originals, strict=True):
        entries = replaced(original)
        node.replace(exp.Paren(this=entries) if isinstance(entries, exp.Binary | exp.Connector | exp.Not) else entries)
    return copy


def _is_subquery(node: Tree) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Exists) or (
        isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In | exp.From)
    )


def _is_plain(tree: Tree) -> bool:
    return not any(_is_subquery(node) for node in own_nodes(tree))


def _is_gathered(select: Tree) -> bool:
    return any(select.args.get(clause) for clause in ("group", "distinct", "limit", "having", "qualify"))


def _is_aggregate(select: Tree) -> bool:
    if _is_gathered(select):
        return True
    return any(
        groups.aggregate_name(node) and not isinstance(node.parent, exp.Window)
        for element in select.expressions
        for node in own_nodes(element)
    )


def columns_read(tree: Tree) -> frozenset[str] | None:
    """The names of the columns that a query reads, in small letters; None: all."""
    for star in tree.find_all(exp.Star):
        if isinstance(star.parent, exp.Select | exp.Column) and not isinstance(
            star.find_ancestor(exp.Exists), exp.Exists
        ):
            return None
    names = {part.name.lower() for column in tree.find_all(exp.Column) for part in column.parts}
    return frozenset(
        names | {element.name.lower() for join in tree.find_all(exp.Join) for element in join.args.get("using") or []}
    )


def upper_bound(tree: Tree) -> tuple[Tree, int] | None:
    """The column and the largest value that a condition such as n <= 3 lets through."""
    tree = tree.unnest()
    if isinstance(tree, exp.GT | exp.GTE):
        tree = (exp.LT if isinstance(tree, exp.GT) else exp.LTE)(this=tree.expression, expression=tree.this)
    if not isinstance(tree, exp.LT | exp.LTE | exp.EQ) or not isinstance(tree.this, exp.Column):
        return None
    bound = tree.expression
    if not isinstance(bound, exp.Literal) or bound.is_string or not bound.name.isdigit():
        return None
    return tree.this, int(bound.name) - isinstance(tree, exp.LT)


def _has_stream(query: SelectQuery, first: Tree, joins: Sequence[Tree]) -> bool:
    for node in (first, *(element.this for element in joins)):
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Func):
                return True
            rows = query.names.get(node.name.lower())
            if rows is not None and rows.is_stream:
                return True
        if isinstance(node, exp.Subquery) and _reads_stream(query, node):
            return True
    return False


def _reads_stream(query: SelectQuery, node: Tree) -> bool:
    """Whether a subquery gives a stream: it reads one, and does not aggregate."""
    select = node.unnest()
    while isinstance(select, exp.SetOperation):
        select = select.left.unnest()
    if not isinstance(select, exp.Select) or _is_aggregate(select):
        return False
    clause: Any = select.args.get("from_")
    return clause is not None and _has_stream(query, clause.this, select.args.get("joins") or [])
