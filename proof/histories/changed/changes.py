"""Random changes of topologies: their tables are carried into the engine, and the oracle is given the same change.

A pair of topologies is cut out of one random blueprint: what only the one has is dropped, what only the other has is
new. The oracle goes on with what is in both, and begins what is new and reads nothing of that, or streams of it: who
comes later to a stream gets what comes from then on. So the outputs of these three kinds must be equal, record by
record, after the change as before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.histories.blueprint import Blueprint, Ref, beside, name_of
from proof.histories.case import Input
from proof.histories.changed.oracle import ChangedOracle
from proof.histories.check import Steps, by_step, first_difference, lines_of
from proof.histories.draw import draw_blueprint, draw_records, with_shape
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.functions import ArrowLifts
from proof.histories.kinds.registry import KINDS, build, is_limited, shape_of
from proof.histories.kinds.shapes import TypeShape
from proof.histories.last_results import (
    all_above,
    first_unsettled,
    settling_sinks,
    standing,
    takes_one_way,
)
from proof.histories.subjects.shared_tables import with_more_joins
from watersmeet._engine.state.carry import CarriedTables, carry
from watersmeet._engine.state.runs import MemoryChunkStore
from watersmeet._plan.evolve import Change, compare, described
from watersmeet._plan.physical import with_stores
from watersmeet.api.topology import Topology


@dataclass(frozen=True)
class BlueprintPart:
    """Some operators of a blueprint, as a topology of their own, called as they are in the whole.

    Parameters
    ----------
    whole : the blueprint.
    ops : numbers of the operators.
    called : by its number what an operator is called, where it stands under another name than its own.
    stores : by its number what its store is called, where that does not follow from its name.
    """

    whole: Blueprint
    ops: tuple[int, ...]
    called: Mapping[int, str] = field(default_factory=dict)
    stores: Mapping[int, str] = field(default_factory=dict)

    @property
    def blueprint(self) -> Blueprint:
        """The operators alone."""
        places = {number: place for place, number in enumerate(self.ops)}
        ops = (self.whole.ops[number] for number in self.ops)
        moved = (replace(op, inputs=tuple(Ref(places[ref.op], ref.port) for ref in op.inputs)) for op in ops)
        return replace(self.whole, ops=tuple(moved))

    def named(self, place: int) -> str:
        """What an operator is called."""
        return self._name(self.ops[place])

    def _stored(self, place: int) -> str | None:
        return self.stores.get(self.ops[place])

    def _name(self, number: int) -> str:
        return self.called.get(number, name_of(number))

    def names(self, *, sources: bool) -> tuple[str, ...]:
        """Names of the inputs, or of the outputs."""
        kinds = {number: KINDS[self.whole.ops[number].kind] for number in self.ops}
        wanted = {n for n, kind in kinds.items() if (not kind.takes if sources else not kind.gives or kind.writes)}
        return tuple(self._name(number) for number in self.ops if number in wanted)

    def topology(self) -> Topology:
        """It, with Arrow functions."""
        builder = arrow_builder("changes", generation=self.whole.generation)
        build(self.blueprint, builder, ArrowLifts(shape_of(self.whole)), self.named, self._stored)
        return builder.build()


@dataclass(frozen=True)
class Changed:
    """A topology, another one, and what comes before and after the change.

    Parameters
    ----------
    old, new : the topologies.
    before, after : the records.
    shards : shards of each operator.
    cuts : numbers of records, of all, before which a batch ends, beside the change.
    """

    old: BlueprintPart
    new: BlueprintPart
    before: tuple[Input, ...]
    after: tuple[Input, ...]
    shards: int = 2
    cuts: tuple[int, ...] = ()

    @property
    def common(self) -> BlueprintPart:
        """What is in both."""
        return BlueprintPart(self.old.whole, tuple(number for number in self.old.ops if number in self.new.ops))

    @property
    def fresh(self) -> BlueprintPart:
        """What is new and reads nothing of what is kept."""
        return BlueprintPart(self.new.whole, self._begun(streams=False))

    @property
    def joined(self) -> tuple[str, ...]:
        """Outputs that are new and read of what is kept streams alone, at least one."""
        begun, apart = self._begun(streams=True), set(self.fresh.names(sources=False))
        return tuple(name for name in BlueprintPart(self.new.whole, begun).names(sources=False) if name not in apart)

    def _begun(self, *, streams: bool) -> tuple[int, ...]:
        """What is new and reads nothing of what is kept; or streams of it alone."""
        kept, found = set(self.common.ops), set[int]()
        for number in self.new.ops:
            above = self.new.whole.ops[number].inputs
            if number not in kept and all(ref.op in found or (streams and self._is_stream(ref)) for ref in above):
                found.add(number)
        return tuple(number for number in self.new.ops if number in found)

    def _is_stream(self, ref: Ref) -> bool:
        return ref.op in self.common.ops and KINDS[self.new.whole.ops[ref.op].kind].gives[ref.port] == "stream"


def draw_changed(seed: str) -> Changed | None:
    """A random change; None where one of the topologies would write nothing."""
    dice = Dice(seed)
    generation = dice.pick(("current",) * 8 + ("spurious", "old"))
    keys = dice.pick(("string", "long"))
    whole = beside([draw_blueprint(dice, keys=keys, generation=generation) for _ in range(dice.number(1, 3))])
    if dice.chance(50):
        whole = with_more_joins(dice, whole)
    whole = with_shape(Dice(f"{seed}/shape"), whole)
    gone, come = _below(dice, whole), _below(dice, whole)
    everything = range(len(whole.ops))
    old = BlueprintPart(whole, tuple(number for number in everything if number not in come))
    new = BlueprintPart(whole, tuple(number for number in everything if number not in gone))
    if not all(part.names(sources=True) and part.names(sources=False) for part in (old, new)):
        return None
    return draw_around(dice, old, new)


def draw_around(dice: Choices, old: BlueprintPart, new: BlueprintPart) -> Changed:
    """A change with random records before and after it."""
    before = draw_records(dice, old.blueprint, most=16)
    after = draw_records(dice, new.blueprint, most=16)
    last = max((record.ts for record in before if record.ts < 1_000_000), default=0)
    before = tuple(record._replace(source=old.named(int(record.source[1:]))) for record in before)
    after = tuple(
        record._replace(source=new.named(int(record.source[1:])), ts=record.ts + last if record.ts >= 0 else record.ts)
        for record in after
    )
    count = len(before) + len(after)
    cuts = tuple(sorted(dice.number(0, count) for _ in range(dice.number(0, 4))))
    limited = is_limited(old.blueprint) or is_limited(new.blueprint)
    return Changed(old, new, before, after, shards=1 if limited else dice.pick((1, 2, 3)), cuts=cuts)


def _below(choices: Choices, whole: Blueprint) -> set[int]:
    """Some operators with all that reads them; perhaps none."""
    found = {choices.number(0, len(whole.ops) - 1)} if choices.chance(75) else set[int]()
    for number, op in enumerate(whole.ops):
        if found & {ref.op for ref in op.inputs}:
            found.add(number)
    return found


def carry_tables(old: EngineDriver, new: EngineDriver) -> Change:
    """Give a driver the tables of another one, as a start upon a checkpoint does; what became of them."""
    before, now = old.layout.physical, new.layout.physical
    change = compare(described(before, {}), described(now, {}))
    if not change.possible:
        return change
    stored = {
        (operator.node, name): (store.owner, store.schema.name)
        for operator in before.operators
        for name, store in before.stores_of(operator.id)
    }
    new.run_as(with_stores(now, {(t.node, t.table): stored[t.from_node, t.from_table] for t in change.continued}))
    keepers = {(now.operators[store.owner].node, store.schema.name): store for store in new.layout.physical.stores}
    parts: dict[tuple[int, int], dict[int, CarriedTables]] = {}
    for continued in change.continued:
        if (continued.node, continued.table) not in keepers:
            continue  # it is carried with the owner of its store
        source, name = stored[continued.from_node, continued.from_table]
        target, table = keepers[continued.node, continued.table].owner, keepers[continued.node, continued.table].schema
        for shard in range(new.shards):
            mine = parts.setdefault((target, shard), {})
            mine[source] = mine.get(source, CarriedTables()).with_table(name, table, continued.scalars)
    for place, mine in parts.items():
        _carry_shard(old, new.stores[place], mine, place[1])
    new.follow(old)
    return change


def _carry_shard(old: EngineDriver, store: MemoryChunkStore, mine: dict[int, CarriedTables], shard: int) -> None:
    stores = [(old.stores[source, shard], part) for source, part in mine.items()]
    there = [(kept, part, kept.manifest) for kept, part in stores if kept.manifest is not None]
    for kept, _, _ in there:
        for (run, chunk), content in kept.chunks.items():
            store.put_chunk(run, chunk, content)
    if there:
        carry(store, [(manifest, part) for _, part, manifest in there])


def check_changed(changed: Changed) -> tuple[str, Any]:
    """("equal", "refused", "otherwise", or what is wrong; what belongs to it).

    "otherwise" is where all that is kept goes another way from now on, so that there is no output to compare: a table
    may become an operator of its own by what reads it. As in `check`, where a record goes several ways into what is
    deferred, what stands is compared with the oracle, and each result with the engine in one batch on one shard.
    """
    said, change, (old, new) = through(changed)
    if not change.possible:
        return "refused", change
    kept = _unaltered(old, new, changed.common)
    fresh = frozenset(changed.fresh.names(sources=False))
    joined = _unaltered_above(old, new, changed)
    if not kept and not fresh and not joined:
        return "otherwise", change
    expected, got, whole = oracle_says(changed), steps_of(changed, said), None
    parts = ((changed.common, kept, (old, new)), (changed.fresh, fresh, (new,)), (changed.new, joined, (new,)))
    for part, ends, drivers in parts:
        exact, loose = _parted(part, ends)
        line = lines_of(changed.old.whole, one=all(driver.layout.physical.ordered_exit for driver in drivers))
        step = first_difference(_only(expected, exact), _only(got, exact), line)
        if step is not None:
            return f"step {step}", (_only(expected, exact)[step], _only(got, exact)[step])
        if not loose:
            continue
        whole = whole or steps_of(changed, through(replace(changed, cuts=(), shards=1))[0])
        step = first_difference(_only(whole, loose), _only(got, loose), line)
        if step is not None:
            return f"split at step {step}", (_only(whole, loose)[step], _only(got, loose)[step])
        settling = frozenset(part.named(int(name[1:])) for name in settling_sinks(part.blueprint)) & loose
        step = first_unsettled(expected, got, settling)
        if step is not None:
            return f"after step {step}", (standing(expected, settling)[step], standing(got, settling)[step])
    return "equal", change


def through(changed: Changed) -> tuple[dict[str, list[Any]], Change, tuple[EngineDriver, EngineDriver]]:
    """What each output gets, what the change did, and both topologies' drivers."""
    old = EngineDriver(changed.old.topology(), shards=changed.shards)
    new = EngineDriver(changed.new.topology(), shards=changed.shards)
    shape = shape_of(changed.old.whole)
    _run(old, changed.before, changed.cuts, 0, shape)
    said = {sink: old.read(sink) for sink in changed.old.names(sources=False)}
    change = carry_tables(old, new)
    if change.possible:
        _run(new, changed.after, changed.cuts, len(changed.before), shape)
        for sink in changed.new.names(sources=False):
            said[sink] = [*said.get(sink, []), *new.read(sink)]
    return said, change, (old, new)


def steps_of(changed: Changed, said: dict[str, list[Any]]) -> Steps:
    """What outputs have got, by step."""
    return by_step(len(changed.before) + len(changed.after), said, shape_of(changed.old.whole))


def _only(steps: Steps, sinks: frozenset[str]) -> Steps:
    return [[result for result in step if result.sink in sinks] for step in steps]


def _parted(part: BlueprintPart, ends: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Outputs of which each result is the oracle's, and those of which what stands is."""
    places = {part.named(place): place for place in range(len(part.ops))}
    exact = frozenset(name for name in ends if takes_one_way(part.blueprint, places[name]))
    return exact, frozenset(ends) - exact


def _unaltered(old: EngineDriver, new: EngineDriver, part: BlueprintPart) -> frozenset[str]:
    """The outputs of a part for which operators of the same parameters work in both topologies."""
    blueprint, found = part.blueprint, set[str]()
    for sink in part.names(sources=False):
        above = all_above(blueprint, Ref(part.ops.index(int(sink[1:]))))
        names = {part.named(place) for place in above}
        if _operators(old, names) == _operators(new, names):
            found.add(sink)
    return frozenset(found)


def _unaltered_above(old: EngineDriver, new: EngineDriver, changed: Changed) -> frozenset[str]:
    """The new outputs on streams that were kept, for which the same operators work in both topologies."""
    part, kept, found = changed.new, set(changed.common.ops), set[str]()
    for sink in changed.joined:
        above = (part.ops[place] for place in all_above(part.blueprint, Ref(part.ops.index(int(sink[1:])))))
        names = {f"n{number}" for number in above if number in kept}
        if _operators(old, names) == _operators(new, names):
            found.add(sink)
    return frozenset(found)


def _operators(driver: EngineDriver, names: set[str]) -> list[Any]:
    """What the operators of some nodes are: tables are made operators of their own by what reads them."""
    physical = driver.layout.physical
    told = zip(physical.operators, described(physical, {})["operators"], strict=True)
    return [
        (each["node"], each["operator"], each["params"], "old" in o.emits) for o, each in told if _is_of(o.node, names)
    ]


def _is_of(node: str, names: set[str]) -> bool:
    """Whether an operator's node is one of the named ones, or has a name made of one."""
    return node in names or bool(names.intersection(node.split("-")))


def _run(driver: EngineDriver, records: Iterable[Input], cuts: tuple[int, ...], start: int, shape: TypeShape) -> None:
    given = tuple(records)
    edges = [0, *sorted(cut - start for cut in cuts if 0 < cut - start < len(given)), len(given)]
    for begin, end in pairwise(edges):
        for record in given[begin:end]:
            driver.pipe(record.source, shape.piped_key(record.key), shape.coded(record.value), ts=record.ts)
        driver.run_batch()


def oracle_says(changed: Changed) -> Steps:
    """What the oracle that is given the same change makes of all records, by step."""
    oracle = ChangedOracle(changed.old.whole, name_of)
    steps: Steps = []
    shape = shape_of(changed.old.whole)
    for part, records in ((changed.old, changed.before), (changed.new, changed.after)):
        topology = oracle.go_on_with(part.ops)
        steps += [list(topology.pipe(each.source, shape.key(each.key), each.value, each.ts)) for each in records]
    return steps


__all__ = [
    "BlueprintPart",
    "Changed",
    "carry_tables",
    "check_changed",
    "draw_around",
    "draw_changed",
    "oracle_says",
    "steps_of",
    "through",
]
