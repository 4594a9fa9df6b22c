"""mapValues of a table.

Owns the mapping of both halves of a change. Law: the mapper never sees a null and may return one (a delete);
nothing is ever held back.
"""

from __future__ import annotations

from collections.abc import Callable

from proof.oracle.graph import Topology
from proof.oracle.records import Key, Value
from proof.oracle.tables.table import Table, TableStep


class TableMapValues(TableStep):
    """Maps every value; the key stays."""

    def __init__(
        self,
        parent: Table,
        mapper: Callable[[Value], Value],
        *,
        materialized: bool = False,
        topology: Topology | None = None,
    ) -> None:
        """Stand behind this parent."""
        super().__init__(parent, materialized=materialized, topology=topology)
        self._mapper = mapper

    def changed(self, key: Key, value: Value) -> Value:
        """The mapped value."""
        return None if value is None else self._mapper(value)
