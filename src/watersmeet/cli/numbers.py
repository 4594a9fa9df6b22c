"""Output of the commands `metrics` and `drops`: the numbers in a checkpoint, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet._spark.checkpoint.checkpoint import started_in
from watersmeet._spark.checkpoint.files import Folder, on_this_machine
from watersmeet._spark.metrics.lifetime_totals import read
from watersmeet._spark.metrics.log_line import at
from watersmeet._spark.metrics.metrics import BatchMetrics, Metrics
from watersmeet.cli.checkpoints import check_started
from watersmeet.session import session

Drops = Mapping[tuple[str, str], int]


def numbers(checkpoint: str, master: str | None) -> tuple[Metrics | None, dict[str, Any]]:
    """The numbers of a checkpoint, None before its first batch; and which batches they are of.

    Raises
    ------
    ConfigError : no topology was started with it.
    """
    check_started(checkpoint)
    # one of this machine is read without a Spark
    folder = on_this_machine(checkpoint) or Folder(session(master=master), checkpoint)
    found = read(started_in(folder))
    if found is None:
        return None, {"first_batch": None, "last_batch": None, "batches": 0}
    totals, now = found.totals, found.totals.metrics(active=False, at_ms=found.at_ms)
    return now, {"first_batch": totals.first, "last_batch": totals.last, "batches": totals.batches}


def drop_lines(drops: Drops) -> Iterator[str]:
    """A line for each operator and reason."""
    for (node, why), count in sorted(drops.items()):
        yield f"dropped {count:,} at {node}: {why}"


def metric_lines(now: Metrics) -> Iterator[str]:
    """A line for each source, operator, table and sink, then drops, the last batch and memory."""
    for source, count in now.consumed.items():
        late = now.record_lateness_max_ms.get(source, 0) / 1_000
        time = now.stream_time_ms.get(source)
        told = "" if time is None else f"; stream time {at(time)}, records at most {late:,.3f} s behind it"
        yield f"source {source}: {count:,} records{told}"
        yield from _latency_line(source, now)
    for topic, partitions in now.lag.items():
        yield f"lag of {topic}: " + ", ".join(f"{lag:,} in partition {part}" for part, lag in partitions.items())
    for name, operator in now.operators.items():
        held = f"; {now.held[name]:,} held" if name in now.held else ""
        yield f"operator {name}: {operator.processed:,} in, {operator.forwarded:,} out{held}"
    for name, table in now.tables.items():
        yield f"table {name}: {table.rows:,} rows, {table.bytes:,} bytes"
    for sink, written in now.produced.items():
        yield f"sink {sink}: " + ("not counted" if written is None else f"{written:,} records")
    yield from drop_lines(now.drops)
    if now.batch is not None:
        yield _batch_line(now.batch)
    if now.driver_bytes:
        yield "driver: " + ", ".join(f"{size / 1e6:,.1f} MB {part}" for part, size in now.driver_bytes.items())
    yield f"memory: {now.worker_bytes / 1e6:,.1f} MB of the largest worker, {now.state_bytes / 1e6:,.1f} MB of stores"


def _latency_line(source: str, now: Metrics) -> Iterator[str]:
    found = now.latency.get(source)
    half, most = (None, None) if found is None else (found.quantile(0.5), found.quantile(0.99))
    if half is not None and most is not None:
        yield f"latency of {source}: half within {half:,.3f} s, 99 percent within {most:,.3f} s"


def _batch_line(batch: BatchMetrics) -> str:
    parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in (*batch.seconds.items(), *batch.writes.items()))
    return f"batch {batch.number}: {batch.records:,} records, began {at(batch.started_ms)}, seconds: {parts}"


def span(said: Mapping[str, Any]) -> str:
    """Which batches were counted.

    >>> span({"first_batch": 0, "last_batch": 41, "batches": 42})
    'batches 0 to 41'
    >>> span({"first_batch": 7, "last_batch": 41, "batches": 34})
    'batches 7 to 41, one of them not counted'
    >>> span({"first_batch": None, "last_batch": None, "batches": 0})
    'no batch was counted yet'
    """
    first, last = said["first_batch"], said["last_batch"]
    if first is None:
        return "no batch was counted yet"
    missing = last - first + 1 - said["batches"]
    told = {0: "", 1: ", one of them not counted"}.get(missing, f", {missing} of them not counted")
    return f"batches {first} to {last}{told}"
