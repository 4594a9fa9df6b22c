"""The joins of a stream: part of `KStream`. Handle layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from watersmeet.functions import Function
from watersmeet.generation import Generation
from watersmeet.handles.handle import Handle
from watersmeet.handles.joins.join import Join
from watersmeet.handles.joins.kinds import joined
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.names import answering
from watersmeet.windows import Duration, JoinWindows

if TYPE_CHECKING:
    from watersmeet.handles.global_ktable import GlobalKTable
    from watersmeet.handles.kstream import KStream
    from watersmeet.handles.ktable import KTable
    from watersmeet.handles.wtable import WTable

Matched = Literal["all", "first", "nearest"]
"""Which records of another stream a record is joined with."""


@answering
class StreamJoins(Handle):
    """The joins of a stream with streams, tables, global tables, and tables by key and window."""

    @overload
    def join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows,
        *,
        match: Matched = "all",
        generation: str | Generation | None = None,
        name: str | None = None,
    ) -> KStream: ...

    @overload
    def join(
        self, other: KTable, joiner: Function, *, grace: Duration | None = None, name: str | None = None
    ) -> KStream: ...

    @overload
    def join(self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None) -> KStream: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, name: str | None = None
    ) -> KStream: ...

    def join(
        self,
        other: KStream | KTable | GlobalKTable | WTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        *,
        match: Matched = "all",
        key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        generation: str | Generation | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record with the table's value of its key, or with each record of another stream in the window.

        Parameters
        ----------
        other : a table or a stream with the same type of key, a global table, or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value; with a global
            table also of (key, mapped key, left, right).
        windows : of two streams, how far apart their timestamps may be.
        match : of two streams, which records of the other one a record is joined with: "all" in its window; the "first"
            of them by timestamp, or the "nearest", of equally near ones the earlier. Then each record has at most one
            result, which comes once its window and the grace have passed (docs/semantics/stream_match.md).
        key : for a global table, Column function of (value) or (key, value) that gives the key to look up;
            where it gives null nothing is found.
        window_of : for a table by key and window, Column function of (value) or (key, value) that returns the window to
            look up, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window is still found, a duration ("2 days").
        generation : of two streams, the releases of Kafka Streams to reproduce: "current", "spurious" (0.10.2 to 3.0,
            and the deprecated `JoinWindows.of`), "old" (0.10.1), "old-0.10.0".
        grace : with a versioned table, how long a record is held back, in time of the stream, so that changes of the
            table that come late are still seen (KIP-923); the table's history must be as long.
        name : name of the operator.

        Raises
        ------
        TopologyError : an option does not belong to a join with `other`, or is left out; or the two sides have
            different types of key.

        Examples
        --------
        >>> within = wm.JoinWindows.of_time_difference_and_grace("10 minutes", "0 ms")
        >>> results(orders.join(payments, lambda order, paid: order["amount"] - paid, within))
        [(1, 0.0)]
        """
        options: dict[str, Any] = {"windows": windows, "generation": generation, "grace": grace}
        options |= {"match": None if match == "all" else match}
        options |= {"key": key, "window_of": window_of, "keep": keep}
        return self._join(other, Join("inner", joiner, name, **options))

    @overload
    def left_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows,
        *,
        match: Matched = "all",
        generation: str | Generation | None = None,
        name: str | None = None,
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: KTable, joiner: Function, *, grace: Duration | None = None, name: str | None = None
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, name: str | None = None
    ) -> KStream: ...

    @parameters_of(join)
    def left_join(
        self,
        other: KStream | KTable | GlobalKTable | WTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        *,
        match: Matched = "all",
        key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        generation: str | Generation | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `join`, and each record that meets none joined with null (one without a key, too: KIP-962).

        Of two streams, that result comes once the window and its grace have passed.

        Parameters as for `KStream.join`.

        Examples
        --------
        >>> by_name = orders.select_key(lambda order: order["customer"])
        >>> results(by_name.left_join(discounts, lambda order, percent: F.coalesce(percent, F.lit(0))))
        [('ann', 20), ('bob', 0), ('ann', 20)]
        """
        options: dict[str, Any] = {"windows": windows, "generation": generation, "grace": grace}
        options |= {"match": None if match == "all" else match}
        options |= {"key": key, "window_of": window_of, "keep": keep}
        return self._join(other, Join("left", joiner, name, **options))

    @parameters_of(join)
    def outer_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows,
        *,
        generation: str | Generation | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `left_join` of two streams, for unmatched records of both.

        Parameters
        ----------
        other : a stream with the same type of key.
        joiner : Column function of (left, right) or (key, left, right) that makes the value; one side may be null.

        Other parameters as for `KStream.join`.

        Examples
        --------
        >>> within = wm.JoinWindows.of_time_difference_and_grace("10 minutes", "0 ms")
        >>> results(orders.outer_join(payments, lambda order, paid: F.coalesce(paid, F.lit(0.0)), within))
        [(1, 30.0), (2, 0.0), (7, 8.0)]
        """
        return self._join(other, Join("outer", joiner, name, windows=windows, generation=generation))

    def _join(self, other: Any, join: Join) -> KStream:
        result: KStream = joined(self._side, other, join)
        return result
