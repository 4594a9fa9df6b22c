"""Random renames: an operator gets another name, and the store that it keeps stays under its own.

Law 10: rows are found by the store's name, so all goes on as if nothing had changed, which the oracle is asked for, or
the change is refused: where an operator keeps more than its store has, as a time or a history.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proof.histories.blueprint import Blueprint, beside, name_of
from proof.histories.changed.changes import (
    BlueprintPart,
    Changed,
    draw_around,
    oracle_says,
    steps_of,
    through,
)
from proof.histories.check import first_difference, lines_of
from proof.histories.draw import draw_blueprint, with_shape
from proof.histories.kinds.choices import Dice
from proof.histories.last_results import takes_one_way
from watersmeet._plan.evolve import Change

KINDS_RENAMED = ("to_table", "stream_aggregate", "cogroup", "table_aggregate")
TIMED = ("window_aggregate", "window_cogroup")
"""Those whose rows go by a time that the operator keeps, so that a rename is refused."""


@dataclass(frozen=True)
class Renamed:
    """A change of names.

    Parameters
    ----------
    changed : both topologies, and what comes before and after.
    kinds : of the operators that have other names.
    """

    changed: Changed
    kinds: tuple[str, ...]


def draw_renamed(seed: str) -> Renamed | None:
    """A random one; None where no operator keeps all its rows in a store."""
    dice = Dice(seed)
    keys = dice.pick(("string", "long"))
    whole = beside([draw_blueprint(dice, keys=keys, generation="current") for _ in range(dice.number(1, 2))])
    whole = _with_stores(with_shape(Dice(f"{seed}/shape"), whole))
    kinds = (*KINDS_RENAMED, *(TIMED if dice.chance(10) else ()))
    numbers = [number for number, op in enumerate(whole.ops) if op.kind in kinds and _in_steps(whole, number)]
    if not numbers:
        return None
    chosen = [number for number in numbers if dice.chance(60)] or numbers[:1]
    everything = tuple(range(len(whole.ops)))
    old = BlueprintPart(whole, everything)
    new = BlueprintPart(
        whole, everything, {n: f"{name_of(n)}x" for n in chosen}, {n: f"{name_of(n)}-store" for n in chosen}
    )
    return Renamed(draw_around(dice, old, new), tuple(whole.ops[number].kind for number in chosen))


def _with_stores(whole: Blueprint) -> Blueprint:
    ops = (
        replace(op, params={**op.params, "stored": True}) if op.kind in (*KINDS_RENAMED, *TIMED) else op
        for op in whole.ops
    )
    return replace(whole, ops=tuple(ops))


def _in_steps(whole: Blueprint, number: int) -> bool:
    """Whether the operator's name is that of one step: counts are shown by a step that has the name."""
    return whole.ops[number].params.get("fold") != "count"


def check_renamed(renamed: Renamed) -> tuple[str, Change]:
    """("equal", "refused" or what is wrong; what the change did)."""
    changed = renamed.changed
    said, change, (old, new) = through(changed)
    if not change.possible:
        return "refused", change
    part = changed.new
    places = {part.named(place): place for place in range(len(part.ops))}
    exact = frozenset(n for n in part.names(sources=False) if takes_one_way(part.blueprint, places[n]))
    line = lines_of(part.whole, one=all(driver.layout.physical.ordered_exit for driver in (old, new)))
    expected, got = (
        [[result for result in step if result.sink in exact] for step in steps]
        for steps in (oracle_says(changed), steps_of(changed, said))
    )
    step = first_difference(expected, got, line)
    return ("equal" if step is None else f"step {step}: {expected[step]} and not {got[step]}"), change
