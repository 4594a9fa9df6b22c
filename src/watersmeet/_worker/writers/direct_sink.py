"""Writing to Kafka straight from wire rows: blobs become records in the one function that writes them.

Where all sinks are topics with formats that the workers write, no expression of Spark's is needed behind the last
exchange; the rows of the last level need not even be Spark's. A task's rows come sorted by label, so each sink's shard
is put into its order and written before the next is read, and the ends (`wire`) stand behind all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from watersmeet._engine.keys.big_endian import as_bytes
from watersmeet._engine.rows.columns import HELD_KEY, array, position_columns, stacked
from watersmeet._engine.rows.position import parts_by_position
from watersmeet._engine.rows.types import HEADERS
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SinkNode
from watersmeet._worker.formats.formats import format_for, is_primitive, serde_of, written_by_workers
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.formats.windowed import WindowedSerde
from watersmeet._worker.process import give_back, settle
from watersmeet._worker.wire.encoding import ENCODED_KEY
from watersmeet._worker.wire.ends import LAST
from watersmeet._worker.wire.wire import Exits
from watersmeet._worker.writers.kafka_sink import RECORD_BYTES, KafkaWrite, record_bytes
from watersmeet._worker.writers.shards import Shards
from watersmeet.errors import EncodingError
from watersmeet.io.formats import Format, FormatName

_KEPT = frozenset(("key", ENCODED_KEY, "value", "ts", "headers", "topic", "prefix"))


def can_write_directly(plan: Plan, sinks: Iterable[SinkNode]) -> bool:
    """Whether all sinks are topics with keys and values that need no expression of Spark's."""
    return all(
        sink.target.topic is not None
        and sink.name not in plan.combined
        and _is_written_so(sink.target.key, sink.shape.key)
        and _is_written_so(sink.target.value, sink.shape.value)
        for sink in sinks
    )


def _is_written_so(given: Format | FormatName | None, kind: DataType) -> bool:
    # a format that does not fit the type is somebody else's to refuse
    return written_by_workers(_format(given, kind), kind)


def _format(given: Format | FormatName | None, kind: DataType) -> Format:
    return format_for(kind) if given is None else Format.of(given)


def serdes_of(sink: SinkNode, encoded: Collection[str] = ()) -> dict[str, Serde]:
    """Of key and value what is written by a serde: all that is no text, bytes or integer.

    Parameters
    ----------
    encoded : key or value, where their bytes come already; the keys themselves come, too.
    """
    parts = {"key": (sink.target.key, sink.shape.key), "value": (sink.target.value, sink.shape.value)}
    forms = {name: (_format(given, kind), kind) for name, (given, kind) in parts.items()}
    written = {name: each for name, each in forms.items() if name != "value" or name not in encoded}
    return {name: serde_of(form, kind) for name, (form, kind) in written.items() if not is_primitive(form)}


@dataclass(frozen=True)
class WriteDirectly:
    """mapInArrow function: writes what a task's wire rows bring to the sinks, and says how much.

    Parameters
    ----------
    write : writes records, told apart by the number of their sink.
    exits : how sinks are told apart here.
    serdes : of each sink, see `serdes_of`.
    """

    write: KafkaWrite
    exits: Exits
    serdes: tuple[Mapping[str, Serde], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield one row."""
        settle()
        yield from self.write(self._records(batches))
        give_back()

    def _records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records of each sink in order; behind them, if the task had all its rows, the row that marks this."""
        shards = Shards(batches, self.exits.ports)
        for shard in shards:
            yield from self._sorted(shard)
        if shards.ended:
            yield pa.RecordBatch.from_pydict({"topic": pa.array([LAST], pa.int32())})

    def _sorted(self, shard: dict[int, list[pa.Table]]) -> Iterator[pa.RecordBatch]:
        """Records of one sink, or of all sinks of one topic."""
        alone, position = len(shard) == 1, position_columns(self.exits.slots)
        first = next(iter(shard))
        serdes = self.serdes[first] if alone else {}
        # nobody else holds the rows, so that what is no longer needed of them goes
        held = [stacked([self._numbered(stacked(shard.pop(sink)), sink, alone=alone) for sink in sorted(shard)])]
        # whoever gets few rows of several tasks puts them in order once more; a JSON text may be shorter than its value
        size = len(held[0]) * RECORD_BYTES if serdes else record_bytes(held[0])
        kept = _KEPT.union(position, (HELD_KEY,)) if size <= self.write.limit else _KEPT
        for part in parts_by_position(held.pop(), position, kept):
            columns = {name: array(part, name) for name in part.column_names}
            if self.exits.dead_letters and "headers" not in columns:
                # dead letters have some, and a task's records may be put together
                columns["headers"] = pa.nulls(len(part), HEADERS)
            written = {name: self._bytes(columns, name, serdes, first) for name in ("key", "value")}
            columns.pop(ENCODED_KEY, None)
            yield pa.RecordBatch.from_pydict(columns | written)

    def _numbered(self, rows: pa.Table, sink: int, *, alone: bool) -> pa.Table:
        """Rows with the number of their sink; beside other sinks' their keys and values, of whatever type, as bytes."""
        if any("key" in parts and isinstance(parts["key"], WindowedSerde) for parts in self.serdes):
            rows = rows.append_column("prefix", _prefix(array(rows, "key"), self.serdes[sink].get("key")))
        if not alone:
            columns = {name: array(rows, name) for name in ("key", ENCODED_KEY, "value") if name in rows.column_names}
            rows = rows.drop_columns(list(columns))
            for name in ("key", "value"):
                rows = rows.append_column(name, self._bytes(columns, name, self.serdes[sink], sink).cast(pa.binary()))
        return rows.append_column("topic", pa.array(np.full(len(rows), sink, dtype=np.int32)))

    def _bytes(self, columns: Mapping[str, pa.Array], name: str, serdes: Mapping[str, Serde], sink: int) -> pa.Array:
        if name == "key" and ENCODED_KEY in columns:
            return columns[ENCODED_KEY]
        try:
            return serdes[name].write(columns[name]) if name in serdes else as_bytes(columns[name])
        except EncodingError as error:
            given = f"{error.given}, {name} of a record for the topic {self.write.topics[sink]}"
            raise EncodingError(error.message, given=given, hint=error.hint) from None


def _prefix(keys: pa.Array, serde: Serde | None) -> pa.Array:
    """The value that places a record, instead of its key: of a windowed key the inner key (`kafka_sink`)."""
    return serde.inner_keys(keys) if isinstance(serde, WindowedSerde) else pa.nulls(len(keys), pa.binary())
