"""Random histories of several partitions from Kafka to Kafka: the partitions are those of topics, the batches Spark's.

Owns how histories are bundled, since a query costs seconds whatever goes through it: each part of a bundle is a
topology of its own beside the others, with its records and its cuts into batches. Law: what a part writes is what the
oracle says of its records in the order in which they are written down, whatever stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from dev.reader import Record
from proof.histories.blueprint import Blueprint, beside, name_of
from proof.histories.case import Case, Input
from proof.histories.check import cuts_of, run_oracle
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.functions import ColumnLifts
from proof.histories.kinds.registry import build, goes_by_wall, is_limited, sinks_of, sources_of
from proof.histories.last_results import out_of_step
from proof.oracle.records import Result, Windowed
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.topology import Topology

PARTITIONS = 3
BEGIN = 1_700_000_000_000
"""Where the times of histories begin: Kafka takes a timestamp of 0 for "now"."""
_MOST_BATCHES = 5
Written = tuple[str, str | None, str | None, int | None]
"""Topic, key, value and timestamp of a record that was written."""


@dataclass(frozen=True)
class KafkaBundle:
    """Histories of unconnected topologies that run as one query.

    Parameters
    ----------
    parts : a case each, of one type of keys and one generation, with all cuts that its records need.
    prefix : what names of topics begin with.
    """

    parts: tuple[Case, ...]
    prefix: str = ""

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return max(len(part.cuts) for part in self.parts) + 1

    @property
    def shards(self) -> int:
        """How many shards the query has."""
        return min(part.shards for part in self.parts)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return tuple(map(self._topic, sources_of(self._together())))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that it writes."""
        return tuple(map(self._topic, sinks_of(self._together())))

    def topology(self) -> Topology:
        """All parts as one topology."""
        together = self._together()
        builder = StreamsBuilder("histories", generation=together.generation)
        build(together, builder, ColumnLifts(), self._named)
        return builder.build()

    def batch(self, number: int) -> Iterator[Input]:
        """The records of a batch, `source` being the topic's name."""
        for part, first in self._with_firsts():
            edges = [0, *part.cuts, *([len(part.records)] * (self.batches - len(part.cuts)))]
            start, end = list(pairwise(edges))[number]
            for record in part.records[start:end]:
                yield record._replace(source=self._named(first + int(record.source[1:])))

    def expected(self) -> list[Written]:
        """What the oracle says that is written, in order."""
        found: list[Written] = []
        for part, first in self._with_firsts():
            steps, _ = run_oracle(part)
            found += [_line(self._named(first + int(str(r.sink)[1:])), r) for results in steps for r in results]
        return found

    def _with_firsts(self) -> Iterator[tuple[Case, int]]:
        first = 0
        for part in self.parts:
            yield part, first
            first += len(part.blueprint.ops)

    def _together(self) -> Blueprint:
        return beside([part.blueprint for part in self.parts])

    def _named(self, number: int) -> str:
        return self._topic(name_of(number))

    def _topic(self, name: str) -> str:
        return self.prefix + name


def kafka_bundle_of(seed: int, number: int, *, parts: int = 8, prefix: str = "") -> KafkaBundle:
    """The bundle of a seed and a number."""
    dice = Dice(f"{seed}/kafka/{number}")
    drawn = (draw_case(dice, draw_blueprint(dice, keys="string", generation="current"), most=30) for _ in count())
    fitting = (_as_topics_have_it(case) for case in drawn if _runs_through_kafka(case))
    some = (case for case in fitting if len(case.records) > 3 and len(case.cuts) < _MOST_BATCHES)
    return KafkaBundle(tuple(next(some) for _ in range(parts)), prefix)


def first_kafka_difference(bundle: KafkaBundle, written: Iterable[Record]) -> str | None:
    """The first output with a key of which other records were written than expected, in order; None if there is none.

    Records without a key lie in any partition: of them the order does not count.
    """
    got = _by_key((record.topic, _key_of(record.key), _text(record.value), record.time) for record in written)
    wanted = _by_key(bundle.expected())
    for line in sorted({*got, *wanted}, key=repr):
        if got.get(line, []) != wanted.get(line, []):
            return f"{line[0]}, key {line[1]!r}: {got.get(line)} in place of {wanted.get(line)}"
    return None


def _runs_through_kafka(case: Case) -> bool:
    """Whether topics can hold the case, and it is compared result by result."""
    blueprint = case.blueprint
    return case.partitioned and not (out_of_step(blueprint) or goes_by_wall(blueprint) or is_limited(blueprint))


def _as_topics_have_it(case: Case) -> Case:
    """With times that Kafka takes, without a clock, and with all cuts."""
    records = tuple(r._replace(ts=BEGIN + r.ts) for r in case.records if 0 <= r.ts < BEGIN)
    plain = replace(case, records=records, cuts=tuple(c for c in case.cuts if c < len(records)), clock=(), idle_after=0)
    return replace(plain, cuts=tuple(dict.fromkeys(cuts_of(plain))))


def _line(topic: str, result: Result) -> Written:
    return topic, _key_text(result.key), result.value, result.ts


def _key_text(key: object) -> str | None:
    if isinstance(key, Windowed):
        return json.dumps({"key": _key_text(key.key), "start": key.start, "end": key.end}, sort_keys=True)
    return None if key is None else str(key)


def _key_of(raw: bytes | None) -> str | None:
    """A key as it is, or as `_key_text` has it with a window: JSON without the freedom that its writers have."""
    said = _text(raw)
    return json.dumps(json.loads(said), sort_keys=True) if said and said[0] == "{" else said


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _by_key(written: Iterable[Written]) -> dict[tuple[str, str | None], Sequence[object]]:
    lines: dict[tuple[str, str | None], list[tuple[str | None, int | None]]] = {}
    for topic, key, value, ts in written:
        lines.setdefault((topic, key), []).append((value, ts))
    return {line: sorted(rows, key=repr) if line[1] is None else rows for line, rows in lines.items()}
