"""Topologies as `module:name`: looked for in the text of the module before Spark starts, made when it runs.

A module may make its topology when it is imported, which needs a session; so before that it is read, not imported.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import click

from watersmeet._spark.checkpoint.folders import Folder, on_this_machine
from watersmeet._spark.checkpoint.record import not_started, started_in
from watersmeet._spark.machine import default_settings
from watersmeet._spark.metrics.lifetime import read
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.session import path_on_this_machine
from watersmeet.api.topology import Topology, checkpoint_folder
from watersmeet.errors import ConfigError, WatersmeetError, did_you_mean, is_others
from watersmeet.io.outputs import check_path
from watersmeet.session import session
from watersmeet.sql import sql

_HINT = (
    "Name a module that can be imported from here and a Topology in it, package.module:topology; or a file: views.sql."
)


def is_sql(reference: str) -> bool:
    """Whether a file of SQL stands for the topology."""
    return reference.endswith(".sql")


def _sql_text(reference: str) -> str:
    try:
        return Path(reference).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"The file {reference!r:.200} cannot be read: {error.strerror}.", hint=_HINT) from None


def check_named(reference: str) -> None:
    """Raise unless `module:name` can be a topology, by the text of the module; nothing is imported."""
    if is_sql(reference):
        _sql_text(reference)
        return
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise _unknown(reference, "it must be module:name")
    with _from_here():
        source = _source(reference, module)
    if source is None or module in sys.modules:
        return
    bound = _bound(reference, module, source)
    if bound is None:
        return
    if name not in bound:
        has = ", ".join(candidate for candidate in bound if not candidate.startswith("_")) or "nothing"
        raise _unknown(reference, f"the module {module!r} has no {name!r}", bound, has)
    if bound[name] is not None:
        raise _no_topology(reference, str(bound[name]))


def check_connected(reference: str) -> None:
    """Raise if the topology reads a Kafka topic for which it has no connection; nothing is imported."""
    if is_sql(reference):
        return
    module, _, name = reference.partition(":")
    with _from_here():
        source = _source(reference, module) or ""
    body = ast.parse(source).body
    function = next(
        (definition for definition in body if isinstance(definition, ast.FunctionDef) and definition.name == name), None
    )
    if function is None and source.count("StreamsBuilder(") != 1:
        return
    plain = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return
    for statement in body if function is None else function.body:
        # what stands under a condition may not be run
        topics = filter(None, map(_topic, ast.walk(statement) if isinstance(statement, plain) else ()))
        if topic := next(topics, None):
            raise ConfigError(
                f"{reference} reads the Kafka topic {topic!r}, and --kafka is left out.",
                hint='Add --kafka host:9092, or bootstrap_servers = "host:9092" in [kafka] of the file of --config.',
            )


def _topic(node: ast.AST) -> str | None:
    """The topic that a call of a builder reads: `builder.stream("orders", key=...)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    reads = node.func.attr in ("stream", "table", "global_table")
    has_formats = any(keyword.arg in ("key", "value") for keyword in node.keywords)
    first = node.args[0]
    return str(first.value) if reads and has_formats and isinstance(first, ast.Constant) else None


def made_topology(reference: str, spark: Any) -> Topology:
    """The topology that `module:name` stands for.

    Raises
    ------
    ConfigError : unknown module or name, or it is not a topology.
    SqlError : a statement of a file of SQL cannot be a topology.
    """
    if is_sql(reference):
        views = sql(spark, _sql_text(reference), application_id=Path(reference).stem)
        for explanation in views.explanations:
            click.echo(str(explanation), err=True)
        if len(views.results) > len(views.explanations):
            hint = (
                "CREATE TABLE t WITH (topic = '...') AS SELECT ..., CREATE VIEW v AS SELECT ..., or EXPLAIN SELECT ..."
            )
            raise ConfigError(f"{reference} has a SELECT of its own: its rows would go nowhere.", hint=hint)
        return views.build()
    module, _, name = reference.partition(":")
    namespace = _imported(reference, module)
    if not hasattr(namespace, name):
        has = ", ".join(variable for variable, of in vars(namespace).items() if isinstance(of, Topology)) or "none"
        reason = f"the module {module!r} has no {name!r}; topologies in it: {has}"
        raise _unknown(reference, reason, vars(namespace))
    topology = getattr(namespace, name)
    if callable(topology):
        parameters = inspect.signature(topology).parameters.values()
        by_place = [argument for argument in parameters if argument.kind in _BY_PLACE]
        first = next(iter(parameters), None)
        # others have a value of their own, which the session would take the place of
        wants = first is not None and (first.default is first.empty or first.name == "spark")
        required = [str(argument) for argument in by_place if argument.default is argument.empty]
        if len(required) > 1:
            raise ConfigError(
                f"{reference} is a function of {len(required)} arguments: {', '.join(required)}.",
                hint="Name a function of the Spark session or of nothing; give others a default.",
            )
        topology = topology(spark) if wants else topology()
    if isinstance(topology, Topology):
        return topology
    raise _no_topology(reference, type(topology).__name__)


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _imported(reference: str, module: str) -> Any:
    try:
        with _from_here():
            return importlib.import_module(module)
    except WatersmeetError:
        # what the module itself did wrong, such as a method that is called otherwise here
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that this one imports
        raise _unknown(reference, error) from error
    except ValueError as error:
        if module:
            raise
        raise _unknown(reference, error) from error


@contextmanager
def _from_here() -> Iterator[None]:
    """Modules are looked for in the folder in which the command runs, too."""
    sys.path[:0] = [""]
    try:
        yield
    finally:
        sys.path.remove("")


def _source(reference: str, module: str) -> str | None:
    """The text of a module; None where it has none, as one that is compiled."""
    first, *submodules = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for number, _ in enumerate(submodules, start=2):
            spec = _submodule(spec, ".".join(module.split(".")[:number]))
    except (ValueError, ImportError):
        return None
    if spec is None:
        raise _unknown(reference, f"there is no module {module!r} here")
    read = getattr(spec.loader, "get_source", None)
    try:
        return None if read is None else read(module)
    except (OSError, ImportError, SyntaxError, UnicodeError):
        return None


def _submodule(package: ModuleSpec | None, module: str) -> ModuleSpec | None:
    """A module of a package, which is not imported."""
    if package is None or package.submodule_search_locations is None:
        return None
    folders: Sequence[str] = list(package.submodule_search_locations)
    return PathFinder.find_spec(module, folders)


def _bound(reference: str, module: str, source: str) -> Mapping[str, str | None] | None:
    """The names of a module, each with the type of its value if that can be no topology; None: it may have others."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ConfigError(
            f"The module {module!r} of {reference} is not Python: {error.msg}, line {error.lineno}.",
            hint=f"Correct it: python -m py_compile shows the line. {(error.text or '').strip():.80}",
        ) from None
    bindings: dict[str, str | None] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return None
        for name, kind in _names(node):
            bindings[name] = kind if name not in bindings else None
    opaque = {"__getattr__", "globals", "setattr", "exec"}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | bindings.keys()
    return None if used & opaque else bindings


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those within `if`, `try` and loops included."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)


def _names(node: ast.stmt) -> Iterator[tuple[str, str | None]]:
    """The names that a statement binds, with the type of a value that can be no topology."""
    if isinstance(node, ast.ClassDef):
        yield node.name, "type"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name, None
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name.split(".")[0], None) for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        name_targets = [target for target in targets if isinstance(target, ast.Name)]
        constant = type(node.value.value).__name__ if isinstance(node.value, ast.Constant) else None
        yield from ((target.id, constant) for target in name_targets)
        yield from (
            (name, None) for target in targets if target not in name_targets for name in _assigned_names(target)
        )
    else:
        expressions = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        yield from ((name, None) for expression in expressions for name in _assigned_names(expression))


def _assigned_names(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id


def _unknown(reference: str, reason: object, names: Iterable[str] = (), has: str | None = None) -> ConfigError:
    module, _, name = reference.partition(":")
    meant = did_you_mean(name.partition("(")[0], names, form=f"{module}:{{}}".format)
    if module.endswith(".py"):
        module = module.removesuffix(".py").replace(os.sep, ".")
        meant = f"A module has no .py: {module}:{name or 'topology'}."
    listed = f"Names in it: {has:.200}." if has else ""
    hint = " ".join(filter(None, (_HINT, meant, listed)))
    return ConfigError(f"Unknown topology {reference}: {reason}.", hint=hint)


def _no_topology(reference: str, kind: str) -> ConfigError:
    return ConfigError(
        f"{reference} is not a topology: its type is {kind}.",
        hint="Name a Topology (what StreamsBuilder.build returns), or a function that returns one.",
    )


# Checkpoints that a command names, looked at before Spark starts if they lie on this machine.

_OF_QUERIES = frozenset({"watersmeet", "offsets", "commits", "metadata", "state", "sources"})


def check_started(checkpoint: str) -> None:
    """Raise where a folder of this machine is not the checkpoint of a topology."""
    check_path(checkpoint, "checkpoint")
    folder = on_this_machine(checkpoint)
    if folder is None and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", checkpoint):
        raise ConfigError(
            f"The checkpoint {checkpoint!r} is the name of a topology.",
            hint="The folder goes first, and then the topology: /data/orders shop.topologies:orders.",
        )
    if folder is not None:
        started_in(folder)
    elif _must_be_here(checkpoint):
        raise not_started(checkpoint)


def check_startable(checkpoint: str) -> None:
    """Raise where a query cannot start with a folder of this machine: it is a file, or has other things in it."""
    path = path_on_this_machine(checkpoint_folder(checkpoint))
    folder = None if path is None else Path(path)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"The checkpoint {checkpoint!r} is a file.", hint="Name a folder, a new one or the query's.")
    names = {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")} - {"lost+found"}
    if names and not names & _OF_QUERIES:
        raise ConfigError(
            f"The checkpoint {checkpoint!r} is a folder with other files in it: {', '.join(sorted(names)):.80}.",
            hint="Name a folder of the query's own: it need not exist yet.",
        )


def _must_be_here(checkpoint: str) -> bool:
    """Whether a path is one of this machine, since Spark knows no other file system."""
    scheme = checkpoint.rpartition(":")[0]
    elsewhere = {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys()
    of_spark = any("defaultFS" in name for name in default_settings())
    return path_on_this_machine(checkpoint) is not None and (scheme == "file" or not (elsewhere or of_spark))


# Output of the commands `metrics` and `drops`: the numbers in a checkpoint, as lines.


def numbers(checkpoint: str, master: str | None) -> tuple[Metrics | None, dict[str, Any]]:
    """The numbers of a checkpoint, None before its first batch, and which batches they are of; raises without any."""
    check_started(checkpoint)
    # one of this machine is read without a Spark
    folder = on_this_machine(checkpoint) or Folder(session(master=master), checkpoint)
    lifetime = read(started_in(folder))
    if lifetime is None:
        return None, {"first_batch": None, "last_batch": None, "batches": 0}
    totals, metrics = lifetime.totals, lifetime.totals.metrics(active=False, at_ms=lifetime.at_ms)
    return metrics, {"first_batch": totals.first, "last_batch": totals.last, "batches": totals.batches}


def span(counts: Mapping[str, Any]) -> str:
    """Which batches were counted.

    >>> span({"first_batch": 0, "last_batch": 41, "batches": 42})
    'batches 0 to 41'
    >>> span({"first_batch": 7, "last_batch": 41, "batches": 34})
    'batches 7 to 41, one of them not counted'
    >>> span({"first_batch": None, "last_batch": None, "batches": 0})
    'no batch was counted yet'
    """
    first, last = counts["first_batch"], counts["last_batch"]
    if first is None:
        return "no batch was counted yet"
    missing = last - first + 1 - counts["batches"]
    suffix = {0: "", 1: ", one of them not counted"}.get(missing, f", {missing} of them not counted")
    return f"batches {first} to {last}{suffix}"


# Options and the form of errors that all commands share.

AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON in place of text.")
BATCH = click.option(
    "--batch", type=click.IntRange(0), help="As this batch has left it; else the last that was committed."
)
MASTER = click.option(
    "--master", help="Where Spark runs; by default the master of spark-submit, or all cores of this machine."
)


TOKEN = click.Option(["--token"], envvar="WATERSMEET_TOKEN", help="The one of query.serve; better in WATERSMEET_TOKEN.")
TLS_ROOTS = click.Option(["--tls-roots"], type=click.Path(exists=True), help="Certificates that are trusted, in PEM.")


def of_served_query(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the address of a query that serves its tables, and what it asks of its readers."""
    for parameter in (TLS_ROOTS, TOKEN, click.Argument(["url"])):
        command.__dict__.setdefault("__click_params__", []).append(parameter)
    return command


def with_errors_as_text(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which ends with an error of watersmeet as a text and exit code 1."""

    @functools.wraps(command)
    def ran(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except WatersmeetError as error:
            raise click.ClickException(str(error)) from error
        except Exception as error:
            if text := _own_lines(error):
                raise click.ClickException(text) from error
            raise

    return ran


def _own_lines(error: Exception) -> str:
    """An exception of the user's module, with the lines of the user alone; empty: it has none."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_others(frame.filename)]
    lines = "".join(traceback.format_list(own))
    return f"{type(error).__name__}: {error}\n{lines}".rstrip() if own else ""


def examples(*lines: str) -> str:
    """The end of a command's help: its examples, one a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
