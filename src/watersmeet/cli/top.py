"""Output of the command `top`: the numbers of a running query, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet._spark.metrics.as_json import metrics_of_json
from watersmeet._spark.metrics.log_line import at
from watersmeet.cli.numbers import metric_lines


def status_lines(said: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a status: how the query is, then the numbers that `watersmeet metrics` says, too."""
    now = metrics_of_json(said)
    state = "failed" if said["error"] is not None else "running" if said["active"] else "ended"
    yield f"{said['query']}: {state}, {now.batches:,} batches, checkpoint {said['checkpoint']}"
    if said["reason"] is not None:
        yield f"reason: {said['reason']}"
    behind = max(now.stream_time_lag_ms.values(), default=None)
    told = [f"lag {now.total_lag:,} records"]
    told += [] if behind is None else [f"{behind / 1_000:,.1f} s behind the clock"]
    told += [] if now.batch is None else [f"{now.batch.rate:,.0f} records/s in the last batch"]
    yield "; ".join(told)
    if now.restarts or now.last_error is not None:
        error = now.last_error
        last = "" if error is None else f"; last error at {at(error.at_ms)}: {error.error}: {error.reason}"
        yield f"restarts: {now.restarts:,}{last}"
    yield from metric_lines(now)
    for letters in said["dead_letters"]:
        records = "not counted" if letters["records"] is None else f"{letters['records']:,}"
        yield f"dead letters in {letters['topic']}: {records}"
