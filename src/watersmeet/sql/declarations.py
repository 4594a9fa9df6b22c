"""Inputs and outputs in WITH: one table of options, each what the Python API calls by the same name."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

from watersmeet.api.builder import StreamsBuilder
from watersmeet.errors import did_you_mean
from watersmeet.io import debezium, formats
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.formats import Format, SchemaRegistry
from watersmeet.io.inputs import Changes
from watersmeet.io.outputs import Writer
from watersmeet.io.policies import DeadLetter
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
from watersmeet.sql.text import DIALECT, Source, instead
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


def _lower(value: Any) -> str:
    return str(value).lower()


def _flag(value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError("true or false")
    return str(value).lower() == "true"


def _policy(value: Any) -> Any:
    text = str(value)
    return DeadLetter(text.partition(":")[2]) if text.startswith("dead letter:") else text


def _number(value: Any) -> int:
    if not str(value).isdigit():
        raise ValueError("a whole number")
    return int(value)


@dataclass(frozen=True)
class Option:
    """An option in WITH: how its text is read, and where it belongs."""

    read: Callable[[Any], Any]
    of: frozenset[str]


_IN, _TABLE, _OUT = "input", "table", "output"
_OF_SPARK = "option."


def _options(names: str, read: Callable[[Any], Any], *of: str) -> dict[str, Option]:
    return dict.fromkeys(names.split(), Option(read, frozenset(of)))


_OF_FORMATS = {
    **_options("subject_name_strategy subject time missing_columns unavailable_columns", str, _IN, _OUT),
    **_options("auto_register validate tombstones documents", _flag, _IN, _OUT),
    **_options("version", _number, _IN, _OUT),
}
"""Options of values' formats, by the names of the functions that make them."""
_PASSED = {
    **_options("on_undecodable on_error on_invalid_timestamp", _policy, _IN),
    **_options("starting_offsets", str, _IN),
    **_options("headers", _flag, _IN),
    **_options("name", str, _IN, _OUT),
    **_options("store history ttl since", str, _TABLE),
    **_options("delivery", str, _OUT),
}
"""Options that inputs and outputs of the Python API have by the same name."""
OPTIONS: Mapping[str, Option] = {
    **_options("topic path catalog_table registry registry_username registry_password", str, _IN, _OUT),
    **_options("format key_format", _lower, _IN, _OUT),
    **_options("schema message key_schema key_message", str, _IN, _OUT),
    **_options("window_size grace timestamp order", str, _IN),
    **_options("changes", _flag, _IN),
    **_options("snapshot", str, _TABLE),
    **_options("global", _flag, _TABLE),
    **_options("url table", str, _OUT),
    **_options("create adopt", _flag, _OUT),
    **_OF_FORMATS,
    **_PASSED,
}
"""The options by name."""


def options_of(source: Source, kinds: frozenset[str]) -> dict[str, Any]:
    """The options of a statement, read; those of Spark's readers and writers stand under "option."."""
    entries: dict[str, Any] = {}
    names = [name for name, option in OPTIONS.items() if option.of & kinds]
    for name, (written, place) in source.options.items():
        text = _with_environment(source, place, written)
        if name.startswith(_OF_SPARK):
            entries[name] = text
            continue
        if name not in names:
            hint = instead("option", name) or did_you_mean(name, names, f"There are {', '.join(names)}.")
            raise source.error(place, f"The option {name} in WITH is unknown here.", hint)
        try:
            entries[name] = OPTIONS[name].read(text)
        except ValueError as error:
            example = f"Write {name} = {'1' if OPTIONS[name].read is _number else 'true'}."
            raise source.error(place, f"The option {name} takes {error}: {name} = {written!r}.", example) from None
    return entries


def _with_environment(source: Source, place: int, text: str) -> str:
    for name in _ENVIRONMENT.findall(text):
        if name not in os.environ:
            raise source.error(place, f"The environment has no variable {name}.", f"export {name}=...")
    return _ENVIRONMENT.sub(lambda match: os.environ[match[1]], text)


def _of_spark(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix(_OF_SPARK): value for name, value in options.items() if name.startswith(_OF_SPARK)}


@dataclass(frozen=True)
class _Columns:
    """The declared columns: names and types of those of the key and of the others, and which are never null."""

    key: StructType
    value: StructType
    certain: frozenset[str]


def _columns(source: Source, tree: Tree, *, stream: bool) -> _Columns:
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        hint = "Write CREATE TABLE t (id BIGINT PRIMARY KEY, ...)."
        raise source.error(tree.this, "CREATE without AS must declare columns.", hint)
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
                certain |= set() if kind.args.get("allow_null") else {name}
            elif not isinstance(kind, exp.CommentColumnConstraint):
                hint = "PRIMARY KEY and NOT NULL are."
                raise source.error(element, f"The column {name} has a constraint that is not taken.", hint)
    for name in keys:
        if name not in kinds:
            raise source.error(schema, f"The key names {name}, which is no column.", f"There are {', '.join(kinds)}.")
    if not keys and not stream:
        hint = "Write id BIGINT PRIMARY KEY, or PRIMARY KEY (a, b); or CREATE STREAM."
        raise source.error(schema, "A table needs a PRIMARY KEY.", hint)
    value = [StructField(name, kind) for name, kind in kinds.items() if name not in keys]
    return _Columns(
        StructType([StructField(name, kinds[name]) for name in keys]), StructType(value), frozenset(certain)
    )


def _kind(source: Source, column: Tree) -> DataType:
    if column.args.get("kind") is None:
        raise source.error(column, f"The column {column.name} has no type.", f"{column.name} STRING")
    text = re.sub(r"\b(VAR)?CHAR\(\d+\)", "STRING", column.args["kind"].sql(DIALECT))  # formats have no such length
    try:
        return expressions().declared(text)
    except Exception as error:
        message = f"The column {column.name} has a type that Spark does not know: {text}."
        raise source.error(column, message, "BIGINT, STRING, ...") from error


def declared(builder: StreamsBuilder, source: Source, tree: Tree, name: str, *, stream: bool) -> Relation:
    """The rows of a declared table or stream."""
    options = options_of(source, frozenset({_IN} if stream else {_IN, _TABLE}))
    columns = _columns(source, tree, stream=stream)
    passed = {key: value for key, value in options.items() if key in _PASSED}
    time = options.get("timestamp")
    by_lower = {element.name.lower(): element.name for element in (*columns.key.fields, *columns.value.fields)}
    if time is not None and time.lower() not in by_lower:
        hint = f"There are {', '.join(by_lower.values())}."
        raise source.error(_place_of(source, "timestamp"), f"timestamp = {time!r} names no column.", hint)
    frames = [key for key in ("path", "catalog_table") if key in options]
    if frames and "topic" in options:
        raise source.error(tree, f"A table is of a topic or of {frames[0]}, and not of both.", "Leave one of them out.")
    if options.get("changes") and "catalog_table" not in options:
        place = _place_of(source, "changes")
        raise source.error(place, "changes = true is of a table of a catalog.", "catalog_table = 'shop.orders'")
    method = "global_table" if options.get("global") else "stream" if stream else "table"
    read = getattr(builder, method)
    passed.setdefault("name", name)
    if frames:
        handle = _of_frame(source, tree, options, columns, read, passed)
    else:
        if options.get("format", "json") != "json" or "key_format" in options:
            # a refused declaration leaves the builder as it is
            trial = getattr(StreamsBuilder("trial"), method)
            _check_columns(source, tree, _of_topic(source, tree, options, columns, trial, {**passed}, name), columns)
        handle = _of_topic(source, tree, options, columns, read, passed, name)
    return _rows(handle, name, columns, {"time": time, "history": options.get("history"), "grace": _grace(options)})


def _check_columns(source: Source, tree: Tree, handle: Any, columns: _Columns) -> None:
    """Raise where a column is declared that the format's schema has not, or has in another type."""
    for declared_as, fields, part in (
        (handle.key_type, columns.key.fields, "key"),
        (handle.value_type, columns.value.fields, "value"),
    ):
        side_type = expressions().kind(declared_as)
        single = len(fields) == 1 and (part == "key" or not isinstance(side_type, StructType))
        kinds = (
            {element.name: element.dataType for element in side_type.fields}
            if isinstance(side_type, StructType)
            else {}
        )
        for element in fields:
            kind = side_type if single else kinds.get(element.name)
            if kind is not None and kind.simpleString() == element.dataType.simpleString():
                continue
            place = next(node for node in tree.this.expressions if node.name == element.name)
            if kind is None:
                has = ", ".join(kinds) or f"a single {side_type.simpleString()}"
                raise source.error(place, f"The {part} has no column {element.name}.", f"Its schema has {has}.")
            declared_type = element.dataType.simpleString()
            raise source.error(
                place,
                f"The column {element.name} is {kind.simpleString()} in the {part}'s format, and not {declared_type}.",
                f"Write {element.name} {kind.simpleString().upper()}; a cast in a view makes it another type.",
            )


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
    key, value = _key_format(source, options, columns), _value_format(source, tree, options, columns)
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
    if not columns.key.fields:
        message = "Rows of files and of catalogs must have a key, and no column is the PRIMARY KEY."
        raise source.error(tree, message, "Declare it: id BIGINT PRIMARY KEY.")
    names, value = list(columns.key.names), list(columns.value.names)
    key = names[0] if len(names) == 1 else names
    if options.get("changes"):
        return read(
            Changes(options["catalog_table"], key=key, value=value, timestamp=time, options=_of_spark(options)),
            **passed,
        )
    if time is None:
        hint = "Name the column: WITH (timestamp = 'at', ...); or, of a table of Delta, changes = true."
        raise source.error(tree, "Rows of files and of catalogs must have a time, and WITH names no timestamp.", hint)
    entire = StructType([*columns.key.fields, *columns.value.fields])
    reader = spark.readStream.options(**_of_spark(options))
    if "path" in options:
        frame = reader.schema(entire).format(options.get("format", "parquet")).load(options["path"])
    else:
        frame = reader.table(options["catalog_table"]).select(*entire.names)
    order = [element.strip() for element in options["order"].split(",")] if "order" in options else None
    return read(frame, key=key, value=value, timestamp=time, order=order, **passed)


def _key_format(source: Source, options: Mapping[str, Any], columns: _Columns) -> Any:
    fields = columns.key.fields
    entire = options.get("format", "json")
    name = options.get("key_format")
    if not fields:
        return name or "bytes"
    if name is None and entire.startswith("debezium"):
        return debezium.debezium_key(_registered(source, options, _KEY) if entire == "debezium-avro" else columns.key)
    kind = fields[0].dataType
    if name is None:
        name = _SIMPLE.get(kind.simpleString(), "json") if len(fields) == 1 else "json"
    if name in _NAMES and len(fields) == 1:
        return name
    if name == "decimal" and len(fields) == 1:
        return formats.decimal(kind.precision, kind.scale)  # type: ignore[attr-defined]
    return _structured(source, name, options, kind if len(fields) == 1 else columns.key, _KEY)


def _value_format(source: Source, tree: Tree, options: Mapping[str, Any], columns: _Columns) -> Any:
    name = options.get("format", "json")
    if not columns.value.fields:
        raise source.error(tree, "The value has no column: all columns are the key's.", "Declare one that is no key.")
    if name in _NAMES:
        _check_single(source, tree, name, len(columns.value.fields))
        return name
    return _structured(source, name, options, columns.value)


def _check_single(source: Source, tree: Tree, name: str, width: int) -> None:
    if width != 1:
        message = f"format = {name!r} takes one column beside the key, and there are {width}."
        raise source.error(_place_of(source, "format", tree), message, "Take format = 'json', or one column.")


_KEY = "key_"
"""What the names of a key's options begin with."""


def _place_of(source: Source, option: str, tree: Tree = None) -> Any:
    """Where an option stands; one that is left out: where the statement does."""
    return source.options[option][1] if option in source.options else (tree if tree is not None else 0)


def _registry(options: Mapping[str, Any]) -> SchemaRegistry | None:
    login = {name: options[f"registry_{name}"] for name in ("username", "password") if f"registry_{name}" in options}
    return SchemaRegistry(options["registry"], **login) if "registry" in options else None


def _schema(source: Source, options: Mapping[str, Any], part: str) -> str | None:
    text: str | None = options.get(f"{part}schema")
    if text is None or not text.endswith((".avsc", ".json")):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except OSError as error:
        message = f"The file of the schema cannot be read: {error.strerror}: {text}."
        hint = "A relative path starts from the folder in which the command runs."
        raise source.error(_place_of(source, f"{part}schema"), message, hint) from None


def _registered(source: Source, options: Mapping[str, Any], part: str = "", **passed: Any) -> Format:
    return formats.avro(_schema(source, options, part), registry=_registry(options), **passed)


def _message(source: Source, options: Mapping[str, Any], part: str) -> Any:
    """A message of Protobuf: a class in a module, or of a file of descriptors that protoc has written."""
    name, file = options.get(f"{part}message"), options.get(f"{part}schema")
    place = _place_of(source, f"{part}message", None) or _place_of(source, f"{part}format", None)
    hint = (
        f"{part}message = 'shop_pb2:Order'; or {part}schema = 'shop.desc', which protoc --include_imports "
        f"--descriptor_set_out=shop.desc makes, and {part}message = 'shop.Order'."
    )
    if name is None:
        raise source.error(place, "The format 'protobuf' needs the name of a message.", hint)
    try:
        if file is None:
            module, _, attribute = name.partition(":")
            return getattr(import_module(module), attribute)
        from google.protobuf import descriptor_pb2, descriptor_pool

        pool = descriptor_pool.DescriptorPool()
        for description in descriptor_pb2.FileDescriptorSet.FromString(Path(file).read_bytes()).file:
            pool.Add(description)
        return pool.FindMessageTypeByName(name)
    except Exception as error:  # of a module that is imported it may be any
        raise source.error(place, f"The message {name} is not there: {error!s:.200}.", hint) from None


def _structured(source: Source, name: str, options: Mapping[str, Any], kind: Any, part: str = "") -> Format:
    """A format that is no simple name; `kind` is the type of what is read, None: of what is written."""
    passed = {} if part else {option: options[option] for option in _OF_FORMATS if option in options}
    registry = _registry(options)
    makers: dict[str, tuple[Callable[..., Format], Callable[..., Format]]] = {
        "json": (formats.json, lambda **arguments: formats.json(*(() if kind is None else (kind,)), **arguments)),
        "debezium": (debezium.debezium, lambda **arguments: debezium.debezium(kind, **arguments)),
        "debezium-avro": (
            debezium.debezium,
            lambda **arguments: debezium.debezium(_registered(source, options, part), **arguments),
        ),
        "avro": (formats.avro, lambda **arguments: _registered(source, options, part, **arguments)),
        "json-schema": (
            formats.json_schema,
            lambda **arguments: formats.json_schema(_schema(source, options, part), registry=registry, **arguments),
        ),
        "protobuf": (
            formats.protobuf,
            lambda **arguments: formats.protobuf(_message(source, options, part), registry=registry, **arguments),
        ),
    }
    if name in _WINDOWED and part:
        return _windowed(source, name, options, kind)
    place = _place_of(source, f"{part}format")
    if name not in makers:
        listed = ", ".join([*makers, *sorted(_NAMES), *((*_WINDOWED, "decimal") if part else ())])
        hint = instead("format", name, f"There are {listed}.")
        raise source.error(place, f"The format {name!r} is unknown.", hint)
    if kind is None and name.startswith("debezium"):
        raise source.error(place, f"The format {name!r} is read, not written.", "Take json, avro or another one.")
    function, make = makers[name]
    for option in passed:
        if option not in inspect.signature(function).parameters:
            listed = ", ".join(name for name in _OF_FORMATS if name in inspect.signature(function).parameters)
            hint = f"It has {listed or 'none'}."
            raise source.error(_place_of(source, option), f"The format {name!r} has no option {option}.", hint)
    return make(**passed)


_WINDOWED = ("time_windowed", "session_windowed")


def _windowed(source: Source, name: str, options: Mapping[str, Any], kind: Any) -> Format:
    """Keys of windows, as Kafka Streams writes them: structs of the key, the start and the end."""
    place = _place_of(source, "key_format")
    if not isinstance(kind, StructType) or kind.names != ["key", "start", "end"]:
        hint = "Declare w STRUCT<key: STRING, start: BIGINT, end: BIGINT> PRIMARY KEY; or write a windowed aggregate."
        raise source.error(place, f"key_format = {name!r} takes the key of a window.", hint)
    inner: Any = _SIMPLE.get(kind["key"].dataType.simpleString()) or formats.json(kind["key"].dataType)
    if name == "session_windowed":
        return formats.session_windowed(inner)
    return formats.time_windowed(inner, options.get("window_size"))


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
    return Relation(handle, entries, key, facts)


# Outputs.


def output(source: Source, tree: Tree, name: str, rows: Relation) -> None:
    """Write rows where WITH says."""
    options = options_of(source, frozenset({_OUT}))
    targets = [key for key in ("topic", "url", "catalog_table", "path") if key in options]
    if len(targets) > 1:
        hint = "Keep one, and leave the others out."
        raise source.error(tree, f"A table is written to one place: {' and '.join(targets)} are given.", hint)
    handle = keyed(source, tree, rows, options)
    if "url" in options or "catalog_table" in options:
        passed: dict[str, Any] = {option: options[option] for option in ("create", "adopt") if option in options}
        is_table = hasattr(handle, "outer_join") and not hasattr(handle, "to_table")
        of_database = "url" in options and DatabaseTable(options["url"], table=options.get("table", name), **passed)
        target = of_database or CatalogTable(options["catalog_table"], **passed)
        (handle if is_table else handle.to_table()).to(target, name=options.get("name"))
        return
    if "path" in options:
        writer = Writer(options.get("format", "parquet"), options["path"], **_of_spark(options))
        handle.to(writer, name=options.get("name", name))
        return
    passed = {key: value for key, value in options.items() if key in _PASSED}
    written = {"value": _written(source, options.get("format", "json"), options)}
    if "key_format" in options:
        written["key"] = _written(source, options["key_format"], options, _KEY, handle.key_type)
    elif _SIMPLE.get(expressions().kind(handle.key_type).simpleString()) is None:
        written["key"] = "json"
    handle.to(options.get("topic", name), **written, **passed)


def _written(source: Source, name: str, options: Mapping[str, Any], part: str = "", key: Any = None) -> Any:
    return name if name in _NAMES else _structured(source, name, options, key if name in _WINDOWED else None, part)


def keyed(source: Source, tree: Tree, rows: Relation, options: Mapping[str, Any]) -> Any:
    """The rows as they are written: under a key of columns, with the other columns as the value."""
    fields, parts = Fields(), list(rows.key.parts)
    for part, name in zip(parts, rows.key_names("{}"), strict=True):
        fields.add(part, name)
    keys = {part.sql() for part in parts} if not rows.is_stream else set()
    values = {column: element for (_, column), element in rows.columns.items() if element.sql() not in keys}
    values = values or {column: element for (_, column), element in rows.columns.items()}
    single = options.get("format") in _NAMES
    if single:
        _check_single(source, tree, options["format"], len(values))
    value = next(iter(values.values())) if single else struct_of(values)
    windowed = type(rows.handle).__name__ == "WTable"
    handle = rows.handle.map_values(of_row(value))
    request = parts[0] if len(parts) == 1 and (options.get("key_format", "json") in _NAMES) else struct_of(fields.trees)
    stays = rows.is_stream or not parts or same(request, root(KEY)) or (len(parts) == 1 and same(parts[0], root(KEY)))
    flat = parts and all(is_path(part) and roots_of(part) == {KEY} for part in parts)
    as_is = flat and [part.sql() for part in parts] == [root(KEY, name).sql() for name in fields.trees]
    if windowed and options.get("key_format") in _WINDOWED:
        return handle.to_stream()
    if windowed:
        return handle.to_stream().select_key(of_row(request))
    if stays or (as_is and not same(request, parts[0])):
        return handle
    return handle.to_stream(key=of_row(request))
