"""Inputs and outputs in WITH: one table of options, each what the Python API calls by the same name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

from watersmeet.api.builder import StreamsBuilder
from watersmeet.errors import did_you_mean
from watersmeet.io import formats
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.endpoints import DeadLetter
from watersmeet.io.formats import Format, SchemaRegistry
from watersmeet.io.topics import Snapshot
from watersmeet.sql.rows import (
    KEY,
    VALUE,
    Fields,
    Key,
    Relation,
    Tree,
    active_session,
    expressions,
    is_path,
    maker,
    of_row,
    root,
    roots_of,
    same,
    struct_of,
)
from watersmeet.sql.text import DIALECT, Source
from watersmeet.windows import duration_ms

_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")
_SIMPLE = {
    "string": "string",
    "bigint": "long",
    "int": "int",
    "smallint": "short",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "binary": "bytes",
}
"""Formats of single columns, by Spark's types."""
_NAMES = frozenset({*_SIMPLE.values(), "uuid"})


def _text(value: Any) -> str:
    return str(value)


def _flag(value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError("true or false")
    return str(value).lower() == "true"


def _policy(value: Any) -> Any:
    text = str(value)
    return DeadLetter(text.partition(":")[2]) if text.startswith("dead letter:") else text


@dataclass(frozen=True)
class Option:
    """An option in WITH.

    Parameters
    ----------
    read : its value of a text.
    of : where it belongs: "input", "table" for inputs that are tables, "output".
    passes : whether the Python API has it by the same name.
    """

    read: Callable[[Any], Any]
    of: frozenset[str]
    passes: bool = True


_IN, _TABLE, _OUT = "input", "table", "output"


def _option(read: Callable[[Any], Any], *of: str, passes: bool = True) -> Option:
    return Option(read, frozenset(of), passes)


OPTIONS: Mapping[str, Option] = {
    "topic": _option(_text, _IN, _OUT, passes=False),
    "format": _option(_text, _IN, _OUT, passes=False),
    "key_format": _option(_text, _IN, _OUT, passes=False),
    "registry": _option(_text, _IN, _OUT, passes=False),
    "schema": _option(_text, _IN, _OUT, passes=False),
    "path": _option(_text, _IN, passes=False),
    "catalog_table": _option(_text, _IN, _OUT, passes=False),
    "snapshot": _option(_text, _TABLE, passes=False),
    "url": _option(_text, _OUT, passes=False),
    "table": _option(_text, _OUT, passes=False),
    "create": _option(_flag, _OUT, passes=False),
    "adopt": _option(_flag, _OUT, passes=False),
    "global": _option(_flag, _TABLE, passes=False),
    "grace": _option(_text, _IN, passes=False),
    "timestamp": _option(_text, _IN, passes=False),
    "order": _option(_text, _IN, passes=False),
    "starting_offsets": _option(_text, _IN),
    "on_undecodable": _option(_policy, _IN),
    "on_error": _option(_policy, _IN),
    "on_invalid_timestamp": _option(_policy, _IN),
    "headers": _option(_flag, _IN),
    "name": _option(_text, _IN, _OUT),
    "store": _option(_text, _TABLE),
    "history": _option(_text, _TABLE),
    "ttl": _option(_text, _TABLE),
    "since": _option(_text, _TABLE),
    "delivery": _option(_text, _OUT),
}
"""The options by name."""


def options_of(source: Source, tree: Tree, kinds: frozenset[str]) -> dict[str, Any]:
    """The options of a statement, read."""
    entries: dict[str, Any] = {}
    clause = tree.args.get("properties")
    for element in clause.expressions if clause else ():
        if isinstance(element, exp.FileFormatProperty):
            name, value = "format", element.this
        elif isinstance(element, exp.Property):
            name, value = element.name.lower(), element.args["value"]
        else:
            continue
        option = OPTIONS.get(name)
        if option is None or not option.of & kinds:
            options = [key for key, local in OPTIONS.items() if local.of & kinds]
            hint = did_you_mean(name, options, f"There are {', '.join(options)}.")
            raise source.error(element, f"The option {name} in WITH is unknown here.", hint)
        text = _with_environment(source, element, value.name or value.sql())
        try:
            entries[name] = option.read(text)
        except ValueError as error:
            raise source.error(
                element, f"The option {name} takes {error}: {name} = {text!r}.", f"{name} = true"
            ) from None
    return entries


def _with_environment(source: Source, place: Tree, text: str) -> str:
    for name in _ENVIRONMENT.findall(text):
        if name not in os.environ:
            raise source.error(place, f"The environment has no variable {name}.", f"export {name}=...")
    return _ENVIRONMENT.sub(lambda match: os.environ[match[1]], text)


@dataclass(frozen=True)
class _Columns:
    """The declared columns: names and types of those of the key and of the others, and which are never null."""

    key: StructType
    value: StructType
    certain: frozenset[str]


def _columns(source: Source, tree: Tree, *, stream: bool) -> _Columns:
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise source.error(
            tree.this, "CREATE without AS must declare columns.", "CREATE TABLE t (id BIGINT PRIMARY KEY, ...)."
        )
    keys: list[str] = []
    kinds: dict[str, DataType] = {}
    certain: set[str] = set()
    for element in schema.expressions:
        if isinstance(element, exp.PrimaryKey):
            keys += [part.name for part in element.expressions]
            continue
        if not isinstance(element, exp.ColumnDef):
            raise source.error(element, "This is no column.", "A column is a name and a type: id BIGINT.")
        name = element.name
        if name.lower() in {latter.lower() for latter in kinds}:
            raise source.error(element, f"Two columns are called {name}.", "Rename one.")
        kinds[name] = _kind(source, element)
        for constraint in element.args.get("constraints") or []:
            kind = constraint.kind
            if isinstance(kind, exp.PrimaryKeyColumnConstraint):
                keys.append(name)
            elif isinstance(kind, exp.NotNullColumnConstraint):
                certain.add(name)
            else:
                raise source.error(
                    element, f"The column {name} has a constraint that is not taken.", "PRIMARY KEY and NOT NULL are."
                )
    for name in keys:
        if name not in kinds:
            raise source.error(schema, f"The key names {name}, which is no column.", f"There are {', '.join(kinds)}.")
    if not keys and not stream:
        raise source.error(
            schema, "A table needs a PRIMARY KEY.", "id BIGINT PRIMARY KEY, or PRIMARY KEY (a, b); or CREATE STREAM."
        )
    value = [StructField(name, kind) for name, kind in kinds.items() if name not in keys]
    return _Columns(
        StructType([StructField(name, kinds[name]) for name in keys]), StructType(value), frozenset(certain)
    )


def _kind(source: Source, column: Tree) -> DataType:
    if column.args.get("kind") is None:
        raise source.error(column, f"The column {column.name} has no type.", f"{column.name} STRING")
    text = column.args["kind"].sql(DIALECT)
    try:
        return expressions().declared(text)
    except Exception as error:
        raise source.error(
            column, f"The column {column.name} has a type that Spark does not know: {text}.", "BIGINT, STRING, ..."
        ) from error


def declared(builder: StreamsBuilder, source: Source, tree: Tree, name: str, *, stream: bool) -> Relation:
    """The rows of a declared table or stream."""
    options = options_of(source, tree, frozenset({_IN} if stream else {_IN, _TABLE}))
    columns = _columns(source, tree, stream=stream)
    passed = {key: value for key, value in options.items() if OPTIONS[key].passes}
    time = options.get("timestamp")
    by_lower = {element.name.lower(): element.name for element in (*columns.key.fields, *columns.value.fields)}
    if time is not None and time.lower() not in by_lower:
        raise source.error(tree, f"timestamp = {time!r} names no column.", f"There are {', '.join(by_lower.values())}.")
    frames = [key for key in ("path", "catalog_table") if key in options]
    if frames and "topic" in options:
        raise source.error(tree, f"A table is of a topic or of {frames[0]}, and not of both.", "Leave one of them out.")
    read = builder.global_table if options.get("global") else builder.stream if stream else builder.table
    passed.setdefault("name", name)
    if frames:
        handle = _of_frame(source, tree, options, columns, read, passed)
    else:
        handle = _of_topic(source, tree, options, columns, read, passed, name)
    return _rows(handle, name, columns, {"time": time, "history": options.get("history"), "grace": _grace(options)})


def _grace(options: Mapping[str, Any]) -> int:
    return duration_ms(options["grace"], "grace") if "grace" in options else 0


def _of_topic(
    source: Source,
    tree: Tree,
    options: Mapping[str, Any],
    columns: _Columns,
    read: Any,
    passed: dict[str, Any],
    name: str,
) -> Any:
    key, value = _key_format(source, tree, options, columns), _value_format(source, tree, options, columns)
    time = options.get("timestamp")
    if time is not None:
        passed["timestamp"] = of_row(_place(time, columns, key, value))
    if "snapshot" in options:
        frame = active_session().read.load(options["snapshot"])
        names = [element.name for element in columns.key.fields]
        passed["bootstrap"] = Snapshot(frame, key=names[0] if len(names) == 1 else names, starting_offsets="earliest")
    return read(options.get("topic", name), key=key, value=value, **passed)


def _place(column: str, columns: _Columns, key: Any, value: Any) -> Tree:
    if column.lower() in {element.name.lower() for element in columns.key.fields}:
        return root(KEY) if len(columns.key.fields) == 1 else root(KEY, column)
    return root(VALUE) if value in _NAMES else root(VALUE, column)


def _of_frame(
    source: Source, tree: Tree, options: Mapping[str, Any], columns: _Columns, read: Any, passed: dict[str, Any]
) -> Any:
    spark, time = active_session(), options.get("timestamp")
    if time is None:
        raise source.error(
            tree,
            "Rows of files and of catalogs must have a time, and WITH names no timestamp.",
            "Name the column: WITH (timestamp = 'at', ...).",
        )
    if not columns.key.fields:
        raise source.error(
            tree,
            "Rows of files and of catalogs must have a key, and no column is the PRIMARY KEY.",
            "Declare it: id BIGINT PRIMARY KEY.",
        )
    entire = StructType([*columns.key.fields, *columns.value.fields])
    if "path" in options:
        frame = spark.readStream.schema(entire).format(options.get("format", "parquet")).load(options["path"])
    else:
        frame = spark.readStream.table(options["catalog_table"]).select(*entire.names)
    names = list(columns.key.names)
    order = [element.strip() for element in options["order"].split(",")] if "order" in options else None
    value = list(columns.value.names)
    return read(frame, key=names[0] if len(names) == 1 else names, value=value, timestamp=time, order=order, **passed)


def _key_format(source: Source, tree: Tree, options: Mapping[str, Any], columns: _Columns) -> Any:
    fields = columns.key.fields
    entire = options.get("format", "json")
    name = options.get("key_format")
    if not fields:
        return name or "bytes"
    if name is None and entire.startswith("debezium"):
        return formats.debezium_key(_registered(options) if entire == "debezium-avro" else columns.key)
    kind = fields[0].dataType.simpleString()
    if name is None:
        name = _SIMPLE.get(kind, "json") if len(fields) == 1 else "json"
    if name in _NAMES and len(fields) == 1:
        return name
    if name == "decimal" and len(fields) == 1:
        return formats.decimal(fields[0].dataType.precision, fields[0].dataType.scale)  # type: ignore[attr-defined]
    return _structured(source, tree, name, options, fields[0].dataType if len(fields) == 1 else columns.key)


def _value_format(source: Source, tree: Tree, options: Mapping[str, Any], columns: _Columns) -> Any:
    name = options.get("format", "json")
    if not columns.value.fields:
        raise source.error(tree, "The value has no column: all columns are the key's.", "Declare one that is no key.")
    if name in _NAMES:
        if len(columns.value.fields) != 1:
            raise source.error(
                tree,
                f"format = {name!r} takes one column beside the key, and there are {len(columns.value.fields)}.",
                "Take format = 'json', or declare one column.",
            )
        return name
    return _structured(source, tree, name, options, columns.value)


def _registry(options: Mapping[str, Any]) -> SchemaRegistry | None:
    return SchemaRegistry(options["registry"]) if "registry" in options else None


def _registered(options: Mapping[str, Any]) -> Format:
    """Avro, of the schema that is given or registered."""
    return formats.avro(options.get("schema"), registry=_registry(options))


def _structured(source: Source, tree: Tree, name: str, options: Mapping[str, Any], kind: Any) -> Format:
    if name == "json":
        return formats.json(kind)
    if name == "debezium":
        return formats.debezium(kind)
    if name == "debezium-avro":
        return formats.debezium(_registered(options))
    if name == "avro":
        return _registered(options)
    if name in ("json-schema", "json_schema"):
        return formats.json_schema(options.get("schema"), registry=_registry(options))
    listed = "json, debezium, debezium-avro, avro, json-schema, " + ", ".join(sorted(_NAMES))
    raise source.error(tree, f"The format {name!r} is unknown.", f"There are {listed}.")


def _rows(handle: Any, name: str, columns: _Columns, facts: Mapping[str, Any]) -> Relation:
    fields = columns.key.fields
    single = len(fields) == 1
    names = tuple(element.name for element in fields)
    parts = tuple(root(KEY) if single else root(KEY, element) for element in names)
    entries: dict[tuple[str, str], Tree] = {}
    for part, element in zip(parts, names, strict=True):
        part.meta["known"] = True
        entries[(name, element)] = part
    is_struct = isinstance(expressions().kind(handle.value_type), StructType)
    for element in columns.value.names:
        tree = root(VALUE, element) if is_struct else root(VALUE)
        if element in columns.certain:
            tree.meta["known"] = True
        entries[(name, element)] = tree

    # a struct of a key's columns may have nulls within
    key = Key(parts, names, maker(names, single=single) if fields else None, bool(fields))
    return Relation(handle, entries, key, {**facts, "tables": {name}})


# Outputs.


def output(source: Source, tree: Tree, name: str, rows: Relation) -> None:
    """Write rows where WITH says."""
    options = options_of(source, tree, frozenset({_OUT}))
    targets = [key for key in ("topic", "url", "catalog_table") if key in options]
    if len(targets) > 1:
        raise source.error(
            tree, f"A table is written to one place: {' and '.join(targets)} are given.", "Leave all but one out."
        )
    handle = keyed(source, tree, rows, options)
    if "url" in options:
        target = DatabaseTable(
            options["url"],
            table=options.get("table", name),
            create=options.get("create", False),
            adopt=options.get("adopt", False),
        )
        _table_of(handle).to(target, name=options.get("name"))
        return
    if "catalog_table" in options:
        catalog = CatalogTable(options["catalog_table"], adopt=options.get("adopt", False))
        _table_of(handle).to(catalog, name=options.get("name"))
        return
    passed = {key: value for key, value in options.items() if OPTIONS[key].passes}
    formats_given: dict[str, Any] = {"value": _written(source, tree, options.get("format", "json"), options)}
    if "key_format" in options:
        formats_given["key"] = _written(source, tree, options["key_format"], options)
    elif _SIMPLE.get(expressions().kind(handle.key_type).simpleString()) is None:
        formats_given["key"] = "json"
    handle.to(options.get("topic", name), **formats_given, **passed)


def _table_of(handle: Any) -> Any:
    return handle if hasattr(handle, "outer_join") and not hasattr(handle, "to_table") else handle.to_table()


def _written(source: Source, tree: Tree, name: str, options: Mapping[str, Any]) -> Any:
    if name in _NAMES:
        return name
    return formats.json() if name == "json" else _structured(source, tree, name, options, None)


def keyed(source: Source, tree: Tree, rows: Relation, options: Mapping[str, Any]) -> Any:
    """The rows as they are written: under a key of columns, with the other columns as the value."""
    by_text = {element.sql(): column for (_, column), element in rows.columns.items()}
    fields = Fields()
    parts = list(rows.key.parts)
    names = [by_text.get(part.sql(), local) for part, local in zip(parts, rows.key.names, strict=True)]
    for part, name in zip(parts, names, strict=True):
        fields.add(part, name)
    keys = {part.sql() for part in parts} if not rows.is_stream else set()
    values = {column: element for (_, column), element in rows.columns.items() if element.sql() not in keys}
    values = values or {column: element for (_, column), element in rows.columns.items()}
    single = options.get("format") in _NAMES
    if single and len(values) != 1:
        raise source.error(
            tree,
            f"format = {options['format']!r} takes one column beside the key, and there are {len(values)}.",
            "Take format = 'json'.",
        )
    value = next(iter(values.values())) if single else struct_of(values)
    windowed = type(rows.handle).__name__ == "WTable"
    handle = rows.handle.map_values(of_row(value))
    request = parts[0] if len(parts) == 1 and (options.get("key_format", "json") in _NAMES) else struct_of(fields.trees)
    stays = rows.is_stream or not parts or same(request, root(KEY)) or (len(parts) == 1 and same(parts[0], root(KEY)))
    flat = parts and all(is_path(part) and roots_of(part) == {KEY} for part in parts)
    as_is = flat and [part.sql() for part in parts] == [root(KEY, name).sql() for name in fields.trees]
    if windowed:
        return handle.to_stream().select_key(of_row(request))
    if stays or (as_is and not same(request, parts[0])):
        return handle
    return handle.to_stream(key=of_row(request))
