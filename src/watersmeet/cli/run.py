"""The command `run`: a topology as one query, with all options of a start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from watersmeet._spark.metrics.as_json import drops_as_json
from watersmeet._spark.query.query import Query
from watersmeet._spark.query.restarts import Restarts
from watersmeet._spark.serving.stores import servable_columns
from watersmeet._spark.stores.table_columns import columns_of_stores
from watersmeet.cli.checkpoints import check_startable
from watersmeet.cli.numbers import drop_lines
from watersmeet.cli.run_options import POLICIES, RunOptions, read_config
from watersmeet.cli.shared import AS_JSON, MASTER, examples, with_errors_as_text
from watersmeet.cli.topologies import made_topology
from watersmeet.errors import ConfigError
from watersmeet.io.policies import policies_of_run
from watersmeet.session import session
from watersmeet.topology import Topology

_POLICY = "fail, skip or dead-letter:TOPIC, in place of what the builder says."
_EXAMPLES = (
    "watersmeet run shop.topologies:orders --checkpoint /data/orders --kafka localhost:9092",
    "watersmeet run --config run.toml",
    "watersmeet run --config run.toml --available-now --on-undecodable skip",
    "watersmeet run --config run.toml --metrics-port 9400 --serve 127.0.0.1:8815 --table open-orders",
    "watersmeet run --config run.toml --restart 5",
)
_OF_START = ("available_now", "shards", "tasks", "trigger", "explain", "evolve", "metrics_port", "progress")
_TABLES = "With --evolve: compute this stored table anew, and send only rows that differ; may be repeated."


@click.command(epilog=examples(*_EXAMPLES))
@click.argument("topology", required=False)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with all options; options of the command line override it.",
)
@click.option("--checkpoint", help="The folder from which the query continues after a restart.")
@click.option("--kafka", metavar="SERVERS", help="The Kafka brokers, such as localhost:9092.")
@click.option("--available-now", is_flag=True, default=None, help="Process what is there, and end.")
@click.option("--shards", type=int, help="Shards of each operator; another number than before needs --evolve.")
@click.option("--tasks", type=int, help="Tasks of each exchange; another number than before needs --evolve.")
@click.option("--trigger", help="Processing interval, such as '1 second'.")
@click.option("--explain", metavar="DURATION", help="Keep a journal for so long, such as '1 day', for `why`.")
@click.option(
    "--evolve", is_flag=True, default=None, help="Continue although the topology has changed; `diff` lists the effects."
)
@click.option("--replace", multiple=True, metavar="STORE", help=_TABLES)
@click.option("--metrics-port", metavar="[HOST:]PORT", help="Serve the query's numbers to Prometheus there.")
@click.option("--progress", is_flag=True, default=None, help="Show how far the query is, in a line of the terminal.")
@click.option(
    "--restart", type=int, metavar="N", help="Start again after a failure that may pass, N times within an hour."
)
@click.option("--serve", "address", metavar="HOST:PORT", help="Serve tables there while the query runs.")
@click.option("--table", "tables", multiple=True, metavar="STORE", help="Of --serve: this table; by default all.")
@click.option("--on-undecodable", metavar="POLICY", help=f"Bytes that are not of a topic's format: {_POLICY}")
@click.option("--on-error", metavar="POLICY", help=f"Records for which a function raises: {_POLICY}")
@click.option("--on-drop", metavar="POLICY", help="Late or expired records: skip or dead-letter:TOPIC, likewise.")
@MASTER
@AS_JSON
@with_errors_as_text
def run(topology: str | None, config: Path | None, as_json: bool, **given: Any) -> None:
    """Run TOPOLOGY until it ends; Ctrl-C ends it behind the batch under way. Says at the end what was dropped.

    All options are checked before Spark starts.
    """
    options = (RunOptions() if config is None else read_config(config)).with_given(
        topology=topology,
        checkpoint=given["checkpoint"],
        master=given["master"],
        restart=given["restart"],
        start={"replace": list(given["replace"]) or None, **{name: _port(name, given[name]) for name in _OF_START}},
        kafka={"bootstrap_servers": given["kafka"]},
        policies={name: given[name] for name in POLICIES},
        serve={"address": given["address"], "tables": list(given["tables"]) or None},
    )
    for name, shown in (("topology", "argument TOPOLOGY"), ("checkpoint", "option --checkpoint")):
        if not getattr(options, name):
            raise click.UsageError(f"Missing {shown}, or {name} = ... in the file of --config.")
    options.check()
    check_startable(options.checkpoint)
    drops = Restarts(options.restart).run(starting(options))
    for line in [json.dumps({"drops": drops_as_json(drops)})] if as_json else drop_lines(drops):
        click.echo(line)


def _port(name: str, value: Any) -> Any:
    return int(value) if name == "metrics_port" and value and value.isdecimal() else value


def starting(options: RunOptions) -> Callable[[], Query]:
    """A function that starts the query of these options each time it is called, and serves its tables at an address."""
    kafka = options.connection
    spark = session(master=options.master, kafka=kafka is not None, config=dict(options.spark) or None)
    with policies_of_run(options.run_policies):
        made = made_topology(options.topology, spark)
    serve = dict(options.serve)
    if serve:
        serve["tables"] = _tables(made, serve.get("tables"))

    def started() -> Query:
        query = made.start(spark, checkpoint=options.checkpoint, kafka=kafka, **options.start)
        if serve:
            try:
                query.serve(**serve)
            except BaseException:
                query.stop()
                raise
        return query

    return started


def _tables(topology: Topology, named: list[str] | None) -> list[str]:
    """The tables that a reader can ask: those that are named, or all that are kept under a name of the user's."""
    stores = columns_of_stores(topology.physical)
    for name in named or ():
        servable_columns(stores, name)
    found = named or [name for name, shown in stores.items() if shown.by_key]
    if not found:
        raise ConfigError(
            "--serve needs a table, and the topology keeps none.", hint="Name one: table(..., store=...)."
        )
    return found
