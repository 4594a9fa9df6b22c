"""The serde of values beside their partitions, and the partitions taken off again before the values are written.

So the partition of a record goes wherever its value's bytes go: through the exchange, to the driver, into a file of
records that are written again. Eight bytes big-endian have it, one more says whether there is a value. Law 6: a
partition that the topic has not is an error, or what the output's policy makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys import keyform
from watersmeet._engine.keys.big_endian import as_bytes, numbers
from watersmeet._worker.formats.serdes import Decoded, Serde
from watersmeet.errors import SinkError

FIELDS = ("value", "partition")
UNPLACED = -(2**63)
"""In place of a partition where the partitioner gives null: the key decides."""
_NUMBER = 8
Rules = Mapping[int, str]
"""Of the sinks with a partitioner, by their numbers: what becomes of a partition that the topic has not."""


@dataclass(frozen=True)
class PlacedSerde:
    """Values beside their partitions; they are only written.

    Parameters
    ----------
    inner : writes the values.
    """

    inner: Serde

    def read(self, raw: pa.Array) -> Decoded:
        """Nothing reads them: no topic has them."""
        raise NotImplementedError

    def fault(self, raw: bytes) -> str:
        """Nothing reads them."""
        raise NotImplementedError

    def write(self, values: pa.Array) -> pa.Array:
        """The partition, whether there is a value, and its bytes."""
        there = values.is_valid()
        # what lies in memory beneath a null is nothing
        value, partition = (
            pc.if_else(there, each, pa.scalar(None, each.type)) for each in keyform.struct_fields(values)
        )
        content = self.inner.write(value).cast(pa.binary())
        present = pc.if_else(content.is_valid(), pa.scalar(b"\x01"), pa.scalar(b"\x00"))
        number = as_bytes(partition.cast(pa.int64()).fill_null(UNPLACED)).cast(pa.binary())
        nothing = pa.scalar(b"", pa.binary())
        return pc.binary_join_element_wise(number, present, content.fill_null(b""), nothing)


def taken_off(records: pa.RecordBatch | pa.Table, rules: Rules) -> tuple[pa.Table, Int64s]:
    """The records with their own values, and the partition that each is given; `UNPLACED`: none.

    Parameters
    ----------
    records : with the numbers of their sinks as `topic`.
    """
    table = pa.table(records) if isinstance(records, pa.RecordBatch) else records
    raw = table.column("value").combine_chunks().cast(pa.binary())
    mine = np.isin(table.column("topic").to_numpy(), list(rules))
    given = pc.if_else(pa.array(mine), raw, None)
    there = pc.equal(pc.binary_slice(given, _NUMBER, _NUMBER + 1), b"\x01")
    # without an end Arrow asks for more memory than a number can say
    longest = max(pc.max(pc.binary_length(given)).as_py() or 0, _NUMBER + 1)
    own = pc.if_else(there, pc.binary_slice(given, _NUMBER + 1, longest), None)
    values = pc.if_else(pa.array(mine), own, raw)
    places = numbers(pc.binary_slice(given, 0, _NUMBER), pa.int64()).fill_null(UNPLACED).to_numpy()
    return table.set_column(table.schema.get_field_index("value"), "value", values), places


def valid_partitions(given: Int64s, topics: Sequence[str], numbers: Int64s, counts: Int64s, rules: Rules) -> Int64s:
    """The partitions that are given, each one that its topic has; `UNPLACED`: none is given.

    Parameters
    ----------
    given : as of `taken_off`.
    topics : the names of the sinks' topics.
    numbers : of each record, the number of its sink.
    counts : of each record, how many partitions its topic has.

    Raises
    ------
    SinkError : one is given that the topic has not, and its output's rule is "fail".
    """
    outside = (given != UNPLACED) & ((given < 0) | (given >= counts))
    rule = np.array([rules.get(number, "") for number in range(len(topics))], dtype=object)[numbers]
    wrong = np.flatnonzero(outside & (rule == "fail"))
    if len(wrong):
        row = int(wrong[0])
        raise SinkError(
            f"The partitioner gives a partition that the topic {topics[numbers[row]]!r} has not: {given[row]}.",
            given=f"it has the partitions 0 to {counts[row] - 1}",
            hint='to(..., on_invalid_partition="modulo") takes the rest of the division by the number of partitions, '
            '"key" goes by the key; a partitioner that gives null leaves it to the key, too.',
        )
    found = np.where(outside & (rule == "key"), UNPLACED, given)
    found[outside & (rule == "modulo")] %= counts[outside & (rule == "modulo")]
    return found
