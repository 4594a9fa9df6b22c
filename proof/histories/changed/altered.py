"""Random changes of what operators read: inputs that are exchanged or re-fed, under operators that keep their names.

Such a topology is made of a random one: an operator gets its inputs in another order, or another input, and stands
with all that is behind it under the old names. Law 10: rows go on by name, so what reads others under its name must be
refused, or begin anew. `must_not_go_on` says which operators these are, by the blueprint alone: of a side nothing may
be gone where something else has come, and nothing may have moved from one side to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from proof.histories.blueprint import Blueprint, Op, Ref, beside, name_of
from proof.histories.changed.changes import BlueprintPart, Changed, draw_around, through
from proof.histories.draw import draw_blueprint, with_shape
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.registry import KINDS, SOURCES
from watersmeet._plan.evolve import Change

Sides = tuple[frozenset[Ref], ...]


@dataclass(frozen=True)
class Altered:
    """A change of what operators read.

    Parameters
    ----------
    changed : both topologies, and what comes before and after.
    kind : of the operator whose inputs are others.
    how : "exchanged" or "re-fed".
    was : by the number of an operator that stands under an old name, the number of the old one.
    """

    changed: Changed
    kind: str
    how: str
    was: Mapping[int, int]

    def must_not_go_on(self) -> frozenset[str]:
        """Names of the operators whose rows are of other records than those that they read from now on."""
        pairs = ((name_of(old), self._sides(old), self._sides(now)) for now, old in self.was.items())
        return frozenset(name for name, before, after in pairs if _others(before, after))

    def _sides(self, number: int) -> Sides:
        return tuple(frozenset(self._above(ref)) for ref in self.changed.new.whole.ops[number].inputs)

    def _above(self, ref: Ref) -> set[Ref]:
        """An output and all that it is made of, each by what it was."""
        found = {Ref(self.was.get(ref.op, ref.op), ref.port)}
        for each in self.changed.new.whole.ops[ref.op].inputs:
            found |= self._above(each)
        return found


def _others(before: Sides, after: Sides) -> bool:
    sides = [(one - other, other - one) for one, other in zip(before, after, strict=True)]
    gone, come = (frozenset[Ref]().union(*(side[number] for side in sides)) for number in (0, 1))
    return any(lost and got for lost, got in sides) or bool(gone & come)


def draw_altered(seed: str) -> Altered | None:
    """A random one; None where nothing can be altered."""
    dice = Dice(seed)
    generation = dice.pick(("current",) * 8 + ("spurious", "old"))
    keys = dice.pick(("string", "long"))
    whole = beside([draw_blueprint(dice, keys=keys, generation=generation) for _ in range(dice.number(1, 2))])
    whole = with_shape(Dice(f"{seed}/shape"), whole)
    number = dice.pick([number for number, op in enumerate(whole.ops) if op.inputs and KINDS[op.kind].gives] or [-1])
    if number < 0:
        return None
    how, op, added = _other_inputs(dice, whole, number)
    if op is None:
        return None
    grown, was = _with_another(replace(whole, ops=(*whole.ops, *added)), number, op, len(whole.ops))
    gone = set(was.values())
    called = {new: name_of(old) for new, old in was.items() if not _writes(whole.ops[old])}
    old = BlueprintPart(grown, tuple(range(len(whole.ops))))
    new = BlueprintPart(grown, tuple(n for n in range(len(grown.ops)) if n not in gone), called)
    return Altered(draw_around(dice, old, new), op.kind, how, was)


def _writes(op: Op) -> bool:
    return KINDS[op.kind].writes or not KINDS[op.kind].gives


def _other_inputs(dice: Choices, whole: Blueprint, number: int) -> tuple[str, Op | None, tuple[Op, ...]]:
    """(how, the operator with other inputs, what is added for it)."""
    op = whole.ops[number]
    takes = KINDS[op.kind].takes
    pairs = [
        (one, other)
        for other in range(len(takes))
        for one in range(other)
        if takes[one] == takes[other] and op.inputs[one] != op.inputs[other]
    ]
    inputs = list(op.inputs)
    if pairs and dice.chance(50):
        one, other = dice.pick(pairs)
        inputs[one], inputs[other] = inputs[other], inputs[one]
        return "exchanged", replace(op, inputs=tuple(inputs)), ()
    side = dice.number(0, len(takes) - 1)
    there = [
        Ref(above, port)
        for above in range(number)
        for port, shape in enumerate(KINDS[whole.ops[above].kind].gives)
        if shape == takes[side] and Ref(above, port) != op.inputs[side]
    ]
    added: tuple[Op, ...] = ()
    fitting = [name for name in SOURCES if KINDS[name].gives == (takes[side],)]
    if fitting and (not there or dice.chance(30)):
        kind = dice.pick(fitting)
        there, added = [Ref(len(whole.ops))], (Op(kind, (), KINDS[kind].draw(dice, whole.generation)),)
    if not there:
        return "", None, ()
    inputs[side] = dice.pick(there)
    return "re-fed", replace(op, inputs=tuple(inputs)), added


def _with_another(whole: Blueprint, number: int, op: Op, until: int) -> tuple[Blueprint, dict[int, int]]:
    """The blueprint with the operator once more, as it is now, and all that is behind it; what each of these was."""
    now: dict[int, int] = {}
    ops = list(whole.ops)
    for place in range(number, until):
        if place == number or any(ref.op in now for ref in whole.ops[place].inputs):
            made = op if place == number else whole.ops[place]
            inputs = tuple(Ref(now.get(ref.op, ref.op), ref.port) for ref in made.inputs)
            now[place] = len(ops)
            ops.append(replace(made, inputs=inputs))
    return replace(whole, ops=tuple(ops)), {new: old for old, new in now.items()}


def check_altered(altered: Altered) -> tuple[str, Change]:
    """("refused", "begun anew", "gone on" or what is wrong; what the change did).

    What is wrong: an operator continues the rows of one that read others.
    """
    _, change, _ = through(altered.changed)
    pairs = {(each.from_node, each.node) for each in change.continued}
    wrong = sorted(name for name in altered.must_not_go_on() if _goes_on(name, pairs))
    if not change.possible:
        return "refused", change
    if wrong:
        return f"{', '.join(wrong)} went on with the rows of other inputs", change
    return ("gone on" if any(_goes_on(name_of(old), pairs) for old in altered.was.values()) else "begun anew"), change


def _goes_on(name: str, pairs: set[tuple[str, str]]) -> bool:
    """Whether an operator has rows of one of its name; some stand under a name that is made of the name."""
    return any({old, new} & {name} or (name in old.split("-") and name in new.split("-")) for old, new in pairs)
