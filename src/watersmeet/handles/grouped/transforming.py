"""A processor over the changes of a table, with a table as its result: `KTable.transform_values`.

Handle layer. The changes are a stream to it, and what it gives are the changes of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from watersmeet.handles import factory as made
from watersmeet.handles.grouped.processing import SIGNATURES, declared, processed, tried_out
from watersmeet.handles.grouped.reading import TablesRead, read_by
from watersmeet.handles.outputs import changes_of
from watersmeet.handles.side import Side
from watersmeet.processors import StoreDeclaration

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable

_METHODS = {"transform": ("record", "context"), **{k: v for k, v in SIGNATURES.items() if k != "process"}}


class Transforming:
    """A transformer as a processor, which sends what it gives."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._made = make()

    def init(self, context: Any) -> None:
        """Begin."""
        self._called("init", context)

    def process(self, record: Any, context: Any) -> None:
        """One change."""
        context.forward(value=self._made.transform(record, context))

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of stream time."""
        self._made.on_timer(key, timestamp, context)

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of the wall clock."""
        self._made.on_wall_timer(key, timestamp, context)

    def close(self) -> None:
        """End."""
        self._called("close")

    def _called(self, method: str, *given: Any) -> None:
        called = getattr(self._made, method, None)
        if called is not None:
            called(*given)


def transformed(
    table: Side,
    transformer: Callable[[], Any],
    *,
    value: Any,
    stores: Sequence[StoreDeclaration],
    tables: TablesRead,
    name: str | None,
    store: str | None,
) -> KTable:
    """See `KTable.transform_values`."""
    construction, within = table.construction, tried_out(transformer, _METHODS)
    changes, kind = changes_of(table, None), construction.functions.named_type(value)
    above, types, kept = (changes.name, table.key_type), ((None, kind), kind), declared(construction, stores)
    make = lambda: Transforming(transformer)  # noqa: E731
    node = processed(construction, above, make, types, kept, name, read=read_by(table, tables), within=within)
    return made.stream(construction, node).to_table(store=store)
