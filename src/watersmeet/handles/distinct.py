"""The first record of each key: `distinct` of streams. Handle layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet._plan.nodes import DistinctNode, MapNode, Shape
from watersmeet.functions import Function, adapt
from watersmeet.handles import factory as made
from watersmeet.handles.handle import Handle
from watersmeet.names import answering
from watersmeet.windows import Duration
from watersmeet.windows.durations import positive_ms

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream


@answering
class Deduplicating(Handle):
    """Duplicates in a stream: part of `KStream`."""

    def distinct(
        self, key: Function | None = None, *, within: Duration | None = None, name: str | None = None
    ) -> KStream:
        """The first record of each key, and again the first one when `within` has passed (KIP-655).

        A record that passes says for how long records of its key are duplicates: for `within`, from the stream time at
        which it comes. Duplicates end here, counted as "duplicate", and prolong nothing. A late record is judged as all
        others are, by the stream time at which it comes. Records without a key pass, as nothing says what they are
        duplicates of. See docs/semantics/distinct.md, which has the differences from KIP-655.

        Parameters
        ----------
        key : what records are told apart by: a Column function of (value) or (key, value); None: their key. Records
            keep the key and the value that they have; null: the record passes.
        within : for how long, in stream time, a duration ("10 minutes"); None: for ever. Then each key is remembered
            for ever, too.
        name : name of the operator.

        Raises
        ------
        TopologyError : `within` is no duration, or not more than 0.

        Examples
        --------
        One order of each customer in half an hour, told apart by a field of theirs:

        >>> first = orders.distinct(lambda order: order["customer"], within="30 minutes")

        And as a table, which has the first order of each customer:

        >>> amounts = orders.map(lambda id, order: (order["customer"], order["amount"]))
        >>> results(amounts.distinct().to_table(store="first-orders"))
        [('ann', 30.0), ('bob', 5.0)]
        """
        kept = _duration_ms(within)
        construction = self._construction
        name = construction.name(name, DistinctNode.stem, self.name)
        if key is None:
            node = self._attach(DistinctNode(name, (self.name,), self._node.shape, within_ms=kept))
            return made.stream(construction, node)
        functions, types = construction.functions, self._types()
        told = adapt(key, ("key", "value"), "key", functions)
        kind = functions.value_type(told, types, "key")
        fields = [pa.field(part, functions.as_arrow(each)) for part, each in zip(("key", "value"), types, strict=True)]
        whole = Shape("stream", kind, functions.of_arrow(pa.struct(fields)))

        def record(key: Any, value: Any) -> tuple[Any, Any]:
            return told(key, value), functions.record(key, {"key": key, "value": value})

        def parts(_: Any, record: Any) -> tuple[Any, Any]:
            return functions.field(record, "key"), functions.field(record, "value")

        by_key = self._attach(MapNode(f"{name}-key", (self.name,), whole, mapper=record))
        node = self._attach(DistinctNode(name, (by_key.name,), whole, within_ms=kept))
        own = MapNode(f"{name}-records", (node.name,), self._node.shape, mapper=parts)
        return made.stream(construction, self._attach(own))


def _duration_ms(within: Duration | None) -> int | None:
    if within is None:
        return None
    hint = "distinct(within='10 minutes'); without within, records are duplicates for ever."
    return positive_ms(within, "within", "time within which records are duplicates", hint)
