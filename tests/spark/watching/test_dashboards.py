"""The dashboard of Grafana and the alerts of Prometheus: of metrics that are there, with labels that these have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from watersmeet._spark.metrics.exporters import LATENCY, families
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet.cli.commands import main

ROOT = Path(__file__).resolve().parents[3]
NOTHING = Metrics(True, 0, 0, None, *({},) * 10, 0, 0)
LABELS = {
    **{name: {"application", *labels} for name, _, labels, _ in families(NOTHING)},
    f"{LATENCY}_bucket": {"application", "source", "le"},
}
METRIC = re.compile(r"\bwatersmeet_\w+")
FOLDER = ROOT / "src" / "watersmeet" / "cli" / "dashboards"
PANELS = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
SHOWN = [(target["expr"], target["legendFormat"]) for panel in PANELS for target in panel.get("targets", [])]
RULES = [
    (rule["alert"], rule["expr"])
    for group in yaml.safe_load((FOLDER / "prometheus-alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]


@pytest.mark.parametrize("expression", [expression for expression, _ in SHOWN] + [rule for _, rule in RULES])
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
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken = [
        (x, y)
        for panel in PANELS
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    assert all('{application=~"$application"}' in expression for expression, _ in SHOWN)


def test_the_alerts_stand_on_the_page_of_metrics() -> None:
    page = (ROOT / "docs" / "watch.md").read_text()
    assert len(RULES) == 6
    assert [name for name, expression in RULES if f"`{expression}`" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "file"), [([], "grafana-dashboard.json"), (["--alerts"], "prometheus-alerts.yaml")]
)
def test_the_files_among_the_examples_are_what_the_command_prints(arguments: list[str], file: str) -> None:
    result = CliRunner().invoke(main, ["dashboard", *arguments])
    assert result.exit_code == 0
    assert (ROOT / "examples" / "deploy" / file).read_text() == result.output
