"""A stage's stateless nodes as Spark columns: one wide frame, every flow's columns evaluated in one pass.

Law 4: a user's function is applied under `when(the row is this flow's)`, so it never sees another edge's row,
and for tables and value mappers under `value is not null`, so it never sees a tombstone. Whether there is a value is
not asked of one that cannot be null by its type: Spark would make nothing of it for that, and the level all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructType

from watersmeet._engine.exchange.outlets import FlowColumns, extra_column
from watersmeet._plan.dead_letters import dead_letter_sources
from watersmeet._plan.nodes import (
    ArgumentsNode,
    BranchNode,
    FilterNode,
    FlatMapNode,
    Function,
    MapEachNode,
    MapHeadersNode,
    MapNode,
    MapValuesNode,
    Node,
    PeekNode,
    RegroupNode,
    SelectKeyNode,
)
from watersmeet._plan.physical import Edge, Flow, Physical
from watersmeet._spark.dataflow.times import is_as_read, time_of
from watersmeet._spark.formats.records import record_column
from watersmeet.functions import record_of

_PARTS = ("group", "value")


@dataclass(frozen=True)
class _Live:
    """Columns of a flow, and the condition that marks its rows (None: a root's, by number)."""

    columns: FlowColumns
    root: int


class Stage:
    """The wide frame of one stage while its flows are added, parents before children.

    Parameters
    ----------
    physical : the plan.
    stage : number of the stage.
    frame : the roots' columns: `s{n}_key`, `s{n}_value` of source n, or `o{n}_...` of operator n, and `root`.
    roots : of stage 0, the sources that this frame reads, of others, the nodes with results in it.
    """

    def __init__(self, physical: Physical, stage: int, frame: DataFrame, roots: frozenset[str]) -> None:
        self._physical = physical
        self.frame = frame
        self._given = frame.columns
        self.peeks: list[tuple[Flow, FlowColumns]] = []
        self._live: dict[int, _Live] = {}
        self._there: dict[str, Column] = {}
        self._sources = {s.name: i for i, s in enumerate(physical.plan.sources)}
        self._letters = frozenset(dead_letter_sources(physical.plan).values())
        flows = [f for f in physical.stage_flows(stage) if physical.flows[f.root].node in roots]
        self.flows = flows
        self._fans = any(f.fan for f in flows)
        for flow in flows:
            self._add(flow)
        for edge in physical.stage_edges(stage):
            if physical.flows[edge.flow] in flows:
                self._add_extra(edge)

    def naming(self, flow: Flow) -> FlowColumns:
        """Column names of a flow of this stage."""
        return self._live[flow.id].columns

    def arriving(self, flow: Flow) -> FlowColumns:
        """The same of all the flow's rows, those too that end in it for want of a key."""
        return self._live.get(~flow.id, self._live[flow.id]).columns

    def root_number(self, flow: Flow) -> int:
        """Value of the column `root` in the flow's rows."""
        return self._live[flow.id].root

    def condition(self, flow: Flow) -> Column:
        """The condition that marks the flow's rows."""
        live = self._live[flow.id]
        if live.columns.active is not None and not live.columns.active.startswith("root:"):
            return F.col(live.columns.active)
        mine = F.col("root") == live.root
        return mine & (F.col("reason") == 0) if "reason" in self.frame.columns else mine

    def needed(self, told: Sequence[str]) -> frozenset[str]:
        """Columns that something reads when all functions have been evaluated.

        Parameters
        ----------
        told : those that go out.
        """
        letters = bool(self._physical.plan.within.dead_letters)
        # whole records, as their dead letters have them
        return frozenset((*told, *(self._given if letters else ())))

    # ------------------------------------------------------------------------------------------------------

    def _add(self, flow: Flow) -> None:
        if flow.parent is None:
            self._add_root(flow)
        else:
            parent = self._physical.flows[flow.parent]
            self._live[flow.id] = self._live[parent.id]
            step = _STEPS.get(type(self._physical.node(flow)))
            if step is not None:
                step(self, flow, parent, self._physical.node(flow))
        if flow.drops_silent:
            self._restrict(flow, self.condition(flow) & ~_silent(self.naming(parent)))
            self._rename(flow, silent=None)
        if flow.drops_null_key and self._has_other_ends(flow):
            keyed = self._has(self.naming(flow).key)
            if flow.parent is None:
                # what arrives stays known, so that what ends here can be counted; else it is the parent's
                self._live[~flow.id] = self._live[flow.id]
            self._restrict(flow, self.condition(flow) & keyed, "keyed")

    def _add_extra(self, edge: Edge) -> None:
        """The column that an edge carries beside key and value, where it carries one."""
        side = edge.reads
        function = side.function
        if function is not None:
            flow = self._physical.flows[edge.flow]
            columns = self.naming(flow)
            key, value = F.col(columns.key), F.col(columns.value)
            called = self.condition(flow)
            called = called if side.called_for_deleted else called & self._has(columns.value)
            self._with(extra_column(edge), F.when(called, function(key, value)))

    def _has_other_ends(self, flow: Flow) -> bool:
        """Most edges drop null keys themselves; children and sinks do not, nor edges to lookups by another key."""
        physical = self._physical
        sinks = any(f == flow.id for f, _ in physical.sink_edges)
        edges = any(edge.flow == flow.id and not edge.reads.drops_null_key for edge in physical.edges)
        return sinks or edges or any(f.parent == flow.id for f in physical.flows)

    def _add_root(self, flow: Flow) -> None:
        if flow.operator is None:
            number = self._sources[flow.node]
            columns = FlowColumns(f"s{number}_key", f"s{number}_value", None, f"root:{number}")
            if number in self._letters:
                # packing may find out which rows these are, behind all columns of Spark's: none is made of them
                self._live[flow.id] = _Live(replace(columns, headers=f"s{number}_headers"), number)
                return
        else:
            number = flow.operator
            columns = FlowColumns(f"o{number}_key", f"o{number}_value", None, f"root:{number}")
            if flow.carries_old:
                columns = replace(columns, old=f"o{number}_old")
            if flow.silent:
                columns = replace(columns, silent="silent")
            if flow.late:
                columns = replace(columns, late="late")
        self._live[flow.id] = _Live(columns, number)
        if flow.operator is not None:
            self._make_values(flow, flow.operator)
        if self._fans:
            # A flat_map repeats rows: which of them still belong to this flow must be a column of its own.
            self._restrict(flow, self.condition(flow))

    def _make_values(self, root: Flow, number: int) -> None:
        """The columns that the users' functions make of an operator's results."""
        prefix = f"o{number}_"
        for made in self._physical.results(self._physical.operators[number]).made:
            value = self._called(made.function, root, *(F.col(prefix + name) for name in made.operands))
            self._with(prefix + made.column, self._when(prefix + made.column, F.col(prefix + made.flag), value))

    def _with(self, name: str, column: Column) -> None:
        self.frame = self.frame.withColumn(name, column)

    def _when(self, name: str, condition: Column, value: Column) -> Column:
        """A column of this name: what a function makes of the rows that the condition holds for."""
        if not self.frame.select(value.alias(name)).schema[0].nullable:
            self._there[name] = F.coalesce(condition, F.lit(False))
        return F.when(condition, value)

    def _has(self, name: str) -> Column:
        """Whether a column has a value: one that cannot be null by its type has it where its function was called."""
        return self._there.get(name, F.col(name).isNotNull())

    def _restrict(self, flow: Flow, condition: Column, column: str = "active") -> None:
        name = f"f{flow.id}_{column}"
        self._with(name, F.coalesce(condition, F.lit(False)))
        self._rename(flow, active=name)

    def _rename(self, flow: Flow, **names: Any) -> None:
        live = self._live[flow.id]
        self._live[flow.id] = replace(live, columns=replace(live.columns, **names))

    def _called(self, function: Function, flow: Flow, *operands: Column) -> Any:
        """The result of a function of a flow's step; it gets the record, if it asks for it."""
        if record_of(function) is None:
            return function(*operands)
        root = self._physical.flows[flow.root]
        source = None if root.operator is not None else self._physical.node(root)
        ts = F.col("ts") if source is None else time_of(self.frame.columns, self._sources[source.name])
        origin = source.place if source is not None and is_as_read(self._physical, flow) else None
        return function(*operands, record_column(self.frame.columns, ts, origin, self.naming(flow).headers))

    def _holds(self, node: FilterNode, flow: Flow, active: Column, key: Column, value: Column) -> Column:
        """The predicate where the row is active; null counts as false, also for filter_not."""
        held = F.coalesce(F.when(active, self._called(node.predicate, flow, key, value)), F.lit(False))
        return active & ~held if node.negate else held

    def _value_columns(self, flow: Flow, parent: Flow) -> list[tuple[str, str]]:
        """(role, parent's column) of the values that a table step works on; old only where it is wanted."""
        columns = self.naming(parent)
        pairs = [("value", columns.value)]
        wanted = flow.carries_old or flow.suppress
        return [*pairs, ("old", columns.old)] if columns.old and wanted else pairs

    def _filter(self, flow: Flow, parent: Flow, node: FilterNode) -> None:
        active = self.condition(parent)
        key = F.col(self.naming(parent).key)
        if node.shape.kind == "stream":
            value = F.col(self.naming(parent).value)
            self._restrict(flow, active & self._holds(node, flow, active, key, value))
            return
        self._rename(flow, old=None)
        for role, name in self._value_columns(flow, parent):
            value = F.col(name)
            kept = self._holds(node, flow, active & self._has(name), key, value)
            self._with(f"f{flow.id}_{role}", F.when(kept, value))
            if name in self._there:
                self._there[f"f{flow.id}_{role}"] = F.coalesce(kept, F.lit(False))
            self._rename(flow, **{role: f"f{flow.id}_{role}"})
        if flow.suppress:
            columns = self.naming(flow)
            either = self._has(columns.value) | self._has(str(columns.old))
            if not flow.silent:
                self._restrict(flow, active & either)
                return
            self._with(f"f{flow.id}_silent", _silent(columns) | ~either)
            self._rename(flow, silent=f"f{flow.id}_silent")

    def _map_values(self, flow: Flow, parent: Flow, node: MapValuesNode | ArgumentsNode) -> None:
        active = self.condition(parent)
        key = F.col(self.naming(parent).key)
        self._rename(flow, old=None)
        for role, name in self._value_columns(flow, parent):
            made = f"f{flow.id}_{role}"
            mapped = self._called(node.mapper, flow, key, F.col(name))
            self._with(made, self._when(made, active & self._has(name), mapped))
            self._rename(flow, **{role: f"f{flow.id}_{role}"})

    def _map_each(self, flow: Flow, parent: Flow, node: MapEachNode) -> None:
        columns, name = self.naming(parent), f"f{flow.id}_value"
        placed = self._called(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        self._with(name, self._when(name, self.condition(parent), placed))
        self._rename(flow, value=name)

    def _map_headers(self, flow: Flow, parent: Flow, node: MapHeadersNode) -> None:
        columns, name = self.naming(parent), f"f{flow.id}_headers"
        made = self._called(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        self._with(name, F.when(self.condition(parent), made))
        self._rename(flow, headers=name)

    def _map(self, flow: Flow, parent: Flow, node: MapNode) -> None:
        active, columns = self.condition(parent), self.naming(parent)
        key, value = self._called(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        # Both from the parent's columns, in one step: the value must not see the new key.
        given = {f"f{flow.id}_key": key, f"f{flow.id}_value": value}
        self.frame = self.frame.withColumns({name: self._when(name, active, each) for name, each in given.items()})
        self._rename(flow, key=f"f{flow.id}_key", value=f"f{flow.id}_value")

    def _select_key(self, flow: Flow, parent: Flow, node: SelectKeyNode) -> None:
        columns = self.naming(parent)
        key = self._called(node.selector, flow, F.col(columns.key), F.col(columns.value))
        self._with(f"f{flow.id}_key", self._when(f"f{flow.id}_key", self.condition(parent), key))
        self._rename(flow, key=f"f{flow.id}_key")

    def _flat_map(self, flow: Flow, parent: Flow, node: FlatMapNode) -> None:
        columns = self.naming(parent)
        lists = self._called(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        self._with(f"f{flow.id}_list", F.when(self.condition(parent), lists))
        index, item = f"f{flow.id}_index", f"f{flow.id}_item"
        self.frame = self.frame.select("*", F.posexplode_outer(f"f{flow.id}_list").alias(index, item))
        self._keep_first(index)
        names: dict[str, str] = {"value": item, "index": index}
        if not node.values_only:
            first, second = _field_names(self.frame, item)
            self._with(f"f{flow.id}_key", F.col(item)[first])
            self._with(f"f{flow.id}_value", F.col(item)[second])
            names |= {"key": f"f{flow.id}_key", "value": f"f{flow.id}_value"}
        self._restrict(flow, F.col(index).isNotNull())
        self._rename(flow, **names)

    def _keep_first(self, index: str) -> None:
        """Of the rows that a flat_map made out of one, all other flows own the first."""
        first = F.coalesce(F.col(index) == 0, F.lit(True))
        actives = {live.columns.active for live in self._live.values() if live.columns.active}
        for name in sorted(n for n in actives if not n.startswith("root:")):
            self._with(name, F.col(name) & first)
        for name in ("blob",):
            if name in self.frame.columns:
                self._with(name, F.when(first, F.col(name)))

    def _regroup(self, flow: Flow, parent: Flow, node: RegroupNode) -> None:
        active, columns = self.condition(parent), self.naming(parent)
        prefix = f"f{flow.id}_"
        made: dict[str, Column] = {}
        for role, name in (("new", columns.value), ("old", str(columns.old))):
            called = active & self._has(name)
            pair = node.selector(F.col(columns.key), F.col(name))
            # fields without a name of their own are called by what they are made of, which differs from place to place
            group, value = map(_named_as, pair, (node.shape.key, node.shape.value))
            named = zip((f"{prefix}{role}_{part}" for part in _PARTS), (group, value), strict=True)
            made |= {column: self._when(column, called, each) for column, each in named}
        # all from the parent's columns, in one step
        self.frame = self.frame.withColumns(made)
        new, old = ([F.col(f"{prefix}{role}_{part}") for part in _PARTS] for role in ("new", "old"))
        leaves, comes = (
            self._has(f"{prefix}{role}_group") & self._has(f"{prefix}{role}_value") for role in ("old", "new")
        )
        stays = leaves & comes & same_key(old[0], new[0], node.shape.key)
        if node.half == "new":
            self._with(f"{prefix}old", F.when(stays, old[1]))
            self._restrict(flow, active & comes)
            self._rename(flow, key=f"{prefix}new_group", value=f"{prefix}new_value", old=f"{prefix}old")
        else:
            self._with(f"{prefix}value", F.lit(None).cast(node.shape.value))
            self._restrict(flow, active & leaves & ~stays)
            self._rename(flow, key=f"{prefix}old_group", value=f"{prefix}value", old=f"{prefix}old_value")

    def _branch(self, flow: Flow, parent: Flow, node: BranchNode) -> None:
        columns, active = self.naming(parent), self.condition(parent)
        key, value = F.col(columns.key), F.col(columns.value)
        taken = active
        for predicate in node.earlier:
            taken = taken & ~F.coalesce(F.when(active, self._called(predicate, flow, key, value)), F.lit(False))
        if node.predicate is not None:
            holds = self._called(node.predicate, flow, key, value)
            taken = taken & F.coalesce(F.when(active, holds), F.lit(False))
        self._restrict(flow, taken)

    def _peek(self, flow: Flow, parent: Flow, node: PeekNode) -> None:
        self.peeks.append((flow, self.naming(parent)))


def _named_as(column: Column, kind: DataType) -> Column:
    return column.cast(kind) if isinstance(kind, StructType) else column


def same_key(one: Column, other: Column, kind: DataType) -> Column:
    """Whether two keys are one to the engine, which tells 0.0 from -0.0; Spark's comparison does not."""
    same = one.eqNullSafe(other)
    return same & one.cast("string").eqNullSafe(other.cast("string")) if _has_floats(kind) else same


def _has_floats(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind.fields)
    return _has_floats(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, DoubleType | FloatType)


def _silent(columns: FlowColumns) -> Column:
    """Rows that only say what lookups see."""
    return F.coalesce(F.col(columns.silent), F.lit(False)) if columns.silent else F.lit(False)


def _field_names(frame: DataFrame, struct: str) -> tuple[str, str]:
    first, second = frame.schema[struct].dataType.fields  # type: ignore[attr-defined]
    return first.name, second.name


_STEPS: dict[type[Node], Any] = {
    FilterNode: Stage._filter,
    MapValuesNode: Stage._map_values,
    MapHeadersNode: Stage._map_headers,
    MapNode: Stage._map,
    MapEachNode: Stage._map_each,
    SelectKeyNode: Stage._select_key,
    FlatMapNode: Stage._flat_map,
    RegroupNode: Stage._regroup,
    ArgumentsNode: Stage._map_values,
    BranchNode: Stage._branch,
    PeekNode: Stage._peek,
}
