"""stream_wtable, table_wtable, wtable_table, wtable_wtable: joins with tables by key and window (section 20).

Rows lie under their key alone, so that all windows of a key can meet; what tells them apart is key and window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from watersmeet._plan.nodes import StreamWTableNode as StreamNode
from watersmeet._plan.nodes import TableWTableNode as TableNode
from watersmeet._plan.nodes import WTableJoinNode
from watersmeet._plan.nodes import WTableTableNode as WindowsNode
from watersmeet._plan.nodes import WTableWTableNode as ShiftNode
from watersmeet._plan.operators.joins import pairs
from watersmeet._plan.operators.spec import (
    NUMBER,
    STAMP,
    WINDOW,
    CarriedState,
    JoinParams,
    Named,
    Reads,
    ResultColumns,
    Retention,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
    TimeOfSpec,
)

N = TypeVar("N", bound=WTableJoinNode)

POINTER: Named = (("to_start", NUMBER), ("to_end", NUMBER))
"""The window that a stored left row points at, where a function has said which."""
NAMED = "named_window"
"""What a left row carries where a function says which window it points at."""


@dataclass(frozen=True)
class WindowJoinParams(JoinParams):
    """Of a join with windows.

    Parameters
    ----------
    lives : of each side, how long behind its window's end a row joins, in ms; None: its rows have no windows.
    distance : how much earlier than the left window the right one lies, in ms.
    names : whether left rows say which window they point at; else it is the one at the distance.
    stored : whether left rows stay; else they are records of a stream.
    """

    lives: tuple[int | None, int | None] = (None, None)
    distance: int = 0
    names: bool = False
    stored: bool = True


class WindowJoinSpec(Spec[N]):
    """Base of the specs of joins with windows; see `Spec`."""

    keeps_partition = True

    def reads(self, site: SpecSite[N]) -> Reads:
        """Rows by their keys alone; those of a table by key and window bring the window's ends."""
        node = site.node
        named = (
            () if node.window_of is None else (CarriedState(NAMED, WINDOW, node.window_of, of_key=self._of_key(node)),)
        )
        values = (site.input(side).shape.value for side in (0, 1))
        left, right = (
            SpecSide(
                value,
                carried,
                windowed=live is not None,
                looked_up=False,
                silent="dropped",
                drops_late=live is None,
            )
            for value, carried, live in zip(values, (named, ()), node.lives, strict=True)
        )
        return Reads(node.by, (left, right))

    @staticmethod
    def _of_key(node: N) -> bool:
        """Whether the function goes by the window alone: then it speaks of deleted rows, too."""
        return node.lives[0] is not None

    def params(self, site: SpecSite[N]) -> WindowJoinParams:
        node = site.node
        return WindowJoinParams(
            node.how,
            node.generation.value,
            lives=node.lives,
            distance=node.distance,
            names=node.window_of is not None,
        )

    def keeps(self, site: SpecSite[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The rows of both sides, and the last results where old values are asked for."""
        node, (left, right) = site.node, site.node.lives
        pointer = () if node.window_of is None else POINTER
        tables = [self._side(site, 0, left, pointer), self._side(site, 1, right, ())]
        if left is not None and node.name in site.rules.carries_old:
            values = tuple((name, site.input(side).shape.value) for side, name in enumerate(("left", "right")))
            tables.append(by_window(f"{node.name}.results", node.by, values, shown=False))
        return tuple(tables)

    def _side(self, site: SpecSite[N], side: int, live: int | None, more: Named) -> TableSchema:
        name = f"{site.node.name}.{('left', 'right')[side]}"
        columns = (("value", site.input(side).shape.value), STAMP, *more)
        if live is None:
            return TableSchema(name, (("key", site.node.by), *columns))
        return by_window(name, site.node.by, columns)

    def results(self, site: SpecSite[N], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def lookups_see_results(self, site: SpecSite[N]) -> bool:
        """Lookups see what has been sent."""
        return True

    def timed(self, site: SpecSite[N]) -> TimeOfSpec:
        """It goes by time, since windows are let go: each by that of the partition that began it."""
        return TimeOfSpec(dropped_move=False, reaches=False, elsewhere=True)


def by_window(name: str, key: object, columns: Named, *, shown: bool = True) -> TableSchema:
    """A table by key and window, with rows that expire after their windows' ends."""
    return TableSchema(
        name,
        (("key", key), ("end", NUMBER), ("start", NUMBER), *columns, ("domain", NUMBER)),
        identity=("key", "end", "start"),
        order=("end", "start"),
        retention=Retention("end", "domain"),
        shown=shown,
    )


class StreamWTableSpec(WindowJoinSpec[StreamNode]):
    """See `Spec`."""

    stem = "stream_wtable"

    def reads(self, site: SpecSite[StreamNode]) -> Reads:
        """Records of the stream name a window each."""
        node = site.node
        assert node.window_of is not None, f"{node.name}: no function names windows"
        driving = SpecSide(
            site.input(0).shape.value,
            (CarriedState(NAMED, WINDOW, node.window_of),),
            drops_null_key=not node.takes_null_keys,
            drops_null_value=True,
            looked_up=False,
        )
        return Reads(node.by, (driving, super().reads(site).sides[1]))

    def params(self, site: SpecSite[StreamNode]) -> WindowJoinParams:
        node = site.node
        return WindowJoinParams(node.how, node.generation.value, lives=node.lives, names=True, stored=False)

    def keeps(self, site: SpecSite[StreamNode], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The windows; records of the stream do not stay."""
        return (self._side(site, 1, site.node.lives[1], ()),)


class TableWTableSpec(WindowJoinSpec[TableNode]):
    """See `Spec`."""

    stem = "table_wtable"


class WTableTableSpec(WindowJoinSpec[WindowsNode]):
    """See `Spec`."""

    stem = "wtable_table"
    fans_out = True


class WTableWTableSpec(WindowJoinSpec[ShiftNode]):
    """See `Spec`."""

    stem = "wtable_wtable"
    fans_out = True
