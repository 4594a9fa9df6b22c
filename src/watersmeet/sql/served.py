"""SELECT over the tables that a running query serves: from the fetched rows themselves, or by Spark's SQL over them.

WHERE decides by what it says of the key which rows are fetched: those of keys, of a range, or the whole table. A query
that asks for more than columns goes to Spark as it is written, over the fetched rows; so each expression means what it
means in Spark's SQL, and no Spark starts for a look-up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegralType, StringType, StructField, StructType, TimestampType
from sqlglot import exp

from watersmeet._spark.serving.client import ServedTable, TableClient
from watersmeet.errors import did_you_mean
from watersmeet.session import session
from watersmeet.sql.queries import conjuncts
from watersmeet.sql.text import Source, statements

MOST_ROWS = 100_000
"""Of a table that is read whole, or of a range."""


@dataclass(frozen=True)
class Columns:
    """The columns of a served table as SQL has them: types, the path of each in what is served, those of the key."""

    schema: StructType
    paths: Mapping[str, tuple[str, ...]]
    keys: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType) -> Columns:
        """The columns of rows of this schema."""
        fields: list[StructField] = []
        paths: dict[str, tuple[str, ...]] = {}
        keys: list[str] = []
        for part in schema.fields:
            inner = part.dataType.fields if isinstance(part.dataType, StructType) else None
            for field in inner or [StructField(part.name, part.dataType)]:
                name = f"window_{field.name}" if part.name == "window" else field.name
                if name.lower() in {path.lower() for path in paths}:
                    name = f"{part.name}_{name}"
                fields.append(StructField(name, TimestampType() if part.name == "window" else field.dataType))
                paths[name] = (part.name, field.name) if inner else (part.name,)
                keys += [name] if part.name == "key" else []
        return cls(StructType(fields), paths, tuple(keys))

    def flat(self, rows: pa.Table) -> pa.Table:
        """Rows as they are served, as rows of these columns."""
        arrays = []
        for path in self.paths.values():
            column = rows.column(path[0])
            arrays.append(column if len(path) == 1 else pc.struct_field(column, path[1]))
        return pa.Table.from_arrays(arrays, names=list(self.paths))


@dataclass(frozen=True)
class Fetch:
    """Which rows are fetched: of keys, of a range with its bounds, or all; and whether WHERE says no more."""

    keys: tuple[Any, ...] | None = None
    first: Any = None
    last: Any = None
    complete: bool = True

    def __str__(self) -> str:
        if self.keys is not None:
            return f"looks up {len(self.keys)} key{'s' * (len(self.keys) != 1)}: {', '.join(map(repr, self.keys[:5]))}"
        if self.first is None and self.last is None:
            return f"reads the whole table, {MOST_ROWS:,} rows at most"
        low, high = ("" if end is None else repr(end) for end in (self.first, self.last))
        return f"reads a range of keys: {low}..{high}, {MOST_ROWS:,} rows at most"


class ServedTables:
    """Queries over the tables of a running query; `master` is that of the Spark for more than columns of rows."""

    def __init__(self, client: TableClient, master: str = "local[1]") -> None:
        self._client, self._master = client, master
        self._tables: dict[str, tuple[ServedTable, Columns]] = {}

    def names(self) -> list[str]:
        """The tables, and the columns of those that were read."""
        return [*self._client.tables, *(name for _, columns in self._tables.values() for name in columns.paths)]

    def query(self, source: Source, start: int, piece: str) -> pa.Table | list[str]:
        """The rows of a SELECT, a piece of the source from `start`; or the lines that its EXPLAIN says."""
        blank = re.sub(r"[^\n]", " ", source.text[:start])
        (statement,) = statements(blank + piece)
        return self._selected(source, statement, piece)

    def described(self, source: Source, place: int, name: str) -> list[str]:
        """The columns of a table, a line each."""
        _, columns = self._table(source, place, name)
        return [
            f"{field.name}: {field.dataType.simpleString()}{', of the key' * (field.name in columns.keys)}"
            for field in columns.schema.fields
        ]

    def _table(self, source: Source, place: Any, name: str) -> tuple[ServedTable, Columns]:
        by_name = {table.lower(): table for table in self._client.tables}
        served = by_name.get(name.lower())
        if served is None:
            hint = did_you_mean(name.lower(), by_name, f"There are {', '.join(by_name.values())}.", form=by_name.get)
            raise source.error(place, f"The query serves no table {name}.", hint)
        if served not in self._tables:
            table = self._client.table(served)
            self._tables[served] = table, Columns.of(table.schema)
        return self._tables[served]

    def _selected(self, source: Source, statement: Any, piece: str) -> pa.Table | list[str]:
        tree = statement.tree
        if not isinstance(tree, exp.Query):
            word = piece.split()[0].upper()
            hint = "SELECT, SHOW TABLES, DESCRIBE, EXPLAIN; views.sql declares, and `watersmeet sql views.sql` runs it."
            raise source.error(statement.start, f"{word} is no statement of the shell, which reads.", hint)
        if statement.source.emit:
            hint = "Leave EMIT out, and ask again; query.table(name) and topics tell of changes."
            raise source.error(statement.start, "EMIT is not taken: the shell answers once.", hint)
        names = {element.alias_or_name for element in tree.find_all(exp.CTE)}
        nodes = [node for node in tree.find_all(exp.Table) if node.name not in names]
        if not nodes:
            hint = "SELECT * FROM name; SHOW TABLES has them."
            raise source.error(statement.start, "The query reads no table.", hint)
        tables = {node.name.lower(): self._table(source, node, node.name) for node in nodes}
        single = len(nodes) == 1 and isinstance(tree, exp.Select) and tree.args["from_"].this is nodes[0]
        table, columns = tables[nodes[0].name.lower()]
        fetch = fetch_of(tree, nodes[0], table, columns) if single else Fetch()
        items = plain_columns(source, tree, nodes[0], columns) if single and fetch.complete else None
        if statement.explain:
            remainder = "nothing, the rows are the answer" if items is not None else "Spark, over these rows"
            return [*(f"{table.name}: {fetch}" for table, _ in tables.values()), f"then: {remainder}"]
        rows = {name: self._rows(source, nodes[0], entry, fetch) for name, (entry, _) in tables.items()}
        if items is None:
            flat = {entry.name: (of.flat(rows[name]), of.schema) for name, (entry, of) in tables.items()}
            return self._computed(source, statement.start, flat, piece)
        limit = tree.args.get("limit")
        answer = columns.flat(rows[nodes[0].name.lower()]).select([column for _, column in items])
        answer = answer.rename_columns([name for name, _ in items])
        return answer if limit is None else answer.slice(0, int(limit.expression.name))

    def _rows(self, source: Source, place: Any, table: ServedTable, fetch: Fetch) -> pa.Table:
        if fetch.keys is not None:
            return table.get_all(list(fetch.keys))
        rows = table.range(fetch.first, fetch.last, limit=MOST_ROWS + 1)
        if len(rows) > MOST_ROWS:
            hint = "Ask for keys, WHERE key = 1 or key IN (1, 2), or for a smaller range, WHERE key BETWEEN 1 AND 9."
            raise source.error(place, f"{table.name} has more than {MOST_ROWS:,} rows there.", hint)
        return rows

    def _spark(self) -> SparkSession:
        """The session that there is, or one of its own, which logs nothing between the answers."""
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        spark = session("watersmeet-shell", master=self._master, config={"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("OFF")
        return spark

    def _computed(
        self, source: Source, start: int, rows: Mapping[str, tuple[pa.Table, StructType]], piece: str
    ) -> pa.Table:
        spark = self._spark()
        for name, (table, schema) in rows.items():
            spark.createDataFrame(table, schema).createOrReplaceTempView(f"`{name}`")
        try:
            return spark.sql(piece.strip().rstrip(";")).toArrow()
        except (AnalysisException, ParseException) as error:
            message = re.sub(r"\s*SQLSTATE.*|^\[[\w.]+\]\s*", "", str(error).split("\n")[0])
            raise source.error(
                start,
                f"Spark does not take this query: {message:.300}",
                "DESCRIBE name lists the columns; a key of one column is called `key`.",
            ) from None


def fetch_of(tree: Any, node: exp.Table, table: ServedTable, columns: Columns) -> Fetch:
    """What WHERE says of the key of the only table."""
    where = tree.args.get("where")
    conditions = conjuncts(where.this if where else None)
    key = table.schema["key"].dataType
    equal: dict[str, tuple[Any, ...]] = {}
    bounds: dict[str, Any] = {}
    used = 0
    for condition in conditions:
        name, values, bound = _about_key(condition, node, columns)
        kind = None if name is None else columns.schema[name].dataType
        if name is None or not all(_fits(value, kind) for value in values):
            continue
        if bound is None and name not in equal:
            equal[name] = tuple(dict.fromkeys(values))
        elif bound is not None and len(columns.keys) == 1 and not set(bound) & bounds.keys():
            bounds |= dict(zip(bound, values, strict=True))
        else:
            continue
        used += not (bound is not None and isinstance(condition, exp.GT | exp.LT))
    complete = used == len(conditions)
    if set(equal) == set(columns.keys) and (
        len(columns.keys) == 1 or all(len(values) == 1 for values in equal.values())
    ):
        if not isinstance(key, StructType):
            return Fetch(keys=equal[columns.keys[0]], complete=complete and not bounds)
        fields = {columns.paths[name][1]: values[0] for name, values in equal.items()}
        return Fetch(keys=(fields,), complete=complete)
    return Fetch(first=bounds.get("first"), last=bounds.get("last"), complete=complete and not equal)


def _about_key(
    condition: Any, node: exp.Table, columns: Columns
) -> tuple[str | None, tuple[Any, ...], tuple[str, ...] | None]:
    """(the key's column, constants, the bounds that they are; None: it is equal to one of them)."""
    condition = condition.unnest()
    bound: tuple[str, ...] | None
    nothing = (None, (), None)
    if isinstance(condition, exp.In) and not condition.args.get("query"):
        constants, bound = condition.expressions, None
    elif isinstance(condition, exp.Between):
        constants, bound = [condition.args["low"], condition.args["high"]], ("first", "last")
    elif isinstance(condition, exp.EQ | exp.GTE | exp.GT | exp.LTE | exp.LT):
        left, right = condition.this, condition.expression
        mirrored = not isinstance(left, exp.Column)
        condition = type(condition)(this=right, expression=left) if mirrored else condition
        is_lower = isinstance(condition, exp.GTE | exp.GT) != mirrored
        constants = [left if mirrored else right]
        bound = None if isinstance(condition, exp.EQ) else ("first" if is_lower else "last",)
    else:
        return nothing
    column = condition.this
    values = tuple(map(_constant, constants))
    if not isinstance(column, exp.Column) or None in values:
        return nothing
    if column.table and column.table.lower() != node.alias_or_name.lower():
        return nothing
    name = next((key for key in columns.keys if key.lower() == column.name.lower()), None)
    return name, values, bound


def _constant(node: Any) -> Any:
    """A number without a point, or a text; None: it is none."""
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return literal.name if sign == 1 else None
    return sign * int(literal.name) if literal.name.isdigit() else None


def _fits(value: Any, kind: Any) -> bool:
    return isinstance(kind, IntegralType if isinstance(value, int) else StringType)


def plain_columns(source: Source, tree: Any, node: exp.Table, columns: Columns) -> list[tuple[str, str]] | None:
    """The columns that are selected, by the name that they get; None: the query asks for more."""
    further = {name for name, value in tree.args.items() if value} - {"expressions", "from_", "where", "limit", "kind"}
    limit = tree.args.get("limit")
    if further or (limit is not None and not str(limit.expression.name).isdigit()) or tree.args.get("joins"):
        return None
    items: list[tuple[str, str]] = []
    for element in tree.expressions:
        if isinstance(element, exp.Star):
            items += [(name, name) for name in columns.paths]
            continue
        column = element.unalias()
        alias = node.alias_or_name.lower()
        if not isinstance(column, exp.Column) or [part.name.lower() for part in column.parts[:-1]] not in ([], [alias]):
            return None
        name = next((name for name in columns.paths if name.lower() == column.name.lower()), None)
        if name is None:
            hint = did_you_mean(
                column.name.lower(), columns.paths, suffix=f"The columns are {', '.join(columns.paths)}."
            )
            raise source.error(column, f"{node.name} has no column {column.name}.", hint)
        items.append((element.alias or name, name))
    return items if len({name for name, _ in items}) == len(items) else None
