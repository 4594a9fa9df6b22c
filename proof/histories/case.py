"""A case: a blueprint, the records that go through it, how they are cut into batches, on how many shards.

Owns the shape of what is run, and its text as data. Law: a case says everything that a run depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from proof.histories.blueprint import Blueprint, as_data, of_data


class Input(NamedTuple):
    """One record."""

    source: str
    key: Any
    value: str | None
    ts: int
    partition: int = 0


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
    partitioned : whether inputs have partitions and are merged by time; then the sequence needs further cuts
        (`sequence`). Else all records are one partition, in the order in which they are piped.
    clock : what the wall clock shows, in ms, and behind how many records; a batch ends there.
    idle_after : how long the input rests until time goes on with the wall clock, in ms; 0: it does not.
    rescaled : by turns behind each batch, over how many shards the state is divided anew; 0: it stays as it is.
    """

    blueprint: Blueprint
    records: tuple[Input, ...]
    cuts: tuple[int, ...] = ()
    shards: int = 1
    replay: bool = False
    shuffle: int = 0
    partitioned: bool = False
    clock: tuple[tuple[int, int], ...] = ()
    idle_after: int = 0
    rescaled: tuple[int, ...] = ()

    def batches(self, cuts: Sequence[int] | None = None) -> Iterator[tuple[tuple[Input, ...], int | None]]:
        """The records of each batch, and what the wall clock shows at its end; `cuts`: in place of its own."""
        edges = [0, *(self.cuts if cuts is None else cuts), len(self.records)]
        shown = list(self.clock)
        for start, end in pairwise(edges):
            now = [wall for place, wall in shown if place == end]
            yield self.records[start:end], now[0] if now else None
            for wall in now[1:]:
                yield (), wall
            shown = [(place, wall) for place, wall in shown if place != end]

    def without_records(self, start: int, end: int) -> Case:
        """The case without some of its records; what the clock shows before the first one, nothing sees."""

        def moved(place: int) -> int:
            return place if place <= start else max(start, place - (end - start))

        return replace(
            self,
            records=self.records[:start] + self.records[end:],
            cuts=tuple(map(moved, self.cuts)),
            clock=tuple((moved(place), wall) for place, wall in self.clock if moved(place)),
        )


def to_json(case: Case) -> dict[str, Any]:
    """The case as JSON knows it."""
    return {
        "blueprint": as_data(case.blueprint),
        "records": [list(record) for record in case.records],
        "cuts": list(case.cuts),
        "shards": case.shards,
        "replay": case.replay,
        "shuffle": case.shuffle,
        "partitioned": case.partitioned,
        "clock": [list(shown) for shown in case.clock],
        "idle_after": case.idle_after,
        "rescaled": list(case.rescaled),
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
        data.get("partitioned", False),
        tuple((place, wall) for place, wall in data.get("clock", ())),
        data.get("idle_after", 0),
        tuple(data.get("rescaled", ())),
    )
