"""The joins of a table by key and window: part of `WTable`. Handle layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from watersmeet.functions import Function
from watersmeet.handles.handle import Handle
from watersmeet.handles.joins.join import Join, Shift
from watersmeet.handles.joins.kinds import joined
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.names import answering
from watersmeet.windows import Duration, Previous

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable
    from watersmeet.handles.wtable import WTable


@answering
class WindowJoins(Handle):
    """The joins of a table by key and window with tables, and with others by key and window."""

    @overload
    def join(
        self, other: KTable, joiner: Function, *, keep: Duration | None = None, name: str | None = None
    ) -> WTable: ...

    @overload
    def join(
        self,
        other: WTable,
        joiner: Function,
        *,
        shift: Previous | None = None,
        keep: Duration | None = None,
        name: str | None = None,
    ) -> WTable: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, shift: Function, keep: Duration, name: str | None = None
    ) -> WTable: ...

    def join(
        self,
        other: KTable | WTable,
        joiner: Function,
        *,
        shift: Shift | None = None,
        keep: Duration | None = None,
        name: str | None = None,
    ) -> WTable:
        """Inner join: a row for each key and window that meets one of the other side (section 20).

        Parameters
        ----------
        other : a table with the same type of key: all live windows of a key meet its row. Or a table by key and window:
            equal windows meet, or with `shift` a window of this table and the one that is its shift.
        joiner : Column function of (left, right) or (key, left, right) that makes the value. The key is the struct of
            key, start and end of this table's window.
        shift : `wm.previous(n)`, or a Column function of (window) that gives a struct of the longs `start` and `end`;
            where it gives null, the window meets none.
        keep : how long after its end and grace a window still joins, a duration ("14 days"); default the longer of a
            day and what `previous(n)` looks back, with the window's size. A function as shift needs it said.
        name : name of the operator.

        Raises
        ------
        TopologyError : the windows are not of one definition, or it is not known how long they are wanted.

        Examples
        --------
        >>> shares = hourly.join(discounts, lambda n, percent: n * percent)
        >>> results(shares.to_stream(key="key"))
        [('ann', 20), ('ann', 20)]
        """
        return self._join(other, Join("inner", joiner, name, shift=shift, keep=keep))

    @overload
    def left_join(
        self, other: KTable, joiner: Function, *, keep: Duration | None = None, name: str | None = None
    ) -> WTable: ...

    @overload
    def left_join(
        self,
        other: WTable,
        joiner: Function,
        *,
        shift: Previous | None = None,
        keep: Duration | None = None,
        name: str | None = None,
    ) -> WTable: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, shift: Function, keep: Duration, name: str | None = None
    ) -> WTable: ...

    @parameters_of(join)
    def left_join(
        self,
        other: KTable | WTable,
        joiner: Function,
        *,
        shift: Shift | None = None,
        keep: Duration | None = None,
        name: str | None = None,
    ) -> WTable:
        """As `join`, and what meets none is joined with null.

        Parameters as for `WTable.join`.

        Examples
        --------
        >>> change = lambda now, before: now - F.coalesce(before, F.lit(0))
        >>> results(hourly.left_join(hourly, change, shift=wm.previous(1)).to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 0)]
        """
        return self._join(other, Join("left", joiner, name, shift=shift, keep=keep))

    @parameters_of(join)
    def outer_join(
        self,
        other: WTable,
        joiner: Function,
        *,
        shift: None = None,
        keep: Duration | None = None,
        name: str | None = None,
    ) -> WTable:
        """Outer join of equal windows: a row for each that one of the tables has; one side may be null.

        Parameters
        ----------
        other : a table by key and window.
        shift : none: a right row that meets none would have no window of this table to stand under.

        Other parameters as for `WTable.join`.

        Examples
        --------
        >>> paid = payments.group_by(lambda amount: F.lit("ann")).windowed_by(hours).count()
        >>> both = lambda n, m: F.coalesce(n, F.lit(0)) + F.coalesce(m, F.lit(0))
        >>> results(hourly.outer_join(paid, both).to_stream(key="key"))
        [('ann', 1), ('ann', 2), ('bob', 1), ('ann', 3), ('ann', 1)]
        """
        return self._join(other, Join("outer", joiner, name, shift=shift, keep=keep))

    def _join(self, other: Any, join: Join) -> WTable:
        result: WTable = joined(self._side, other, join)
        return result
