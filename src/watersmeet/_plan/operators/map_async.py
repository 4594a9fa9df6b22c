"""map_async: values that a coroutine function gives (docs/functions.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet._plan.nodes import MapAsyncNode as Node
from watersmeet._plan.nodes.map_async import AsyncMap
from watersmeet._plan.operators.spec import FOLLOWS, Params, Reads, ResultColumns, Spec, SpecSide, SpecSite


@dataclass(frozen=True)
class MapAsyncParams(Params):
    """How the function is called, and the type of what it gives; state depends on neither."""

    how: AsyncMap = field(metadata=FOLLOWS)
    result: Any = field(metadata=FOLLOWS)

    def typed(self, convert: Callable[[Any], Any]) -> MapAsyncParams:
        return replace(self, result=convert(self.result))


class MapAsyncSpec(Spec[Node]):
    """See `Spec`. It is an operator, and no step of a stage, so that each record is asked for once in a batch."""

    stem = "map_async"
    mixes_keys = True
    keeps_partition = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """All records, those without a key or a value too."""
        shape = site.input(0).shape
        return Reads(shape.key, (SpecSide(shape.value, drops_null_key=False, looked_up=False, silent="dropped"),))

    def params(self, site: SpecSite[Node]) -> MapAsyncParams:
        return MapAsyncParams(site.node.how, site.node.shape.value)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns((("value", site.node.shape.value),))
