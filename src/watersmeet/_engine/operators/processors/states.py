"""The stores of a processor in one batch: what is stored is read in bulk, and what changes is written in bulk.

Of the keys of a slice all entries are read at once. A key's records see them through an overlay, which is written when
the slice is done. An entry that lasts for a while is judged by the time of the domain that it was put in (law 3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operators.processors.values import checked, is_mutable, own_type, plain_values
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.state.table import Table
from watersmeet._plan.nodes.processors import ProcessorStore
from watersmeet._plan.operators.process import ENTRY, UNTIL
from watersmeet.errors import FunctionError

Undo = Callable[[], None]
_NOTHING = np.zeros(0, dtype=np.int64)


class Present:
    """The call under way, as stores know it.

    Attributes
    ----------
    stamp : timestamp of the record or the timer.
    time : stream time.
    wall : what the wall clock shows, where it is followed.
    domain : its time domain, by its place in `Times.domains`.
    row : the record, by its number among the events; -1: a timer has its turn.
    elsewhere : gives the time of another domain.
    journal : what undoes the changes of a record that may fail; None: it may not, and the query fails.
    """

    __slots__ = ("domain", "elsewhere", "journal", "row", "stamp", "time", "wall")

    def __init__(self, elsewhere: Callable[[int], int], *, outlives: bool) -> None:
        self.stamp = self.time = self.domain = self.wall = 0
        self.row = -1
        self.elsewhere = elsewhere
        self.journal: list[Undo] | None = [] if outlives else None


class StoreEntries:
    """The entries of a store, of one key at a time.

    An entry is (value, timestamp), and where it lasts for a while also (last moment, domain).
    """

    def __init__(self, store: ProcessorStore, table: Table, now: Present, owner: str) -> None:
        self.name, self.kind = store.name, store.kind
        self._table, self._now, self._ttl = table, now, store.ttl_ms
        self._alone = store.entry is None
        self._key = checked(pa.null() if self._alone else store.entry, f"{owner} has a key of {self.name!r}")
        self._key_type = None if self._alone else own_type(store.entry)
        self._value = checked(store.value, f"{owner} puts a value into {self.name!r}")
        self._value_type = own_type(store.value)
        self._mutable = is_mutable(store.value)
        self._copy = checked(store.value, "") if self._mutable else None
        self._notes: list[tuple[Any, ...]] = []
        """What changes: group, whether it goes, entry, and what an entry is."""
        self._read(_NOTHING, None)

    # -- slices and keys -----------------------------------------------------------------------------------

    def load(self, hashes: Int64s, keys: pa.Array, domains: Int64s, start: Int64s) -> None:
        """Read what is stored of the keys of a slice.

        Parameters
        ----------
        domains, start : numbers of the time domains, and their times before the batch.
        """
        found = self._table.rows(hashes, keys)
        if not len(found):
            self._read(np.zeros(len(hashes) + 1, dtype=np.int64), None)
            return
        rows, query = found.take(self._table.schema.names[2:]), found.query
        if self._ttl is not None:
            domain = np.searchsorted(domains, ints(rows, "domain"))
            lasts = ints(rows, UNTIL) >= start[domain]
            kept = np.flatnonzero(lasts)
            rows, query = rows.take(pa.array(kept)), query[kept]
            rows = rows.set_column(rows.schema.get_field_index("domain"), "domain", pa.array(domain[kept]))
        self._read(np.searchsorted(query, np.arange(len(hashes) + 1)), rows)

    def _read(self, starts: Int64s, rows: pa.Table | None) -> None:
        self._starts: list[int] = starts.tolist()
        self._rows = rows
        self._entries: list[Any] | None = None
        self._values: list[Any] | None = None
        self._stamps: list[int] = []
        self._until: list[int] = []
        self._domains: list[int] = []
        self._group = -1
        self._own: dict[Any, Any] = {}
        self._changed: dict[Any, int] = {}
        self._sorted: list[Any] | None = None
        self._open = True

    def enter(self, group: int) -> None:
        """The next key."""
        if self._changed:
            self._leave()
        self._group, self._open = group, False

    def _here(self) -> dict[Any, Any]:
        """The key's entries: of stored ones that were not asked for yet the number of their row."""
        self._open, self._sorted = True, None
        begin, end = self._starts[self._group], self._starts[self._group + 1]
        if begin == end or self._rows is None:
            self._own = {}
            return self._own
        if self._entries is None:
            self._entries = [None] * len(self._rows) if self._alone else plain_values(self._rows.column(ENTRY))
            if self._ttl is not None:
                self._until, self._domains = (ints(self._rows, name).tolist() for name in (UNTIL, "domain"))
        self._own = dict(zip(self._entries[begin:end], range(begin, end), strict=True))
        return self._own

    def _leave(self) -> None:
        """Note what has changed of a key, to be written."""
        own, group, note, lasts = self._own, self._group, self._notes.append, self._ttl is not None
        for entry, row in self._changed.items():
            now = own.get(entry)
            if row >= 0 and (now is None or lasts):
                until = (self._until[row], self._domains[row]) if lasts else ()
                if now is None or now[2:] != until:
                    note((group, True, entry, None, 0, *until))
            if now is not None:
                note((group, False, entry, *now))
        self._changed = {}

    def write(self, hashes: Int64s, keys: pa.Array, domains: Int64s) -> None:
        """Put what has changed in the slice."""
        if self._changed:
            self._leave()
        if not self._notes:
            return
        group, gone, entry, *rest = zip(*self._notes, strict=True)
        self._notes = []
        at, schema = np.array(group, dtype=np.int64), self._table.schema
        given: dict[str, Any] = {} if self._alone else {ENTRY: entry}
        given |= zip(("value", "ts", UNTIL, "domain"), rest, strict=False)
        if self._ttl is not None:
            given["domain"] = domains[np.array(given["domain"], dtype=np.int64)]
        columns = {name: pa.array(column, schema.field(name).type) for name, column in given.items()}
        columns |= {"hash": pa.array(hashes[at]), "key": keys.take(pa.array(at))}
        self._table.put({name: columns[name] for name in schema.names}, np.array(gone, dtype=np.bool_))

    # -- entries -------------------------------------------------------------------------------------------

    def _lasts(self, until: int, domain: int) -> bool:
        now = self._now
        return until >= (now.time if domain == now.domain else now.elsewhere(domain))

    def _found(self, entry: Any) -> Any:
        """An entry's value; None where there is none."""
        given = (self._own if self._open else self._here()).get(entry)
        return None if given is None else self._value_of(given)

    def _value_of(self, given: Any) -> Any:
        """The value of what is kept as an entry; None where it does not last any more."""
        if type(given) is int:
            if self._ttl is not None and not self._lasts(self._until[given], self._domains[given]):
                return None
            if self._values is None:
                assert self._rows is not None
                self._values = plain_values(self._rows.column("value"))
            value = self._values[given]
        else:
            if self._ttl is not None and not self._lasts(given[2], given[3]):
                return None
            value = given[0]
        return value if self._copy is None else self._copy(value)

    def _put(self, entry: Any, value: Any) -> None:
        """Another value of an entry; None: it is no more."""
        own = self._own if self._open else self._here()
        given = own.get(entry)
        if value is None and given is None:
            return
        if type(value) is not self._value_type and value is not None:
            value = self._value(value)
        now, changed = self._now, self._changed
        if now.journal is not None:
            now.journal.append(self._undo(entry, given, changed.get(entry)))
        if entry not in changed:
            changed[entry] = given if type(given) is int else -1
        if value is None:
            del own[entry]
            self._sorted = None
            return
        if given is None and self._sorted is not None:
            insort(self._sorted, entry)
        ttl = self._ttl
        own[entry] = (value, now.stamp) if ttl is None else (value, now.stamp, now.time + ttl - 1, now.domain)

    def _undo(self, entry: Any, given: Any, changed: int | None) -> Undo:
        own, was_changed = self._own, self._changed

        def undo() -> None:
            self._sorted = None
            if given is None:
                own.pop(entry, None)
            else:
                own[entry] = given
            if changed is None:
                was_changed.pop(entry, None)

        return undo

    def _in_order(self, low: Any = None, high: Any = None) -> list[Any]:
        """The entries between the two, both included, in order; those that do not last any more among them."""
        own = self._own if self._open else self._here()
        if self._sorted is None:
            self._sorted = sorted(own)
        begin = 0 if low is None else bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect_right(self._sorted, high)
        return self._sorted[begin:end]

    def _last(self) -> Any:
        """The last entry in order; None where there is none."""
        if self._sorted is None or not self._open:
            self._in_order()
        return self._sorted[-1] if self._sorted else None


class Value(StoreEntries):
    """See `watersmeet.processors.ValueState`."""

    def get(self) -> Any:
        """The value; None where there is none."""
        return self._found(None)

    def put(self, value: Any) -> None:
        """Another value; None deletes."""
        self._put(None, value)

    def delete(self) -> None:
        """No value any more."""
        self._put(None, None)


class MapEntries(StoreEntries):
    """See `watersmeet.processors.MapState`."""

    def get(self, key: Any) -> Any:
        """The value of one of the map's keys; None where there is none."""
        if type(key) is not self._key_type:
            key = self._own_key(key)
        # as `_found`, without a call more: this is what a dedup does with each record
        given = (self._own if self._open else self._here()).get(key)
        return None if given is None else self._value_of(given)

    def put(self, key: Any, value: Any) -> None:
        """Another value of one of the map's keys; None deletes."""
        self._put(key if type(key) is self._key_type else self._own_key(key), value)

    def delete(self, key: Any) -> None:
        """One of the map's keys is no more."""
        self._put(self._own_key(key), None)

    def range(self, from_key: Any = None, to_key: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) of the map's keys between the two, both included, in order; None: no limit."""
        pairs = ((key, self._found(key)) for key in self._in_order(self._key(from_key), self._key(to_key)))
        return [(key, value) for key, value in pairs if value is not None]

    def all(self) -> list[tuple[Any, Any]]:
        """(key, value) of all of the map's keys, in order."""
        return self.range()

    def _own_key(self, key: Any) -> Any:
        if key is None:
            raise FunctionError(f"A key of the map {self.name!r} cannot be null.", hint="Leave null keys out.")
        return self._key(key)


class List(StoreEntries):
    """See `watersmeet.processors.ListState`: a map of numbers, which tell the order."""

    def get(self) -> list[Any]:
        """The elements, in order; a list of the caller's own."""
        found = (self._found(entry) for entry in self._in_order())
        return [value for value in found if value is not None]

    def append(self, value: Any) -> None:
        """One more element, behind all others."""
        if value is None:
            raise FunctionError(
                f"An element of the list {self.name!r} cannot be null.",
                hint="Leave it out, or declare a struct that has a field for it.",
            )
        last = self._last()
        self._put(0 if last is None else last + 1, value)

    def put(self, values: list[Any]) -> None:
        """Other elements."""
        self.delete()
        for value in values:
            self.append(value)

    def delete(self) -> None:
        """No elements any more."""
        for entry in self._in_order():
            self._put(entry, None)


KINDS: dict[str, type[StoreEntries]] = {"value": Value, "map": MapEntries, "list": List}
"""The class of each kind of store."""
