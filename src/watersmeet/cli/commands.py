"""The command line: topologies as `module:name`, and the stores of their checkpoints.

Exit codes: 0 when all went well, 1 when watersmeet refused or the query failed (the reason stands on stderr), 2 when
the command itself is wrong. Completion is click's: `eval "$(_WATERSMEET_COMPLETE=bash_source watersmeet)"`, also for
zsh, fish.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.machine import default_settings
from watersmeet._spark.metrics.metrics import drops_as_json, metrics_as_json
from watersmeet._spark.metrics.texts import as_text, drop_lines, metric_lines, status_lines
from watersmeet._spark.serving.client import TableServerAddress
from watersmeet._spark.serving.replica import to_json
from watersmeet._spark.session import admin_client
from watersmeet._spark.stores.read import key_values, read_state
from watersmeet._spark.stores.read import stores as stores_of
from watersmeet.api.topology import plan_change
from watersmeet.cli.run import deploy, doctor, run
from watersmeet.cli.topologies import (
    AS_JSON,
    BATCH,
    MASTER,
    TLS_ROOTS,
    TOKEN,
    check_named,
    check_started,
    examples,
    made_topology,
    numbers,
    of_served_query,
    span,
    with_errors_as_text,
)
from watersmeet.errors import ConfigError, WatersmeetError, installing, missing_packages
from watersmeet.io.kafka import Kafka
from watersmeet.session import session
from watersmeet.sql import check_installed
from watersmeet.versions import own_version

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

# The command `init`: a new project that runs at once.

FILES = ("README.md", "topology.py", "test_topology.py", "run.toml", "compose.yaml")
SQL_FILES = {"topology.py": "views.sql", "test_topology.py": "test_views.py"}
"""What stands in the place of files, where the topology is SQL."""


_INIT_EXAMPLES = ("watersmeet init orders", "watersmeet init shop --from-group shop --kafka localhost:9092")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=examples(*_INIT_EXAMPLES))
@click.argument("name")
@click.option("--sql", is_flag=True, help="The topology is a file of SQL, views.sql.")
@click.option("--from-group", "group", metavar="GROUP", help="Draft the topology of a streams group of Kafka Streams.")
@click.option("--kafka", "--bootstrap-servers", "servers", metavar="SERVERS", help="The brokers that know the group.")
@click.option("--command-config", "settings", type=_FILE, help="Properties of Kafka's Java client, such as a login.")
@click.option("--client", type=_FILE, help="That client, kafka-clients-4.4.0.jar or later; else it is fetched.")
@with_errors_as_text
def init(
    name: str, sql: bool, group: str | None, servers: str | None, settings: Path | None, client: Path | None
) -> None:
    """Make a project in the new folder NAME: a topology, its test, a configuration, a Kafka for trials.

    With --from-group the topology is drafted from what the brokers know of a program, and has no test.
    """
    if (group is None) != (servers is None) or (group is not None and sql):
        raise ConfigError(
            "--from-group goes with --kafka, and without --sql.",
            hint=f"For example: {_INIT_EXAMPLES[1]}.",
        )
    folder = Path(name)
    if not re.fullmatch(r"[A-Za-z][\w-]*", folder.name):
        raise ConfigError(
            f"The name of a project has letters, digits, - and _, and begins with a letter: {folder.name!r:.80}.",
            hint="For example: watersmeet init orders.",
        )
    if folder.exists():
        raise ConfigError(f"{name!r} is there already.", hint="Name a folder that does not exist.")
    draft = None
    if group is not None and servers is not None:
        from watersmeet._spark.streams_group import Draft, streams_group

        jar = client or admin_client(default_settings())
        draft = Draft(streams_group(session(), group, servers, settings, jar)).text()
    folder.mkdir(parents=True)
    project = files("watersmeet.cli") / "project"
    file_names = [SQL_FILES.get(file, file) if sql else file for file in FILES]
    file_names = file_names if draft is None else ["topology.py", "run.toml"]
    for file in file_names:
        text = (project / f"{file}.txt").read_text(encoding="utf-8")
        if sql:
            text = text.replace("topology:topology", "views.sql").replace("topology.py", "views.sql")
        text = re.sub(r"\bNAME\b", folder.name, text).replace("localhost:9092", servers or "localhost:9092")
        (folder / file).write_text(draft if draft and file == "topology.py" else text, encoding="utf-8")
    task = "then python -m pytest, and read README.md" if draft is None else "and write what topology.py calls unknown"
    click.echo(f"{name}: {', '.join(file_names)}\nNext: cd {name}, {task}.")


# The command `dashboard`: what Grafana and Prometheus read to show the numbers of queries.


@click.command(
    epilog=examples("watersmeet dashboard > watersmeet.json", "watersmeet dashboard --alerts > watersmeet-alerts.yaml")
)
@click.option("--alerts", is_flag=True, help="Rules of alerts for Prometheus, in place of the dashboard.")
def dashboard(alerts: bool) -> None:
    """Print a dashboard for Grafana, of the numbers that --metrics-port serves."""
    file = "prometheus-alerts.yaml" if alerts else "grafana-dashboard.json"
    click.echo((files("watersmeet.cli") / "dashboards" / file).read_text(), nl=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="watersmeet")
def main() -> None:
    """The table-and-stream model of Kafka Streams on Spark.

    TOPOLOGY is module:name: a Topology, or a function that makes one, of the Spark session or of nothing.
    """


for _command in (dashboard, deploy, doctor, init, run):
    main.add_command(_command)


@with_errors_as_text
def _sql(
    topology: str | None, config: Path | None, token: str | None, tls_roots: str | None, as_json: bool, **options: Any
) -> None:
    """Run the file TOPOLOGY, such as views.sql, as `run` does; or ask the query that serves its tables at an address.

    An address is http://host:port; with neither, it is http://127.0.0.1:8815. In a terminal, statements end with a
    semicolon; else those of standard input are answered. HELP says which there are.
    """
    if config is None and (topology is None or topology.startswith(("http://", "https://"))):
        check_installed()
        from watersmeet.cli.shell import run_shell

        address = TableServerAddress(topology or SERVED_HERE, token, tls_roots)
        run_shell(address, master=options["master"], as_json=as_json)
        return
    assert run.callback is not None, "it is a command"
    run.callback(topology=topology, config=config, as_json=as_json, **options)


SERVED_HERE = "http://127.0.0.1:8815"
"""Where the pages let queries serve."""
main.add_command(
    click.Command(
        "sql",
        callback=_sql,
        params=[*run.params, TOKEN, TLS_ROOTS],
        help=_sql.__doc__,
        epilog=examples(
            "watersmeet sql views.sql --checkpoint /data/views --kafka localhost:9092 --serve 127.0.0.1:8815",
            "watersmeet sql http://127.0.0.1:8815",
            'watersmeet sql http://127.0.0.1:8815 --json <<< "SELECT * FROM by_city"',
        ),
    )
)


@main.command(epilog=examples("watersmeet describe shop.topologies:orders"))
@click.argument("topology")
@MASTER
@AS_JSON
@with_errors_as_text
def describe(topology: str, master: str | None, as_json: bool) -> None:
    """Say what TOPOLOGY is: nodes, levels, stores, and where its functions run."""
    check_named(topology)
    loaded_topology = made_topology(topology, session(master=master))
    if not as_json:
        click.echo(loaded_topology.describe(), nl=False)
        return
    plan = loaded_topology.plan
    operators = [
        {"node": operator.node, "operator": operator.stem, "level": operator.level, "stores": list(operator.stores)}
        for operator in loaded_topology.physical.operators
    ]
    nodes = [{"name": node.name, "kind": node.stem, "inputs": list(node.inputs)} for node in plan.nodes]
    summary = {"application": plan.application, "generation": plan.generation.value, "nodes": nodes}
    click.echo(json.dumps({**summary, "levels": loaded_topology.physical.levels, "operators": operators}, indent=2))


@main.command(epilog=examples("watersmeet draw shop.topologies:orders -o orders.svg"))
@click.argument("topology")
@click.option("--format", "form", type=click.Choice(["svg", "mermaid"]), default="svg", show_default=True)
@click.option("-o", "--output", type=click.File("w", encoding="utf-8"), default="-", help="A file; else stdout.")
@click.option("--levels", is_flag=True, help="What it becomes: every operator in its level.")
@MASTER
@with_errors_as_text
def draw(topology: str, form: str, output: Any, levels: bool, master: str | None) -> None:
    """Draw TOPOLOGY."""
    suffix = Path(output.name).suffix
    if suffix not in ("", ".svg", ".mmd", ".md", ".txt") and output.name != "<stdout>":
        raise ConfigError(
            f"--output {output.name} names a file of another kind than {form}, which is a text.",
            hint=f"--output {Path(output.name).stem}.svg, which a browser shows and converts.",
        )
    if not Path(output.name).parent.is_dir():
        hint = f"mkdir -p {Path(output.name).parent}, or another folder."
        raise ConfigError(f"--output {output.name} lies in a folder that is not there.", hint=hint)
    check_named(topology)
    loaded_topology = made_topology(topology, session(master=master))
    to_text = loaded_topology.to_svg if form == "svg" else loaded_topology.to_mermaid
    output.write(to_text(levels=levels))


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
@click.option("--replay", "replays", is_flag=True, help="Run the journal through TOPOLOGY: which rows would differ.")
@click.option("--previous", metavar="TOPOLOGY", help="With --replay: the topology so far, to compare outputs too.")
@click.option(
    "--inputs", is_flag=True, help="With --replay and --previous: run what the inputs have now, not the journal."
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
    replays: bool,
    previous: str | None,
    inputs: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Say what TOPOLOGY, started with evolve=True, would do to CHECKPOINT. Exit code 1: it would be refused."""
    connection = None if kafka is None else Kafka(kafka)
    _check_replay(replays, previous, inputs)
    check_started(checkpoint)
    for reference in filter(None, (topology, previous)):
        check_named(reference)
    spark = session(master=master)
    loaded_topology = made_topology(topology, spark)
    change = plan_change(
        checkpoint,
        loaded_topology,
        kafka=connection,
        shards=shards,
        tasks=tasks,
        allow_changed_functions=allow_changed_functions,
        replace=replace,
    )
    answers: list[Any] = [change]
    if replays:
        previous_topology = None if previous is None else made_topology(previous, spark)
        folder, brokers = (None, connection) if inputs else (checkpoint, None)
        answers.append(loaded_topology.replay(spark, checkpoint=folder, previous=previous_topology, kafka=brokers))
    document = change.as_dict() | ({"replay": answers[-1].as_dict()} if replays else {})
    click.echo(json.dumps(document, indent=2, default=str) if as_json else "\n".join(map(str, answers)))
    if not change.possible:
        raise click.exceptions.Exit(1)


def _check_replay(replays: bool, previous: str | None, inputs: bool) -> None:
    if previous is not None and not replays:
        raise ConfigError(f"--previous {previous} belongs to --replay.", hint="Add --replay, or leave --previous out.")
    if inputs and previous is None:
        raise ConfigError("--inputs needs --previous: it says what the inputs are.", hint="--previous shop.v1:orders")


@main.command(epilog=examples("watersmeet trace /data/orders shop.topologies:orders --record orders-0@812"))
@click.argument("checkpoint")
@click.argument("topology")
@click.option("--record", required=True, help="Its place, as why shows it: orders-0@812.")
@click.option("--test", "as_test", is_flag=True, help="Print a test for pytest that repeats it.")
@MASTER
@with_errors_as_text
def trace(checkpoint: str, topology: str, record: str, as_test: bool, master: str | None) -> None:
    """Show the way of an input record through TOPOLOGY, each store before and after; CHECKPOINT has a journal."""
    check_started(checkpoint)
    check_named(topology)
    spark = session(master=master)
    way = made_topology(topology, spark).trace(spark, checkpoint=checkpoint, record=record)
    click.echo(way.to_test(topology) if as_test else str(way))


@main.command(epilog=examples("watersmeet stores /data/orders"))
@click.argument("checkpoint")
@BATCH
@MASTER
@AS_JSON
@with_errors_as_text
def stores(checkpoint: str, batch: int | None, master: str | None, as_json: bool) -> None:
    """List the stores of CHECKPOINT: rows, bytes, columns."""
    check_started(checkpoint)
    listing = stores_of(session(master=master), checkpoint, batch=batch)
    if as_json:
        entries = [{**vars(store), "schema": store.schema.jsonValue()} for store in listing]
        click.echo(json.dumps(entries, indent=2))
    for store in () if as_json else listing:
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
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many rows.")
@MASTER
@AS_JSON
@with_errors_as_text
def state(
    checkpoint: str, store: str, batch: int | None, keys: Sequence[str], limit: int, master: str | None, as_json: bool
) -> None:
    """Show rows of a STORE of CHECKPOINT; with --json a line for each."""
    check_started(checkpoint)
    spark = session(master=master)
    values = key_values(spark, checkpoint, store, keys) if keys else None
    rows = read_state(spark, checkpoint, store, batch=batch, keys=values).limit(limit)
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
    loaded_topology = made_topology(topology, spark)
    (value,) = key_values(spark, checkpoint, table, [key])
    explanation = loaded_topology.why(spark, checkpoint=checkpoint, table=table, key=value)
    if as_json:
        click.echo(explanation.as_json())
    else:
        click.echo(
            explanation.to_svg()
            if form == "svg"
            else explanation.to_mermaid()
            if form == "mermaid"
            else str(explanation)
        )


@main.command(epilog=examples("watersmeet metrics /data/orders --json"))
@click.argument("checkpoint")
@MASTER
@AS_JSON
@with_errors_as_text
def metrics(checkpoint: str, master: str | None, as_json: bool) -> None:
    """Say the numbers of CHECKPOINT since it began: records, times, tables, drops, as of its last batch."""
    current, counted = numbers(checkpoint, master)
    if as_json:
        click.echo(json.dumps(counted | (metrics_as_json(current) if current else {}), indent=2))
    for line in () if as_json else (span(counted), *as_text(metric_lines(current) if current else ())):
        click.echo(line)


@main.command(epilog=examples("watersmeet drops /data/orders"))
@click.argument("checkpoint")
@MASTER
@AS_JSON
@with_errors_as_text
def drops(checkpoint: str, master: str | None, as_json: bool) -> None:
    """Say which records were dropped since CHECKPOINT began, by operator and reason."""
    current, counted = numbers(checkpoint, master)
    counts = current.drops if current else {}
    if as_json:
        click.echo(json.dumps(counted | {"drops": drops_as_json(counts)}, indent=2))
    for line in () if as_json else (span(counted), *(as_text(drop_lines(counts)) or ["nothing was dropped"])):
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
            status = address.json("status")
            text = json.dumps(status, indent=2) if as_json else "\n".join(as_text(status_lines(status)))
            if not once:
                click.clear()
            click.echo(text)
            if once:
                return
            time.sleep(every)


# The command `mcp`: a running query for language models, by the Model Context Protocol over stdin and stdout.
#
# Its tools read what the query serves over HTTP (docs/serve.md), and nothing else: they change nothing, start no Spark
# and have no rights beyond the token. Answers are the JSON that the query's server has written.

WHY_SECONDS = 3600.0
"""For an answer to `why`, which replays a journal."""
_INSTRUCTIONS = """The tools read a running streaming query of watersmeet: its topology, its numbers, its tables.
Begin with `describe`. Every answer about rows says of which batch it is; all tables are at one batch."""


def made_server(address: TableServerAddress) -> MCPServer[Any]:
    """The server of the query at an address; raises if nothing answers, or the package is missing."""
    if missing_packages(["mcp"]):
        raise ConfigError("`watersmeet mcp` needs a package that is not installed: mcp.", hint=f"{installing('mcp')}.")
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    catalog = address.json("tables")
    server: MCPServer[Any] = MCPServer(
        f"watersmeet {catalog['query']}", version=own_version(), instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    for tool in _Reads(address, ToolError).tools(with_why=bool(catalog["why"])):
        server.add_tool(
            tool,
            description=tool.__doc__,
            annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True),
            structured_output=False,
        )
    return server


class _Reads:
    """The reads of a served query; a refused one is an error that the model reads."""

    def __init__(self, address: TableServerAddress, refusal: type[Exception]) -> None:
        self._address, self._refusal = address, refusal

    def tools(self, *, with_why: bool) -> list[Callable[..., str]]:
        """The functions; their names, signatures and docstrings are those of the tools."""
        functions: list[Callable[..., str]] = [
            self.describe,
            self.tables,
            self.get,
            self.range,
            self.metrics,
            self.drops,
        ]
        return [*functions, self.dead_letters, *([self.why] if with_why else [])]

    def describe(self) -> str:
        """Describe the query: its topology (inputs, operators, levels, outputs), whether it runs, and its error."""
        status = self._status()
        names = ("query", "application", "active", "doing", "error", "reason", "checkpoint", "versions", "served")
        return json.dumps({name: status[name] for name in names} | {"topology": self._text("topology.txt")})

    def tables(self) -> str:
        """List the tables that can be read: name, type of the key, columns."""
        return self._text("tables")

    def get(self, table: str, keys: list[Any], window_from: str | None = None, window_to: str | None = None) -> str:
        """Read the rows of some keys, all of one batch.

        Keys are JSON: numbers, text, structs as objects, bytes as Base64, times as ISO 8601. Of a windowed table,
        window_from and window_to (ISO 8601, or ms since 1970) choose the windows that begin between them.
        """
        key_parameters = [("key", _as_text(key)) for key in keys]
        if not key_parameters:
            raise self._refusal("keys=[] names no key.\nHint: range(table) reads all keys.")
        return self._rows(table, [*key_parameters, *_parameters(window_from=window_from, window_to=window_to)])

    def range(
        self, table: str, first: Any = None, last: Any = None, limit: int = 100, after: list[Any] | None = None
    ) -> str:
        """Read rows in the order of their keys, from the key first to the key last, both included.

        Without them it begins with the smallest key, and ends with the largest one. If there are more than limit
        rows, the answer has "next": give it as after to read on.
        """
        ends = [(name, _as_text(key)) for name, key in (("from", first), ("to", last)) if key is not None]
        cursor = None if after is None else to_json(after)
        return self._rows(table, [*ends, *_parameters(limit=str(limit), after=cursor)])

    def metrics(self) -> str:
        """Say the query's numbers since its start: records, rates, lag, latency, tables, times of the last batch."""
        return json.dumps(
            {name: value for name, value in self._status().items() if name not in ("picture", "versions")}
        )

    def drops(self) -> str:
        """Say how many records were dropped, by operator and reason, and how many became dead letters."""
        status = self._status()
        return json.dumps({name: status[name] for name in ("drops", "dead_letters")})

    def dead_letters(self) -> str:
        """Show the last dead letters: where the record lies, its key and value, the reason and the error."""
        return self._text("dead-letters")

    def why(self, table: str, key: Any) -> str:
        """Say which input records a row of a table comes from, with those that were late, replaced or dropped.

        It replays the query's journal of inputs, which may take minutes.
        """
        return self._text(f"why/{quote(table, safe='')}/{quote(_as_text(key), safe='')}", (), WHY_SECONDS)

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self._text("status"))
        return status

    def _rows(self, table: str, query: Sequence[tuple[str, str]]) -> str:
        return self._text(f"tables/{quote(table, safe='')}", query)

    def _text(self, path: str, query: Sequence[tuple[str, str]] = (), timeout: float = 60.0) -> str:
        try:
            return self._address.text(path, query, timeout)
        except WatersmeetError as error:
            raise self._refusal(str(error)) from error


def _as_text(key: Any) -> str:
    """A key as it stands in an address: text without quotes."""
    return key if isinstance(key, str) else to_json(key)


def _parameters(**options: str | None) -> list[tuple[str, str]]:
    return [(name, value) for name, value in options.items() if value is not None]


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
