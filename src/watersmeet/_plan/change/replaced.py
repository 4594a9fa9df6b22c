"""Tables with contents that are computed anew when a topology changes: `start(..., evolve=True, replace=[...])`.

A table with a store is compared with what its changed definition gives over the tables that are stored above it, and
only rows that differ go out. So above it operators are computed anew, up to those that have their rows themselves and
have not changed. Whatever is below gets changes, as it always does (docs/decisions/0060).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from watersmeet._plan.change.described import Described, described_table
from watersmeet._plan.change.items import Item, What
from watersmeet._plan.change.lineage import Identities, Lineage
from watersmeet._plan.change.rows import Place, by_place, difference, pairs_of_tables, rows_against
from watersmeet._plan.operators.spec import STAMP, TableSchema
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet.errors import ConfigError


@dataclass(frozen=True)
class Anew:
    """An operator that is computed anew.

    Parameters
    ----------
    own : the sides with rows that it has itself; those of the others come from above.
    """

    own: tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    """A table that is compared with its new contents, which come in on its only side.

    Parameters
    ----------
    port : on which the rows that differ come in.
    visible, stored_ts, old, silent : what rows bring on that way, as the `Edge` says.
    """

    port: int
    visible: bool
    stored_ts: bool
    old: bool
    silent: bool


@dataclass(frozen=True)
class Replacement:
    """The tables that are replaced, and what is computed for it.

    Parameters
    ----------
    roles : by the id of the operator, what becomes of it.
    places : node and stem of the same operators.
    own : of those that are computed anew, by place, the names of the tables that they have themselves.
    inputs : by the name of a table that is read, the store until now that has its rows, where they are read from there.
    refused : why it cannot be done.
    """

    roles: Mapping[int, Anew | Difference] = field(default_factory=dict)
    places: Mapping[int, Place] = field(default_factory=dict)
    own: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[Item, ...] = ()

    @property
    def replaced(self) -> frozenset[Place]:
        """The tables that are compared with their new contents."""
        return frozenset(self.places[number] for number, role in self.roles.items() if isinstance(role, Difference))


def replacement(
    physical: Physical,
    names: Sequence[str],
    old: Described,
    new: Described,
    functions: Collection[tuple[str, str]],
) -> Replacement:
    """The operators that are computed anew to replace tables; none for a table with the definition that it had.

    Parameters
    ----------
    physical : the topology from now on.
    names : of the tables, or of their nodes.
    old, new : both topologies, as `described` gives them.
    functions : (node, role) of the functions that have changed.

    Raises
    ------
    ConfigError : the topology has no table of a name.
    """
    search = _Search(physical, old, new, frozenset(functions))
    for operator in [_operator(physical, name) for name in names]:
        search.replace(operator)
    search.check_readers()
    own = {
        search.place(operator): frozenset(operator.keeps[side].name for side in role.own)
        for operator, role in search.found()
        if isinstance(role, Anew)
    }
    places = {operator.id: search.place(operator) for operator, _ in search.found()}
    return Replacement(dict(search.roles), places, own, dict(search.inputs), tuple(search.refused))


def _operator(physical: Physical, name: str) -> Operator:
    """The table of this name.

    Raises
    ------
    ConfigError : there is none, or its rows are not stored.
    """
    found = [o for o in physical.operators if o.spec.replaceable and name in (o.node, *o.stores)]
    if found:
        return found[0]
    stored = ", ".join(sorted({store for o in physical.operators if o.spec.replaceable for store in o.stores}))
    if name in physical.plan.by_name or any(name in o.stores for o in physical.operators):
        raise ConfigError(
            f"replace=[{name!r}] cannot be computed anew: the rows of this table are not stored behind it.",
            given=f"replace=[{name!r}]",
            hint="Give it a store=: a join, map_values, filter or to_table can be replaced. Behind an aggregate write "
            '.map_values(lambda v: v, store="..."). '
            + (f"Tables that can be replaced: {stored}." if stored else "The topology has none yet."),
        )
    raise ConfigError(
        f"replace=[{name!r}] names no table of this topology.",
        given=f"replace=[{name!r}]",
        hint=f"Tables that can be replaced: {stored or 'none; give one a store='}.",
    )


@dataclass
class _Search:
    """A search for the operators that are to be computed anew, from the replaced tables upwards."""

    physical: Physical
    old: Described
    new: Described
    functions: frozenset[tuple[str, str]]
    roles: dict[int, Anew | Difference] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    refused: list[Item] = field(default_factory=list)

    def found(self) -> Iterator[tuple[Operator, Anew | Difference]]:
        yield from ((self.physical.operators[number], role) for number, role in self.roles.items())

    @staticmethod
    def place(operator: Operator) -> Place:
        return operator.node, operator.stem

    def replace(self, operator: Operator) -> None:
        """Take a table that is to be replaced, if it has changed."""
        before = self._old_operators.get(self.place(operator))
        if before is not None and self._is_same(operator.node):
            return
        name = operator.keeps[0].name
        if before is None or self._rows_are_others(operator, 0):
            why = "it has no rows until now" if before is None else "its rows have other types now"
            cure = (
                ""
                if before is None
                else " Give it another name= and store=: under these it starts empty, or is filled."
            )
            hint = f"Leave it out of replace=.{cure}"
            self._refuse(operator, f"it cannot be replaced: {why}", hint, name)
            return
        if operator.id in self.roles:
            self._refuse_nested(operator)
            return
        entries = self.physical.inputs_of(operator)
        edge = entries[0]
        told = edge.visible, edge.stored_ts, edge.old, edge.silent
        self.roles[operator.id] = Difference(edge.id, *told)
        for each in entries:
            self._above(each)

    def _above(self, edge: Edge) -> None:
        flow = self.physical.flows[edge.flow]
        root = self.physical.flows[flow.root]
        if root.operator is not None:
            self._anew(self.physical.operators[root.operator])
            return
        store = self._store_of(root.node)
        if store is not None:
            self.inputs[root.node] = store
            return
        reader = self.physical.operators[edge.target]
        why = f"it cannot be computed anew: the rows of {root.node!r}, which it reads, are not stored"
        self._refuse(reader, why, f'Give {root.node!r} a store= in a start before: table(..., store="...").')

    def _store_of(self, name: str) -> str | None:
        """A store until now with the rows of an input, if that is a table that has not changed."""
        node = self.physical.plan.by_name[name]
        if node.shape.kind != "table" or not self._is_same(name):
            return None
        columns = described_table(TableSchema(name, (("key", node.shape.key), ("value", node.shape.value), STAMP)))
        tables = (table for each in self.old["operators"] for table in each["tables"] if table["shown"])
        found = (t["name"] for t in tables if t["copies"] == name and t["columns"] == columns["columns"])
        return next(found, None)

    def _anew(self, operator: Operator) -> None:
        """Take an operator that is computed anew."""
        known = self.roles.get(operator.id)
        if known is not None:
            if isinstance(known, Difference):
                self._refuse_nested(operator)
            return
        if not operator.spec.recomputable:
            why = f"it cannot be computed anew: {operator.node!r} reads a stream, or goes by time"
            hint = 'A start before, put a stored table behind it: .map_values(lambda v: v, store="...").'
            self._refuse(operator, why, hint)
            return
        own = tuple(s for s in operator.spec.own_rows(self.physical.site(operator)) if self._has_own(operator, s))
        self.roles[operator.id] = Anew(own)
        for edge in self.physical.inputs_of(operator):
            if edge.side not in own:
                self._above(edge)

    def check_readers(self) -> None:
        """Refuse what has changed, and is read by more than what is computed anew."""
        for operator, role in tuple(self.found()):
            if isinstance(role, Difference) or self._is_same(operator.node):
                continue
            flows = [f.id for f in self.physical.flows if self.physical.flows[f.root].operator == operator.id]
            readers = [self.physical.operators[e.target] for e in self.physical.edges if e.flow in flows]
            others = [o.node for o in readers if o.id not in self.roles]
            others += [sink for flow, sink in self.physical.sink_edges if flow in flows]
            if others:
                why = f"it has changed, and {others[0]!r} reads it, too, whose rows would stay as they were"
                self._refuse(operator, why, f"Give it a store=, and replace {operator.node!r} in a start of its own.")

    # -- what has stayed as it was ---------------------------------------------------------------------------

    def _has_own(self, operator: Operator, side: int) -> bool:
        """Whether an operator has the rows of a side, as they are from now on."""
        before, spec = self._old_operators.get(self.place(operator)), operator.spec
        if before is None or self._rows_are_others(operator, side):
            return False
        if not spec.own_rows_stay and difference(before, self._new_operators[self.place(operator)]):
            return False
        if operator.spec.replaceable:
            return self._is_same(operator.node)
        others = {role for node, role in self.functions if node == operator.node} - {"joiner"}
        inputs, was = self._lineages[1].inputs(operator.node), self._lineages[0].inputs(operator.node)
        node = self.physical.plan.by_name[operator.node]
        number = next((n for n in range(len(inputs)) if operator.spec.side_of(node, n) == side), None)
        if number is None:
            # it comes in by the node's operator before
            number = next(n for n in range(len(inputs)) if operator.spec.side_of(node, n) is None)
        return not others and len(was) == len(inputs) and self._same_input(was[number], inputs[number])

    def _is_same(self, node: str) -> bool:
        """Whether a node, and all above it, is what it was."""
        was = self._lineages[0]
        return (node in was.reads or node in was.sources) and self._same_input(node, node)

    def _same_input(self, was: str, now: str) -> bool:
        before, after = (lineage.above((name,)) for lineage, name in zip(self._lineages, (was, now), strict=True))
        return before == after and not self._nodes_above(now) & self._others

    def _nodes_above(self, name: str) -> Identities:
        plan, found = self.physical.plan, {name}
        for node in reversed(plan.nodes):
            if node.name in found:
                found.update(node.inputs)
        return frozenset(found)

    @cached_property
    def _others(self) -> Identities:
        """Nodes with other functions, or operators with other parameters, than before."""
        was, now = self.old["steps"], self.new["steps"]
        found = {node for node, _ in self.functions} | {node for node in now if was.get(node, now[node]) != now[node]}
        both = self._new_operators.keys() & self._old_operators.keys()
        return frozenset(
            found | {place[0] for place in both if difference(self._old_operators[place], self._new_operators[place])}
        )

    def _rows_are_others(self, operator: Operator, number: int) -> bool:
        """Whether a table's rows cannot go on as they are."""
        before, now = self._old_operators[self.place(operator)], self._new_operators[self.place(operator)]
        was, table = list(pairs_of_tables(before["tables"], now["tables"]))[number]
        return was is None or bool(rows_against(was, table, widens=now["widens"])[0])

    @cached_property
    def _old_operators(self) -> Mapping[Place, Mapping[str, Any]]:
        return by_place(self.old)

    @cached_property
    def _new_operators(self) -> Mapping[Place, Mapping[str, Any]]:
        return by_place(self.new)

    @cached_property
    def _lineages(self) -> tuple[Lineage, Lineage]:
        return Lineage.of(self.old), Lineage.of(self.new)

    def _refuse_nested(self, operator: Operator) -> None:
        hint = "Change one of the two tables in this start, and the other one in the next start."
        self._refuse(operator, "a table that is replaced is made of it, too", hint)

    def _refuse(self, operator: Operator, why: str, hint: str, store: str = "") -> None:
        what: What = "store" if store else "node"
        self.refused.append(Item(what, store or operator.node, "refused", operator.node, why, hint))
