"""The command `doctor`: each check of the machine that a session makes, as a list."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import click

from watersmeet._spark.session.connector import at_hand
from watersmeet._spark.session.machine.brokers import checked_brokers
from watersmeet._spark.session.machine.checks import Wanted, checks
from watersmeet._spark.session.master import configured_master
from watersmeet._worker.writers import kafka_client
from watersmeet.cli.run_options import RunOptions, read_config
from watersmeet.cli.shared import AS_JSON, MASTER, examples, with_errors_as_text
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka

Result = tuple[str, str | ConfigError]


_EXAMPLES = ("watersmeet doctor", "watersmeet doctor --kafka localhost:9092", "watersmeet doctor --config run.toml")


@click.command(epilog=examples(*_EXAMPLES))
@click.option("--kafka", metavar="SERVERS", help="Ask these Kafka brokers, too, such as localhost:9092.")
@click.option("--config", type=click.Path(path_type=Path), help="The file of `run`: its Kafka, its settings of Spark.")
@MASTER
@AS_JSON
@with_errors_as_text
def doctor(kafka: str | None, config: Path | None, master: str | None, as_json: bool) -> None:
    """Check this machine: Python, PySpark, Java, memory and folders. No JVM of Spark is started.

    Exit code 1: a check has failed.
    """
    options = (RunOptions() if config is None else read_config(config)).with_given(
        master=master or configured_master() or "local[*]", kafka={"bootstrap_servers": kafka}
    )
    asked = checks(Wanted.of(str(options.master), (), options.spark))
    connection = options.connection
    if connection is not None:
        asked |= of_kafka(connection)
    results = [(name, _result(check)) for name, check in asked.items()]
    if as_json:
        click.echo(json.dumps([_as_json(result) for result in results], indent=2))
    for line in () if as_json else [line for result in results for line in _lines(result)]:
        click.echo(line)
    if any(isinstance(result, ConfigError) for _, result in results):
        raise click.exceptions.Exit(1)


def of_kafka(kafka: Kafka) -> dict[str, Callable[[], str]]:
    """By name, the checks of what reads and writes Kafka."""

    def client() -> str:
        return f"confluent-kafka {kafka_client.client().__version__}, which writes"

    def connector() -> str:
        jars = at_hand()
        return f"{len(jars)} jars in {jars[0].parent}" if jars else "wm.session(kafka=True) will fetch it"

    return {"Kafka client": client, "Spark's Kafka connector": connector, "Kafka": lambda: checked_brokers(kafka)}


def _result(check: Callable[[], str]) -> str | ConfigError:
    try:
        return check()
    except ConfigError as error:
        return error
    except Exception as error:  # the other checks are told all the same; its text may have a secret
        at = traceback.extract_tb(error.__traceback__)[-1]
        return ConfigError(
            f"The check itself has failed: {type(error).__name__} in {Path(at.filename).name}, line {at.lineno}.",
            hint="This tells nothing of the machine; the other checks hold.",
        )


def _lines(result: Result) -> list[str]:
    name, found = result
    if isinstance(found, str):
        return [f"ok    {name}: {found}"]
    return [f"FAIL  {name}: {found.message}", f"      Hint: {found.hint}"]


def _as_json(result: Result) -> dict[str, object]:
    name, found = result
    if isinstance(found, str):
        return {"check": name, "ok": True, "found": found}
    return {"check": name, "ok": False, "found": found.message, "hint": found.hint}
