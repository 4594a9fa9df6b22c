"""A physical plan over DataFrames: scans, packs, levels, unpacks, and the frame that the sinks read.

The same code makes a streaming query (labels spread over tasks) and a bounded run of the test driver (labels
numbered through, one block per case).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from watersmeet._engine.expressions.program import Program
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows.columns import HELD_KEY
from watersmeet._plan.dead_letters import letter_sources
from watersmeet._plan.operators.spec import FLAG
from watersmeet._plan.physical import Operator, Physical
from watersmeet._spark.dataflow.function_engines import refuse_behind, refuse_by_spark, started_engines
from watersmeet._spark.dataflow.fusion import Fusion, result_fields
from watersmeet._spark.dataflow.layout import SparkLayout
from watersmeet._spark.dataflow.level_variables import pickled_small
from watersmeet._spark.dataflow.outlets import columns_of, packed_columns, value_columns
from watersmeet._spark.dataflow.processor import LevelOperators
from watersmeet._spark.dataflow.roots import packed_stage, roots_of
from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.dataflow.stage import Stage
from watersmeet._spark.sources import wall_clock
from watersmeet._spark.sources.extracted import extractors_of, opened, with_times
from watersmeet._spark.sources.scans import Scan
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.formats.dead_letters import HEADERS, OnError, letter_headers
from watersmeet._worker.formats.deserializers import Deserializers
from watersmeet._worker.packing.extracted import Extraction
from watersmeet._worker.packing.fused import Fused
from watersmeet._worker.packing.packing import Pack, Unpack, wide_schema_names
from watersmeet._worker.wire.common import Common
from watersmeet._worker.wire.dead_letters import dead_letter_routes, outliving
from watersmeet._worker.wire.encoding import ENCODED_KEY, encodings_of
from watersmeet._worker.wire.measures import Measures
from watersmeet._worker.wire.sequence import SEQUENCE
from watersmeet._worker.wire.wire import WIRE, Exits, encoded_parts, metric_names
from watersmeet._worker.writers.shards import UnpackExits

LOG = logging.getLogger("watersmeet.functions")
"""Says of each function where it runs, and why Spark evaluates it where it does."""
LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class CompiledFrame:
    """The frame that holds every sink's rows, and per sink the way to select its own.

    `ends` is the column that numbers end rows. A selected frame has columns key, value, ts (ms), headers where
    there are any, and where wanted the position columns and the case. With `exits` the frame is one of wire rows,
    and there is nothing to select; `headers`: whether its records have some. `uncounted`: nobody counts
    the sinks' rows. `encoded`: of which sinks keys or values are bytes already.
    """

    frame: DataFrame
    selectors: Mapping[str, Selection]
    ends: str
    exits: Exits | None = None
    headers: bool = False
    uncounted: bool = False
    encoded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def compile_plan(
    physical: Physical,
    inputs: Sequence[Scan],
    layout: SparkLayout,
    clock: DataFrame | None = None,
    more: Sequence[DataFrame] = (),
) -> CompiledFrame:
    """The plan over these inputs, the wall clock where time goes on by it, and more wire rows."""
    compiler = _Compiler(inputs[0].bare.sparkSession, inputs, physical, layout)
    compiled = compiler.run(inputs, clock, more)
    for line in started_engines(physical, compiler.fusion):
        LOG.info(line)
    return compiled


def compile_levels(physical: Physical, wire: DataFrame, inputs: Sequence[Scan], layout: SparkLayout) -> DataFrame:
    """The levels of a plan, and the stages before them, over wire rows and inputs; what goes to sinks is left out."""
    return _Compiler(wire.sparkSession, inputs, physical, layout).through_levels(wire, inputs)


class _Compiler:
    """One compilation."""

    def __init__(self, spark: SparkSession, inputs: Sequence[Scan], physical: Physical, layout: SparkLayout) -> None:
        self._layout = layout
        self._metrics = metric_names(physical)
        begun = frozenset[str]().union(*(each.roots for each in inputs if each.begins))
        self.fusion = Fusion(spark, physical, direct_sinks=layout.direct_sinks)
        self._physical = self.fusion.physical
        self._gathers = self.fusion.gathers_some(layout.labels)
        self._parts = encoded_parts(self._physical)
        self._common = Common(
            layout.labels,
            self._metrics,
            Measures.of(physical, len(self._metrics)) if layout.measured else None,
            dead_letter_routes(physical, begun, piped=layout.cases),
            encodings_of(physical, physical.plan.sinks, ships=not layout.cases),  # a test driver shows values
        )

    def through_levels(self, wire: DataFrame, inputs: Sequence[Scan]) -> DataFrame:
        wire = reduce(DataFrame.unionByName, map(self._packed_source, inputs), wire)
        for level in range(1, self._physical.levels + 1):
            wire = self._level(wire, level)
            unpacked = frozenset(o.node for o in self._unpacked_operators(level))
            if unpacked and not self._is_last(level):
                stage = Stage(self._physical, level, self._unpacked(wire, level), unpacked)
                wire = self._packed(stage, level)
        return wire

    def run(self, inputs: Sequence[Scan], clock: DataFrame | None, more: Sequence[DataFrame]) -> CompiledFrame:
        refuse_behind(self._physical, self.fusion)
        wires = list(map(self._packed_source, inputs))
        if clock is not None:
            wires.append(wall_clock.clock_rows(clock, self._physical, self._layout.labels, ends=self._passes_ends(0)))
        # Spark knows its sources by their places: these are the last ones (`REPLACED`)
        wires += more
        wire = self._layout.observe(reduce(DataFrame.unionByName, wires), "pack0", self._metrics)
        for level in range(1, self._physical.levels + 1):
            wire = self._level(wire, level)
            unpacked = self._unpacked_operators(level)
            if not unpacked:
                continue
            stage = Stage(self._physical, level, self._unpacked(wire, level), frozenset(o.node for o in unpacked))
            if self._is_last(level):
                return self._direct(stage)
            wire = self._layout.observe(self._packed(stage, level), f"pack{level}", self._metrics)
        if self._writes_directly:
            return self._direct_sinks(wire)
        return self._left(wire)

    @property
    def _writes_directly(self) -> bool:
        """Whether the sinks are written from wire rows."""
        return self._layout.direct_sinks and (self._physical.ordered_exit or self.fusion.exit)

    def _passes_ends(self, level: int) -> bool:
        """Whether the reader of a level's rows learns that they are complete; of level 0, the sources' rows."""
        return self._writes_directly or (level < self._physical.levels and self._gathers)

    # -- stages --------------------------------------------------------------------------------------------

    def _packed_source(self, source: Scan) -> DataFrame:
        names, schema = frozenset(source.roots), source.made.schema
        found = self.fusion.of_sources(names, schema, decodes=source.topics is not None)
        plan = self._physical.plan
        # a snapshot's rows have the times at which they were kept
        extractors = () if source.snapshot else extractors_of(plan, names, begins=source.begins)
        if found is None:
            frame = with_times(opened(source.frame, plan, names), plan, names) if extractors else source.frame
            return self._packed(Stage(self._physical, 0, frame, names), 0, source, extraction=Extraction(extractors))
        # which columns there are says an empty frame as well
        extraction = Extraction(extractors, found.timing if extractors else Program())
        return self._packed(found.stage, 0, source, found.program, extraction)

    def _packed(
        self,
        stage: Stage,
        number: int,
        source: Scan | None = None,
        program: Program | None = None,
        extraction: Extraction | None = None,
    ) -> DataFrame:
        order, snapshot = (source.order, source.snapshot) if source else ((), False)
        routes = self._common.dead_letters
        times = number == 0 and not snapshot
        facts = packed_stage(self._physical, stage, number, exits=self._physical.ordered_exit, times=times)
        columns_told = [*columns_of(facts.outlets, facts.peeks), *(routes.needed if routes and source else ())]
        columns_told += value_columns(self._physical, source.roots) if source and self._layout.journaled else []
        policies, extraction = self._outliving(stage, source, program), extraction or Extraction()
        frame, columns, deserializers = self._reading(stage, source, program, [*columns_told, *extraction.reads])
        pack = Pack(
            stage=facts,
            common=self._common,
            sources=number == 0,
            order=order,
            program=program or Program(),
            snapshot=snapshot,
            deserializers=deserializers,
            ends=number == 0 and self._passes_ends(0),
            outliving=policies,
            extraction=extraction,
        )
        if deserializers:
            columns = [*(name for name in columns if name not in deserializers.made), *deserializers.needed]
        return self._in_tasks(frame.select(*columns), source).mapInArrow(pack, WIRE)

    def _reading(
        self, stage: Stage, source: Scan | None, program: Program | None, told: Sequence[str]
    ) -> tuple[DataFrame, list[str], Deserializers | None]:
        """The frame that packing reads, the columns it gets, and the columns to decode in it."""
        order = source.order if source else ()
        if source is None or program is None:
            columns = packed_columns(stage.frame.columns, told, self._physical.slots, order)
            frame, deserializers = _read(stage, source, columns)
            return frame, columns, deserializers
        columns = packed_columns(source.made.schema.names, [*told, *program.reads], self._physical.slots, order)
        return source.bare, columns, source.topics.deserializers if source.topics else None

    def _outliving(self, stage: Stage, source: Scan | None, program: Program | None) -> Mapping[int, OnError]:
        """The policies for records for which a function of a source stage raises."""
        policies = outliving(self._physical, roots_of(stage)) if source is not None and not source.begins else {}
        if source is not None and program is None:
            refuse_by_spark(self._physical, policies, self.fusion)
        return policies

    def _in_tasks(self, frame: DataFrame, source: Scan | None) -> DataFrame:
        """Topics' partitions in no more tasks than can run at a time: a batch of few records waits for each task."""
        if source is None or source.topics is None:
            return frame
        return frame.coalesce(max(self._layout.tasks, frame.sparkSession.sparkContext.defaultParallelism))

    # -- levels --------------------------------------------------------------------------------------------

    def _level(self, wire: DataFrame, level: int) -> DataFrame:
        operators = [o for o in self._physical.operators if o.level == level]
        fused = {o.id: found for o in operators if (found := self.fusion.fused(o)) is not None}
        settings = {
            o.id: context_of(self._physical, o, fused.get(o.id), headers=self._layout.headers) for o in operators
        }
        processor = self._layout.processor(
            LevelOperators(settings, self._physical.side_of, fused, self._physical.borrowers),
            self._common,
            cache_root=self._layout.cache_root,
            gathers=self.fusion.gathers(level, self._layout.labels),
            passes_ends=self._passes_ends(level),
        )
        ran = wire.groupBy("label").transformWithStateInPandas(
            statefulProcessor=pickled_small(processor), outputStructType=WIRE, outputMode="append", timeMode="None"
        )
        return self._layout.observe(ran, f"level{level}", self._metrics)

    def _unpacked_operators(self, level: int) -> list[Operator]:
        """Operators of the level with results for columns; results of the others go straight on."""
        return [o for o in self._physical.operators if o.level == level and self.fusion.fused(o) is None]

    def _unpacked(self, wire: DataFrame, level: int) -> DataFrame:
        schema = self._wide_schema(level)
        operators = frozenset(o.id for o in self._unpacked_operators(level))
        unpack = Unpack(arrow_schema(schema), operators, self._layout.labels, ends=self._is_last(level))
        return wire.mapInArrow(unpack, schema)

    def _is_last(self, level: int) -> bool:
        """Whether the sinks read what this level gives."""
        return level == self._physical.levels and not self._physical.ordered_exit

    def _wide_schema(self, level: int) -> StructType:
        operators = self._unpacked_operators(level)
        visible = any(o.emits_visible for o in operators)
        fields: list[tuple[str, DataType]] = [("root", IntegerType())]
        fields += [("case", LongType())] if self._layout.cases else []
        # Behind the last level rows lie in their order; only the test driver orders them anew, over its cases.
        ordered = self._is_last(level) and not self._layout.cases
        names = ("ts",) if ordered else wide_schema_names(self._physical.slots, visible=visible)
        fields += [(n, LongType()) for n in names]
        fields += [("stored_ts", LongType())] if not ordered and any(o.emits_stored_ts for o in operators) else []
        fields += [(HELD_KEY, BinaryType())] if not ordered and self._physical.holds_back else []
        fields += [("silent", BooleanType())] if any(o.emits_views for o in operators) else []
        fields += [("late", BooleanType())] if any(o.emits_late for o in operators) else []
        fields += [(SEQUENCE, LongType())] if self._is_last(level) and self._layout.numbered else []
        fields += [("headers", HEADERS)] if self._layout.headers else []
        for operator in operators:
            fields += result_fields(self._physical, operator)
        if self._passes(level):
            fields += [("label", IntegerType()), ("port", IntegerType()), ("blob", BinaryType())]
        return StructType([StructField(name, kind, True) for name, kind in fields])

    def _passes(self, level: int) -> bool:
        """Whether blobs for later levels or for the exit pass through this one, or are made here beside rows."""
        physical = self._physical
        mine = any(o.level == level and self.fusion.fused(o) is not None for o in physical.operators)
        over = any(physical.flows[e.flow].stage < level < physical.operators[e.target].level for e in physical.edges)
        over = over or any(op.level > level for op, _ in physical.timed)
        direct_sinks = any(physical.flows[f].stage < level for f, _ in physical.sink_edges)
        return mine or over or (physical.ordered_exit and direct_sinks) or self._passes_ends(level)

    # -- ways out ------------------------------------------------------------------------------------------

    def _direct(self, stage: Stage) -> CompiledFrame:
        """Each sink reads the last stage's frame: its rows are in one task, in order of position."""
        selectors = {
            sink: self._selection(sink, stage.condition(flow), stage.naming(flow).key, stage.naming(flow).value)
            for flow, sink in self._physical.stage_sinks(self._physical.levels)
        }
        frame = stage.frame
        if self._layout.written is not None:
            counts = (F.count_if(select.condition).alias(sink) for sink, select in selectors.items())
            frame = frame.observe(self._layout.written, *counts)
        return CompiledFrame(frame, selectors, "root", uncounted=self._layout.written is None)

    def _direct_sinks(self, wire: DataFrame) -> CompiledFrame:
        """Sinks are written from wire rows: those behind the last exchange, or the last level's own."""
        if self._physical.ordered_exit:
            wire = wire.repartition(self._layout.tasks, "label")
        exits = Exits.of(self._physical, self._layout.labels)
        return CompiledFrame(wire, {}, "", exits, self._layout.headers, encoded=self._parts)

    def _left(self, wire: DataFrame) -> CompiledFrame:
        """Each sink reads the frame behind the last exchange."""
        sinks = self._physical.sinks
        # Rows lie in their order; only the test driver orders them anew, over its cases.
        cases = self._layout.cases
        names = ("case", *wide_schema_names(self._physical.slots, visible=False)) if cases else ("ts",)
        fields: list[tuple[str, DataType]] = [("sink", IntegerType())]
        fields += [(n, LongType()) for n in (*names, *([SEQUENCE] if self._layout.numbered else []))]
        fields += [(HELD_KEY, BinaryType())] if cases and self._physical.holds_back else []
        fields += [("headers", HEADERS)] if self._layout.headers else []
        for number, sink in enumerate(sinks):
            shape, encoded = self._physical.plan.by_name[sink].shape, self._encoded(sink)
            value = BinaryType() if "value" in encoded else shape.value
            fields += [(f"k{number}_key", shape.key), (f"k{number}_value", value)]
            fields += [(f"k{number}_{ENCODED_KEY}", BinaryType())] if "key" in encoded else []
            fields += [(letter_headers(number), HEADERS)] if self._is_dead_letters(sink) else []
        schema = StructType([StructField(name, kind, True) for name, kind in fields])
        arrow = arrow_schema(schema)
        unpack_exits = UnpackExits(arrow, Exits.of(self._physical, self._layout.labels))
        frame = wire.repartition(self._layout.tasks, "label").mapInArrow(unpack_exits, schema)
        selectors = {
            sink: self._selection(sink, F.col("sink") == number, f"k{number}_key", f"k{number}_value")
            for number, sink in enumerate(sinks)
        }
        return CompiledFrame(frame, selectors, "sink")

    def _selection(self, sink: str, condition: Column, key: str, value: str) -> Selection:
        headers = key.replace("_key", "_headers") if self._is_dead_letters(sink) else None
        combined = sink in self._physical.plan.combined
        return Selection(condition, key, value, combined, headers, self._encoded(sink))

    def _encoded(self, sink: str) -> tuple[str, ...]:
        """Key or value, where the frame has the bytes of the sink's."""
        return () if self._layout.cases else self._parts.get(sink, ())

    def _is_dead_letters(self, sink: str) -> bool:
        return self._physical.plan.by_name[sink].inputs[0] in letter_sources(self._physical.plan)


def context_of(physical: Physical, operator: Operator, fused: Fused | None = None, *, headers: bool) -> OperatorContext:
    """The facts of the plan that the operator needs, with Arrow types, and the steps on its results."""
    reads = physical.reads(operator)
    extras = tuple((name, arrow_type(kind)) for name, kind in reads.extras)
    kept = tuple(each.typed(arrow_type) for each in operator.keeps)
    values = tuple(pa.bool_() if kind == FLAG else arrow_type(kind) for kind in reads.values)
    operator = replace(operator, params=operator.params.typed(arrow_type))
    fields = {} if fused is None else fused.fields
    outlives = physical.plan.within.outlives(operator.node)
    lent = physical.lent_table(operator)
    given = (
        arrow_type(reads.key),
        values,
        headers,
        extras,
        kept,
        fields,
        outlives,
        lent.typed(arrow_type) if lent else None,
    )
    return OperatorContext(operator, physical.slots, *given)


def _read(stage: Stage, source: Scan | None, columns: Sequence[str]) -> tuple[DataFrame, Deserializers | None]:
    """The frame that packing reads, and what it has to decode in it: all, where no function of Spark's did anything."""
    topics = None if source is None else source.topics
    if topics is None:
        return stage.frame, None
    if topics.plain:
        return stage.frame, topics.deserializers.of(columns)
    untouched = set(columns) <= {*topics.bare.columns, *topics.deserializers.made}
    return (topics.bare, topics.deserializers) if untouched else (stage.frame, None)
