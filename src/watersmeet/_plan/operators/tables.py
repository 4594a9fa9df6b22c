"""Tables that are kept for their own sake, distinct and expiry: what their operators read, keep and give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from watersmeet._plan.declaration import (
    FLAG,
    FOLLOWS,
    NUMBER,
    STAMP,
    OperatorDeclaration,
    OperatorNode,
    OperatorSide,
    Params,
    Reads,
    ResultColumns,
    Retention,
    TableSchema,
    TimeBehaviour,
    current_rows,
    held_schema,
    row_ends,
)
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node

# What keeps a table, behind whatever node it is of: its current rows, or its past (KIP-889; docs/semantics/table.md).


@dataclass(frozen=True)
class VersionedParams(Params):
    """The history retention, in ms."""

    history_ms: int


def versions(name: str, key: Any, value: Any) -> TableSchema:
    """The versions of each key, each valid from its timestamp to that of the next one; tombstones are versions, too."""
    return TableSchema(
        name,
        (("key", key), ("value", value), STAMP, ("domain", NUMBER), ("deleted", FLAG)),
        identity=("key", "ts"),
        order=("ts",),
        retention=Retention("ts", "domain", ends="deleted"),
    )


@dataclass(frozen=True)
class Keeper(OperatorDeclaration):
    """Base of both."""

    node: Node

    in_place = True

    def side_of(self, input: int) -> int:
        """All inputs come in alike."""
        return 0

    def results(self, plan: Plan, *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(self.node.shape.value, old=old)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True


@dataclass(frozen=True)
class VersionedTable(Keeper):
    """The past of a table."""

    stem = "versioned_table"
    emits_late = True

    def reads(self, plan: Plan) -> Reads:
        shape = self.node.shape
        return Reads(
            shape.key, (OperatorSide(shape.value, looked_up=False, ends=row_ends(silent=True), nulls_reach=True),)
        )

    def params(self, plan: Plan) -> VersionedParams:
        assert self.node.history_ms is not None, self.node.name
        return VersionedParams(self.node.history_ms)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        node = self.node
        return (versions(node.store or f"{node.name}.versions", node.shape.key, node.shape.value),)

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Its time is how far its own changes reach."""
        return TimeBehaviour(dropped_move=False)

    def retention_ms(self, plan: Plan) -> int | None:
        return self.node.history_ms


@dataclass(frozen=True)
class TableParams(Params):
    """Whether null after null is dropped."""

    suppress: tuple[bool] = field(metadata=FOLLOWS)


@dataclass(frozen=True)
class CurrentTable(Keeper):
    """The current rows of a table."""

    stem = "table"
    by_key = True
    cacheable = True
    recomputable = True
    replaceable = True

    def reads(self, plan: Plan) -> Reads:
        shape = self.node.shape
        return Reads(shape.key, (OperatorSide(shape.value, old="inexact", broadcast=shape.kind == "global"),))

    def params(self, plan: Plan) -> TableParams:
        return TableParams((self.node.name in plan.rules.suppressing,))

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """Of a global table as a lookup in it would have them, which takes them over (`start(evolve=True)`)."""
        node, shape = self.node, self.node.shape
        return (current_rows(plan, node, node.store, node.name, everywhere=shape.kind == "global"),)

    def own_rows(self, plan: Plan) -> tuple[int, ...]:
        return (0,)


def keeper_of(node: Node) -> Keeper:
    """The operator that keeps the table of a node, if none of its own operators does."""
    return CurrentTable(node) if node.history_ms is None else VersionedTable(node)


# distinct: the first record of each key within a while (docs/semantics/distinct.md).

UNTIL = "until"
"""The column with the last moment at which a record of the key is a duplicate; its domain stands beside it."""


@dataclass(frozen=True)
class DistinctParams(Params):
    """How long records of a key are left out behind the first, in ms; None: for ever."""

    within_ms: int | None = field(metadata=FOLLOWS)


@dataclass(frozen=True)
class DistinctNode(OperatorNode):
    """The first record of each key, and again the first one when a while has passed."""

    # how long, in ms of stream time, records of the key are left out behind it; None: for ever
    within_ms: int | None = field(kw_only=True)

    stem = "distinct"
    is_endless = True
    in_place = True

    @property
    def takes_null_keys(self) -> bool:
        return True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("within", "no limit" if self.within_ms is None else f"{self.within_ms} ms"),)

    def reads(self, plan: Plan) -> Reads:
        """All records, those without a key or a value too."""
        shape = plan.shape(self, 0)
        return Reads(
            shape.key, (OperatorSide(shape.value, ends=row_ends(null_key=False, silent=True), looked_up=False),)
        )

    def params(self, plan: Plan) -> DistinctParams:
        return DistinctParams(self.within_ms)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """Of each key until when it is known, let go by its domain's time; or the key alone."""
        name, key = f"{self.name}.seen", ("key", self.shape.key)
        if self.within_ms is None:
            return (TableSchema(name, (key, STAMP), shown=False),)
        columns = (key, (UNTIL, NUMBER), ("domain", NUMBER))
        retention = Retention(UNTIL, "domain")
        return (TableSchema(name, columns, identity=(), order=(UNTIL,), retention=retention, shown=False),)

    def retention_ms(self, plan: Plan) -> int | None:
        return self.within_ms

    def timed(self, plan: Plan) -> TimeBehaviour | None:
        """By stream time, where a key is forgotten in time; nothing is held back."""
        if self.within_ms is None:
            return None
        return TimeBehaviour(hold=None, dropped_move=False, reaches=(), elsewhere=True)


# expiry: rows that last for a while (docs/semantics/expiry.md).


@dataclass(frozen=True)
class ExpiryParams(Params):
    """For how long a row lasts, in ms, and whether from its record's timestamp on."""

    ttl_ms: int = field(metadata=FOLLOWS)
    of_record: bool = field(metadata=FOLLOWS)


@dataclass(frozen=True)
class ExpiryNode(OperatorNode):
    """The records of a stream that will be a table's changes, and a tombstone when a row has lasted for so long."""

    ttl_ms: int = field(kw_only=True)  # for how long a row lasts, in ms of stream time
    # whether from the record's own timestamp on, and not from the stream time at which it comes
    of_record: bool = field(default=False, kw_only=True)

    stem = "expiry"
    in_place = True
    fans_out = True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("ttl", f"{self.ttl_ms} ms"), ("since", "record" if self.of_record else "update"))

    def reads(self, plan: Plan) -> Reads:
        shape = plan.shape(self, 0)
        return Reads(shape.key, (OperatorSide(shape.value, looked_up=False, ends=row_ends(silent=True)),))

    def params(self, plan: Plan) -> ExpiryParams:
        return ExpiryParams(self.ttl_ms, self.of_record)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """Of each key that has a row until when it lasts, as a row that waits for that moment."""
        return (held_schema(f"{self.name}.due", self.shape.key, (), replaced=True),)

    def retention_ms(self, plan: Plan) -> int | None:
        return self.ttl_ms

    def timed(self, plan: Plan) -> TimeBehaviour:
        """A tombstone has the moment at which it comes, so nothing is held back."""
        return TimeBehaviour(hold=0, dropped_move=False, reaches=())
