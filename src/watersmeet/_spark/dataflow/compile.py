"""A physical plan over DataFrames: scans, packs, levels, unpacks, and the wire rows that the outputs read.

The same code makes a streaming query (labels spread over tasks) and a bounded run of the test driver (labels
numbered through, one block per case).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from watersmeet._engine.expressions.program import Program
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows import HELD_KEY
from watersmeet._plan.declaration import FLAG, RowColumn
from watersmeet._plan.logical import letter_sources
from watersmeet._plan.nodes import Shape
from watersmeet._plan.physical import Operator, Physical
from watersmeet._spark.dataflow.fusion import (
    Fusion,
    check_chains,
    check_groups,
    refuse_behind,
    refuse_by_spark,
    result_fields,
    started_engines,
)
from watersmeet._spark.dataflow.level import LevelGroup, LevelOperators, LevelProcessor, pickled_small
from watersmeet._spark.dataflow.stage import (
    Stage,
    columns_of,
    extractors_of,
    opened,
    packed_columns,
    packed_stage,
    roots_of,
    value_columns,
    with_times,
)
from watersmeet._spark.sources import wall_clock
from watersmeet._spark.sources.rows import Scan
from watersmeet._worker.counts import Measures
from watersmeet._worker.ended_rows import HEADERS, OnError, dead_letter_routes, error_policies
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.formats.decode import Deserializers
from watersmeet._worker.pack import Extraction, Fused, Pack, Unpack, wide_schema_names
from watersmeet._worker.task_reports import Reports
from watersmeet._worker.wire import (
    END,
    SEQUENCE,
    WIRE,
    Exits,
    Labels,
    WireSettings,
    encoded_parts,
    encodings_of,
)
from watersmeet._worker.writers.rows import UnpackExits

# How a plan is laid out on Spark.

VISIBLE: Sequence[tuple[str, DataType]] = (("timestamp", TimestampType()), (SEQUENCE, LongType()))
"""The columns that users see of an output, beside key, value and headers."""


@dataclass(frozen=True)
class SparkLayout:
    """How a plan is laid out on Spark."""

    labels: Labels  # labels of the shards
    tasks: int  # tasks of the exchanges
    cache_root: str | None  # folder of a machine's run cache, or `level.DEFAULT_CACHE`; None: no cache
    headers: bool  # whether records carry headers
    cases: bool  # whether rows carry a case number (test driver)
    reports: Reports | None = None  # takes what tasks report to the driver; None: nobody does
    journaled: bool = False  # whether packing gets whole records, for the journal
    checks_tasks: bool = False  # whether tasks check their number: the user starts the query
    processor: Callable[..., LevelProcessor] = LevelProcessor  # makes the processor of a level


LOG = logging.getLogger("watersmeet.functions")
"""Says of each function where it runs, and why Spark evaluates it where it does."""
LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class CompiledFrame:
    """The wire rows of all outputs, and how they are told apart."""

    frame: DataFrame  # the wire rows
    exits: Exits  # how outputs are told apart
    shapes: Sequence[Shape]  # types of keys and values, by number of the output
    letters: frozenset[str] = frozenset()  # names of the outputs with headers of their own, those of dead letters
    headers: bool = False  # whether all records have some
    combined: frozenset[str] = frozenset()  # names of the nodes with keys of one-to-many joins
    # of which outputs keys or values are bytes already
    encoded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def schema(self, sink: str, fields: Sequence[tuple[str, DataType]] = VISIBLE) -> StructType:
        """The columns of an output's rows: key, value, these, and headers where there are any."""
        shape = self.shapes[self.exits.names.index(sink)]
        headers = [("headers", HEADERS)] if self.headers or sink in self.letters else []
        columns = [("key", shape.key), ("value", shape.value), *fields, *headers]
        return StructType([StructField(name, kind, True) for name, kind in columns])

    def wire(self, sinks: Collection[str]) -> DataFrame:
        """The wire rows of some outputs, with the ends."""
        if len(sinks) == len(self.exits.names):
            return self.frame
        ports = [port for port, number in self.exits.ports.items() if self.exits.names[number] in sinks]
        return self.frame.filter(F.col("port").isin(END, *ports))

    def rows(self, sink: str, schema: StructType, batch: int | None = None) -> DataFrame:
        """The rows of an output, as a frame with the columns of `schema`.

        Parameters
        ----------
        batch : number of the batch, where it is known here: where PySpark shares threads, tasks do not know it.
        """
        unpack = UnpackExits(arrow_schema(schema), self.exits, self.exits.names.index(sink), batch)
        return self.wire((sink,)).mapInArrow(unpack, schema)


def compile_plan(
    physical: Physical,
    inputs: Sequence[Scan],
    layout: SparkLayout,
    clock: DataFrame | None = None,
    replaced_rows: Sequence[DataFrame] = (),
    fusion: Fusion | None = None,
) -> CompiledFrame:
    """The plan over these inputs, the wall clock where time goes on by it, and the rows of replaced tables.

    Parameters
    ----------
    fusion : of the same plan under the same settings, as far as it is known.
    """
    compiler = _Compiler(inputs[0].bare.sparkSession, inputs, physical, layout)
    if fusion is not None:
        compiler.fusion.take(fusion)
    compiled = compiler.run(inputs, clock, replaced_rows)
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
        history_roots = frozenset[str]().union(*(scan.roots for scan in inputs if scan.begins))
        self.fusion = Fusion(spark, physical, ships=not layout.cases)
        self._physical, self._packs = physical, count()
        self._common = WireSettings(
            layout.labels,
            Measures.of(physical),
            layout.reports,
            dead_letter_routes(physical, history_roots, piped=layout.cases),
            encodings_of(physical, physical.plan.sinks, ships=not layout.cases),  # a test driver shows values
            layout.tasks if layout.checks_tasks else None,
        )

    def through_levels(self, wire: DataFrame, inputs: Sequence[Scan]) -> DataFrame:
        wire = reduce(DataFrame.unionByName, map(self._packed_source, inputs), wire)
        return self._levels(wire, exits=self._physical.ordered_exit)

    def run(self, inputs: Sequence[Scan], clock: DataFrame | None, replaced_rows: Sequence[DataFrame]) -> CompiledFrame:
        physical, labels = self._physical, self._layout.labels
        refuse_behind(physical, self.fusion)
        check_chains(physical, self.fusion)
        check_groups(physical, self.fusion)
        wires = list(map(self._packed_source, inputs))
        if clock is not None:
            wires.append(wall_clock.clock_rows(clock, physical, labels))
        # Spark knows its sources by their places: rows of replaced tables come last (`checkpoint.record.REPLACED`)
        wires += replaced_rows
        wire = self._levels(reduce(DataFrame.unionByName, wires), exits=True)
        if physical.ordered_exit and self._layout.tasks > 1:
            wire = wire.repartition(self._layout.tasks, "label")
        sinks = [physical.plan.by_name[name] for name in physical.sinks]
        sources = letter_sources(physical.plan)
        letters = frozenset(sink.name for sink in sinks if sink.inputs[0] in sources)
        encoded = {} if self._layout.cases else encoded_parts(physical)
        encoded = {name: (*encoded.get(name, ()), *self.fusion.written.get(name, ())) for name in physical.sinks}
        shapes = [sink.shape for sink in sinks]
        exits, combined = Exits.of(physical, labels), physical.plan.combined
        return CompiledFrame(wire, exits, shapes, letters, self._layout.headers, combined, encoded)

    def _levels(self, wire: DataFrame, *, exits: bool) -> DataFrame:
        """The rows that leave the levels; `exits`: also those of the last level on their way to outputs."""
        for levels in self._physical.level_groups:
            level = levels[-1]
            goes_on = exits or level < self._physical.levels
            wire = self._group(wire, levels, exits=exits)
            unpacked = frozenset(o.node for o in self._unpacked_operators(level)) if goes_on else ()
            if unpacked:
                stage = self.fusion.stage(level, self._unpacked(wire, level), unpacked)
                wire = self._packed(stage, level)
        return wire

    # -- stages --------------------------------------------------------------------------------------------

    def _packed_source(self, source: Scan) -> DataFrame:
        names, schema = frozenset(source.roots), source.made.schema
        programs = self.fusion.of_sources(names, schema, decodes=source.topics is not None)
        plan = self._physical.plan
        # a snapshot's rows have the times at which they were kept
        extractors = () if source.snapshot else extractors_of(plan, names, begins=source.begins)
        if programs is None:
            frame = with_times(opened(source.frame, plan, names), plan, names) if extractors else source.frame
            return self._packed(self.fusion.stage(0, frame, names), 0, source, extraction=Extraction(extractors))
        # an empty frame tells as well which columns there are
        extraction = Extraction(extractors, programs.timing if extractors else Program())
        return self._packed(programs.stage, 0, source, programs.program, extraction)

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
        facts = packed_stage(self._physical, stage, number, times=times)
        columns_told = [*columns_of(facts.outlets, facts.peeks), *(routes.needed if routes and source else ())]
        columns_told += value_columns(self._physical, source.roots) if source and self._layout.journaled else []
        policies, extraction = self._error_policies(stage, source, program), extraction or Extraction()
        frame, columns, deserializers = self._reading(stage, source, program, [*columns_told, *extraction.reads])
        pack = Pack(
            stage=facts,
            common=self._common,
            sources=number == 0,
            order=order,
            partitioned=source is not None and source.partitioned,
            changes=source is not None and source.changes,
            program=program or Program(),
            snapshot=snapshot,
            deserializers=deserializers,
            error_policies=policies,
            extraction=extraction,
            step=f"pack {next(self._packs)}",
        )
        if deserializers:
            columns = [*(name for name in columns if name not in deserializers.made), *deserializers.needed]
        return self._in_tasks(frame.select(*columns), source).mapInArrow(pack, WIRE)

    def _reading(
        self, stage: Stage, source: Scan | None, program: Program | None, outputs: Sequence[str]
    ) -> tuple[DataFrame, list[str], Deserializers | None]:
        """The frame that packing reads, the columns it gets, and the columns to decode in it."""
        order = source.order if source else ()
        if source is None or program is None:
            columns = packed_columns(stage.frame.columns, outputs, self._physical.slots, order)
            frame, deserializers = _read(stage, source, columns)
            return frame, columns, deserializers
        columns = packed_columns(source.made.schema.names, [*outputs, *program.reads], self._physical.slots, order)
        return source.bare, columns, source.topics.deserializers if source.topics else None

    def _error_policies(self, stage: Stage, source: Scan | None, program: Program | None) -> Mapping[int, OnError]:
        policies = error_policies(self._physical, roots_of(stage)) if source is not None and not source.begins else {}
        if source is not None and program is None:
            refuse_by_spark(self._physical, policies, self.fusion)
        return policies

    def _in_tasks(self, frame: DataFrame, source: Scan | None) -> DataFrame:
        """Topics' partitions in no more tasks than can run at a time: a batch of few records waits for each task."""
        if source is None:
            return frame
        if source.topics is None:
            # a task numbers whole partitions
            tasks = self._layout.tasks
            return _dealt(frame, tasks) if source.partitioned else frame
        if self._layout.tasks == 1:
            return frame.coalesce(1)
        return frame.coalesce(max(self._layout.tasks, frame.sparkSession.sparkContext.defaultParallelism))

    # -- levels --------------------------------------------------------------------------------------------

    def _group(self, wire: DataFrame, levels: Sequence[int], *, exits: bool) -> DataFrame:
        processors = [self._level(level, goes_on=exits or level < self._physical.levels) for level in levels]
        processor = processors[0] if len(processors) == 1 else LevelGroup(processors)
        return wire.groupBy("label").transformWithStateInPandas(
            statefulProcessor=pickled_small(processor), outputStructType=WIRE, outputMode="append", timeMode="None"
        )

    def _level(self, level: int, *, goes_on: bool) -> LevelProcessor:
        operators = [o for o in self._physical.operators if o.level == level]
        fused = {o.id: steps for o in operators if goes_on and (steps := self.fusion.fused(o)) is not None}
        settings = {
            o.id: context_of(self._physical, o, fused.get(o.id), headers=self._layout.headers) for o in operators
        }
        return self._layout.processor(
            LevelOperators(settings, self._physical.ports, fused, level),
            self._common,
            cache_root=self._layout.cache_root,
            gathers=self.fusion.gathers(level, self._layout.labels),
        )

    def _unpacked_operators(self, level: int) -> list[Operator]:
        """Operators of the level with results for columns; results of the others go straight on."""
        return [o for o in self._physical.operators if o.level == level and self.fusion.fused(o) is None]

    def _unpacked(self, wire: DataFrame, level: int) -> DataFrame:
        schema = self._wide_schema(level)
        operators = frozenset(o.id for o in self._unpacked_operators(level))
        return wire.mapInArrow(Unpack(arrow_schema(schema), operators, self._layout.labels), schema)

    def _wide_schema(self, level: int) -> StructType:
        operators = self._unpacked_operators(level)
        columns = frozenset[RowColumn]().union(*(operator.emits for operator in operators))
        fields: list[tuple[str, DataType]] = [("root", IntegerType())]
        fields += [("case", LongType())] if self._layout.cases else []
        fields += [(n, LongType()) for n in wide_schema_names(self._physical.slots, visible="visible" in columns)]
        fields += [("stored_ts", LongType())] if "stored_ts" in columns else []
        fields += [(HELD_KEY, BinaryType())] if self._physical.holds_back else []
        fields += [("silent", BooleanType())] if "silent" in columns else []
        fields += [("late", BooleanType())] if "late" in columns else []
        fields += [("headers", HEADERS)] if self._layout.headers else []
        for operator in operators:
            fields += result_fields(self._physical, operator)
        # rows on their way to later levels and to outputs pass through
        fields += [("label", IntegerType()), ("port", IntegerType()), ("blob", BinaryType())]
        return StructType([StructField(name, kind, True) for name, kind in fields])


def context_of(physical: Physical, operator: Operator, fused: Fused | None = None, *, headers: bool) -> OperatorContext:
    """The facts of the plan that the operator needs, with Arrow types, and the steps on its results."""
    reads = physical.reads(operator)
    extras = tuple((name, arrow_type(kind)) for name, kind in reads.extras)
    tables = tuple(store.schema.typed(arrow_type) for _, store in physical.stores_of(operator.id))
    values = tuple(pa.bool_() if kind == FLAG else arrow_type(kind) for kind in reads.values)
    operator = replace(operator, params=operator.params.typed(arrow_type))
    fields = {} if fused is None else fused.fields
    tolerates_errors = physical.plan.within.tolerates_errors(operator.node)
    reader = physical.readers.get(operator.id)
    arguments = arrow_type(reads.key), values, headers, extras, tables, fields, tolerates_errors, reader
    return OperatorContext(operator, physical.slots, *arguments)


def _dealt(frame: DataFrame, tasks: int) -> DataFrame:
    return frame.coalesce(1) if tasks == 1 else frame.repartition(tasks, "partition")


def _read(stage: Stage, source: Scan | None, columns: Sequence[str]) -> tuple[DataFrame, Deserializers | None]:
    """The frame that packing reads, and what it has to decode in it: all, where no function of Spark's did anything."""
    topics = None if source is None else source.topics
    if topics is None:
        return stage.frame, None
    if topics.plain:
        return stage.frame, topics.deserializers
    untouched = set(columns) <= {*topics.bare.columns, *topics.deserializers.made}
    return (topics.bare, topics.deserializers) if untouched else (stage.frame, None)
