"""session_window_aggregate: by sessions (docs/semantics, sections 13 to 15; KIP-94)."""

from __future__ import annotations

from watersmeet._plan.nodes import SessionWindowAggregateNode as Node
from watersmeet._plan.operators.aggregates.window import WindowSpec
from watersmeet._plan.operators.spec import NUMBER, Retention, SpecSite, TableSchema
from watersmeet.windows import SessionWindows


class SessionWindowAggregateSpec(WindowSpec[Node]):
    """See `Spec`."""

    stem = "session_window_aggregate"

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Sessions of a key have an end each; they are looked for by it, and let go by it."""
        node = site.node
        columns = (("key", self.reads(site).key), ("end", NUMBER), ("start", NUMBER), ("value", node.fold.state))
        schema = TableSchema(
            node.store or f"{node.name}.sessions",
            (*columns, ("domain", NUMBER), *(site.headers if node.on_close else ())),
            identity=("key", "end"),
            order=("end",),
            retention=Retention("end", "domain"),
            due=() if node.on_close else None,
        )
        return (schema,)

    def wait(self, site: SpecSite[Node]) -> int:
        """From a session's end on until it is closed; one moment more, since it may still grow in the last one."""
        windows = site.node.windows
        assert isinstance(windows, SessionWindows)
        return windows.gap_ms + windows.grace_ms + 1
