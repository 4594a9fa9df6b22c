"""Topologies as `module:name`: looked for in the text of the module before Spark starts, made when it runs.

A module may make its topology when it is imported, which needs a session; so before that it is read, not imported.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from watersmeet.errors import ConfigError, WatersmeetError
from watersmeet.topology import Topology

_HINT = "Name a module that can be imported from here and a Topology in it: package.module:topology."


def check_named(named: str) -> None:
    """Raise unless `module:name` can be a topology; nothing is imported.

    Raises
    ------
    ConfigError : the module or the name is not there, the module is not Python, or the name is a constant or a class.
    """
    module, colon, name = named.partition(":")
    if not (module and colon and name):
        raise _unknown(named, "it must be module:name")
    with _from_here():
        source = _source(named, module)
    if source is None or module in sys.modules:
        return
    bound = _bound(named, module, source)
    if bound is None:
        return
    if name not in bound:
        near = get_close_matches(name, bound, n=1)
        has = ", ".join(each for each in bound if not each.startswith("_")) or "nothing"
        raise _unknown(named, f"the module {module!r} has no {name!r}", near[0] if near else None, has)
    if bound[name] is not None:
        raise _no_topology(named, str(bound[name]))


def made_topology(named: str, spark: Any) -> Topology:
    """The topology that `module:name` stands for.

    Raises
    ------
    ConfigError : unknown module or name, or it is not a topology.
    """
    module, _, name = named.partition(":")
    there = _imported(named, module)
    if not hasattr(there, name):
        has = ", ".join(each for each, of in vars(there).items() if isinstance(of, Topology)) or "none"
        raise _unknown(named, f"the module {module!r} has no {name!r}; topologies in it: {has}")
    found = getattr(there, name)
    if callable(found):
        first = next(iter(inspect.signature(found).parameters.values()), None)
        # others have a value of their own, which the session would take the place of
        wants = first is not None and (first.default is first.empty or first.name == "spark")
        found = found(spark) if wants else found()
    if isinstance(found, Topology):
        return found
    raise _no_topology(named, type(found).__name__)


def _imported(named: str, module: str) -> Any:
    try:
        with _from_here():
            return importlib.import_module(module)
    except WatersmeetError:
        # what the module itself did wrong, such as a method that is called otherwise here
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that this one imports
        raise _unknown(named, error) from error
    except ValueError as error:
        if module:
            raise
        raise _unknown(named, error) from error


@contextmanager
def _from_here() -> Iterator[None]:
    """Modules are looked for in the folder in which the command runs, too."""
    sys.path[:0] = [""]
    try:
        yield
    finally:
        sys.path.remove("")


def _source(named: str, module: str) -> str | None:
    """The text of a module; None where it has none, as one that is compiled."""
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for number, _ in enumerate(rest, start=2):
            spec = _submodule(spec, ".".join(module.split(".")[:number]))
    except (ValueError, ImportError):
        return None
    if spec is None:
        raise _unknown(named, f"there is no module {module!r} here")
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


def _bound(named: str, module: str, source: str) -> Mapping[str, str | None] | None:
    """The names of a module, each with the type of its value if that can be no topology; None: it may have others."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ConfigError(
            f"The module {module!r} of {named} is not Python: {error.msg}, line {error.lineno}.",
            hint=f"Correct it: python -m py_compile shows the line. {(error.text or '').strip():.80}",
        ) from None
    found: dict[str, str | None] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return None
        for name, what in _names(node):
            found[name] = what if name not in found else None
    opaque = {"__getattr__", "globals", "setattr", "exec"}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | found.keys()
    return None if used & opaque else found


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
        whole = [each for each in targets if isinstance(each, ast.Name)]
        constant = type(node.value.value).__name__ if isinstance(node.value, ast.Constant) else None
        yield from ((each.id, constant) for each in whole)
        yield from ((name, None) for each in targets if each not in whole for name in _stored(each))
    else:
        own = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
        yield from ((name, None) for each in own for name in _stored(each))


def _stored(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def _unknown(named: str, why: object, near: str | None = None, has: str | None = None) -> ConfigError:
    meant = f" Did you mean {named.partition(':')[0]}:{near}?" if near else ""
    names = f" Names in it: {has:.200}." if has else ""
    return ConfigError(f"Unknown topology {named}: {why}.", hint=f"{_HINT}{meant}{names}")


def _no_topology(named: str, kind: str) -> ConfigError:
    return ConfigError(
        f"{named} is not a topology: its type is {kind}.",
        hint="Name a Topology (what StreamsBuilder.build returns), or a function that returns one.",
    )
