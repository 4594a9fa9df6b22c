"""What can be measured against recordings: the oracle, and lazily the engine and Spark.

Owns the protocol of a runner and the registry of names. Law: a runner says beforehand what it cannot run;
it never leaves results out.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, TypeAlias, cast

from proof.oracle.functions import taken_time
from proof.oracle.graph import EngineFailsError, Topology
from proof.oracle.records import Result
from proof.oracle.semantics import Semantics
from proof.oracle.topologies import build
from proof.oracle.vectors.build_vector import build_vector
from proof.oracle.vectors.untold import IncompleteVectorError, NotBuildableError
from proof.recordings import History

Output: TypeAlias = Sequence[Sequence[Result] | None]
"""The results of each step of one history; None where the engine itself fails."""

RUNNERS = {
    "oracle": "proof.conformance_runners:OracleRunner",
    "oracle-repaired": "proof.conformance_runners:RepairedOracleRunner",
    "engine": "proof.runners.engine:EngineRunner",
    "spark": "proof.runners.spark:SparkRunner",
    "spark-task": "proof.runners.spark:SparkTaskRunner",
    "spark-functions": "proof.runners.spark:SparkFunctionsRunner",
}


class Runner(Protocol):
    """Runs histories and returns what each step emitted."""

    def supports(self, history: History) -> str | None:
        """None when the history can be run, else the reason why it is not to be.

        Raises
        ------
        NotToldError : its topology cannot be set up from what the recording tells.
        """
        ...

    def observed(self, history: History) -> History:
        """The history with what this runner can see of its results: some see no old values."""
        ...

    def run_many(self, histories: Sequence[History]) -> Sequence[Output]:
        """The results of every step of every history, in their order."""
        ...


class RunnerMissingError(Exception):
    """No such runner, or it is not there."""


def load(name: str) -> Runner:
    """The runner of this name."""
    if name not in RUNNERS:
        raise RunnerMissingError(f"no runner {name!r}. Hint: choose one of {', '.join(RUNNERS)}")
    module, _, attribute = RUNNERS[name].partition(":")
    try:
        return cast(Runner, getattr(importlib.import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise RunnerMissingError(
            f"the runner {name!r} ({RUNNERS[name]}) cannot be loaded: {error}. Hint: 'oracle' is always there"
        ) from error


def build_topology(history: History, semantics: Semantics) -> Topology:
    """The oracle's topology for a history of either format.

    Raises
    ------
    NotBuildableError : there is none, or the recording does not tell enough.
    """
    try:
        if history.vector is not None:
            topology = build_vector(history.vector, semantics)
        else:
            topology = build(history.kind, history.params, semantics)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise IncompleteVectorError(untold(error)) from error
    unknown = {step.topic for step in history.steps if step.advance_ms is None} - set(topology.sources)
    if unknown:
        raise IncompleteVectorError(f"a step's input {sorted(map(str, unknown))[0]!r} is none of the topology's")
    return topology


def untold(error: Exception) -> str:
    """Why something cannot be set up, from what broke."""
    if isinstance(error, KeyError):
        return f"the recording does not tell its {error}, or says there what is not known here"
    return f"it cannot be set up: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"


def run_oracle(history: History, semantics: Semantics) -> list[list[Result] | None]:
    """What the oracle emits at each step; None where the imitated engine fails."""
    topology = build_topology(history, semantics)
    output: list[list[Result] | None] = []
    for step in history.steps:
        try:
            if step.advance_ms is not None:
                topology.wall_clock += step.advance_ms
                by_wall = topology.show_wall_clock(topology.wall_clock, 0) if topology.walled else []
                output.append(list(by_wall))
            else:
                assert step.topic is not None, "a record has a topic"
                ts = taken_time(history.params.get("timestamp"), step.value, step.ts)
                output.append([] if ts < 0 else topology.pipe(step.topic, step.key, step.value, ts))
        except EngineFailsError:
            output.append(None)
    return output


class OracleRunner:
    """The oracle, imitating the version that was recorded."""

    faithful = True

    def supports(self, history: History) -> str | None:
        """Not what cannot be built."""
        try:
            build_topology(history, self._semantics(history))
        except IncompleteVectorError:
            raise
        except NotBuildableError as reason:
            return str(reason)
        return None

    def observed(self, history: History) -> History:
        """The oracle sees everything."""
        return history

    def run_many(self, histories: Sequence[History]) -> Sequence[Output]:
        """Run each history alone."""
        return [run_oracle(history, self._semantics(history)) for history in histories]

    def _semantics(self, history: History) -> Semantics:
        return Semantics(history.version, faithful=self.faithful)


class RepairedOracleRunner(OracleRunner):
    """The oracle with every row repaired: what the engine under test should emit."""

    faithful = False
