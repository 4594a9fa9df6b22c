"""The outcome of a SELECT: groups and aggregates, different rows, the first of each group, and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from watersmeet.sql import groups
from watersmeet.sql.queries import SelectQuery, conjuncts, own_nodes, upper_bound
from watersmeet.sql.rows import KEY, Key, Relation, Tree, checked, is_root, literal, maker, root
from watersmeet.sql.streams import exploded, rekeyed
from watersmeet.sql.text import instead

_ARGUMENTS = {
    "count": (0, 99),
    "listagg": (1, 2),
    "max_by": (2, 2),
    "min_by": (2, 2),
    "percentile": (2, 2),
    "top_k": (2, 2),
    "last_k": (2, 2),
}


_NUMBERS = {"percentile": "0.9", "top_k": "3", "last_k": "3"}
_NAMED_ARGUMENTS = ("quantile", "expression", "separator")


def selected(query: SelectQuery, tree: Tree, limits: Mapping[str, int]) -> Relation:
    """The rows of a SELECT, after its tables are joined and filtered."""
    for number, element in enumerate(tree.expressions):
        node = element.unalias()
        if isinstance(node, exp.Explode | exp.Unnest):
            query.rows = exploded(query, query.rows, node.this or node.expressions[0], ("", f"$e{number}"))
            element.replace(exp.alias_(exp.column(f"$e{number}"), element.alias or "col", quoted=True))
    items = _items(query, tree)
    having = tree.args.get("having")
    order = tree.args.get("order")
    clauses = [element for _, element in items]
    conditions = places = conjuncts(having.this if having else None)
    ordered = [element.this for element in order.expressions] if order else []
    ordered = [_ordinal(query, element, items) for element in ordered]
    if _aggregates(query, tree, [*clauses, *conditions, *ordered]):
        names = _groups(query, tree, items)
        conditions = [_with_aliases(element, items, query) for element in conditions]
        ordered = [_with_aliases(element, items, query) for element in ordered]
        entries = regrouped(query, names, [*clauses, *conditions, *ordered], items)
        clauses = entries[: len(clauses)]
        conditions = entries[len(clauses) : len(clauses) + len(conditions)]
        ordered = entries[len(clauses) + len(conditions) :]
        for condition, place in zip(conditions, places, strict=True):
            query.keep(condition, place)
    elif having:
        raise query.error(having.this, "The query has HAVING without groups.", "Write WHERE, or GROUP BY.")
    else:
        ordered = [_with_aliases(element, items, query) for element in ordered]
    by_name = [(name, element) for (name, _), element in zip(items, clauses, strict=True)]
    return _partitioned(query, tree, items, _finished(query, tree, by_name, ordered, limits))


def _partitioned(query: SelectQuery, tree: Tree, items: Sequence[tuple[str, Tree]], rows: Relation) -> Relation:
    """The records of a stream under the key of PARTITION BY, which is CLUSTER BY to the parser."""
    clause = tree.args.get("cluster")
    if clause is None:
        return rows
    if not rows.is_stream:
        raise query.error(clause, "PARTITION BY takes a stream, not a table.", "Leave it out: GROUP BY gives the key.")
    parts = {
        element.name or f"k{n}": query.resolved(_with_aliases(element, items, query))
        for n, element in enumerate(clause.expressions)
    }
    checked(query.rows, query.source, list(parts.values()), clause.expressions)
    single = len(parts) == 1
    trees = tuple(root(KEY) if single else root(KEY, name) for name in parts)
    make = maker(tuple(parts), single=single)
    return replace(rekeyed(rows, make(list(parts.values()))), key=Key(trees, tuple(parts), make))


def _finished(
    query: SelectQuery,
    tree: Tree,
    items: Sequence[tuple[str, Tree]],
    ordered: Sequence[Tree],
    limits: Mapping[str, int],
) -> Relation:
    numbered = [(name, element) for name, element in items if isinstance(element, exp.Window)]
    plain = [(name, element) for name, element in items if not isinstance(element, exp.Window)]
    for _, element in plain:
        window = element.find(exp.Window)
        if window is not None:
            hint = "Select it alone, under a name."
            raise query.error(window, "A window function cannot stand within an expression.", hint)
    attached = [query.attached(element) for _, element in plain]
    by_text = {element.sql(): node for (_, element), node in zip(plain, attached, strict=True)}
    ordered = [by_text[text] if (text := node.sql()) in by_text else query.attached(node) for node in ordered]
    trees = [query.resolved(element) for element in attached]
    checked(query.rows, query.source, trees, [element for _, element in plain])
    clause = tree.args.get("order")
    order = _directions(query, clause.expressions, ordered) if clause else []
    texts = {tree.sql(): name for tree, (name, _) in zip(trees, plain, strict=True)}
    texts |= {query.resolved(element).sql(): name for name, element in numbered}
    columns = {("", name): element for (name, _), element in zip(plain, trees, strict=True)}
    rows: Relation = replace(query.rows, columns=columns)
    qualify = tree.args.get("qualify")
    if numbered or qualify:
        rows = _numbered(query, tree, rows, numbered, limits)
        rows = replace(rows, columns={("", name): rows.columns[("", name)] for name, _ in items})
    if tree.args.get("distinct"):
        rows = _distinct(query, tree, rows)
    if numbered or qualify or tree.args.get("distinct"):
        order = [(_of_selected(query, clause, rows, texts.get(part.sql())), *directions) for part, *directions in order]
    if tree.args.get("limit"):
        return _limited(query, rows, order, tree.args["limit"])
    if clause:
        hint = "Leave ORDER BY out, or add LIMIT 10."
        raise query.error(clause, "ORDER BY without LIMIT: a table has no order.", hint)
    return rows


def _of_selected(query: SelectQuery, clause: Tree, rows: Relation, name: str | None) -> Tree:
    if name is None:
        message = "With DISTINCT or ROW_NUMBER(), ORDER BY takes what is selected, and this is not selected."
        raise query.error(clause, message, "Select it, too, under a name; or order in a query around this one.")
    return rows.columns[("", name)]


def _distinct(query: SelectQuery, tree: Tree, rows: Relation) -> Relation:
    if rows.is_stream:
        raise query.error(tree, "SELECT DISTINCT of a stream has no end.", "GROUP BY the columns, or name a window.")
    return groups.distinct(rows)


def _limited(query: SelectQuery, rows: Relation, order: Sequence[groups.Order], limit: Tree) -> Relation:
    size = limit.args.get("count") or limit.expression
    if rows.is_stream or not order:
        hint = "Leave LIMIT out: a stream has no end." if rows.is_stream else "Write ORDER BY amount DESC LIMIT 10."
        raise query.error(limit, "LIMIT needs ORDER BY, and rows of a table.", hint)
    if not isinstance(size, exp.Literal) or size.is_string or not size.name.isdigit() or int(size.name) < 1:
        raise query.error(limit, "LIMIT takes a number.", "Write LIMIT 10.")
    return groups.first_rows(rows, {}, order, int(size.name), None)


def _directions(query: SelectQuery, elements: Sequence[Tree], nodes: Iterable[Tree]) -> list[groups.Order]:
    return [
        (query.resolved(node), bool(element.args.get("desc")), bool(element.args.get("nulls_first")))
        for element, node in zip(elements, nodes, strict=True)
    ]


def _items(query: SelectQuery, tree: Tree) -> list[tuple[str, Tree]]:
    entries: list[tuple[str, Tree]] = []
    for number, element in enumerate(tree.expressions):
        if element.is_star:
            alias = element.table.lower() if isinstance(element, exp.Column) else None
            matches = [name for name in query.rows.columns if alias in (None, name[0].lower()) and name[1][:1] != "$"]
            if not matches:
                hint = "Write * alone, or the name of a table in FROM."
                raise query.error(element, f"There is no table {element.table}.", hint)
            star = element.this if isinstance(element, exp.Column) else element
            if star.args.get("replace") or star.args.get("rename"):
                raise query.error(element, "* REPLACE is not taken.", "* EXCEPT (n), n + 1 AS n.")
            left_out = {name.name.lower() for name in star.args.get("except_") or star.args.get("except") or []}
            entries += [
                (name[1], exp.column(name[1], name[0] or None)) for name in matches if name[1].lower() not in left_out
            ]
            continue
        node = element.unalias()
        name = element.alias or (node.name if isinstance(node, exp.Column | exp.Dot) else "")
        name = name or f"{groups.aggregate_name(node) or 'column'}_{number + 1}"
        entries.append((name, node))
    earlier_names: set[str] = set()
    for name, node in entries:
        if name.lower() in earlier_names:
            hint = f"Name one: ... AS other_{name}."
            raise query.error(node if node.parent else tree, f"Two columns are called {name}.", hint)
        earlier_names.add(name.lower())
    return entries


def _ordinal(query: SelectQuery, node: Tree, items: Sequence[tuple[str, Tree]]) -> Tree:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        number = int(node.name)
        if not 1 <= number <= len(items):
            raise query.error(node, f"There is no column {number}: {len(items)} are selected.", "Name the column.")
        return items[number - 1][1]
    return node


def _with_aliases(tree: Tree, items: Sequence[tuple[str, Tree]], query: SelectQuery) -> Tree:
    """A tree in which names of selected columns stand for what is selected, where the tables have no such column."""
    by_name = {name.lower(): node for name, node in items}

    def meant(node: Tree) -> Tree | None:
        if isinstance(node, exp.Column) and not is_root(node) and not node.table and node.name.lower() in by_name:
            return by_name[node.name.lower()] if query.find(node, query.rows) is None else None
        return None

    entries = meant(tree)
    if entries is not None:
        return entries
    if not any(meant(node) is not None for node in own_nodes(tree)):
        return tree
    copy = tree.copy()
    for node in [element for element in own_nodes(copy) if meant(element) is not None]:
        node.replace(exp.Paren(this=by_name[node.name.lower()].copy()))
    return copy


# Groups.


def _aggregates(query: SelectQuery, tree: Tree, trees: Sequence[Tree]) -> bool:
    if tree.args.get("group"):
        return True
    for element in trees:
        for node in own_nodes(element):
            if isinstance(node, exp.Window):
                break
            if groups.aggregate_name(node) or groups.is_other_aggregate(node):
                return True
    return False


def _groups(query: SelectQuery, tree: Tree, items: Sequence[tuple[str, Tree]]) -> dict[str, Tree]:
    clause = tree.args.get("group")
    if clause is None:
        return {}
    sets = clause.find(exp.Cube, exp.Rollup, exp.GroupingSets)
    if sets is not None:
        raise query.error(sets, "GROUP BY of several groupings is not taken.", "Write a view for each.")
    entries: dict[str, Tree] = {}
    elements = clause.expressions
    if clause.args.get("all"):
        elements = [node for _, node in items if not any(groups.aggregate_name(part) for part in own_nodes(node))]
    for number, element in enumerate(elements):
        node = _with_aliases(_ordinal(query, element, items), items, query)
        text = _text(query, node)
        alias = next((name for name, item in items if text is not None and _text(query, item) == text), None)
        name = alias or (node.name if isinstance(node, exp.Column) else f"group_{number + 1}")
        if any(groups.aggregate_name(part) for part in own_nodes(node)):
            hint = "Group by columns; HAVING filters by aggregates."
            raise query.error(element, "GROUP BY takes no aggregate.", hint)
        while name.lower() in {latter.lower() for latter in entries}:
            name = f"{name}_{number + 1}"
        entries[name] = node
    return entries


def _text(query: SelectQuery, node: Tree) -> str | None:
    """The text of a tree over the rows; None: it has aggregates or subqueries."""
    if isinstance(node, exp.Literal | exp.Star | exp.Window | exp.Identifier) or not isinstance(
        node, exp.Condition | exp.Dot
    ):
        return None
    parts = list(own_nodes(node))
    if any(groups.aggregate_name(part) or isinstance(part, exp.Select | exp.Window) for part in parts):
        return None
    columns = [part for part in parts if isinstance(part, exp.Column)]
    if not columns or any(query.find(column, query.rows) is None for column in columns):
        return None
    return str(query.resolved(node).sql())


def regrouped(
    query: SelectQuery, names: Mapping[str, Tree], trees: Sequence[Tree], items: Sequence[tuple[str, Tree]] = ()
) -> list[Tree]:
    """Make the query's rows its groups; the trees then read the columns of those."""
    attached = {name: query.attached(node) for name, node in names.items()}
    trees = [query.attached(tree, _is_read_by_aggregate) for tree in trees]
    resolved = {name: query.resolved(node) for name, node in attached.items()}
    checked(query.rows, query.source, list(resolved.values()), list(names.values()))
    by_text = {str(tree.sql()): name for name, tree in resolved.items()}
    uses: dict[str, groups.Used] = {}
    fields: dict[str, str] = {}
    aliases = {id(node): name for name, node in items}

    def replaced(node: Tree) -> Tree:
        name = groups.aggregate_name(node)
        if name is not None or isinstance(node, exp.Filter):
            field = _field(query, node, fields, uses, aliases.get(id(node)), names)
            return _column(field)
        if groups.is_other_aggregate(node) or (isinstance(node, exp.Anonymous) and node.name.lower() == "grouping"):
            raise _unknown_aggregate(query, node)
        text = _text(query, node)
        if text in by_text:
            return _column(by_text[text])
        if isinstance(node, exp.Column):
            hint = f"GROUP BY it, too, or take one of its values: MAX({node.sql()})."
            raise query.error(node, f"The column {node.sql()} is neither grouped nor aggregated.", hint)
        if isinstance(node, exp.Select | exp.SetOperation):
            return node
        return _rebuilt(node, replaced)

    outcome = [replaced(tree) for tree in trees]
    rows = groups.grouped(query.rows, resolved, uses, former=not names, emit=query.source.emit)
    query.rows, query.tables = rows, {}
    return outcome


def _is_read_by_aggregate(node: Tree) -> bool:
    """Whether a subquery stands in what an aggregate reads, or in its FILTER."""
    around = node.parent
    while around is not None and not isinstance(around, exp.Select):
        if groups.aggregate_name(around) or isinstance(around, exp.Filter):
            return True
        around = around.parent
    return False


def _rebuilt(node: Tree, replaced: Any) -> Tree:
    """A node with its parts replaced, under the parent of the old one for the sake of its place."""
    shallow = node.copy()
    olds, news = list(node.iter_expressions()), list(shallow.iter_expressions())
    for old, new in zip(olds, news, strict=True):
        entries = replaced(old)
        if entries is not old:
            new.replace(entries)
    return shallow


def _column(name: str) -> Tree:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def _unknown_aggregate(query: SelectQuery, node: Tree) -> Exception:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql().lower().split("(")[0]
    hint = instead("aggregate", name, f"There are {', '.join(sorted(groups.NAMES))}.")
    return query.error(node, f"The aggregate {name} is not taken.", hint)


def _field(
    query: SelectQuery, node: Tree, fields: dict[str, str], uses: dict[str, groups.Used], alias: str | None, names: Any
) -> str:
    """The field of an aggregate, which is no name of a group; equal ones are one."""
    inner, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
    name = groups.aggregate_name(inner)
    if name is None:
        raise _unknown_aggregate(query, inner)
    arguments = _arguments(query, inner, name)
    if isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct):
        name = "count_distinct"
    elif any(isinstance(part, exp.Distinct) for part in inner.iter_expressions()):
        hint = "Write SELECT DISTINCT into a view, and aggregate the view."
        raise query.error(inner, f"{name.upper()}(DISTINCT ...) is not taken.", hint)
    if any(groups.aggregate_name(part) for argument in arguments for part in own_nodes(argument)):
        hint = "Write the inner aggregate into a view, and aggregate the view."
        raise query.error(inner, "An aggregate of an aggregate is not taken.", hint)
    read = [query.resolved(element) for element in arguments]
    kinds = checked(query.rows, query.source, read, arguments)
    where = None if condition is None else query.resolved(condition)
    text = f"{name}({', '.join(element.sql() for element in read)}) {'' if where is None else where.sql()}"
    if text not in fields:
        field = alias or f"{name}_{len(uses) + 1}"
        while field.lower() in {element.lower() for element in (*uses, *names)}:
            field = f"{field}_{len(uses) + 1}"
        fields[text] = field
        use = groups.used(name, read, where, kinds)
        if use.stream_only and not query.rows.is_stream:
            hint = "Take MAX_BY(value, time) or MIN_BY(value, time)."
            raise query.error(inner, f"A table has no order, and so no {name}.", hint)
        uses[field] = use
    return fields[text]


def _arguments(query: SelectQuery, node: Tree, name: str) -> list[Tree]:
    arguments = () if isinstance(node, exp.Anonymous) else (node.this, *map(node.args.get, _NAMED_ARGUMENTS))
    entries = [element for element in (*arguments, *node.expressions) if not isinstance(element, exp.Star | None)]
    entries = [p for node in entries for p in (node.expressions if isinstance(node, exp.Distinct) else [node])]
    for element in entries:
        if isinstance(element, exp.Order) and (name != "listagg" or element.expressions[0].this != element.this):
            hint = "SORT_ARRAY(COLLECT_LIST(x)) sorts by x; of structs by their first field; STRING_AGG by its texts."
            raise query.error(element, "An aggregate takes no ORDER BY.", hint)
    entries = [element.this if isinstance(element, exp.Order | exp.IgnoreNulls) else element for element in entries]
    least, most = _ARGUMENTS.get(name, (1, 1))
    if not least <= len(entries) <= most:
        message = f"{name.upper()} takes {least} argument{'s' * (least != 1)}, and gets {len(entries)}."
        raise query.error(node, message, f"Write {name}({', '.join('xyz'[:least])}).")
    if name in _NUMBERS and not (entries[1].is_number if name == "percentile" else entries[1].is_int):
        raise query.error(
            entries[1], f"{name.upper()} takes a number as its second argument.", f"Write {name}(x, {_NUMBERS[name]})."
        )
    return entries


def aggregated(query: SelectQuery, names: Mapping[str, Tree], trees: Sequence[Tree]) -> tuple[Relation, list[Tree]]:
    """The groups of a query's rows, and trees over them."""
    outcome = regrouped(query, names, trees)
    return query.rows, [query.with_subqueries(element) for element in outcome]


# The first rows of each group.


def _numbered(
    query: SelectQuery, tree: Tree, rows: Relation, numbered: Sequence[tuple[str, Tree]], limits: Mapping[str, int]
) -> Relation:
    window: Tree
    name, window = numbered[0] if numbered else ("", None)
    qualify = tree.args.get("qualify")
    # a bound of the query around this one holds after a LIMIT, and not before it
    limit = None if tree.args.get("limit") else limits.get(name.lower())
    if qualify is not None:
        window, limit = _qualified(query, qualify, window, name)
    windows = {query.resolved(element.copy()).sql() for element in (window, *dict(numbered).values())}
    if len(numbered) > 1 or len(windows) > 1:
        raise query.error(window, "One SELECT has two window functions.", "Write a view for each.")
    if not isinstance(window.this, exp.RowNumber):
        raise query.error(
            window,
            f"The window function {window.this.sql()} is not taken.",
            "ROW_NUMBER() OVER (...) is, with n <= 3 around it; a sum for each row is one of a view by groups, joined.",
        )
    if limit is None:
        hint = "SELECT * FROM (SELECT ..., ROW_NUMBER() OVER (...) AS n FROM t) WHERE n <= 3."
        raise query.error(window, "ROW_NUMBER() has no bound.", hint)
    if rows.is_stream:
        hint = "For the last record of each key: SELECT k, MAX_BY(a, at) AS a FROM s GROUP BY k; MIN_BY has the first."
        raise query.error(window, "ROW_NUMBER() takes a table, and FROM has a stream.", hint)
    order = window.args.get("order")
    if order is None:
        raise query.error(window, "ROW_NUMBER() has no order.", "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC).")
    orders = _directions(query, order.expressions, [element.this for element in order.expressions])
    if window.args.get("spec"):
        raise query.error(window.args["spec"], "ROW_NUMBER() has no frame.", "Leave ROWS or RANGE out.")
    parts = {
        (part.name if isinstance(part, exp.Column) else f"group_{n + 1}"): query.resolved(part)
        for n, part in enumerate(window.args.get("partition_by") or [])
    }
    outcome = groups.first_rows(rows, parts, orders, limit, name or None)
    if qualify is not None and isinstance(qualify.this.unnest(), exp.EQ):
        return outcome.filtered(exp.EQ(this=root(KEY, "place"), expression=literal(limit)))
    return outcome


def _qualified(query: SelectQuery, qualify: Tree, window: Tree | None, name: str) -> tuple[Tree, int]:
    condition = qualify.this
    entries = condition.find(exp.Window)
    if entries is not None:
        as_column = condition.copy()
        as_column.find(exp.Window).replace(exp.column("n"))
        bound = upper_bound(as_column)
        if bound is not None and bound[0].name == "n":
            return entries, bound[1]
    bound = upper_bound(condition)
    if bound is not None and window is not None and bound[0].name.lower() == name.lower():
        return window, bound[1]
    raise query.error(qualify, "QUALIFY takes a bound of ROW_NUMBER().", "QUALIFY ROW_NUMBER() OVER (...) <= 3.")
