"""What packing hands to Spark: as few Arrow batches as memory allows, and nothing encoded twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import Move, Outlet, RoutedBatch
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.tree import Call, Literal, Operand
from watersmeet._engine.rows import parts_by_position, position_columns, stacked
from watersmeet._worker.counts import Measures
from watersmeet._worker.formats.decode import Deserializer, Deserializers
from watersmeet._worker.formats.serdes import JsonSerde, TextSerde
from watersmeet._worker.pack import WIRE_ROWS, Pack, PackedStage, wire_batches, wire_rows
from watersmeet._worker.wire import END, Exits, Labels, WireSettings, sparks_hash
from watersmeet._worker.writers import rows as shards
from watersmeet._worker.writers.rows import UnpackExits

ROWS = pa.table({"n": [1, 2, 3]})
LABELS = Labels(shards=4, targets=2)


def test_what_every_shard_is_told_is_encoded_once() -> None:
    rows = list(wire_rows([RoutedBatch(1, shard, 7, ROWS) for shard in range(4)], LABELS))
    assert [label for label, *_ in rows] == [LABELS.label(1, shard) for shard in range(4)]
    assert len({id(content) for _, _, content in rows}) == 1


def test_routed_batches_keep_their_own_rows_whatever_came_before() -> None:
    other = pa.table({"n": [4]})
    routed_batches = [RoutedBatch(0, shard, 0, rows) for shard, rows in enumerate([ROWS, ROWS, other, ROWS])]
    contents = [row_sizes.decode(content or b"") for _, _, content in wire_rows(routed_batches, LABELS)]
    assert contents == [ROWS, ROWS, other, ROWS]


def test_a_large_routed_batch_is_sent_in_pieces_to_every_shard() -> None:
    rows = pa.table({"n": pa.array(range(300_000))})
    sent = list(wire_rows([RoutedBatch(0, shard, 0, rows) for shard in range(2)], LABELS))
    assert len(sent) > 2
    for shard in range(2):
        mine = [row_sizes.decode(content) for label, _, content in sent if label == LABELS.label(0, shard)]
        assert pa.concat_tables(mine).combine_chunks() == rows


def test_small_blobs_travel_together_and_large_ones_alone() -> None:
    small, large = b"x" * 100, b"y" * row_sizes.PIECE_BYTES
    batches = list(wire_batches((n, 0, small) for n in range(2 * WIRE_ROWS + 1)))
    assert [len(batch) for batch in batches] == [WIRE_ROWS, WIRE_ROWS, 1]
    assert pa.Table.from_batches(batches)["label"].to_pylist() == list(range(2 * WIRE_ROWS + 1))
    batches = list(wire_batches((n, 0, large) for n in range(3)))
    assert [len(batch) for batch in batches] == [1, 1, 1]


def test_nothing_is_no_batch() -> None:
    assert list(wire_batches([])) == []


def test_functions_are_evaluated_on_what_packing_has_decoded_and_on_nothing_else() -> None:
    value = Operand("s0_value", pa.struct([("a", pa.int32())]))
    field = Call("GetStructField", (value,), pa.int32(), options=(("ordinal", "0"),))
    fine = Call("EqualTo", (Operand("reason", pa.int8()), Literal(pa.scalar(0, pa.int8()))), pa.bool_())
    # of the record that cannot be read there is no value to divide by
    ratio = Call("IntegralDivide", (Literal(pa.scalar(7)), Call("Cast", (field,), pa.int64())), pa.int64())
    held = Call("EqualTo", (ratio, Literal(pa.scalar(7))), pa.bool_())
    kept = Call("Coalesce", (Call("CaseWhen", (fine, held), pa.bool_()), Literal(pa.scalar(False))), pa.bool_())
    parts = (
        Deserializer(0, "key", "s0_key", "string", "t", False, TextSerde()),
        Deserializer(0, "value", "s0_value", "json", "t", False, JsonSerde(StructType().add("a", IntegerType()))),
    )
    pack = Pack(
        stage=PackedStage(
            outlets=(Outlet("out", 5, 0, "s0_key", "s0_value", active="f1_active", moves=(Move(0, 1),)),),
            slots=1,
            roots={0: "t"},
        ),
        common=WireSettings(Labels(1, 1), Measures({}, frozenset())),
        sources=True,
        program=Program(((("f1_active", kept),),), "t"),
        deserializers=Deserializers(parts),
    )
    values = [b'{"a":1}', b'{"a":2}', b'{"a":"0"}', b'{"a":1}']
    records = {"root": [0] * 4, "ts": [1] * 4, "partition": [0] * 4, "offset": [0, 1, 2, 3]}
    batch = pa.RecordBatch.from_pydict({**records, "raw_key": [b"k"] * 4, "raw_value": values})
    rows = pa.Table.from_batches(pack(iter([batch]))).to_pylist()
    (packed,) = [row_sizes.decode(row["blob"]) for row in rows]
    assert packed.column("offset").to_pylist() == [0, 3]
    assert packed.column("value").to_pylist() == [{"a": 1}] * 2


def left(values: list[object], offsets: list[int]) -> bytes:
    zeros = [0] * len(offsets)
    return row_sizes.encode(
        pa.table({"order_ts": zeros, "srcpart": zeros, "offset": offsets, "p0": zeros, "key": zeros, "value": values})
    )


def test_rows_of_an_output_leave_in_order_and_numbered_and_those_of_others_are_left_out() -> None:
    schema = pa.schema([("key", pa.int64()), ("value", pa.string()), ("sequence", pa.int64())])
    unpack_exits = UnpackExits(schema, Exits(Labels(1, 2), ("one", "two"), {5: 0, 6: 1}, 1), 0, 7)
    texts, numbers = left(["a", "c", "d"], [1, 3, 4]), left([7, None], [5, 2])
    rows = unpack_exits(wire_batches([(1, 6, numbers), (1, 5, left(["b"], [2])), (1, 5, texts)]))
    found = pa.Table.from_batches(rows).to_pydict()
    assert found["value"] == ["a", "b", "c", "d"]
    assert found["key"] == [0] * 4
    assert found["sequence"] == [(7 << 32) + row for row in range(4)]


@pytest.mark.parametrize("rows", [0, 12, 4_096], ids=["none together", "some together", "all together"])
def test_shards_that_are_put_into_order_together_leave_as_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(shards, "TOGETHER_ROWS", rows)
    rng, labels = np.random.default_rng(4), Labels(20, 1)
    exits = Exits(labels, ("one", "two"), {5: 0, 6: 1}, 1)
    given, expected = [], []
    for label in range(20):
        # every fourth has rows of both sinks
        ports = (5, 6) if label % 4 == 0 else (5,)
        offsets = rng.permutation(5 * len(ports)).tolist()
        parts = {port: offsets[5 * number : 5 * number + 5] for number, port in enumerate(ports)}
        given += [(label, port, left([label] * 5, offsets)) for port, offsets in parts.items()]
        expected += [(label, offset) for offset in sorted(offsets)]
    taken = shards.Shards(wire_batches([*given, (20, END, b"")]), {**exits.ports})
    groups = list(taken)
    assert taken.ended
    assert len(groups) == {0: 20, 12: 15, 4_096: 10}[rows]
    found = []
    for group in groups:
        whole = stacked([table for tables in group.values() for table in tables])
        for part in parts_by_position(whole, position_columns(1), {"value", "offset"}):
            found += zip(part.column("value").to_pylist(), part.column("offset").to_pylist(), strict=True)
    assert found == expected


def test_labels_are_spread_by_the_hash_that_spark_partitions_by(spark: SparkSession) -> None:
    numbers = np.array([0, 1, 41, 42, 1_000, -1, 2**31 - 1, -(2**31), *range(5_000, 5_100)], dtype=np.int32)
    rows = spark.createDataFrame([(int(n),) for n in numbers], "label int")
    assert sparks_hash(numbers).tolist() == [row[0] for row in rows.select(F.hash("label")).collect()]
