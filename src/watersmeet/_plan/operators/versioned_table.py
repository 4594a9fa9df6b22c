"""versioned_table: a table that remembers its past (KIP-889; docs/semantics, section 3, versioned)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.spec import (
    FLAG,
    NUMBER,
    STAMP,
    Params,
    Reads,
    ResultColumns,
    Retention,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)


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


class VersionedTableSpec(Spec[Node]):
    """See `Spec`."""

    stem = "versioned_table"
    keeps_partition = True
    emits_late = True
    drop_reasons = ("expired_version",)

    def side_of(self, node: Node, input: int) -> int:
        """All inputs come in alike."""
        return 0

    def reads(self, site: SpecSite[Node]) -> Reads:
        shape = site.node.shape
        return Reads(shape.key, (SpecSide(shape.value, looked_up=False, silent="dropped", nulls_reach=True),))

    def params(self, site: SpecSite[Node]) -> VersionedParams:
        assert site.node.history_ms is not None, site.node.name
        return VersionedParams(site.node.history_ms)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        node = site.node
        return (versions(node.store or f"{node.name}.versions", node.shape.key, node.shape.value),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(site.node.shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        return True

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """Its time is how far its own changes reach."""
        return TimeOfSpec(dropped_move=False)
