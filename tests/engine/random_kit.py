"""Random histories of topologies with a certain operator, each checked whole and a record at a time (law 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from proof.histories import Case, check
from proof.histories.blueprint import Blueprint
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.draw_order import may_share_keys
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import is_limited, sources_of
from proof.histories.last_results import out_of_step
from proof.histories.report import page
from proof.histories.sequence import merged


def having(kind: str) -> Callable[[Blueprint], bool]:
    """Whether a topology has an operator of this kind."""
    return lambda blueprint: any(each.kind == kind for each in blueprint.ops)


def cases(seed: str, count: int, wanted: Callable[[Blueprint], bool]) -> Iterator[Case]:
    """Random histories of the topologies that are wanted."""
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        if wanted(blueprint):
            yield draw_case(dice, blueprint)
            count -= 1


def check_however_cut(drawn: Iterator[Case]) -> None:
    """Fail unless each history, as it is drawn and with a record in each batch, is what the oracle says."""
    for case in drawn:
        # the limits of a buffer are those of one shard
        shards = 1 if is_limited(case.blueprint) else 3
        for cut in (case, replace(case, cuts=tuple(range(1, len(case.records))), shards=shards)):
            found = check(cut)
            assert found is None, page(found)


def anywhere(case: Case, dice: Dice) -> Case:
    """The same, where its operators have a rule for that, with records of a key in any of three partitions."""
    if not may_share_keys(case.blueprint) or out_of_step(case.blueprint):
        return case
    records = tuple(record._replace(partition=dice.number(0, 2)) for record in case.records)
    sources, first = sources_of(case.blueprint), case.blueprint.sources(("global",))
    return replace(case, records=merged(records, sources, first), partitioned=True, cuts=case.cuts[:2])
