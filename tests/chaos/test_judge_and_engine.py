"""The judge of the fault bench against the engine without Spark: both know the same results of the same batches.

So a difference that a round finds is one of Spark, Kafka or a kill, and not of what the judge takes for right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest

from chaos.feed import BAD, records
from chaos.joins import JOINS, SIDES, Join, handles, oracle
from chaos.judge import Ends, expected, judge
from dev.reader import Record
from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.histories.kinds.functions import ArrowLifts
from proof.oracle.domains import has_domains
from proof.oracle.streams.process import Process

PARTITIONS, RECORDS, BATCHES, SHARDS = 4, 800, 6, 4


def inputs_of(join: Join) -> dict[str, list[Record]]:
    """Topics whose keys stand in one partition each."""
    found: dict[str, list[Record]] = {side: [] for side in SIDES}
    for drawn in islice(records(join, "the judge and the engine"), RECORDS):
        topic, partition = found[drawn.side], int(drawn.key[1:]) % PARTITIONS
        offset = sum(record.partition == partition for record in topic)
        value = drawn.value.encode() if isinstance(drawn.value, str) else drawn.value
        topic.append(Record(drawn.side, partition, offset, drawn.key.encode(), value, drawn.ts, ()))
    return found


def batches_of(inputs: dict[str, list[Record]]) -> list[Ends]:
    """Batches that reach a bit further in one partition than in the next one."""
    counts = {(side, p): sum(r.partition == p for r in inputs[side]) for side in SIDES for p in range(PARTITIONS)}
    cuts = [{place: count * n // BATCHES - place[1] for place, count in counts.items()} for n in range(1, BATCHES)]
    return [*cuts, counts]


def engines(join: Join, inputs: dict[str, list[Record]], plan: Sequence[Ends]) -> list[Record]:
    """What the engine writes, as a topic of one partition."""
    builder = arrow_builder("chaos")
    handles(join, builder, {side: side for side in SIDES}, ArrowLifts()).to("out")
    driver = EngineDriver(builder.build(), shards=SHARDS, partitioned=True)
    begins = dict.fromkeys(plan[0], 0)
    for ends in plan:
        for side in SIDES:
            for record in inputs[side]:
                place = side, record.partition
                if not begins[place] <= record.offset < ends[place] or (record.value or b"").startswith(BAD):
                    continue
                key, value = (None if each is None else each.decode() for each in (record.key, record.value))
                driver.pipe(side, key, value, ts=record.time, partition=record.partition)
        driver.run_batch()
        begins = dict(ends)
    made = ((r.key, r.value, r.ts) for r in driver.read("out"))
    coded = ((*(None if each is None else each.encode() for each in (key, value)), ts) for key, value, ts in made)
    return [Record("out", 0, n, key, value, ts, ()) for n, (key, value, ts) in enumerate(coded)]


@pytest.mark.parametrize("name", [*JOINS])
def test_the_judge_expects_what_the_engine_makes_of_the_same_batches_of_several_partitions(name: str) -> None:
    join = JOINS[name]
    inputs = inputs_of(join)
    plan = batches_of(inputs)
    verdict = judge(expected(join, inputs, plan), engines(join, inputs, plan))
    assert verdict.sound, (verdict, verdict.details)
    assert verdict.results > 200


def test_processors_are_put_to_the_test_with_one_time_for_all_partitions_and_with_one_for_each() -> None:
    found = {}
    for name in ("process", "process_joined"):
        topology = oracle(JOINS[name])
        (process,) = (timed.node for timed in topology.timed if isinstance(timed.node, Process))
        found[name] = has_domains(topology, process)
    assert found == {"process": False, "process_joined": True}
