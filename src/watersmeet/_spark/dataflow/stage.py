"""A stage's stateless nodes as Spark columns: one wide frame, every flow's columns evaluated in one pass.

Law 4: a user's function is applied under `when(the row is this flow's)`, so it never sees another edge's row,
and for tables and value mappers under `value is not null`, so it never sees a tombstone. A value of a type that
forbids null is not asked whether it is there: Spark answers that without computing the value, the level would compute
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructType

from watersmeet._engine.exchange import (
    ENCODED_KEY,
    PARTITION,
    FlowColumns,
    Outlet,
    Watermark,
    counted_outlets,
    edge_outlet,
    exit_outlets,
    extra_column,
    watermark_of,
)
from watersmeet._engine.rows import HELD_KEY, TOPIC
from watersmeet._plan.logical import Plan, dead_letter_sources, letter_sources
from watersmeet._plan.nodes import (
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
    SelectKeyNode,
    SinkNode,
    SourceNode,
)
from watersmeet._plan.operators.aggregates import ArgumentsNode, RegroupNode
from watersmeet._plan.physical import Edge, Flow, Physical
from watersmeet._plan.reasons import INVALID_TIMESTAMP, NEGATIVE_TIMESTAMP
from watersmeet._spark.formats import encode_json, record_column
from watersmeet._worker.pack import Extractor, PackedStage, time_column, wide_schema_names
from watersmeet._worker.wire import PeekCall
from watersmeet.functions import record_of
from watersmeet.io.policies import DeadLetter
from watersmeet.windows import LONGEST_MS

# Facts of a record besides key and value, for functions of a stage: its time, and whether it is as it was read.


def time_of(columns: Collection[str], number: int) -> Column:
    """The time in ms of a source's records: what its extractor gives, where Spark has called that, else their own.

    Parameters
    ----------
    columns : of the frame.
    number : the source's.
    """
    record_time, column = F.col("ts"), time_column(number)
    if column not in columns:
        return record_time
    return F.when(F.col(column).between(0, LONGEST_MS), F.col(column)).otherwise(record_time)


def is_as_read(physical: Physical, flow: Flow) -> bool:
    """Whether a flow's records are those of its source, by steps of streams alone.

    Whether a table on the way is kept by an operator must not decide it.
    """
    while flow.parent is not None:
        flow = physical.flows[flow.parent]
        if physical.node(flow).shape.kind != "stream":
            return False
    return flow.operator is None


_PARTS = ("group", "value")


@dataclass(frozen=True)
class _Live:
    """Columns of a flow, and the number of its root."""

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
    written : of which outputs Spark writes keys or values here (`written_by_spark`).
    """

    def __init__(
        self,
        physical: Physical,
        stage: int,
        frame: DataFrame,
        roots: frozenset[str],
        written: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._physical, self._written = physical, written
        self.frame = frame
        self._input_columns = frame.columns
        self.peeks: list[tuple[Flow, FlowColumns]] = []
        self._live: dict[int, _Live] = {}
        self._presence: dict[str, Column] = {}
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
        is_root = F.col("root") == live.root
        return is_root & (F.col("reason") == 0) if "reason" in self.frame.columns else is_root

    def needed(self, outputs: Sequence[str]) -> frozenset[str]:
        """Columns that something reads when all functions have been evaluated.

        Parameters
        ----------
        outputs : those that go out.
        """
        letters = bool(self._physical.plan.within.dead_letters)
        # whole records, as their dead letters have them
        return frozenset((*outputs, *(self._input_columns if letters else ())))

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
        if "silent" in flow.ends:
            self._restrict(flow, self.condition(flow) & ~_silent(self.naming(parent)))
            self._rename(flow, silent=None)
        if "null_key" in flow.ends and self._has_other_ends(flow):
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
            active = self.condition(flow)
            active = active if side.called_for_deleted else active & self._has(columns.value)
            self._with(extra_column(edge), F.when(active, function(key, value)))

    def _has_other_ends(self, flow: Flow) -> bool:
        """Most edges drop null keys themselves; children and sinks do not, nor edges to lookups by another key."""
        physical = self._physical
        sinks = any(f == flow.id for f, _ in physical.sink_edges)
        edges = any(edge.flow == flow.id and "null_key" not in edge.ends for edge in physical.edges)
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
            if "old" in flow.columns:
                columns = replace(columns, old=f"o{number}_old")
            if "silent" in flow.columns:
                columns = replace(columns, silent="silent")
            if "late" in flow.columns:
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
        for computed in self._physical.results(self._physical.operators[number]).made:
            value = self._apply(computed.function, root, *(F.col(prefix + name) for name in computed.operands))
            self._with(
                prefix + computed.column, self._when(prefix + computed.column, F.col(prefix + computed.flag), value)
            )

    def _with(self, name: str, column: Column) -> None:
        self.frame = self.frame.withColumn(name, column)

    def _when(self, name: str, condition: Column, value: Column) -> Column:
        """A column of this name: what a function makes of the rows that the condition holds for."""
        if not self.frame.select(value.alias(name)).schema[0].nullable:
            self._presence[name] = F.coalesce(condition, F.lit(False))
        return F.when(condition, value)

    def _has(self, name: str) -> Column:
        """Whether a column has a value: one that cannot be null by its type has it where its function was called."""
        return self._presence.get(name, F.col(name).isNotNull())

    def _restrict(self, flow: Flow, condition: Column, column: str = "active") -> None:
        name = f"f{flow.id}_{column}"
        self._with(name, F.coalesce(condition, F.lit(False)))
        self._rename(flow, active=name)

    def _rename(self, flow: Flow, **names: Any) -> None:
        live = self._live[flow.id]
        self._live[flow.id] = replace(live, columns=replace(live.columns, **names))

    def _apply(self, function: Function, flow: Flow, *operands: Column) -> Any:
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
        passes = F.coalesce(F.when(active, self._apply(node.predicate, flow, key, value)), F.lit(False))
        return active & ~passes if node.negate else passes

    def _value_columns(self, flow: Flow, parent: Flow) -> list[tuple[str, str]]:
        """(role, parent's column) of the values that a table step works on; old only where it is wanted."""
        columns = self.naming(parent)
        pairs = [("value", columns.value)]
        keeps_old = "old" in flow.columns or flow.suppress
        return [*pairs, ("old", columns.old)] if columns.old and keeps_old else pairs

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
            passes = self._holds(node, flow, active & self._has(name), key, value)
            self._with(f"f{flow.id}_{role}", F.when(passes, value))
            if name in self._presence:
                self._presence[f"f{flow.id}_{role}"] = F.coalesce(passes, F.lit(False))
            self._rename(flow, **{role: f"f{flow.id}_{role}"})
        if flow.suppress:
            columns = self.naming(flow)
            either = self._has(columns.value) | self._has(str(columns.old))
            if "silent" not in flow.columns:
                self._restrict(flow, active & either)
                return
            self._with(f"f{flow.id}_silent", _silent(columns) | ~either)
            self._rename(flow, silent=f"f{flow.id}_silent")

    def _map_values(self, flow: Flow, parent: Flow, node: MapValuesNode | ArgumentsNode) -> None:
        active = self.condition(parent)
        key = F.col(self.naming(parent).key)
        self._rename(flow, old=None)
        for role, name in self._value_columns(flow, parent):
            target = f"f{flow.id}_{role}"
            mapped = self._apply(node.mapper, flow, key, F.col(name))
            self._with(target, self._when(target, active & self._has(name), mapped))
            self._rename(flow, **{role: f"f{flow.id}_{role}"})

    def _map_each(self, flow: Flow, parent: Flow, node: MapEachNode) -> None:
        columns, name = self.naming(parent), f"f{flow.id}_value"
        value = self._apply(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        self._with(name, self._when(name, self.condition(parent), value))
        self._rename(flow, value=name)

    def _map_headers(self, flow: Flow, parent: Flow, node: MapHeadersNode) -> None:
        columns, name = self.naming(parent), f"f{flow.id}_headers"
        headers = self._apply(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        self._with(name, F.when(self.condition(parent), headers))
        self._rename(flow, headers=name)

    def _map(self, flow: Flow, parent: Flow, node: MapNode) -> None:
        active, columns = self.condition(parent), self.naming(parent)
        key, value = self._apply(node.mapper, flow, F.col(columns.key), F.col(columns.value))
        # Both from the parent's columns, in one step: the value must not see the new key.
        results = {f"f{flow.id}_key": key, f"f{flow.id}_value": value}
        self.frame = self.frame.withColumns(
            {name: self._when(name, active, column) for name, column in results.items()}
        )
        self._rename(flow, key=f"f{flow.id}_key", value=f"f{flow.id}_value")

    def _select_key(self, flow: Flow, parent: Flow, node: SelectKeyNode) -> None:
        columns = self.naming(parent)
        key = self._apply(node.selector, flow, F.col(columns.key), F.col(columns.value))
        self._with(f"f{flow.id}_key", self._when(f"f{flow.id}_key", self.condition(parent), key))
        self._rename(flow, key=f"f{flow.id}_key")

    def _flat_map(self, flow: Flow, parent: Flow, node: FlatMapNode) -> None:
        columns = self.naming(parent)
        lists = self._apply(node.mapper, flow, F.col(columns.key), F.col(columns.value))
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
        if "blob" in self.frame.columns:
            self._with("blob", F.when(first, F.col("blob")))

    def _regroup(self, flow: Flow, parent: Flow, node: RegroupNode) -> None:
        active, columns = self.condition(parent), self.naming(parent)
        prefix = f"f{flow.id}_"
        results: dict[str, Column] = {}
        for role, name in (("new", columns.value), ("old", str(columns.old))):
            present = active & self._has(name)
            pair = node.selector(F.col(columns.key), F.col(name))
            # fields without a name of their own are called by what they are made of, which differs from place to place
            group, value = map(_named_as, pair, (node.shape.key, node.shape.value))
            parts = zip((f"{prefix}{role}_{part}" for part in _PARTS), (group, value), strict=True)
            results |= {column: self._when(column, present, expression) for column, expression in parts}
        # all from the parent's columns, in one step
        self.frame = self.frame.withColumns(results)
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
        matches = active
        for predicate in node.earlier:
            matches = matches & ~F.coalesce(F.when(active, self._apply(predicate, flow, key, value)), F.lit(False))
        if node.predicate is not None:
            holds = self._apply(node.predicate, flow, key, value)
            matches = matches & F.coalesce(F.when(active, holds), F.lit(False))
        self._restrict(flow, matches)

    def _sink(self, flow: Flow, parent: Flow, node: SinkNode) -> None:
        columns, active = self.naming(parent), self.condition(parent)
        parts = {"key": F.col(columns.key), "value": F.col(columns.value)}
        results: dict[str, Column] = {}
        if node.target.is_placed:
            results[PARTITION] = parts["value"]["partition"].cast("long")
            results["value"] = parts["value"] = parts["value"]["value"]
        for part in self._written.get(node.name, ()):
            results["value" if part == "value" else ENCODED_KEY] = encode_json(parts[part])
        for role, column in results.items():
            self._with(f"f{flow.id}_{role}", F.when(active, column))
            self._rename(flow, **{role: f"f{flow.id}_{role}"})

    def _peek(self, flow: Flow, parent: Flow, node: PeekNode) -> None:
        self.peeks.append((flow, self.naming(parent)))


def _named_as(column: Column, kind: DataType) -> Column:
    return column.cast(kind) if isinstance(kind, StructType) else column


def same_key(left: Column, right: Column, kind: DataType) -> Column:
    """Whether two keys are one to the engine, which tells 0.0 from -0.0; Spark's comparison does not."""
    same = left.eqNullSafe(right)
    return same & left.cast("string").eqNullSafe(right.cast("string")) if _has_floats(kind) else same


def _has_floats(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind.fields)
    return _has_floats(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, DoubleType | FloatType)


def _silent(columns: FlowColumns) -> Column:
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
    SinkNode: Stage._sink,
}


# Where a stage's rows go: its outlets, the functions that are shown rows, and the columns that these read.


def outlets_of(physical: Physical, stage: Stage, number: int) -> tuple[Outlet, ...]:
    """Where the rows of the stage of this number go."""
    edges = (edge for edge in physical.stage_edges(number) if physical.flows[edge.flow] in stage.flows)
    outlets = [edge_outlet(physical, edge, stage.naming) for edge in edges]
    outlets += [o for o in exit_outlets(physical, number, partial(_naming_if, stage)) if o.key]
    nodes = {flow.node for flow in stage.flows}
    counted = counted_outlets(physical, number, partial(_naming_if, stage, arriving=True))
    return (*outlets, *(o for o in counted if o.key and o.node in nodes))


def peeks_of(physical: Physical, stage: Stage) -> tuple[PeekCall, ...]:
    """The functions that are shown the stage's rows."""
    return tuple(_peek(physical, stage, flow) for flow, _ in stage.peeks)


def columns_of(outlets: Sequence[Outlet], peeks: Sequence[PeekCall]) -> list[str]:
    """The columns that hold what goes out, each once."""
    names: list[str | None] = []
    for outlet in outlets:
        names += [outlet.key, outlet.value, outlet.old, outlet.active, outlet.silent, outlet.ends.late]
        names += [outlet.route.shard_by]
        names += [column for _, column in outlet.extras]
        moves = (*outlet.moves, *(outlet.seen.moves if outlet.seen is not None else ()))
        names += [move.index for move in moves]
    for peek in peeks:
        names += [peek.key, peek.value, peek.active]
    return [name for name in dict.fromkeys(names) if name]


def value_columns(physical: Physical, roots: Collection[str]) -> list[str]:
    numbers = [number for number, source in enumerate(physical.plan.sources) if source.name in roots]
    return [f"s{number}_{part}" for number in numbers for part in ("key", "value")]


def packed_columns(have: Collection[str], outputs: Sequence[str], slots: int, order: Sequence[str]) -> list[str]:
    """A frame's columns that packing reads, each once.

    Parameters
    ----------
    have : the frame's.
    outputs : those that `columns_of` gives.
    order : ordering columns, where one task is to number the rows.
    """
    names = ["root", "case", "partition", "offset", "reason", "ts", "order_ts", "srcpart", "headers", TOPIC, HELD_KEY]
    names += [*wide_schema_names(slots, visible=True), "stored_ts", *order, *outputs, "label", "port", "blob"]
    return [name for name in dict.fromkeys(names) if name in have]


def _peek(physical: Physical, stage: Stage, flow: Flow) -> PeekCall:
    columns = stage.naming(flow)
    action = physical.node(flow).action  # type: ignore[attr-defined]
    return PeekCall(action, columns.key, columns.value, columns.active)


def _naming_if(stage: Stage, flow: Flow, *, arriving: bool = False) -> FlowColumns:
    if flow not in stage.flows:
        return FlowColumns("", "")
    return stage.arriving(flow) if arriving else stage.naming(flow)


# Columns of the times that users' functions give to records of topics, and what becomes of those without one.


def timed(plan: Plan, names: Collection[str]) -> Iterator[tuple[int, SourceNode]]:
    """The sources among these with a function for their records' times, with their numbers."""
    numbered = enumerate(plan.sources)
    return ((number, source) for number, source in numbered if source.name in names and source.timestamp is not None)


def with_times(frame: DataFrame, plan: Plan, names: Collection[str]) -> DataFrame:
    """The frame with a column of times for each source with a function for its records' times.

    A record that ends since it has no time has a reason before the stage's functions are evaluated, as one that cannot
    be decoded: so no flow of the stage goes on with it. `Extractor` applies its policy in the workers.
    """
    for number, source in timed(plan, names):
        assert source.timestamp is not None, "it is timed"
        operands = [F.col(f"s{number}_key"), F.col(f"s{number}_value")]
        if record_of(source.timestamp) is not None:
            operands.append(record_column(frame.columns, F.col("ts"), source.origin))
        value = source.timestamp(*operands)
        passes = (F.col("root") == number) & (F.col("reason") == 0)
        frame = frame.withColumn(time_column(number), F.when(passes, value))
        valid = F.col(time_column(number)).between(0, LONGEST_MS)
        if source.origin.policies.on_invalid_timestamp == "own":
            valid = F.coalesce(valid, F.lit(False)) | (F.col("ts") >= 0)
        ends = passes & ~F.coalesce(valid, F.lit(False))
        reason = F.when(ends, F.lit(INVALID_TIMESTAMP.code)).otherwise(F.col("reason")).cast("tinyint")
        frame = frame.withColumn("reason", reason)
    return frame


def opened(frame: DataFrame, plan: Plan, names: Collection[str]) -> DataFrame:
    """The frame without the own times of records with times made by a function."""
    numbers = [number for number, _ in timed(plan, names)]
    if not numbers:
        return frame
    negative = F.col("root").isin(numbers) & (F.col("reason") == NEGATIVE_TIMESTAMP.code)
    return frame.withColumn("reason", F.when(negative, F.lit(0)).otherwise(F.col("reason")).cast("tinyint"))


def extractors_of(plan: Plan, names: Collection[str], *, begins: bool = False) -> tuple[Extractor, ...]:
    """The policies for the times that the extractors of these sources make.

    Parameters
    ----------
    begins : whether the records are a source's history, of which there are no dead letters.
    """
    extractors, letters = [], dead_letter_sources(plan)
    for number, source in timed(plan, names):
        policy = source.origin.policies.on_invalid_timestamp or "fail"
        topic = source.origin.topic or source.name
        if isinstance(policy, DeadLetter):
            action = ("fail", None) if begins else ("letter", letters[source.name, policy.topic])
        else:
            action = (policy, None)
        extractors.append(Extractor(number, source.name, topic, *action))
    return tuple(extractors)


# The roots of a stage: the sources and operators with rows in its frame, and their facts.


def roots_of(stage: Stage) -> dict[int, str]:
    return {stage.root_number(f): f.node for f in stage.flows if f.parent is None}


def packed_stage(physical: Physical, stage: Stage, number: int, *, times: bool = True) -> PackedStage:
    """The facts of the plan for the packing of a stage.

    Parameters
    ----------
    number : of the stage.
    times : whether its rows move the time of operators.
    """
    return PackedStage(
        outlets=outlets_of(physical, stage, number),
        slots=physical.slots,
        roots=roots_of(stage),
        peeks=peeks_of(physical, stage),
        watermarks=_watermarks_of(physical, stage) if times else (),
        first=_global_roots(physical),
        dead_letters=_dead_letter_roots(physical, stage),
        patterns=_pattern_roots(physical, stage) if number == 0 else (),
    )


def _dead_letter_roots(physical: Physical, stage: Stage) -> dict[int, str]:
    letters = letter_sources(physical.plan)
    return {number: letters[name] for number, name in roots_of(stage).items() if letters.get(name)}


def _pattern_roots(physical: Physical, stage: Stage) -> tuple[int, ...]:
    roots, sources = roots_of(stage), physical.plan.sources
    return tuple(n for n, s in enumerate(sources) if s.origin.pattern is not None and roots.get(n) == s.name)


def _global_roots(physical: Physical) -> tuple[int, ...]:
    """Numbers of the sources that are global tables, which go first."""
    return tuple(n for n, source in enumerate(physical.plan.sources) if source.shape.kind == "global")


def _watermarks_of(physical: Physical, stage: Stage) -> tuple[Watermark, ...]:
    """The rows of time from the stage's sources to the operators that they reach."""
    watermarks = []
    for operator, time in physical.timed:
        roots = tuple(f"root:{number}" for number, name in roots_of(stage).items() if name in time.told_by)
        if roots:
            watermarks.append(watermark_of(physical, operator, roots))
    return tuple(watermarks)
