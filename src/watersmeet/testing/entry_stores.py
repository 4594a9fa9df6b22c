"""The maps and lists of processors under test, to be read as they are after all records that have been piped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watersmeet._plan.operators.process import ProcessParams
from watersmeet.testing.stores import DriverStore, Entry, StoredTable


class EntryStore(DriverStore):
    """A processor's map or list; made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any) -> Any:
        """The key's map, a dictionary in the order of its keys, or its list; empty where there is none.

        Raises
        ------
        TopologyError : the key is not of the store's type.
        """
        wanted = self.kept.order_of(key)
        return self._made([entry for entry in self._rows() if entry.order[0] == wanted])

    def all(self) -> list[tuple[Any, Any]]:
        """(key, map or list) of all keys that have one, in order."""
        found: dict[bytes, list[Entry]] = {}
        for entry in self._rows():
            found.setdefault(entry.order[0], []).append(entry)
        return [(entries[0].key, self._made(entries)) for entries in found.values()]

    def _made(self, entries: list[Entry]) -> Any:
        return {entry.times[0]: entry.value for entry in entries}


class ListEntries(EntryStore):
    """The same of lists."""

    def _made(self, entries: list[Entry]) -> Any:
        return [entry.value for entry in entries]


def entries_of(kept: StoredTable, read: Callable[[], list[Entry]]) -> EntryStore:
    """A processor's map or list."""
    params = kept.context.params(ProcessParams)
    kinds = {store.name: store.kind for store in params.stores}
    return (ListEntries if kinds[kept.schema.name] == "list" else EntryStore)(kept, read)
