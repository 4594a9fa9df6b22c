"""The command `dashboard`: what Grafana and Prometheus read to show the numbers of queries."""

from __future__ import annotations

import click

from watersmeet._spark.metrics import dashboards
from watersmeet.cli.shared import examples


@click.command(
    epilog=examples("watersmeet dashboard > watersmeet.json", "watersmeet dashboard --alerts > watersmeet-alerts.yaml")
)
@click.option("--alerts", is_flag=True, help="Rules of alerts for Prometheus, in place of the dashboard.")
def dashboard(alerts: bool) -> None:
    """Print a dashboard for Grafana, of the numbers that --metrics-port serves."""
    click.echo(dashboards.alerts() if alerts else dashboards.dashboard(), nl=False)
