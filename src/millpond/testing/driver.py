"""TopologyTestDriver: records in, records out, no broker; the plan of production over bounded frames.

All inputs of a case form one source partition whose offset is the piping sequence, so records are processed
in exactly the order in which they were piped. Many independent cases share one Spark run, and each read runs
all records piped so far and returns what is new: a suite of hundreds of cases costs a run or two.

Example::

    driver = TopologyTestDriver(topology)
    driver.pipe("orders", key=1, value={"customer": "ann"}, ts=0)
    driver.read("enriched")        # [TestRecord(key=1, value=Row(...), ts=0, headers=None)]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millpond._spark.bounded import BoundedRun, Drops, Piped
from millpond._spark.functions import session
from millpond.errors import TopologyError
from millpond.topology import Topology

Header = tuple[str, bytes]


@dataclass(frozen=True)
class TestRecord:
    """One record of an output.

    Parameters
    ----------
    key, value : as Spark collects them (a struct is a Row).
    ts : event time in ms.
    headers : of the record that caused it; None where the topology keeps none.
    step : piping sequence number, within the case, of the record that caused it.
    position : its place in the order of all results, over all outputs.
    """

    __test__ = False  # pytest is not to collect it

    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...] | None = None
    step: int = field(default=-1, compare=False)
    position: tuple[int | bytes, ...] = field(default=(), compare=False, repr=False)


class TopologyTestDriver:
    """Runs a topology over piped records.

    Parameters
    ----------
    topology : the topology.
    spark : the session; the active one if None.
    shards : shards of each operator.
    """

    def __init__(self, topology: Topology, spark: Any = None, *, shards: int = 2) -> None:
        sources = topology.plan.sources
        self._outputs = {sink.output: sink.name for sink in topology.plan.sinks}
        self._inputs = {source.input: number for number, source in enumerate(sources)}
        headers = any(getattr(source.origin, "headers", False) for source in sources)
        self._run = BoundedRun(spark or session(), topology.physical, shards, headers)
        self._cases: dict[str, list[Piped]] = defaultdict(list)
        self._seen: dict[tuple[str, str], int] = defaultdict(int)
        self._results: dict[tuple[int, str], list[Any]] | None = None

    @property
    def drops(self) -> Drops:
        """Records dropped in the last run, by (operator, reason), over all cases."""
        return self._run.drops

    def pipe(
        self, input: str, key: Any, value: Any, *, ts: int, headers: Sequence[Header] = (), case: str = ""
    ) -> None:
        """Put one record behind those already piped.

        Parameters
        ----------
        input : name of an input of the topology.
        key, value : Python values of its types; None for null.
        ts : event time in ms.
        headers : (name, bytes) pairs.
        case : name of an independent case.
        """
        if input not in self._inputs:
            known = ", ".join(self._inputs)
            raise TopologyError("There is no such input.", given=repr(input), hint=f"Inputs: {known}.")
        before = self._cases[case]
        latest = max(before[-1].order_ts if before else ts, ts)
        before.append(Piped(self._inputs[input], key, value, ts, tuple(headers), len(before), latest))
        self._results = None

    def read(self, output: str, *, case: str = "") -> list[TestRecord]:
        """The records that an output got since the last read, in order."""
        if output not in self._outputs:
            known = ", ".join(self._outputs)
            raise TopologyError("There is no such output.", given=repr(output), hint=f"Outputs: {known}.")
        if self._results is None:
            self._results = self._run.run(list(self._cases.values()))
        if case not in self._cases:
            return []
        records = self._results.get((list(self._cases).index(case), self._outputs[output]), [])
        seen, self._seen[(case, output)] = self._seen[(case, output)], len(records)
        return [TestRecord(r.key, r.value, r.ts, r.headers, r.step, r.position) for r in records[seen:]]
