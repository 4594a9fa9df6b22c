"""Options and the form of errors that all commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from watersmeet.errors import WatersmeetError

AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON in place of text.")
BATCH = click.option("--batch", type=int, help="As this batch has left it; else the last one that was committed.")
MASTER = click.option(
    "--master", help="Where Spark runs; by default the master of spark-submit, or all cores of this machine."
)


def of_served_query(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the address of a query that serves its tables, and what it asks of its readers."""
    token = click.option(
        "--token", envvar="WATERSMEET_TOKEN", help="The one of query.serve; better in WATERSMEET_TOKEN."
    )
    roots = click.option("--tls-roots", type=click.Path(exists=True), help="Certificates that are trusted, in PEM.")
    return click.argument("url")(token(roots(command)))


def with_errors_as_text(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which ends with an error of watersmeet as a text and exit code 1."""

    @functools.wraps(command)
    def ran(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except WatersmeetError as error:
            raise click.ClickException(str(error)) from error

    return ran


def examples(*lines: str) -> str:
    """The end of a command's help: its examples, one a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
