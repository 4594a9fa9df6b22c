"""stream_versioned_table, stream_table_grace: join of a stream with a versioned table (docs/semantics, section 8).

The join remembers the table's past itself, under the stream's key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from watersmeet._plan.nodes import StreamTableGraceNode as GraceNode
from watersmeet._plan.nodes import StreamVersionedTableNode as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.joins import pairs, side_names
from watersmeet._plan.operators.spec import (
    JoinParams,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)
from watersmeet._plan.operators.versioned_table import VersionedTableSpec, versions

N = TypeVar("N", bound=Node)
TABLE = 1


@dataclass(frozen=True)
class AsOfParams(JoinParams):
    """Of a join with a versioned table: its history retention, and how long records are held back, in ms."""

    history_ms: int = 0
    grace_ms: int = 0


class AsOfJoinSpec(Spec[N]):
    """Base of both specs; see `Spec`."""

    keeps_partition = True
    drop_reasons = VersionedTableSpec.drop_reasons

    def reads(self, site: SpecSite[N]) -> Reads:
        node, (stream, table) = site.node, (site.input(side).shape.value for side in (0, 1))
        driving = SpecSide(
            stream, drops_null_key=not node.takes_null_keys, drops_null_value=True, looked_up=False, silent="any"
        )
        return Reads(node.shape.key, (driving, SpecSide(table, silent="any", nulls_reach=True)))

    def meets(self, site: SpecSite[N]) -> bool:
        return site.plan.meet_in_step(*site.node.inputs)

    def params(self, site: SpecSite[N]) -> AsOfParams:
        node = site.node
        return AsOfParams(node.how, node.generation.value, history_ms=node.table_history_ms)

    def keeps(self, site: SpecSite[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The versions of the table's rows."""
        (name,) = side_names(site, (TABLE,))
        return (versions(name, site.node.shape.key, site.input(TABLE).shape.value),)

    def results(self, site: SpecSite[N], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def timed(self, site: SpecSite[N]) -> TimeOfSpec:
        """The table's time is how far its changes reach."""
        return TimeOfSpec(dropped_move=False, reaches=(TABLE,))


class StreamVersionedTableSpec(AsOfJoinSpec[Node]):
    """See `Spec`."""

    stem = "stream_versioned_table"


class StreamTableGraceSpec(AsOfJoinSpec[GraceNode]):
    """See `Spec`."""

    stem = "stream_table_grace"
    fans_out = True

    def params(self, site: SpecSite[GraceNode]) -> AsOfParams:
        node = site.node
        return AsOfParams(node.how, node.generation.value, history_ms=node.table_history_ms, grace_ms=node.grace_ms)

    def keeps(self, site: SpecSite[GraceNode], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The versions of the table's rows, and the records that are held back."""
        node = site.node
        columns = (("value", site.input(0).shape.value), *site.headers)
        return (*super().keeps(site, taken), held_schema(f"{node.name}.held", node.shape.key, columns, replaced=False))

    def timed(self, site: SpecSite[GraceNode]) -> TimeOfSpec:
        """The last moment in which a record waits is one before the end of the grace.

        It gets every time: a record that it lets go sees the table's changes before the record that moves time.
        """
        return TimeOfSpec(hold=site.node.grace_ms - 1, dropped_move=False, reaches=(TABLE,))
