"""JSON that the workers write is what Spark writes, byte for byte, for each type that JSON can be read as."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampNTZType, TimestampType

from tests.spark.formats.test_json import WIDE, Texts
from watersmeet._spark.formats import encode_json
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json import decode, encoded

SHORTEST_SINCE = 19
"""The first Java that writes a number with the fewest digits."""
LEAVES = {
    "dates": "date'0001-01-01', date'9999-12-31', date'-0001-02-03', date'+10000-01-01', date'0000-01-01', "
    "date'2020-02-29', null, date'+200000-05-06'",
    "timestamps": "timestamp_micros(1577836800123456), timestamp_micros(0), timestamp_micros(-1), null, "
    "timestamp_micros(253402300800000000), timestamp_micros(-62198755200000001), timestamp_micros(5253402300800000000)",
    "timestamps without a zone": "timestamp_ntz'2020-01-01 00:00:00.000001', timestamp_ntz'0001-01-01 00:00:00', null, "
    "timestamp_ntz'-0044-03-15 00:00:01', timestamp_ntz'+12345-01-01 23:59:59.5'",
    "texts": "'ä\"5', '\\\\', '/', '𝄞', '\\u2028\\u007f\\u0085', '', null, '\\\\n\\n\"'",
    "decimals": "cast(0 as decimal(38,10)), cast(1e-10 as decimal(38,10)), cast(-123.45 as decimal(38,10)), null",
    "large decimals": "cast(-1e30 as decimal(38,0)), cast(0 as decimal(38,0)), null",
    "bytes": "cast('' as binary), cast('ab' as binary), null, unhex('FFEF00')",
    "numbers": "0.0D, -0.0D, 4.9E-324D, 1E7D, 9999999.999D, 1E-3D, 9.99E-4D, -1E-5D, 123456789.125D, 1E15D, "
    "double('NaN'), double('Infinity'), double('-Infinity'), null",
    "short numbers": "0.1F, -0.0F, float('1.4E-45'), 1E7F, 1E-3F, 9.99E-4F, float('NaN'), float('-Infinity'), null",
    "arrays": "array(1, null), array(), null, array(cast(null as int))",
    "arrays of arrays": "array(array('a', null), null, array()), array(), null",
    "maps": "map('k\"', array(1.5D, null), 'l', null), map(), null",
    "structs": "named_struct('a', 1, 'b\"ö', map('k', named_struct('x', 1Y, 'y', true)), 'c', cast(null as string)), "
    "null, named_struct('a', cast(null as int), 'b\"ö', null, 'c', 'd')",
    "structs without fields": "struct(), null",
}


def both(frame: DataFrame) -> tuple[list[bytes | None], list[bytes | None]]:
    """What Spark and the workers write of the column `v`."""
    kind = frame.schema["v"].dataType
    rows = frame.select("v", encode_json(F.col("v")).alias("raw")).toArrow().combine_chunks()
    values = rows["v"].chunk(0)
    whole = encoded(values, kind)
    assert whole.type == pa.binary()
    # a part of a column is that part of the whole
    assert encoded(values[1:], kind).equals(whole[1:])
    return rows["raw"].to_pylist(), whole.to_pylist()


@pytest.mark.parametrize("values", LEAVES.values(), ids=LEAVES)
def test_each_type_is_written_as_spark_writes_it(spark: SparkSession, values: str) -> None:
    theirs, ours = both(spark.sql(f"select explode(array({values})) v"))
    assert ours == theirs


def test_each_character_is_escaped_as_spark_does(spark: SparkSession) -> None:
    characters = [chr(code) for code in range(0x180)]
    theirs, ours = both(spark.createDataFrame(pa.table({"v": [*characters, "".join(characters)]})))
    assert ours == theirs


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_random_values_are_written_as_spark_writes_them(spark: SparkSession, zone: str) -> None:
    kind = StructType.fromDDL(WIDE)
    made = Texts(seed=11)
    column, flaws = decode(kind, pa.array([text for text in (made.of(kind) for _ in range(1_000)) if text != "null"]))
    assert not flaws
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs, ours = both(spark.createDataFrame(pa.table({"v": column}), StructType([StructField("v", kind)])))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    # of some large numbers an old Java has another text
    other = [pair for pair in zip(theirs, ours, strict=True) if len(set(pair)) > 1]
    assert [pair for pair in other if read(kind, pair[0]) != read(kind, pair[1])] == []
    assert len(other) < len(ours) // 2
    assert read(kind, *ours) == [str(value) for value in column.to_pylist()]


def read(kind: StructType, *raws: bytes | None) -> list[object]:
    values, flaws = decode(kind, pa.array([raw and raw.decode() for raw in raws], pa.string()))
    assert not flaws
    return [str(value) for value in values.to_pylist()]


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_numbers_have_javas_text(spark: SparkSession, width: type) -> None:
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 20_000 * width().itemsize // 4, dtype=np.uint32).view(width)
    money = np.round(random.uniform(-1, 1, 5_000) * 10.0 ** random.integers(0, 8, 5_000), 2).astype(width)
    numbers = np.concatenate([bits, money, money * 1000, -money / 1e6]).astype(width)
    theirs, ours = both(spark.createDataFrame(pa.table({"v": numbers})))
    version = str(spark.sparkContext._jvm.System.getProperty("java.specification.version"))  # type: ignore[union-attr]
    if int(version.split(".")[-1]) >= SHORTEST_SINCE:
        assert ours == theirs
    different = [(one, two) for one, two in zip(theirs, ours, strict=True) if one != two and one and two]
    assert len(different) < len(ours) // 5
    for one, two in different:
        assert len(two) <= len(one)
        assert width(two) == width(one)
        # only where digits run out
        assert not 1e-3 <= abs(float(one)) < 1e7


@pytest.mark.parametrize("kind", [TimestampType(), TimestampNTZType(), DateType()], ids=DataType.simpleString)
def test_times_of_any_year_are_read_back_as_they_were_written(kind: DataType) -> None:
    whole, target = (pa.int32() if isinstance(kind, DateType) else pa.int64()), arrow_type(kind)
    ends = np.iinfo(whole.to_pandas_dtype())
    scale = 1 if isinstance(kind, DateType) else 86_400_000_000
    # the last of a year with four digits, the first beyond, before and behind year 0, and the ends of the type
    days = [0, 2_932_896, 2_932_897, 3_670_687, -719_162, -719_163, -719_529, -735_160, 95_026_601, -106_751_991]
    counts = [*(day * scale for day in days), ends.min, ends.max, *(day * scale - 1 for day in days)]
    values = pa.StructArray.from_arrays([pa.array(counts, whole).view(target)], ["x"])
    row = StructType([StructField("x", kind)])
    back, flaws = decode(row, encoded(values, row).cast(pa.string()))
    assert (back.field(0).view(whole).to_pylist(), flaws) == (counts, {})


@pytest.mark.parametrize(
    "text", ["-0000-01-01", "+9999-01-01", "12020-01-01", "+12020-02-30", "-00043-01-01", "+99999999-01-01"]
)
def test_a_year_that_iso_8601_does_not_write_so_is_refused(text: str) -> None:
    assert decode(DateType(), pa.array([f'"{text}"']))[1] == {0: "a date is a string of ISO 8601"}
