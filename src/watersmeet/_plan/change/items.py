"""The effect of a change of topology on one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal[
    "kept",
    "widened",
    "filled",
    "started empty",
    "added",
    "changed",
    "dropped",
    "refused",
    "replaced",
    "computed anew",
]
What = Literal["store", "node", "source", "sink", "settings"]


@dataclass(frozen=True)
class Item:
    """The effect on one thing.

    Parameters
    ----------
    what : "store", "node" (between inputs, tables and outputs), "source", "sink" or "settings".
    name : its name.
    outcome : what happens to it.
    node : of a store the node of its operator.
    reason : why, where that is to be said.
    hint : what to do, where there is anything to do.
    """

    what: What
    name: str
    outcome: Outcome
    node: str = ""
    reason: str = ""
    hint: str = ""

    def __str__(self) -> str:
        at = f" of {self.node}" if self.node and self.node != self.name else ""
        text = f"{self.what} {self.name}{at}: {self.outcome}" + (f" ({self.reason})" if self.reason else "")
        return text + (f"\n  Hint: {self.hint}" if self.hint else "")
