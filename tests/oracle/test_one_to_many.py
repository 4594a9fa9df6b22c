"""One-to-many joins: the proposal's own table, and what they have in common with the foreign-key join."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from proof.oracle import Result, Semantics, Topology
from proof.oracle.functions import plus, ref
from proof.oracle.records import CombinedKey, key_bytes
from proof.oracle.tables.foreign_key import foreign_key_join
from proof.oracle.tables.one_to_many import OneToManyJoin
from proof.oracle.tables.table import TableSource
from tests.oracle.kit import RECORDINGS


def source(topology: Topology, topic: str) -> TableSource:
    table = TableSource(topology)
    topology.source(topic, table)
    return table


def one_to_many() -> Topology:
    topology = Topology(Semantics())
    many, one = source(topology, "many"), source(topology, "one")
    topology.sink(OneToManyJoin(topology, many, one, ref, lambda row, refers: f"join({row},{refers})"))
    return topology


def result(prefix: str, suffix: str, value: str | None, ts: int) -> Result:
    return Result(CombinedKey(prefix, suffix), value, ts)


def test_the_proposals_table_step_by_step() -> None:
    topology = one_to_many()
    steps = [
        ("one", "A0", "A0", 0),
        ("one", "A1", "A1", 1),
        ("many", "B0", "A2|B0", 2),
        ("many", "B1", "A2|B1", 3),
        ("one", "A2", "A2", 4),
        ("many", "B1", None, 5),
        ("many", "B3", "A0|B3", 6),
        ("one", "A2", None, 7),
    ]
    assert [topology.pipe(*step) for step in steps] == [
        [],
        [],
        [],
        [],
        [result("A2", "B0", "join(A2,A2|B0)", 4), result("A2", "B1", "join(A2,A2|B1)", 4)],
        [result("A2", "B1", None, 5)],
        [result("A0", "B3", "join(A0,A0|B3)", 6)],
        [result("A2", "B0", None, 7)],
    ]


def test_a_changed_foreign_key_ends_the_old_result_before_the_new_one_comes() -> None:
    topology = one_to_many()
    for step in [("one", "p", "P", 10), ("one", "q", "Q", 5), ("many", "k", "p|1", 3)]:
        topology.pipe(*step)
    assert topology.pipe("many", "k", "q|2", 4) == [
        result("p", "k", None, 10),
        result("q", "k", "join(Q,q|2)", 5),
    ]


def test_only_a_standing_result_gets_a_tombstone() -> None:
    topology = one_to_many()
    steps = [
        ("many", "k", "p|1", 1),
        ("many", "k", "q|2", 2),
        ("many", "k", None, 3),
        ("many", "k", "x", 4),
        ("one", "p", None, 5),
    ]
    assert [topology.pipe(*step) for step in steps] == [[], [], [], [], []]


@pytest.mark.parametrize("seed", range(20))
def test_grouped_by_its_suffix_it_is_the_inner_foreign_key_join(seed: int) -> None:
    draw = random.Random(seed)
    topology = Topology(Semantics())
    many, one = source(topology, "many"), source(topology, "one")
    topology.sink(OneToManyJoin(topology, many, one, ref, lambda row, refers: plus(refers, row)), "combined")
    topology.sink(foreign_key_join(topology, many, one, "inner", ref, plus), "foreign")
    combined: dict[CombinedKey, object] = {}
    foreign: dict[object, object] = {}
    for ts in range(200):
        if draw.random() < 0.5:
            value = draw.choice([None, f"p|{ts}", f"q|{ts}", f"r|{ts}", f"{ts}"])
            results = topology.pipe("many", draw.choice("klmn"), value, ts)
        else:
            results = topology.pipe("one", draw.choice("pqr"), draw.choice([None, f"b{ts}"]), ts)
        for emitted in results:
            (combined if emitted.sink == "combined" else foreign)[emitted.key] = emitted.value
        grouped = {key.suffix: value for key, value in combined.items() if value is not None}
        assert grouped == {key: value for key, value in foreign.items() if value is not None}


def test_a_combined_key_sorts_by_the_engines_bytes() -> None:
    recorded = json.loads(gzip.decompress((RECORDINGS / "bytes.json.gz").read_bytes()))["combined_key"]
    texts = [entry for entry in recorded if entry["serde"] == "string"]
    assert texts
    for entry in texts:
        assert key_bytes(CombinedKey(entry["fk"], entry["pk"])).hex() == entry["bytes_hex"]
