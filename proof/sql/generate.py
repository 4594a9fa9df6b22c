"""Random schemas, changes and queries over what the SQL front end takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TEXTS = ("a", "b", "ab", "", "Bc")
NUMBERS = tuple(range(-2, 6))


@dataclass(frozen=True)
class Table:
    """A table: its name, its columns with their types, those of its key, and which others are never null."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def ddl(self) -> str:
        """The statement that declares it."""
        lines = [f"{name} {kind}{' NOT NULL' * (name in self.known)}" for name, kind in self.columns.items()]
        return f"CREATE TABLE {self.name} ({', '.join(lines)}, PRIMARY KEY ({', '.join(self.key)}))"


Row = dict[str, int | str | None]
Change = tuple[Table, tuple[int | str, ...], Row | None]
"""A table, a key, and the other columns of its new row; None: it is deleted."""


def tables(rng: random.Random, stem: str = "t") -> list[Table]:
    """Some tables, with names that begin so."""
    found = []
    for number in range(rng.choice((1, 2, 2, 3))):
        key = rng.choice(
            ({"id": "BIGINT"}, {"id": "BIGINT"}, {"id": "INT"}, {"code": "STRING"}, {"id": "BIGINT", "code": "STRING"})
        )
        others = {name: rng.choice(("INT", "BIGINT")) for name in ("x", "y")} | {"s": "STRING"}
        others |= {"r": rng.choice(("BIGINT", "INT"))}
        known = tuple(name for name in others if rng.random() < 0.25)
        found.append(Table(f"{stem}{number}", {**key, **others}, tuple(key), known))
    return found


def _value(rng: random.Random, kind: str, *, known: bool) -> int | str | None:
    if not known and rng.random() < 0.2:
        return None
    return rng.choice(TEXTS) if kind == "STRING" else rng.choice(NUMBERS)


def changes(rng: random.Random, found: list[Table], count: int) -> list[Change]:
    """Changes of tables: inserts, updates and deletions."""
    result: list[Change] = []
    for _ in range(count):
        table = rng.choice(found)
        key = tuple(
            rng.choice(TEXTS[:4]) if table.columns[name] == "STRING" else rng.choice(NUMBERS[2:]) for name in table.key
        )
        row = {
            name: _value(rng, kind, known=name in table.known)
            for name, kind in table.columns.items()
            if name not in table.key
        }
        result.append((table, key, None if rng.random() < 0.25 else row))
    return result


@dataclass
class Scope:
    """What an expression may read: columns with their kinds, "n" for numbers and "s" for texts."""

    columns: dict[str, str]
    known: set[str] = field(default_factory=set)

    def of(self, kind: str) -> list[str]:
        """The columns of a kind."""
        return [name for name, own in self.columns.items() if own == kind]


class Queries:
    """A generator of queries.

    Parameters
    ----------
    rng : what chooses.
    found : the tables.
    """

    def __init__(self, rng: random.Random, found: list[Table]) -> None:
        self.rng, self.tables, self.number = rng, found, 0
        self.depth = 0
        self.views: list[tuple[str, Scope]] = []

    def chance(self, part: float) -> bool:
        """True so often."""
        return self.rng.random() < part

    def number_of(self, scope: Scope, depth: int = 2) -> str:
        """An expression of a number."""
        rng, own = self.rng, scope.of("n")
        if depth == 0 or self.chance(0.4):
            return rng.choice(own) if own and self.chance(0.8) else str(rng.choice(NUMBERS[2:]))
        inner: Callable[[], str] = lambda: self.number_of(scope, depth - 1)  # noqa: E731
        return rng.choice(
            (
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"({inner()} * {rng.choice((2, 3))})",
                lambda: f"COALESCE({inner()}, {inner()})",
                lambda: f"CASE WHEN {self.condition(scope, depth - 1)} THEN {inner()} ELSE {inner()} END",
                lambda: f"CASE WHEN {self.condition(scope, depth - 1)} THEN {inner()} END",
                lambda: f"LENGTH({self.text_of(scope, depth - 1)})",
                lambda: f"ABS({inner()})",
                lambda: f"CAST({inner()} AS BIGINT)",
                lambda: f"NULLIF({inner()}, {inner()})",
                lambda: f"{rng.choice(('GREATEST', 'LEAST'))}({inner()}, {inner()})",
                lambda: f"IF({self.condition(scope, depth - 1)}, {inner()}, {inner()})",
                lambda: f"CASE {inner()} WHEN 1 THEN {inner()} WHEN 2 THEN {inner()} ELSE {inner()} END",
            )
        )()

    def text_of(self, scope: Scope, depth: int = 2) -> str:
        """An expression of a text."""
        rng, own = self.rng, scope.of("s")
        if depth == 0 or self.chance(0.5):
            return rng.choice(own) if own and self.chance(0.85) else f"'{rng.choice(TEXTS)}'"
        inner: Callable[[], str] = lambda: self.text_of(scope, depth - 1)  # noqa: E731
        return rng.choice(
            (
                lambda: f"({inner()} || {inner()})",
                lambda: f"UPPER({inner()})",
                lambda: f"COALESCE({inner()}, {inner()})",
                lambda: f"CAST({self.number_of(scope, depth - 1)} AS STRING)",
                lambda: f"CASE WHEN {self.condition(scope, depth - 1)} THEN {inner()} ELSE {inner()} END",
            )
        )()

    def condition(self, scope: Scope, depth: int = 2) -> str:
        """A condition."""
        rng = self.rng
        number: Callable[[], str] = lambda: self.number_of(scope, max(depth - 1, 0))  # noqa: E731
        text: Callable[[], str] = lambda: self.text_of(scope, max(depth - 1, 0))  # noqa: E731
        simple = (
            lambda: f"{number()} {rng.choice(('=', '<', '<=', '>', '>=', '<>'))} {number()}",
            lambda: f"{text()} {rng.choice(('=', '<', '<>'))} {text()}",
            lambda: f"{rng.choice((number, text))()} IS {rng.choice(('', 'NOT '))}NULL",
            lambda: f"{number()} {rng.choice(('', 'NOT '))}BETWEEN {number()} AND {number()}",
            lambda: f"{number()} {rng.choice(('', 'NOT '))}IN (1, 2, {number()})",
            lambda: f"{text()} LIKE '%{rng.choice('abc')}%'",
        )
        if depth <= 0 or self.chance(0.6):
            return rng.choice(simple)()
        inner: Callable[[], str] = lambda: self.condition(scope, depth - 1)  # noqa: E731
        return rng.choice(
            (lambda: f"({inner()} AND {inner()})", lambda: f"({inner()} OR {inner()})", lambda: f"NOT ({inner()})")
        )()

    def _name(self, stem: str) -> str:
        self.number += 1
        return f"{stem}{self.number}"

    def source(self, depth: int) -> tuple[str, str, Scope]:
        """(text in FROM, its name, what it has)."""
        alias = self._name("q")
        if depth > 0 and self.chance(0.25):
            text, scope = self.select(depth - 1)
            return f"({text}) {alias}", alias, scope
        if self.views and self.chance(0.4):
            name, scope = self.rng.choice(self.views)
            return f"{name} {alias}", alias, scope
        table = self.rng.choice(self.tables)
        columns = {name: "s" if kind == "STRING" else "n" for name, kind in table.columns.items()}
        return f"{table.name} {alias}", alias, Scope(columns, {*table.key, *table.known})

    def joined(self, depth: int) -> tuple[str, Scope]:
        """(FROM, what it has)."""
        text, alias, scope = self.source(depth)
        whole = _under(alias, scope)
        if depth > 0 and self.chance(0.1):
            return self.listed(text, whole, depth)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2)) if depth > 0 else self.rng.choice((0, 0, 1))):
            other, name, found = self.source(depth - 1)
            right = _under(name, found)
            equal = self.equality(whole, right)
            if self.chance(0.2):
                equal = f"{equal} AND {self.equality(whole, right)}"
            form = self.rng.choice(
                ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI")
            )
            if form in ("SEMI", "ANTI"):
                local = f" AND {self.condition(right, 1)}" if self.chance(0.3) else ""
                text = f"{text} LEFT {form} JOIN {other} ON {equal}{local}"
                continue
            more = ""
            if form in ("JOIN", "LEFT JOIN") and self.chance(0.25):
                more = f" AND {self.condition(self.rng.choice((whole, right)), 1)}"
            known = whole.known if form == "LEFT JOIN" else right.known if form == "RIGHT JOIN" else set()
            known = whole.known | right.known if form == "JOIN" else known
            both = Scope({**whole.columns, **right.columns}, known)
            if form == "JOIN" and self.chance(0.2):
                more += f" AND {self.condition(both, 1)}"
            text, whole = f"{text} {form} {other} ON {equal}{more}", both
        return text, whole

    def listed(self, text: str, whole: Scope, depth: int) -> tuple[str, Scope]:
        """A subquery of tables with commas and what is equal in WHERE; its columns under one name."""
        conditions = []
        for _ in range(self.rng.choice((1, 1, 2))):
            other, name, found = self.source(depth - 1)
            right = _under(name, found)
            conditions.append(self.equality(whole, right))
            text, whole = f"{text}, {other}", Scope({**whole.columns, **right.columns}, whole.known | right.known)
        if self.chance(0.4):
            conditions.append(self.condition(whole, 1))
        names = {self._name("c"): column for column in self.rng.sample(list(whole.columns), min(5, len(whole.columns)))}
        items = ", ".join(f"{column} AS {name}" for name, column in names.items())
        alias = self._name("q")
        scope = Scope({name: whole.columns[column] for name, column in names.items()})
        return f"(SELECT {items} FROM {text} WHERE {' AND '.join(conditions)}) {alias}", _under(alias, scope)

    def equality(self, left: Scope, right: Scope) -> str:
        """An equality of two sides, often of a key."""
        kind = self.rng.choice("nns")
        sides = []
        for scope in (left, right):
            own = scope.of(kind)
            keys = [name for name in own if name.rpartition(".")[2] in ("id", "code", "r")]
            if not own:
                return self.equality(left, right) if left.of("n") and right.of("n") else f"{_any(left)} = {_any(right)}"
            pool = keys if keys and self.chance(0.6) else own
            sides.append(self.rng.choice(pool))
        if kind == "n" and self.chance(0.15):
            sides[0] = f"{sides[0]} + 1"
        return " = ".join(sides)

    def predicate(self, scope: Scope, depth: int) -> str:
        """A condition of WHERE, with subqueries at times."""
        rng = self.rng
        if depth == 0 or self.chance(0.65):
            return self.condition(scope)
        text, name, found = self.source(0)
        inner = _under(name, found)
        local = f" AND {self.condition(inner, 1)}" if self.chance(0.4) else ""
        negate = rng.choice(("", "NOT "))
        numbers, own = inner.of("n"), scope.of("n")
        if not numbers or not own:
            return self.condition(scope)
        one, other = rng.choice(numbers), rng.choice(own)
        both = Scope({**scope.columns, **inner.columns})
        return rng.choice(
            (
                lambda: f"{negate}EXISTS (SELECT 1 FROM {text} WHERE {one} = {other}{local})",
                lambda: f"{other} IN (SELECT {one} FROM {text} WHERE TRUE{local})",
                lambda: f"({other}, {rng.choice(own)}) IN (SELECT {one}, {rng.choice(numbers)} FROM {text})",
                lambda: f"{negate}EXISTS (SELECT 1 FROM {text} WHERE {one} = {other} AND {self.condition(both, 1)})",
                lambda: f"({self.condition(scope, 1)} OR EXISTS (SELECT 1 FROM {text} WHERE {one} = {other}{local}))",
                lambda: f"{other} >= (SELECT MIN({one}) FROM {text} WHERE {rng.choice(numbers)} = {rng.choice(own)})",
                lambda: f"(SELECT COUNT(*) FROM {text} WHERE {one} = {other}{local}) < 2",
                lambda: f"{other} {rng.choice(('<', '>=', '='))} {self.scalar(scope)}",
                lambda: self._not_in(scope, inner, text) or self.condition(scope),
                lambda: f"{self.condition(scope, 1)} AND {negate}EXISTS (SELECT 1 FROM {text} WHERE {one} = {other})",
            )
        )()

    def _not_in(self, scope: Scope, inner: Scope, text: str) -> str | None:
        """NOT IN of columns that are never null, where there are some."""
        own, theirs = ([name for name in each.of("n") if name in each.known] for each in (scope, inner))
        if not own or not theirs:
            return None
        return f"{self.rng.choice(own)} NOT IN (SELECT {self.rng.choice(theirs)} FROM {text})"

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        """(an aggregate, its kind)."""
        number, text = self.number_of(scope, 1), self.text_of(scope, 1)
        where = f" FILTER (WHERE {self.condition(scope, 1)})" if self.chance(0.15) else ""
        return self.rng.choice(
            (
                (f"COUNT(*){where}", "n"),
                (f"COUNT({number}){where}", "n"),
                (f"SUM({number}){where}", "n"),
                (f"MIN({number})", "n"),
                (f"MAX({text})", "s"),
                (f"COUNT(DISTINCT {number})", "n"),
                (f"MIN({text}){where}", "s"),
                (f"COUNT(DISTINCT {text}){where}", "n"),
                (f"COALESCE(COUNT_IF({self.condition(scope, 1)}), 0)", "n"),  # of no rows DuckDB's is null
                (f"SUM(CASE WHEN {self.condition(scope, 1)} THEN 1 ELSE {self.scalar(scope)} END)", "n"),
                (f"CASE WHEN BOOL_OR({self.condition(scope, 1)}) THEN 1 ELSE 0 END", "n"),
                (f"CASE WHEN BOOL_AND({self.condition(scope, 1)}) THEN MAX({number}) END", "n"),
                (f"SUM({number}) + COUNT(*)", "n"),
            )
        )

    def statement(self, depth: int = 2) -> tuple[str, Scope]:
        """(a whole query, what it has): with views before it at times."""
        if not self.chance(0.15):
            return self.select(depth)
        name, self.depth = self._name("v"), depth
        text, scope = self.select(depth - 1)
        names = ""
        if self.chance(0.3):
            scope = Scope({self._name("a"): kind for kind in scope.columns.values()})
            names = f"({', '.join(scope.columns)})"
        self.views.append((name, scope))
        query, whole = self.select(depth)
        return f"WITH {name}{names} AS ({text}) {query}", whole

    def select(self, depth: int = 2) -> tuple[str, Scope]:
        """(a query, what it has)."""
        self.depth = max(self.depth, depth)
        if depth > 0 and self.chance(0.12):
            return self.both(depth)
        if depth > 0 and self.chance(0.12):
            return self.first_rows(depth)
        text, scope = self.joined(depth)
        where = f" WHERE {self.predicate(scope, depth)}" if self.chance(0.6) else ""
        if self.chance(0.35):
            return self.grouped(text, scope, where, inner=depth < self.depth)
        items, found = self.items(scope)
        if depth > 0 and self.chance(0.12):
            name = self._name("c")
            items.append(f"{self.scalar(scope)} AS {name}")
            found[name] = "n"
        distinct = "DISTINCT " if self.chance(0.12) else ""
        first = self.first(found) if distinct and self.chance(0.4) else ""
        return f"SELECT {distinct}{', '.join(items)} FROM {text}{where}{first}", Scope(found)

    def first(self, columns: Mapping[str, str]) -> str:
        """ORDER BY and LIMIT, of an order that no two different rows share."""
        places = (
            f"{column}{self.rng.choice(('', ' DESC', ' ASC NULLS LAST', ' DESC NULLS FIRST'))}"
            for column in self.rng.sample(list(columns), len(columns))
        )
        return f" ORDER BY {', '.join(places)} LIMIT {self.rng.choice((1, 2, 3))}"

    def items(self, scope: Scope, kinds: str | None = None) -> tuple[list[str], dict[str, str]]:
        """(what is selected, its names and kinds)."""
        items, found = [], {}
        for kind in kinds or [self.rng.choice("nns") for _ in range(self.rng.choice((1, 2, 3)))]:
            name = self._name("c")
            own = scope.of(kind)
            plain = own and self.chance(0.5)
            tree = self.rng.choice(own) if plain else (self.number_of if kind == "n" else self.text_of)(scope)
            if kind == "n" and not plain:
                tree = f"CAST({tree} AS BIGINT)"
            items.append(f"{tree} AS {name}")
            found[name] = kind
        return items, found

    def grouped(self, text: str, scope: Scope, where: str, *, inner: bool) -> tuple[str, Scope]:
        """A query with GROUP BY."""
        keys, found = self.items(scope) if inner or self.chance(0.9) else ([], {})
        names = [each.rpartition(" AS ")[2] for each in keys]
        items = list(keys)
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            tree, kind = self.aggregate(scope)
            name = self._name("c")
            items.append(f"{tree} AS {name}")
            found[name] = kind
        having = f" HAVING {self.aggregate(scope)[0]} IS NOT NULL" if names and self.chance(0.2) else ""
        if names and self.chance(0.15):
            having = " HAVING COUNT(*) > 1"
        group = f" GROUP BY {', '.join(names)}" if names else ""
        return f"SELECT {', '.join(items)} FROM {text}{where}{group}{having}", Scope(found)

    def first_rows(self, depth: int) -> tuple[str, Scope]:
        """The first rows by an order that no two different rows share."""
        rng = self.rng
        text, scope = self.select(depth - 1)
        name, places = self._name("q"), []
        for column in rng.sample(list(scope.columns), len(scope.columns)):
            places.append(f"{column}{rng.choice(('', ' DESC', ' ASC NULLS LAST', ' DESC NULLS FIRST'))}")
        order, size = f"ORDER BY {', '.join(places)}", rng.choice((1, 2, 3))
        if self.chance(0.4):
            return f"SELECT * FROM ({text}) {name} {order} LIMIT {size}", scope
        part = f"PARTITION BY {rng.choice(list(scope.columns))} " if self.chance(0.8) else ""
        window = f"ROW_NUMBER() OVER ({part}{order})"
        if self.chance(0.3):
            return f"SELECT * FROM ({text}) {name} QUALIFY {window} {rng.choice(('<=', '='))} {size}", scope
        number, around = self._name("n"), self._name("q")
        numbered = f"SELECT *, {window} AS {number} FROM ({text}) {name}"
        bound = rng.choice((f"{number} <= {size}", f"{number} < {size + 1}"))
        columns = {**scope.columns, number: "n"} if self.chance(0.5) else dict(scope.columns)
        return f"SELECT {', '.join(columns)} FROM ({numbered}) {around} WHERE {bound}", Scope(columns)

    def scalar(self, scope: Scope) -> str:
        """A subquery of one value."""
        if self.chance(0.2):
            return self._by_key(scope) or self.scalar(scope)
        text, name, found = self.source(0)
        inner, rng = _under(name, found), self.rng
        numbers, own = inner.of("n"), scope.of("n")
        if not numbers:
            return f"(SELECT COUNT(*) FROM {text})"
        value = rng.choice((f"MAX({rng.choice(numbers)})", f"MIN({rng.choice(numbers)})", "COUNT(*)"))
        value = rng.choice((value, f"SUM({rng.choice(numbers)})", f"COUNT({rng.choice(numbers)}) + 1"))
        where = f" WHERE {rng.choice(numbers)} = {rng.choice(own)}" if own and self.chance(0.6) else ""
        return f"(SELECT {value} FROM {text}{where})"

    def _by_key(self, scope: Scope) -> str | None:
        """A subquery of the one row that has a whole key, where the scope has columns for it."""
        self.number += 1
        table, name = self.rng.choice(self.tables), f"k{self.number}"
        kinds = {column: "s" if kind == "STRING" else "n" for column, kind in table.columns.items()}
        numbers = [column for column, kind in kinds.items() if kind == "n"]
        if not numbers or not all(scope.of(kinds[column]) for column in table.key):
            return None
        equal = (f"{name}.{column} = {self.rng.choice(scope.of(kinds[column]))}" for column in table.key)
        return f"(SELECT {name}.{self.rng.choice(numbers)} FROM {table.name} {name} WHERE {' AND '.join(equal)})"

    def both(self, depth: int) -> tuple[str, Scope]:
        """A query of two queries."""
        kinds = self.rng.choice(("n", "ns", "nn"))
        sides: list[str] = []
        names: dict[str, str] = {}
        for number in range(2):
            text, scope = self.joined(depth - 1)
            where = f" WHERE {self.condition(scope)}" if self.chance(0.5) else ""
            items, found = self.items(scope, kinds)
            names = found if number == 0 else names
            sides.append(f"SELECT {', '.join(items)} FROM {text}{where}")
        word = self.rng.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        first = self.first(names) if self.chance(0.3) else ""
        return f" {word} ".join(sides) + first, Scope(dict(names))


def _under(alias: str, scope: Scope) -> Scope:
    return Scope(
        {f"{alias}.{name}": kind for name, kind in scope.columns.items()}, {f"{alias}.{name}" for name in scope.known}
    )


def _any(scope: Scope) -> str:
    name, kind = next(iter(scope.columns.items()))
    return f"CAST({name} AS STRING)" if kind == "n" else name
