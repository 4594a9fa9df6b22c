"""A case: a blueprint, the records that go through it, how they are cut into batches, on how many shards.

Owns the shape of what is run, and its text as data. Law: a case says everything that a run depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from millpond.testing.proof.histories.blueprint import Blueprint, as_data, of_data


class Input(NamedTuple):
    """One record."""

    source: str
    key: Any
    value: str | None
    ts: int


@dataclass(frozen=True)
class Case:
    """One history to run.

    Parameters
    ----------
    blueprint : the topology.
    records : what is piped, in order.
    cuts : numbers of the records at which a new batch begins; a number twice is an empty batch.
    shards : shards of each operator.
    replay : whether every batch crashes once before its commit and is run again.
    shuffle : seed of the order in which blobs reach the shards, and of how rows are cut into blobs.
    """

    blueprint: Blueprint
    records: tuple[Input, ...]
    cuts: tuple[int, ...] = ()
    shards: int = 1
    replay: bool = False
    shuffle: int = 0

    def batches(self) -> list[tuple[Input, ...]]:
        """The records of each batch."""
        edges = [0, *self.cuts, len(self.records)]
        return [self.records[start:end] for start, end in pairwise(edges)]

    def without_records(self, start: int, end: int) -> Case:
        """The case without some of its records."""
        cuts = (cut if cut <= start else max(start, cut - (end - start)) for cut in self.cuts)
        return replace(self, records=self.records[:start] + self.records[end:], cuts=tuple(cuts))


def to_json(case: Case) -> dict[str, Any]:
    """The case as JSON knows it."""
    return {
        "blueprint": as_data(case.blueprint),
        "records": [list(record) for record in case.records],
        "cuts": list(case.cuts),
        "shards": case.shards,
        "replay": case.replay,
        "shuffle": case.shuffle,
    }


def of_json(data: Mapping[str, Any]) -> Case:
    """The case that `to_json` wrote."""
    return Case(
        of_data(data["blueprint"]),
        tuple(Input(*record) for record in data["records"]),
        tuple(data["cuts"]),
        data["shards"],
        data["replay"],
        data["shuffle"],
    )
