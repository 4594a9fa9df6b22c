"""A query's numbers as text, the same for the log, the command line and a notebook: lines of a subject and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from watersmeet._spark.metrics.metrics import BatchMetrics, Metrics, metrics_of_json

Line = tuple[str, str]
PARTS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""Parts of a batch in the order in which Spark runs them."""
WHOLE = "triggerExecution"
_LEFT = 'style="text-align:left"'


def as_text(lines: Iterable[Line]) -> list[str]:
    """The lines for a terminal.

    >>> as_text([("lag of orders", "3 in partition 0")])
    ['lag of orders: 3 in partition 0']
    """
    return [f"{subject}: {figures}" for subject, figures in lines]


def as_html(lines: Iterable[Line]) -> str:
    """The lines as a table, which also those show that run no script.

    >>> as_html([("state", "<active>")])
    '<table><tr><th style="text-align:left">state</th><td style="text-align:left">&lt;active&gt;</td></tr></table>'
    """
    rows = (
        f"<tr><th {_LEFT}>{escape(subject)}</th><td {_LEFT}>{escape(figures)}</td></tr>" for subject, figures in lines
    )
    return f"<table>{''.join(rows)}</table>"


def status_lines(status: Mapping[str, Any]) -> Iterator[Line]:
    """How a query is, as `QueryStatus.as_json` gives it, then its numbers."""
    metrics = metrics_of_json(status)
    state = "failed" if status["error"] is not None else "running" if status["active"] else "ended"
    batches = f"{metrics.batches:,} batch{'' if metrics.batches == 1 else 'es'}"
    yield status["query"], f"{state}, {batches}, in {status['checkpoint']}"
    if status["reason"] is not None:
        yield "reason", status["reason"]
    if metrics.restarts or metrics.last_error is not None:
        error = metrics.last_error
        last = "" if error is None else f"; last error at {at(error.at_ms)}: {error.error}: {error.reason}"
        yield "restarts", f"{metrics.restarts:,}{last}"
    yield from metric_lines(metrics)
    for letters in status["dead_letters"]:
        yield f"dead letters in {letters['topic']}", _count(letters["records"])


def metric_lines(metrics: Metrics) -> Iterator[Line]:
    """A line for each source, operator, table and sink, then drops, the last batch and memory."""
    for source, count in metrics.consumed.items():
        yield f"source {source}", f"{count:,} records{_time_of(source, metrics)}"
        latency = metrics.latency.get(source)
        half, most = (None, None) if latency is None else (latency.quantile(0.5), latency.quantile(0.99))
        if half is not None and most is not None:
            yield f"latency of {source}", f"half within {half:,.3f} s, 99 percent within {most:,.3f} s"
    for topic, partitions in metrics.lag.items():
        yield f"lag of {topic}", ", ".join(f"{lag:,} in partition {part}" for part, lag in partitions.items())
    for name, operator in metrics.operators.items():
        waiting = f"; {metrics.held[name]:,} held" if name in metrics.held else ""
        yield f"operator {name}", f"{operator.processed:,} in, {operator.forwarded:,} out{waiting}"
    for name, table in metrics.tables.items():
        yield f"table {name}", f"{table.rows:,} rows, {table.bytes:,} bytes"
    for sink, written in metrics.produced.items():
        yield f"sink {sink}", _count(written)
    yield from drop_lines(metrics.drops)
    if metrics.batch is not None:
        yield f"batch {metrics.batch.number}", batch_figures(metrics.batch)
        for name, hot in metrics.batch.hot_keys.items():
            yield f"hot key of {name}", f"{hot.key!r} with {hot.records:,}" if hot.key else f"{hot.records:,} records"
    if metrics.driver_bytes:
        yield "driver", ", ".join(f"{size / 1e6:,.1f} MB {part}" for part, size in metrics.driver_bytes.items())
    workers, stores = metrics.worker_bytes / 1e6, metrics.state_bytes / 1e6
    yield "memory", f"{workers:,.1f} MB of the largest worker, {stores:,.1f} MB of stores"


def drop_lines(drops: Mapping[tuple[str, str], int]) -> Iterator[Line]:
    for (node, reason), count in sorted(drops.items()):
        yield f"dropped {count:,} at {node}", reason


def log_line(metrics: Metrics) -> str:
    """The last batch, and sums that say how far behind and how large it leaves the query."""
    batch = metrics.batch
    if batch is None:
        return "no batch yet"
    sums = []
    if metrics.stream_time_ms:
        first = min(metrics.stream_time_ms.values())
        sums.append(f"stream time {at(first)}, {(metrics.at_ms - first) / 1_000:,.1f} s behind")
    if metrics.lag:
        sums.append(f"lag {metrics.total_lag:,}")
    rows, size = (sum(getattr(table, name) for table in metrics.tables.values()) for name in ("rows", "bytes"))
    sums.append(f"tables {rows:,} rows, {size / 1e6:,.1f} MB")
    if metrics.held:
        sums.append(f"{sum(metrics.held.values()):,} held back")
    if metrics.worker_bytes:
        sums.append(f"largest worker {metrics.worker_bytes / 1e6:,.0f} MB")
    return f"batch {batch.number}: {'; '.join([batch_figures(batch), *sums])}"


def batch_figures(batch: BatchMetrics) -> str:
    """Records that came, went and were dropped, and seconds: of the whole batch, and of its parts."""
    figures = [f"{batch.records:,} in{_by_name(batch.consumed)}"]
    produced = batch.produced
    figures.append(f"{sum(produced.values()):,} out{_by_name(produced)}" if produced else "out: not counted")
    if batch.drops:
        breakdown = ", ".join(f"{node} {reason} {count:,}" for (node, reason), count in sorted(batch.drops.items()))
        figures.append(f"{sum(batch.drops.values()):,} dropped ({breakdown})")
    parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in (*in_order(batch.seconds), *batch.writes.items()))
    began = f", began {at(batch.started_ms)}"
    figures.append(f"{batch.seconds.get(WHOLE, 0.0):.2f} s ({parts}){began}, {batch.rate:,.0f} records/s")
    if batch.hot_keys:
        shares = [f"{hot.share:.0%} of the records of {name}" for name, hot in sorted(batch.hot_keys.items())]
        figures.append(f"one key has {', '.join(shares)}")
    return "; ".join(figures)


def in_order(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """The parts of a batch in the order in which Spark runs them; those of other versions of Spark come last.

    >>> in_order({"addBatch": 0.4, "other": 0.1, "triggerExecution": 0.6, "latestOffset": 0.05})
    [('latestOffset', 0.05), ('addBatch', 0.4), ('other', 0.1)]
    """
    parts = [part for part in PARTS if part in seconds]
    return [(part, seconds[part]) for part in (*parts, *(seconds.keys() - {*parts, WHOLE}))]


def at(ms: int) -> str:
    """A time in UTC, or the number where no calendar has it.

    >>> at(0), at(2**62)
    ('1970-01-01T00:00:00.000+00:00', '4611686018427387904 ms')
    """
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def _time_of(source: str, metrics: Metrics) -> str:
    time = metrics.stream_time_ms.get(source)
    if time is None:
        return ""
    lag, lateness = metrics.stream_time_lag_ms[source] / 1_000, metrics.record_lateness_max_ms.get(source, 0) / 1_000
    return f"; stream time {at(time)}, {lag:,.1f} s behind the clock; records at most {lateness:,.3f} s late"


def _count(records: int | None) -> str:
    """Records of an output; None where Spark writes them and nobody counts."""
    return "not counted" if records is None else f"{records:,} records"


def _by_name(counts: Mapping[str, int]) -> str:
    """Counts of each, where there are several.

    >>> _by_name({"orders": 1200, "payments": 3}), _by_name({"orders": 3})
    (' (orders 1,200, payments 3)', '')
    """
    if len(counts) < 2:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in sorted(counts.items()))})"
