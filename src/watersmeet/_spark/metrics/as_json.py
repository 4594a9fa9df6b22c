"""The numbers of a query as JSON has them, for the command line and for the page of served tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from watersmeet._spark.metrics.metrics import (
    BatchMetrics,
    ErrorMetrics,
    HotKey,
    LatencyMetrics,
    Metrics,
    OperatorMetrics,
    TableMetrics,
)

_OF_A_RUN = ("under_way_seconds", "driver_bytes", "restarts", "last_error")


def drops_as_json(drops: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Drops as JSON has them: a key of two parts is no key of JSON's.

    >>> drops_as_json({("orders", "null_key"): 3})
    [{'operator': 'orders', 'reason': 'null_key', 'records': 3}]
    """
    return [{"operator": node, "reason": why, "records": count} for (node, why), count in sorted(drops.items())]


def metrics_as_json(now: Metrics) -> dict[str, Any]:
    """All numbers as JSON has them; what is true of a running query alone is left out."""
    said = asdict(replace(now, drops={}, batch=None if now.batch is None else replace(now.batch, drops={})))
    said["stream_time_lag_ms"] = dict(now.stream_time_lag_ms)
    said["drops"] = drops_as_json(now.drops)
    if now.batch is not None:
        said["batch"]["drops"] = drops_as_json(now.batch.drops)
        said["batch"]["latency"] = _latency_as_json(now.batch.latency)
    said["latency"] = _latency_as_json(now.latency)
    for name in ("active", *_OF_A_RUN):
        del said[name]
    return said


def without_keys(now: Metrics) -> Metrics:
    """The same without the texts of hot keys, for readers who may see numbers and no records."""
    if now.batch is None:
        return now
    hot = {name: replace(found, key="") for name, found in now.batch.hot_keys.items()}
    return replace(now, batch=replace(now.batch, hot_keys=hot))


def run_as_json(now: Metrics) -> dict[str, Any]:
    """The numbers of a running query alone, as JSON has them."""
    return {name: getattr(now, name) for name in _OF_A_RUN} | {
        "last_error": None if now.last_error is None else asdict(now.last_error)
    }


def _latency_as_json(latency: Mapping[str, LatencyMetrics]) -> dict[str, Any]:
    """Seconds by source, of which half of the records, and 99 percent, took at most; and the buckets."""
    return {
        source: {"p50": found.quantile(0.5), "p99": found.quantile(0.99), "buckets": dict(found.buckets)}
        for source, found in latency.items()
    }


def metrics_of_json(said: Mapping[str, Any]) -> Metrics:
    """The numbers that `metrics_as_json` gave; `active` beside them means that the query runs."""
    known = {each.name: said[each.name] for each in fields(Metrics) if each.name in said}
    batch, error = said["batch"], said.get("last_error")
    if batch is not None:
        hot = {name: HotKey(**found) for name, found in batch.get("hot_keys", {}).items()}
        batch = {**batch, "drops": _drops(batch["drops"]), "latency": _latency(batch["latency"]), "hot_keys": hot}
    known |= {
        "active": bool(said.get("active")),
        "batch": None if batch is None else BatchMetrics(**batch),
        "latency": _latency(said["latency"]),
        "last_error": None if error is None else ErrorMetrics(**error),
        "operators": {name: OperatorMetrics(**each) for name, each in said["operators"].items()},
        "tables": {name: TableMetrics(**each) for name, each in said["tables"].items()},
        "lag": {topic: {int(part): lag for part, lag in parts.items()} for topic, parts in said["lag"].items()},
        "drops": _drops(said["drops"]),
    }
    return Metrics(**known)


def _latency(said: Mapping[str, Any]) -> dict[str, LatencyMetrics]:
    return {
        source: LatencyMetrics({int(bucket): count for bucket, count in found["buckets"].items()})
        for source, found in said.items()
    }


def _drops(said: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    return {(each["operator"], each["reason"]): each["records"] for each in said}
