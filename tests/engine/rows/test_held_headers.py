"""Headers of records that a join holds back for a grace: they wait with the record, as in Kafka's buffer (KIP-923)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.oracle import Semantics, Topology
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.streams.stream_table import StreamTableJoin
from proof.oracle.tables.table import TableSource
from tests.engine.headers_kit import Told, one_header
from tests.engine.kit import PLUS
from tests.lengths import examples
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.rows import HEADERS
from watersmeet._engine.state.carry import CarriedTables, carry
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.evolve import compare, described

GRACE = 20


def topology(how: str = "left", *, headers: bool = True) -> Any:
    builder = arrow_builder("held")
    stream = builder.stream("s", key="string", value="string", name="s", headers=headers)
    table = builder.table("t", key="string", value="string", name="t", history="200 ms")
    method = stream.join if how == "inner" else stream.left_join
    method(table, PLUS, name="j", grace=f"{GRACE} ms").to("out", name="out")
    return builder.build()


def oracle(how: str) -> Topology:
    whole = Topology(Semantics(faithful=False))
    stream, table = Node(), TableSource(whole, history_ms=200)
    whole.source("s", stream)
    whole.source("t", table)
    whole.sink(StreamTableJoin(whole, stream, table, how, text.plus, grace_ms=GRACE))
    return whole


def told(step: int) -> list[dict[str, Any]]:
    """Headers of the record of a step: none, one, or one more without value."""
    both: list[dict[str, Any]] = [{"key": "step", "value": b"%d" % step}, {"key": "empty", "value": None}]
    return both[: step % 3]


@settings(max_examples=examples(100), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("sst"), st.sampled_from("abc"), st.booleans(), st.integers(0, 80)), max_size=30
    ),
    cuts=st.frozensets(st.integers(0, 30)),
    shards=st.sampled_from([1, 3]),
    how=st.sampled_from(["inner", "left"]),
)
def test_each_result_has_the_headers_of_the_record_that_was_held_back(
    steps: Any, cuts: Any, shards: int, how: str
) -> None:
    driver, whole = Told(topology(how), shards=shards), oracle(how)
    driver.told = lambda piped: told(piped.step) if piped.source == 0 else one_header("of", "table")
    wanted = []
    for step, (topic, key, present, ts) in enumerate(steps):
        value = f"{step}" if present else None
        if step in cuts:
            driver.run_batch()
        driver.pipe(topic, key, value, ts=ts)
        wanted += whole.pipe(topic, key, value, ts)
    driver.run_batch()
    found = driver.read("out")
    assert [(r.key, r.value["value"], r.ts) for r in found] == [(r.key, r.value, r.ts) for r in wanted]
    # what a result says first is the step of its record
    assert [r.value["headers"] for r in found] == [told(int(each.value.split("+")[0])) for each in wanted]


def held_of(made: Any) -> TableSchema:
    """The table of what is held back."""
    (operator,) = made.physical.operators
    return operator.tables[1]


def test_no_more_is_kept_where_no_topic_keeps_headers() -> None:
    kept, bare = (dict(held_of(topology(headers=headers)).columns) for headers in (True, False))
    assert list(kept) == [*bare, "headers"]


@pytest.mark.parametrize("begins", [True, False])
def test_what_waits_goes_on_without_headers_where_a_changed_topology_begins_or_ends_to_keep_them(begins: bool) -> None:
    old, new = topology(headers=not begins), topology(headers=begins)
    change = compare(described(old.physical, {}), described(new.physical, {}))
    assert change.possible
    assert [item.name for item in change.widened] == ["j.held"]
    store, was, now = MemoryChunkStore(), held_of(old), held_of(new)
    state, keys = State(store), pa.array(["k"])
    rows = {"key": ["k"], "due": [5], "arrival": [0], "domain": [0], "ts": [1], "value": ["v"]}
    headers = {} if begins else {"headers": pa.array([told(2)], HEADERS)}
    state.table(was).put(pa.table({"hash": hash_keys(keys), **rows, **headers}))
    state.commit()
    assert store.manifest is not None
    manifest, store.manifest = store.manifest, None
    carry(store, [(manifest, CarriedTables((("j.held", now),), scalars=True))])
    found = pa.concat_tables(State(store).table(now).scan()).drop_columns(["hash"]).to_pydict()
    assert found == rows | ({"headers": [None]} if begins else {})
