"""A dashboard of Grafana and alerts of Prometheus, made of the names under which `prometheus` serves the numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet._spark.metrics.prometheus import LATENCY

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3


@dataclass(frozen=True)
class Panel:
    """A panel.

    Parameters
    ----------
    title : above it.
    unit : as Grafana names it.
    shown : (expression, legend); METRIC{} stands for a metric of the chosen application.
    """

    title: str
    unit: str
    shown: Sequence[tuple[str, str]]


def _by(metric: str, label: str) -> tuple[str, str]:
    return f"{metric}{{}}", f"{{{{{label}}}}}"


def _rate(metric: str, *labels: str) -> tuple[str, str]:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    return f"sum by ({', '.join(labels)}) (rate({metric}{{}}[5m]))", legend


PANELS = {
    "Is it well?": (
        Panel("Runs", "bool_yes_no", [("watersmeet_query_active{}", "{{application}}")]),
        Panel("Unread records", "short", [("sum by (topic) (watersmeet_records_lag{})", "{{topic}}")]),
        Panel("Dropped records", "cps", [_rate("watersmeet_dropped_records_total", "operator", "reason")]),
        Panel(
            "Latency of records, 99 percent",
            "s",
            [(f"histogram_quantile(0.99, sum by (le, source) (rate({LATENCY}_bucket{{}}[5m])))", "{{source}}")],
        ),
        Panel("Latency in the last batch", "s", [("watersmeet_batch_latency_seconds{}", "{{source}} {{quantile}}")]),
        Panel("Restarts", "short", [("watersmeet_restarts_total{}", "{{application}}")]),
        Panel("Last error", "dateTimeFromNow", [("1000 * watersmeet_last_error_timestamp_seconds{}", "{{error}}")]),
    ),
    "Batches": (
        Panel("Batches", "cps", [("rate(watersmeet_batches_total{}[5m])", "{{application}}")]),
        Panel("Parts of a batch", "s", [_by("watersmeet_batch_duration_seconds", "part")]),
        Panel("Writing", "s", [_by("watersmeet_write_duration_seconds", "part")]),
        Panel("Takeovers of transactions", "short", [("watersmeet_transaction_takeovers{}", "{{application}}")]),
        Panel("Batch under way", "s", [("watersmeet_batch_under_way_seconds{}", "{{application}}")]),
        Panel("Last batch", "dateTimeFromNow", [("1000 * watersmeet_batch_timestamp_seconds{}", "{{application}}")]),
        Panel("Records of a batch by its time", "cps", [("watersmeet_process_rate{}", "{{application}}")]),
    ),
    "Records": (
        Panel("Read", "cps", [_rate("watersmeet_records_consumed_total", "source")]),
        Panel("Written", "cps", [_rate("watersmeet_records_produced_total", "sink")]),
        Panel("Into operators", "cps", [_rate("watersmeet_process_total", "operator")]),
        Panel("Out of operators", "cps", [_rate("watersmeet_forward_total", "operator")]),
        Panel("Share of the hottest key", "percentunit", [_by("watersmeet_hot_key_share", "operator")]),
    ),
    "Time": (
        Panel("Stream time", "dateTimeAsIso", [("1000 * watersmeet_stream_time_seconds{}", "{{source}}")]),
        Panel("Behind the clock", "s", [_by("watersmeet_stream_time_lag_seconds", "source")]),
        Panel(
            "Lateness",
            "s",
            [
                ("watersmeet_record_lateness_max_seconds{}", "{{source}}, at most"),
                ("watersmeet_record_lateness_avg_seconds{}", "{{source}}, on average"),
            ],
        ),
    ),
    "State and memory": (
        Panel("Rows of tables", "short", [_by("watersmeet_table_rows", "table")]),
        Panel("Bytes of tables", "bytes", [_by("watersmeet_table_bytes", "table")]),
        Panel("Held back", "short", [_by("watersmeet_suppression_buffer_count", "operator")]),
        Panel("Driver", "bytes", [_by("watersmeet_driver_memory_bytes", "part")]),
        Panel("Largest worker", "bytes", [("watersmeet_worker_memory_bytes{}", "{{application}}")]),
        Panel("State stores", "bytes", [("watersmeet_state_store_memory_bytes{}", "{{application}}")]),
    ),
}
ALERTS = (
    ("QueryEnded", "watersmeet_query_active == 0 or absent(watersmeet_query_active)", "2m", "A query has ended."),
    ("Lag", "sum by (application) (watersmeet_records_lag) > 100000", "10m", "A query does not keep up."),
    ("BatchHangs", "watersmeet_batch_under_way_seconds > 600", "0m", "A batch hangs."),
    (
        "ResultsAreLate",
        f"histogram_quantile(0.99, sum by (le) (rate({LATENCY}_bucket[5m]))) > 60",
        "10m",
        "Results come a minute after their records.",
    ),
    ("Restarts", "changes(watersmeet_restarts_total[1h]) > 3", "0m", "A query is started again and again."),
    ("Dropped", "increase(watersmeet_dropped_records_total[1h]) > 0", "0m", "Records are dropped."),
)
"""(name, expression, for how long it must hold, what it means); docs/watch.md lists them, too."""


def dashboard() -> str:
    """The dashboard, as the JSON that Grafana imports."""
    variables = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "application",
            "type": "query",
            "datasource": _SOURCE,
            "query": "label_values(watersmeet_query_active, application)",
            "refresh": 2,
            "includeAll": True,
            "multi": True,
        },
    ]
    said = {
        "uid": "watersmeet",
        "title": "watersmeet",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": list(_placed()),
    }
    return json.dumps(said, indent=1) + "\n"


def alerts() -> str:
    """The alerts, as a file of rules that Prometheus reads."""
    lines = ["groups:", "- name: watersmeet", "  rules:"]
    for name, expression, lasts, summary in ALERTS:
        lines += [
            f"  - alert: Watersmeet{name}",
            # a text of JSON is one of YAML
            f"    expr: {json.dumps(expression)}",
            f"    for: {lasts}",
            "    annotations:",
            f"      summary: {json.dumps(summary)}",
        ]
    return "\n".join(lines) + "\n"


def _placed() -> Iterator[dict[str, Any]]:
    """Each row of panels, and below it its panels, three beside each other."""
    number, y = 0, 0
    for row, panels in PANELS.items():
        number += 1
        yield {"id": number, "type": "row", "title": row, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []}
        y += 1
        for at, panel in enumerate(panels):
            number += 1
            place = {"x": at % _ACROSS * _WIDTH, "y": y + at // _ACROSS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield {"id": number, "gridPos": place, **_panel(panel)}
        y += -(-len(panels) // _ACROSS) * _HEIGHT


def _panel(panel: Panel) -> dict[str, Any]:
    is_moment = panel.unit.startswith("dateTime") or panel.unit.startswith("bool")
    targets = [
        {
            "refId": "AB"[number],
            "datasource": _SOURCE,
            "expr": expression.replace("{}", '{application=~"$application"}'),
            "legendFormat": legend,
        }
        for number, (expression, legend) in enumerate(panel.shown)
    ]
    return {
        "type": "stat" if is_moment else "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }
