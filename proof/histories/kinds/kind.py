"""The registry of operator kinds: for each, how the handles build it and how the oracle does.

Owns the one place where an operator is made known to the random histories. Law: both columns of an entry
say the same thing in two languages and share nothing but the functions of values. To add an operator: one
entry in `KINDS`, here or in a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from proof.histories.kinds.choices import Choices
from proof.histories.kinds.functions import Lifts, time_of
from proof.histories.kinds.shapes import PLAIN, TypeShape
from proof.oracle.graph import Topology
from proof.runners.library import as_written
from watersmeet.api.builder import StreamsBuilder
from watersmeet.io.formats import Format

Params = Mapping[str, Any]


@dataclass(frozen=True)
class BuildSite:
    """Where an operator is built by handles.

    Parameters
    ----------
    builder : the builder of the topology.
    library : lifts functions to columns.
    name : the operator's name.
    keys : type of the keys.
    shape : types of keys and values, where there is no Spark.
    kept : what its store is called, if not by the operator's name.
    """

    builder: StreamsBuilder
    library: Lifts
    name: str
    keys: str
    shape: TypeShape = PLAIN
    kept: str | None = None

    def formats(self) -> dict[str, Any]:
        """How a source reads its keys and values."""
        key = self.shape.key_format() if self.shape.keys == self.keys else Format(self.keys)
        return {"key": key, "value": self.shape.value_format()}

    def sent(self) -> tuple[Any, Any]:
        """The types of the keys and values that a processor sends."""
        words = "string" if self.shape.values == "string" else self.shape.value_type
        return self.keys if self.shape.keys in ("string", "long") else self.shape.key_type, words

    def store(self, params: Params) -> str | None:
        """The name of its store, where it keeps one."""
        return (self.kept or f"{self.name}-store") if params.get("stored") else None


@dataclass(frozen=True)
class OracleSite:
    """Where an operator is built by the oracle.

    `relaxed` says whether null keys are wanted below, `shape` what keys and values stand for.
    """

    topology: Topology
    name: str
    keys: str
    relaxed: bool
    shape: TypeShape = PLAIN


Draw = Callable[[Choices, str], Params]
Handles = Callable[[BuildSite, list[Any], Params], list[Any]]
Nodes = Callable[[OracleSite, list[Any], Params], list[Any]]


def perhaps_history(choices: Choices, generation: str) -> Params:
    """Perhaps a history in ms, which makes a table versioned."""
    return {"history": choices.pick((0, 5, 30, 200))} if generation == "current" and choices.chance(25) else {}


def history_of(params: Params) -> timedelta | None:
    """The history as handles take it."""
    return timedelta(milliseconds=params["history"]) if "history" in params else None


def options_of(site: BuildSite, params: Params) -> dict[str, Any]:
    """The options with which an input is read that has its times so."""
    if "time" not in params:
        return {}
    return {"timestamp": site.library.lift(time_of, "long"), "on_invalid_timestamp": params["time"]}


def nothing(_choices: Choices, _generation: str) -> Params:
    """No parameters."""
    return {}


def stored(choices: Choices, _generation: str) -> Params:
    """Perhaps a store."""
    return {"stored": True} if choices.chance(30) else {}


def remembered(choices: Choices, generation: str) -> Params:
    """Perhaps a store, and perhaps a history."""
    return {**stored(choices, generation), **perhaps_history(choices, generation)}


def how(*types: str) -> Draw:
    """A join type among these, and nothing else."""
    return lambda choices, _: {"how": choices.pick(types)}


@dataclass(frozen=True)
class OperatorKind:
    """One kind of operator.

    Parameters
    ----------
    takes : "stream", "table", "windowed" (a table by key and window) or "global" for each input.
    gives : the same for each output.
    handles : (site, handles of the inputs, parameters) -> handles of the outputs.
    nodes : (site, oracle's nodes of the inputs, parameters) -> nodes of the outputs.
    draw : (choices, generation) -> parameters.
    weight : how often it is drawn, beside the others.
    relaxes : whether it is a join that takes null keys on its left, by its parameters and generation.
    timed : whether it keeps rows until time has passed, tombstones or not.
    writes : whether it is an output too, beside what it gives; what gives nothing is one in any case.
    deferred : whether Kafka Streams makes its results only after the record's own path is finished.
    holds : whether it holds results back until time lets them go, by its parameters.
    generations : the generations in which there is such an operator.
    """

    takes: tuple[str, ...]
    gives: tuple[str, ...]
    handles: Handles
    nodes: Nodes
    draw: Draw = nothing
    weight: int = 2
    relaxes: Callable[[Params, str], bool] = lambda _params, _generation: False
    timed: bool = False
    writes: bool = False
    deferred: bool = False
    holds: Callable[[Params], bool] = lambda _params: False
    generations: tuple[str, ...] = ("current", "spurious", "old")


def sink(site: BuildSite, inputs: list[Any], _: Params) -> list[Any]:
    """Write the input out, under the operator's name."""
    as_written(inputs[0]).to(site.name)
    return []


def sink_node(site: OracleSite, inputs: list[Any], _: Params) -> list[Any]:
    """Write the input out, under the operator's name."""
    site.topology.sink(inputs[0], site.name)
    return []


def method_of(how: str) -> str:
    """Kafka's name of a join type."""
    return {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
