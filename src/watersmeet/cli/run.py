"""The command `run`: a topology as one query, with all options of a start."""

from __future__ import annotations

import inspect
import json
import os
import re
import tomllib
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from watersmeet._plan.reasons import REFUSALS
from watersmeet._spark.machine import SessionConfig, checked_brokers, checks, configured_master
from watersmeet._spark.metrics.metrics import Metrics, drops_as_json
from watersmeet._spark.metrics.texts import as_text, drop_lines
from watersmeet._spark.query.query import Query
from watersmeet._spark.query.restarts import Restarts
from watersmeet._spark.query.start import StartOptions
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.replica import servable_columns
from watersmeet._spark.serving.server import MAX_BYTES, check_packages, check_served
from watersmeet._spark.session import at_hand
from watersmeet._spark.stores.table_columns import columns_of_stores
from watersmeet._worker import kafka_client
from watersmeet.api.topology import Topology
from watersmeet.cli.topologies import (
    AS_JSON,
    MASTER,
    check_connected,
    check_named,
    check_startable,
    check_started,
    examples,
    made_topology,
    with_errors_as_text,
)
from watersmeet.errors import ConfigError, SourceError, did_you_mean
from watersmeet.io.kafka import Kafka
from watersmeet.io.policies import DeadLetter, Policies, policies_of_run
from watersmeet.session import session

# The options of `run`: those of `Topology.start`, `wm.Kafka`, `Query.serve` and the policies, from a file of TOML.
#
# All of them are checked before Spark starts. Options of the command line win over those of the file.

POLICIES = ("on_undecodable", "on_error", "on_drop")
_TOP = ("topology", "checkpoint", "master")
_RUN_OPTIONS_TABLES = ("start", "kafka", "policies", "serve", "spark")
_SIDES = ("consumer", "producer", "source")
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\})")
_LETTER = "dead-letter:"


@dataclass(frozen=True)
class RunOptions:
    """All options of one start.

    Parameters
    ----------
    topology : `module:name`.
    checkpoint : the folder.
    master : of Spark.
    restart : how often within an hour a failure that may pass is followed by another start.
    start : options of `Topology.start`.
    kafka : those of `wm.Kafka`; none of them: no connection.
    policies : by option, for bad records, in place of those of the topology's builder.
    serve : options of `Query.serve`.
    spark : Spark's settings.
    """

    topology: str = ""
    checkpoint: str = ""
    master: str | None = None
    restart: int = 0
    start: Mapping[str, Any] = field(default_factory=dict)
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    policies: Mapping[str, str] = field(default_factory=dict)
    serve: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)

    def with_given(self, **options: Any) -> RunOptions:
        """These, and in place of them the options that the command line gives; of tables each of them."""
        changed: dict[str, Any] = {}
        for name, value in options.items():
            if isinstance(value, Mapping):
                overrides = {option: of for option, of in value.items() if of is not None}
                changed[name] = {**_beside(getattr(self, name), overrides), **overrides}
            else:
                changed[name] = getattr(self, name) if value in (None, "") else value
        return RunOptions(**{**self.__dict__, **changed})

    @property
    def connection(self) -> Kafka | None:
        """The connection to Kafka."""
        if not self.kafka:
            return None
        if "bootstrap_servers" not in self.kafka:
            option = next(
                (name for name in self.kafka if re.search("server|broker|host|bootstrap|address", name)), None
            )
            if option is not None:
                hint = 'It is bootstrap_servers = "host:9092" in [kafka].'
                raise ConfigError(f"Unknown option kafka.{option}, and kafka.bootstrap_servers is missing.", hint=hint)
            raise ConfigError(
                "kafka.bootstrap_servers is missing.", hint='bootstrap_servers = "host:9092" in [kafka], or --kafka.'
            )
        return Kafka(**self.kafka)

    @property
    def run_policies(self) -> Policies:
        """The policies, read."""
        return Policies(**{name: policy(name, text) for name, text in self.policies.items()}).check()

    def check(self) -> None:
        """Raise unless all of it fits, and nothing that others need is missing; Spark is not needed to know."""
        StartOptions(kafka=self.connection, **self.start)
        if type(self.restart) is not int or self.restart < 0:
            raise ConfigError(
                f"The number of restarts must be 0 or more: restart={self.restart!r:.40}.",
                hint="--restart 5, or restart = 5 in the file of --config: five within an hour.",
            )
        _ = self.run_policies
        if self.serve:
            check_packages()
            if "address" not in self.serve:
                raise ConfigError("serve.address is missing.", hint='address = "127.0.0.1:8815", or --serve.')
            check_served(self.serve.get("tables", ["all"]), self.serve.get("max_bytes", MAX_BYTES))
            read = {name: self.serve.get(name) for name in ("flight_port", "token", "tls")}
            Access.of(self.serve["address"], read["flight_port"], read["token"], read["tls"])
        check_named(self.topology)


def _beside(read: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the file that the command line does not exclude: a run that ends does not wait."""
    excluded = ("trigger", "idle_after") if options.get("available_now") else ()
    return {name: value for name, value in read.items() if name not in excluded}


def policy(option: str, text: str) -> Any:
    """A policy: "fail", "skip", or "dead-letter:TOPIC"."""
    if str(text).startswith(_LETTER):
        return DeadLetter(text.removeprefix(_LETTER))
    if text in ("fail", "skip") and not (option == "on_drop" and text == "fail"):
        return text
    words = '"skip"' if option == "on_drop" else '"fail", "skip"'
    raise ConfigError(f"Unknown policy {option}={text!r:.80}.", hint=f'Take {words} or "{_LETTER}TOPIC".')


def read_config(path: Path) -> RunOptions:
    """The options in a file; raises for an unknown name, a variable that is not set, a value of another kind."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config={str(path)!r} cannot be read: {error.strerror}.", hint="Name a file of TOML, such as run.toml."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}.", hint="A text stands in quotes; a table begins with its name in brackets."
        ) from None
    _check_names(path, "", document, (*_TOP, "restart", *_RUN_OPTIONS_TABLES))
    settings = {name: _filled(path, name, value) for name, value in document.items()}
    for name in _TOP:
        if not isinstance(settings.get(name, ""), str):
            raise ConfigError(
                f"{name} in {path} must be a text, not {_kind(settings[name])}.", hint="Put it into quotes."
            )
    for name in _RUN_OPTIONS_TABLES:
        if not isinstance(settings.get(name, {}), dict):
            raise _no_table(path, name, settings[name])
    for name, names in _options_by_table().items():
        _check_names(path, f"{name}.", settings.get(name, {}), names)
    _check_kafka(path, settings.get("kafka", {}))
    _check_values(path, "spark", settings.get("spark", {}))
    _check_kinds(path, "start", settings.get("start", {}), Topology.start)
    spark = {name: _spark_text(value) for name, value in settings.get("spark", {}).items()}
    return RunOptions(**{**settings, "spark": spark})


def _options_by_table() -> dict[str, list[str]]:
    start = set(inspect.signature(Topology.start).parameters) - {"self", "spark", "checkpoint", "kafka"}
    serve = set(inspect.signature(Query.serve).parameters) - {"self"}
    return {"start": sorted(start), "serve": sorted(serve), "policies": list(POLICIES)}


def _check_names(path: Path, table: str, names: Iterable[str], options: Iterable[str]) -> None:
    for name in names:
        if name not in options:
            raise _unknown(path, table + name, options)


def _unknown(path: Path, name: str, options: Iterable[str]) -> ConfigError:
    names, last = list(options), name.rpartition(".")[2]
    hint = did_you_mean(last.replace("-", "_"), names, f"There are {', '.join(names)}.")
    return ConfigError(f"Unknown option {name} in {path}.", hint=hint)


def _check_kafka(path: Path, settings: Mapping[str, Any]) -> None:
    """Any name may be a setting of a client; one that is nearly an option of our own is a slip."""
    options = [
        parameter for parameter in inspect.signature(Kafka.__init__).parameters if parameter not in ("self", "options")
    ]
    for name in settings:
        if name not in options and did_you_mean(name.replace("-", "_"), options, cutoff=0.8):
            raise _unknown(path, f"kafka.{name}", options)
    for side in _SIDES:
        if not isinstance(settings.get(side, {}), dict):
            raise _no_table(path, f"kafka.{side}", settings[side])
        _check_values(path, f"kafka.{side}", settings.get(side, {}))
    _check_values(path, "kafka", {name: value for name, value in settings.items() if name not in _SIDES})


def _check_values(path: Path, table: str, settings: Mapping[str, Any]) -> None:
    """A name with dots is a table in a table, and its setting would be lost."""
    for name, value in settings.items():
        if isinstance(value, dict):
            raise ConfigError(
                f"{table}.{name} in {path} is a table, not a value.",
                hint=f'A name with dots stands in quotes: "{_whole_name(name, value)}" = ...',
            )


def _whole_name(name: str, value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return name
    first, inner = next(iter(value.items()))
    return f"{name}.{_whole_name(first, inner)}"


def _no_table(path: Path, name: str, value: object) -> ConfigError:
    return ConfigError(f"{name} in {path} must be a table, not {_kind(value)}.", hint=f"Write [{name}].")


def _kind(value: object) -> str:
    """The type of a value, which may be a secret itself."""
    return f"a value of type {type(value).__name__}"


def _check_kinds(path: Path, table: str, options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    for name, value in options.items():
        kinds = str(parameters[name].annotation).split(" | ")
        if (isinstance(value, bool) and "bool" not in kinds) or (kinds == ["bool"] and not isinstance(value, bool)):
            expected = "true or false" if kinds == ["bool"] else "a number or a text"
            raise ConfigError(f"{table}.{name} in {path} must be {expected}: {value!r:.40}.", hint="Without quotes.")


def _spark_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(path: Path, name: str, value: Any) -> Any:
    """A value with the variables of the environment and the contents of files in it."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(path, name, match), value)
    if isinstance(value, list):
        return [_filled(path, name, item) for item in value]
    if isinstance(value, dict) and set(value) == {"file"}:
        return _content(path, name, str(_filled(path, name, value["file"])))
    if isinstance(value, dict):
        return {key: _filled(path, f"{name}.{key}", item) for key, item in value.items()}
    return value


def _variable(path: Path, name: str, match: re.Match[str]) -> str:
    if match[1] is None:
        return "$"
    if match[1] not in os.environ:
        raise ConfigError(
            f"{name} in {path} needs the variable {match[1]}, which is not set.",
            hint=f"Set it before the start: export {match[1]}=...; a plain dollar sign is $$.",
        )
    return os.environ[match[1]]


def _content(path: Path, name: str, file: str) -> str:
    try:
        return (path.parent / file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"{name} in {path} names the file {file!r}, which cannot be read: {reason}.",
            hint="A relative path begins at the folder of the configuration.",
        ) from None


_POLICY = "fail, skip or dead-letter:TOPIC, in place of what the builder says."
_RUN_EXAMPLES = (
    "watersmeet run shop.topologies:orders --checkpoint /data/orders --kafka localhost:9092",
    "watersmeet run --config run.toml",
    "watersmeet run --config run.toml --available-now --on-undecodable skip",
    "watersmeet run --config run.toml --metrics-port 9400 --serve 127.0.0.1:8815 --table open-orders",
    "watersmeet run --config run.toml --restart 5",
)
_OF_START = (
    *("available_now", "shards", "tasks", "trigger", "explain", "evolve", "allow_changed_functions", "metrics_port"),
    *("progress", "deploy", "back", "if_equal"),
)
_RUN_TABLES = "With --evolve: compute this stored table anew, and send only rows that differ; may be repeated."


@click.command(epilog=examples(*_RUN_EXAMPLES))
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
@click.option(
    "--allow-changed-functions", is_flag=True, default=None, help="Keep what functions that have changed left in state."
)
@click.option("--replace", multiple=True, metavar="STORE", help=_RUN_TABLES)
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
def run(topology: str | None, config: Path | None, as_json: bool, **arguments: Any) -> None:
    """Run TOPOLOGY until it ends; Ctrl-C ends it behind the batch under way. Says at the end what was dropped.

    All options are checked before Spark starts. Exit code 1 also if all records of an input were refused.
    """
    options = (RunOptions() if config is None else read_config(config)).with_given(
        topology=topology,
        checkpoint=arguments["checkpoint"],
        master=arguments["master"],
        restart=arguments["restart"],
        start={
            "replace": list(arguments["replace"]) or None,
            **{name: _port(name, arguments.get(name)) for name in _OF_START},
        },
        kafka={"bootstrap_servers": arguments["kafka"]},
        policies={name: arguments[name] for name in POLICIES},
        serve={"address": arguments["address"], "tables": list(arguments["tables"]) or None},
    )
    for name, label in (("topology", "argument TOPOLOGY"), ("checkpoint", "option --checkpoint")):
        if not getattr(options, name):
            raise click.UsageError(f"Missing {label}, or {name} = ... in the file of --config.")
    options.check()
    check_startable(options.checkpoint)
    if not options.kafka:
        check_connected(options.topology)
    start, queries = starting(options), deque[Query](maxlen=1)

    def started() -> Query:
        queries.append(start())
        return queries[0]

    drops = Restarts(options.restart).run(started)
    for line in [json.dumps({"drops": drops_as_json(drops)})] if as_json else as_text(drop_lines(drops)):
        click.echo(line)
    check_accepted(queries[0].metrics())


_OF_DEPLOYMENT = ("deploy", "back", "if_equal")


@with_errors_as_text
def _deploy(checkpoint: str, topology: str, **options: Any) -> None:
    """Have TOPOLOGY take the place of the one that runs on CHECKPOINT, and run it until it ends, as `run` does.

    It catches up beside the running one, says how many rows of each store differ, and goes on with the next batch when
    that one has ended.
    """
    check_started(checkpoint)
    assert run.callback is not None, "it is a command"
    run.callback(checkpoint=checkpoint, topology=topology, deploy=True, evolve=None, replace=(), **options)


deploy = click.Command(
    "deploy",
    callback=_deploy,
    params=[
        *(click.Argument([name]) for name in ("checkpoint", "topology")),
        click.Option(["--back"], is_flag=True, default=None, help="TOPOLOGY ran before: return to its state."),
        click.Option(["--if-equal"], type=int, metavar="N", help="Refuse if more than N rows of its stores differ."),
        *(option for option in run.params if option.name not in ("checkpoint", "topology", "evolve", "replace")),
    ],
    help=_deploy.__doc__,
    epilog=examples(
        "watersmeet deploy /data/orders shop.topologies:orders --kafka localhost:9092 --if-equal 0",
        "watersmeet deploy /data/orders shop.v1:orders --kafka localhost:9092 --back",
    ),
)


def check_accepted(metrics: Metrics) -> None:
    """Raise if an input had records and each of them was refused."""
    for source, count in metrics.consumed.items():
        refused = {
            reason: drops for (node, reason), drops in metrics.drops.items() if node == source and reason in REFUSALS
        }
        if 0 < count <= sum(refused.values()):
            raise SourceError(
                f"All {count:,} records of the input {source!r} were refused: {', '.join(sorted(refused))}.",
                hint="Compare its format with the topic's; docs/bad_records.md says how to see why it is refused. "
                "Correct the format, and read them again with a new checkpoint.",
            )


def _port(name: str, value: Any) -> Any:
    return int(value) if name == "metrics_port" and value and value.isdecimal() else value


def starting(options: RunOptions) -> Callable[[], Query]:
    """A function that starts the query of these options each time it is called, and serves its tables at an address."""
    kafka = options.connection
    spark = session(master=options.master, kafka=kafka is not None, config=dict(options.spark) or None)
    with policies_of_run(options.run_policies):
        topology = made_topology(options.topology, spark)
    serve = dict(options.serve)
    if serve:
        serve["tables"] = _tables(topology, serve.get("tables"))

    start = dict(options.start)

    def started() -> Query:
        query = topology.start(spark, checkpoint=options.checkpoint, kafka=kafka, **start)
        for comparison in query.comparisons:
            click.echo(str(comparison), err=True)
        for name in _OF_DEPLOYMENT:
            start.pop(name, None)  # a restart finds the checkpoint its own
        if serve:
            try:
                query.serve(**serve)
            except BaseException:
                query.stop()
                raise
        return query

    return started


def _tables(topology: Topology, names: list[str] | None) -> list[str]:
    """The tables that a reader can ask: those that are named, or all that are kept under a name of the user's."""
    stores = columns_of_stores(topology.physical)
    for name in names or ():
        servable_columns(stores, name)
    tables = names or [name for name, columns in stores.items() if columns.by_key]
    if not tables:
        raise ConfigError(
            "--serve needs a table, and the topology keeps none.", hint="Name one: table(..., store=...)."
        )
    return tables


# The command `doctor`: each check of the machine that a session makes, as a list.

Result = tuple[str, str | ConfigError]


_DOCTOR_EXAMPLES = (
    "watersmeet doctor",
    "watersmeet doctor --kafka localhost:9092",
    "watersmeet doctor --config run.toml",
)


@click.command(epilog=examples(*_DOCTOR_EXAMPLES))
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
    checks_by_name = checks(SessionConfig.of(str(options.master), (), options.spark))
    connection = options.connection
    if connection is not None:
        checks_by_name |= of_kafka(connection)
    results = [(name, _result(check)) for name, check in checks_by_name.items()]
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
    name, outcome = result
    if isinstance(outcome, str):
        return [f"ok    {name}: {outcome}"]
    return [f"FAIL  {name}: {outcome.message}", f"      Hint: {outcome.hint}"]


def _as_json(result: Result) -> dict[str, object]:
    name, outcome = result
    if isinstance(outcome, str):
        return {"check": name, "ok": True, "found": outcome}
    return {"check": name, "ok": False, "found": outcome.message, "hint": outcome.hint}
