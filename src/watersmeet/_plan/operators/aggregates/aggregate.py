"""The common part of the specs of aggregates: the fold among their parameters, the table, the changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from watersmeet._plan.folds import Fold
from watersmeet._plan.nodes import AggregatedNode
from watersmeet._plan.operators.spec import (
    FLAG,
    STAMP,
    Params,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)
from watersmeet._plan.operators.versioned_table import VersionedTableSpec

N = TypeVar("N", bound=AggregatedNode)


@dataclass(frozen=True)
class AggregateParams(Params):
    """Of an aggregate: its fold, and the history retention of its result in ms, where that remembers its past."""

    fold: Fold
    history_ms: int | None = field(default=None, kw_only=True)

    def typed(self, convert: Callable[[Any], Any]) -> AggregateParams:
        return replace(self, fold=self.fold.typed(convert))


def records(site: SpecSite[N]) -> tuple[SpecSide, ...]:
    """A side for each stream that is aggregated: records with key and value, which a count does not ask for."""
    shapes = (site.input(number).shape for number in range(len(site.node.inputs)))
    values = (shape.value if site.node.fold.how.arguments else FLAG for shape in shapes)
    return tuple(SpecSide(value, drops_null_value=True, looked_up=False) for value in values)


class AggregateSpec(Spec[N]):
    """Base of the specs of aggregates; see `Spec`."""

    cacheable = True
    widens = False

    def params(self, site: SpecSite[N]) -> AggregateParams:
        return AggregateParams(site.node.fold, history_ms=site.node.history_ms)

    def keeps(self, site: SpecSite[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The state of each key: the result, or its parts."""
        node = site.node
        columns = (("key", node.shape.key), ("value", node.fold.state), STAMP)
        store = node.store if node.history_ms is None else None
        return (TableSchema(store or f"{node.name}.aggregate", columns),)

    def results(self, site: SpecSite[N], *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(site.node.shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[N]) -> bool:
        return True


class VersionedAggregateSpec(AggregateSpec[N]):
    """Base of aggregates with a history: a record older than that ends, counted."""

    by_key = False
    cacheable = False
    drop_reasons = VersionedTableSpec.drop_reasons

    def timed(self, site: SpecSite[N]) -> TimeOfSpec:
        """Its time is how far what it takes in reaches."""
        return TimeOfSpec(dropped_move=False)
