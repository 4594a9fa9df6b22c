"""A driver that is killed comes back with its tables, and no reader sees a batch before the one that it has seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.serving import served_run
from tests.spark.serving.kit import committed, until

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The program, and its address."""
    (folder / "url").unlink(missing_ok=True)
    program = subprocess.Popen(
        [sys.executable, "-m", served_run.__name__, str(folder)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: (folder / "url").exists() or program.poll() is not None)
        assert program.poll() is None, "it has ended"
        yield (folder / "url").read_text(), program
    finally:
        # its JVM too
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def ready(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=60) as given:
            return given.status, json.loads(given.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_killed_driver_comes_back_with_its_tables_and_batches_never_go_backwards(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs, wanted, seen = served_run.inputs_of(spark, tmp_path), Counter[int](), -1
    for life in range(3):
        with running(tmp_path) as (url, _):
            until(lambda url=url: ready(url)[0] == 200)  # type: ignore[misc]
            with wm.connect(url) as tables:
                counts = tables.table("counts")
                first = counts.to_arrow()
                assert wm.batch_of(first) >= seen
                if life:
                    assert dict(zip(first["key"].to_pylist(), first["value"].to_pylist(), strict=True)) == wanted
                for _ in range(2):
                    keys = [key % 7 for key in range(20 + life)]
                    wanted.update(keys)
                    before = committed(str(tmp_path / "checkpoint"))
                    inputs.put("events", *({"k": key, "v": f"life {life}", "ts": n} for n, key in enumerate(keys)))
                    until(lambda before=before, counts=counts: counts.get(0).batch > before)  # type: ignore[misc]
                    found = counts.to_arrow(at_least=before + 1)
                    assert wm.batch_of(found) > seen
                    seen = wm.batch_of(found)
                    assert dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)) == wanted
                    assert tables.table("last").get(3, at_least=seen).value == f"life {life}"


def test_a_query_that_fails_says_so_and_its_last_batch_is_still_read(spark: SparkSession, tmp_path: Path) -> None:
    inputs = served_run.inputs_of(spark, tmp_path)
    with running(tmp_path) as (url, _), wm.connect(url) as tables:
        until(lambda: ready(url)[0] == 200)
        inputs.put("events", {"k": 1, "v": "a", "ts": 1})
        until(lambda: tables.table("last").get(1).value == "a")
        inputs.put("events", {"k": 1, "v": "fail", "ts": 2})
        until(lambda: ready(url)[0] == 503)
        assert "told to fail" in ready(url)[1]["error"]
        assert tables.table("last").get(1) == wm.ServedRow(0, "a", tables.table("last").get(1).timestamp)


@pytest.mark.parametrize("name", ["counts", "last"])
def test_changes_come_as_server_sent_events_and_go_on_where_a_reader_was(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    inputs = served_run.inputs_of(spark, tmp_path)
    with running(tmp_path) as (url, _), wm.connect(url) as tables:
        until(lambda: ready(url)[0] == 200)
        for number in range(3):
            inputs.put("events", {"k": number, "v": f"v{number}", "ts": number})
            until(lambda number=number: tables.table(name).get(number).batch >= number)  # type: ignore[misc]
        asked = urllib.request.Request(f"{url}/changes?table={name}", headers={"Last-Event-ID": "0"})
        events: list[tuple[str, Any]] = []
        with urllib.request.urlopen(asked, timeout=60) as given:
            kind = ""
            for line in given:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    kind = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    events.append((kind, json.loads(text.removeprefix("data: "))))
                    if events[-1] == ("batch", {"batch": 2}):
                        break
        rows = [(said["batch"], row["key"]) for kind, said in events if kind == "rows" for row in said["rows"]]
        assert rows == [(1, 1), (2, 2)]
        assert [said["batch"] for kind, said in events if kind == "batch"] == [1, 2]
