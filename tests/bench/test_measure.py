"""What the benchmark reckons with: rates, the process tree, and data that are the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.measuring.measure import Batch, Sampler, batches_of, rates
from bench.workloads.datasets import Shape, key_of, prepared


def test_the_second_half_begins_after_the_batch_in_which_half_is_read() -> None:
    batches = [Batch(0, 10, 50), Batch(10, 12, 50), Batch(12, 14, 50), Batch(14, 15, 50)]
    found = rates(-5, batches)
    assert (found.records, found.seconds, found.whole) == (200, 20, 10)
    assert (found.half_records, found.second_half) == (100, 100 / 3)


def test_batches_without_records_neither_count_nor_end_a_run() -> None:
    batches = [Batch(0, 10, 100), Batch(10, 12, 100), Batch(12, 99, 0)]
    assert rates(0, batches).seconds == 12
    assert rates(0, batches).second_half == 50


def test_one_batch_has_no_second_half() -> None:
    with pytest.raises(ValueError, match="two batches"):
        rates(0, [Batch(0, 1, 5), Batch(1, 2, 0)])


def test_batches_are_read_from_sparks_progress() -> None:
    progress = {
        "timestamp": "2026-01-01T00:00:01.500Z",
        "durationMs": {"triggerExecution": 250, "addBatch": 200},
        "numInputRows": 7,
    }
    (batch,) = batches_of([progress])
    assert batch.end - batch.begin == pytest.approx(0.25)
    assert batch.begin % 60 == pytest.approx(1.5)
    assert batch.records == 7


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="CPU and memory are read from /proc")
def test_work_of_a_grandchild_is_counted() -> None:
    burn = "x = 0\nfor i in range(3_000_000): x += i\ninput()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    process = subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE)
    with Sampler(process.pid, interval=0.01, parts=True) as sampler:
        while sampler.usage.cpu_seconds < 0.05 or len(sampler.usage.cpu) < 2:
            assert process.poll() is None, "it ended before it was seen"
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    assert os.getpid() not in sampler.usage.cpu
    assert sampler.usage.peak_bytes > 1_000_000
    at, parts = sampler.usage.parts[-1]
    assert sum(parts.values()) == pytest.approx(sampler.usage.cpu_seconds)
    assert parts == sampler.usage.parts_between(0, at)
    assert "driver" in parts
    assert not [name for name in parts if name.startswith("java")]


def test_keys_are_distinct() -> None:
    assert len(np.unique(key_of(np.arange(100_000, dtype=np.uint64)))) == 100_000


def test_the_same_shape_gives_the_same_files(tmp_path: Path) -> None:
    shape = Shape(keys=100, fill=40, updates=2, rows=30)
    folders = [prepared(tmp_path / name, shape) for name in "ab"]
    files = [sorted((folder / "left").glob("*.parquet")) for folder in folders]
    assert [pq.read_metadata(file).num_rows for file in files[0]] == [40, 40, 20, 30, 30]
    for one, other in zip(*files, strict=True):
        assert pq.read_table(one).equals(pq.read_table(other))
    left, right = (pq.read_table(folders[0] / side) for side in ("left", "right"))
    assert set(left["key"][:100].to_pylist()) == set(right["key"][:100].to_pylist())
    assert set(left["key"].to_pylist()) == set(left["key"][:100].to_pylist())
    assert not left["value"].equals(right["value"])
    assert 2 * len(left) == shape.records
    # Spark reads files by their time of modification
    assert sorted(files[0], key=lambda file: file.stat().st_mtime) == files[0]
