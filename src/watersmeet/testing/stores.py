"""The stores of a topology under test, to be read: Kafka Streams' ReadOnlyKeyValueStore, WindowStore, SessionStore.

A store is read as it is after all records that have been piped. Keys are in the order of Kafka's bytes, which is that
of text, and of integers that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from watersmeet._plan.operators.processors import ProcessParams
from watersmeet._spark.local import Entry, StoredTable
from watersmeet.errors import TopologyError
from watersmeet.hints import answering, refusing


@refusing("[...]", "[...] = ...", "loop", "len", "in")
@dataclass(frozen=True)
class DriverStore:
    """Base of the stores.

    Parameters
    ----------
    kept : the table.
    read : gives its rows as they are now.
    """

    kept: StoredTable
    read: Callable[[], list[Entry]]

    @property
    def name(self) -> str:
        """The store's name."""
        return self.kept.name

    def _rows(self) -> list[Entry]:
        """The present entries."""
        return self.read()

    def approximate_num_entries(self) -> int:
        """How many rows it has; exactly."""
        return len(self._rows())


@answering
class KeyValueStore(DriverStore):
    """A store with a row for each key; made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any) -> Any:
        """The key's value; None where there is none.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        entry = self._entry(key)
        return None if entry is None else entry.value

    def headers(self, key: Any) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of the record that the key's row is of; empty where there is none.

        Raises
        ------
        TopologyError : the key is not of the keys' type, or the store keeps no headers.
        """
        if not self.kept.has_headers:
            raise TopologyError(
                f"The store {self.name!r} keeps no headers.",
                given=f"headers({key!r:.80})",
                hint="Read its topic with headers=True, and give the table store=. A table with history= keeps none.",
            )
        entry = self._entry(key)
        return () if entry is None else entry.headers or ()

    def _entry(self, key: Any) -> Entry | None:
        order = self.kept.order_of(key)
        return next((entry for entry in self._rows() if entry.order[0] == order), None)

    def range(self, from_key: Any = None, to_key: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) of the keys between the two, both included, in order; None: no limit (KIP-763).

        Raises
        ------
        TopologyError : a key is not of the keys' type.
        """
        low = None if from_key is None else self.kept.order_of(from_key)
        high = None if to_key is None else self.kept.order_of(to_key)
        return [
            (entry.key, entry.value)
            for entry in self._rows()
            if (low is None or entry.order[0] >= low) and (high is None or entry.order[0] <= high)
        ]

    def all(self) -> list[tuple[Any, Any]]:
        """(key, value) of all keys, in order."""
        return self.range()


@answering
class VersionedKeyValueStore(KeyValueStore):
    """A store that has the past of its keys, too (KIP-889); made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any, *, as_of: int | None = None) -> Any:
        """The key's value; None where there is none.

        Parameters
        ----------
        as_of : the value that was valid at this time, in ms; None: the latest. Of what is older than the history only
            the latest is known.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        if as_of is None:
            return super().get(key)
        order = self.kept.order_of(key)
        versions = [entry for entry in self.read() if entry.order[0] == order]
        valid = [entry for entry in versions if entry.times[0] <= as_of]
        available = valid and (as_of >= valid[-1].known_from or valid[-1] is versions[-1])
        return valid[-1].value if available else None

    def _rows(self) -> list[Entry]:
        last = {entry.order[0]: entry for entry in self.read()}
        return [entry for entry in last.values() if entry.value is not None]


@answering
class WindowStore(DriverStore):
    """A store with a row for each key and window, or session; made by `TopologyTestDriver.get_store`.

    A window is given as its start, a session as (start, end); in ms.
    """

    def fetch(self, key: Any, from_ts: int, to_ts: int) -> list[tuple[Any, Any]]:
        """(window, value) of the key's windows that start between the two times, both included, in order.

        Of sessions those that have a moment in between.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        if from_ts > to_ts:
            raise TopologyError(
                f"fetch has from_ts={from_ts}, to_ts={to_ts}: it ends before it begins.",
                hint="The earlier time goes first: fetch(key, from_ts, to_ts), in ms.",
            )
        order = self.kept.order_of(key)
        entries = (entry for entry in self.read() if entry.order[0] == order)
        return [(_window(e), e.value) for e in entries if e.times[-1] >= from_ts and e.times[0] <= to_ts]

    def all(self) -> list[tuple[tuple[Any, Any], Any]]:
        """((key, window), value) of all rows, in order."""
        return [((entry.key, _window(entry)), entry.value) for entry in self.read()]


def _window(entry: Entry) -> Any:
    return entry.times[0] if len(entry.times) == 1 else entry.times


# The maps and lists of processors under test, to be read as they are after all records that have been piped.


class EntryStore(DriverStore):
    """A processor's map or list; made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any) -> Any:
        """The key's map, a dictionary in the order of its keys, or its list; empty where there is none.

        Raises
        ------
        TopologyError : the key is not of the store's type.
        """
        order = self.kept.order_of(key)
        return self._assemble([entry for entry in self._rows() if entry.order[0] == order])

    def all(self) -> list[tuple[Any, Any]]:
        """(key, map or list) of all keys that have one, in order."""
        groups: dict[bytes, list[Entry]] = {}
        for entry in self._rows():
            groups.setdefault(entry.order[0], []).append(entry)
        return [(entries[0].key, self._assemble(entries)) for entries in groups.values()]

    def _assemble(self, entries: list[Entry]) -> Any:
        return {entry.times[0]: entry.value for entry in entries}


class ListEntries(EntryStore):
    """The same of lists."""

    def _assemble(self, entries: list[Entry]) -> Any:
        return [entry.value for entry in entries]


def entries_of(table: StoredTable, read: Callable[[], list[Entry]]) -> EntryStore:
    """A processor's map or list."""
    params = table.context.params(ProcessParams)
    kinds = {store.name: store.kind for store in params.stores}
    return (ListEntries if kinds[table.name] == "list" else EntryStore)(table, read)
