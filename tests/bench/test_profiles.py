"""Where CPU is said to go: stacks, threads and processes are put under the right name, and nothing is counted twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from bench.measuring import profiles
from bench.measuring.measure import Usage
from bench.measuring.profiles import JAVA, PYTHON, THREADS, part_of
from bench.measuring.sampled_daemon import named
from watersmeet._engine.state import cache
from watersmeet._worker.formats import json
from watersmeet._worker.writers import kafka

ROOT = Path(__file__).resolve().parents[2]
SENT, READ = "state: sent to and from the state server", "Spark's worker: rows and Arrow"


def test_the_innermost_frame_that_is_known_decides() -> None:
    frames = ["sun.nio.ch.Util.x() line: 1", "org.apache.kafka.Fetcher.poll() line: 2", "x.ArrowInput.write() line: 3"]
    assert part_of(frames, JAVA) == "Kafka source"
    assert part_of(frames[2:], JAVA) == "rows to Arrow to Python"
    assert part_of(frames[:1], JAVA) == "other"


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (["_engine/row_sizes.py:encode", "_engine/state/runs.py:_store_run"], "state: new runs and merges"),
        (["_engine/row_sizes.py:encode", "_worker/pack.py:Pack._rows"], "pack"),
        (["_worker/formats/json.py:read", "_worker/pack.py:Pack._rows"], "JSON: read"),
        (
            ["_worker/formats/json.py:_json_encode_floats", "_worker/writers/kafka.py:WriteTopics._sorted"],
            "JSON: written",
        ),
        (["pyarrow/compute.py:add", "_engine/expressions/evaluate.py:run", "level.py:run"], "functions in the level"),
        (["_engine/state/lookups.py:joined", "_engine/state/runs.py:Table.point"], "state: lookups"),
        (["pyspark/serializers.py:dumps", "_worker/spark_worker.py:SparkChunkStore.put_chunk"], SENT),
        (
            [
                "sql/conversion.py:flatten_struct",
                "_worker/pack.py:_gather",
                "_worker/pack.py:Pack.__call__",
            ],
            READ,
        ),
        (
            [
                "pyarrow/compute.py:take",
                "_engine/operators/tables.py:run",
                "_engine/operators/__init__.py:run_operator",
            ],
            "level: operators",
        ),
    ],
)
def test_a_worker_s_stack_has_its_part(stack: list[str], part: str) -> None:
    assert part_of(stack, PYTHON) == part


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (json.decode, "JSON: read"),
        (json.encoded, "JSON: written"),
        (kafka.send, "produce"),
        (cache.own_folder, "state: the machine's cache"),
    ],
    ids=["read", "write", "produce", "cache"],
)
def test_a_function_is_found_by_where_its_file_lies(function: Callable[..., object], part: str) -> None:
    assert part_of([named(function.__code__)], PYTHON) == part


def test_every_thread_has_a_part() -> None:
    assert part_of(["C2 CompilerThre"], THREADS) == "JVM: compiler (C1, C2)"
    assert part_of(["never heard of"], THREADS) == "JVM: other"


def test_parts_add_up_to_what_was_used_between_two_times() -> None:
    looks = [(0.0, {"driver": 1.0}), (10.0, {"driver": 3.0, "java/GC Thread": 2.0}), (20.0, {"driver": 99.0})]
    assert profiles.parts(Usage(parts=looks), 5.0, 15.0) == {"Python: driver": 2.0, "JVM: garbage collector": 2.0}


def test_an_event_behind_midnight_is_within_a_turn_that_began_before() -> None:
    begin = datetime(2026, 1, 1, 23, 59, 50).timestamp()
    events = {shown: [f"  startTime = {shown}\n"] for shown in ("23:59:49.000", "23:59:55.500", "00:00:05.000")}
    inside = [shown for shown, event in events.items() if profiles.began_between(event, begin, begin + 20)]
    assert inside == ["23:59:55.500", "00:00:05.000"]


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="the system has no timer of CPU time")
def test_samples_show_what_uses_cpu_and_not_what_waits(tmp_path: Path) -> None:
    program = """
import os, sys
from bench.measuring.sampled_daemon import Samples
def burn():
    return sum(i * i for i in range(6_000_000))
def wait():
    sys.stdin.read()
Samples(sys.argv[1])
wait(); burn()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, input="x", text=True, check=True)
    (file,) = tmp_path.iterdir()
    samples = [line.split(" ", 3) for line in file.read_text().splitlines()]
    burnt = sum(float(own) for _, own, _, stack in samples if ":burn" in stack)
    assert burnt > 0.1
    assert not [stack for _, _, _, stack in samples if ":wait" in stack]
