"""Joins: what a user declares, and what their operators read, keep and give (docs/semantics, from section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from watersmeet._plan.declaration import (
    FLAG,
    NUMBER,
    STAMP,
    WINDOW,
    CarriedColumn,
    ColumnTypes,
    ComputedColumn,
    JoinParams,
    OperatorDeclaration,
    OperatorNode,
    OperatorSide,
    Params,
    Reads,
    ResultColumns,
    Retention,
    RowEnd,
    TableSchema,
    TimeBehaviour,
    current_rows,
    held_schema,
    row_ends,
    waiting_headers,
)
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Function, How, Node, Shape, UserFunction, of_key_and_value, of_operands
from watersmeet._plan.operators.tables import versions
from watersmeet._plan.reasons import NULL_FOREIGN_KEY
from watersmeet.errors import Generation, TopologyError
from watersmeet.windows import JoinWindows


def _joiner(joiner: Function, left: Shape, right: Shape) -> UserFunction:
    return of_operands("joiner", joiner, (("key", left.key), ("left", left.value), ("right", right.value)))


def joined_values(joiner: Function, values: ColumnTypes, *, old: bool) -> ResultColumns:
    """Results of a join: all values, and whether there is a joined one; with `old` the same of the result before."""
    columns: ColumnTypes = ()
    outputs: tuple[ComputedColumn, ...] = ()
    for prefix, name in (("", "value"), ("old_", "old")) if old else (("", "value"),):
        operands = tuple((f"{prefix}{column}", kind) for column, kind in values)
        columns += (*operands, (f"{prefix}joined", FLAG))
        outputs += (ComputedColumn(name, joiner, ("key", *(column for column, _ in operands)), flag=f"{prefix}joined"),)
    return ResultColumns(columns, outputs)


def rows_of_sides(plan: Plan, node: Node, sides: Mapping[int, str]) -> tuple[TableSchema, ...]:
    """A table for each of these sides, with the side's rows under the key of the join.

    Parameters
    ----------
    sides : and what their tables are called in the names of stores, where the user has asked for none.
    """
    return tuple(
        current_rows(plan, plan.by_name[node.inputs[side]], plan.store_of(node, side), f"{node.name}.{suffix}")
        for side, suffix in sides.items()
    )


def _refuse_outer(join_type: How, refusal: str) -> None:
    if join_type == "outer":
        raise TopologyError(refusal, hint="Use join or left_join.")


def _check_generation(generation: Generation, feature: str, hint: str = "Use a later generation.") -> None:
    if generation.is_old:
        raise TopologyError(
            f"Kafka Streams 0.10.0 and 0.10.1 have no {feature}.",
            given=f"generation {generation.value!r}",
            hint=hint,
        )


@dataclass(frozen=True)
class JoinNode(OperatorNode):
    """Base of the joins that have a type, a joiner of key, left and right, and a generation."""

    how: How = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (_joiner(self.joiner, *above),)

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        values = (("left", plan.shape(self, 0).value), ("right", plan.shape(self, 1).value))
        return joined_values(self.joiner, values, old=old)


@dataclass(frozen=True)
class KeyJoinNode(JoinNode):
    """Base of the joins of two inputs by their common key; those that are looked up are kept under it."""

    in_place = True
    by_key = True

    def meets(self, plan: Plan) -> bool:
        return plan.meet_in_step(*self.inputs)

    def params(self, plan: Plan) -> JoinParams:
        return JoinParams(self.how, self.generation.value, tuple(name in plan.rules.fused for name in self.inputs))

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        suffixes = {0: "left", 1: "right"}
        return rows_of_sides(plan, self, {side: suffixes[side] for side in self.looks_up})


@dataclass(frozen=True)
class TableTableNode(KeyJoinNode):
    """Primary-key join of two tables (KIP-77; docs/semantics/table_table.md)."""

    stem = "table_table"
    old_values = "computed"
    looks_up = (0, 1)
    cacheable = True
    recomputable = True

    @property
    def needs_old(self) -> tuple[str, ...]:
        return self.inputs[: {"inner": 0, "left": 1, "outer": 2}[self.how]]

    def reads(self, plan: Plan) -> Reads:
        sides = (
            OperatorSide(plan.shape(self, side).value, old="inexact", stored_ts=True, ends=row_ends(late=True))
            for side in (0, 1)
        )
        return Reads(self.shape.key, tuple(sides))

    def own_rows(self, plan: Plan) -> tuple[int, ...]:
        return (0, 1)

    def lookups_see_results(self, plan: Plan) -> bool:
        """Two tables of one source that do not change at once: the join is seen going from one result to the next.

        One of them came by a foreign key: such results come after all others.
        """
        left, right = self.inputs
        return not self.meets(plan) and bool(plan.ancestors[left] & plan.ancestors[right])


@dataclass(frozen=True)
class MultiJoinParams(Params):
    """Of each table, whether there is a result only where it has a row; if of none, any row makes one."""

    needed: tuple[bool, ...]


@dataclass(frozen=True)
class MultiJoinNode(OperatorNode):
    """Join of several tables by their common key (docs/semantics/multi_join.md)."""

    # the type of the join with each table but the first; outer with one is outer with all
    hows: tuple[How, ...] = field(kw_only=True)
    # function of the key and of the value of each table
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    stem = "multi_join"
    # a result stands as long as the rows do that it needs (semantics/multi_join.md), so it is known to whoever asks
    old_values = "remembered"
    sees_lookups = False
    in_place = True
    by_key = True
    cacheable = True
    recomputable = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if "outer" in self.hows and set(self.hows) != {"outer"}:
            raise TopologyError(
                f"A join of several tables is outer with all of them or with none: how={list(self.hows)}.",
                hint='Write how="outer", or a list of "inner" and "left".',
            )
        _check_generation(self.generation, "join of several tables", "Join them two by two, or use a later generation.")

    @property
    def needed(self) -> tuple[bool, ...]:
        """Of each table, whether there is a result only where it has a row."""
        return ("outer" not in self.hows, *(join_type == "inner" for join_type in self.hows))

    @property
    def looks_up(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs)))

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", ", ".join(self.hows)), ("generation", self.generation.value))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        values = ((f"side{number}", shape.value) for number, shape in enumerate(above))
        return (of_operands("joiner", self.joiner, (("key", self.shape.key), *values)),)

    def reads(self, plan: Plan) -> Reads:
        sides = (
            OperatorSide(plan.shape(self, side).value, looked_up=False, ends=row_ends(silent=True, late=True))
            for side in self.looks_up
        )
        return Reads(self.shape.key, tuple(sides))

    def params(self, plan: Plan) -> MultiJoinParams:
        return MultiJoinParams(self.needed)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        return rows_of_sides(plan, self, {side: f"table{side}" for side in self.looks_up})

    def own_rows(self, plan: Plan) -> tuple[int, ...]:
        return self.looks_up

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        values = ((f"side{side}", plan.shape(self, side).value) for side in self.looks_up)
        return joined_values(self.joiner, tuple(values), old=old)


@dataclass(frozen=True)
class StreamTableNode(KeyJoinNode):
    """Join of a stream with a table, driven by the stream (docs/semantics/stream_table.md)."""

    stem = "stream_table"
    looks_up = (1,)
    goes_by_moment = (1,)
    shared_side: ClassVar[int | None] = 1

    @property
    def takes_null_keys(self) -> bool:
        return self.generation is Generation.CURRENT and self.how == "left"

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_outer(self.how, "A stream and a table have no outer join.")
        if self.how == "inner":
            _check_generation(
                self.generation, "inner join of a stream and a table", "Use left_join, or a later generation."
            )

    def reads(self, plan: Plan) -> Reads:
        stream, table = (plan.shape(self, side).value for side in (0, 1))
        driving = OperatorSide(
            stream,
            ends=row_ends(null_key=not self.takes_null_keys, null_value=not self.generation.is_old),
            looked_up=False,
            marks_silent=False,
        )
        return Reads(self.shape.key, (driving, OperatorSide(table, marks_silent=False)))


# A join with a versioned table remembers the table's past itself, under the stream's key.

STREAM, TABLE = 0, 1
"""Sides of a join of a stream with a table."""


@dataclass(frozen=True)
class AsOfParams(JoinParams):
    """Of a join with a versioned table: its history retention, and how long records are held back, in ms."""

    history_ms: int = 0
    grace_ms: int = 0


@dataclass(frozen=True)
class StreamVersionedTableNode(StreamTableNode):
    """Join of a stream with a versioned table, as of the stream record's timestamp (KIP-914; section 8)."""

    table_history_ms: int = field(kw_only=True)  # the table's history retention, in ms

    stem = "stream_versioned_table"
    looks_up_as_of = (1,)
    by_key = False
    shared_side = None

    def details(self) -> tuple[tuple[str, str], ...]:
        return (*super().details(), ("history", f"{self.table_history_ms} ms"))

    def reads(self, plan: Plan) -> Reads:
        stream, table = (plan.shape(self, side).value for side in (0, 1))
        driving = OperatorSide(
            stream,
            ends=row_ends(null_key=not self.takes_null_keys, null_value=True),
            looked_up=False,
            marks_silent=False,
        )
        return Reads(self.shape.key, (driving, OperatorSide(table, marks_silent=False, nulls_reach=True)))

    def params(self, plan: Plan) -> AsOfParams:
        return AsOfParams(self.how, self.generation.value, history_ms=self.table_history_ms)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        name = plan.store_of(self, TABLE) or f"{self.name}.right"
        return (versions(name, self.shape.key, plan.shape(self, TABLE).value),)

    def timed(self, plan: Plan) -> TimeBehaviour:
        return TimeBehaviour(dropped_move=False, reaches=(TABLE,))

    def retention_ms(self, plan: Plan) -> int | None:
        return self.table_history_ms


@dataclass(frozen=True)
class StreamTableGraceNode(StreamVersionedTableNode):
    """The same with records of the stream held back until its time has passed theirs by the grace (KIP-923)."""

    grace_ms: int = field(kw_only=True)  # for how long, in ms of the stream's time; at least 1

    stem = "stream_table_grace"
    moves_time = (0,)
    fans_out = True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (*super().details(), ("grace", f"{self.grace_ms} ms"))

    def params(self, plan: Plan) -> AsOfParams:
        return AsOfParams(self.how, self.generation.value, history_ms=self.table_history_ms, grace_ms=self.grace_ms)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The versions of the table's rows, and the records that are held back."""
        columns = (("value", plan.shape(self, 0).value), *waiting_headers(plan))
        return (
            *super().keeps(plan),
            held_schema(f"{self.name}.held", self.shape.key, columns, replaced=False),
        )

    def timed(self, plan: Plan) -> TimeBehaviour:
        """The last moment in which a record waits is one before the end of the grace.

        It gets every time: a record that it lets go sees the table's changes before the record that moves time.
        """
        return TimeBehaviour(hold=self.grace_ms - 1, dropped_move=False, reaches=(TABLE,))


# stream_stream, stream_match: windowed joins of two streams (semantics/stream_stream.md).

FLAGS = ("waits", "waits_right")
"""The columns that say which stored rows wait for a partner; the second one of a self-join, as rows of its right."""


@dataclass(frozen=True)
class JoinWindowParams(JoinParams):
    """Of a windowed join: (before, after, grace) in ms, too."""

    window: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class MatchParams(JoinWindowParams):
    """Of a windowed join that takes one partner: which one, too."""

    match: str = "nearest"


@dataclass(frozen=True)
class StreamStreamNode(JoinNode):
    """Windowed join of two streams (docs/semantics/stream_stream.md and generations.md)."""

    windows: JoinWindows = field(kw_only=True)
    # whether outer sides take records without a key (KIP-962; 3.7 and later)
    relaxed: bool = field(default=True, kw_only=True)

    stem = "stream_stream"
    in_place = True
    fans_out = True

    @property
    def takes_null_keys(self) -> bool:
        return self.relaxed and self.how != "inner"

    def outer(self, side: int) -> bool:
        """Whether an unmatched record of this side gives a result."""
        return self.how == "outer" or (self.how == "left" and side == 0)

    @property
    def waits(self) -> bool:
        """Whether results of unmatched records wait until window and grace have passed."""
        return self.how != "inner" and self.generation is Generation.CURRENT

    def details(self) -> tuple[tuple[str, str], ...]:
        generation = ("generation", self.generation.value)
        return (("type", self.how), ("window", _window_text(self.windows)), generation)

    def reads(self, plan: Plan) -> Reads:
        sides = (
            OperatorSide(
                plan.shape(self, side).value,
                ends=row_ends(null_key=not (self.relaxed and self.outer(side)), null_value=not self.generation.is_old),
            )
            for side in (0, 1)
        )
        return Reads(self.shape.key, tuple(sides))

    def params(self, plan: Plan) -> JoinWindowParams:
        windows = self.windows
        window = (windows.before_ms, windows.after_ms, windows.grace_ms)
        return JoinWindowParams(self.how, self.generation.value, window=window)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The rows of each side, of a self-join those of both in one; and which of those that waited were matched.

        Rows are never changed: that a stored row has been matched is a row of its own, under the row's number, which a
        shard gives, and the hash of its key: so it goes where the row goes if the shards become others.
        """
        self_join = len(set(self.inputs)) == 1
        sides = ((0, "both"),) if self_join else ((0, "left"), (1, "right"))
        tables = tuple(
            _rows(plan, self, side, name, FLAGS if self_join else FLAGS[: self.outer(side)]) for side, name in sides
        )
        matched = TableSchema(
            f"{self.name}.matched",
            (("key", NUMBER), ("closes", NUMBER), ("domain", NUMBER)),
            identity=(),
            retention=Retention("closes", "domain"),
            due=(),
            shown=False,
        )
        return (*tables, matched) if self.waits else tables

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Unmatched records wait until window and grace have passed."""
        windows = self.windows
        hold = max(windows.before_ms, windows.after_ms) + windows.grace_ms
        return TimeBehaviour(hold=hold if self.waits else None)

    def retention_ms(self, plan: Plan) -> int | None:
        return _window_ms(self.windows)


Match = Literal["first", "nearest"]
"""Of the right records in a left record's window, the one that it is joined with."""


@dataclass(frozen=True)
class StreamMatchNode(JoinNode):
    """Windowed join of each record of a stream with one record of another (docs/semantics/stream_match.md)."""

    windows: JoinWindows = field(kw_only=True)
    match: Match = field(kw_only=True)  # with the first one by timestamp, or with the nearest one

    stem = "stream_match"
    waits: ClassVar[bool] = True
    in_place = True
    fans_out = True

    @property
    def takes_null_keys(self) -> bool:
        return self.how == "left"

    @property
    def wait_ms(self) -> int:
        """How long a left record waits for the best partner, in ms of stream time behind its timestamp."""
        return max(self.windows.after_ms, 0) + self.windows.grace_ms

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("match", self.match), ("window", _window_text(self.windows)))

    def reads(self, plan: Plan) -> Reads:
        left, right = (plan.shape(self, side).value for side in (0, 1))
        sides = (
            OperatorSide(left, ends=row_ends(null_key=not self.takes_null_keys, null_value=True)),
            OperatorSide(right, ends=row_ends(null_value=True)),
        )
        return Reads(self.shape.key, sides)

    def params(self, plan: Plan) -> MatchParams:
        windows = self.windows
        window = (windows.before_ms, windows.after_ms, windows.grace_ms)
        return MatchParams(self.how, self.generation.value, window=window, match=self.match)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The left records that wait, and the right ones that they may meet."""
        columns = (("value", plan.shape(self, 0).value), *waiting_headers(plan))
        buffer = held_schema(f"{self.name}.held", self.shape.key, columns, replaced=False)
        return (buffer, _rows(plan, self, 1, "right", ()))

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Left records wait until window and grace have passed."""
        return TimeBehaviour(hold=self.wait_ms)

    def retention_ms(self, plan: Plan) -> int | None:
        return _window_ms(self.windows)


def _window_ms(windows: JoinWindows) -> int:
    """From a record's time on until none that may come can meet it."""
    return windows.before_ms + windows.after_ms + windows.grace_ms


def _window_text(windows: JoinWindows) -> str:
    return f"{-windows.before_ms:+}..{windows.after_ms:+} ms, grace {windows.grace_ms} ms"


def _rows(
    plan: Plan, node: StreamStreamNode | StreamMatchNode, side: int, name: str, wait_flags: tuple[str, ...]
) -> TableSchema:
    """The records of a side, in order of (ts, arrival) within a key; `wait_flags`: the flags of those that wait.

    Those that wait have their headers.
    """
    flags = wait_flags if node.waits else ()
    numbers = (STAMP, ("arrival", NUMBER), ("domain", NUMBER), *((flag, FLAG) for flag in flags))
    return TableSchema(
        f"{node.name}.{name}",
        (
            ("key", node.shape.key),
            *numbers,
            ("value", plan.shape(node, side).value),
            *(waiting_headers(plan) if flags else ()),
        ),
        identity=(),
        order=("ts", "arrival"),
        retention=Retention("ts", "domain"),
        due=flags or None,
    )


# foreign_key_send, foreign_key_receive, one_to_many: joins by a foreign key (semantics/foreign_key.md).
#
# Such a join is two operators: the first one, by the key of the rows that refer, says who refers to what; the second
# one, by the key that is referred to, joins them.


def _messages_of(shape: Shape) -> OperatorSide:
    """The side by which rows come as messages that put them under what they refer to, or remove them."""
    left_key = CarriedColumn("left_key", shape.key)
    return OperatorSide(shape.value, (left_key,), marks=("verb",), ends=row_ends(null_key=False), looked_up=False)


def _subscriptions(name: str, key: Any, shape: Shape) -> TableSchema:
    """The table of rows by what they refer to, of this type, and their own key."""
    columns = (("key", key), ("left_key", shape.key), ("value", shape.value), STAMP)
    return TableSchema(name, columns, identity=("key", "left_key"))


@dataclass(frozen=True)
class ReferenceNode(JoinNode):
    """Base of the joins by a foreign key: rows of one input refer to rows of the other.

    Parameters
    ----------
    how : inner or left.
    extractor : function of key and value of the referring table that gives a key of the other.
    joiner : function of the values of both inputs.
    """

    how: How = field(default="inner", kw_only=True)
    extractor: Function = field(kw_only=True, compare=False, repr=False)

    referring_side: ClassVar[int] = 0
    in_step = False
    looks_up = (0, 1)
    by_key = True
    fans_out = True
    cacheable = True
    recomputable = True
    messages = "received"

    @property
    def operators(self) -> tuple[OperatorDeclaration, ...]:
        return ForeignKeySend(self), self

    @property
    def needs_old(self) -> tuple[str, ...]:
        return (self.referring,)

    @property
    def keeps_sides(self) -> tuple[int, ...]:
        return (self.referred_side,)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_outer(self.how, "A foreign-key join has no outer form.")
        _check_generation(self.generation, "foreign-key join")

    @property
    def null_rule(self) -> Generation:
        """The generation that says what a null foreign key does."""
        return Generation.CURRENT

    @property
    def referring(self) -> str:
        return self.inputs[self.referring_side]

    @property
    def referred_side(self) -> int:
        return 1 - self.referring_side

    @property
    def referred(self) -> str:
        return self.inputs[self.referred_side]

    @property
    def table_ends(self) -> frozenset[RowEnd]:
        """Rows of both tables that end on their way in."""
        return row_ends(silent=not self.sees_lookups, late=True)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        referring = above[self.referring_side]
        left, right = above
        operands = (("key", self.shape.key), ("left", left.value), ("right", right.value))
        return of_key_and_value("extractor", self.extractor, referring), of_operands("joiner", self.joiner, operands)

    def side_of(self, input: int) -> int | None:
        return None if input == self.referring_side else 1

    def reads(self, plan: Plan) -> Reads:
        referring, referred = plan.shape(self, self.referring_side), plan.shape(self, self.referred_side)
        rows = OperatorSide(referred.value, stored_ts=True, ends=self.table_ends)
        return Reads(referred.key, (_messages_of(referring), rows))

    def meets(self, plan: Plan) -> bool:
        return plan.meet_in_step(self.referring, self.referred)

    def params(self, plan: Plan) -> JoinParams:
        return JoinParams(self.how, self.generation.value, (False, self.referred in plan.rules.fused))

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The rows that refer, by both keys, and those that are referred to."""
        referring, referred = plan.shape(self, self.referring_side), plan.shape(self, self.referred_side)
        table, store = plan.by_name[self.referred], plan.store_of(self, self.referred_side)
        return (
            _subscriptions(f"{self.name}.subscriptions", referred.key, referring),
            current_rows(plan, table, store, f"{self.name}.referred"),
        )

    def own_rows(self, plan: Plan) -> tuple[int, ...]:
        return (0, 1)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True


@dataclass(frozen=True)
class ForeignKeyNode(ReferenceNode):
    """Join of two tables by a foreign key in the left value (KIP-213; docs/semantics/foreign_key.md)."""

    stem = "foreign_key"
    operator_stem = "foreign_key_receive"
    old_values = "stored"

    @property
    def null_rule(self) -> Generation:
        return self.generation

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def needs_old(self) -> tuple[str, ...]:
        return (self.referred, self.referring)


@dataclass(frozen=True)
class OneToManyNode(ReferenceNode):
    """Join of "one" with the table "many" that refers to it, keyed by both keys (docs/semantics/one_to_many.md)."""

    stem = "one_to_many"
    referring_side = 1
    # its last result per key stands (docs/semantics/one_to_many.md), so it is known to whoever asks
    old_values = "remembered"
    combines_keys = True
    sees_lookups = False

    def meets(self, plan: Plan) -> bool:
        """It goes by what has arrived: so a row that loses both sides at once loses its result once."""
        return False


@dataclass(frozen=True)
class ForeignKeySend(OperatorDeclaration):
    """The first operator of a join by a foreign key, by the key of the rows that refer: it says who refers to what."""

    node: ReferenceNode

    stem = "foreign_key_send"
    messages = "sent"
    by_key = True
    recomputable = True
    cacheable = True

    def side_of(self, input: int) -> int | None:
        return 0 if input == self.node.referring_side else None

    def reads(self, plan: Plan) -> Reads:
        node = self.node
        referring, referred = plan.shape(node, node.referring_side), plan.shape(node, node.referred_side)
        reason = NULL_FOREIGN_KEY if node.how == "inner" or node.null_rule is Generation.SPURIOUS else None
        reference = CarriedColumn("foreign_key", referred.key, node.extractor, null_reason=reason)
        return Reads(referring.key, (OperatorSide(referring.value, (reference,), ends=node.table_ends),))

    def params(self, plan: Plan) -> JoinParams:
        return JoinParams(self.node.how, self.node.null_rule.value)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        referring, referred = (plan.by_name[name].shape for name in (self.node.referring, self.node.referred))
        columns = (("key", referring.key), ("foreign_key", referred.key))
        return (TableSchema(f"{self.node.name}.foreign_keys", columns),)

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        """Messages to the second operator, which go there directly."""
        return ResultColumns((("value", plan.by_name[self.node.referring].shape.value),))


# many_to_many_send, many_to_many: the join of two tables by equal values of an expression of either (docs/semantics,
# section 28). Each side has an operator that says which row stands under which value; the last one, by that value,
# joins them.


@dataclass(frozen=True)
class ManyToManyNode(JoinNode):
    """Join of two tables by any equality, keyed by both keys; its tables refer to values, not to each other.

    Parameters
    ----------
    by : type of the values that are compared.
    left_value, right_value : functions of key and value of either table that give them.
    """

    by: Any = field(kw_only=True)
    left_value: Function = field(kw_only=True, compare=False, repr=False)
    right_value: Function = field(kw_only=True, compare=False, repr=False)

    stem = "many_to_many"
    old_values = "remembered"
    in_step = False
    by_key = True
    fans_out = True
    messages = "received"
    # a key's results follow from rows under all values that its rows have had
    mixes_keys = True
    sees_lookups = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_generation(self.generation, "many-to-many join")

    @property
    def operators(self) -> tuple[OperatorDeclaration, ...]:
        return ManyToManySend(self), RightManyToManySend(self), self

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    @property
    def needs_old(self) -> tuple[str, ...]:
        return self.inputs

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        left, right = above
        operands = (("key", self.shape.key), ("left", left.value), ("right", right.value))
        return (
            of_key_and_value("left_value", self.left_value, left),
            of_key_and_value("right_value", self.right_value, right),
            of_operands("joiner", self.joiner, operands),
        )

    def side_of(self, input: int) -> int | None:
        return None

    def reads(self, plan: Plan) -> Reads:
        return Reads(self.by, tuple(_messages_of(plan.shape(self, side)) for side in (0, 1)))

    def params(self, plan: Plan) -> JoinParams:
        return JoinParams(self.how, self.generation.value)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The rows of both tables, by the value that is compared and their own key."""
        names = (f"{self.name}.left", f"{self.name}.right")
        return tuple(_subscriptions(name, self.by, plan.shape(self, side)) for side, name in enumerate(names))

    def lookups_see_results(self, plan: Plan) -> bool:
        return True


@dataclass(frozen=True)
class ManyToManySend(OperatorDeclaration):
    """The operator of the left rows of a many-to-many join: it says which of them stands under which value."""

    node: ManyToManyNode

    stem = "many_to_many_send"
    messages = "sent"
    by_key = True

    def side_of(self, input: int) -> int | None:
        return 0 if input == self.target_side else None

    def reads(self, plan: Plan) -> Reads:
        node, shape = self.node, plan.shape(self.node, self.target_side)
        reason = None if self.params(plan).how == "left" else NULL_FOREIGN_KEY
        function = (node.left_value, node.right_value)[self.target_side]
        value = CarriedColumn("foreign_key", node.by, function, null_reason=reason)
        return Reads(shape.key, (OperatorSide(shape.value, (value,), ends=row_ends(silent=True, late=True)),))

    def params(self, plan: Plan) -> JoinParams:
        is_optional = self.node.params(plan).optional[self.target_side]
        return JoinParams("left" if is_optional else "inner", self.node.generation.value)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        columns = (("key", plan.shape(self.node, self.target_side).key), ("foreign_key", self.node.by))
        return (TableSchema(f"{self.node.name}.{('left', 'right')[self.target_side]}_values", columns),)

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        """Messages to the operator that joins, which go there directly."""
        return ResultColumns((("value", plan.shape(self.node, self.target_side).value),))


@dataclass(frozen=True)
class RightManyToManySend(ManyToManySend):
    """The same for the right rows."""

    operator_stem = "many_to_many_send"
    target_side = 1


# Views of global tables: joins of global tables that keep nothing and are resolved at each lookup.
#
# A view is keyed by its left table; each of its rows refers to a row of the right one; its right side may
# be a view again. The joins that look a view up keep copies of all tables behind it and go from one to the next,
# in one level: the key of the next table is a column of the row before, made by the user's function when that row
# came (law 4), not a column of anything joined.


@dataclass(frozen=True)
class GlobalViewNode(Node):
    """Join of two global tables by a mapped key, as a view (KIP-99; docs/semantics/global_lookup.md)."""

    how: How = field(kw_only=True)
    # function of the left table's key and value that gives the key of the right one
    mapper: Function = field(kw_only=True, compare=False, repr=False)
    joiner: Function = field(kw_only=True, compare=False, repr=False)  # function of key, left and right

    stem = "global_view"

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_outer(self.how, "A join of global tables has no outer form.")

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return of_key_and_value("mapper", self.mapper, above[0]), _joiner(self.joiner, *above)


def view_of(node: Node) -> GlobalViewNode | None:
    return node if isinstance(node, GlobalViewNode) else None


def views_of(plan: Plan, name: str) -> tuple[GlobalViewNode, ...]:
    """The views behind a name, outermost first; none for a table."""
    view = view_of(plan.by_name[name])
    return () if view is None else (view, *views_of(plan, view.inputs[1]))


def tables_of(plan: Plan, name: str) -> tuple[Node, ...]:
    """The global tables behind a name, in the order in which a lookup goes through them."""
    views = views_of(plan, name)
    names = [view.inputs[0] for view in views] + [views[-1].inputs[1] if views else name]
    return tuple(plan.by_name[table] for table in names)


def lookups_of(plan: Plan, view: Node, side: int) -> Iterator[tuple[Node, int]]:
    """The joins that look up what comes into a view on a side, and the side by which it comes into them."""
    for child, child_side in plan.children[view.name]:
        if child.is_view:
            yield from ((join, place + side) for join, place in lookups_of(plan, child, child_side))
        else:
            yield child, child_side + side


# global_lookup, global_table_lookup: joins with a global table or a view of some (docs/semantics/global_lookup.md).


@dataclass(frozen=True)
class LookupParams(JoinParams):
    """Of a lookup: the join type of each view that is looked up, outermost first, too."""

    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class GlobalLookupNode(JoinNode):
    """Join of a stream with a global table by a mapped key, driven by the stream (docs/semantics/global_lookup.md).

    Parameters
    ----------
    mapper : function of the stream's key and value that gives the key to look up.
    joiner : function of key, mapped key, left and right.
    """

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "global_lookup"
    sees_lookups = False
    mixes_keys = True
    chains = True

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def takes_null_keys(self) -> bool:
        return self.shape.kind == "stream" and self.generation is Generation.CURRENT and self.how == "left"

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_outer(self.how, "A join with a global table has no outer form.")
        _check_generation(self.generation, "global tables")

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        left, right = above
        keys = (("key", left.key), ("mapped_key", right.key))
        operands = (*keys, ("left", left.value), ("right", right.value))
        return of_key_and_value("mapper", self.mapper, left), of_operands("joiner", self.joiner, operands)

    def reads(self, plan: Plan) -> Reads:
        """The driving side, and the tables in the order of a lookup; rows of one carry the key of the next one's."""
        left = plan.shape(self, 0)
        stream = self.shape.kind == "stream"
        driving = OperatorSide(
            left.value,
            (CarriedColumn("left_key", left.key),),
            key=self.mapper,
            # What comes in as key is the mapped one: a left join looks nothing up for null.
            ends=row_ends(null_key=self.how == "inner" and stream, null_value=stream, late=not stream, silent=True),
        )
        return Reads(plan.shape(self, 1).key, (driving, *self._tables(plan)))

    def replicas(self, plan: Plan) -> Mapping[int, Node]:
        """The tables behind the side that is looked up, in the order in which a lookup goes through them."""
        return dict(enumerate(tables_of(plan, self.inputs[1]), start=1))

    def read_through(self, plan: Plan) -> tuple[str, ...]:
        return (self.inputs[0], *(table.name for table in self.replicas(plan).values()))

    def params(self, plan: Plan) -> LookupParams:
        views = tuple(view.how for view in views_of(plan, self.inputs[1]))
        return LookupParams(self.how, self.generation.value, views=views)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """Copies of the tables."""
        tables = []
        for number, (table, side) in enumerate(zip(self.replicas(plan).values(), self._tables(plan), strict=True)):
            store, usual = plan.store_of(self, 1 + number), f"{self.name}.replica{number or ''}"
            carried = tuple((state.name, state.kind) for state in side.carries)
            tables.append(current_rows(plan, table, store, usual, carried=carried, everywhere=True))
        return tuple(tables)

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        """Keys and values of all tables gone through, and whether each view has a row: it is joined here, too."""
        views = views_of(plan, self.inputs[1])
        columns: ColumnTypes = (("left", plan.shape(self, 0).value), ("joined", FLAG))
        for number, table in enumerate(tables_of(plan, self.inputs[1])):
            columns += ((f"mapped_key{number or ''}", table.shape.key), (f"right{number or ''}", table.shape.value))
        columns += tuple((f"view{number}", FLAG) for number in range(len(views)))
        view_columns = [
            ComputedColumn(
                f"right{number or ''}",
                views[number].joiner,
                (f"mapped_key{number or ''}", f"right{number or ''}", f"right{number + 1}"),
                flag=f"view{number}",
            )
            # innermost first
            for number in reversed(range(len(views)))
        ]
        joined = ComputedColumn("value", self.joiner, ("key", "mapped_key", "left", "right"), flag="joined")
        return ResultColumns(columns, (*view_columns, joined))

    def _tables(self, plan: Plan) -> tuple[OperatorSide, ...]:
        views = views_of(plan, self.inputs[1])
        tables = tables_of(plan, self.inputs[1])
        sides = []
        for number, table in enumerate(tables):
            carried: tuple[CarriedColumn, ...] = ()
            if number < len(views):
                carried = (CarriedColumn(f"next_key{number + 1}", tables[number + 1].shape.key, views[number].mapper),)
            sides.append(OperatorSide(table.shape.value, carried, broadcast=True, ends=row_ends(silent=True)))
        return tuple(sides)


@dataclass(frozen=True)
class GlobalTableLookupNode(GlobalLookupNode):
    """Join of a table with a global table, driven by the former; the last result of each key stands."""

    stem = "global_table_lookup"
    # its last result per key is kept (docs/semantics/global_lookup.md), so it is known to whoever asks
    old_values = "remembered"
    cacheable = True

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The same, and the keys with a present result."""
        materialized = TableSchema(f"{self.name}.materialized", (("key", plan.shape(self, 0).key),))
        return (*super().keeps(plan), materialized)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True


# stream_wtable, table_wtable, wtable_table, wtable_wtable: joins with tables by key and window (semantics/wtable.md).
#
# Rows lie under their key alone, so that all windows of a key can meet; what tells them apart is key and window.

POINTER: ColumnTypes = (("to_start", NUMBER), ("to_end", NUMBER))
"""The window that a stored left row points at, where a function has said which."""


NAMED = "named_window"
"""What a left row carries where a function says which window it points at."""


@dataclass(frozen=True)
class WindowJoinParams(JoinParams):
    """Of a join with windows."""

    # of each side, how long behind its window's end a row joins, in ms; None: its rows have no windows
    lives: tuple[int | None, int | None] = (None, None)
    distance: int = 0  # how much earlier than the left window the right one lies, in ms
    names: bool = False  # whether left rows say which window they point at; else it is the one at the distance
    stored: bool = True  # whether left rows stay; else they are records of a stream


@dataclass(frozen=True)
class WTableJoinNode(JoinNode):
    """Base of the joins of which a side is a table by key and window: a row of the left side meets one of the right."""

    by: Any = field(kw_only=True)  # type of the keys under which the sides meet, which is the key of all windows
    # of each side, how long behind its window's end a row joins, in ms; None: its rows have no windows
    lives: tuple[int | None, int | None] = field(kw_only=True)
    # function of the left key and value that gives the window of the right row; None: see `distance`
    window_of: Function | None = field(default=None, kw_only=True, compare=False, repr=False)
    # how much earlier than the left window the right one lies, in ms, where no function says which it is
    distance: int = field(default=0, kw_only=True)

    old_values = "remembered"
    sees_lookups = False
    in_place = True

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    def details(self) -> tuple[tuple[str, str], ...]:
        left, right = ("for ever" if live is None else f"{live} ms" for live in self.lives)
        meets = f"{self.distance} ms earlier" if self.distance else "the same"
        window = "as a function says" if self.window_of is not None else meets
        return (("type", self.how), ("window", window), ("live", f"left {left}, right {right}"))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        operands = (("key", self.shape.key), ("left", above[0].value), ("right", above[1].value))
        pointer = () if self.window_of is None else (of_key_and_value("window_of", self.window_of, above[0]),)
        return (*pointer, UserFunction("joiner", self.joiner, operands))

    def reads(self, plan: Plan) -> Reads:
        """Rows by their keys alone; those of a table by key and window bring the window's ends."""
        # where the function goes by the window alone, it speaks of deleted rows, too
        of_key = self.lives[0] is not None
        window_state = () if self.window_of is None else (CarriedColumn(NAMED, WINDOW, self.window_of, of_key=of_key),)
        values = (plan.shape(self, side).value for side in (0, 1))
        left, right = (
            OperatorSide(
                value,
                carried,
                windowed=live is not None,
                looked_up=False,
                ends=row_ends(silent=True, late=live is None),
            )
            for value, carried, live in zip(values, (window_state, ()), self.lives, strict=True)
        )
        return Reads(self.by, (left, right))

    def params(self, plan: Plan) -> WindowJoinParams:
        return WindowJoinParams(
            self.how,
            self.generation.value,
            lives=self.lives,
            distance=self.distance,
            names=self.window_of is not None,
        )

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The rows of both sides, and the last results where old values are asked for."""
        left, right = self.lives
        pointer = () if self.window_of is None else POINTER
        tables = [self._side(plan, 0, left, pointer), self._side(plan, 1, right, ())]
        if left is not None and self.name in plan.rules.carries_old:
            values = tuple((name, plan.shape(self, side).value) for side, name in enumerate(("left", "right")))
            tables.append(by_window(f"{self.name}.results", self.by, values, visible=False))
        return tuple(tables)

    def _side(self, plan: Plan, side: int, live: int | None, pointer: ColumnTypes) -> TableSchema:
        name = f"{self.name}.{('left', 'right')[side]}"
        columns = (("value", plan.shape(self, side).value), STAMP, *pointer)
        if live is None:
            return TableSchema(name, (("key", self.by), *columns))
        return by_window(name, self.by, columns)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True

    def timed(self, plan: Plan) -> TimeBehaviour:
        """It goes by time, since windows are let go: each by that of the partition that began it."""
        return TimeBehaviour(dropped_move=False, reaches=(), elsewhere=True)


def by_window(name: str, key: object, columns: ColumnTypes, *, visible: bool = True) -> TableSchema:
    """A table by key and window, with rows that expire after their windows' ends."""
    return TableSchema(
        name,
        (("key", key), ("end", NUMBER), ("start", NUMBER), *columns, ("domain", NUMBER)),
        identity=("key", "end", "start"),
        order=("end", "start"),
        retention=Retention("end", "domain"),
        shown=visible,
    )


@dataclass(frozen=True)
class StreamWTableNode(WTableJoinNode):
    """Join of a stream with the window that each of its records names, driven by the stream."""

    stem = "stream_wtable"
    goes_by_moment = (1,)

    @property
    def takes_null_keys(self) -> bool:
        return self.how == "left"

    def reads(self, plan: Plan) -> Reads:
        """Records of the stream name a window each."""
        assert self.window_of is not None, f"{self.name}: no function names windows"
        driving = OperatorSide(
            plan.shape(self, 0).value,
            (CarriedColumn(NAMED, WINDOW, self.window_of),),
            ends=row_ends(null_key=not self.takes_null_keys, null_value=True),
            looked_up=False,
        )
        return Reads(self.by, (driving, super().reads(plan).sides[1]))

    def params(self, plan: Plan) -> WindowJoinParams:
        return WindowJoinParams(self.how, self.generation.value, lives=self.lives, names=True, stored=False)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The windows; records of the stream do not stay."""
        return (self._side(plan, 1, self.lives[1], ()),)


@dataclass(frozen=True)
class TableWTableNode(WTableJoinNode):
    """Join of a table with the window that each of its rows points at, driven by both."""

    stem = "table_wtable"


@dataclass(frozen=True)
class WTableTableNode(WTableJoinNode):
    """Join of a table by key and window with a table by key: all live windows of a key meet its row."""

    stem = "wtable_table"
    # the last result of each key and window is kept where old values are asked for
    keeps_table = True
    fans_out = True


@dataclass(frozen=True)
class WTableWTableNode(WTableJoinNode):
    """Join of two tables by key and window: equal windows meet, or the left one meets the one that is its shift."""

    stem = "wtable_wtable"
    keeps_table = True
    fans_out = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer" and (self.distance or self.window_of is not None):
            raise TopologyError(
                "An outer join with a shift has no key for an unmatched right row.",
                given=f"{self.inputs[0]!r} and {self.inputs[1]!r}",
                hint="Use left_join, or an outer join of equal windows: leave shift= out.",
            )
