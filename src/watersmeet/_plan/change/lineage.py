"""The inputs of a node in two plans, and whether its rows are of its present inputs (law 10).

A name identifies the rows that continue, but not their inputs. So the nodes above a node are compared, side by side. An
input is known by its topic, or by its name where it is a DataFrame; a node by its name; a step without a name of the
user's by what it does, where that is recorded. Steps that leave records as they are do not count. Steps may come and
go, and a side may read something more, or no longer all. It may not read one thing in place of another, nor what
another side of the node has read: its rows would be taken for those of something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Identities = frozenset[str]


@dataclass(frozen=True)
class Lineage:
    """The nodes above each node of a plan, as a checkpoint records them.

    Parameters
    ----------
    reads : of each node but outputs and inputs, what it reads, what it is known by, and what it is called.
    sources : of each input what it is known by.
    replaced : nodes of which it does not matter what is above them: their rows go on by their name alone.
    """

    reads: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, str]
    replaced: Identities = frozenset()

    @classmethod
    def of(cls, plan: Mapping[str, Any], replaced: Identities = frozenset()) -> Lineage:
        """That of a plan, as `described` gives it."""
        return cls(plan["reads"], {name: place_of(name, each)[0] for name, each in plan["sources"].items()}, replaced)

    def inputs(self, node: str) -> tuple[str, ...]:
        """The inputs of a node; an input reads itself."""
        return (node,) if node in self.sources else tuple(self.reads[node]["inputs"])

    def above(self, nodes: Iterable[str]) -> Identities:
        """The identities of nodes and of all nodes above them."""
        found: set[str] = set()
        for node in nodes:
            if node in self.sources:
                found.add(self.sources[node])
                continue
            known = self.reads[node]["is"]
            above = self.above(self.inputs(node)) if node not in self.replaced else frozenset()
            found |= above | (set() if known is None else {known})
        return frozenset(found)

    @cached_property
    def everything(self) -> Identities:
        """The identities of all nodes."""
        return self.above((*self.reads, *self.sources))

    def called(self, node: str) -> str:
        """A node as a user knows it: an input by what it reads, what has no name of the user's by what is above it."""
        if node in self.sources:
            return self.sources[node]
        called = self.reads[node]["called"]
        if called is not None:
            return repr(called)
        return " with ".join(dict.fromkeys(self.called(each) for each in self.inputs(node)))


@dataclass(frozen=True)
class LineageReading:
    """The inputs of an operator's sides, or of a table's keeper, in two plans.

    Parameters
    ----------
    old, new : the plans.
    before, after : the nodes that each side reads.
    """

    old: Lineage
    new: Lineage
    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]

    @classmethod
    def of_node(cls, old: Lineage, new: Lineage, node: str) -> LineageReading:
        """That of a node of both plans, input by input."""
        return cls(old, new, *(tuple((each,) for each in plan.inputs(node)) for plan in (old, new)))

    @cached_property
    def _sides(self) -> tuple[tuple[Identities, Identities], ...]:
        """Of each side what it reads no more, and what it reads in addition, as far as that is, or was, there."""
        count = max(len(self.before), len(self.after))
        sides = []
        for side in range(count):
            was = self.old.above(self.before[side]) if side < len(self.before) else frozenset()
            now = self.new.above(self.after[side]) if side < len(self.after) else frozenset()
            inputs = frozenset((*self.old.sources.values(), *self.new.sources.values()))
            gone, come = was - now, now - was
            sides.append((gone & (inputs | self.new.everything), come & (inputs | self.old.everything)))
        return tuple(sides)

    @cached_property
    def _changed(self) -> tuple[Identities, Identities]:
        """The same of all sides together."""
        gone, come = (frozenset[str]().union(*(side[number] for side in self._sides)) for number in (0, 1))
        return gone, come

    @property
    def exchanged(self) -> bool:
        """Whether a side reads what another one has read, and reads no more."""
        gone, come = self._changed
        return bool(gone & come)

    @property
    def against(self) -> str:
        """Why what is kept is not of what is read now; empty: it is."""
        if not self.exchanged and not any(gone and come for gone, come in self._sides):
            return ""
        was, now = _listed(self.old, self.before), _listed(self.new, self.after)
        if was == now:
            # what differs lies further above, or has no name
            gone, come = (", ".join(sorted(map(_user_name, each))) for each in self._changed)
            was, now = f"{was} (with {gone} above)", f"{now} (with {come} above)"
        said = "its inputs have changed places: " if self.exchanged else ""
        return f"{said}it read {was}, it reads {now}"

    @property
    def hint(self) -> str:
        """The cure."""
        if self.exchanged:
            return (
                "Write its inputs in the order in which they were; or give it another name=, under which it begins "
                "with the rows that other stores have of its inputs, else empty."
            )
        return (
            "Let it read what it read; or give it another name=, under which it begins with the rows that other "
            "stores have of what it reads now, else empty."
        )

    @property
    def noted(self) -> str:
        """The inputs that are added or removed while the state continues."""
        inputs = {*self.old.sources.values(), *self.new.sources.values()}
        gone, come = (sorted(each & inputs) for each in self._changed)
        said = [f"reads {', '.join(come)}, too, from now on"] if come else []
        return "; ".join([*said, *([f"reads {', '.join(gone)} no more: what came of it stays"] if gone else [])])


def place_of(name: str, source: Mapping[str, Any]) -> tuple[str, bool]:
    """The name of an input's topic or rows, and whether it is a global table."""
    topic = source["topic"]
    return (f"rows {name}", False) if topic is None else (f"topic {topic}", bool(source["global"]))


def _user_name(identity: str) -> str:
    """The name that a user knows it by: of a step without a name, its action."""
    kind, _, rest = identity.partition(" ")
    if kind in ("topic", "rows"):
        return identity
    return repr(rest) if kind == "node" else f"a {kind}"


def _listed(plan: Lineage, sides: tuple[tuple[str, ...], ...]) -> str:
    return " and ".join(dict.fromkeys(plan.called(node) for side in sides for node in side))
