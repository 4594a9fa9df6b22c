"""A record that ends Spark's Python worker: the task that decodes it next finds it, and all others are read."""

from __future__ import annotations

import os
import signal
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from watersmeet._worker.formats.decode import Decode, Deserializer, Deserializers
from watersmeet._worker.formats.serdes import Decoded

COLUMNS = "root int, partition int, offset long, ts long, raw_value binary"


def test_the_task_that_follows_a_dead_one_leaves_out_the_record_that_ended_it(spark: SparkSession) -> None:
    # of a function, so that it goes to the workers by value
    @dataclass(frozen=True)
    class Deadly:
        def read(self, raw: pa.Array) -> Decoded:
            if b"kill" in raw.to_pylist():
                os.kill(os.getpid(), signal.SIGSEGV)
            return Decoded(raw, np.zeros(len(raw), dtype=np.bool_))

        def fault(self, raw: bytes) -> str:
            return ""

        def write(self, values: pa.Array) -> pa.Array:
            return values

    part = Deserializer(0, "value", "value", "deadly", f"orders-{uuid.uuid4()}", False, Deadly())
    kept = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("reason", pa.int8())])
    decode = Decode(Deserializers((part,)), kept)
    rows = [(0, 3, n, 0, b"kill" if n in (4, 9) else b"%d" % n) for n in range(12)]

    def decoded() -> list[tuple[int, bytes | None, int]]:
        frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
        found = frame.mapInArrow(decode, "offset long, value binary, reason byte").collect()
        return [(row.offset, row.value and bytes(row.value), row.reason) for row in found]

    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
        decoded()
    assert decoded() == [(n, None, 2) if n in (4, 9) else (n, b"%d" % n, 0) for n in range(12)]
