"""What the specs of aggregates share: the fold among their parameters, the table they keep, the changes they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from millpond._plan.folds import COUNT, Fold
from millpond._plan.nodes import Aggregated
from millpond._plan.operators.spec import FLAG, STAMP, Params, Results, Side, Site, Spec, TableSchema

N = TypeVar("N", bound=Aggregated)


@dataclass(frozen=True)
class AggregateParams(Params):
    """Of an aggregate: its fold."""

    fold: Fold

    def typed(self, convert: Callable[[Any], Any]) -> AggregateParams:
        """See `Params`."""
        return replace(self, fold=self.fold.typed(convert))


def records(site: Site[N]) -> tuple[Side, ...]:
    """A side for each stream that is aggregated: records with key and value, which a count does not ask for."""
    shapes = (site.input(number).shape for number in range(len(site.node.inputs)))
    values = (FLAG if site.node.fold.how == COUNT else shape.value for shape in shapes)
    return tuple(Side(value, drops_null_value=True, looked_up=False) for value in values)


class AggregateSpec(Spec[N]):
    """What aggregates share; see `Spec`."""

    cacheable = True

    def params(self, site: Site[N]) -> AggregateParams:
        """See `Spec`."""
        return AggregateParams(site.node.fold)

    def keeps(self, site: Site[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """What is kept of each key: the result, or what it is made of."""
        node = site.node
        columns = (("key", node.shape.key), ("value", node.fold.state), STAMP)
        return (TableSchema(node.store or f"{node.name}.aggregate", columns),)

    def results(self, site: Site[N], *, old: bool) -> Results:
        """See `Spec`."""
        kind = site.node.shape.value
        return Results((("value", kind), ("old", kind)) if old else (("value", kind),))

    def seen_when_sent(self, site: Site[N]) -> bool:
        """See `Spec`."""
        return True
