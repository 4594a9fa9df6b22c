"""Scripts of SQL upon a builder: declarations, views, outputs, and what a query is when it is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from watersmeet.api.builder import StreamsBuilder, names_after
from watersmeet.api.topology import Topology
from watersmeet.errors import SqlError, WatersmeetError, did_you_mean
from watersmeet.sql.declarations import declared, output
from watersmeet.sql.queries import SelectQuery
from watersmeet.sql.rows import (
    KEY,
    VALUE,
    Key,
    Relation,
    computed,
    expressions,
    is_large,
    maker,
    of_row,
    renamed,
    root,
    struct_of,
)
from watersmeet.sql.selection import aggregated, selected
from watersmeet.sql.streams import stream_of
from watersmeet.sql.text import Source, Statement, instead, no_statement, statements


class WholeQuery(SelectQuery):
    """A query, its subqueries among them."""

    select, join_stream, aggregate = selected, stream_of, aggregated


Catalog = dict[str, Relation]
"""Tables, streams and views, by name in small letters."""
CATALOGS: WeakKeyDictionary[StreamsBuilder, Catalog] = WeakKeyDictionary()
"""What has been declared by SQL, by builder."""


@dataclass(frozen=True)
class Explained:
    """A query in words: its key, its columns, and the plan."""

    key: tuple[str, ...]
    columns: Mapping[str, str]
    topology: Callable[[], Topology]

    @property
    def plan(self) -> str:
        """The whole topology with its levels and stores. To describe it is to build it: nothing can be added then."""
        return self.topology().describe(stores=True)

    def __str__(self) -> str:
        lines = [f"key: {', '.join(self.key) or 'none'}", "columns:"]
        lines += [f"  {name}: {kind}" for name, kind in self.columns.items()]
        return "\n".join([*lines, self.plan])


def run(builder: StreamsBuilder, text: str, handles: Mapping[str, Any]) -> list[Any]:
    """Run statements upon a builder: of each SELECT its handle, of each EXPLAIN what it says."""
    expressions()  # there is a session
    catalog = CATALOGS.setdefault(builder, {})
    for name, handle in handles.items():
        if getattr(handle, "_construction", None) is not builder._construction or not hasattr(handle, "value_type"):
            hint = f"Make it with the builder whose sql(...) names it: builder.sql(text, {name}=builder.table(...))."
            raise SqlError(f"{name} is no stream or table of this builder: {handle!r:.80}.", hint=hint)
        catalog[name.lower()] = rows_of(handle, name)
    parsed = list(statements(text))
    results = []
    for statement in _left(parsed, catalog):
        result = _run(builder, catalog, statement)
        if result is not None:
            results.append(result)
    return results


def _left(parsed: list[Statement], catalog: Catalog) -> list[Statement]:
    """The statements without those of what is dropped later."""
    left: dict[int, Statement] = {}
    places: dict[str, int] = {}
    for number, statement in enumerate(parsed):
        tree = statement.tree
        if isinstance(tree, exp.Drop):
            for table in tree.args.get("tables") or [tree.this]:
                name = table.name.lower()
                if name in places:
                    del left[places.pop(name)]
                elif name in catalog:
                    message = f"DROP names {table.name}, which the builder already has."
                    hint = "Leave its CREATE out of the script; topology.start(..., evolve=True) drops its state."
                    raise statement.source.error(table, message, hint)
                elif not tree.args.get("exists"):
                    hint = "DROP ... IF EXISTS."
                    raise statement.source.error(table, f"DROP names {table.name}, which is not there.", hint)
            continue
        if isinstance(tree, exp.Create):
            name = _created(statement).lower()
            if name in places or name in catalog:
                if tree.args.get("exists"):
                    continue
                if not tree.args.get("replace") or name in catalog:
                    hint = "Give it another name, write CREATE ... IF NOT EXISTS, or DROP the other first."
                    raise statement.source.error(
                        tree.find(exp.Table), f"A table, stream or view {name} is declared already.", hint
                    )
                del left[places.pop(name)]
            places[name] = number
        left[number] = statement
    return list(left.values())


def _created(statement: Statement) -> str:
    table = statement.tree.this
    table = table.this if isinstance(table, exp.Schema) else table
    if not isinstance(table, exp.Table) or statement.tree.args.get("kind") not in ("TABLE", "VIEW"):
        raise no_statement(statement.source, statement.start, "CREATE")
    return str(table.name)


def _run(builder: StreamsBuilder, catalog: Catalog, statement: Statement) -> Any:
    source, tree = statement.source, statement.tree
    try:
        if isinstance(tree, exp.Create):
            with names_after(builder, _created(statement)):
                rows = _create(builder, catalog, source, statement)
            return explained(builder, rows) if statement.explain else None
        if not isinstance(tree, exp.Query):
            raise no_statement(source, statement.start, source.text[statement.start :].split(None, 1)[0].upper())
        rows = _queried(catalog, source, tree)
        return explained(builder, rows) if statement.explain else result_of(rows)
    except SqlError:
        raise
    except (AnalysisException, ParseException, WatersmeetError) as error:
        message = getattr(error, "message", None) or str(error).split("\n")[0]
        hint = getattr(error, "hint", None) or "Look at the statement at the caret."
        raise source.error(statement.start, message, hint) from error


def _queried(catalog: Catalog, source: Source, tree: Any) -> Relation:
    rows = WholeQuery(source, catalog).run(tree)
    names = {table.name.lower() for table in tree.find_all(exp.Table)}
    plain = all(isinstance(table.this, exp.Identifier) for table in tree.find_all(exp.Table))
    if source.emit == "final" and plain and not any("windows" in catalog[n].facts for n in names & catalog.keys()):
        raise source.error(tree, "EMIT FINAL needs a window, and FROM has none.", "FROM TUMBLE(...), or EMIT CHANGES.")
    return replace(rows, columns={("", name): element for (_, name), element in rows.columns.items()})


def _create(builder: StreamsBuilder, catalog: Catalog, source: Source, statement: Statement) -> Relation:
    tree, name = statement.tree, _created(statement)
    kind = "STREAM" if statement.stream else str(tree.args.get("kind"))
    query = tree.expression
    _check_clauses(source, tree)
    if query is None:
        if kind not in ("TABLE", "STREAM"):
            raise source.error(tree, f"CREATE {kind} {name} has no query.", f"CREATE VIEW {name} AS SELECT ...")
        rows = declared(builder, source, tree, name, stream=statement.stream)
    else:
        rows = _renamed(source, tree, _queried(catalog, source, query))
        gives = "STREAM" if rows.is_stream else "TABLE"
        if kind not in ("VIEW", gives):
            message = f"The query of the {kind.lower()} {name} gives a {gives.lower()}."
            raise source.error(tree.this, message, f"CREATE {gives} {name} ... AS.")
        rows = _view_rows(rows, name, tree, source)
        if kind in ("TABLE", "STREAM"):
            output(source, tree, name, rows)
    catalog[name.lower()] = rows
    return rows


def _check_clauses(source: Source, tree: Any) -> None:
    """Raise for a clause of CREATE that means nothing here."""
    clause = tree.args.get("properties")
    for element in clause.expressions if clause else ():
        if isinstance(element, exp.MaterializedProperty | exp.SchemaCommentProperty):
            continue
        word = element.sql("spark").split()[0]
        hint = instead("create", word, "Options stand in WITH (...).")
        raise source.error(element, f"{word} is not taken in CREATE.", hint)


def _renamed(source: Source, tree: Any, rows: Relation) -> Relation:
    """The rows under the names of CREATE VIEW v (a, b) AS ..., if it has some."""
    if not isinstance(tree.this, exp.Schema):
        return rows
    if any(isinstance(element, exp.PrimaryKey) or element.args.get("kind") for element in tree.this.expressions):
        hint = "Names alone: CREATE VIEW v (a, b) AS ...; EXPLAIN v tells key and types."
        raise source.error(tree.this.expressions[0], "CREATE ... AS takes names without types and keys.", hint)
    return renamed(source, tree.this.expressions[0], rows, "", [element.name for element in tree.this.expressions])


def _view_rows(rows: Relation, name: str, tree: Any, source: Source) -> Relation:
    """A view's rows: stored under its name if it is materialized, computed once if its expressions are large."""
    materialized = tree.find(exp.MaterializedProperty) is not None
    if materialized and rows.is_stream:
        hint = f"Write CREATE VIEW {name}, or CREATE STREAM {name} ... AS."
        raise source.error(tree.this, f"The materialized view {name} would store a stream, which has no end.", hint)
    if materialized:
        return computed(rows, store=name)
    return computed(rows) if is_large(rows) else rows


def rows_of(handle: Any, name: str) -> Relation:
    """The rows of a handle: the fields of its value are columns, and so are those of its key, or `key` and `value`."""
    columns: dict[tuple[str, str], Any] = {}
    kinds = {KEY: handle.key_type, VALUE: handle.value_type}
    occupied: set[str] = set()
    for base, kind in reversed(kinds.items()):
        for field in kind.names if isinstance(kind, StructType) else [base.removeprefix("#")]:
            if field.lower() not in occupied:
                columns[(name, field)] = root(base, field) if isinstance(kind, StructType) else root(base)
                occupied.add(field.lower())
    key = handle.key_type
    parts = [root(KEY, field) for field in key.names] if isinstance(key, StructType) else [root(KEY)]
    names = tuple(key.names) if isinstance(key, StructType) else ("key",)
    single = not isinstance(key, StructType)
    return Relation(handle, columns, Key(tuple(parts), names, maker(names, single=single), single), {})


def result_of(rows: Relation) -> Any:
    """The handle of a query: its values are structs of the columns."""
    columns = {name: tree for (_, name), tree in rows.columns.items()}
    return rows.handle.map_values(of_row(struct_of(columns)))


def explained(builder: StreamsBuilder, rows: Relation) -> Explained:
    """The explanation of a query."""
    trees = list(rows.columns.values())
    kinds = [kind.simpleString() for kind in rows.types(trees)]
    columns = {name: kind for (_, name), kind in zip(rows.columns, kinds, strict=True)}
    return Explained(tuple(rows.key_names("({})")), columns, builder.build)


class Views:
    """The declarations of a script of SQL, ready to be built, and the result of each SELECT and EXPLAIN."""

    def __init__(self, spark: SparkSession, builder: StreamsBuilder, results: list[Any]) -> None:
        self.spark, self.builder, self.results = spark, builder, results

    @property
    def explanations(self) -> list[Explained]:
        """The answer of each EXPLAIN, in order."""
        return [result for result in self.results if isinstance(result, Explained)]

    def __getitem__(self, name: str) -> Any:
        """The handle of a table, stream or view: its values are structs of its columns."""
        return result_of(self._rows(name))

    def _rows(self, name: str) -> Relation:
        catalog = CATALOGS.get(self.builder, {})
        if name.lower() not in catalog:
            hint = did_you_mean(name.lower(), catalog, f"There are {', '.join(catalog) or 'none'}.", form=repr)
            raise SqlError(f"There is no table, stream or view {name!r}.", hint=hint)
        return catalog[name.lower()]

    def explain(self, name: str) -> Explained:
        """The key, the columns and the plan of a table, stream or view."""
        return explained(self.builder, self._rows(name))

    def build(self) -> Topology:
        """The topology, as `StreamsBuilder.build` gives it."""
        return self.builder.build()

    def start(self, **options: Any) -> Any:
        """Start the topology: options as for `Topology.start`."""
        return self.build().start(self.spark, **options)
