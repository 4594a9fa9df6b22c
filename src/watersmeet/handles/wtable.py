"""WTable: a table by key and window, which lies where its key lies (docs/semantics/wtable.md).

Handle layer. Windowed aggregates make WTables, and joins of WTables do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Node, SelectKeyNode
from watersmeet.errors import TopologyError
from watersmeet.functions import Function
from watersmeet.handles import factory as made
from watersmeet.handles.factory import made_as
from watersmeet.handles.grouped.tables import KGroupedTable, regrouped
from watersmeet.handles.joins.of_windows import WindowJoins
from watersmeet.handles.outputs import changes_of, keeps_rows, written
from watersmeet.handles.side import Side
from watersmeet.handles.suppress import suppress_node
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.outputs import Output
from watersmeet.names import answering
from watersmeet.windows import Suppressed, Windows

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream

KeyName = Literal["start", "key"]
"""The conversions that need no function: a struct of the key and the window's start, and the key alone."""


@made_as("wtable")
@answering
class WTable(WindowJoins):
    """A changing table with a key and a window in each row: the result of a windowed aggregate.

    Its keys are structs of `key`, `start` and `end`, the ends of the window in ms since 1970. It cannot be written to a
    topic as it is: `to_stream` converts it.
    """

    def __init__(self, construction: Construction, node: Node, windows: Windows, wait_ms: int) -> None:
        """Of a node with keys of these windows. Its rows may change for `wait_ms` after a window's end."""
        super().__init__(construction, node)
        self._windows = windows
        self._wait_ms = wait_ms

    @property
    def _side(self) -> Side:
        return Side(self._construction, self._node, self._windows, self._wait_ms)

    def filter(self, predicate: Function, *, name: str | None = None) -> WTable:
        """The rows for which the predicate holds; a row that stops holding is deleted.

        Parameters
        ----------
        predicate : Column function of (value) or (key, value) that gives a boolean; null counts as false. The key is
            the struct of key, start and end.
        name : name of the operator.

        Examples
        --------
        >>> results(hourly.filter(lambda key, n: key["key"] == "ann").to_stream(key="key"))
        [('ann', 1), ('ann', 1)]
        """
        return self._like(self._filtered(predicate, negate=False, name=name, store=None))

    def filter_not(self, predicate: Function, *, name: str | None = None) -> WTable:
        """The rows for which the predicate does not hold.

        Examples
        --------
        >>> results(hourly.filter_not(lambda n: n > 1).to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return self._like(self._filtered(predicate, negate=True, name=name, store=None))

    def map_values(self, mapper: Function, *, name: str | None = None) -> WTable:
        """Each row with a new value; a null result deletes the row.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value). The key is the struct of key, start and end.
        name : name of the operator.

        Examples
        --------
        >>> results(hourly.map_values(lambda n: n * 100).to_stream(key="key"))
        [('ann', 100), ('bob', 100), ('ann', 100)]
        """
        return self._like(self._mapped_values(mapper, name=name, store=None))

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedTable:
        """The rows by group, as Kafka Streams has it as `KTable<Windowed<K>, V>.groupBy` (docs/semantics, section 12).

        A changed window leaves its group before it comes into one, and so does a session that becomes part of a longer
        one. Rows of an aggregate that emits on close, or after `until_window_closes`, come once for each window.

        Parameters
        ----------
        selector : Column function of (value) or (key, value) that returns a pair of Columns: the group, and what is
            grouped; where one of them is null, the row is in no group. The key is the struct of key, start and end.
        name : name of the operator.

        Example
        -------
        How many users have seen a page in each hour, of views by user and hour:
        `hours.group_by(lambda key, views: (key["start"], views)).count()`.

        Examples
        --------
        >>> results(hourly.group_by(lambda key, n: (key["start"], n)).count())
        [(0, 1), (0, 2), (3600000, 1)]
        """
        return regrouped(self._side, selector, name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> WTable:
        """The table with changes held back, of each key and window the last one sent (KIP-328; section 22).

        Parameters
        ----------
        suppressed : until when: `Suppressed.until_time_limit(...)` or `until_window_closes(...)`.
        name : name of the operator.

        Raises
        ------
        TopologyError : the table has no windows that close.

        Examples
        --------
        >>> final = wm.Suppressed.until_window_closes(wm.BufferConfig.unbounded())
        >>> results(hourly.suppress(final).to_stream(key="key"))
        [('ann', 1), ('bob', 1)]
        """
        node = suppress_node(self._side, suppressed, name)
        return WTable(self._construction, node, self._windows, self._wait_ms + (suppressed.limit_ms or 0))

    def to_stream(self, *, key: KeyName | Function | None = None, name: str | None = None) -> KStream:
        """The changes of the table as a stream; a tombstone becomes a record with a null value.

        Parameters
        ----------
        key : what becomes the key: a function of (key, window) that gives a Column, where the window is a struct of
            `start` and `end`; "start" for a struct of `key` and the window's `start`; "key" for the key alone. Left
            out, it is the struct of `key`, `start` and `end`.
        name : name of the operator.

        Raises
        ------
        TopologyError : no such key.

        Examples
        --------
        >>> results(hourly.to_stream(key=lambda key, window: F.concat(key, F.lit("@"), window["start"])))
        [('ann@0', 1), ('bob@0', 1), ('ann@3600000', 1)]
        """
        construction, node = self._construction, changes_of(self._side, name)
        if key is None:
            return made.stream(construction, node)
        selector = self._selector(key)
        kind = construction.functions.value_type(selector, self._types(), "key selector")
        shape, called = replace(node.shape, key=kind), f"{node.name}-key"
        return made.stream(construction, self._attach(SelectKeyNode(called, (node.name,), shape, selector=selector)))

    def to(self, target: DatabaseTable | CatalogTable | Output, *, name: str | None = None) -> None:
        """Keep the table in one of a database or catalog; the key's columns are those of the key, `start` and `end`.

        Parameters
        ----------
        target : a `DatabaseTable`, a `CatalogTable`, or an `Output` that keeps a row for each key. A topic's name is
            refused: the table lies where its key lies, which no reader of its keys could know; convert it first.
        name : the output's name, to the test driver and in describe(); default the table's there.

        Raises
        ------
        TopologyError : it is neither, or the name is taken.

        Examples
        --------
        >>> kept = wm.DatabaseTable("sqlite:////data/shop.db", table="orders_by_hour", create=True)
        >>> hourly.to(kept)
        """
        given: Any = target
        if not keeps_rows(given):
            raise TopologyError(
                f"A table by key and window cannot be written directly: target={given!r:.120}.",
                hint="Convert it first: wtable.to_stream().to(...) writes structs of key, start and end; "
                'to_stream(key="start") makes structs of key and start, to_stream(key="key") makes plain keys, '
                "and to_stream(key=lambda key, window: ...) calls your own function.",
            )
        written(self._side, given, {}, name)

    def _like(self, node: Node) -> WTable:
        return WTable(self._construction, node, self._windows, self._wait_ms)

    def _selector(self, key: KeyName | Function) -> Function:
        functions = self._construction.functions
        parts = functions.windowed_parts
        if callable(key):
            given = key
            return lambda windowed, _: given(*parts(windowed))
        if key == "key":
            return lambda windowed, _: parts(windowed)[0]
        if key == "start":
            return lambda windowed, _: functions.record(
                windowed, {"key": parts(windowed)[0], "start": functions.field(parts(windowed)[1], "start")}
            )
        raise TopologyError(
            f"Unknown key={key!r:.80} of to_stream.",
            hint='Use "start", "key", or a function: to_stream(key=lambda key, window: ...).',
        )
