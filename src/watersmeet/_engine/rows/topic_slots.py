"""Topics of a pattern in positions: the number of a topic stands beside that of its partition.

A topology does not know which topics its pattern matches; a checkpoint numbers them in the order in which they join
(`_spark/checkpoint/pattern_topics.py`). In a position (law 2) the partition of such a record is the number of its
topic and that of its partition, so records of two topics never have one position, and a mark tells it from others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows.columns import PARTITION_BITS, array, ints
from watersmeet.errors import SourceError

TOPIC = "topic"
"""The column of a source stage that has the topics' names, where an input has a pattern."""
MOST_PARTITIONS = 1 << 16
"""Of one topic of a pattern."""
MOST_TOPICS = 1 << 15
"""That one pattern may match, in the life of a checkpoint."""
_OF_PATTERN = 1 << (PARTITION_BITS - 1)
Topics = Mapping[int, Sequence[str]]
"""By the number of a source its topics, in the order of their numbers."""
TOPICS: ContextVar[Topics] = ContextVar("watersmeet.topics", default={})  # noqa: B039  nobody changes it
"""Those that are known to this task."""


def numbered(topic: int, partition: int = 0) -> int:
    """The partition of a position, for a topic of a pattern by its number."""
    return _OF_PATTERN | topic * MOST_PARTITIONS | partition


def with_topics(frame: pa.Table, sources: Sequence[int]) -> pa.Table:
    """A source stage's frame with the partitions of positions; `sources`: numbers of those with a pattern.

    Raises
    ------
    SourceError : a topic has no number.
    """
    if not sources:
        return frame
    root, partition, names = ints(frame, "root"), np.array(ints(frame, "partition")), array(frame, TOPIC)
    for source in sources:
        mine = np.flatnonzero(root == source)
        if len(mine):
            partition[mine] = _numbers(names.take(pa.array(mine)), source) | partition[mine]
    at = frame.schema.get_field_index("partition")
    return frame.set_column(at, "partition", pa.array(partition)).drop_columns([TOPIC])


def _numbers(names: pa.Array, source: int) -> Int64s:
    known = pa.array(TOPICS.get().get(source, ()), pa.string())
    found = pc.index_in(names.cast(pa.string()), value_set=known)
    if found.null_count:
        raise SourceError(
            "A batch has a record of a topic that was not numbered before the batch.",
            given=f"topic {names.filter(found.is_null())[0].as_py()}",
            hint="Start the query again. If that does not help, this is a fault of watersmeet's: please report it.",
        )
    numbers: Int64s = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers * MOST_PARTITIONS | _OF_PATTERN


def record_place(frame: pa.Table, row: int) -> str:
    """The topic, if an input has a pattern, the partition and the offset of a row's record, as an error says them."""
    if "srcpart" in frame.column_names:
        topic, partition = place_of(frame.column("srcpart")[row].as_py())
    else:
        topic = frame.column(TOPIC)[row].as_py() if TOPIC in frame.column_names else None
        partition = place_of(frame.column("partition")[row].as_py())[1]
    said = "" if topic is None else f"topic {topic}, "
    return f"{said}partition {partition}, offset {frame.column('offset')[row].as_py()}"


def place_of(srcpart: int) -> tuple[str | None, int]:
    """The topic, if a pattern has it, and the partition of a position's column `srcpart`."""
    partition = srcpart & ((1 << PARTITION_BITS) - 1)
    if not partition & _OF_PATTERN:
        return None, partition
    topics, number = TOPICS.get().get(srcpart >> PARTITION_BITS, ()), (partition ^ _OF_PATTERN) // MOST_PARTITIONS
    return topics[number] if number < len(topics) else None, partition % MOST_PARTITIONS
