"""Makes a failing case small: fewer records, fewer operators, simpler batches.

Owns the order of attempts. Law: what comes out fails in the same check as what went in, and shrinking a case
twice gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from proof.histories.blueprint import Blueprint
from proof.histories.case import Case, Input
from proof.histories.check import Difference, check
from proof.histories.kinds.registry import KINDS, sources_of

ATTEMPTS = 2_000


Check = Callable[[Case], Difference | None]


def shrink(found: Difference, check: Check = check) -> Difference:
    """The same failure of a check on the smallest case found within a bounded number of attempts."""
    attempts = 0
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(found.case):
            attempts += 1
            if attempts > ATTEMPTS:
                return found
            failure = _fails(smaller, check)
            if failure is not None and failure.check == found.check:
                found, improved = failure, True
                break
    return found


def _fails(case: Case, check: Check) -> Difference | None:
    try:
        return check(case)
    except Exception:  # taking operators out may leave a topology that nobody can build
        return None


def _smaller(case: Case) -> Iterator[Case]:
    size = len(case.records) // 2
    while size:
        for start in range(0, len(case.records), size):
            yield case.without_records(start, min(start + size, len(case.records)))
        size //= 2
    for blueprint in _fewer_operators(case.blueprint):
        yield from _onto(case, blueprint)
    yield from _simpler_run(case)
    for number, record in enumerate(case.records):
        for simpler in _simpler_record(record, number):
            yield replace(case, records=(*case.records[:number], simpler, *case.records[number + 1 :]))


def _fewer_operators(blueprint: Blueprint) -> Iterator[Blueprint]:
    for number, op in enumerate(blueprint.ops):
        fewer = blueprint.without(number)
        if fewer is not None and _fits(fewer):
            yield fewer
        if op.params.get("stored"):
            params = {name: value for name, value in op.params.items() if name != "stored"}
            ops = (*blueprint.ops[:number], replace(op, params=params), *blueprint.ops[number + 1 :])
            yield replace(blueprint, ops=ops)
    if blueprint.generation != "current":
        yield replace(blueprint, generation="current")


def _fits(blueprint: Blueprint) -> bool:
    """Whether every operator still reads what it takes, and something is written."""
    for op in blueprint.ops:
        given = tuple(KINDS[blueprint.ops[ref.op].kind].gives for ref in op.inputs)
        ports = [ref.port for ref in op.inputs]
        if any(port >= len(shapes) for port, shapes in zip(ports, given, strict=True)):
            return False
        if tuple(shapes[port] for port, shapes in zip(ports, given, strict=True)) != KINDS[op.kind].takes:
            return False
    return any(not KINDS[op.kind].gives for op in blueprint.ops)


def _onto(case: Case, blueprint: Blueprint) -> Iterator[Case]:
    """The case on a smaller blueprint: its inputs keep their order, records of a lost one go."""
    before, after = sources_of(case.blueprint), sources_of(blueprint)
    losses = range(len(before)) if len(after) < len(before) else (None,)
    for lost in losses:
        kept = [name for place, name in enumerate(before) if place != lost]
        names = dict(zip(kept, after, strict=False))
        smaller = replace(case, blueprint=blueprint)
        for number in reversed(range(len(case.records))):
            if case.records[number].source not in names:
                smaller = smaller.without_records(number, number + 1)
        renamed = tuple(record._replace(source=names[record.source]) for record in smaller.records)
        yield replace(smaller, records=renamed)


def _simpler_run(case: Case) -> Iterator[Case]:
    if case.replay:
        yield replace(case, replay=False)
    if case.rescaled:
        yield replace(case, rescaled=())
    if case.shards > 1:
        yield replace(case, shards=1)
    if case.partitioned:
        yield replace(case, partitioned=False, records=tuple(record._replace(partition=0) for record in case.records))
    for shown in range(len(case.clock)):
        yield replace(case, clock=case.clock[:shown] + case.clock[shown + 1 :])
    if case.cuts:
        yield replace(case, cuts=())
        yield from (replace(case, cuts=case.cuts[:n] + case.cuts[n + 1 :]) for n in range(len(case.cuts)))


def _simpler_record(record: Input, number: int) -> Iterator[Input]:
    if record.ts != number:
        yield record._replace(ts=number)
    if record.value is not None and record.value != "1":
        yield record._replace(value="1")
