"""One line in the log for each batch: what came and went, what was dropped, how long it took, how far behind it is; and
one more, for debugging, with each operator, table and partition."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from watersmeet._spark.metrics.metrics import Metrics

LOG = logging.getLogger("watersmeet.batches")
LOG.addHandler(logging.NullHandler())
_PARTS = ("latestOffset", "queryPlanning", "addBatch")


def is_wanted() -> bool:
    """Whether somebody reads the lines."""
    return LOG.isEnabledFor(logging.INFO)


def are_details_wanted() -> bool:
    """Whether somebody reads those too."""
    return LOG.isEnabledFor(logging.DEBUG)


def line(now: Metrics) -> str:
    """The last batch of these numbers, and how far behind it leaves the query."""
    batch = now.batch
    if batch is None:
        return "no batch yet"
    said = [f"batch {batch.number}: {batch.records:,} in{_by_name(batch.consumed)}"]
    said.append(
        f"{sum(batch.produced.values()):,} out{_by_name(batch.produced)}" if batch.produced else "out: not counted"
    )
    if batch.drops:
        each = ", ".join(f"{node} {reason} {count:,}" for (node, reason), count in sorted(batch.drops.items()))
        said.append(f"{sum(batch.drops.values()):,} dropped ({each})")
    parts = ", ".join(f"{part} {batch.seconds[part]:.2f}" for part in _PARTS if part in batch.seconds)
    said.append(f"{batch.seconds.get('triggerExecution', 0.0):.2f} s ({parts}), {batch.rate:,.0f} records/s")
    if now.stream_time_ms:
        first = min(now.stream_time_ms.values())
        said.append(f"stream time {at(first)}, {(now.at_ms - first) / 1_000:,.1f} s behind")
    if now.lag:
        said.append(f"lag {now.total_lag:,}")
    rows, size = (sum(getattr(table, name) for table in now.tables.values()) for name in ("rows", "bytes"))
    said.append(f"tables {rows:,} rows, {size / 1e6:,.1f} MB")
    if now.held:
        said.append(f"{sum(now.held.values()):,} held back")
    if batch.hot_keys:
        hot = sorted(batch.hot_keys.items())
        said.append("one key has " + ", ".join(f"{each.share:.0%} of the records of {name}" for name, each in hot))
    if now.worker_bytes:
        said.append(f"largest worker {now.worker_bytes / 1e6:,.0f} MB")
    return "; ".join(said)


def details(now: Metrics) -> str:
    """The sums of the line, one by one: operators and tables since the start, lag by partition."""
    said = [f"{name} {each.processed:,} in, {each.forwarded:,} out" for name, each in now.operators.items()]
    said += [f"{name} {table.rows:,} rows, {table.bytes:,} bytes" for name, table in now.tables.items()]
    said += [f"{name} {rows:,} held back" for name, rows in now.held.items()]
    said += [f"lag of {topic}-{part} {lag:,}" for topic, parts in now.lag.items() for part, lag in parts.items()]
    hot = () if now.batch is None else now.batch.hot_keys.items()
    said += [f"hot key of {name} {each.key!r} with {each.records:,}" for name, each in hot]
    return "since the start: " + "; ".join(said)


def at(ms: int) -> str:
    """A time in UTC, or the number where no calendar has it.

    >>> at(0), at(2**62)
    ('1970-01-01T00:00:00.000+00:00', '4611686018427387904 ms')
    """
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def _by_name(counts: Mapping[str, int]) -> str:
    """Counts of each, where there are several.

    >>> _by_name({"orders": 1200, "payments": 3}), _by_name({"orders": 3})
    (' (orders 1,200, payments 3)', '')
    """
    if len(counts) < 2:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in sorted(counts.items()))})"
