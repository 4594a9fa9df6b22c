"""The options of `run`: those of `Topology.start`, `wm.Kafka`, `Query.serve` and the policies, from a file of TOML.

All of them are checked before Spark starts. Options of the command line win over those of the file.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from watersmeet._spark.query.query import Query
from watersmeet._spark.query.start_options import StartOptions
from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.listening.servers import check_packages
from watersmeet._spark.serving.serving import MAX_BYTES, check_served
from watersmeet.cli.topologies import check_named
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.io.policies import DeadLetter, Policies
from watersmeet.topology import Topology

POLICIES = ("on_undecodable", "on_error", "on_drop")
_TOP = ("topology", "checkpoint", "master")
_TABLES = ("start", "kafka", "policies", "serve", "spark")
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

    def with_given(self, **given: Any) -> RunOptions:
        """These, and in place of them the options that the command line gives; of tables each of them."""
        changed: dict[str, Any] = {}
        for name, value in given.items():
            if isinstance(value, Mapping):
                wanted = {each: of for each, of in value.items() if of is not None}
                changed[name] = {**_beside(getattr(self, name), wanted), **wanted}
            else:
                changed[name] = getattr(self, name) if value in (None, "") else value
        return RunOptions(**{**self.__dict__, **changed})

    @property
    def connection(self) -> Kafka | None:
        """The connection to Kafka."""
        if not self.kafka:
            return None
        if "bootstrap_servers" not in self.kafka:
            raise ConfigError(
                "kafka.bootstrap_servers is missing.", hint='bootstrap_servers = "host:9092" in [kafka], or --kafka.'
            )
        return Kafka(**self.kafka)

    @property
    def run_policies(self) -> Policies:
        """The policies, read."""
        return Policies(**{name: policy(name, text) for name, text in self.policies.items()}).check()

    def check(self) -> None:
        """Raise unless all of it fits; Spark is not needed to know.

        Raises
        ------
        ConfigError, TopologyError : an option that others need is missing, or a value does not fit.
        """
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


def _beside(read: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the file that the command line does not exclude: a run that ends does not wait."""
    excluded = ("trigger", "idle_after") if given.get("available_now") else ()
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
    """The options in a file.

    Raises
    ------
    ConfigError : it cannot be read, or has an unknown name, a variable that is not set, or a value of another kind.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config={str(path)!r} cannot be read: {error.strerror}.", hint="Name a file of TOML, such as run.toml."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}.", hint="A text stands in quotes; a table begins with its name in brackets."
        ) from None
    _check_names(path, "", given, (*_TOP, "restart", *_TABLES))
    whole = {name: _filled(path, name, value) for name, value in given.items()}
    for name in _TOP:
        if not isinstance(whole.get(name, ""), str):
            raise ConfigError(f"{name} in {path} must be a text, not {_kind(whole[name])}.", hint="Put it into quotes.")
    for name in _TABLES:
        if not isinstance(whole.get(name, {}), dict):
            raise _no_table(path, name, whole[name])
    for name, known in _known().items():
        _check_names(path, f"{name}.", whole.get(name, {}), known)
    _check_kafka(path, whole.get("kafka", {}))
    _check_values(path, "spark", whole.get("spark", {}))
    _check_kinds(path, "start", whole.get("start", {}), Topology.start)
    spark = {name: _spark_text(value) for name, value in whole.get("spark", {}).items()}
    return RunOptions(**{**whole, "spark": spark})


def _known() -> dict[str, list[str]]:
    start = set(inspect.signature(Topology.start).parameters) - {"self", "spark", "checkpoint", "kafka"}
    serve = set(inspect.signature(Query.serve).parameters) - {"self"}
    return {"start": sorted(start), "serve": sorted(serve), "policies": list(POLICIES)}


def _check_names(path: Path, table: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise _unknown(path, table + name, known)


def _unknown(path: Path, name: str, known: Iterable[str]) -> ConfigError:
    names, last = list(known), name.rpartition(".")[2]
    near = get_close_matches(last.replace("-", "_"), names, n=1)
    cure = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
    return ConfigError(f"Unknown option {name} in {path}.", hint=cure)


def _check_kafka(path: Path, given: Mapping[str, Any]) -> None:
    """Any name may be a setting of a client; one that is nearly an option of our own is a slip."""
    known = [each for each in inspect.signature(Kafka.__init__).parameters if each not in ("self", "options")]
    for name in given:
        if name not in known and get_close_matches(name.replace("-", "_"), known, n=1, cutoff=0.8):
            raise _unknown(path, f"kafka.{name}", known)
    for side in _SIDES:
        if not isinstance(given.get(side, {}), dict):
            raise _no_table(path, f"kafka.{side}", given[side])
        _check_values(path, f"kafka.{side}", given.get(side, {}))
    _check_values(path, "kafka", {name: value for name, value in given.items() if name not in _SIDES})


def _check_values(path: Path, table: str, given: Mapping[str, Any]) -> None:
    """A name with dots is a table in a table, and its setting would be lost."""
    for name, value in given.items():
        if isinstance(value, dict):
            raise ConfigError(
                f"{table}.{name} in {path} is a table, not a value.",
                hint=f'A name with dots stands in quotes: "{_whole_name(name, value)}" = ...',
            )


def _whole_name(name: str, value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return name
    first, within = next(iter(value.items()))
    return f"{name}.{_whole_name(first, within)}"


def _no_table(path: Path, name: str, value: object) -> ConfigError:
    return ConfigError(f"{name} in {path} must be a table, not {_kind(value)}.", hint=f"Write [{name}].")


def _kind(value: object) -> str:
    """The type of a value, which may be a secret itself."""
    return f"a value of type {type(value).__name__}"


def _check_kinds(path: Path, table: str, given: Mapping[str, Any], function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    for name, value in given.items():
        kinds = str(parameters[name].annotation).split(" | ")
        if (isinstance(value, bool) and "bool" not in kinds) or (kinds == ["bool"] and not isinstance(value, bool)):
            wanted = "true or false" if kinds == ["bool"] else "a number or a text"
            raise ConfigError(f"{table}.{name} in {path} must be {wanted}: {value!r:.40}.", hint="Without quotes.")


def _spark_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(path: Path, name: str, value: Any) -> Any:
    """A value with the variables of the environment and the contents of files in it."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(path, name, found), value)
    if isinstance(value, list):
        return [_filled(path, name, each) for each in value]
    if isinstance(value, dict) and set(value) == {"file"}:
        return _content(path, name, str(_filled(path, name, value["file"])))
    if isinstance(value, dict):
        return {key: _filled(path, f"{name}.{key}", each) for key, each in value.items()}
    return value


def _variable(path: Path, name: str, found: re.Match[str]) -> str:
    if found[1] is None:
        return "$"
    if found[1] not in os.environ:
        raise ConfigError(
            f"{name} in {path} needs the variable {found[1]}, which is not set.",
            hint=f"Set it before the start: export {found[1]}=...; a plain dollar sign is $$.",
        )
    return os.environ[found[1]]


def _content(path: Path, name: str, file: str) -> str:
    try:
        return (path.parent / file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"{name} in {path} names the file {file!r}, which cannot be read: {why}.",
            hint="A relative path begins at the folder of the configuration.",
        ) from None
