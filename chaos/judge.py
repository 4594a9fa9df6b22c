"""What should have come out of a round, and what is lost, doubled, wrong or out of order in what did.

The oracle knows records one at a time, the query batches; which records a batch was to hold is in Spark's offset log.
So the oracle is given the records in the order in which watersmeet promises to take them: batch by batch, within one by
position (order_ts, input, partition, offset; a global table first). Then each key's results must be the same, record
for record, in order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chaos.feed import BAD
from chaos.hooks import offsets_in
from chaos.joins import SIDES, Join, oracle
from dev.reader import Record

Ends = Mapping[tuple[str, int], int]
"""Of a batch: the offset behind its last record, by topic and partition."""
_SHOWN = 20


class Said(NamedTuple):
    """A result: of one record of the output only what the oracle knows too."""

    value: str | None
    ts: int


class Expected(NamedTuple):
    """A result that should have come, and the batch in which."""

    key: str
    said: Said
    batch: int


@dataclass(frozen=True)
class Verdict:
    """What is wrong with an output; all zero when nothing is.

    Parameters
    ----------
    results : how many records there should be.
    lost : records that are missing.
    doubled : records that are there more often than they should be.
    wrong : records that should not be there at all.
    out_of_order : places at which a key's records are the right ones in a wrong order, and keys in two partitions.
    batches : numbers of the batches that lost, doubled or wrong records belong to, where that is known.
    details : some of it, in words.
    """

    results: int
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    out_of_order: int = 0
    batches: tuple[int, ...] = ()
    details: tuple[str, ...] = field(default=(), repr=False)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.wrong or self.out_of_order or self.details)


def ends_of(plan: str) -> dict[tuple[str, int], int]:
    """The ends of a batch, from its entry in Spark's offset log."""
    found: dict[tuple[str, int], int] = {}
    for line in map(json.loads, offsets_in(plan)):
        for topic, partitions in line.items() if isinstance(line, dict) else ():
            found |= {(topic, int(partition)): end for partition, end in partitions.items()}
    return found


def seconds_of(plan: str) -> int:
    """How many seconds of the wall clock a batch has, from the first on; of a topology that goes by it."""
    return max((line for line in map(json.loads, offsets_in(plan)) if isinstance(line, int)), default=0)


@dataclass(frozen=True)
class Readings:
    """What the wall clock has shown, in ms.

    Parameters
    ----------
    begun : before the first batch that has a reading.
    shown : in each batch that has one, by its number: at its beginning.
    """

    begun: int = 0
    shown: Mapping[int, int] = field(default_factory=dict)


def readings(begun: int, created: int, seconds: Sequence[int]) -> Readings:
    """The readings of batches.

    Parameters
    ----------
    begun : what is recorded of the beginning.
    created : when the source was, which has a tick a second.
    seconds : how many ticks there are up to the end of each batch.
    """
    shown, before = {}, 0
    for number, ticks in enumerate(seconds):
        if ticks > before:
            # the latest of its ticks; the first one stands at the beginning
            shown[number] = created + (ticks - 1) * 1_000
        before = max(before, ticks)
    return Readings(begun, shown)


def expected(
    join: Join, inputs: Mapping[str, Sequence[Record]], plan: Sequence[Ends], clock: Readings = Readings()
) -> list[Expected]:
    """The results of the oracle, in the order in which it gives them.

    Parameters
    ----------
    inputs : of each side, all records of its topic.
    plan : the batches.
    clock : what the wall clock has shown in them.
    """
    topology, found = oracle(join), []
    topology.show_wall_clock(clock.begun, 0)
    given: dict[int, list[tuple[str, Record]]] = defaultdict(list)
    for number, side, record in _in_order(join, inputs, plan):
        given[number].append((side, record))
    for number in range(len(plan)):
        made = topology.show_wall_clock(clock.shown[number], 0) if number in clock.shown else []
        found += [Expected(r.key, Said(r.value, r.ts or 0), number) for r in made]
        for side, record in given[number]:
            made = topology.pipe(side, _text(record.key), _text(record.value), record.time, record.partition)
            found += [Expected(r.key, Said(r.value, r.ts or 0), number) for r in made]
    return found


def expected_dead_letters(join: Join, inputs: Mapping[str, Sequence[Record]], plan: Sequence[Ends]) -> list[Expected]:
    """The dead letters that there should be, each as it came, in their order."""
    found = _in_order(join, inputs, plan, bad=True)
    return [Expected(_text(r.key) or "", Said(repr(r.value), r.time), number) for number, _, r in found]


def judge_dead_letters(wanted: Sequence[Expected], output: Sequence[Record]) -> Verdict:
    """Compare a topic of dead letters with what it should be; see `judge`."""
    return judge(wanted, [replace(record, value=repr(record.value).encode()) for record in output])


def both(one: Verdict, other: Verdict) -> Verdict:
    """The verdict on two topics."""
    return Verdict(
        results=one.results + other.results,
        lost=one.lost + other.lost,
        doubled=one.doubled + other.doubled,
        wrong=one.wrong + other.wrong,
        out_of_order=one.out_of_order + other.out_of_order,
        batches=tuple(sorted({*one.batches, *other.batches})),
        details=one.details + other.details,
    )


def _in_order(
    join: Join, inputs: Mapping[str, Sequence[Record]], plan: Sequence[Ends], *, bad: bool = False
) -> Iterator[tuple[int, str, Record]]:
    """(batch, side, record) in the order of position: of those that are text, or of the others."""
    begins: dict[tuple[str, int], int] = {}
    places = {side: _by_partition(records) for side, records in inputs.items()}
    for number, ends in enumerate(plan):
        batch = []
        for rank, (side, kind) in enumerate(zip(SIDES, join.sides, strict=True)):
            for (topic, partition), records in places[side].items():
                end = ends.get((topic, partition), 0)
                reached = -1
                some = records[begins.get((topic, partition), 0) : end]
                for record in (each for each in some if (each.value or b"").startswith(BAD) == bad):
                    reached = -1 if kind == "global" else max(reached, record.time)
                    batch.append((reached, rank, partition, record.offset, side, record))
        begins |= ends
        yield from ((number, side, record) for *_, side, record in sorted(batch, key=lambda row: row[:4]))


def _by_partition(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[(record.topic, record.partition)].append(record)
    for place, kept in found.items():
        if [record.offset for record in kept] != list(range(len(kept))):
            raise ValueError(f"the offsets of {place} have holes: the feed writes without transactions")
    return found


def unplanned(inputs: Mapping[str, Sequence[Record]], plan: Sequence[Ends]) -> list[str]:
    """Partitions of the inputs that the last batch does not end."""
    counts = Counter((record.topic, record.partition) for records in inputs.values() for record in records)
    ends = plan[-1] if plan else {}
    return [f"{place}: {ends.get(place, 0)} of {count}" for place, count in counts.items() if ends.get(place) != count]


def judge(wanted: Sequence[Expected], output: Sequence[Record]) -> Verdict:
    """Compare an output, each partition in its order, with what it should be."""
    told: dict[str, list[Said]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    for record in output:
        key = _text(record.key) or ""
        told[key].append(Said(_text(record.value), record.time))
        partitions[key].add(record.partition)
    should: dict[str, list[Said]] = defaultdict(list)
    batch_of: dict[tuple[str, Said], int] = {}
    for each in wanted:
        should[each.key].append(each.said)
        batch_of[(each.key, each.said)] = each.batch
    faults = [fault for key in {*told, *should} for fault in _faults(key, should[key], told[key])]
    faults += [_Fault("out of order", key, None) for key, found in partitions.items() if len(found) > 1]
    count = Counter(fault.what for fault in faults)
    batches = sorted({batch_of.get((f.key, f.said), -1) for f in faults if f.said is not None})
    details = tuple(f"{f.what}: key {f.key!r}, {f.said}" for f in faults[:_SHOWN])
    return Verdict(
        len(wanted), count["lost"], count["doubled"], count["wrong"], count["out of order"], tuple(batches), details
    )


class _Fault(NamedTuple):
    what: str
    key: str
    said: Said | None


def _faults(key: str, should: Sequence[Said], told: Sequence[Said]) -> list[_Fault]:
    if list(should) == list(told):
        return []
    wanted, got = Counter(should), Counter(told)
    faults = [_Fault("lost", key, said) for said in (wanted - got).elements()]
    faults += [_Fault("doubled" if said in wanted else "wrong", key, said) for said in (got - wanted).elements()]
    if not faults:
        pairs = zip(should, told, strict=True)
        faults = [_Fault("out of order", key, other) for one, other in pairs if one != other]
    return faults


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode()
