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

from watersmeet._engine.rows import Int64s, ints, python_values, stored_value_of
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import TIME
from watersmeet._plan.operators.processors import ENTRY, UNTIL, ProcessorStore
from watersmeet.errors import FunctionError
from watersmeet.hints import answering_as
from watersmeet.processors import ListState, MapState, ValueState

# Values of processors, converted at once as state would return them, so that batches make no difference (law 1).

Checked = Callable[[Any], Any]
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_ALONE: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_boolean, bool),
    (pa.types.is_float64, float),
)
"""Types of which each value of a Python type is one as it is."""
_ORDERED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def checked(kind: pa.DataType, subject: str) -> Checked:
    """A function that returns a value as an array of this type would return it.

    Parameters
    ----------
    subject : says in an error what is of another type, such as "The processor Dedup sends a value".
    """
    native, slow = sure_type(kind), stored_value_of(kind)

    def fitted(value: Any) -> Any:
        if type(value) is native or value is None:
            return value
        try:
            return slow(value)
        except FunctionError as error:
            hint = "Declare the right type, or convert the value to it."
            if pa.types.is_struct(kind):
                hint = f"A struct is a dictionary: {{{', '.join(f'{field.name!r}: ...' for field in kind)}}}."
            raise FunctionError(
                f"{subject} that is not of its type, {kind}: {value!r:.120}.",
                given=None if error.given is None else str(error.given).removesuffix(f"; the type is {kind}")[:400],
                hint=hint,
            ) from None

    return fitted


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python has them; those of plain types some times faster than one by one."""
    kind, complete = values.type, values.null_count == 0
    if own_type(kind) in (str, bytes) or (complete and (pa.types.is_integer(kind) or pa.types.is_floating(kind))):
        converted: list[Any] = (
            values.to_numpy(zero_copy_only=False).tolist()
            if isinstance(values, pa.Array)
            else values.to_numpy().tolist()
        )
        return converted
    return python_values(values)


def own_type(kind: pa.DataType) -> type | None:
    """The type in Python of which each value is one of this type as it is; None where there is none."""
    return next((python for is_of, python in _ALONE if is_of(kind)), None)


def sure_type(kind: pa.DataType) -> type | None:
    """The same, without a look at a value that a function gives: a text may hold half a surrogate."""
    return None if any(is_of(kind) for is_of in _TEXTS) else own_type(kind)


def is_mutable(kind: pa.DataType) -> bool:
    """Whether values of the type can be changed in place in Python."""
    return bool(pa.types.is_nested(kind))


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type have an order in Python, and are equal there when they are here."""
    return any(is_of(kind) for is_of in _ORDERED)


def are_one_key(left: Any, right: Any) -> bool:
    """Whether two keys are one, in which not-a-number is one number, as within structs and arrays."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(are_one_key(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(are_one_key, left, right))
    return bool(left == right or (left != left and right != right))


Undo = Callable[[], None]
_NOTHING = np.zeros(0, dtype=np.int64)


class Present:
    """The call under way, as stores know it.

    Attributes
    ----------
    stamp : timestamp of the record or the timer.
    time : stream time.
    wall : what the wall clock shows, where it is followed.
    domain : its time domain, by its place in `BatchTimes.domains`.
    row : the record, by its number among the events; -1: a timer has its turn.
    elsewhere : gives the time of another domain.
    journal : what undoes the changes of a record that may fail; None: it may not, and the query fails.
    """

    __slots__ = ("domain", "elsewhere", "journal", "row", "stamp", "time", "wall")

    def __init__(self, elsewhere: Callable[[int], int], *, tolerates_errors: bool) -> None:
        self.stamp = self.time = self.domain = self.wall = 0
        self.row = -1
        self.elsewhere = elsewhere
        self.journal: list[Undo] | None = [] if tolerates_errors else None


class StoreEntries:
    """The entries of a store, of one key at a time.

    An entry is (value, timestamp), and where it lasts for a while also (last moment, domain).
    """

    # a name of a user's, `state.value = 5`, is an error
    __slots__ = tuple(
        "name kind _table _current _ttl _single _key _key_type _value _value_type _copy _notes _starts _rows _entries "  # noqa: SIM905
        "_values _until _domains _group _overlay _changed _sorted _open".split()
    )

    def __init__(self, store: ProcessorStore, table: Table, current: Present, owner: str) -> None:
        self.name, self.kind = store.name, store.kind
        self._table, self._current, self._ttl = table, current, store.ttl_ms
        self._single = store.entry is None
        self._key = checked(pa.null() if self._single else store.entry, f"{owner} has a key of {self.name!r}")
        self._key_type = None if self._single else own_type(store.entry)
        self._value = checked(store.value, f"{owner} puts a value into {self.name!r}")
        self._value_type = sure_type(store.value)
        self._copy = checked(store.value, "") if is_mutable(store.value) else None
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
        lookup = self._table.rows(hashes, keys)
        if not len(lookup):
            self._read(np.zeros(len(hashes) + 1, dtype=np.int64), None)
            return
        rows, query = lookup.take(self._table.schema.names[2:]), lookup.query
        if self._ttl is not None:
            domain = np.searchsorted(domains, ints(rows, "domain"))
            lasts = ints(rows, UNTIL) >= start[domain]
            live = np.flatnonzero(lasts)
            rows, query = rows.take(pa.array(live)), query[live]
            rows = rows.set_column(rows.schema.get_field_index("domain"), "domain", pa.array(domain[live]))
        self._read(np.searchsorted(query, np.arange(len(hashes) + 1)), rows)

    def _read(self, starts: Int64s, rows: pa.Table | None) -> None:
        self._starts: list[int] = starts.tolist()
        self._rows = rows
        self._entries: list[Any] | None = None
        self._values: list[Any] | None = None
        self._until: list[int] = []
        self._domains: list[int] = []
        self._group = -1
        self._overlay: dict[Any, Any] = {}
        self._changed: dict[Any, int] = {}
        self._sorted: list[Any] | None = None
        self._open = True

    def enter(self, group: int) -> None:
        """The next key."""
        if self._changed:
            self._leave()
        self._group, self._open = group, False

    def _load_key(self) -> dict[Any, Any]:
        """The key's entries: of stored ones that were not asked for yet the number of their row."""
        self._open, self._sorted = True, None
        start, end = self._starts[self._group], self._starts[self._group + 1]
        if start == end or self._rows is None:
            self._overlay = {}
            return self._overlay
        if self._entries is None:
            self._entries = [None] * len(self._rows) if self._single else plain_values(self._rows.column(ENTRY))
            if self._ttl is not None:
                self._until, self._domains = (ints(self._rows, name).tolist() for name in (UNTIL, "domain"))
        self._overlay = dict(zip(self._entries[start:end], range(start, end), strict=True))
        return self._overlay

    def _leave(self) -> None:
        """Note what has changed of a key, to be written."""
        overlay, group, note, lasts = self._overlay, self._group, self._notes.append, self._ttl is not None
        for entry, row in self._changed.items():
            latest = overlay.get(entry)
            if row >= 0 and (latest is None or lasts):
                until = (self._until[row], self._domains[row]) if lasts else ()
                if latest is None or latest[2:] != until:
                    note((group, True, entry, None, 0, *until))
            if latest is not None:
                note((group, False, entry, *latest))
        self._changed = {}

    def write(self, hashes: Int64s, keys: pa.Array, domains: Int64s) -> None:
        """Put what has changed in the slice."""
        if self._changed:
            self._leave()
        if not self._notes:
            return
        group, deleted, entry, *values = zip(*self._notes, strict=True)
        self._notes = []
        at, schema = np.array(group, dtype=np.int64), self._table.schema
        fields: dict[str, Any] = {} if self._single else {ENTRY: entry}
        fields |= zip(("value", "ts", UNTIL, "domain"), values, strict=False)
        if self._ttl is not None:
            fields["domain"] = domains[np.array(fields["domain"], dtype=np.int64)]
        columns = {name: pa.array(column, schema.field(name).type) for name, column in fields.items()}
        columns |= {"hash": pa.array(hashes[at]), "key": keys.take(pa.array(at))}
        self._table.put({name: columns[name] for name in schema.names}, np.array(deleted, dtype=np.bool_))

    # -- entries -------------------------------------------------------------------------------------------

    def _lasts(self, until: int, domain: int) -> bool:
        current = self._current
        return until >= (current.time if domain == current.domain else current.elsewhere(domain))

    def _lookup(self, entry: Any) -> Any:
        """An entry's value; None where there is none."""
        slot = (self._overlay if self._open else self._load_key()).get(entry)
        return None if slot is None else self._value_of(slot)

    def _value_of(self, slot: Any) -> Any:
        """The value of what is kept as an entry; None where it does not last any more."""
        if type(slot) is int:
            if self._ttl is not None and not self._lasts(self._until[slot], self._domains[slot]):
                return None
            if self._values is None:
                assert self._rows is not None
                self._values = plain_values(self._rows.column("value"))
            value = self._values[slot]
        else:
            if self._ttl is not None and not self._lasts(slot[2], slot[3]):
                return None
            value = slot[0]
        return value if self._copy is None else self._copy(value)

    def _put(self, entry: Any, value: Any) -> None:
        """Another value of an entry; None: it is no more."""
        overlay = self._overlay if self._open else self._load_key()
        previous = overlay.get(entry)
        if value is None and previous is None:
            return
        if type(value) is not self._value_type and value is not None:
            value = self._value(value)
        current, changed = self._current, self._changed
        if current.journal is not None:
            current.journal.append(self._undo(entry, previous, changed.get(entry)))
        if entry not in changed:
            changed[entry] = previous if type(previous) is int else -1
        if value is None:
            del overlay[entry]
            self._sorted = None
            return
        if previous is None and self._sorted is not None:
            insort(self._sorted, entry)
        ttl = self._ttl
        overlay[entry] = (
            (value, current.stamp) if ttl is None else (value, current.stamp, current.time + ttl - 1, current.domain)
        )

    def _undo(self, entry: Any, previous: Any, changed: int | None) -> Undo:
        overlay, was_changed = self._overlay, self._changed

        def undo() -> None:
            self._sorted = None
            if previous is None:
                overlay.pop(entry, None)
            else:
                overlay[entry] = previous
            if changed is None:
                was_changed.pop(entry, None)

        return undo

    def _in_order(self, low: Any = None, high: Any = None) -> list[Any]:
        """The entries between the two, both included, in order; those that do not last any more among them."""
        overlay = self._overlay if self._open else self._load_key()
        if self._sorted is None:
            self._sorted = sorted(overlay)
        start = 0 if low is None else bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect_right(self._sorted, high)
        return self._sorted[start:end]

    def _last(self) -> Any:
        """The last entry in order; None where there is none."""
        if self._sorted is None or not self._open:
            self._in_order()
        return self._sorted[-1] if self._sorted else None


@answering_as(ValueState)
class Value(StoreEntries):
    """See `watersmeet.processors.ValueState`."""

    __slots__ = ()

    def get(self) -> Any:
        """The value; None where there is none."""
        return self._lookup(None)

    def put(self, value: Any) -> None:
        """Another value; None deletes."""
        self._put(None, value)

    def delete(self) -> None:
        self._put(None, None)


@answering_as(MapState)
class MapEntries(StoreEntries):
    """See `watersmeet.processors.MapState`."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """The value of one of the map's keys; None where there is none."""
        if type(key) is not self._key_type:
            key = self._own_key(key)
        # as `_lookup`, without a call more: this is what a dedup does with each record
        slot = (self._overlay if self._open else self._load_key()).get(key)
        return None if slot is None else self._value_of(slot)

    def put(self, key: Any, value: Any) -> None:
        """Another value of one of the map's keys; None deletes."""
        self._put(self._own_key(key), value)

    def delete(self, key: Any) -> None:
        """One of the map's keys is no more."""
        self._put(self._own_key(key), None)

    def range(self, from_key: Any = None, to_key: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) of the map's keys between the two, both included, in order; None: no limit."""
        pairs = ((key, self._lookup(key)) for key in self._in_order(self._key(from_key), self._key(to_key)))
        return [(key, value) for key, value in pairs if value is not None]

    def all(self) -> list[tuple[Any, Any]]:
        """(key, value) of all of the map's keys, in order."""
        return self.range()

    def _own_key(self, key: Any) -> Any:
        if key is None:
            raise FunctionError(f"A key of the map {self.name!r} cannot be null.", hint="Leave null keys out.")
        return self._key(key)


@answering_as(ListState)
class List(StoreEntries):
    """See `watersmeet.processors.ListState`: a map of numbers, which tell the order."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """The elements, in order; a list of the caller's own."""
        values = (self._lookup(entry) for entry in self._in_order())
        return [value for value in values if value is not None]

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
        self.delete()
        for value in values:
            self.append(value)

    def delete(self) -> None:
        for entry in self._in_order():
            self._put(entry, None)


KINDS: dict[str, type[StoreEntries]] = {"value": Value, "map": MapEntries, "list": List}
"""The class of each kind of store."""


# The live entries of a processor's stores, for readers from outside.


def lasting(state: State, rows: pa.Table) -> pa.Table:
    """The rows of a table, without a processor's that have lasted their time and that no merge has removed yet."""
    if UNTIL not in rows.column_names or not len(rows):
        return rows
    times = {int(domain): time for domain, time in state.get_scalar(TIME, {}).items()}
    numbers, places = np.unique(ints(rows, "domain"), return_inverse=True)
    # few: one a domain
    floors = np.array([times.get(number, -1) for number in numbers.tolist()], dtype=np.int64)
    return rows.filter(pa.array(ints(rows, UNTIL) >= floors[places]))
