"""Keys and values that an output's format may refuse, written before the last exchange: so a refused row can end there.

Behind it rows are in the tasks that write them, where nothing can be sent elsewhere any more. Only where what is
refused is not to fail the query is anything written here, and then not a second time: bytes travel in place of values.
Law 6: what is refused is counted, or a dead letter; it is never written as something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange.routing import Outlet, RoutedBatch, pack, wanted
from watersmeet._engine.exchange.shards import ShardCounts
from watersmeet._engine.rows.columns import array, bools, without
from watersmeet._engine.rows.halves import failing
from watersmeet._plan.nodes import SinkNode
from watersmeet._plan.physical import Physical
from watersmeet._worker.formats.formats import check_writable, serde_of
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet._worker.wire.wire import encoded_parts
from watersmeet.errors import EncodingError
from watersmeet.io.formats import Format

ENCODED_KEY = "encoded_key"
"""The column that has the bytes of keys: the keys themselves say where rows go, in the exchange and in Kafka."""
_VALUE = "encoded_value"


@dataclass(frozen=True)
class Encoding:
    """The columns of one output that are encoded before the last exchange.

    Parameters
    ----------
    serdes : by part, key or value, what writes it.
    outlives : whether a row that is refused ends, and does not fail the query.
    ships : whether the bytes travel on; False: the values do, as a test driver shows them.
    output : its name, as the user has it.
    """

    serdes: Mapping[str, Serde]
    outlives: bool
    ships: bool
    output: str

    def __call__(self, frame: pa.Table, outlet: Outlet, slots: int, drops: DeadLetterWriter) -> tuple[pa.Table, Outlet]:
        """The rows of the output, those without that are refused, and where they go.

        Raises
        ------
        EncodingError : a row is refused, and is not to outlive it.
        """
        part = frame.select(wanted(frame, outlet, slots))
        part = part.filter(pa.array(bools(frame, outlet.active))) if outlet.active else part
        names, found = {"key": outlet.key, "value": outlet.value}, dict[int, EncodingError]()
        made: dict[str, pa.Array] = {}
        for name, serde in self.serdes.items():
            made[name], refused = _written(serde, array(part, names[name]), outlives=self.outlives)
            # of a row of which neither can be written, the value is complained of
            found |= refused
        if self.ships:
            for name, given in made.items():
                part = part.append_column(ENCODED_KEY if name == "key" else _VALUE, given)
        if found:
            drops.unencodable(outlet, part, found, self.output)
            part = without(part, found)
        return part, self._onward(outlet)

    def _onward(self, outlet: Outlet) -> Outlet:
        if not self.ships:
            return replace(outlet, active=None)
        extras = (*outlet.extras, (ENCODED_KEY, ENCODED_KEY)) if "key" in self.serdes else outlet.extras
        return replace(outlet, active=None, value=_VALUE if "value" in self.serdes else outlet.value, extras=extras)


Encodings = Mapping[int, Encoding]
"""By the port of an output's rows."""


def encodings_of(physical: Physical, sinks: Iterable[SinkNode], *, ships: bool = True) -> Encodings:
    """The columns that are encoded before the last exchange.

    Parameters
    ----------
    sinks : of the plan, with the schemas that were settled.
    ships : whether bytes travel on. Otherwise nothing writes them, and what a format refuses is found here alone.

    Raises
    ------
    TopologyError : a format that cannot write what its output gets.
    """
    parts, found = encoded_parts(physical, failing=not ships), dict[str, Encoding]()
    for sink in sinks:
        if sink.name in parts:
            serdes = {part: _serde(sink, part) for part in parts[sink.name]}
            found[sink.name] = Encoding(serdes, physical.plan.within.outlives(sink.name), ships, sink.output)
    ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
    return {port: found[sink] for port, sink in ports.items() if sink in found}


def _serde(sink: SinkNode, part: str) -> Serde:
    form, kind = Format.of(getattr(sink.target, part)), getattr(sink.shape, part)
    check_writable(form, kind, f"{part}s of the sink {sink.target.name!r}")
    return serde_of(form, kind)


def packed(
    frame: pa.Table,
    outlets: Sequence[Outlet],
    shards: ShardCounts,
    slots: int,
    drops: DeadLetterWriter,
    encodings: Encodings,
) -> Iterator[RoutedBatch]:
    """The frame's rows as routed batches, those of outputs written as far as they are here."""
    if not encodings:
        yield from pack(frame, outlets, shards, slots, drops)
        return
    for outlet in outlets:
        encoding = encodings.get(outlet.port)
        rows, onward = (frame, outlet) if encoding is None else encoding(frame, outlet, slots, drops)
        yield from pack(rows, (onward,), shards, slots, drops)


def _written(serde: Serde, values: pa.Array, *, outlives: bool) -> tuple[pa.Array, dict[int, EncodingError]]:
    """The bytes of values, and why some are refused, which have none."""
    try:
        return serde.write(values), {}
    except EncodingError:
        if not outlives:
            raise
        found = failing(lambda begin, end: serde.write(values.slice(begin, end - begin)), len(values), EncodingError)
        places = np.arange(len(values))
        fine = values.take(pa.array(places, mask=np.isin(places, list(found))))
        return serde.write(fine), found
