"""The records that `why` names, beside the oracle: a record that is not named may be left out of the history."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from proof.oracle import Semantics, build
from proof.oracle.records import Windowed
from watersmeet._engine.rows import Int64s
from watersmeet._spark.local import Local, NotInProcess, PipedFrame, local
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet.provenance import (
    AskedRow,
    InputRecord,
    JournaledRecord,
    causes_of,
    inlets_of,
    outcomes_of,
    selected,
)

KEYS = ("a", "b", "c")
Step = tuple[str, str, str | None, int]


def plus(left: Column, right: Column) -> Column:
    return F.concat(F.coalesce(left, F.lit("null")), F.lit("+"), F.coalesce(right, F.lit("null")))


def ref(value: Column) -> Column:
    return F.when(F.instr(value, "|") > 0, F.substring_index(value, "|", 1))


@dataclass(frozen=True)
class Kind:
    """A topology of both: of the oracle by its name and parameters, and the same by its handles, with a table `row`."""

    params: dict[str, Any]
    topics: tuple[str, ...]
    made: Callable[..., Any]


def tables(builder: wm.StreamsBuilder, *topics: str) -> list[wm.KTable]:
    return [builder.table(topic, key="string", value="string") for topic in topics]


def table_table(builder: wm.StreamsBuilder) -> Any:
    left, right = tables(builder, "left", "right")
    return left.left_join(right, plus, store="row")


def foreign_key(builder: wm.StreamsBuilder) -> Any:
    left, right = tables(builder, "left", "right")
    return left.join(right, plus, foreign_key=ref, store="row")


def joined_then_counted(builder: wm.StreamsBuilder) -> Any:
    left, right = tables(builder, "left", "right")
    joined = left.join(right, plus, foreign_key=ref)
    return joined.group_by(lambda key, value: (ref(value), value)).count(store="row")


def stream_table_count(builder: wm.StreamsBuilder) -> Any:
    left, (right,) = builder.stream("left", key="string", value="string"), tables(builder, "right")
    return left.join(right, plus).group_by_key().count(store="row")


def rekey_count(builder: wm.StreamsBuilder) -> Any:
    source = builder.stream("input", key="string", value="string")
    return source.select_key(lambda key, value: ref(value)).group_by_key().count(store="row")


def windows(builder: wm.StreamsBuilder) -> Any:
    grouped = builder.stream("input", key="string", value="string").group_by_key()
    counted = grouped.windowed_by(wm.TimeWindows.of_size_and_grace("10 ms", "5 ms")).count(store="row")
    return counted.to_stream()


KINDS = {
    "table_table": Kind({"type": "left"}, ("left", "right"), table_table),
    "fk_join": Kind({"type": "inner"}, ("left", "right"), foreign_key),
    "fk_then_aggregate": Kind({"type": "inner", "agg": "count"}, ("left", "right"), joined_then_counted),
    "stream_table_count": Kind({"type": "inner"}, ("left", "right"), stream_table_count),
    "rekey_count": Kind({"agg": "count"}, ("input",), rekey_count),
    "windowed_aggregate": Kind(
        {"window": "tumbling", "size_ms": 10, "grace_ms": 5, "agg": "count"}, ("input",), windows
    ),
}


def history(kind: str, dice: random.Random, length: int, keys: Sequence[str] = KEYS) -> list[Step]:
    steps: list[Step] = []
    for number in range(length):
        value = None if dice.random() < 0.15 and kind != "windowed_aggregate" else f"{dice.choice(keys)}|{number}"
        ts = max(0, number * 4 + dice.randrange(-12, 12))
        steps.append((dice.choice(KINDS[kind].topics), dice.choice(keys), value, ts))
    return steps


@dataclass(frozen=True)
class GivenHistory:
    """Records of a test."""

    given: tuple[JournaledRecord, ...]
    form: PipedFrame

    def __len__(self) -> int:
        return len(self.given)

    def ts(self) -> Int64s:
        return np.array([each.piped.ts for each in self.given], dtype=np.int64)

    def frame(self, steps: Int64s) -> pa.Table:
        if not len(steps):
            return arrow_schema(self.form.schema).empty_table()
        return self.form.frame([[self.given[step].piped for step in steps.tolist()]])

    def records(self, steps: Sequence[int]) -> list[JournaledRecord]:
        return [self.given[step] for step in steps]


def ready_for(spark: SparkSession, kind: str, steps: Sequence[Step], key: str) -> tuple[Local, AskedRow, GivenHistory]:
    """The topology, a key of its table, and the records of a history."""
    builder = wm.StreamsBuilder("removal")
    KINDS[kind].made(builder).to("out")
    topology = builder.build()
    ready = local(spark, topology.physical.with_one_domain(), shards=1, headers=False)
    assert not isinstance(ready, NotInProcess)
    inlets = {inlet.source.input: inlet for inlet in inlets_of(topology.plan)}
    records = (
        JournaledRecord(
            InputRecord(topic, topic, 0, number, 0, ts, given, value),
            inlets[topic].record(given, value, ts, (), number),
        )
        for number, (topic, given, value, ts) in enumerate(steps)
    )
    kept = ready.stores["row"]
    return ready, AskedRow(kept, kept.order_of(key)), GivenHistory(tuple(records), ready.form)


def last(kind: str, steps: Sequence[Step], key: str) -> dict[tuple[int, ...], Any]:
    """What the oracle has of a key at last, by the beginnings of windows."""
    oracle, found = build(kind, KINDS[kind].params, Semantics()), dict[tuple[int, ...], Any]()
    for step in steps:
        for result in oracle.pipe(*step):
            of, times = (result.key.key, (result.key.start,)) if isinstance(result.key, Windowed) else (result.key, ())
            if of == key:
                found[times] = result.value
    return {times: str(value) for times, value in found.items() if value is not None}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fk_then_aggregate"])
def test_of_a_long_history_the_records_of_a_few_keys_are_replayed(spark: SparkSession, kind: str) -> None:
    dice = random.Random(kind)
    steps = history(kind, dice, 240, [f"key{number}" for number in range(60)])
    key = next(key for _, key, _, _ in reversed(steps) if last(kind, steps, key))
    ready, row_of, given = ready_for(spark, kind, steps, key)
    selection = selected(ready, row_of, given)
    assert selection is not None
    assert len(selection) < 40
    found, whole = causes_of(ready, row_of, given, selection), causes_of(ready, row_of, given)
    assert found.row
    assert (found.row, found.causes) == (whole.row, whole.causes)


@pytest.mark.parametrize("kind", ["table_table", "stream_table_count", "rekey_count"])
def test_an_operator_that_runs_once_for_many_histories_ends_each_as_by_itself(spark: SparkSession, kind: str) -> None:
    dice = random.Random(kind)
    ready, row_of, given = ready_for(spark, kind, history(kind, dice, 60), KEYS[0])
    assert row_of.is_of_one_key(ready.physical)
    cases = [np.array(sorted(dice.sample(range(len(given)), 24)), dtype=np.int64) for _ in range(40)]
    frame = given.frame(np.arange(len(given)))
    together, alone = (
        [outcome.row for outcome in outcomes_of(ready, row_of, frame, cases, without_drops=once)]
        for once in (True, False)
    )
    assert together == alone
    assert len(set(map(repr, alone))) > 3


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_stays_as_it_is_without_a_record_that_is_not_named(spark: SparkSession, kind: str, seed: int) -> None:
    dice = random.Random(f"{kind} {seed}")
    steps, key = history(kind, dice, 14), dice.choice(KEYS)
    ready, row_of, given = ready_for(spark, kind, steps, key)
    found = causes_of(ready, row_of, given)
    # the records that keys select give the same answer
    selection = selected(ready, row_of, given)
    assert (selection is None) == (kind == "fk_then_aggregate")
    if selection is not None:
        assert replace(causes_of(ready, row_of, given, selection), tried=found.tried) == found
    row = {times: str(value) for times, value in found.row}
    # rows of closed windows have left the table, and not the oracle's results
    assert row == {times: value for times, value in last(kind, steps, key).items() if times in row}
    if kind != "windowed_aggregate":
        assert row == last(kind, steps, key)
    named = {cause.record.offset: cause.role for cause in found.causes}
    for left_out in range(len(steps)):
        without = last(kind, [*steps[:left_out], *steps[left_out + 1 :]], key)
        is_same = row == {
            times: value for times, value in without.items() if kind != "windowed_aggregate" or times in row
        }
        if named.get(left_out) not in ("made", "time"):
            assert is_same, f"record {left_out} has a part in the row, and is not named"
        elif kind != "windowed_aggregate":
            assert not is_same, f"record {left_out} is named, and has no part in the row"
