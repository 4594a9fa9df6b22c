"""suppress: changes of a table held back, for a time or until windows close (docs/semantics, section 22)."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import SuppressNode as Node
from watersmeet._plan.operators.held import held_schema
from watersmeet._plan.operators.spec import (
    BYTES,
    Params,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)
from watersmeet.windows import BufferConfig, CalendarWindows, SessionWindows, SlidingWindows, TimeWindows


@dataclass(frozen=True)
class SuppressParams(Params):
    """How long changes wait, and in which order they come.

    Parameters
    ----------
    wait : from the time of an entry until it goes, in ms.
    until_close : whether entries have the time of their window's end, and tombstones are dropped.
    suffix : the fields of a windowed key that are serialized behind the key, in order; none of a plain key.
    buffer : how much is held back at most.
    """

    wait: int
    until_close: bool
    suffix: tuple[str, ...]
    buffer: BufferConfig


class SuppressSpec(Spec[Node]):
    """See `Spec`."""

    stem = "suppress"
    mixes_keys = True
    keeps_partition = True
    fans_out = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Changes with their old values."""
        shape = site.node.shape
        return Reads(shape.key, (SpecSide(shape.value, looked_up=False, old="always", silent="dropped"),))

    def params(self, site: SpecSite[Node]) -> SuppressParams:
        node = site.node
        fields = ("end", "start") if isinstance(node.windows, SessionWindows) else ("start",)
        suffix = () if node.windows is None else fields
        return SuppressParams(_wait(node), node.limit_ms is None, suffix, node.buffer)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The changes that are held back, under their serialized keys where these are windows."""
        node = site.node
        values = (("value", node.shape.value), ("old", node.shape.value), *site.headers)
        if node.windows is None:
            return (held_schema(f"{node.name}.held", node.shape.key, values, replaced=True),)
        columns = (("windowed", node.shape.key), *values)
        return (held_schema(f"{node.name}.held", BYTES, columns, replaced=True),)

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        return ResultColumns.of_values(site.node.shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        """Lookups see what has been sent."""
        return True

    def timed(self, site: SpecSite[Node]) -> TimeOfSpec:
        """The last moment in which a change waits is one before the end of its wait."""
        hold = _wait(site.node) + _length(site.node) - 1
        return TimeOfSpec(hold=hold, dropped_move=False, reaches=False)


def _wait(node: Node) -> int:
    """From an entry's time on; sliding windows and sessions may still change in the moment that ends it (row 17)."""
    if node.limit_ms is not None:
        return node.limit_ms
    match node.windows:
        case TimeWindows(grace_ms=grace) | CalendarWindows(grace_ms=grace):
            return grace
        case SlidingWindows(grace_ms=grace):
            return grace + 1
        case SessionWindows(gap_ms=gap, grace_ms=grace):
            return grace + gap + 1
    raise AssertionError(f"{node.name}: no windows that close")


def _length(node: Node) -> int:
    """How far an entry's time may lie behind its timestamp."""
    match node.windows if node.limit_ms is None else None:
        case TimeWindows(size_ms=length) | SlidingWindows(difference_ms=length):
            return length
        case CalendarWindows() as windows:
            return windows.longest_ms
    return 0
