"""The effects of a changed topology on a checkpoint: both plans as JSON, compared by name (law 10).

`described` records a plan, `compare` says of each store, node, input and output what becomes of it (`Change`), and
`replacement` finds the operators that `replace=` computes anew. A table that has rows of the plan before *continues*
(`ContinuedTable`). `_spark/evolve.py` hands the checkpoint over, and carries the state of these tables.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from watersmeet._plan.declaration import FOLLOWS, HEADERS, STAMP, Params, RowColumn, TableSchema, without_headers
from watersmeet._plan.folds import Fold
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet.errors import ConfigError

# The inputs of a node in two plans, and whether its rows are of its present inputs (law 10).
#
# A name identifies the rows that continue, but not their inputs. So the nodes above a node are compared, side by side.
# An input is known by its topic, or by its name where it is a DataFrame; a node by its name; a step without a name of
# the user's by what it does, where that is recorded. Steps that leave records as they are do not count. Steps may come
# and go, and a side may read something more, or no longer all. It may not read one thing in place of another, nor what
# another side of the node has read: its rows would be taken for those of something else.

Identities = frozenset[str]


@dataclass(frozen=True)
class Lineage:
    """The nodes above each node of a plan, as a checkpoint records them."""

    # of each node but outputs and inputs, what it reads, what it is known by, and what it is called
    reads: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, str]  # of each input what it is known by
    # nodes of which it does not matter what is above them: their rows go on by their name alone
    replaced: Identities = frozenset()

    @classmethod
    def of(cls, plan: Mapping[str, Any], replaced: Identities = frozenset()) -> Lineage:
        """That of a plan, as `described` gives it."""
        return cls(
            plan["reads"], {name: place_of(name, source)[0] for name, source in plan["sources"].items()}, replaced
        )

    def inputs(self, node: str) -> tuple[str, ...]:
        """The inputs of a node; an input reads itself."""
        return (node,) if node in self.sources else tuple(self.reads[node]["inputs"])

    def above(self, nodes: Iterable[str]) -> Identities:
        """The identities of nodes and of all nodes above them."""
        identities: set[str] = set()
        for node in nodes:
            if node in self.sources:
                identities.add(self.sources[node])
                continue
            identity = self.reads[node]["is"]
            above = self.above(self.inputs(node)) if node not in self.replaced else frozenset()
            identities |= above | (set() if identity is None else {identity})
        return frozenset(identities)

    @cached_property
    def everything(self) -> Identities:
        return self.above((*self.reads, *self.sources))

    def called(self, node: str) -> str:
        """A node as a user knows it: an input by what it reads, what has no name of the user's by what is above it."""
        if node in self.sources:
            return self.sources[node]
        name = self.reads[node]["called"]
        if name is not None:
            return repr(name)
        return " with ".join(dict.fromkeys(self.called(parent) for parent in self.inputs(node)))


@dataclass(frozen=True)
class LineageReading:
    """The inputs of an operator's sides, or of a table's keeper, in two plans."""

    # old, new: the plans
    old: Lineage
    new: Lineage
    # before, after: the nodes that each side reads
    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]

    @classmethod
    def of_node(cls, old: Lineage, new: Lineage, node: str) -> LineageReading:
        return cls(old, new, *(tuple((name,) for name in plan.inputs(node)) for plan in (old, new)))

    @cached_property
    def _sides(self) -> tuple[tuple[Identities, Identities], ...]:
        """Of each side what it reads no more, and what it reads in addition, as far as that is, or was, there."""
        count = max(len(self.before), len(self.after))
        sides = []
        for side in range(count):
            previous = self.old.above(self.before[side]) if side < len(self.before) else frozenset()
            current = self.new.above(self.after[side]) if side < len(self.after) else frozenset()
            inputs = frozenset((*self.old.sources.values(), *self.new.sources.values()))
            removed, added = previous - current, current - previous
            sides.append((removed & (inputs | self.new.everything), added & (inputs | self.old.everything)))
        return tuple(sides)

    @cached_property
    def _changed(self) -> tuple[Identities, Identities]:
        """The same of all sides together."""
        removed, added = (frozenset[str]().union(*(side[number] for side in self._sides)) for number in (0, 1))
        return removed, added

    @property
    def exchanged(self) -> bool:
        """Whether a side reads what another one has read, and reads no more."""
        removed, added = self._changed
        return bool(removed & added)

    @property
    def against(self) -> str:
        """Why what is kept is not of what is read now; empty: it is."""
        if not self.exchanged and not any(removed and added for removed, added in self._sides):
            return ""
        previous, current = _listed(self.old, self.before), _listed(self.new, self.after)
        if previous == current:
            # what differs lies further above, or has no name
            removed, added = (", ".join(sorted(map(_user_name, identities))) for identities in self._changed)
            previous, current = f"{previous} (with {removed} above)", f"{current} (with {added} above)"
        prefix = "its inputs have changed places: " if self.exchanged else ""
        return f"{prefix}it read {previous}, it reads {current}"

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
        removed, added = (sorted(identities & inputs) for identities in self._changed)
        notes = [f"reads {', '.join(added)}, too, from now on"] if added else []
        return "; ".join([*notes, *([f"reads {', '.join(removed)} no more: what came of it stays"] if removed else [])])


def place_of(name: str, source: Mapping[str, Any]) -> tuple[str, bool]:
    topic = source["topic"]
    return (f"rows {name}", False) if topic is None else (f"topic {topic}", bool(source["global"]))


def _user_name(identity: str) -> str:
    """The name that a user knows it by: of a step without a name, its action."""
    kind, _, name = identity.partition(" ")
    if kind in ("topic", "rows"):
        return identity
    return repr(name) if kind == "node" else f"a {kind}"


def _listed(plan: Lineage, sides: tuple[tuple[str, ...], ...]) -> str:
    return " and ".join(dict.fromkeys(plan.called(node) for side in sides for node in side))


# A plan as a checkpoint records it, so that another topology can be compared with it (law 10: by names).
#
# The record is plain JSON: the program that made it may be gone when it is read.

Described = Mapping[str, Any]


Texts = Mapping[str, Mapping[str, str]]
"""Of functions, by node and role."""


def described(physical: Physical, origins: Mapping[str, str], functions: Texts | None = None) -> dict[str, Any]:
    """The facts by which a change is judged.

    Parameters
    ----------
    origins : by the name of each input what it reads, as text.
    functions : what functions come to, where that is known.
    """
    plan = physical.plan
    return {
        "operators": [_described_operator(physical, operator) for operator in physical.operators],
        "steps": {node.name: node.stem for node in plan.nodes if not node.is_sink and node.inputs},
        "reads": _reads(physical, functions or {}),
        "sources": {
            source.name: {
                "topic": source.origin.topic,
                "global": source.shape.kind == "global",
                "origin": origins.get(source.name, ""),
            }
            for source in plan.sources
        },
        "sinks": {
            sink.name: {"output": str(sink.output), **sink.place.recorded(alone=plan.one_writer)} for sink in plan.sinks
        },
    }


def _reads(physical: Physical, functions: Texts) -> dict[str, Any]:
    """Of each node that reads others which these are, what it is known by, and what its user calls it."""
    plan, keepers = physical.plan, {operator.node: operator for operator in reversed(physical.operators)}
    reads = {}
    for node in plan.nodes:
        if node.inputs and not node.is_sink:
            keeper = keepers.get(node.name)
            sides = node.read_through(plan)
            identity = _step(plan, node, functions) if keeper is None else f"node {node.name}"
            reads[node.name] = {"inputs": list(sides), "is": identity, "called": _display_name(plan, node)}
    return reads


def _display_name(plan: Plan, node: Node) -> str | None:
    """A node's name, or that of the one beside it of which it is a part; None where the user knows of none."""
    base = plan.by_name.get(node.name.rpartition("-")[0])
    if base is not None and (base.inputs == node.inputs or base.name in node.inputs or node.name in base.inputs):
        return _display_name(plan, base) if base.inputs == node.inputs else None
    return None if _is_made_up(plan, node) else node.name


def _step(plan: Plan, node: Node, functions: Texts) -> str | None:
    """The identity of a step: its name if it is the user's, else its action; None if it only passes on."""
    if not _is_made_up(plan, node):
        return f"node {node.name}"
    if not plan.functions_of(node) and not node.details():
        return None
    if node.name not in functions:
        return f"node {node.name}"
    does = json.dumps([node.details(), functions[node.name]], sort_keys=True)
    return f"{node.stem} {hashlib.sha256(does.encode()).hexdigest()[:16]}"


def _is_made_up(plan: Plan, node: Node) -> bool:
    """Whether its name is the library's, or begins with one that is."""
    parts = node.name.split("-")
    return any("-".join(parts[:count]) in plan.made_up for count in range(1, len(parts) + 1))


def _described_operator(physical: Physical, operator: Operator) -> dict[str, Any]:
    time = operator.time
    return {
        "node": operator.node,
        "operator": operator.stem,
        "named": operator.node not in physical.plan.made_up,
        "params": _params(operator.params),
        "time": None if time is None else {"of each partition": time.domains, "held back above, ms": time.hold_back},
        "widens": operator.declaration.widens,
        **({"grows": True} if operator.declaration.grows else {}),
        "tables": [described_table(table) for table in operator.tables],
    }


def _params(params: Params) -> dict[str, str]:
    names = (parameter.name for parameter in fields(params) if not FOLLOWS.items() <= parameter.metadata.items())
    return {name: _text(getattr(params, name)) for name in names}


def _text(value: Any) -> str:
    if isinstance(value, Fold):
        # functions have no text of their own: those that Spark sees are compared as functions
        return f"{type(value.how).__name__} {value.text}"
    return repr(value)


def described_table(table: TableSchema) -> dict[str, Any]:
    """A table as JSON has it."""
    retention = table.retention
    return {
        "name": table.name,
        "columns": [[name, _type(kind)] for name, kind in table.columns],
        "identity": list(table.identity),
        "lies": {
            "order": list(table.order),
            "retention": None if retention is None else [retention.time, retention.domain, retention.ends],
            "appended": table.appended,
            "due": None if table.due is None else list(table.due),
        },
        "shown": table.shown,
        "copies": table.copies,
    }


def _type(kind: Any) -> Any:
    """A type as JSON: Spark's own way of writing it, else its text."""
    value = getattr(kind, "jsonValue", None)
    return value() if callable(value) else str(kind)


# Which types stored values can be read as: the same, or a wider one (a nullable column more, an int as a long).
#
# Types are as a checkpoint records them: Spark's JSON.

_CHAINS = (("byte", "short", "integer", "long"), ("float", "double"))
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def hinders(old: Any, new: Any) -> str | None:
    """Why values of the type `old` cannot be read as those of the type `new`; None: they can.

    Parameters
    ----------
    old, new : as `DataType.jsonValue` gives them, or texts.
    """
    return None if old == new else _between(old, new, "")


def _between(old: Any, new: Any, at: str) -> str | None:
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old["type"] == new["type"]:
        if old["type"] == "struct":
            return _structs(old, new, at)
        if old["type"] == "array":
            return _nullable(old["containsNull"], new["containsNull"], f"{at}[]") or _between(
                old["elementType"], new["elementType"], f"{at}[]"
            )
        if old["type"] == "map":
            if old["keyType"] != new["keyType"]:
                return _differs(old["keyType"], new["keyType"], f"keys of {at or 'the map'}")
            return _nullable(old["valueContainsNull"], new["valueContainsNull"], f"{at}{{}}") or _between(
                old["valueType"], new["valueType"], f"{at}{{}}"
            )
    return None if old == new or _is_wider(old, new) else _differs(old, new, at or "it")


def _structs(old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> str | None:
    old_fields = {column["name"]: column for column in old["fields"]}
    new_fields = {column["name"]: column for column in new["fields"]}
    removed = [name for name in old_fields if name not in new_fields]
    if removed:
        return f"{', '.join(_path(at, name) for name in removed)}: is no longer there"
    for name, member in new_fields.items():  # the fields of a schema
        path = _path(at, name)
        if name not in old_fields:
            if not member["nullable"]:
                return f"{path}: is new, and may not be null, as it is in the rows that are stored"
            continue
        reason = _nullable(old_fields[name]["nullable"], member["nullable"], path)
        reason = reason or _between(old_fields[name]["type"], member["type"], path)
        if reason:
            return reason
    return None


def _nullable(old: bool, new: bool, at: str) -> str | None:
    return f"{at}: may not be null any more, as it may be in the rows that are stored" if old and not new else None


def _is_wider(old: Any, new: Any) -> bool:
    for chain in _CHAINS:
        if old in chain and new in chain:
            return chain.index(old) < chain.index(new)
    old_match, new_match = (_DECIMAL.fullmatch(kind) if isinstance(kind, str) else None for kind in (old, new))
    if old_match is None or new_match is None:
        return False
    (precision, scale), (wide, fine) = (tuple(map(int, decimal.groups())) for decimal in (old_match, new_match))
    return fine >= scale and wide - fine >= precision - scale


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _differs(old: Any, new: Any, at: str) -> str:
    return f"{at}: was {written(old)}, is {written(new)}"


def written(kind: Any) -> str:
    """A type as Spark writes it in DDL."""
    if not isinstance(kind, Mapping):
        return {"integer": "int", "long": "bigint"}.get(str(kind), str(kind))
    if kind["type"] == "struct":
        fields = (f"{member['name']}: {written(member['type'])}" for member in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    if kind["type"] == "array":
        return f"array<{written(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{written(kind['keyType'])}, {written(kind['valueType'])}>"
    return str(kind["type"])


# Operators and tables of two topologies, as `described` gives them: which belong together, and whether rows go on.

TableId = tuple[str, str]
"""Of an operator: its node, and its kind."""


def by_place(plan: Described) -> dict[TableId, Mapping[str, Any]]:
    """The operators of a topology, by where they stand."""
    return {(operator["node"], operator["operator"]): operator for operator in plan["operators"]}


def pairs_of_tables(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Each table with its former one: of its name, else in order of those with names that are gone; or None."""
    by_name, names = {table["name"]: table for table in old}, {table["name"] for table in new}
    unmatched = iter([table for table in old if table["name"] not in names]) if len(old) == len(new) else iter(())
    yield from ((by_name.get(table["name"]) or next(unmatched, None), table) for table in new)


def difference(old: Mapping[str, Any], operator: Mapping[str, Any]) -> str:
    """Why an operator cannot continue: its first difference; empty if it can."""
    if len(old["tables"]) != len(operator["tables"]) and not operator.get("grows"):
        return f"it kept {len(old['tables'])} tables, and now keeps {len(operator['tables'])}"
    for name in dict.fromkeys((*old["params"], *operator["params"])):
        previous, current = old["params"].get(name, "not there"), operator["params"].get(name, "not there")
        if previous != current:
            return f"{name} was {previous}, is {current}"
    previous, current = old["time"], operator["time"]
    if previous != current:
        details = [
            f"{name}: was {previous[name]}, is {current[name]}"
            for name in current or ()
            if previous and previous[name] != current[name]
        ]
        return "its time goes otherwise" + (f": {', '.join(details)}" if details and current else "")
    return ""


def rows_against(former: Mapping[str, Any], table: Mapping[str, Any], *, widens: bool) -> tuple[str, list[str]]:
    """Why stored rows cannot be read as those of another table, and which columns are wider."""
    old_columns, new_columns = dict(former["columns"]), dict(table["columns"])
    headers = HEADERS in old_columns.values(), HEADERS in new_columns.values()
    # where records begin to carry headers, those of before have none
    old_columns, new_columns = (dict(without_headers(columns.items())) for columns in (old_columns, new_columns))
    if (
        list(old_columns) != list(new_columns)
        or former["identity"] != table["identity"]
        or former["lies"] != table["lies"]
    ):
        return "its rows lie otherwise", []
    wider = [] if headers[0] == headers[1] else [f"with{'' if headers[1] else 'out'} headers from now on"]
    for name, kind in new_columns.items():
        if kind == old_columns[name]:
            continue
        text = f"{name}: was {written(old_columns[name])}, is {written(kind)}"
        if name == "key" or name in table["identity"]:
            return f"{text}; rows lie by the hash of it", []
        if not widens:
            return f"{text}; what an aggregate is made of stays of one type", []
        reason = hinders(old_columns[name], kind)
        if reason:
            return f"{name}: {reason}", []
        wider.append(text)
    return "", wider


# The effect of a change of topology on one thing.

Outcome = Literal[
    "kept",
    "widened",
    "filled",
    "started empty",
    "added",
    "changed",
    "dropped",
    "refused",
    "replaced",
    "computed anew",
]
Subject = Literal["store", "node", "source", "sink", "settings"]


@dataclass(frozen=True)
class Item:
    """The effect on one thing."""

    what: Subject  # "store", "node" (between inputs, tables and outputs), "source", "sink" or "settings"
    name: str  # its name
    outcome: Outcome  # what happens to it
    node: str = ""  # of a store the node of its operator
    reason: str = ""  # why, where that is to be said
    hint: str = ""  # what to do, where there is anything to do

    def __str__(self) -> str:
        at = f" of {self.node}" if self.node and self.node != self.name else ""
        text = f"{self.what} {self.name}{at}: {self.outcome}" + (f" ({self.reason})" if self.reason else "")
        return text + (f"\n  Hint: {self.hint}" if self.hint else "")


# Tables that are computed anew: `start(..., evolve=True, replace=[...])`.
#
# A table with a store is compared with what its changed definition gives over the tables that are stored above it, and
# only rows that differ go out. So above it operators are computed anew, up to those that have their rows themselves and
# have not changed. Whatever is below gets changes, as it always does (docs/decisions/changes.md).


@dataclass(frozen=True)
class Recomputation:
    """An operator that is computed anew."""

    own: tuple[int, ...]  # the sides with rows that it has itself; those of the others come from above


@dataclass(frozen=True)
class Difference:
    """A table that is compared with its new contents, which come in on its only side."""

    port: int  # on which the rows that differ come in
    columns: frozenset[RowColumn]  # what rows bring on that way, as the `Edge` says


@dataclass(frozen=True)
class Replacement:
    """The tables that are replaced, and what is computed for it."""

    # by the id of the operator, what becomes of it
    roles: Mapping[int, Recomputation | Difference] = field(default_factory=dict)
    places: Mapping[int, TableId] = field(default_factory=dict)  # node and stem of the same operators
    # of those that are computed anew, by place, the names of the tables that they have themselves
    own: Mapping[TableId, frozenset[str]] = field(default_factory=dict)
    # by the name of a table that is read, the store until now that has its rows, where they are read from there
    inputs: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[Item, ...] = ()  # why it cannot be done

    @property
    def replaced(self) -> frozenset[TableId]:
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
    """
    search = _Search(physical, old, new, frozenset(functions))
    for operator in [_replaced_operator(physical, name) for name in names]:
        search.replace(operator)
    search.check_readers()
    tables = {
        search.place(operator): frozenset(operator.tables[side].name for side in role.own)
        for operator, role in search.found()
        if isinstance(role, Recomputation)
    }
    places = {operator.id: search.place(operator) for operator, _ in search.found()}
    return Replacement(dict(search.roles), places, tables, dict(search.inputs), tuple(search.refused))


def _replaced_operator(physical: Physical, name: str) -> Operator:
    matches = [o for o in physical.operators if o.declaration.replaceable and name in (o.node, *o.stores)]
    if matches:
        return matches[0]
    candidates = ", ".join(
        sorted({store for o in physical.operators if o.declaration.replaceable for store in o.stores})
    )
    if name in physical.plan.by_name or any(name in o.stores for o in physical.operators):
        raise ConfigError(
            f"replace=[{name!r}] cannot be computed anew: the rows of this table are not stored behind it.",
            hint="Give it a store=: a join, map_values, filter or to_table can be replaced. Behind an aggregate write "
            '.map_values(lambda v: v, store="..."). '
            + (f"Tables that can be replaced: {candidates}." if candidates else "The topology has none yet."),
        )
    raise ConfigError(
        f"replace=[{name!r}] names no table of this topology.",
        hint=f"Tables that can be replaced: {candidates or 'none'}; also joins, map_values, filter with a store=.",
    )


@dataclass
class _Search:
    """A search for the operators that are to be computed anew, from the replaced tables upwards."""

    physical: Physical
    old: Described
    new: Described
    functions: frozenset[tuple[str, str]]
    roles: dict[int, Recomputation | Difference] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    refused: list[Item] = field(default_factory=list)

    def found(self) -> Iterator[tuple[Operator, Recomputation | Difference]]:
        yield from ((self.physical.operators[number], role) for number, role in self.roles.items())

    @staticmethod
    def place(operator: Operator) -> TableId:
        return operator.node, operator.stem

    def replace(self, operator: Operator) -> None:
        """Take a table that is to be replaced, if it has changed."""
        old = self._old_operators.get(self.place(operator))
        if old is not None and self._is_same(operator.node):
            return
        name = operator.tables[0].name
        if old is None or self._rows_are_others(operator, 0):
            reason = "it has no rows until now" if old is None else "its rows have other types now"
            cure = (
                "" if old is None else " Give it another name= and store=: under these it starts empty, or is filled."
            )
            hint = f"Leave it out of replace=.{cure}"
            self._refuse(operator, f"it cannot be replaced: {reason}", hint, name)
            return
        if operator.id in self.roles:
            self._refuse_nested(operator)
            return
        entries = self.physical.inputs_of(operator)
        edge = entries[0]
        self.roles[operator.id] = Difference(edge.id, edge.columns)
        for entry in entries:
            self._above(entry)

    def _above(self, edge: Edge) -> None:
        flow = self.physical.flows[edge.flow]
        root = self.physical.flows[flow.root]
        if root.operator is not None:
            self._recompute(self.physical.operators[root.operator])
            return
        store = self._store_of(root.node)
        if store is not None:
            self.inputs[root.node] = store
            return
        reader = self.physical.operators[edge.target]
        reason = f"it cannot be computed anew: the rows of {root.node!r}, which it reads, are not stored"
        self._refuse(reader, reason, f'Give {root.node!r} a store= in a start before: table(..., store="...").')

    def _store_of(self, name: str) -> str | None:
        """A store until now with the rows of an input, if that is a table that has not changed."""
        node = self.physical.plan.by_name[name]
        if node.shape.kind != "table" or not self._is_same(name):
            return None
        rows = TableSchema(name, (("key", node.shape.key), ("value", node.shape.value), STAMP))
        columns = without_headers(described_table(rows)["columns"])
        tables = (table for operator in self.old["operators"] for table in operator["tables"] if table["shown"])
        names = (t["name"] for t in tables if t["copies"] == name and without_headers(t["columns"]) == columns)
        return next(names, None)

    def _recompute(self, operator: Operator) -> None:
        role = self.roles.get(operator.id)
        if role is not None:
            if isinstance(role, Difference):
                self._refuse_nested(operator)
            return
        if not operator.declaration.recomputable:
            reason = f"it cannot be computed anew: {operator.node!r} reads a stream, or goes by time"
            hint = 'A start before, put a stored table behind it: .map_values(lambda v: v, store="...").'
            self._refuse(operator, reason, hint)
            return
        sides = tuple(
            s for s in self.physical.declaration_of(operator).own_rows(self.physical.plan) if self._has_own(operator, s)
        )
        self.roles[operator.id] = Recomputation(sides)
        for edge in self.physical.inputs_of(operator):
            if edge.side not in sides:
                self._above(edge)

    def check_readers(self) -> None:
        """Refuse what has changed, and is read by more than what is computed anew."""
        for operator, role in tuple(self.found()):
            if isinstance(role, Difference) or self._is_same(operator.node):
                continue
            flows = [f.id for f in self.physical.flows if self.physical.flows[f.root].operator == operator.id]
            readers = [self.physical.operators[e.target] for e in self.physical.edges if e.flow in flows]
            outsiders = [o.node for o in readers if o.id not in self.roles]
            outsiders += [sink for flow, sink in self.physical.sink_edges if flow in flows]
            if outsiders:
                reason = f"it has changed, and {outsiders[0]!r} reads it, too, whose rows would stay as they were"
                self._refuse(
                    operator, reason, f"Give it a store=, and replace {operator.node!r} in a start of its own."
                )

    # -- what has stayed as it was ---------------------------------------------------------------------------

    def _has_own(self, operator: Operator, side: int) -> bool:
        """Whether an operator has the rows of a side, as they are from now on."""
        old = self._old_operators.get(self.place(operator))
        if old is None or self._rows_are_others(operator, side):
            return False
        if operator.declaration.messages == "received" and difference(old, self._new_operators[self.place(operator)]):
            return False
        if operator.declaration.replaceable:
            return self._is_same(operator.node)
        roles = {role for node, role in self.functions if node == operator.node} - {"joiner"}
        inputs, old_inputs = self._lineages[1].inputs(operator.node), self._lineages[0].inputs(operator.node)
        side_of = self.physical.declaration_of(operator).side_of
        number = next((n for n in range(len(inputs)) if side_of(n) == side), None)
        if number is None:
            # it comes in by the node's operator before
            number = next(n for n in range(len(inputs)) if side_of(n) is None)
        return not roles and len(old_inputs) == len(inputs) and self._same_input(old_inputs[number], inputs[number])

    def _is_same(self, node: str) -> bool:
        was = self._lineages[0]
        return (node in was.reads or node in was.sources) and self._same_input(node, node)

    def _same_input(self, old: str, new: str) -> bool:
        old_above, new_above = (
            lineage.above((name,)) for lineage, name in zip(self._lineages, (old, new), strict=True)
        )
        return old_above == new_above and not self._nodes_above(new) & self._changed_nodes

    def _nodes_above(self, name: str) -> Identities:
        plan, names = self.physical.plan, {name}
        for node in reversed(plan.nodes):
            if node.name in names:
                names.update(node.inputs)
        return frozenset(names)

    @cached_property
    def _changed_nodes(self) -> Identities:
        """Nodes with other functions, or operators with other parameters, than before."""
        old_steps, new_steps = self.old["steps"], self.new["steps"]
        nodes = {node for node, _ in self.functions} | {
            node for node in new_steps if old_steps.get(node, new_steps[node]) != new_steps[node]
        }
        places = self._new_operators.keys() & self._old_operators.keys()
        return frozenset(
            nodes | {place[0] for place in places if difference(self._old_operators[place], self._new_operators[place])}
        )

    def _rows_are_others(self, operator: Operator, number: int) -> bool:
        """Whether a table's rows cannot go on as they are."""
        old, new = self._old_operators[self.place(operator)], self._new_operators[self.place(operator)]
        former, table = list(pairs_of_tables(old["tables"], new["tables"]))[number]
        return former is None or bool(rows_against(former, table, widens=new["widens"])[0])

    @cached_property
    def _old_operators(self) -> Mapping[TableId, Mapping[str, Any]]:
        return by_place(self.old)

    @cached_property
    def _new_operators(self) -> Mapping[TableId, Mapping[str, Any]]:
        return by_place(self.new)

    @cached_property
    def _lineages(self) -> tuple[Lineage, Lineage]:
        return Lineage.of(self.old), Lineage.of(self.new)

    def _refuse_nested(self, operator: Operator) -> None:
        hint = "Change one of the two tables in this start, and the other one in the next start."
        self._refuse(operator, "a table that is replaced is made of it, too", hint)

    def _refuse(self, operator: Operator, reason: str, hint: str, store: str = "") -> None:
        subject: Subject = "store" if store else "node"
        self.refused.append(Item(subject, store or operator.node, "refused", operator.node, reason, hint))


# The effects of a change of topology on a checkpoint, listed in advance.
#
# Law 10: what is kept is found by name. An operator of a node continues the tables of the operator that stood there;
# a store that the user has named, the rows of the store of that name. All else starts empty, or is dropped.


@dataclass(frozen=True)
class ContinuedTable:
    """A table that continues, and where its rows come from."""

    # node, table: that keeps it, and its name, from now on
    node: str
    table: str
    # from_node, from_table: the same until now
    from_node: str
    from_table: str
    scalars: bool  # whether the operator goes on as a whole, with the times that it knows
    widened: bool = False  # whether its rows are to be read as wider types


@dataclass(frozen=True)
class Change:
    """The effects of a start with `evolve=True` on a checkpoint.

    Parameters
    ----------
    items : what becomes of each store, node, input and output.
    continued : the tables that go on, and where they have their rows from.
    replacement : what is computed for the tables that are replaced; None: none are.

    Attributes
    ----------
    unchanged, filled, started_empty, dropped, widened, refused, replaced : the items of that outcome.
    """

    items: tuple[Item, ...]
    continued: tuple[ContinuedTable, ...] = ()
    replacement: Replacement | None = None

    @property
    def unchanged(self) -> tuple[Item, ...]:
        return self._of("kept")

    @property
    def filled(self) -> tuple[Item, ...]:
        """Stores that are new, with the rows that another one has of the same table."""
        return self._of("filled")

    @property
    def started_empty(self) -> tuple[Item, ...]:
        return self._of("started empty")

    @property
    def dropped(self) -> tuple[Item, ...]:
        return self._of("dropped")

    @property
    def widened(self) -> tuple[Item, ...]:
        """Stores with rows that are read as wider types."""
        return self._of("widened")

    @property
    def replaced(self) -> tuple[Item, ...]:
        """Stores with contents that are computed anew, and of which only rows that differ go out."""
        return self._of("replaced")

    @property
    def refused(self) -> tuple[Item, ...]:
        return self._of("refused")

    @property
    def added_sources(self) -> frozenset[str]:
        return frozenset(item.name for item in self._of("added") if item.what == "source")

    @property
    def possible(self) -> bool:
        """Whether a start with `evolve=True` goes on from the checkpoint."""
        return not self.refused

    @property
    def changed(self) -> bool:
        """Whether anything is other than in the checkpoint."""
        return any(item.outcome != "kept" for item in self.items)

    def __str__(self) -> str:
        if not self.changed:
            return "No change: the checkpoint is of this topology."
        head = "The change is possible." if self.possible else "The change is refused."
        return "\n".join([head, *map(str, self.items)])

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "possible": self.possible,
            "changed": self.changed,
            "items": [{key: value for key, value in asdict(item).items() if value} for item in self.items],
        }

    def _of(self, outcome: Outcome) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.outcome == outcome)


def shared(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """The names in both, in `new` alone, in `old` alone."""
    return (
        [name for name in new if name in old],
        [name for name in new if name not in old],
        [name for name in old if name not in new],
    )


# Two plans compared, as a checkpoint records them: what a change of the one into the other does to each thing.

_RENAME_HINT = "Give the node another name=, under which it starts empty; or change it back."


def compare(old: Described, new: Described, replaced: Replacement | None = None) -> Change:
    """The effects of a change from `old` to `new`, both as `described` gives them.

    Parameters
    ----------
    replaced : the tables that are replaced, and what is computed for it.
    """
    replaced = replaced or Replacement()
    stores, continued = _stores(old, new, replaced)
    items = [*stores, *replaced.refused, *_steps(old["steps"], new["steps"]), *_sources(old["sources"], new["sources"])]
    items = [*items, *_sinks(old["sinks"], new["sinks"])]
    return Change(tuple(items), tuple(continued), replaced if replaced.roles else None)


def other_columns(old: Described, new: Described) -> list[str]:
    """Of the tables in both plans those that keep columns of other names, with what they kept and keep, as text."""
    old_tables, new_tables = (
        {t["name"]: _names(t) for operator in plan["operators"] for t in operator["tables"]} for plan in (old, new)
    )
    return [
        f"{table}: kept {old_tables[table]}; keeps {names}"
        for table, names in new_tables.items()
        if old_tables.get(table, names) != names
    ]


def _names(table: Mapping[str, Any]) -> str:
    return ", ".join(name for name, _ in table["columns"])


# -- stores ------------------------------------------------------------------------------------------------


def _stores(old: Described, new: Described, replaced: Replacement) -> tuple[list[Item], list[ContinuedTable]]:
    places, cut = by_place(old), frozenset(node for node, _ in replaced.replaced)
    tables = _Tables.of(old, Lineage.of(new, cut), cut)
    nodes = dict(places.keys())
    items: list[Item] = []
    continued: list[ContinuedTable] = []
    recomputed = frozenset(replaced.places.values())
    read, missed = _readings(tables, places, new, recomputed), _missed_rows(old, new)
    items.extend(item for node, reading in read.items() if (item := _as_read(reading, node)) is not None)
    for place, operator in by_place(new).items():
        old_operator = places.get(place)
        if place in recomputed:
            _replace(old_operator, operator, replaced, items, continued)
            continue
        if operator["node"] in read and read[operator["node"]].against:
            continue
        if old_operator is not None:
            _continue_operator(old_operator, operator, items, continued)
        elif operator["node"] in nodes and operator["tables"] and not _had_operators(new, operator["node"], places):
            items.append(_of_another_kind(operator, nodes[operator["node"]]))
        elif operator["node"] in missed:
            item = _without_rows(operator["node"], missed[operator["node"]])
            items += [] if item in items else [item]
        else:
            _match_stores(operator, tables, items, continued)
    used = {(entry.from_node, entry.from_table) for entry in continued}
    used |= {(place[0], table["name"]) for place in recomputed & places.keys() for table in places[place]["tables"]}
    met = {item.name if item.what == "node" else item.node for item in items if item.outcome == "refused"}
    started = [item for item in items if item.outcome == "started empty"]
    for (node, kind), operator in places.items():
        for table in operator["tables"]:
            if table["shown"] and node not in met and (node, table["name"]) not in used:
                items.append(_dropped(node, kind, table, started, new))
    return items, continued


@dataclass(frozen=True)
class _Tables:
    """The tables until now."""

    # by name the place, the table, and whether it is one that time lets nothing go of
    named: Mapping[str, tuple[TableId, Mapping[str, Any], bool]]
    # by table, the places of the tables that have its rows as they are
    copies: Mapping[str, list[tuple[TableId, Mapping[str, Any]]]]
    # old, new: what stands above the nodes of both plans
    old: Lineage
    new: Lineage

    @classmethod
    def of(cls, plan: Described, new: Lineage, replaced: frozenset[str]) -> _Tables:
        """Those of a plan, beside another one."""
        by_name: dict[str, tuple[TableId, Mapping[str, Any], bool]] = {}
        copies: dict[str, list[tuple[TableId, Mapping[str, Any]]]] = {}
        for place, operator in by_place(plan).items():
            for table in operator["tables"]:
                by_name[table["name"]] = place, table, operator["time"] is None and operator["widens"]
                if table["copies"] is not None:
                    copies.setdefault(table["copies"], []).append((place, table))
        return cls(by_name, copies, Lineage.of(plan, replaced), new)

    def reading(self, old: tuple[str, Mapping[str, Any]], new: tuple[str, Mapping[str, Any]]) -> LineageReading:
        """The contents of two tables, each with its node: the tables with the same rows, or all that the node reads."""
        sides = []
        for plan, (node, table) in ((self.old, old), (self.new, new)):
            copied = table["copies"]
            sides.append((plan.inputs(node) if copied is None else (copied,),))
        return LineageReading(self.old, self.new, *sides)


def _readings(
    tables: _Tables, places: Mapping[TableId, Any], new: Described, recomputed: frozenset[TableId]
) -> dict[str, LineageReading]:
    going_on = {place: operator for place, operator in by_place(new).items() if place in places.keys() - recomputed}
    nodes = {node for (node, _), operator in going_on.items() if operator["tables"]}
    return {node: LineageReading.of_node(tables.old, tables.new, node) for node in sorted(nodes)}


def _missed_rows(old: Described, new: Described) -> dict[str, list[str]]:
    """Of nodes that are made of global tables alone, those tables that were read before: their rows come no more."""
    above = {name: {place_of(name, source)} for name, source in new["sources"].items() if source["global"]}
    for node, facts in new["reads"].items():
        if all(name in above for name in facts["inputs"]):
            above[node] = set().union(*(above[name] for name in facts["inputs"]))
    places = {place_of(name, source) for name, source in old["sources"].items()}
    lost = {node: sorted(text for text, _ in above[node] & places) for node in new["reads"] if node in above}
    return {node: tables for node, tables in lost.items() if tables}


def _without_rows(node: str, tables: Sequence[str]) -> Item:
    reason = f"it would lack the rows of {', '.join(tables)} that were read before"
    return Item("node", node, "refused", reason=reason, hint="Begin a new checkpoint, or leave store= of the view out.")


def _as_read(reading: LineageReading, node: str) -> Item | None:
    """The items of an operator that would continue, and reads something else, something more, or less."""
    if reading.against:
        return Item("node", node, "refused", reason=reading.against, hint=reading.hint)
    return Item("node", node, "changed", reason=reading.noted) if reading.noted else None


def _had_operators(plan: Described, node: str, places: Mapping[tuple[str, str], Any]) -> bool:
    """Whether another operator of the node is one that stood there: it has got one more, and is what it was."""
    node_places = {place for place in by_place(plan) if place[0] == node}
    return bool(node_places & places.keys())


def _of_another_kind(operator: Mapping[str, Any], was: str) -> Item:
    return Item(
        "node",
        operator["node"],
        "refused",
        reason=f"it was a {was}, it is a {operator['operator']}, which keeps other rows",
        hint=_RENAME_HINT,
    )


def _replace(
    old: Mapping[str, Any] | None,
    operator: Mapping[str, Any],
    replaced: Replacement,
    items: list[Item],
    continued: list[ContinuedTable],
) -> None:
    """An operator that is computed anew, or a table that is compared with its new contents."""
    place = operator["node"], operator["operator"]
    goes_on = replaced.own.get(place, frozenset(table["name"] for table in operator["tables"]))
    for former, table in pairs_of_tables(old["tables"] if old else (), operator["tables"]):
        outcome: Outcome = "replaced" if place in replaced.replaced else "computed anew"
        if table["shown"]:
            items.append(Item("store", table["name"], outcome, place[0]))
        if former is not None and table["name"] in goes_on:
            wider = rows_against(former, table, widens=operator["widens"])[1]
            continued.append(ContinuedTable(place[0], table["name"], place[0], former["name"], True, bool(wider)))


def _continue_operator(
    old: Mapping[str, Any], operator: Mapping[str, Any], items: list[Item], continued: list[ContinuedTable]
) -> None:
    """An operator that stands where one of its kind stood: its tables continue."""
    node = operator["node"]
    against = difference(old, operator)
    if against:
        items.append(Item("node", node, "refused", reason=against, hint=_RENAME_HINT))
        return
    for former, table in pairs_of_tables(old["tables"], operator["tables"]):
        if former is None:
            items.append(Item("store", table["name"], "started empty", node, hint=_name_it(operator)))
            continue
        reason, wider = rows_against(former, table, widens=operator["widens"])
        outcome: Outcome = "refused" if reason else ("widened" if wider else "kept")
        note = reason or ", ".join(wider)
        if former["name"] != table["name"] and not reason:
            note = "; ".join(filter(None, [note, f"was called {former['name']}"]))
        if table["shown"] or reason:
            items.append(
                Item("store", table["name"], outcome, node, note, _RENAME_HINT if reason else _name_it(operator))
            )
        continued.append(ContinuedTable(node, table["name"], node, former["name"], scalars=True, widened=bool(wider)))


def _match_stores(
    operator: Mapping[str, Any], old: _Tables, items: list[Item], continued: list[ContinuedTable]
) -> None:
    """An operator that is new: its stores have the rows of those that had their names, or of the same table."""
    node = operator["node"]
    for table in operator["tables"]:
        entry = old.named.get(table["name"])
        if entry is not None:
            reading = old.reading((entry[0][0], entry[1]), (node, table))
            _continue_by_name(operator, table, entry, reading, items, continued)
            continue
        same = (
            ContinuedTable(node, table["name"], place[0], former["name"], scalars=False)
            for place, former in old.copies.get(table["copies"], ())
            if not old.reading((place[0], former), (node, table)).against
            if not rows_against(former, table, widens=False)[0]
        )
        if (source := next(same, None)) is not None:
            reason = f"with the rows of {table['copies']} that {source.from_table} has"
            items.append(Item("store", table["name"], "filled", node, reason, _name_it(operator)))
            continued.append(source)
        elif table["shown"]:
            items.append(Item("store", table["name"], "started empty", node, hint=_name_it(operator)))


def _continue_by_name(
    operator: Mapping[str, Any],
    table: Mapping[str, Any],
    entry: tuple[TableId, Mapping[str, Any], bool],
    reading: LineageReading,
    items: list[Item],
    continued: list[ContinuedTable],
) -> None:
    """A store with the former name of another operator's store."""
    place, former, plain = entry
    node, name = operator["node"], table["name"]
    plain = plain and operator["time"] is None and operator["widens"]
    reason, wider = rows_against(former, table, widens=True) if plain else ("its rows are those of its node", [])
    if reading.against:
        hint = "Give the store another store=; or let it have the rows of what it had."
        items.append(Item("store", name, "refused", node, reading.against, hint))
        return
    if reason:
        hint = f"Give the store another store=, or its node the name {place[0]!r} that it had."
        items.append(Item("store", name, "refused", node, reason, hint))
        return
    items.append(Item("store", name, "widened" if wider else "kept", node, f"until now of {place[0]}"))
    continued.append(ContinuedTable(node, name, place[0], former["name"], scalars=False, widened=bool(wider)))


def _dropped(node: str, kind: str, table: Mapping[str, Any], started: list[Item], new: Described) -> Item:
    """A store that is gone; where one like it starts empty, that it could go on under its name."""
    kinds = {entry["node"]: entry["operator"] for entry in new["operators"]}
    alike = [item.node for item in started if kinds[item.node] == kind]
    hint = f"If {alike[0]} is what {node} was, name it name={node!r}: its tables then go on." if alike else ""
    return Item("store", table["name"], "dropped", node, hint=hint)


def _name_it(operator: Mapping[str, Any]) -> str:
    if operator["named"]:
        return ""
    return f"Its name is made up: name={operator['node']!r} keeps it, whatever its inputs are called later."


# -- the rest ----------------------------------------------------------------------------------------------


def _steps(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Item]:
    common, added, removed = shared(old, new)
    for name in common:
        if old[name] != new[name]:
            yield Item("node", name, "changed", reason=f"was a {old[name]}, is a {new[name]}")
    yield from (Item("node", name, "added", reason=new[name]) for name in added)
    yield from (Item("node", name, "dropped", reason=old[name]) for name in removed)


def _sources(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Item]:
    """Inputs: a topic goes on by its own name, whatever the input is called; a DataFrame by the input's."""
    places = {place_of(name, source) for name, source in old.items()}
    for name, source in new.items():
        if place_of(name, source) not in places:
            yield Item("source", name, "added", reason="read from its beginning, or as starting_offsets= says")
        elif name in old and old[name]["origin"] != source["origin"]:
            yield Item("source", name, "changed", reason=f"was {old[name]['origin']}, is {source['origin']}")
        else:
            yield Item("source", name, "kept", reason="continues where it is")
    new_places = {place_of(name, source) for name, source in new.items()}
    for name, source in old.items():
        if place_of(name, source) not in new_places:
            yield Item("source", name, "dropped", reason="an input that comes back later is read as a new one")


def _sinks(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Item]:
    common, added, removed = shared(old, new)
    listed = {sink["path"]: sink["listed"] for sink in old.values() if "path" in sink}
    for name, sink in new.items():
        if "path" in sink and listed.get(sink["path"], sink["listed"]) != sink["listed"]:
            yield Item(
                "sink",
                name,
                "refused",
                reason=f"{sink['path']} has, or will have, Spark's list of files, which only an only output keeps",
                hint="Write to another folder from now on.",
            )
    yield from (Item("sink", name, "kept") for name in common)
    yield from (Item("sink", name, "added", reason="gets what comes from now on") for name in added)
    yield from (Item("sink", name, "dropped", reason="what was written stays") for name in removed)
