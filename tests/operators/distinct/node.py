"""The node: what the user declares, and what it means to keys and tables (the usual here)."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import Node


@dataclass(frozen=True)
class Distinct(Node):
    """The records of a stream whose value is another than that of the record before of their key."""

    stem = "distinct"
