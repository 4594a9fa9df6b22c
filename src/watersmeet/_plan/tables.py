"""Which tables keep a store, and which filters know the old value (docs/semantics, sections 3 and 5).

Kafka Streams decides this while the topology is built: a node may ask its parent for old values, and what
it gets depends on what has been materialized at that moment. So the rules run over the nodes in order of
construction. If one record reaches both sides of a join, its messages differ from its lookups: `loose` marks where that
matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node


@dataclass(frozen=True)
class TableRules:
    """The results of the rules for each table node, by name.

    Parameters
    ----------
    suppressing : filters that know the old value, so that null after null is not forwarded.
    fused : suppressing filters with consumers that suppress in their own stores.
    carries_old : nodes with changes that carry the old value, since a filter behind them needs it.
    kept : nodes that become an operator of their own, keeping the table.
    loose : tables with changes that may differ from lookups, and old values that may differ from the last message:
        joins of which both sides are reached by one record, and what is computed from them (KAFKA-6443).
    split : loose tables that a join looks up without a store between: they also say what lookups see.
    aliases : store name -> (join, side) with this table as its own store of that side.
    versioned : tables that remember their past, and what is computed of them where it is looked up: filters and
        mapped values without stores (KIP-914).
    """

    suppressing: frozenset[str]
    fused: frozenset[str]
    carries_old: frozenset[str]
    kept: frozenset[str]
    loose: frozenset[str]
    split: frozenset[str]
    aliases: dict[str, tuple[str, int]]
    versioned: frozenset[str] = frozenset()


def table_rules(plan: Plan) -> TableRules:
    """The rules, applied to the nodes of `plan`."""
    sends = _SendsOld(plan).names
    versioned = _versioned(plan)
    # behind a versioned table nothing is suppressed: a change that is not the latest is worth something
    suppressing = frozenset(
        n.name for n in plan.nodes if n.asks_old and n.name in sends and not versioned.intersection(n.inputs)
    )
    loose = _loose(plan)
    fused = frozenset(name for name in suppressing - loose if _fuses(plan, name, suppressing))
    carries = _carries_old(plan, suppressing - fused) | (loose & sends)
    aliases = _aliases(plan, carries)
    kept = frozenset(
        n.name
        for n in plan.nodes
        # A global table's store is a copy that a join with it keeps anyway.
        if n.shape.kind != "global"
        and (not n.keeps_table or n.history_ms is not None)
        and (
            (n.store is not None and n.store not in aliases)
            or (n.begins_table and n.history_ms is None and n.name in carries)
            or (n.history_ms is not None and not _only_looked_up(plan, n))
        )
    )
    return TableRules(suppressing, fused, carries, kept, loose, _split(plan, loose - kept), aliases, versioned)


class _SendsOld:
    """Runs Kafka's enableSendingOldValues over the nodes in order of construction."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._materialized: set[str] = set()
        self.names: set[str] = set()
        for node in plan.nodes:
            self._construct(node)

    def _construct(self, node: Node) -> None:
        if node.store is not None or node.history_ms is not None:
            self._materialized.add(node.name)
        # A node that merely asks forces nothing: only what is already materialized answers.
        if node.asks_old and node.shape.kind == "table" and self._enable(node.inputs[0], force=False):
            self.names.add(node.name)
        for name in node.needs_old:
            self._enable(name, force=True)
        for side in node.looks_up:
            self._look_up(node.inputs[side])

    def _enable(self, name: str, *, force: bool) -> bool:
        node = self._plan.by_name[name]
        match node.old_values:
            case "remembered":
                known = True
            case "stored":
                known = force or name in self._materialized
            case "computed":
                known = True
                for parent in node.inputs:
                    self._enable(parent, force=True)
            case "passed on":
                known = node.store is not None or self._enable(node.inputs[0], force=force)
        if known:
            self.names.add(name)
            if node.begins_table:
                self._materialized.add(name)
        return name in self.names

    def _look_up(self, name: str) -> None:
        """A join reads values of this table: what it is computed from is materialized now."""
        node = self._plan.by_name[name]
        if node.begins_table or node.shape.kind == "global":
            self._materialized.add(name)
        elif node.store is None:
            for parent in node.inputs:
                self._look_up(parent)


def _versioned(plan: Plan) -> frozenset[str]:
    """A store without a past ends it; so does a join or an aggregate, which begins a table of its own."""
    found: set[str] = set()
    for node in plan.nodes:
        if node.history_ms is not None or (node.passes_changes and found.issuperset(node.inputs)):
            found.add(node.name)
    return frozenset(found)


def _only_looked_up(plan: Plan, node: Node) -> bool:
    """Whether all that read a versioned table are joins that remember its past themselves."""
    children = plan.children[node.name]
    return bool(children) and all(
        side in child.looks_up_as_of or (child.passes_changes and _only_looked_up(plan, child))
        for child, side in children
    )


def _loose(plan: Plan) -> frozenset[str]:
    loose: set[str] = set()
    for node in plan.nodes:
        inexact = any(name in loose for name in node.inputs)
        if node.old_values == "computed":
            inexact = inexact or plan.meet_in_step(*node.inputs)
        elif not node.passes_changes:
            continue
        if inexact:
            loose.add(node.name)
    return frozenset(loose)


def _split(plan: Plan, loose: frozenset[str]) -> frozenset[str]:
    split: set[str] = set()
    for node in reversed(plan.nodes):
        children = plan.children[node.name]
        if node.name in loose and any(
            c.name in split or (c.sees_lookups and side in c.looks_up) for c, side in children
        ):
            split.add(node.name)
    return frozenset(split)


def _fuses(plan: Plan, name: str, suppressing: frozenset[str]) -> bool:
    """True when every consumer keeps this filter's output itself, so it can suppress null after null."""
    node = plan.by_name[name]
    children = plan.children[name]
    return name in suppressing and node.store is None and all(side in child.looks_up for child, side in children)


def _carries_old(plan: Plan, in_need: frozenset[str]) -> frozenset[str]:
    carries: set[str] = set()
    for node in reversed(plan.nodes):
        if node.takes_old:
            carries.update((node.name, *node.inputs))
        for child, _ in plan.children[node.name]:
            if child.passes_changes and (child.name in in_need or child.name in carries):
                carries.add(node.name)
    return frozenset(carries)


def _aliases(plan: Plan, carries: frozenset[str]) -> dict[str, tuple[str, int]]:
    aliases: dict[str, tuple[str, int]] = {}
    for node in plan.nodes:
        if node.store is None or node.name in carries or not node.begins_table:
            continue
        if not _only_looked_up(plan, node) if node.history_ms is not None else node.keeps_table:
            continue
        for child, side in plan.children[node.name]:
            if side in child.keeps_sides:
                aliases[node.store] = (child.name, side)
                break
    return aliases
