"""A task's wire rows, sorted by label, as what writes sinks from them needs them: shard after shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from millpond._engine.rows import blob
from millpond._spark.dataflow.wire import END


class Shards:
    """The shards that a task gets, one after the other: by number of the sink the rows that each brings.

    Whoever takes a shard has it alone: no row of it is held here.

    Parameters
    ----------
    batches : wire rows.
    sinks : number of the sink whose rows come on each port.

    Attributes
    ----------
    ended : whether the end has come, which stands behind all rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], sinks: Mapping[int, int]) -> None:
        self._batches, self._sinks = batches, sinks
        self.ended = False

    def __iter__(self) -> Iterator[dict[int, list[pa.Table]]]:
        held: dict[int, list[pa.Table]] = {}
        at = -1
        for batch in self._batches:
            labels, ports = (batch.column(name).to_pylist() for name in ("label", "port"))
            for row, (label, port) in enumerate(zip(labels, ports, strict=True)):
                if label != at and held:
                    yield held
                    held = {}
                at = label
                if port == END:
                    self.ended = True
                else:
                    rows = blob.decode(batch.column("blob")[row].as_buffer())
                    held.setdefault(self._sinks[port], []).append(rows)
        if held:
            yield held
