"""The declaration of an operator: one frozen class for each stem, asked by the rewrite, the runners and the engine.

It says what the operator reads (sides, key, what rows carry, what ends on the way in), what it gives (columns, and
which functions make values of them), what it keeps (tables), and what it promises. Nobody else asks which operator it
is: who needs to know something new puts the question here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, ClassVar, Literal

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Function, How, Node
from watersmeet._plan.reasons import Reason

ColumnTypes = tuple[tuple[str, Any], ...]
"""Columns: name and type of each; types are the function backend's."""

FLAG = "flag"
"""Type of a column of booleans, whatever the function backend calls it."""
NUMBER = "number"
"""Type of a column of 64-bit integers, whatever the function backend calls it."""
BYTES = "serialized"
"""Type of a column of serialized keys, whatever the function backend calls it."""
HEADERS = "headers"
"""Type of a column of headers, whatever the function backend calls it."""
WINDOW = "window"
"""Type of a column of windows, structs of two numbers `start` and `end`, whatever the function backend calls it."""
RowColumn = Literal["old", "visible", "stored_ts", "silent", "late"]
"""What rows bring beside key and value.

The value before (`old`); the position from which, and the timestamp with which lookups see them (`visible`,
`stored_ts`); whether they only say what lookups see (`silent`); whether they are not the latest change of their key in
a versioned table (`late`).
"""
RowEnd = Literal["null_key", "null_value", "silent", "late"]
"""Rows that end on their way: without key, without value, and those of which the column of that name is true."""


def row_columns(*, old: bool = False, silent: bool = False, late: bool = False) -> frozenset[RowColumn]:
    names: tuple[RowColumn, ...] = "old", "silent", "late"
    return frozenset(compress(names, (old, silent, late)))


def row_ends(
    *, null_key: bool = True, null_value: bool = False, silent: bool = False, late: bool = False
) -> frozenset[RowEnd]:
    """Rows that end on their way, most often into an operator; those without key do unless said otherwise."""
    names: tuple[RowEnd, ...] = "null_key", "null_value", "silent", "late"
    return frozenset(compress(names, (null_key, null_value, silent, late)))


STAMP = ("ts", NUMBER)
"""The column with a row's timestamp."""


def waiting_headers(plan: Plan) -> ColumnTypes:
    """The column with the headers of what waits in a table, where records carry headers."""
    return (("headers", HEADERS),) if plan.headers else ()


def row_headers(plan: Plan, table: str, store: str | None) -> ColumnTypes:
    """The column with the headers of the records that a table's rows are of, in a store that a user has named."""
    return (("headers", HEADERS),) if store is not None and table in plan.with_headers else ()


def without_headers(columns: Iterable[tuple[str, Any]]) -> ColumnTypes:
    """The columns but those of headers."""
    return tuple((name, kind) for name, kind in columns if kind != HEADERS)


def current_rows(
    plan: Plan, table: Node, store: str | None, usual: str, *, carried: ColumnTypes = (), everywhere: bool = False
) -> TableSchema:
    """The current rows of a table: in the store that its user asked for, or the usual one.

    Parameters
    ----------
    carried : columns beside the value.
    everywhere : whether every shard has all rows: of a global table.
    """
    columns = (("key", table.shape.key), ("value", table.shape.value), *carried, STAMP)
    headers, copies = row_headers(plan, table.name, store), None if everywhere else table.name
    return TableSchema(store or usual, (*columns, *headers), copies=copies, everywhere=everywhere)


@dataclass(frozen=True)
class CarriedColumn:
    """A column that rows carry beside key and value."""

    # name, kind: its name and type
    name: str
    kind: Any
    # of key and value, gives it; None: it is the row's own key, or on a direct side the sender's column
    function: Function | None = None
    # the reason under which a row is counted, and passes, where it is null; None where it may be null
    null_reason: Reason | None = None
    # whether the function goes by the key alone, so that it is called for rows without value, too
    of_key: bool = False


@dataclass(frozen=True)
class OperatorSide:
    """One side of an operator, and what its rows are on the way in."""

    # type of the values; `FLAG` where all that matters is whether there is one: rows bring true in its place
    value: Any
    carries: tuple[CarriedColumn, ...] = ()  # columns beside key and value
    # names of further columns that the node's operator before adds, where rows come from that directly, packed where
    # they are made
    marks: tuple[str, ...] = ()
    # function of key and value that gives the key under which rows come in, while they stand in the shard of their
    # own; None: they come under their own
    key: Function | None = None
    ends: frozenset[RowEnd] = row_ends()  # rows that end on the way in, counted
    # whether its keys are of windows: rows come in, and lie, under the key alone, with the window's `start` and `end`
    # beside it
    windowed: bool = False
    broadcast: bool = False  # whether every shard gets all rows
    # whether the operator looks its rows up from the other side, and so must know from where they are seen
    looked_up: bool = True
    stored_ts: bool = False  # whether it goes by the timestamps that lookups see
    # whether rows bring the old value: "inexact" where it is not what the operator knows from before; "always"
    old: Literal["no", "inexact", "always"] = "no"
    marks_silent: bool = True  # whether rows that only say what lookups see come marked as such, where they do not end
    nulls_reach: bool = False  # whether rows without a value count for how far the side reaches

    @property
    def direct(self) -> bool:
        """Whether rows come from the node's operator before."""
        return bool(self.marks)

    @property
    def function(self) -> Function | None:
        """The user's function with results in the rows: their key, or a column beside it."""
        return self.key or next((column.function for column in self.carries if column.function is not None), None)

    @property
    def called_for_deleted(self) -> bool:
        """Whether that function is called for rows without value, too."""
        return any(column.of_key for column in self.carries)

    @property
    def null_reason(self) -> Reason | None:
        """The reason under which a row is counted where what it carries is null; None where it may be null."""
        return next((column.null_reason for column in self.carries if column.null_reason is not None), None)


@dataclass(frozen=True)
class Reads:
    """The input of an operator: rows grouped by a key of this type, on these sides."""

    key: Any
    sides: tuple[OperatorSide, ...]

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(side.value for side in self.sides)

    @property
    def extras(self) -> ColumnTypes:
        """Names and types of what sides carry beside key and value; windows are numbers to the engine."""
        carried = (column for side in self.sides for column in side.carries)
        return tuple((column.name, column.kind) for column in carried if column.kind != WINDOW)


@dataclass(frozen=True)
class ComputedColumn:
    """A column that a user's function makes of result columns."""

    column: str  # its name
    # function, operands: the function, and the columns that it gets
    function: Function
    operands: tuple[str, ...]
    flag: str  # the column that says for which rows it is called; the others have null


@dataclass(frozen=True)
class ResultColumns:
    """The results of an operator: columns beside the key, and the node's rows made of them, in this order.

    In the end there is `value`, and `old` where old values are sent.
    """

    columns: ColumnTypes
    made: tuple[ComputedColumn, ...] = ()

    @classmethod
    def of_values(cls, kind: Any, *, old: bool) -> ResultColumns:
        """Values of a type as they are; `old`: the old ones too."""
        return cls((("value", kind), ("old", kind)) if old else (("value", kind),))


@dataclass(frozen=True)
class Retention:
    """How a table's rows are let go: each one when the floor of its own time domain has passed it (law 3)."""

    time: str  # the column that is compared with the floor
    domain: str | None = None  # the column with the domain's number; None: all rows are of domain 0
    # where rows are versions of their key, each of them until the next one: the flag of those that delete it. A
    # version goes when the floor has passed its end; the latest one stays, unless it deletes
    ends: str | None = None


@dataclass(frozen=True)
class TableSchema:
    """A table that an operator keeps: declared once, opened by the engine as it stands here.

    The columns that tell versions of one row apart must not change from one to the next: so in a table of replaced rows
    the first of `order` and the retention's time belong to the identity.
    """

    name: str  # the store's name
    columns: ColumnTypes  # in order; rows are routed by the hash of the first one, `key`
    # the columns that tell rows apart, `key` first; none: rows are only appended, never replaced nor deleted
    identity: tuple[str, ...] = ("key",)
    # columns of numbers by which the rows of one hash are sorted; the first one is a time or another number by which
    # rows of a key are looked up in ranges
    order: tuple[str, ...] = ()
    retention: Retention | None = None  # how rows are let go; None: only when they are deleted
    # the rows that are found by their retention's time over all keys: those with one of these flags, all of them if
    # there are no flags; None: none are
    due: tuple[str, ...] | None = None
    shown: bool = True  # whether it is one of the stores that users see
    # name of the node, a table, that it copies: other tables that copy it have the same rows
    copies: str | None = None
    everywhere: bool = False  # whether every shard has all rows

    def __post_init__(self) -> None:
        names = tuple(name for name, _ in self.columns)
        times = self.order[:1] + (() if self.retention is None else (self.retention.time,))
        references = {*self.identity, *self.order, *times, *(self.due or ())}
        assert names[:1] == ("key",), f"{self.name}: routed by {names[:1]}"
        assert references <= set(names), f"{self.name}: {names} without {references - set(names)}"
        assert self.identity[:1] in ((), ("key",)), f"{self.name}: told apart by {self.identity}"
        assert self.appended or set(times) <= set(self.identity), f"{self.name}: {times} can change"
        assert self.due is None or self.retention is not None, f"{self.name}: rows are due at no time"

    @property
    def appended(self) -> bool:
        """Whether rows are only added: lookups need not look for newest versions."""
        return not self.identity

    @property
    def bare(self) -> TableSchema:
        """The same table without headers."""
        return replace(self, columns=without_headers(self.columns))

    def typed(self, convert: Callable[[Any], Any]) -> TableSchema:
        """The same table with other types, as `convert` gives them."""
        kinds = (
            (name, kind if kind in (FLAG, NUMBER, BYTES, HEADERS) else convert(kind)) for name, kind in self.columns
        )
        return replace(self, columns=tuple(kinds))


FOLLOWS = {"follows": True}
"""Of a parameter that follows from what stands around an operator, or is compared apart: nothing kept depends on it."""


@dataclass(frozen=True)
class Params:
    """Parameters of an operator; a stem that has some has a class of its own, which the engine reads."""

    def typed(self, convert: Callable[[Any], Any]) -> Params:
        """The same with other types, as `convert` gives them."""
        return self


@dataclass(frozen=True)
class JoinParams(Params):
    """Of a join: its type, the generation that it follows, and per side whether null after null is dropped first."""

    how: How
    generation: str = field(metadata=FOLLOWS)
    suppress: tuple[bool, ...] = field(default=(False, False), metadata=FOLLOWS)

    @property
    def optional(self) -> tuple[bool, bool]:
        """Of each side, whether its rows have results without a row of the other."""
        return self.how != "inner", self.how == "outer"


@dataclass(frozen=True)
class TimeBehaviour:
    """How an operator goes by time."""

    hold: int | None = None  # how long it can hold a result back, in ms; None: it never does
    # whether records that end on the way in, without key or value, move its time all the same
    dropped_move: bool = True
    reaches: tuple[int, ...] | None = None  # the sides of which every shard gets the time bounds; None: all
    # whether a record is judged by the time of another partition than its own, too, where partitions have times of
    # their own
    elsewhere: bool = False
    by_wall: bool = False  # whether it goes by the wall clock, too

    def broadcasts_bounds(self, side: int) -> bool:
        """Whether every shard gets the time bounds of a side's rows."""
        return self.reaches is None or side in self.reaches


class OperatorDeclaration:
    """The answers of an operator: the usual ones."""

    stem: ClassVar[str]
    operator_stem: ClassVar[str] = ""
    """The operator's stem, where it is another than that of its node."""
    messages: ClassVar[Literal["", "sent", "received"]] = ""
    """Of a node with several operators: whether it sends the rows of an input, as messages that put or remove them, to
    the last one, or is that one.

    The results of the last one have another key than they are sharded by, and its `own_rows` depend on its parameters.
    """
    target_side: ClassVar[int] = 0
    """The side by which the operator that it sends to gets its rows."""
    in_place: ClassVar[bool] = False
    """Whether results have the key of the rows that trigger them, and so stay in the partition of their source."""
    fans_out: ClassVar[bool] = False
    """Whether one row gives many results, which opens a path slot."""
    by_key: ClassVar[bool] = False
    """Whether what it does for a key follows from that key's rows alone, so that a batch can be done in parts."""
    mixes_keys: ClassVar[bool] = False
    """Whether rows of one key may decide over results of another, other than by moving time."""
    cacheable: ClassVar[bool] = False
    """Whether the record cache may send one change of a key in a batch."""
    widens: ClassVar[bool] = True
    """Whether values that it has kept may be read as a wider type, when the topology has changed."""
    grows: ClassVar[bool] = False
    """Whether it goes on with those of its tables that it had, when it keeps more or fewer of them."""
    emits_late: ClassVar[bool] = False
    """Whether its results say if they are not the latest change of their key (a column `late`)."""
    recomputable: ClassVar[bool] = False
    """Whether its results follow from rows of tables alone: it reads no stream, and goes by no time."""
    replaceable: ClassVar[bool] = False
    """Whether it has each row that its results have, so that they can be compared with others."""
    chains: ClassVar[bool] = False
    """Whether it may run in the shards of another such operator that gives it its rows, in one level.

    Every shard of such an operator has all that it looks up, so it does not matter in which one a row is.
    """
    shared_side: ClassVar[int | None] = None
    """The side of its only table, if several operators may read one store of it; None: it owns its stores."""

    def retention_ms(self, plan: Plan) -> int | None:
        """For how long, in ms of stream time, it keeps rows that time lets go; None: of each key for itself."""
        return None

    # -- what it reads ---------------------------------------------------------------------------------------

    def side_of(self, input: int) -> int | None:
        """The side by which an input of the node comes in here; None: at another operator of the node."""
        return input

    def reads(self, plan: Plan) -> Reads:
        """The input."""
        raise NotImplementedError

    def meets(self, plan: Plan) -> bool:
        """Whether one input record can reach both sides, so that lookups must be told apart from positions."""
        return False

    # -- what it is and keeps --------------------------------------------------------------------------------

    def params(self, plan: Plan) -> Params:
        """Its parameters."""
        return Params()

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """Its tables."""
        return ()

    def own_rows(self, plan: Plan) -> tuple[int, ...]:
        """The sides of which it has all current rows itself, in the table of the same number."""
        return ()

    # -- what it gives ---------------------------------------------------------------------------------------

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        """The columns that the engine gives, and how values are made of them; `old`: of old values too."""
        raise NotImplementedError

    def lookups_see_results(self, plan: Plan) -> bool:
        """Whether lookups see a result from where it is sent: from a store, or since nothing else were in order."""
        return False

    def timed(self, plan: Plan) -> TimeBehaviour | None:
        """How it goes by time; None: not at all."""
        return None


@dataclass(frozen=True)
class OperatorNode(OperatorDeclaration, Node):
    """Base of the nodes that are operators themselves, not steps of a stage."""

    @property
    def operators(self) -> tuple[OperatorDeclaration, ...]:
        return (self,)

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(self.shape.value, old=old)


# The table of rows that an operator holds back until time lets them go (`_engine/waiting_rows.py`).


def held_schema(name: str, key: Any, columns: ColumnTypes, *, replaced: bool) -> TableSchema:
    """The declaration of such a table.

    Parameters
    ----------
    key, columns : the key's type, and what is held beside key and timestamp.
    replaced : whether a row takes the place of the one with the same key, due time and domain; else rows are only
        added.
    """
    numbers = (("due", NUMBER), ("arrival", NUMBER), ("domain", NUMBER), STAMP)
    return TableSchema(
        name,
        (("key", key), *numbers, *columns),
        identity=("key", "due", "domain") if replaced else (),
        order=("due",) if replaced else ("due", "arrival"),
        retention=Retention("due", "domain"),
        due=(),
    )
