"""The effects of a change of topology on a checkpoint, listed in advance.

Law 10: what is kept is found by name. An operator of a node takes over the tables of the operator that stood there;
a store that the user has named, the rows of the store of that name. All else starts empty, or is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from watersmeet._plan.change.items import Item, Outcome
from watersmeet._plan.change.replaced import Replacement


@dataclass(frozen=True)
class TakenTable:
    """Where a table's rows come from.

    Parameters
    ----------
    node, table : that keeps it, and its name, from now on.
    from_node, from_table : the same until now.
    scalars : whether the operator goes on as a whole, with the times that it knows.
    widened : whether its rows are to be read as wider types.
    """

    node: str
    table: str
    from_node: str
    from_table: str
    scalars: bool
    widened: bool = False


@dataclass(frozen=True)
class Change:
    """The effects of a start with `evolve=True` on a checkpoint.

    Parameters
    ----------
    items : what becomes of each store, node, input and output.
    taken : where the tables that go on have their rows from.
    replacement : what is computed for the tables that are replaced; None: none are.

    Attributes
    ----------
    kept, filled, started_empty, dropped, widened, refused, replaced : the items of that outcome.
    """

    items: tuple[Item, ...]
    taken: tuple[TakenTable, ...] = ()
    replacement: Replacement | None = None

    @property
    def unchanged(self) -> tuple[Item, ...]:
        """The items that stay as they are."""
        return self._of("kept")

    @property
    def filled(self) -> tuple[Item, ...]:
        """Stores that are new, with the rows that another one has of the same table."""
        return self._of("filled")

    @property
    def started_empty(self) -> tuple[Item, ...]:
        """Stores that are new."""
        return self._of("started empty")

    @property
    def dropped(self) -> tuple[Item, ...]:
        """The items that are gone."""
        return self._of("dropped")

    @property
    def widened(self) -> tuple[Item, ...]:
        """Stores with rows that are read as wider types."""
        return self._of("widened")

    @property
    def replaced(self) -> tuple[Item, ...]:
        """Stores with contents that are computed anew, and of which only rows that differ go out."""
        return self._of("replaced")

    @property
    def refused(self) -> tuple[Item, ...]:
        """The reasons against the change."""
        return self._of("refused")

    @property
    def added_sources(self) -> frozenset[str]:
        """Names of the inputs that are new."""
        return frozenset(item.name for item in self._of("added") if item.what == "source")

    @property
    def possible(self) -> bool:
        """Whether a start with `evolve=True` goes on from the checkpoint."""
        return not self.refused

    @property
    def changed(self) -> bool:
        """Whether anything is other than in the checkpoint."""
        return any(item.outcome != "kept" for item in self.items)

    def __str__(self) -> str:
        if not self.changed:
            return "No change: the checkpoint is of this topology."
        head = "The change is possible." if self.possible else "The change is refused."
        return "\n".join([head, *map(str, self.items)])

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "possible": self.possible,
            "changed": self.changed,
            "items": [{key: value for key, value in asdict(item).items() if value} for item in self.items],
        }

    def _of(self, outcome: Outcome) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.outcome == outcome)


def shared(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """The names in both, in `new` alone, in `old` alone."""
    return (
        [name for name in new if name in old],
        [name for name in new if name not in old],
        [name for name in old if name not in new],
    )
