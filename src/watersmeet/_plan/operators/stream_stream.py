"""stream_stream, stream_match: windowed joins of two streams (docs/semantics, sections 6, 7, 17 and 26)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet._plan.nodes import StreamMatchNode as MatchNode
from watersmeet._plan.nodes import StreamStreamNode as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.joins import pairs
from watersmeet._plan.operators.spec import (
    FLAG,
    NUMBER,
    STAMP,
    JoinParams,
    Reads,
    ResultColumns,
    Retention,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)

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


class StreamStreamSpec(Spec[Node]):
    """See `Spec`."""

    stem = "stream_stream"
    keeps_partition = True
    fans_out = True
    drop_reasons = ("expired_window_record",)

    def reads(self, site: SpecSite[Node]) -> Reads:
        node = site.node
        sides = (
            SpecSide(
                site.input(side).shape.value,
                drops_null_key=not (node.relaxed and node.outer(side)),
                drops_null_value=not node.generation.is_old,
            )
            for side in (0, 1)
        )
        return Reads(node.shape.key, tuple(sides))

    def params(self, site: SpecSite[Node]) -> JoinWindowParams:
        node, windows = site.node, site.node.windows
        window = (windows.before_ms, windows.after_ms, windows.grace_ms)
        return JoinWindowParams(node.how, node.generation.value, window=window)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The rows of each side, of a self-join those of both in one; and which of those that waited were matched.

        Rows are never changed: that a stored row has been matched is a row of its own, under the row's number, which a
        shard gives, and the hash of its key: so it goes where the row goes if the shards become others.
        """
        node = site.node
        both = len(set(node.inputs)) == 1
        sides = ((0, "both"),) if both else ((0, "left"), (1, "right"))
        tables = tuple(_rows(site, side, name, FLAGS if both else FLAGS[: node.outer(side)]) for side, name in sides)
        matched = TableSchema(
            f"{node.name}.matched",
            (("key", NUMBER), ("closes", NUMBER), ("domain", NUMBER)),
            identity=(),
            retention=Retention("closes", "domain"),
            appended=True,
            due=(),
            shown=False,
        )
        return (*tables, matched) if node.waits else tables

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """Unmatched records wait until window and grace have passed."""
        node, windows = site.node, site.node.windows
        hold = max(windows.before_ms, windows.after_ms) + windows.grace_ms
        return TimeOfSpec(hold=hold if node.waits else None)


class StreamMatchSpec(Spec[MatchNode]):
    """See `Spec`."""

    stem = "stream_match"
    keeps_partition = True
    fans_out = True
    drop_reasons = StreamStreamSpec.drop_reasons

    def reads(self, site: SpecSite[MatchNode]) -> Reads:
        left, right = (site.input(side).shape.value for side in (0, 1))
        sides = (
            SpecSide(left, drops_null_key=not site.node.takes_null_keys, drops_null_value=True),
            SpecSide(right, drops_null_value=True),
        )
        return Reads(site.node.shape.key, sides)

    def params(self, site: SpecSite[MatchNode]) -> MatchParams:
        node, windows = site.node, site.node.windows
        window = (windows.before_ms, windows.after_ms, windows.grace_ms)
        return MatchParams(node.how, node.generation.value, window=window, match=node.match)

    def keeps(self, site: SpecSite[MatchNode], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The left records that wait, and the right ones that they may meet."""
        node = site.node
        columns = (("value", site.input(0).shape.value), *site.headers)
        held = held_schema(f"{node.name}.held", node.shape.key, columns, replaced=False)
        return (held, _rows(site, 1, "right", ()))

    def results(self, site: SpecSite[MatchNode], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def timed(self, site: SpecSite[MatchNode]) -> TimeOfSpec:
        """Left records wait until window and grace have passed."""
        return TimeOfSpec(hold=site.node.wait_ms)


def _rows(site: SpecSite[Any], side: int, name: str, waits: tuple[str, ...]) -> TableSchema:
    """The records of a side, in order of (ts, arrival) within a key; `waits`: the flags of those that wait.

    Those that wait have their headers.
    """
    node = site.node
    flags = waits if node.waits else ()
    numbers = (STAMP, ("arrival", NUMBER), ("domain", NUMBER), *((flag, FLAG) for flag in flags))
    return TableSchema(
        f"{node.name}.{name}",
        (("key", node.shape.key), *numbers, ("value", site.input(side).shape.value), *(site.headers if flags else ())),
        identity=(),
        order=("ts", "arrival"),
        retention=Retention("ts", "domain"),
        appended=True,
        due=flags or None,
    )
