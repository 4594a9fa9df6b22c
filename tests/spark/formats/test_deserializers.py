"""Plain formats decoded in Python: the same as Spark's columns say, in a column apart for each source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from watersmeet._spark import formats as columns
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.decode import Deserializer, Deserializers
from watersmeet.errors import SourceError
from watersmeet.io.formats import Format

# text, and what only looks like it: cut off, overlong, surrogates, beyond the last character, bytes that never are
TEXTS = [b"", b"a", "é€𝄞".encode(), b"\0", b"\xef\xbb\xbfx", b"\xf4\x8f\xbf\xbf", b"\xed\x9f\xbf"]
NO_TEXTS = [b"\xff", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"]
# two halves of a character in two values make no text
SPLIT = [b"\xc3", b"\xa9"]
NUMBERS = [bytes(4), bytes(8), b"\x80\0\0\0", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"123", b"123456789", b""]


def part(root: int, name: str, kind: str, *, fails: bool = False) -> Deserializer:
    return Deserializer(root, name, f"s{root}_{name}", kind, "orders", fails, formats.serde_of(Format(kind)))


def frame(rows: list[tuple[int | None, int, bytes | None, bytes | None]]) -> pa.Table:
    """Rows of (root, ts, key, value), one after the other in partition 3."""
    root, ts, key, value = zip(*rows, strict=True)
    return pa.table(
        {
            "root": pa.array(root, pa.int32()),
            "partition": pa.array([3] * len(rows), pa.int32()),
            "offset": pa.array(range(100, 100 + len(rows)), pa.int64()),
            "ts": pa.array(ts, pa.int64()),
            "raw_key": pa.array(key, pa.binary()),
            "raw_value": pa.array(value, pa.binary()),
        }
    )


@pytest.mark.parametrize("kind", ["string", "int", "long", "bytes"])
def test_python_and_spark_decode_bytes_to_the_same_and_refuse_the_same(spark: SparkSession, kind: str) -> None:
    raws = [*TEXTS, None, *NO_TEXTS, *SPLIT, *NUMBERS, None]
    serde = formats.serde_of(Format(kind))
    found = serde.read(pa.array(raws, pa.binary()))
    rows = spark.createDataFrame(list(enumerate(raws)), "i int, raw binary").repartition(1)
    reason = columns.reason_of(Format(kind), F.col("raw"))
    value = columns.value_of(Format(kind), F.col("raw"), reason)
    wanted = rows.select("i", value.alias("value"), reason.alias("reason")).orderBy("i").collect()
    assert found.values.to_pylist() == [bytes(v) if isinstance(v := row["value"], bytearray) else v for row in wanted]
    assert found.bad.tolist() == [row["reason"] is not None for row in wanted]
    said = [serde.fault(raw) for raw, wrong in zip(raws, found.bad, strict=True) if wrong and raw is not None]
    assert said == [row["reason"] for row in wanted if row["reason"] is not None]


def test_each_source_has_columns_of_its_own_that_are_null_in_the_rows_of_others() -> None:
    parts = (part(0, "key", "long"), part(0, "value", "string"), part(1, "key", "string"), part(1, "value", "bytes"))
    one = (1).to_bytes(8, "big")
    found = Deserializers(parts)(
        frame([(0, 5, one, b"x"), (1, 6, b"k", b"\xff"), (0, 7, None, None), (None, 8, b"", b"")])
    )
    assert found.column("s0_key").to_pylist() == [1, None, None, None]
    assert found.column("s0_value").to_pylist() == ["x", None, None, None]
    assert found.column("s1_key").to_pylist() == [None, "k", None, None]
    assert found.column("s1_value").to_pylist() == [None, b"\xff", None, None]
    assert found.column("reason").to_pylist() == [0, 0, 0, 0]
    assert not {"raw_key", "raw_value"} & set(found.column_names)
    # of a source of which there is none, too
    alone = Deserializers(parts)(frame([(1, 6, b"k", b"v")]))
    assert alone.schema == found.schema
    assert [alone.column(part.name).to_pylist() for part in parts] == [[None], [None], ["k"], [b"v"]]


def test_what_is_skipped_has_a_reason_and_no_value_and_comes_before_a_negative_timestamp() -> None:
    parts = (part(0, "key", "string"), part(0, "value", "int"))
    rows: list[Any] = [(0, -1, b"a", bytes(4)), (0, -1, b"a", b"abc"), (0, 1, b"\xff", bytes(4)), (0, 1, b"a", None)]
    found = Deserializers(parts)(frame(rows))
    assert found.column("reason").to_pylist() == [1, 2, 2, 0]
    assert found.column("s0_key").to_pylist() == ["a", "a", None, "a"]
    assert found.column("s0_value").to_pylist() == [0, None, 0, None]


def test_the_first_record_that_cannot_be_read_fails_the_batch_and_its_value_is_named_before_its_key() -> None:
    deserializers = Deserializers((part(0, "key", "string", fails=True), part(0, "value", "int", fails=True)))
    fine = (0, 1, b"a", bytes(4))
    with pytest.raises(SourceError) as error:
        deserializers(frame([fine, (0, -1, b"\xff", b"abc"), (0, 1, b"\xff", bytes(4))]))
    assert str(error.value).startswith(
        "The value of a Kafka record cannot be decoded.\n"
        "Given: topic orders, partition 3, offset 101, value as int: int takes 4 bytes, there are 3\nHint: "
    )
    with pytest.raises(SourceError, match=r"partition 3, offset 100, key as string: not valid UTF-8\n"):
        deserializers(frame([(0, 1, b"\xff", bytes(4)), (0, 1, b"a", b"abc")]))


def test_large_types_of_the_session_stay_large() -> None:
    raw = pa.array([b"a", b"\xff", None], pa.large_binary())
    texts = formats.serde_of(Format("string")).read(raw).values
    assert (texts.type, texts.to_pylist()) == (pa.large_string(), ["a", None, None])
    assert formats.serde_of(Format("bytes")).read(raw).values.type == pa.large_binary()
    found = formats.serde_of(Format("int")).read(pa.array([bytes(4), b"x", None], pa.large_binary()))
    assert (found.values.to_pylist(), found.bad.tolist()) == ([0, None, None], [False, True, False])
