"""The command line: topologies as `module:name`, and the stores of their checkpoints.

Exit codes: 0 when all went well, 1 when watersmeet refused or the query failed (the reason stands on stderr), 2 when
the command itself is wrong. Completion is click's: `eval "$(_WATERSMEET_COMPLETE=bash_source watersmeet)"`, also for
zsh, fish.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from watersmeet._spark.metrics.as_json import drops_as_json, metrics_as_json
from watersmeet._spark.query import leases
from watersmeet._spark.serving.remote import TableServerAddress
from watersmeet._spark.stores.read import key_values, read_state
from watersmeet._spark.stores.read import stores as stores_of
from watersmeet.cli.checkpoints import check_started
from watersmeet.cli.dashboard import dashboard
from watersmeet.cli.doctor import doctor
from watersmeet.cli.init import init
from watersmeet.cli.mcp_server import made_server
from watersmeet.cli.numbers import drop_lines, metric_lines, numbers, span
from watersmeet.cli.run import run
from watersmeet.cli.shared import AS_JSON, BATCH, MASTER, examples, of_served_query, with_errors_as_text
from watersmeet.cli.top import status_lines
from watersmeet.cli.topologies import check_named, made_topology
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.session import session
from watersmeet.topology import plan_change


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="watersmeet")
def main() -> None:
    """The table-and-stream model of Kafka Streams on Spark.

    TOPOLOGY is module:name: a Topology, or a function that makes one, of the Spark session or of nothing.
    """


for _command in (dashboard, doctor, init, run):
    main.add_command(_command)


@main.command(epilog=examples("watersmeet describe shop.topologies:orders"))
@click.argument("topology")
@MASTER
@AS_JSON
@with_errors_as_text
def describe(topology: str, master: str | None, as_json: bool) -> None:
    """Say what TOPOLOGY is: nodes, levels, stores, and where its functions run."""
    check_named(topology)
    made = made_topology(topology, session(master=master))
    if not as_json:
        click.echo(made.describe(), nl=False)
        return
    plan = made.plan
    operators = [
        {"node": each.node, "operator": each.stem, "level": each.level, "stores": list(each.stores)}
        for each in made.physical.operators
    ]
    nodes = [{"name": node.name, "kind": node.stem, "inputs": list(node.inputs)} for node in plan.nodes]
    said = {"application": plan.application, "generation": plan.generation.value, "nodes": nodes}
    click.echo(json.dumps({**said, "levels": made.physical.levels, "operators": operators}, indent=2))


@main.command(epilog=examples("watersmeet draw shop.topologies:orders -o orders.svg"))
@click.argument("topology")
@click.option("--format", "form", type=click.Choice(["svg", "mermaid"]), default="svg", show_default=True)
@click.option("-o", "--output", type=click.File("w", encoding="utf-8"), default="-", help="A file; else stdout.")
@MASTER
@with_errors_as_text
def draw(topology: str, form: str, output: Any, master: str | None) -> None:
    """Draw TOPOLOGY."""
    check_named(topology)
    made = made_topology(topology, session(master=master))
    output.write(made.to_svg() if form == "svg" else made.to_mermaid())


@main.command(epilog=examples("watersmeet diff /data/orders shop.topologies:orders"))
@click.argument("checkpoint")
@click.argument("topology")
@click.option("--kafka", metavar="SERVERS", help="The Kafka brokers: asked how many partitions topics have.")
@click.option("--shards", type=int, help="Shards from now on.")
@click.option("--tasks", type=int, help="Tasks from now on.")
@click.option("--allow-changed-functions", is_flag=True, help="As in Topology.start.")
@click.option(
    "--replace",
    multiple=True,
    metavar="STORE",
    help="As in run: count the rows of this stored table that would differ.",
)
@MASTER
@AS_JSON
@with_errors_as_text
def diff(
    checkpoint: str,
    topology: str,
    kafka: str | None,
    shards: int | None,
    tasks: int | None,
    allow_changed_functions: bool,
    replace: tuple[str, ...],
    master: str | None,
    as_json: bool,
) -> None:
    """Say what TOPOLOGY, started with evolve=True, would do to CHECKPOINT. Exit code 1: it would be refused."""
    connection = None if kafka is None else Kafka(kafka)
    check_started(checkpoint)
    check_named(topology)
    made = made_topology(topology, session(master=master))
    change = plan_change(
        checkpoint,
        made,
        kafka=connection,
        shards=shards,
        tasks=tasks,
        allow_changed_functions=allow_changed_functions,
        replace=replace,
    )
    click.echo(json.dumps(change.as_dict(), indent=2) if as_json else str(change))
    if not change.possible:
        raise click.exceptions.Exit(1)


@main.command(epilog=examples("watersmeet stores /data/orders"))
@click.argument("checkpoint")
@BATCH
@MASTER
@AS_JSON
@with_errors_as_text
def stores(checkpoint: str, batch: int | None, master: str | None, as_json: bool) -> None:
    """List the stores of CHECKPOINT: rows, bytes, columns."""
    check_started(checkpoint)
    found = stores_of(session(master=master), checkpoint, batch=batch)
    if as_json:
        said = [{**vars(store), "schema": store.schema.jsonValue()} for store in found]
        click.echo(json.dumps(said, indent=2))
    for store in () if as_json else found:
        click.echo(f"{store.name}: {store.rows} rows, {store.bytes} bytes, {store.schema.simpleString()}")


@main.command(
    epilog=examples(
        "watersmeet state /data/orders open-orders --limit 5",
        "watersmeet state /data/orders open-orders --key 7 --json",
    )
)
@click.argument("checkpoint")
@click.argument("store")
@BATCH
@click.option("--key", "keys", multiple=True, help="Rows of this key alone (a struct as JSON); may be given again.")
@click.option("--limit", type=int, default=20, show_default=True, help="At most so many rows.")
@MASTER
@AS_JSON
@with_errors_as_text
def state(
    checkpoint: str, store: str, batch: int | None, keys: Sequence[str], limit: int, master: str | None, as_json: bool
) -> None:
    """Show rows of a STORE of CHECKPOINT; with --json a line for each."""
    check_started(checkpoint)
    spark = session(master=master)
    wanted = key_values(spark, checkpoint, store, keys) if keys else None
    rows = read_state(spark, checkpoint, store, batch=batch, keys=wanted).limit(limit)
    if as_json:
        for row in rows.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS line").collect():
            click.echo(row["line"])
    else:
        rows.show(limit, truncate=False)


@main.command(epilog=examples("watersmeet why /data/orders shop.topologies:orders --table open-orders --key 7"))
@click.argument("checkpoint")
@click.argument("topology")
@click.option("--table", required=True, help="Its name, as store= names it.")
@click.option("--key", required=True, help="The key; a struct as JSON.")
@click.option("--format", "form", type=click.Choice(["text", "svg", "mermaid"]), default="text", show_default=True)
@MASTER
@AS_JSON
@with_errors_as_text
def why(checkpoint: str, topology: str, table: str, key: str, form: str, master: str | None, as_json: bool) -> None:
    """Say which input records a row of CHECKPOINT comes from; TOPOLOGY was started with explain=."""
    check_started(checkpoint)
    check_named(topology)
    spark = session(master=master)
    made = made_topology(topology, spark)
    (wanted,) = key_values(spark, checkpoint, table, [key])
    found = made.why(spark, checkpoint=checkpoint, table=table, key=wanted)
    if as_json:
        click.echo(found.as_json())
    else:
        click.echo(found.to_svg() if form == "svg" else found.to_mermaid() if form == "mermaid" else str(found))


@main.command(epilog=examples("watersmeet metrics /data/orders --json"))
@click.argument("checkpoint")
@MASTER
@AS_JSON
@with_errors_as_text
def metrics(checkpoint: str, master: str | None, as_json: bool) -> None:
    """Say the numbers of CHECKPOINT since it began: records, times, tables, drops, as of its last batch."""
    now, counted = numbers(checkpoint, master)
    if as_json:
        click.echo(json.dumps(counted | (metrics_as_json(now) if now else {}), indent=2))
    for line in () if as_json else (span(counted), *(metric_lines(now) if now else ())):
        click.echo(line)


@main.command(epilog=examples("watersmeet drops /data/orders"))
@click.argument("checkpoint")
@MASTER
@AS_JSON
@with_errors_as_text
def drops(checkpoint: str, master: str | None, as_json: bool) -> None:
    """Say which records were dropped since CHECKPOINT began, by operator and reason."""
    now, counted = numbers(checkpoint, master)
    found = now.drops if now else {}
    if as_json:
        click.echo(json.dumps(counted | {"drops": drops_as_json(found)}, indent=2))
    for line in () if as_json else (span(counted), *(drop_lines(found) if found else ["nothing was dropped"])):
        click.echo(line)


@main.command(epilog=examples("watersmeet top http://127.0.0.1:8815"))
@of_served_query
@click.option("--every", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Say them once, as where stdout is no terminal.")
@AS_JSON
@with_errors_as_text
def top(url: str, token: str | None, tls_roots: str | None, every: float, once: bool, as_json: bool) -> None:
    """Watch the numbers of the query that serves its tables at URL, until Ctrl-C."""
    address = TableServerAddress(url, token, tls_roots)
    once = once or as_json or not sys.stdout.isatty()
    with suppress(KeyboardInterrupt):
        while True:
            said = address.json("status")
            text = json.dumps(said, indent=2) if as_json else "\n".join(status_lines(said))
            if not once:
                click.clear()
            click.echo(text)
            if once:
                return
            time.sleep(every)


@main.command(epilog=examples("watersmeet mcp http://127.0.0.1:8815"))
@of_served_query
@with_errors_as_text
def mcp(url: str, token: str | None, tls_roots: str | None) -> None:
    """Let a language model read the query that serves its tables at URL: an MCP server over stdin and stdout."""
    made_server(TableServerAddress(url, token, tls_roots)).run()


@main.command(epilog=examples("watersmeet reset /data/orders"))
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_errors_as_text
def reset(checkpoint: Path, yes: bool) -> None:
    """Remove CHECKPOINT, a folder of this machine: the next start begins anew.

    Inputs are then read from their beginning, and outputs, which stay, get all results once more.
    """
    if not (checkpoint / "watersmeet" / "topology").is_dir():
        raise ConfigError(
            "This folder is not a checkpoint of watersmeet on this machine.",
            given=checkpoint,
            hint="Name the folder that the query was started with. One that lies elsewhere is removed with the tools "
            "of its file system.",
        )
    lease = leases.take(str(checkpoint))
    try:
        if not yes:
            click.confirm(f"Remove {checkpoint} with all state in it?", abort=True)
        shutil.rmtree(checkpoint)
    finally:
        lease.release()


if __name__ == "__main__":
    main(prog_name="watersmeet")
