"""The node: records come when time has passed theirs by `wait` ms; with `last` only each key's last of a moment."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import Node


@dataclass(frozen=True)
class Delayed(Node):
    """The records of a stream, each when time has passed its own by a while."""

    wait: int = 0
    last: bool = False

    stem = "delayed"
    fans_out = True
