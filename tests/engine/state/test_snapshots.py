"""Tables that begin with a snapshot, at the positions that its rows have in a query: beside the oracle, which is piped
them first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineBatch, EngineDriver
from proof.oracle import functions as text
from proof.oracle.graph import Node, Topology
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.table_table import TableTableJoin
from proof.runners.library import as_written
from tests.engine.kit import PLUS, REF, Step, oracle_tables, tables
from tests.lengths import examples
from watersmeet._engine.exchange import SNAPSHOT, Clock
from watersmeet._engine.rows import ints


class BegunDriver(EngineDriver):
    """A driver whose first records are the snapshots of its tables."""

    def __init__(self, build: Callable[[Any], Any], begins: int, shards: int) -> None:
        builder = arrow_builder("test")
        as_written(build(builder)).to("out")
        super().__init__(builder.build(), shards=shards, partitioned=True)
        self.begins = begins

    def new_batch(self) -> EngineBatch:
        return BegunBatch(self)


class BegunBatch(EngineBatch):
    """Stamps the rows of snapshots as `stamp_sources` does."""

    def _stamped(self, frames: dict[int, pa.Table], piped: list[Any]) -> dict[int, pa.Table]:
        assert isinstance(self._driver, BegunDriver)
        stamped = super()._stamped(frames, piped)
        for root, frame in stamped.items():
            # all of a snapshot's rows stand before time, and only the rows behind them move it
            later = ints(frame, "offset") >= self._driver.begins
            order_ts = np.full(len(frame), SNAPSHOT, dtype=np.int64)
            part, ts = ints(frame, "srcpart")[later], ints(frame, "ts")[later]
            order_ts[later] = Clock().stamp(part, ts, np.ones(len(ts), dtype=np.bool_))
            stamped[root] = frame.set_column(frame.schema.get_field_index("order_ts"), "order_ts", pa.array(order_ts))
        return stamped


def stream_table(builder: Any) -> Any:
    stream = builder.stream("left", key="string", value="string")
    return stream.left_join(builder.table("right", key="string", value="string"), PLUS)


def table_table(builder: Any) -> Any:
    left, right = tables(builder, "left", "right")
    return left.outer_join(right, PLUS)


def foreign_key(builder: Any) -> Any:
    left, right = tables(builder, "left", "right")
    return left.left_join(right, PLUS, foreign_key=REF)


def oracle_of(build: Any) -> Topology:
    topology, (left, right) = oracle_tables("left", "right")
    if build is stream_table:
        stream = Node()
        topology.sources["left"] = [stream]
        topology.sink(StreamTableJoin(topology, stream, right, "left", text.plus))
    elif build is table_table:
        topology.sink(TableTableJoin(topology, (left, right), "outer", text.plus))
    else:
        topology.sink(foreign_key_join(topology, left, right, "left", text.ref, text.plus))
    return topology


KEYS, VALUES = st.sampled_from("pqr"), st.sampled_from([None, "p|1", "q|2", "r|3", "none"])
ROW = st.tuples(KEYS, VALUES, st.integers(0, 500))


@pytest.mark.parametrize("build", [stream_table, table_table, foreign_key])
@settings(max_examples=examples(60), deadline=None)
@given(
    left=st.lists(ROW, max_size=4),
    right=st.lists(ROW, max_size=4),
    rest=st.lists(st.tuples(st.sampled_from(["left", "right"]), KEYS, VALUES), max_size=12),
    cuts=st.sets(st.integers(1, 11)),
    shards=st.sampled_from([1, 3]),
)
def test_a_table_that_begins_with_a_snapshot_is_the_oracles_that_has_had_its_rows_first(
    build: Any, left: list[Any], right: list[Any], rest: list[Any], cuts: set[int], shards: int
) -> None:
    begin: list[Step] = [] if build is stream_table else [("left", *row) for row in left]
    begin += [("right", *row) for row in right]
    later: list[Step] = [(topic, key, value, 10 * at) for at, (topic, key, value) in enumerate(rest)]
    driver, oracle = BegunDriver(build, len(begin), shards), oracle_of(build)
    for step in begin:
        driver.pipe(*step[:3], ts=step[3])
    for at, step in enumerate(later):
        # a batch may end anywhere but within the snapshots, which are in the first
        if at in cuts:
            driver.run_batch()
        driver.pipe(*step[:3], ts=step[3])
    driver.run_batch()
    expected = [(r.key, r.value, r.ts) for step in begin + later for r in oracle.pipe(*step)]
    assert [(r.key, r.value, r.ts) for r in driver.read("out")] == expected
