"""filter and filterNot of a table.

Owns the rule that a change from nothing to nothing is silent only where old values are known. Law: the
predicate never sees a null.
"""

from __future__ import annotations

from collections.abc import Callable

from proof.oracle.graph import Topology
from proof.oracle.records import Key, Value
from proof.oracle.tables.table import Table, TableStep


class TableFilter(TableStep):
    """Keeps the rows for which the predicate holds (or does not, when negated)."""

    def __init__(
        self,
        parent: Table,
        predicate: Callable[[Key, Value], bool],
        *,
        negate: bool = False,
        materialized: bool = False,
        topology: Topology | None = None,
    ) -> None:
        """Ask the parent for old values without force: only an already materialised one gives them."""
        self._predicate = predicate
        self._negate = negate
        self._suppresses = not parent.versioned
        super().__init__(parent, materialized=materialized, topology=topology)
        self.send_old = parent.require_old(force=False)

    def changed(self, key: Key, value: Value) -> Value:
        """The value if it passes."""
        return value if value is not None and self._predicate(key, value) != self._negate else None
