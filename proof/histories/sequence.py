"""Which cuts of a history into batches leave the sequence of its records alone, where inputs have partitions (law 2).

Within a batch records are merged by (order_ts, source, partition, offset). order_ts is the largest timestamp among the
records of the partition that the batch has had so far, of those that get somewhere; updates of global tables stand
before all others. So a history, as it is written down, is what a cut into batches processes if each batch, merged like
this, is in the order in which it is written. That can be asked record by record: a batch may go on with the next record
if this one's place, reckoned from the batch's own beginning, is not before the place of the record before it; else a
batch must begin with it. Any place may be cut besides: what follows begins anew, and has more cuts of this kind at
most. Batches of one record each have none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from proof.histories.case import Case, Input

_FIRST = -(2**63)
Place = tuple[int, int, int]


class BatchMerge:
    """The order in which one batch merges its records; asked with records in the order of their offsets."""

    def __init__(self, sources: Sequence[str], first: Collection[str]) -> None:
        """`first`: inputs whose records stand before all others."""
        self._numbers = {name: number for number, name in enumerate(sources)}
        self._first = first
        self._latest: dict[tuple[str, int], int] = {}

    def place(self, record: Input) -> Place:
        """Where the next record stands."""
        log = record.source, record.partition
        order_ts = _FIRST
        if record.source not in self._first:
            order_ts = self._latest[log] = max(record.ts, self._latest.get(log, _FIRST))
        return order_ts, self._numbers[record.source], record.partition


def cuts_in_sequence(
    case: Case, sources: Sequence[str], first: Collection[str], moving: Sequence[bool]
) -> tuple[int, ...]:
    """The case's cuts with those that the sequence needs.

    Parameters
    ----------
    sources, first : names of the inputs in order, and of those whose records stand before all others.
    moving : of each record, whether it gets somewhere: of the others the place does not matter.
    """
    merge, last, cuts = BatchMerge(sources, first), None, set(case.cuts) | {place for place, _ in case.clock}
    for number, record in enumerate(case.records):
        if number in cuts:
            merge, last = BatchMerge(sources, first), None
        if not moving[number] and record.source not in first:
            continue
        place = merge.place(record)
        if last is not None and place < last:
            merge = BatchMerge(sources, first)
            cuts.add(number)
            place = merge.place(record)
        last = place
    empty = [cut for cut in set(case.cuts) for _ in range(case.cuts.count(cut) - 1)]
    return tuple(sorted([*cuts, *empty]))


def merged(
    records: Sequence[Input], sources: Sequence[str], first: Collection[str], told: Sequence[Input]
) -> tuple[Input, ...]:
    """The records in the order in which one batch processes them, if all get somewhere.

    `told`: the same with the times that they have by their inputs.
    """
    merge = BatchMerge(sources, first)
    placed = [(merge.place(record), number) for number, record in enumerate(told)]
    return tuple(records[number] for _, number in sorted(placed))
