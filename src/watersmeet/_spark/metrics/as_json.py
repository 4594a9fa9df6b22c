"""The numbers of a query as JSON has them, for the command line and for the page of served tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from watersmeet._spark.metrics.metrics import BatchMetrics, Metrics, OperatorMetrics, TableMetrics


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
    del said["active"], said["under_way_seconds"]
    return said


def metrics_of_json(said: Mapping[str, Any]) -> Metrics:
    """The numbers that `metrics_as_json` gave; `active` beside them means that the query runs."""
    known = {each.name: said[each.name] for each in fields(Metrics) if each.name in said}
    batch = said["batch"]
    known |= {
        "active": bool(said.get("active")),
        "batch": None if batch is None else BatchMetrics(**{**batch, "drops": _drops(batch["drops"])}),
        "operators": {name: OperatorMetrics(**each) for name, each in said["operators"].items()},
        "tables": {name: TableMetrics(**each) for name, each in said["tables"].items()},
        "lag": {topic: {int(part): lag for part, lag in parts.items()} for topic, parts in said["lag"].items()},
        "drops": _drops(said["drops"]),
    }
    return Metrics(**known)


def _drops(said: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    return {(each["operator"], each["reason"]): each["records"] for each in said}
