"""Which operators hand their results on within their level: those behind which Arrow can evaluate all functions.

The columns of the stage behind an operator are made as for Spark, upon an empty frame; then they are read back from
Spark's plan as expressions. So both ways evaluate the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StructField, StructType

from watersmeet._engine.exchange.outlets import direct_outlet
from watersmeet._engine.expressions.evaluate import unsupported
from watersmeet._engine.expressions.explosion import explodes
from watersmeet._engine.expressions.program import Columns, Program, needed, operands
from watersmeet._engine.expressions.reduced import fields_read, reduced
from watersmeet._engine.expressions.tree import Expression
from watersmeet._plan.operators.spec import FLAG
from watersmeet._plan.physical import Operator, Physical
from watersmeet._spark.analysis.analysed_plan import Unread, layers_of
from watersmeet._spark.dataflow.asked import AskedProgram, NotFused, Question
from watersmeet._spark.dataflow.outlets import columns_of, outlets_of, peeks_of
from watersmeet._spark.dataflow.stage import Stage
from watersmeet._spark.sources.extracted import opened, timed, with_times
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet._worker.packing.extracted import time_column
from watersmeet._worker.packing.fused import Fused, StageColumns
from watersmeet._worker.wire.wire import Labels, encoded_parts

LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
_WORDS = {
    "Window": "a window function",
    "PythonUDF": "a UDF, F.udf, which Spark calls",
    "ScalaUDF": "a UDF, which Spark calls",
}
"""What plans and expressions of Spark's are in the words of a program."""
_OF_FLOWS = re.compile(r"[sof]\d+_")
"""How the columns of keys and values begin."""
SWITCH = "watersmeet.functions"
"""A session's setting: "spark" has Spark evaluate all functions, "level" as few as can be, as tests want it."""


@dataclass(frozen=True)
class AtSources:
    """The programs of sources' functions in packing.

    Parameters
    ----------
    program : makes them.
    stage : says what they are called; its frame is empty.
    timing : makes the times of records that have them by a function, before all else.
    """

    program: Program
    stage: Stage
    timing: Program


class Fusion:
    """How operators hand on their results, where they do.

    Parameters
    ----------
    spark : the session.
    physical : the plan.
    direct_sinks : whether the sinks are written from wire rows, so that the last level may hand on to them, too.
    asks : whether levels run where the session is, and so may ask Spark for columns that they cannot make.
    """

    def __init__(self, spark: SparkSession, physical: Physical, *, direct_sinks: bool, asks: bool = False) -> None:
        self._spark = spark
        self._asks = asks
        self._physical = physical
        self._direct_sinks = direct_sinks
        self.at_sources: dict[str, NotFused | None] = {}
        """Why functions before the first level are Spark's, or None, by the name of the source; where asked for."""
        own = [o for o in physical.operators if not physical.direct_edges(o)]
        self._found = {operator.id: self._tried(operator) for operator in own}
        if encoded_parts(physical) and not self.exit:
            self._physical = replace(physical, ordered_exit=True)

    def fused(self, operator: Operator) -> Fused | None:
        """How the operator's results go on; None where Spark's columns stand behind it."""
        direct = self._physical.direct_edges(operator)
        if direct:
            return Fused(tuple(direct_outlet(self._physical, edge) for edge in direct))
        found = self._found[operator.id]
        last = operator.level == self._physical.levels and not (self._physical.ordered_exit or self.exit)
        return None if last or isinstance(found, NotFused) else found

    def by_spark(self, operator: Operator) -> NotFused | None:
        """Why the functions behind an operator are Spark's; None where they are not."""
        fused = self.fused(operator)
        if fused is not None:
            return _why(fused.program)
        found = self._found[operator.id]
        return found if isinstance(found, NotFused) else NotFused("", "a sink that Spark writes")

    def gathers(self, level: int, labels: Labels) -> bool:
        """Whether a task packs the results of all its shards together: where they meet another exchange."""
        several = labels.shards > len(labels.ends) > 0
        goes_on = level < self._physical.levels or self._physical.ordered_exit
        mine = (operator for operator in self._physical.operators if operator.level == level)
        return several and goes_on and any(self.fused(operator) is not None for operator in mine)

    def gathers_some(self, labels: Labels) -> bool:
        """Whether a level does, so that the first stage tells every task when it has all its rows."""
        return any(self.gathers(level, labels) for level in range(1, self._physical.levels + 1))

    @property
    def physical(self) -> Physical:
        """The plan as it is run: with an exchange to the sinks where what is written before it asks for one."""
        return self._physical

    @cached_property
    def exit(self) -> bool:
        """Whether all of the last level's results, which the sinks read in their order, are handed on."""
        last = [o for o in self._physical.operators if o.level == self._physical.levels]
        return self._direct_sinks and all(isinstance(self._found.get(o.id), Fused) for o in last)

    def of_sources(self, names: frozenset[str], schema: StructType, *, decodes: bool) -> AtSources | None:
        """The programs of sources' functions in packing; None if Spark evaluates them.

        Parameters
        ----------
        names : of sources that are read as one frame.
        schema : that frame's.
        decodes : whether packing decodes keys and values: else they are Spark's already.
        """
        found = self._of_frame(names, schema, decodes=decodes)
        why = found if isinstance(found, NotFused) else _why(found.program) or _why(found.timing)
        self.at_sources |= dict.fromkeys(names, why)
        return None if isinstance(found, NotFused) else found

    def _of_frame(self, names: frozenset[str], schema: StructType, *, decodes: bool) -> AtSources | NotFused:
        refused = refusal(self._spark)
        if refused is not None:
            return refused
        if not decodes and self._spark.conf.get(SWITCH, "") != "level":
            return NotFused("", "rows of a DataFrame")
        empty = self._spark.createDataFrame([], schema)
        timing = self._timing(empty, names)
        if isinstance(timing, NotFused):
            return timing
        stage = Stage(self._physical, 0, empty, names)
        outlets = outlets_of(self._physical, stage, 0, exits=self._physical.ordered_exit)
        wanted = columns_of(outlets, peeks_of(self._physical, stage))
        found = self._or_asked(
            program_of(stage, wanted, ", ".join(sorted(names))),
            empty.schema,
            lambda frame: Stage(self._physical, 0, frame, names).frame,
            wanted,
        )
        return found if isinstance(found, NotFused) else AtSources(found, stage, timing)

    def _or_asked(
        self,
        found: Program | NotFused,
        schema: StructType,
        over: Callable[[DataFrame], DataFrame],
        columns: Sequence[str],
    ) -> Program | NotFused:
        """The program, or, where levels may ask Spark, one that does."""
        if not self._asks or not isinstance(found, NotFused):
            return found
        made = over(self._spark.createDataFrame([], schema)).schema
        given = [name for name in columns if name in made.names]
        return AskedProgram(
            question=Question(self._spark, schema, over, StructType([made[each] for each in given]), found)
        )

    def _timing(self, empty: DataFrame, names: frozenset[str]) -> Program | NotFused:
        """The programs of these sources' times, if a function makes them; or the reason for Spark."""
        plan = self._physical.plan
        columns = [time_column(number) for number, _ in timed(plan, names)]
        if not columns:
            return Program()
        columns += ["reason"]
        return self._or_asked(
            _program(with_times(empty, plan, names), columns[:-1], ", ".join(sorted(names)), columns[:-1]),
            empty.schema,
            lambda frame: with_times(opened(frame, plan, names), plan, names),
            columns,
        )

    def _tried(self, operator: Operator) -> Fused | NotFused:
        refused = refusal(self._spark)
        if refused is not None:
            return refused
        fields = _root_fields(self._physical, operator)
        frame = self._spark.createDataFrame([], StructType(fields))
        stage = Stage(self._physical, operator.level, frame, frozenset({operator.node}))
        outlets = outlets_of(self._physical, stage, operator.level, exits=True)
        peeks = peeks_of(self._physical, stage)
        wanted = columns_of(outlets, peeks)
        node = frozenset({operator.node})
        program = self._or_asked(
            program_of(stage, wanted, operator.node),
            frame.schema,
            lambda given: Stage(self._physical, operator.level, given, node).frame,
            wanted,
        )
        if isinstance(program, NotFused):
            return program
        prefix = f"o{operator.id}_"
        renamed = {f.name: f.name.removeprefix(prefix) for f in fields if f.name.startswith(prefix)}
        schema = arrow_schema(StructType([f for f in fields if f.name != "root"]))
        structs = [f.name for f in fields if isinstance(f.dataType, StructType)]
        read = {} if isinstance(program, AskedProgram) else fields_read(program.layers, wanted, structs)
        columns = StageColumns(operator.id, tuple((own, name) for name, own in renamed.items()), schema)
        outlives = self._outlives(operator)
        # what ends is shown whole
        reduced = {} if outlives else {renamed[name]: each for name, each in read.items()}
        return Fused(outlets, columns, program, peeks, reduced, outlives)

    def _outlives(self, operator: Operator) -> bool:
        """Whether a result may end for which a function raises: not where later changes say what it would have been."""
        root = self._physical.roots[operator.id].id
        told = any(flow.carries_old or flow.silent for flow in self._physical.flows if flow.root == root)
        return self._physical.plan.within.outlives(operator.node) and not told


def _why(program: Program) -> NotFused | None:
    """Why Spark makes a program's columns, where it does."""
    return program.why if isinstance(program, AskedProgram) else None


def program_of(stage: Stage, columns: list[str], owner: str) -> Program | NotFused:
    """The program of these columns of the stage; or the reason for Spark."""
    return _program(stage.frame, columns, owner, stage.needed(columns))


def _program(frame: DataFrame, columns: list[str], owner: str, read: Collection[str]) -> Program | NotFused:
    """The program of these columns of a frame; `read`: those that something reads after it."""
    layers = layers_of(frame)
    for each in layers:
        if isinstance(whole := each.get(""), Unread):
            return NotFused("", _WORDS.get(whole.why, whole.why))
    kept: list[Columns] = []
    for layer in needed([tuple(each.items()) for each in layers], columns):
        made: list[tuple[str, Expression]] = []
        for name, expression in layer:
            if isinstance(expression, Unread):
                return NotFused(name, _WORDS.get(expression.why, expression.why))
            why = None if explodes([(name, expression)]) else unsupported(expression)
            if why is not None:
                return NotFused(name, why)
            made.append((name, expression))
        kept.append(tuple(made))
    left = reduced(kept, columns)
    return Program(left, owner, _gone(left, read))


def _gone(layers: Sequence[Columns], wanted: Collection[str]) -> frozenset[str]:
    """Columns of functions that nothing reads behind the last layer that makes rows of lists."""
    last = max((number for number, layer in enumerate(layers) if explodes(layer)), default=0)
    before, behind = ([e for layer in some for _, e in layer] for some in (layers[: last + 1], layers[last + 1 :]))
    known = {name for layer in layers[:last] for name, _ in layer}.union(*map(operands, before))
    return frozenset(name for name in known if _OF_FLOWS.match(name)).difference(wanted, *map(operands, behind))


def refusal(spark: SparkSession) -> NotFused | None:
    """Why the session has Spark evaluate all functions, if it has."""
    if spark.conf.get(SWITCH, "") == "spark":
        return NotFused("", f"{SWITCH} is spark")
    # the workers' texts and bytes are of other types
    return NotFused("", LARGE) if str(spark.conf.get(LARGE, "false")).lower() == "true" else None


def result_fields(physical: Physical, operator: Operator) -> list[tuple[str, DataType]]:
    """Names and types of the columns that have an operator's results in the frame of its stage."""
    prefix, key = f"o{operator.id}_", physical.plan.by_name[operator.node].shape.key
    columns = (("key", key), *physical.results(operator).columns)
    return [(prefix + name, BooleanType() if kind == FLAG else kind) for name, kind in columns]


def _root_fields(physical: Physical, operator: Operator) -> list[StructField]:
    fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("ts", LongType())]
    fields += [("headers", HEADERS)] if physical.plan.headers else []
    fields += [("silent", BooleanType())] if operator.emits_views else []
    fields += [("late", BooleanType())] if operator.emits_late else []
    fields += result_fields(physical, operator)
    return [StructField(name, kind, True) for name, kind in fields]
