"""stream_table: join of a stream with a table, driven by the stream (docs/semantics, section 8)."""

from __future__ import annotations

from typing import ClassVar

from watersmeet._plan.nodes import StreamTableNode as Node
from watersmeet._plan.operators.joins import KeyJoinSpec
from watersmeet._plan.operators.spec import Reads, SpecSide, SpecSite


class StreamTableSpec(KeyJoinSpec[Node]):
    """See `Spec`."""

    stem = "stream_table"
    kept_sides = (1,)
    borrowed_side: ClassVar[int | None] = 1

    def reads(self, site: SpecSite[Node]) -> Reads:
        node, (stream, table) = site.node, (site.input(side).shape.value for side in (0, 1))
        driving = SpecSide(
            stream,
            drops_null_key=not node.takes_null_keys,
            drops_null_value=not node.generation.is_old,
            looked_up=False,
            silent="any",
        )
        return Reads(node.shape.key, (driving, SpecSide(table, silent="any")))
