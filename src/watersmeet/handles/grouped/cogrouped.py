"""CogroupedKStream: several grouped streams, each with an aggregator of its own, on the way to one table (KIP-150).

Handle layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import StreamAggregateNode
from watersmeet.errors import TopologyError
from watersmeet.handles.grouped.base import Grouped, group_of
from watersmeet.handles.grouped.folding import FoldFunction, Part, cogrouping
from watersmeet.handles.grouped.windowed import (
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
    cogrouped_windows,
)
from watersmeet.handles.side import same_type, type_text
from watersmeet.names import answering
from watersmeet.windows import Duration, Windows

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable


@answering
class CogroupedKStream(Grouped):
    """Grouped streams by one type of key, each with its aggregator: what `KGroupedStream.cogroup` returns."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(parts[0][0])
        self._parts = parts

    def cogroup(self, grouped: Grouped, aggregator: FoldFunction) -> CogroupedKStream:
        """The same with one stream more.

        Parameters
        ----------
        grouped : a grouped stream with the same type of key.
        aggregator : function of (value, aggregate) or (key, value, aggregate) that gives the next aggregate.

        Examples
        --------
        >>> paid = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> both = paid.cogroup(orders.group_by_key(), lambda order, n: n + 10)
        >>> results(both.aggregate(lambda: F.lit(0)))
        [(1, 10), (1, 11), (2, 10), (7, 1), (3, 10)]
        """
        group = None if isinstance(grouped, CogroupedKStream) else group_of(grouped)
        if group is None:
            raise TopologyError(
                f"cogroup takes a grouped stream, and not {grouped!r:.120}.",
                hint="Group it first: cogroup(stream.group_by_key(), lambda value, aggregate: ...).",
            )
        if group.construction is not self._group.construction or not same_type(group.key, self._group.key):
            raise TopologyError(
                f"Streams that are cogrouped belong to one builder and have one type of key: {group.inputs[-1]!r} has "
                f"{type_text(group.key)}, {self._group.inputs[-1]!r} has {type_text(self._group.key)}.",
                hint="Group both by keys of one type: group_by(lambda value: ...).",
            )
        return CogroupedKStream((*self._parts, (group, aggregator)))

    def windowed_by(self, windows: Windows) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """The same by key and window.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> results(counted.windowed_by(hours).aggregate(lambda: F.lit(0)).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return cogrouped_windows(self._parts, windows)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
    ) -> KTable:
        """The records of each key, of all streams in their order, folded by the aggregator of each one's stream.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, total: total + amount)
        >>> results(counted.aggregate(lambda: F.lit(0.0)))
        [(1, 30.0), (7, 8.0)]
        """
        return self._add(StreamAggregateNode, cogrouping(self._parts, initializer), name, "cogroup", store, history)
