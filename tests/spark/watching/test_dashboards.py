"""The dashboard of Grafana and the alerts of Prometheus: of metrics that are there, with labels that these have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from watersmeet._spark.metrics.exporters import ALERTS, LATENCY, PANELS, alerts, dashboard, families
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet.cli.commands import main

ROOT = Path(__file__).resolve().parents[3]
NOTHING = Metrics(True, 0, 0, None, *({},) * 10, 0, 0)
LABELS = {
    **{name: {"application", *labels} for name, _, labels, _ in families(NOTHING)},
    f"{LATENCY}_bucket": {"application", "source", "le"},
}
METRIC = re.compile(r"\bwatersmeet_\w+")
SHOWN = [shown for panels in PANELS.values() for panel in panels for shown in panel.shown]


@pytest.mark.parametrize("expression", [*(shown[0] for shown in SHOWN), *(alert[1] for alert in ALERTS)])
def test_an_expression_has_metrics_that_are_served_and_their_labels(expression: str) -> None:
    metrics = METRIC.findall(expression)
    assert metrics
    assert set(metrics) <= set(LABELS)
    by = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")}
    assert by <= set.intersection(*(LABELS[metric] for metric in metrics))


@pytest.mark.parametrize(("expression", "legend"), SHOWN)
def test_a_legend_names_labels_that_the_expression_leaves(expression: str, legend: str) -> None:
    by = re.search(r"by \(([^)]*)\)", expression)
    left = set(by[1].split(", ")) if by else LABELS[METRIC.findall(expression)[0]]
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= left


def test_each_metric_that_is_served_has_a_panel() -> None:
    assert {name for expression, _ in SHOWN for name in METRIC.findall(expression)} == set(LABELS)


def test_panels_stand_beside_each_other_with_numbers_of_their_own_and_of_the_chosen_application() -> None:
    panels = json.loads(dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert all('{application=~"$application"}' in expression for expression in expressions)


def test_the_rules_are_yaml_and_their_expressions_stand_on_the_page_of_metrics() -> None:
    (group,) = yaml.safe_load(alerts())["groups"]
    said = [(rule["alert"], rule["expr"], rule["for"], rule["annotations"]["summary"]) for rule in group["rules"]]
    assert said == [(f"Watersmeet{name}", *rest) for name, *rest in ALERTS]
    page = (ROOT / "docs" / "watch.md").read_text()
    assert [expression for _, expression, *_ in ALERTS if f"`{expression}`" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "file"), [([], "grafana-dashboard.json"), (["--alerts"], "prometheus-alerts.yaml")]
)
def test_the_files_among_the_examples_are_what_the_command_prints(arguments: list[str], file: str) -> None:
    result = CliRunner().invoke(main, ["dashboard", *arguments])
    assert result.exit_code == 0
    assert (ROOT / "examples" / "deploy" / file).read_text() == result.output
