"""The rows that Spark shuffles: (label, port, blob, count), and what labels and ports mean.

A **label** stands for (target, shard), target being an operator or, behind the operators, an exit to a sink.
A **port** is an edge's number on the way in, -1 - operator on the way out. A row without blob is a count of
dropped records; its port is the number of the metric. Where sinks are written from these rows, every task of the
first stage also sends an **end** to every task of the last one: with its label, the highest of all, it stands behind
all other rows once they are sorted, so its reader has read everything (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from watersmeet._engine.exchange.shards import ShardCounts, with_copies
from watersmeet._plan.dead_letters import WITHIN, letter_sources
from watersmeet._plan.operators.spec import OUT_OF_ORDER, RAISED
from watersmeet._plan.physical import Physical
from watersmeet._worker.formats.formats import refuses, writes_without_registry
from watersmeet.io.formats import Format, FormatName

WIRE = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("port", IntegerType(), False),
        StructField("blob", BinaryType(), True),
        StructField("count", LongType(), True),
    ]
)


_SEED = 42
END = 2**31 - 1
"""Port of an end."""
UNENCODABLE = "unencodable"
"""Why rows end at an output whose format does not write their key or value."""
DEAD_LETTER = "dead_letter"
"""Why records end that are written to a dead-letter topic, which says more."""


def output_port(operator: int) -> int:
    """Port of an operator's results."""
    return -1 - operator


def operator_of(port: int) -> int:
    """The operator with results on this port."""
    return -1 - port


@dataclass(frozen=True)
class Labels:
    """Label of each (target, shard).

    Parameters
    ----------
    shards : shards per target.
    targets : how many operators and exits there are.
    spread : label of each (target * shards + shard), chosen so that Spark's hash spreads the shards of a
        target evenly over the tasks; None numbers them through, for test runs with many cases.
    ends : labels of the ends, one for each task of an exchange; higher than all others.
    few : how many shards a target has, where these are fewer.
    """

    shards: int
    targets: int
    spread: tuple[int, ...] | None = None
    ends: tuple[int, ...] = ()
    few: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def counts(self) -> ShardCounts:
        """How many shards each target has."""
        return ShardCounts(self.shards, self.few)

    def label(self, target: int, shard: int) -> int:
        """Label of a shard; a shard number beyond `shards` belongs to a further case."""
        case, shard = divmod(shard, self.shards)
        place = target * self.shards + shard
        if self.spread is not None:
            return self.spread[place]
        return case * self.targets * self.shards + place

    def of_target(self, target: int) -> list[int]:
        """Label of each shard of a target."""
        return [self.label(target, shard) for shard in self.counts.of_case(target, 0)]

    def place(self, label: int) -> tuple[int, int]:
        """(target, shard) of a label, the case times `shards` added to the shard; an end's target is none there is."""
        if self.spread is not None:
            return divmod(self._index[label], self.shards)
        case, place = divmod(label, self.targets * self.shards)
        target, shard = divmod(place, self.shards)
        return target, case * self.shards + shard

    @cached_property
    def _index(self) -> dict[int, int]:
        assert self.spread is not None
        return {label: place for place, label in enumerate((*self.spread, *self.ends))}


@dataclass(frozen=True)
class Exits:
    """How sinks are told apart in wire rows.

    Parameters
    ----------
    labels : how (target, shard) are labelled.
    names : of the sinks, by their numbers.
    ports : number of the sink of each port. Sinks of one topic share their labels, so that rows of
        one key meet and are put into one order.
    slots : path slots of the plan.
    dead_letters : whether some of the sinks are of dead letters, which have headers.
    """

    labels: Labels
    names: tuple[str, ...]
    ports: Mapping[int, int]
    slots: int
    dead_letters: bool = False

    @classmethod
    def of(cls, physical: Physical, labels: Labels) -> Exits:
        """The exits of a plan."""
        ports = [physical.sink_port(index) for index in range(len(physical.sink_edges))]
        numbers = {port: physical.sink_of(port) for port in ports}
        return cls(labels, physical.sinks, numbers, physical.slots, bool(letter_sources(physical.plan)))


def target_count(physical: Physical) -> int:
    """Operators and exits of a plan."""
    return len(physical.operators) + len(physical.exits)


Addresses = Mapping[str, Mapping[str, Sequence[int]]]
"""By node and table, the labels under which the table's state lies, one for each range of the hash, in order (law 10).
"""


def spread_labels(physical: Physical, shards: int, tasks: int, known: Addresses | None = None) -> Labels:
    """Labels that Spark's hash partitioning spreads evenly over `tasks`.

    Parameters
    ----------
    known : where a checkpoint has state: what lies there keeps its labels, whatever else the topology has.
    """
    targets = target_count(physical)
    ranges = _ranges(physical, known or {})
    fixed = {target * shards + shard: label for target, labels in ranges.items() for shard, label in enumerate(labels)}
    wanted = targets * shards
    candidates = np.arange(max(wanted * 8, max(fixed.values(), default=0) + 1) + 64 * tasks, dtype=np.int32)
    task_of = sparks_hash(candidates) % tasks
    free = ~np.isin(candidates, list(fixed.values()))
    queues = [candidates[(task_of == task) & free].tolist() for task in range(tasks)]
    spread = tuple(_deal(queues, wanted, shards, fixed))
    counts = with_copies(physical.operators, shards, tasks) | {target: len(found) for target, found in ranges.items()}
    few = {target: count for target, count in counts.items() if count < shards}
    return Labels(shards, targets, spread, tuple(_higher(queue, max(spread, default=-1)) for queue in queues), few)


def addresses(physical: Physical, labels: Labels) -> dict[str, dict[str, list[int]]]:
    """The labels of each table's state; a lent table has those of its lender."""
    found: dict[str, dict[str, list[int]]] = {}
    for operator in physical.operators:
        ranges = labels.of_target(physical.host(operator.id))
        found.setdefault(operator.node, {}).update({table.name: ranges for table in operator.keeps})
    return found


def _ranges(physical: Physical, known: Addresses) -> dict[int, Sequence[int]]:
    """The labels under which the state of an operator lies, by the operator's number; of those that have some."""
    found: dict[int, Sequence[int]] = {}
    for operator in physical.operators:
        tables = known.get(operator.node, {})
        ranges = next((tables[table.name] for table in operator.stored if table.name in tables), ())
        # what two have shared until now, and do not from now on, goes on where it is for the first of them
        if ranges and ranges not in found.values():
            found[operator.id] = ranges
    return found


def sparks_hash(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's hash of integers, by which it partitions: 32 bits of MurmurHash3 with seed 42.

    Spark's `Murmur3Hash`; that it is what Spark answers is tested, so no job has to ask at each start.
    """
    mixed = _rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # the number of bytes
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(bits: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))


def _higher(queue: Sequence[int], than: int) -> int:
    """The last label of a task's, which no shard has got."""
    assert queue[-1] > than
    return queue[-1]


def _deal(queues: Sequence[list[int]], wanted: int, shards: int, fixed: Mapping[int, int]) -> list[int]:
    """Shard s of target t gets a label of task s + t: targets with one shard do not all meet in one task."""
    tasks, used = len(queues), [0] * len(queues)
    labels = []
    for place in range(wanted):
        if place in fixed:
            labels.append(fixed[place])
            continue
        target, shard = divmod(place, shards)
        task = (shard + target) % tasks
        labels.append(queues[task][used[task]])
        used[task] += 1
    return labels


def encoded_parts(physical: Physical, *, failing: bool = False) -> dict[str, tuple[str, ...]]:
    """By the name of an output, key or value, if they are written before the last exchange (`encoding`).

    That is where the format may refuse one, and a row that it refuses is not to fail the query. Keys of one topic are
    all written at one place, so that those of several outputs lie in one column.

    Parameters
    ----------
    failing : also where it is to fail the query, if the format has its schema itself: nothing writes for a test driver.
    """
    found: dict[str, tuple[str, ...]] = {}
    within = physical.plan.within
    for names in physical.exits:
        sinks = [physical.plan.by_name[name] for name in names]
        ends = [sink for sink in sinks if sink.place.formats and (failing or within.outlives(sink.name))]
        may = {sink.name: partial(_may_refuse, registered=within.outlives(sink.name)) for sink in ends}
        keys = ("key",) if any(may[sink.name](sink.place.formats["key"]) for sink in ends) else ()
        for sink in sinks:
            value = ("value",) if sink in ends and may[sink.name](sink.place.formats["value"]) else ()
            found |= {sink.name: (*keys, *value)} if keys or value else {}
    return found


def _may_refuse(given: Format | FormatName | None, *, registered: bool) -> bool:
    return given is not None and refuses(Format.of(given)) and (registered or writes_without_registry(Format.of(given)))


def metric_names(physical: Physical) -> tuple[tuple[str, str], ...]:
    """(node, reason) of everything that may be dropped, in a fixed order: a metric's number is its place."""
    found: dict[tuple[str, str], None] = {}
    for source in physical.plan.sources:
        if source.dead_letters_of is not None:
            if source.dead_letters_of != WITHIN:
                found[(source.dead_letters_of, DEAD_LETTER)] = None
            continue
        raised = (RAISED,) if source.origin.policies.outlives_errors else ()
        told = () if source.origin.timestamp_extractor is None else ("invalid_timestamp",)
        for reason in ("negative_timestamp", "undecodable", *told, *source.origin.drop_reasons, *raised):
            found[(source.name, reason)] = None
    for flow in physical.flows:
        if flow.drops_null_key:
            found[(flow.node, "null_key")] = None
    for edge in physical.edges:
        node = physical.operators[edge.target].node
        if edge.reads.drops_null_key:
            found[(node, "null_key")] = None
        if edge.reads.drops_null_value:
            found[(node, "null_value")] = None
        if edge.drops_late:
            found[(node, OUT_OF_ORDER)] = None
        ends = edge.reads.null_reason
        if ends is not None:
            found[(node, ends)] = None
    for operator in physical.operators:
        found |= {(operator.node, why): None for why in operator.spec.drop_reasons}
        if physical.plan.within.outlives(operator.node):
            found[(operator.node, RAISED)] = None
    # an output is told of by the name that the user knows
    outputs = {sink.name: sink.output for sink in physical.plan.sinks}
    found |= {(outputs[name], UNENCODABLE): None for name in encoded_parts(physical)}
    if physical.plan.within.dead_letters:
        found |= {(node, DEAD_LETTER): None for node, _ in found}
    return tuple(found)
