"""Runs a case through the engine and the oracle and compares.

Owns the list of what must hold: the engine equals the oracle, step by step and in order, however the records
are cut and sharded (where it works in another order than Kafka Streams, `settled` says what must be equal all
the same); a replayed batch gives identical bytes; where the oracle keeps nothing, the engine keeps nothing.
Law: an error of the engine is a difference like any other, never swallowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from proof.arrow import arrow_builder
from proof.histories.blueprint import Blueprint
from proof.histories.case import Case
from proof.histories.driver import ReplayDiffersError, RoughDriver
from proof.histories.kinds.functions import ArrowFunctions
from proof.histories.kinds.registry import build, deferred, oracle_of, sinks_of, sources_of, timed
from proof.histories.sequence import cuts_in_sequence
from proof.histories.settled import first_unsettled, out_of_step, settles, settling_sinks
from proof.oracle.graph import Node
from proof.oracle.graph import Topology as OracleTopology
from proof.oracle.records import Result, Windowed
from proof.oracle.tables.stores import PlainStore
from watersmeet.topology import Topology

Steps = list[list[Result]]
Line = Callable[[Result], Hashable]


@dataclass(frozen=True)
class Difference:
    """What was wrong with a case.

    Parameters
    ----------
    case : the case.
    check : "results", "replay", "split", "state", "error" (of the engine) or "oracle" (an error there).
    message : one line.
    step : the first step whose results differ, for "results".
    expected, got : results per step, as far as they are known.
    """

    case: Case
    check: str
    message: str
    step: int | None = None
    expected: Steps | None = None
    got: Steps | None = None


class _Built:
    """A blueprint's topology, compared by the blueprint's text."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self._text = (blueprint.keys, blueprint.generation, *blueprint.lines())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Built) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def topology_of(blueprint: Blueprint) -> Topology:
    """The blueprint's topology, with Arrow functions."""
    return _topology(_Built(blueprint))


@lru_cache(maxsize=16)
def _topology(built: _Built) -> Topology:
    builder = arrow_builder("histories", generation=built.blueprint.generation)
    build(built.blueprint, builder, ArrowFunctions())
    return builder.build()


def check(case: Case) -> Difference | None:
    """The first thing that is wrong with a case, None when nothing is."""
    try:
        expected, is_empty = run_oracle(case)
        cuts = cuts_of(case)
    except Exception as error:  # a case that the oracle cannot run is a finding too
        return Difference(case, "oracle", f"{type(error).__name__}: {error}")
    try:
        topology = topology_of(case.blueprint)
        got = run_engine(case, driver := driver_of(case, topology), cuts)
        rows = driver.rows_kept() if is_empty and _is_emptied(case.blueprint) else 0
        whole = _whole(case, topology) if out_of_step(case.blueprint) else None
    except ReplayDiffersError as error:
        return Difference(case, "replay", str(error), expected=expected)
    except Exception as error:  # whatever the engine raises is the finding
        return Difference(case, "error", f"{type(error).__name__}: {error}", expected=expected)
    line = lines_of(case.blueprint, one=topology.physical.ordered_exit)
    if whole is not None:
        step = first_difference(whole, got, line)
        if step is not None:
            return Difference(case, "split", f"step {step}: other results than in one batch", step, whole, got)
        step = first_unsettled(expected, got, settling_sinks(case.blueprint))
    else:
        step = first_difference(expected, got, line)
    if step is not None:
        return Difference(case, "results", f"results of step {step} differ", step, expected, got)
    if rows:
        return Difference(case, "state", f"{rows} rows are kept where nothing is left", None, expected, got)
    return None


def _is_emptied(blueprint: Blueprint) -> bool:
    """Whether the engine keeps nothing where the oracle keeps nothing."""
    return not timed(blueprint) and (settles(blueprint) or not out_of_step(blueprint))


def _whole(case: Case, topology: Topology) -> Steps:
    """Results of the case as one batch on one shard."""
    simple = replace(case, cuts=(), shards=1, replay=False, shuffle=0)
    return run_engine(simple, driver_of(simple, topology), cuts_of(simple))


def run_oracle(case: Case) -> tuple[Steps, bool]:
    """Results per step, and whether the oracle's tables are empty in the end."""
    topology, nodes = oracle_of(case.blueprint)
    return [results for results, _ in _by_record(case, topology)], kept_rows(nodes) == 0


def _by_record(case: Case, topology: OracleTopology) -> Iterator[tuple[list[Result], bool]]:
    """What the oracle makes of each record and of the clock behind it, and whether the record gets somewhere."""
    topology.partitioned = case.partitioned
    for number, record in enumerate(case.records, start=1):
        results = list(topology.pipe(record.source, record.key, record.value, record.ts, record.partition))
        arrived = topology.arrived
        for wall in [wall for place, wall in case.clock if place == number and case.idle_after]:
            results += topology.show_wall_clock(wall, case.idle_after)
        yield results, arrived


def cuts_of(case: Case) -> tuple[int, ...]:
    """Where batches begin: where the case says, and where the sequence of its records needs it (`sequence`)."""
    if not case.partitioned:
        return tuple(sorted([*case.cuts, *({place for place, _ in case.clock} - set(case.cuts))]))
    topology, _ = oracle_of(case.blueprint)
    moving = [arrived for _, arrived in _by_record(case, topology)]
    return cuts_in_sequence(case, sources_of(case.blueprint), case.blueprint.sources(("global",)), moving)


def driver_of(case: Case, topology: Topology) -> RoughDriver:
    """The driver that is as rough as the case wants it."""
    return RoughDriver(
        topology,
        shards=case.shards,
        replay=case.replay,
        shuffle=case.shuffle,
        partitioned=case.partitioned,
        idle_after_ms=case.idle_after,
    )


def kept_rows(nodes: Sequence[Node]) -> int:
    """Rows in all stores of the oracle's tables."""
    stores = (getattr(node, name, None) for node in nodes for name in ("_store", "_results", "_many", "_one"))
    rows = (store._rows if isinstance(store, PlainStore) else store for store in stores)
    return sum(len(kept) for kept in rows if isinstance(kept, dict))


def run_engine(case: Case, driver: RoughDriver, cuts: Sequence[int] | None = None) -> Steps:
    """Results per step of what a driver makes of a case; `cuts`: in place of its own."""
    for records, wall in case.batches(cuts):
        for record in records:
            driver.pipe(record.source, record.key, record.value, ts=record.ts, partition=record.partition)
        if wall is not None and case.idle_after:
            driver.show_wall_clock(wall)
        driver.run_batch()
    return by_step(len(case.records), {sink: driver.read(sink) for sink in sinks_of(case.blueprint)})


def lines_of(blueprint: Blueprint, *, one: bool) -> Line:
    """What names the line that a result stands in: only within a line the order counts.

    Parameters
    ----------
    one : whether results leave with their places among those of other outputs: through a last exchange.
    """
    if deferred(blueprint) or not one:
        return lambda result: result.sink
    return lambda result: None


def by_step(steps: int, outputs: dict[str, Any]) -> Steps:
    """The records of all outputs as results per step, in the order in which they were made."""
    made: Steps = [[] for _ in range(steps)]
    records = [(record, sink) for sink, read in outputs.items() for record in read]
    for record, sink in sorted(records, key=lambda pair: pair[0].position):
        made[record.step].append(Result(_key(record.key), record.value, record.ts, sink))
    return made


def _key(key: Any) -> Any:
    """The key as the oracle has it."""
    return Windowed(**key) if isinstance(key, dict) else key


def first_difference(expected: Steps, got: Steps, line: Line) -> int | None:
    """The first step whose results differ, line by line."""
    for step, (one, other) in enumerate(zip(expected, got, strict=True)):
        if one != other and _in_lines(one, line) != _in_lines(other, line):
            return step
    return None


def _in_lines(results: list[Result], line: Line) -> dict[Hashable, list[Result]]:
    lines: dict[Hashable, list[Result]] = {}
    for result in results:
        lines.setdefault(line(result), []).append(result)
    return lines
