"""Which engine is imitated, and where its oddities are repaired.

Owns the table of decisions (the rows of section A of the semantics) as switches, and the facts that depend on
the version of Kafka Streams. Law: a switch only chooses between the documented engine behaviour and the
documented repair; it never invents a third one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ROWS: dict[int, str] = {
    1: "stream-stream left/outer: the scan of pending entries can skip entries",
    2: "stream-stream left/outer: out-of-order record inside grace is emitted unjoined at once",
    3: "stream-table left join with grace and a null key fails",
    4: "foreign-key inner join: foreign key goes to null or comes from null",
    5: "foreign-key left join: intermediate results and double tombstones",
    6: "foreign-key join: a right-triggered result carries the right record's timestamp alone",
    7: "emit on window close: final results are lost in a large time jump",
    8: "self join: the optimised variant is one millisecond stricter",
    9: "global left join: a null mapped key drops the record",
    10: "time and session windows aggregate null values",
    14: "stream-stream: stored records disappear while an on-time partner may still come",
    15: "a session that ends at the close time disappears while it can still be changed",
    16: "sliding windows: the predecessor disappears while it is still needed",
    17: "suppress until window closes repeats a final result (sliding, session)",
    18: "versioned table: a tombstone at the timestamp of the latest value is forgotten",
    19: "0.10.2: results carry the timestamp of the record that triggers them, not the larger one",
    21: "an operator behind another one keeps its own stream time",
    27: "stream-table with grace: the arrival number decides between a key and its continuation by zero bytes",
    28: "suppress: a change that ends the wait of its own key's entry is sent in that entry's place",
    29: "a session that is replaced by one of the same two ends does not tell its old value",
    30: "suppress: while a change is held back, what was sent before is looked up without its timestamp",
    31: "emit on window close: lookups see windows that are still open",
    32: "lookups in a windowed table see a window only as long as its store keeps it",
    33: "suppress, limits of the buffer: bytes are what an entry is estimated to take in memory",
    34: "aggregate with a history: records older than the deletion by its fold each begin a new one",
    35: "suppress behind a versioned table: joins are told of an old value that was not sent before",
    36: "windowed cogroup: each stream has a time of its own",
    37: "suppress: the old value of what is sent is that of the last change, which may never have been sent",
    38: "the first result of a window has as old value what its aggregate began with",
    39: "foreign-key joins: messages go through topics, so what one record causes by several ways meets later",
    43: "the first result of an aggregate of a stream has as old value what its aggregate began with",
    48: "join of two tables of one source: lookups in stores miss what the same record brings to the other side",
    49: "foreign-key join up to 3.0: a value that an ignored update has replaced is answered when it comes back",
}
"""The rows of section A that change what a single-partition, uncached topology emits."""

AS_BY_TOPICS = frozenset({39})
"""The row that is left as it is where intermediate results count: what topics give is told by the recordings for every
shape of a topology; what following each way to its end gives is told for two joins with one right table alone, and a
table that refers to itself is another. Rows at the end of a record are the same in both.
"""
FIRST_WITH_MAX_TIMESTAMPS = (2, 3)


@dataclass(frozen=True, slots=True)
class Semantics:
    """What the oracle imitates: a version of the engine, and the rows that go the other way.

    `faithful` says how the rows behave in general (as the engine, or repaired); `rows` lists the exceptions:
    `Semantics(faithful=True, rows=frozenset({2}))` is the engine with row 2 repaired, and
    `Semantics(faithful=False, rows=frozenset({2}))` has every row repaired except row 2.
    """

    version: str = "4.3.0"
    faithful: bool = True
    rows: frozenset[int] = frozenset()
    asked: set[int] = field(default_factory=set, repr=False, compare=False)
    """The rows that operators have asked about: no other row can make a difference to that run."""
    _parsed: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse rows and versions that nobody knows."""
        unknown = sorted(set(self.rows) - set(ROWS))
        if unknown:
            raise ValueError(f"unknown rows of section A: {unknown}. Hint: the switchable rows are {sorted(ROWS)}")
        try:
            parsed = tuple(int(part) for part in self.version.split("-")[0].split("."))
        except ValueError:
            raise ValueError(f"not a version: {self.version!r}. Hint: write it like '4.3.0'") from None
        object.__setattr__(self, "_parsed", parsed)

    def repaired(self, row: int) -> bool:
        """Whether this row of section A is repaired rather than faithful."""
        self.asked.add(row)
        return (row in self.rows) == self.faithful

    @property
    def old(self) -> bool:
        """The semantics before KIP-77: 0.10.0 and 0.10.1."""
        return self._parsed < (0, 10, 2)

    @property
    def swaps_right_window(self) -> bool:
        """Whether a right record looks before and after with the bounds swapped (not yet in 0.10.0)."""
        return self._parsed >= (0, 10, 1)

    @property
    def eager_only(self) -> bool:
        """Unmatched left and outer results always come at once (before 3.1)."""
        return self._parsed < (3, 1)

    @property
    def max_timestamps(self) -> bool:
        """Whether results carry the larger timestamp of both sides rather than the trigger's."""
        if self.old or self._parsed >= FIRST_WITH_MAX_TIMESTAMPS:
            return not self.old
        return self.repaired(19)

    @property
    def relaxed_null_keys(self) -> bool:
        """KIP-962: left and outer stream joins accept null keys (3.7)."""
        return self._parsed >= (3, 7)

    @property
    def joins_group_messages(self) -> bool:
        """KIP-904: a table change inside one group is one message (3.5)."""
        return self._parsed >= (3, 5)

    @property
    def foreign_key_null_fixed(self) -> bool:
        """Rows 4 and 5: fixed in 3.9.1 and 4.0.1, so not in 4.0.0."""
        return self._parsed >= (3, 9, 1) and self._parsed[:3] != (4, 0, 0)

    @property
    def foreign_key_null_ignored(self) -> bool:
        """KIP-213: an update from or to a null foreign key is invalid; asked of the releases before 3.1 alone."""
        return self.eager_only

    @property
    def global_null_fixed(self) -> bool:
        """Row 9: fixed in 4.0.1."""
        return self._parsed >= (4, 0, 1)
