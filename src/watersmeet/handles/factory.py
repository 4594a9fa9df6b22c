"""The handle of a node, by its kind. So handles give one another, and none imports the module of another.

Handle layer. A class of handles registers itself by `made_as`; `watersmeet` imports all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Node
from watersmeet.handles.side import HandleKind, Side
from watersmeet.windows import Windows

if TYPE_CHECKING:
    from watersmeet.handles.global_ktable import GlobalKTable
    from watersmeet.handles.kstream import KStream
    from watersmeet.handles.ktable import KTable
    from watersmeet.handles.wtable import WTable

C = TypeVar("C", bound=type)
_CLASSES: dict[HandleKind, Callable[..., Any]] = {}


def made_as(kind: HandleKind) -> Callable[[C], C]:
    """Registers a class as that of the handles of a kind."""

    def registered(made: C) -> C:
        _CLASSES[kind] = made
        return made

    return registered


def stream(construction: Construction, node: Node) -> KStream:
    """The handle of a stream."""
    return cast("KStream", _CLASSES["stream"](construction, node))


def table(construction: Construction, node: Node) -> KTable:
    """The handle of a table."""
    return cast("KTable", _CLASSES["table"](construction, node))


def global_table(construction: Construction, node: Node) -> GlobalKTable:
    """The handle of a global table, or of a view of some."""
    return cast("GlobalKTable", _CLASSES["global"](construction, node))


def wtable(construction: Construction, node: Node, windows: Windows, wait_ms: int) -> WTable:
    """The handle of a table by key and window; its rows may change for `wait_ms` behind a window's end."""
    return cast("WTable", _CLASSES["wtable"](construction, node, windows, wait_ms))


def handle_of(side: Side) -> Any:
    """The handle of a side, by its kind."""
    windowed = () if side.windows is None else (side.windows, side.wait_ms)
    return _CLASSES[side.kind](side.construction, side.node, *windowed)
