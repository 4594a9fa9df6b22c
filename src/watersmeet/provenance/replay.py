"""The records of a journal, run once more through the topology in this process.

Law 1: results do not depend on batches, so records run in the order in which the query has processed them, all at once
or one after the other, with the same results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.clock import Clock
from watersmeet._engine.keys.keybytes import encode_keys
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import array, ints
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet._worker.wire.measures import WireRow
from watersmeet.testing.in_process import Local, LocalRun, by_label
from watersmeet.testing.piped import Piped
from watersmeet.testing.records import Collected
from watersmeet.testing.stores import StoredTable

TableRow = tuple[tuple[tuple[Any, ...], Any], ...]
"""What a table has of a key: the times of its windows or versions, and the value of each."""
_CASE_ROWS = 20_000
"""Records that run at a time, over all cases."""


@dataclass(frozen=True)
class AskedRow:
    """A key of a table.

    Parameters
    ----------
    table : the table.
    order : the key as bytes.
    """

    table: StoredTable
    order: bytes

    @property
    def kind(self) -> pa.DataType:
        """Type of the table's keys."""
        return dict(self.table.schema.columns)["key"]

    def of(self, run: LocalRun, case: int) -> TableRow:
        """The row as a run has left it."""
        return tuple((entry.times, entry.value) for entry in run.entries(self.table, case, self.order))


def rows_of(topology: Local, asked: AskedRow, cases: Sequence[Sequence[Piped]]) -> list[TableRow]:
    """The row in each of several histories."""
    found: list[TableRow] = []
    for some in _together(cases):
        run = QuietRun(topology)
        run.run(some)
        found += [asked.of(run, case) for case in range(len(some))]
    return found


def _together(cases: Sequence[Sequence[Piped]]) -> Iterator[list[Sequence[Piped]]]:
    held: list[Sequence[Piped]] = []
    for case in cases:
        if held and sum(map(len, held)) + len(case) > _CASE_ROWS:
            yield held
            held = []
        held.append(case)
    if held:
        yield held


def in_steps(records: Sequence[Piped]) -> list[Piped]:
    """Records of a history as one of its own."""
    return [replace(piped, step=step) for step, piped in enumerate(records)]


@dataclass(frozen=True)
class Arrivals:
    """The rows that an operator has got: the steps of the records that caused them, and their keys as bytes.

    Parameters
    ----------
    steps : in the order of arrival.
    keys : of each.
    kinds : types of the keys.
    """

    steps: Int64s
    keys: pa.Array
    kinds: frozenset[pa.DataType]

    def of_keys(self, orders: Collection[bytes]) -> Int64s:
        """The steps of the records that have sent a row of one of these keys."""
        mine = pc.is_in(self.keys, value_set=pa.array(list(orders), self.keys.type)).to_numpy(zero_copy_only=False)
        return np.unique(self.steps[mine.astype(np.bool_)])

    def of_key(self, order: bytes) -> frozenset[int]:
        """The same of one key."""
        return frozenset(self.of_keys([order]).tolist())

    @cached_property
    def all(self) -> frozenset[int]:
        """The steps of all records that have sent a row."""
        return frozenset(self.steps.tolist())


class QuietRun(LocalRun):
    """A run of which the tables alone are looked at: results for outputs are left as they are."""

    def _collected(self, wire: list[WireRow]) -> Iterator[tuple[tuple[int, str], list[Collected]]]:
        yield from ()


class WatchedRun(QuietRun):
    """A run of one history that notes which rows each operator gets."""

    def __init__(self, topology: Local) -> None:
        super().__init__(topology)
        self._arrived: dict[int, list[Arrivals]] = defaultdict(list)
        self._edges = {edge.id for edge in topology.physical.edges}

    def take(self, frame: pa.Table) -> None:
        """Run the records of a frame, all at once."""
        if len(frame):
            self._advance(partial(self._packed, frame), [0])
        self._ran = [len(frame)]

    def take_directly(self, frame: pa.Table) -> None:
        """Note the rows that come to operators from the sources, and run no operator."""
        drops = DeadLetterWriter(self.topology.pack.common.dead_letters)
        wire = self._counted(self.topology.pack.packed(frame, Clock(), drops), drops)
        for label, blobs in by_label(wire).items():
            self._arrives(label, blobs)

    def arrivals(self, operator: int) -> Arrivals:
        """The rows of an operator."""
        found = self._arrived.get(operator)
        if not found:
            return Arrivals(np.zeros(0, dtype=np.int64), pa.array([], pa.binary()), frozenset())
        keys = pa.chunked_array([each.keys for each in found]).combine_chunks()
        kinds = frozenset().union(*(each.kinds for each in found))
        return Arrivals(np.concatenate([each.steps for each in found]), keys, kinds)

    def _arrives(self, label: int, blobs: Sequence[tuple[int, bytes]]) -> None:
        target = self.topology.pack.common.labels.place(label)[0]
        for port, content in blobs:
            if port in self._edges:
                rows = blob.decode(content)
                given = array(rows, "key")
                keys = encode_keys(given).cast(pa.binary())
                self._arrived[target].append(Arrivals(ints(rows, "offset"), keys, frozenset({given.type})))


def keeps_key(physical: Physical, edge: Edge) -> bool:
    """Whether rows come to an operator with the key that the operator before, or none, has given them."""
    above = operator_above(physical, edge)
    return steps_keep_key(physical, edge) and (above is None or not (above.spec.rekeys or above.spec.fans_out))


def steps_keep_key(physical: Physical, edge: Edge) -> bool:
    """Whether no step on the way of an edge gives rows another key."""
    flow = physical.flows[edge.flow]
    while flow.parent is not None:
        node = physical.plan.by_name[flow.node]
        if not node.keyed_by or node.fans_out:
            return False
        flow = physical.flows[flow.parent]
    return True


def edges_above(physical: Physical, operator: Operator) -> Iterator[tuple[Edge, Operator | None]]:
    """The ways into an operator, and the operators that they come from; None: a source."""
    for edge in physical.edges:
        if edge.target == operator.id:
            yield edge, operator_above(physical, edge)


def operator_above(physical: Physical, edge: Edge) -> Operator | None:
    """The operator that a way comes from; None: a source."""
    root = physical.flows[physical.flows[edge.flow].root]
    return None if root.operator is None else physical.operators[root.operator]
