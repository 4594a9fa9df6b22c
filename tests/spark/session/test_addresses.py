"""Where state lies: under labels that a checkpoint knows by node, table and range of the hash, not by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from proof.arrow import arrow_builder
from tests.engine.stream_kit import PLUS
from watersmeet._plan.physical import Physical
from watersmeet._worker.wire import addresses, sparks_hash, spread_labels

SHARDS, TASKS = 5, 3


def plan(*, more: bool) -> Physical:
    """Two joins; with `more` a further one is built before them."""
    builder = arrow_builder("addresses")
    sides: list[Any] = [builder.table(name, key="string", value="string") for name in ("a", "b", "c")]
    if more:
        sides[2].left_join(sides[0], PLUS).to_stream().to("more")
    joined = sides[0].join(sides[1], PLUS)
    joined.join(sides[2], PLUS).to_stream().to("out")
    return builder.build().physical


def looked_up() -> Physical:
    """A table joined with a global one."""
    builder = arrow_builder("copies")
    left = builder.table("left", key="string", value="string")
    names = builder.global_table("names", key="string", value="string", store="names")
    left.left_join(names, PLUS, foreign_key=lambda key, value: key).to("out")
    return builder.build().physical


def test_state_is_known_by_node_table_and_range_of_the_hash() -> None:
    labels = spread_labels(plan(more=False), SHARDS, TASKS)
    known = addresses(plan(more=False), labels)
    assert list(known) == ["table_table-a-b", "table_table-a-b-c"]
    assert known["table_table-a-b"] == {
        name: [labels.label(0, shard) for shard in range(SHARDS)]
        for name in ("table_table-a-b.left", "table_table-a-b.right")
    }


def test_what_lies_in_a_checkpoint_keeps_its_labels_when_other_operators_come_before_it() -> None:
    known = addresses(plan(more=False), spread_labels(plan(more=False), SHARDS, TASKS))
    labels = spread_labels(plan(more=True), SHARDS, TASKS, known)
    now = addresses(plan(more=True), labels)
    assert {node: now[node] for node in known} == known
    assert labels.spread is not None
    assert len(set(labels.spread)) == len(labels.spread)
    assert min(labels.ends) > max(labels.spread)
    assert (sparks_hash(np.array(labels.ends, dtype=np.int32)) % TASKS).tolist() == list(range(TASKS))


def test_the_same_topology_has_the_same_labels_from_the_record_as_from_the_beginning() -> None:
    labels = spread_labels(plan(more=False), SHARDS, TASKS)
    assert spread_labels(plan(more=False), SHARDS, TASKS, addresses(plan(more=False), labels)) == labels


def test_a_global_table_lies_once_in_each_task() -> None:
    labels = spread_labels(looked_up(), SHARDS, TASKS)
    copies = addresses(looked_up(), labels)["global_table_lookup-left-names"]["names"]
    assert sorted(sparks_hash(np.array(copies, dtype=np.int32)) % TASKS) == list(range(TASKS))


def test_a_checkpoint_with_a_copy_of_a_global_table_in_each_shard_keeps_it() -> None:
    before = {
        "global_table_lookup-left-names": {
            "names": [3, 1, 4, 11, 5],
            "global_table_lookup-left-names": [3, 1, 4, 11, 5],
        }
    }
    labels = spread_labels(looked_up(), SHARDS, TASKS, before)
    assert labels.of_target(0) == [3, 1, 4, 11, 5]
    assert labels.counts.of(0) == SHARDS
