"""The fields of a progress of Spark: times of a batch, offsets, and what was observed."""

from __future__ import annotations

import json
from ast import literal_eval
from datetime import datetime
from typing import Any

_LOGS = {"offsets": "walCommit", "commits": "commitOffsets"}
"""The writes into Spark's logs, and the names that Spark has for their time."""


def observed_in(progress: Any) -> tuple[dict[str, Any], int]:
    """The observed numbers of a progress, and the number of the sink's rows."""
    observed = {name: _as_mapping(row) for name, row in progress["observedMetrics"].items()}
    return observed, int(progress["sink"]["numOutputRows"])


def started_ms(progress: Any) -> int:
    """When the batch was triggered, in ms since 1970."""
    return int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1_000)


def ended_ms(progress: Any) -> int:
    """When all outputs had the batch: what follows is Spark's commit."""
    took = progress["durationMs"]
    return started_ms(progress) + int(took.get("triggerExecution", 0)) - int(took.get("commitOffsets", 0))


def writes_of(progress: Any) -> dict[str, float]:
    """Seconds of the writes of Spark into the checkpoint."""
    took = progress["durationMs"]
    logs = {name: took[part] / 1_000 for name, part in _LOGS.items() if part in took}
    states = [int(each["commitTimeMs"]) for each in progress["stateOperators"] if "commitTimeMs" in each]
    return {**logs, "state": sum(states) / 1_000} if states else logs


def lag_between(end: Any, latest: Any) -> dict[str, dict[int, int]]:
    """Records by topic and partition between two offsets of Spark's Kafka source; nothing for those of other sources.

    >>> lag_between('{"orders": {"0": 5, "1": 7}}', '{"orders": {"0": 9, "1": 7, "2": 3}}')
    {'orders': {0: 4, 1: 0, 2: 3}}

    Older versions of PySpark give what they have read of the JSON, printed.

    >>> lag_between("{'orders': {'0': 5}}", "{'orders': {'0': 9}}"), lag_between('{"logOffset": 0}', "None")
    ({'orders': {0: 4}}, {})
    """
    read, there = (_offsets(text) for text in (end, latest))
    return {
        topic: {int(number): reach - read.get(topic, {}).get(number, 0) for number, reach in partitions.items()}
        for topic, partitions in there.items()
    }


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    try:
        found = json.loads(text) if '"' in text else literal_eval(text)
    except (TypeError, ValueError, SyntaxError):
        return {}
    if not isinstance(found, dict) or not all(_are_offsets(each) for each in found.values()):
        return {}
    return found


def _are_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(each, int) for each in found.values())


def _as_mapping(row: Any) -> dict[str, Any]:
    return row.asDict() if hasattr(row, "asDict") else dict(row)
