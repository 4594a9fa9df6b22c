"""A query's rows under construction: a handle, and what each column is of its keys and values.

A column is a syntax tree over four roots: the key, the value, and in a join the value of either side. Projections only
compose trees; nodes are added where the library has an operator. Spark's parser gets each tree as text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from sqlglot import exp

from watersmeet.errors import ConfigError, FunctionError
from watersmeet.sql.text import DIALECT, Source

Tree = Any
"""A node of sqlglot's."""
Name = tuple[str, str]
"""(the table's name in the query, the column's)"""
KEY, VALUE, LEFT, RIGHT = "#key", "#value", "#left", "#right"
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_NAME = re.compile(r"Column<'([^'`]*)'>")
_LARGEST = 400


@dataclass(frozen=True)
class Key:
    """The key of rows: its parts, their names, how it is made of parts (None: it cannot be), if none is ever null."""

    parts: tuple[Tree, ...]
    names: tuple[str, ...]
    make: Callable[[Sequence[Tree]], Tree] | None = None
    certain: bool = False


@dataclass(frozen=True)
class Relation:
    """The rows of a table, or the records of a stream: a handle, columns by name, the key, what else is known."""

    handle: Any
    columns: Mapping[Name, Tree]
    key: Key
    facts: Mapping[str, Any]

    def under(self, alias: str, names: Sequence[str] = ()) -> Relation:
        """The same rows under a name, their columns under other names if there are some."""
        old = [column for _, column in self.columns]
        new = dict(zip((name.lower() for name in old), names or old, strict=True))
        time = self.facts.get("time")
        facts = {**self.facts, "time": new.get(time.lower(), time)} if time else self.facts
        columns = {(alias, new[column.lower()]): tree for (_, column), tree in self.columns.items()}
        return replace(self, columns=columns, facts=facts)

    def key_names(self, form: str) -> list[str]:
        """The names of the parts of the key: as the columns that they are, those that are none in a form."""
        by_text = {tree.sql(): column for (_, column), tree in self.columns.items()}
        pairs = zip(self.key.parts, self.key.names, strict=True)
        return [by_text.get(part.sql(), form.format(name)) for part, name in pairs]

    @property
    def aliases(self) -> set[str]:
        """The names of the tables that their columns are of."""
        return {alias for alias, _ in self.columns}

    @property
    def is_one_row(self) -> bool:
        """Whether there is one row at most: an aggregate of all rows."""
        return self.key.make is not None and not self.key.parts

    @property
    def is_stream(self) -> bool:
        """Whether they are facts, and no rows of a table."""
        return type(self.handle).__name__ == "KStream"

    @property
    def is_global(self) -> bool:
        """Whether every task has a copy of them."""
        return type(self.handle).__name__ == "GlobalKTable"

    def types(self, trees: Sequence[Tree]) -> list[DataType]:
        """The types of trees over the key and the value."""
        kinds = {KEY: self.key_type, VALUE: self.value_type}
        if "windows" in self.facts:
            kinds |= {"#window_start": TimestampType(), "#window_end": TimestampType()}
        return expressions().types(trees, kinds)

    @property
    def key_type(self) -> DataType:
        """The type of their keys."""
        return expressions().kind(self.handle.key_type)

    @property
    def value_type(self) -> DataType:
        """The type of their values."""
        return expressions().kind(self.handle.value_type)

    def filtered(self, predicate: Tree, **options: Any) -> Relation:
        """The rows for which a predicate is true."""
        return replace(self, handle=self.handle.filter(of_row(predicate), **options))


def root(name: str, *fields: str) -> Tree:
    """A root, or a field of it."""
    tree: Tree = exp.Column(this=exp.Identifier(this=name, quoted=True))
    return field_path(tree, *fields)


def field_path(tree: Tree, *fields: str) -> Tree:
    """A field of a tree."""
    for name in fields:
        tree = exp.Dot(this=tree, expression=exp.Identifier(this=name, quoted=True))
    return tree


def is_root(tree: Tree) -> bool:
    """Whether a tree is a root."""
    return isinstance(tree, exp.Column) and tree.name.startswith("#")


def roots_of(tree: Tree) -> set[str]:
    """The roots that a tree reads."""
    return {element.name for element in tree.find_all(exp.Column) if is_root(element)}


def is_path(tree: Tree) -> bool:
    """Whether a tree is a root or a field within one."""
    while isinstance(tree, exp.Dot):
        tree = tree.this
    return is_root(tree)


def rebased(tree: Tree, to: Mapping[str, Tree]) -> Tree:
    """A tree over other roots."""

    def replaced(node: Tree) -> Tree:
        return to[node.name].copy() if is_root(node) and node.name in to else node

    return tree.copy().transform(replaced)


def text_of(tree: Tree, names: Mapping[str, str]) -> str:
    """A tree as text, with names for its roots."""
    renamed = rebased(tree, {name: exp.Column(this=exp.Identifier(this=to, quoted=True)) for name, to in names.items()})
    return str(renamed.sql(DIALECT))


def same(former: Tree, latter: Tree) -> bool:
    """Whether two trees are one expression."""
    return bool(former.sql(DIALECT) == latter.sql(DIALECT))


def literal(value: int | str) -> Tree:
    """A constant."""
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)


def call(function: str, *arguments: Tree) -> Tree:
    """A call of a function of Spark's."""
    return exp.Anonymous(this=function, expressions=[element.copy() for element in arguments])


def struct_of(fields: Mapping[str, Tree]) -> Tree:
    """A struct of named fields."""
    return call("named_struct", *(part for name, tree in fields.items() for part in (literal(name), tree)))


def cast(tree: Tree, kind: DataType, *, trying: bool = False) -> Tree:
    """A tree of another type."""
    to = exp.DataType.build(kind.simpleString(), dialect=DIALECT)
    return (exp.TryCast if trying else exp.Cast)(this=tree.copy(), to=to)


def when(condition: Tree, tree: Tree) -> Tree:
    """A tree where a condition holds, and null elsewhere."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=tree.copy())])


def exists(tree: Tree) -> Tree:
    """Whether it is not null."""
    return exp.Paren(this=exp.Not(this=exp.Is(this=exp.Paren(this=tree.copy()), expression=exp.Null())))


def all_of(conditions: Iterable[Tree]) -> Tree | None:
    """A conjunction; None: of nothing."""
    entries = [exp.Paren(this=condition.copy()) for condition in conditions]
    return exp.and_(*entries, copy=False) if entries else None


def maker(names: Sequence[str], *, single: bool = False) -> Callable[[Sequence[Tree]], Tree]:
    """The function that makes a key of its parts: a struct under these names, or the one part itself."""
    return lambda parts: parts[0] if single else struct_of(dict(zip(names, parts, strict=True)))


class Expressions:
    """The meaning of expressions: Spark parses and analyses them, and its answers are remembered by their text."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, ...], DataType] = {}
        self._common: dict[tuple[DataType, DataType], DataType | None] = {}
        self._declared: dict[str, DataType] = {}

    def kind(self, of_handle: Any) -> DataType:
        """The type of a handle's keys or values."""
        kind: DataType = of_handle
        return kind

    def declared(self, text: str) -> DataType:
        """The type of a column that is declared."""
        if text not in self._declared:
            self._declared[text] = DataType.fromDDL(text)
        return self._declared[text]

    def types(self, trees: Sequence[Tree], kinds: Mapping[str, DataType]) -> list[DataType]:
        """The types of trees over roots of these types, as Spark's analysis has them."""
        names = {element: element.removeprefix("#") for element in kinds}
        json = {element: kind.json() for element, kind in kinds.items()}
        texts = [text_of(tree, names) for tree in trees]
        keys = [
            (text, *(part for name in sorted(roots_of(tree) & kinds.keys()) for part in (name, json[name])))
            for text, tree in zip(texts, trees, strict=True)
        ]
        new = {key: key[0] for key in keys if key not in self._types}
        if new:
            schema = StructType([StructField(names[element], kind) for element, kind in kinds.items()])
            self._types.update(zip(new, self._analysed(list(new.values()), schema), strict=True))
        return [self._types[key] for key in keys]

    def _analysed(self, texts: Sequence[str], schema: StructType) -> list[DataType]:
        log = logging.getLogger("SQLQueryContextLogger")
        enabled, log.disabled = not log.disabled, True  # who asks says what Spark refuses
        try:
            frame = active_session().createDataFrame([], schema)
            entries = frame.select(*(F.expr(text).alias(f"c{n}") for n, text in enumerate(texts))).schema
        finally:
            log.disabled = not enabled
        return [element.dataType for element in entries.fields]

    def common_type(self, former: DataType, latter: DataType) -> DataType | None:
        """The type in which values of two types are compared; None: they are not."""
        pair = former, latter
        if pair not in self._common:
            nulls = [f"CAST(NULL AS {kind.simpleString()})" for kind in pair]
            compared, either = F.expr(" = ".join(nulls)), F.expr(f"coalesce({', '.join(nulls)})")
            try:
                self._common[pair] = active_session().range(0).select(compared, either).schema.fields[1].dataType
            except AnalysisException:
                self._common[pair] = None
        return self._common[pair]

    def column(self, tree: Tree, columns: Mapping[str, Any]) -> Any:
        """The column of a tree, of those of its roots."""
        used = roots_of(tree)
        return F.expr(text_of(tree, {name: _column_name(column) for name, column in columns.items() if name in used}))

    def field(self, value: Any, name: str) -> Any:
        """A field of a column."""
        return value[name]


_OF_SESSIONS: WeakKeyDictionary[SparkSession, dict[str, Expressions]] = WeakKeyDictionary()
"""By session and whether its mode is ANSI, which decides of types."""
OTHER_EXPRESSIONS: ContextVar[Expressions | None] = ContextVar("expressions", default=None)
"""The source of meaning in the place of Spark, where no session is wanted."""


def expressions() -> Expressions:
    """The meaning of expressions here; ConfigError: there is no session."""
    meaning = OTHER_EXPRESSIONS.get()
    if meaning is not None:
        return meaning
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("SQL needs a Spark session.", hint="Make one first: spark = watersmeet.session(...).")
    by_mode = _OF_SESSIONS.setdefault(spark, {})
    return by_mode.setdefault(str(spark.conf.get("spark.sql.ansi.enabled")), Expressions())


def active_session() -> SparkSession:
    """The session, which a builder has asked for before."""
    spark = SparkSession.getActiveSession()
    assert spark is not None, "a builder has asked for it"
    return spark


def common_type(former: DataType, latter: DataType) -> DataType | None:
    """The type in which values of two types are compared; None: they are not, or by a cast of texts."""
    if former == latter:
        return former
    if isinstance(former, StringType) or isinstance(latter, StringType):
        return None
    return expressions().common_type(former, latter)


def as_type(tree: Tree, kind: DataType, to: DataType) -> Tree | None:
    """A tree as one of a key's type, null where no key is equal to it; None: the types do not allow one."""
    if kind == to:
        return tree
    if isinstance(kind, _INTEGERS) and isinstance(to, _INTEGERS):
        return cast(tree, to, trying=True)
    return cast(tree, to) if common_type(kind, to) == to else None


def renamed(source: Source, place: Tree, rows: Relation, alias: str, names: Sequence[str]) -> Relation:
    """The rows under a name, and their columns under names that are written behind it."""
    if names and len(names) != len(rows.columns):
        message = f"The query has {len(rows.columns)} columns, and {len(names)} are named."
        raise source.error(place, message, "Name as many, or none.")
    if len({name.lower() for name in names}) < len(names):
        raise source.error(place, f"A name stands twice: {', '.join(names)}.", "Give each column a name of its own.")
    return rows.under(alias, names)


def checked(rows: Relation, source: Source, trees: Sequence[Tree], places: Sequence[Tree]) -> list[DataType]:
    """The types of trees; the first that Spark does not take is refused on its place in the text."""
    try:
        return rows.types(trees)
    except (AnalysisException, ParseException):
        for tree, place in zip(trees, places, strict=True):
            try:
                rows.types([tree])
            except (AnalysisException, ParseException) as error:
                raise refused_by_spark(source, place, error) from None
        raise


def refused_by_spark(source: Source, place: Tree, error: Exception) -> Exception:
    """The error for an expression that Spark's analysis does not take."""
    message = re.sub(r"\s*SQLSTATE.*|;.*", "", str(error).strip().split("\n")[0])
    message = re.sub(r"`(?:key|value|left|right)`\.|#\w+", "", message)
    message = re.sub(r"^\[[\w.]+\]\s*", "", message).strip()
    hint = "Cast the operand, or take another function: each means what it means in Spark's SQL."
    if "UNRESOLVED_ROUTINE" in str(error):
        hint = "Look up the function's name among those of Spark's SQL."
    return source.error(place, f"Spark does not take this expression: {message:.300}.".replace("..", "."), hint)


# Functions of Columns, as handles take them.


def _column_name(column: Column) -> str:
    entries = _NAME.fullmatch(str(column))
    if entries is None:
        raise FunctionError(f"A function of SQL gets a whole column, not {column}.", hint="Tell its authors.")
    return entries[1]


def of_row(tree: Tree) -> Callable[[Column, Column], Column]:
    """A function of key and value."""
    column = expressions().column
    return lambda key, value: column(tree, {KEY: key, VALUE: value})


def of_pair(tree: Tree) -> Callable[[Column, Column, Column], Column]:
    """A joiner of key, left and right."""
    column = expressions().column
    return lambda key, left, right: column(tree, {KEY: key, LEFT: left, RIGHT: right})


def of_two(former: Tree, latter: Tree) -> Callable[[Column, Column], tuple[Column, Column]]:
    """A function of key and value that gives a pair."""
    functions = of_row(former), of_row(latter)
    return lambda key, value: (functions[0](key, value), functions[1](key, value))


def field_of(name: str) -> Callable[[Column], Column]:
    """A function of the value that reads a field."""
    field = expressions().field
    return lambda value: field(value, name)


class Fields:
    """The fields of a value under construction, with names of their own."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        self._names: set[str] = set()

    def add(self, tree: Tree, name: str, alias: str = "") -> Tree:
        """Add a tree, and get the path that reads it."""
        candidates = [name, f"{alias}_{name}", *(f"{name}_{number}" for number in range(2, len(self._names) + 4))]
        free_name = next(element for element in candidates if element and element.lower() not in self._names)
        self._names.add(free_name.lower())
        self.trees[free_name] = tree
        return root(VALUE, free_name)

    @property
    def struct(self) -> Tree:
        """The struct of them; one of a constant, where there are none."""
        return struct_of(self.trees or {"row": literal(1)})


def computed(rows: Relation, names: Sequence[Name] | None = None, **options: Any) -> Relation:
    """The rows with all columns that are no paths computed, in one step of this name and store."""
    fields, columns = Fields(), {}
    for alias, column in names or rows.columns:
        tree = rows.columns[(alias, column)]
        by_key = is_path(tree) and roots_of(tree) == {KEY}
        columns[(alias, column)] = tree if by_key else fields.add(tree, column, alias)
    return replace(rows, handle=rows.handle.map_values(of_row(fields.struct), **options), columns=columns)


def unwindowed(rows: Relation) -> Relation:
    """The rows of windows as those of a table with the window in its keys; other rows as they are."""
    if type(rows.handle).__name__ != "WTable":
        return rows
    return replace(rows, handle=rows.handle.to_stream().to_table())


def is_large(rows: Relation) -> bool:
    """Whether the trees are so large that they are computed rather than composed further."""
    return sum(sum(1 for _ in tree.walk()) for tree in rows.columns.values() if not is_path(tree)) > _LARGEST
