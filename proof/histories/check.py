"""Runs a case through the engine and the oracle and compares.

Owns the list of what must hold: the engine equals the oracle, step by step and in order, however the records
are cut and sharded (where it works in another order than Kafka Streams, `settled` says what must be equal all
the same); the rows that stand are those that the latest rows of the inputs give (`recomputation`); a replayed batch
gives identical bytes; where the oracle keeps nothing, the engine keeps nothing. Law: an error of the engine is a
difference like any other, never swallowed.
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
from proof.histories.kinds.functions import ArrowLifts
from proof.histories.kinds.registry import (
    build,
    deferred,
    goes_by_wall,
    oracle_of,
    shape_of,
    sinks_of,
    sources_of,
    timed,
)
from proof.histories.kinds.shapes import PLAIN, TypeShape
from proof.histories.last_results import first_unsettled, out_of_step, settles, settling_sinks
from proof.histories.recomputation import wrong_row
from proof.histories.sequence import cuts_in_sequence
from proof.histories.subjects.times import timed_case as told_times
from proof.histories.subjects.times import with_extracted_times
from proof.oracle.graph import EngineFailsError, Node
from proof.oracle.graph import Topology as OracleTopology
from proof.oracle.records import Result
from proof.oracle.tables.stores import PlainStore
from proof.oracle.windows.aggregation import FoldRaisesError
from watersmeet.api.topology import Topology
from watersmeet.errors import WatersmeetError

Steps = list[list[Result]]
Line = Callable[[Result], Hashable]


@dataclass(frozen=True)
class Difference:
    """What was wrong with a case.

    Parameters
    ----------
    case : the case.
    check : "results", "rows", "replay", "split", "state", "drops", "stopped", "error" (of the engine) or "oracle" (an
        error there).
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
        self._text = (blueprint.keys, blueprint.values, blueprint.on_error, blueprint.generation, *blueprint.lines())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Built) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def topology_of(blueprint: Blueprint) -> Topology:
    """The blueprint's topology, with Arrow functions."""
    return _topology(_Built(blueprint))


@lru_cache(maxsize=16)
def _topology(built: _Built) -> Topology:
    builder = arrow_builder("histories", generation=built.blueprint.generation, on_error=built.blueprint.on_error)
    build(built.blueprint, builder, ArrowLifts(shape_of(built.blueprint)))
    return builder.build()


def check(case: Case) -> Difference | None:
    """The first thing that is wrong with a case, None when nothing is."""
    try:
        expected, is_empty, ended = _oracle(case)
        cuts = cuts_of(case)
    except StoppedError as stopped:
        return _check_stopped(case, stopped)
    except Exception as error:  # a case that the oracle cannot run is a finding too
        return Difference(case, "oracle", f"{type(error).__name__}: {error}")
    try:
        topology = topology_of(case.blueprint)
        got = run_engine(case, driver := driver_of(case, topology), cuts)
        rows = driver.rows_in_stores() if is_empty and _is_emptied(case.blueprint) else 0
        whole = _whole(case, topology) if out_of_step(case.blueprint) else None
    except ReplayDiffersError as error:
        return Difference(case, "replay", str(error), expected=expected)
    except Exception as error:  # whatever the engine raises is the finding
        return Difference(case, "error", f"{type(error).__name__}: {error}", expected=expected)
    line = lines_of(case.blueprint, one=topology.physical.ordered_exit)
    if whole is not None:
        # other intermediate results raise elsewhere, too
        steps, ended = whole
        step = first_difference(steps, got, line)
        if step is not None:
            return Difference(case, "split", f"step {step}: other results than in one batch", step, steps, got)
        step = first_unsettled(expected, got, settling_sinks(case.blueprint))
    else:
        step = first_difference(expected, got, line)
    if step is not None:
        return Difference(case, "results", f"results of step {step} differ", step, expected, got)
    if (wrong := wrong_row(case, got)) is not None:
        return Difference(case, "rows", wrong[1], wrong[0], expected, got)
    if ended != (told := _ended(driver)):
        return Difference(case, "drops", f"{told} records ended since a fold raised, not {ended}", None, expected, got)
    if rows:
        return Difference(case, "state", f"{rows} rows are kept where nothing is left", None, expected, got)
    return None


def _is_emptied(blueprint: Blueprint) -> bool:
    """Whether the engine keeps nothing where the oracle keeps nothing."""
    return not timed(blueprint) and (settles(blueprint) or not out_of_step(blueprint))


def _whole(case: Case, topology: Topology) -> tuple[Steps, int]:
    """Results of the case as one batch on one shard, and how many records ended since a function of a fold raised."""
    simple = replace(case, cuts=(), shards=1, replay=False, shuffle=0)
    driver = driver_of(simple, topology)
    return run_engine(simple, driver, cuts_of(simple)), _ended(driver)


def _check_stopped(case: Case, stopped: StoppedError) -> Difference | None:
    """What is wrong with a case that ends with an error: without what it ends at, and that it ends there."""
    records = stopped.records
    if stopped.by_clock:
        behind = case.without_records(records, len(case.records))
        before = replace(behind, clock=tuple(shown for shown in behind.clock if shown[0] < records))
    else:
        behind = case.without_records(records + 1, len(case.records))
        before = behind.without_records(records, records + 1)
    found = check(before) if before.records else None
    if found is not None:
        return found
    try:
        run_engine(
            behind,
            driver_of(behind, topology_of(behind.blueprint)),
            cuts_of(before if stopped.by_clock else behind, stops=not stopped.by_clock),
        )
    except (WatersmeetError, FoldRaisesError):
        return None
    except Exception as error:  # any other error is a finding
        return Difference(behind, "error", f"{type(error).__name__}: {error}")
    return Difference(behind, "stopped", "the engine goes on where the oracle stops")


def _ended(driver: RoughDriver) -> int:
    """How many records ended since a function raised for them."""
    return sum(count for (_, reason), count in driver.drops.items() if reason == "function_error")


def run_oracle(case: Case) -> tuple[Steps, bool]:
    """Results per step, and whether the oracle's tables are empty in the end."""
    return _oracle(case)[:2]


def _oracle(case: Case) -> tuple[Steps, bool, int]:
    """The same, and how many records ended since a function of a fold raised for them."""
    topology, nodes = oracle_of(case.blueprint)
    return [results for results, _ in _by_record(case, topology)], rows_in_stores(nodes) == 0, topology.ended


class StoppedError(Exception):
    """The oracle stops behind so many records, as a query does that fails."""

    def __init__(self, records: int, *, by_clock: bool = False) -> None:
        """`by_clock`: at what the wall clock shows behind these, and not at the next record."""
        super().__init__(records)
        self.records, self.by_clock = records, by_clock


def _by_record(case: Case, topology: OracleTopology) -> Iterator[tuple[list[Result], bool]]:
    """What the oracle makes of each record and of the clock behind it, and whether the record gets somewhere."""
    topology.partitioned, shape = case.partitioned, shape_of(case.blueprint)
    for number, record in enumerate(with_extracted_times(case.blueprint, case.records), start=1):
        try:
            key = shape.key(record.key)
            results = list(topology.pipe(record.source, key, record.value, record.ts, record.partition))
        except EngineFailsError:
            raise StoppedError(number - 1) from None
        arrived = topology.arrived
        for wall in [wall for place, wall in case.clock if place == number]:
            try:
                results += topology.show_wall_clock(wall, case.idle_after)
            except EngineFailsError:
                raise StoppedError(number, by_clock=True) from None
        yield results, arrived


def cuts_of(case: Case, *, stops: bool = False) -> tuple[int, ...]:
    """Where batches begin: where the case says, and where the sequence of its records needs it (`sequence`).

    `stops`: the oracle stops at the last record, which gets somewhere.
    """
    if not case.partitioned:
        return tuple(sorted([*case.cuts, *({place for place, _ in case.clock} - set(case.cuts))]))
    topology, _ = oracle_of(case.blueprint)
    told = replace(case, records=case.records[:-1]) if stops else case
    moving = [*(arrived for _, arrived in _by_record(told, topology)), *([True] if stops else [])]
    return cuts_in_sequence(told_times(case), sources_of(case.blueprint), case.blueprint.sources(("global",)), moving)


def driver_of(case: Case, topology: Topology) -> RoughDriver:
    """The driver that is as rough as the case wants it."""
    return RoughDriver(
        topology,
        shards=case.shards,
        replay=case.replay,
        shuffle=case.shuffle,
        partitioned=case.partitioned,
        idle_after_ms=case.idle_after,
        rescaled=case.rescaled,
    )


def rows_in_stores(nodes: Sequence[Node]) -> int:
    """Rows in all stores of the oracle's tables."""
    stores = (getattr(node, name, None) for node in nodes for name in ("_store", "_results", "_many", "_one"))
    rows = [store._rows if isinstance(store, PlainStore) else store for store in stores]
    rows += [of_side for node in nodes for of_side in getattr(node, "_kept", ())]
    return sum(len(kept) for kept in rows if isinstance(kept, dict))


def run_engine(case: Case, driver: RoughDriver, cuts: Sequence[int] | None = None) -> Steps:
    """Results per step of what a driver makes of a case; `cuts`: in place of its own."""
    shape, by_wall = shape_of(case.blueprint), goes_by_wall(case.blueprint)
    for records, wall in case.batches(cuts):
        for record in records:
            key, value = shape.piped_key(record.key), shape.coded(record.value)
            driver.pipe(record.source, key, value, ts=record.ts, partition=record.partition)
        if wall is not None:
            if by_wall:
                # a batch is told at its beginning
                driver.run_batch()
            driver.show_wall_clock(wall)
        if wall is None or case.idle_after or case.shuffle % 2:
            driver.run_batch()
    if by_wall:
        driver.run_batch()
    return by_step(len(case.records), {sink: driver.read(sink) for sink in sinks_of(case.blueprint)}, shape)


def lines_of(blueprint: Blueprint, *, one: bool) -> Line:
    """What names the line that a result stands in: only within a line the order counts.

    Parameters
    ----------
    one : whether results leave with their places among those of other outputs: through a last exchange.
    """
    if deferred(blueprint) or not one:
        return lambda result: result.sink
    return lambda result: None


def by_step(steps: int, outputs: dict[str, Any], shape: TypeShape = PLAIN) -> Steps:
    """The records of all outputs as results per step, in the order in which they were made."""
    made: Steps = [[] for _ in range(steps)]
    records = [(record, sink) for sink, read in outputs.items() for record in read]
    for record, sink in sorted(records, key=lambda pair: pair[0].position):
        made[record.step].append(Result(shape.read_key(record.key), shape.read_value(record.value), record.ts, sink))
    return made


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
