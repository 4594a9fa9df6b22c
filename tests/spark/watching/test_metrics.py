"""What `query.metrics()` and the log say of a query: exact against what was sent and what was written."""

from __future__ import annotations

import ast
import logging
import os
import pty
import re
import socket
import sys
import termios
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.texts import as_text, log_line, metric_lines
from watersmeet._spark.query.start import StartOptions
from watersmeet.errors import ConfigError


def send(spark: SparkSession, folder: Path) -> None:
    put(spark, folder / "left", *((n, f"a{n}", n) for n in range(50)), (None, "no key", 60))
    put(spark, folder / "left", *((n, None if n % 3 else f"b{n}", 100 + n) for n in range(0, 50, 2)), (9, "late", 40))
    put(spark, folder / "right", *((n, f"c{n}", 50 + n) for n in range(25, 75)))
    put(spark, folder / "right", *((n, None, 200 - n) for n in range(25, 70, 3)), (1, "before 1970", -5))


def topology(spark: SparkSession, folder: Path, *sinks: Any) -> wm.Topology:
    """Tables whose outer join is written, and of its results those of small keys."""
    b = wm.StreamsBuilder("watched")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    left = b.table(reader(spark, folder / "left"), name="left", **options)
    right = b.table(reader(spark, folder / "right"), name="right", **options)
    joined = left.outer_join(right, lambda a, c: F.coalesce(a, c), name="both")
    for number, sink in enumerate(sinks):
        chosen = joined if number == 0 else joined.filter(lambda key, value: key < 30)
        chosen.to(sink, name=f"out{number}")
    return b.build()


def check_numbers(now: Metrics, written: dict[str, int]) -> None:
    assert (now.active, now.batches) == (True, 2)
    assert now.consumed == {"left": 77, "right": 66}
    assert now.drops == {("left", "null_key"): 1, ("right", "negative_timestamp"): 1}
    assert now.produced == written
    operator = now.operators["both"]
    assert (operator.processed, operator.forwarded) == (77 + 66 - 2, written["out0"])
    # every row that is alive, since states as small as these are merged at once
    assert {name: table.rows for name, table in now.tables.items()} == {"both.left": 34, "both.right": 35}
    assert all(table.bytes > table.rows * 16 for table in now.tables.values())
    assert now.stream_time_ms == {"left": 148, "right": 175}
    assert now.record_lateness_max_ms == {"left": 148 - 40, "right": 175 - 133}
    assert now.stream_time_lag_ms["left"] == now.at_ms - 148
    assert now.state_bytes > 0
    assert now.batch is not None
    assert (now.batch.number, now.batch.consumed) == (1, {"left": 26, "right": 16})
    assert 0 < now.batch.seconds["addBatch"] <= now.batch.seconds["triggerExecution"]


def scrape(port: int | None) -> dict[str, dict[tuple[str, ...], float]]:
    """Each metric's values by its labels, but for the application's name, as Prometheus reads them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("application") == "watched"
            found.setdefault(sample.name, {})[tuple(labels.values())] = sample.value
    return found


def check_scraped(scraped: dict[str, dict[tuple[str, ...], float]], now: Metrics) -> None:
    assert now.batch is not None
    assert scraped["watersmeet_records_consumed_total"] == {("left",): 77, ("right",): 66}
    assert scraped["watersmeet_records_produced_total"] == {(sink,): count for sink, count in now.produced.items()}
    assert scraped["watersmeet_process_total"] == {("both",): now.operators["both"].processed}
    assert scraped["watersmeet_forward_total"] == {("both",): now.operators["both"].forwarded}
    assert scraped["watersmeet_dropped_records_total"] == now.drops
    assert scraped["watersmeet_table_rows"] == {("both.left",): 34, ("both.right",): 35}
    assert scraped["watersmeet_stream_time_seconds"] == {("left",): 0.148, ("right",): 0.175}
    assert scraped["watersmeet_record_lateness_max_seconds"] == {("left",): 0.108, ("right",): 0.042}
    assert scraped["watersmeet_batch_duration_seconds"][("addBatch",)] == now.batch.seconds["addBatch"]
    assert scraped["watersmeet_process_rate"] == {(): now.batch.rate}
    assert (scraped["watersmeet_query_active"], scraped["watersmeet_batches_total"]) == ({(): 1}, {(): 2})


@contextmanager
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Standard error is a terminal; gives the lines that were written there, those that were drawn over too."""
    held, given = pty.openpty()
    termios.tcsetwinsize(given, (24, 100))
    with monkeypatch.context() as patched, os.fdopen(given, "w") as terminal:
        patched.setattr(sys, "stderr", terminal)
        seen: list[bytes] = []
        reading = threading.Thread(target=lambda: seen.extend(read_all(held)), daemon=True)
        reading.start()
        yield lambda: [line.strip() for line in re.split(r"[\r\n]+", b"".join(seen).decode()) if line.strip()]
    reading.join()


def read_all(terminal: int) -> Iterator[bytes]:
    # behind the last byte of a closed terminal there is an error
    with suppress(OSError):
        while True:
            yield os.read(terminal, 4096)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "watersmeet.batches"]


def check_lines(lines: list[str], now: Metrics) -> None:
    assert [each.partition(";")[0] for each in lines] == [
        "batch 0: 101 in (left 51, right 50)",
        "batch 1: 42 in (left 26, right 16)",
    ]
    assert "; 1 dropped (left null_key 1); " in lines[0]
    assert re.search(r"; tables 69 rows, 0\.0 MB; largest worker \d+ MB$", lines[1])
    assert log_line(replace(now, held={"closing": 5})).endswith(
        f"; 5 held back; largest worker {now.worker_bytes / 1e6:.0f} MB"
    )
    counts = now.operators["both"]
    told = as_text(metric_lines(replace(now, held={"both": 5}, lag={"left": {0: 3}})))
    assert f"operator both: {counts.processed} in, {counts.forwarded} out; 5 held" in told
    assert "lag of left: 3 in partition 0" in told
    assert any(each.startswith("table both.left: 34 rows, ") for each in told)


def test_the_numbers_of_a_query_are_those_of_what_was_sent_and_written(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(spark, tmp_path)
    caplog.set_level(logging.INFO, "watersmeet.batches")
    outputs = [tmp_path / f"out{n}" for n in range(2)]
    made = topology(spark, tmp_path, *(wm.Writer("parquet", path=str(path)) for path in outputs))
    given: dict[str, Any] = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "cache")}
    with at_a_terminal(monkeypatch) as shown:
        query = made.start(spark, **given, metrics_port="127.0.0.1:0", progress=True)
        try:
            query.processAllAvailable()
            now = query.metrics()
            scraped = scrape(query.metrics_port)
            with pytest.raises(ConfigError, match="Address already in use") as taken:
                made.start(spark, checkpoint=str(tmp_path / "cp2"), metrics_port=f"127.0.0.1:{query.metrics_port}")
        finally:
            query.stop()
    assert "Hint: Give each query a port of its own" in str(taken.value)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", query.metrics_port)):
        pass
    check_scraped(scraped, now)
    assert shown()[-1].startswith("watched: 143 records [")
    assert shown()[-1].endswith(", 2 batches, 2 dropped]")
    written = {path.name: spark.read.parquet(str(path)).count() for path in outputs}
    assert written["out0"] > written["out1"] > 0
    check_numbers(now, written)
    assert now.drops == query.drops
    assert not query.metrics().active
    check_lines(said(caplog), now)


def test_rows_of_a_function_and_of_a_writer_of_sparks_are_counted_with_and_without_the_log(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send(spark, tmp_path)
    sink = Collector(fail_in=1)
    given: dict[str, Any] = {"checkpoint": str(tmp_path / "cp"), "available_now": True, "local_cache": None}
    made = topology(spark, tmp_path, wm.ForeachBatch(sink))
    with pytest.raises(Exception, match="killed behind the sink"):
        made.start(spark, **given).awaitTermination()
    caplog.set_level(logging.INFO, "watersmeet.batches")
    again = made.start(spark, **given)
    again.awaitTermination()
    now = again.metrics()
    # its own batch alone, which the first start has not finished
    assert (now.batches, now.consumed, now.drops) == (1, {"left": 26, "right": 16}, again.drops)
    assert now.produced == {"out0": len(sink.batches[1][-1])}
    caplog.set_level(logging.WARNING, "watersmeet.batches")
    given["checkpoint"] = str(tmp_path / "cp2")
    plain = topology(spark, tmp_path, wm.Writer("memory", path="watched")).start(spark, **given)
    plain.awaitTermination()
    assert plain.metrics().produced == {"out0": spark.table("watched").count()}
    given["checkpoint"] = str(tmp_path / "cp3")
    unwatched = Collector()
    quiet = topology(spark, tmp_path, wm.ForeachBatch(unwatched)).start(spark, **given)
    quiet.awaitTermination()
    assert quiet.metrics().produced == {"out0": sum(len(tries[-1]) for tries in unwatched.batches.values())}
    (told,) = [each for each in said(caplog) if each.startswith("batch 1")]
    assert f"; {now.produced['out0']} out; " in told


def test_records_that_every_shard_gets_count_once_and_rows_held_back_are_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "names", (0, "zero", 0), (1, "one", 0), (2, "two", 0), (2, "zwei", 1))
    put(spark, tmp_path / "left", *((n, "v", n * 10_000) for n in range(10)), (3, "v", 70_000), (None, "v", 70_000))
    b = wm.StreamsBuilder("held")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    stream = b.stream(reader(spark, tmp_path / "left"), name="left", **options)
    names = b.global_table(reader(spark, tmp_path / "names"), name="names", **options)
    named = stream.join(names, F.concat, key=lambda key, value: key, name="named")
    minutes = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("1 minute", "0 seconds"))
    closed = minutes.count(name="counts").suppress(
        wm.Suppressed.until_window_closes(wm.BufferConfig.unbounded()), name="closing"
    )
    named.to(wm.Writer("parquet", path=str(tmp_path / "named")), name="all")
    closed.to_stream().to(wm.Writer("parquet", path=str(tmp_path / "closed")), name="minutes")
    query = b.build().start(spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache", available_now=True)
    query.awaitTermination()
    now = query.metrics()
    assert now.consumed == {"left": 12, "names": 4}
    assert now.produced == {"all": 3, "minutes": 6}
    # keys 6 to 9 and 3 of the second minute
    assert now.held == {"closing": 5}
    flows = {name: (operator.processed, operator.forwarded) for name, operator in now.operators.items()}
    assert flows == {"named": (11 + 4, 3), "counts": (11, 11), "closing": (11, 6)}
    assert {name: table.rows for name, table in now.tables.items()} == {
        "named.replica": 3,
        "counts.windows": 11,
        "closing.held": 5,
    }


@pytest.mark.parametrize("given", [-1, 65_536, True, "9400x", "localhost", "127.0.0.1:"])
def test_a_port_that_is_none_is_refused_with_ports_that_are_some(given: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"metrics_port={given!r}")) as refused:
        StartOptions(metrics_port=given)
    hinted = re.findall(r"metrics_port=(\d+|\"[^\"]*\")", refused.value.hint or "")
    found = [StartOptions(metrics_port=ast.literal_eval(each)).metrics_address for each in hinted]
    assert found == [("0.0.0.0", 9400), ("127.0.0.1", 9400)]
    assert StartOptions(metrics_port="[::1]:0").metrics_address == ("::1", 0)
