"""Which operators hand their results on within their level: those behind which Arrow can evaluate all functions;
and at which sources packing evaluates the functions before the first level.

The columns of the stage behind an operator are made as for Spark, upon an empty frame; then they are read back from
Spark's plan as expressions. So both ways evaluate the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from watersmeet._engine.aggregates.registry import how_it_runs
from watersmeet._engine.exchange import direct_outlet
from watersmeet._engine.expressions.evaluate import unsupported
from watersmeet._engine.expressions.program import (
    GIVEN,
    Columns,
    Program,
    explodes,
    fields_read,
    needed,
    operands,
    reduced,
)
from watersmeet._engine.expressions.tree import EvaluationError, Expression
from watersmeet._engine.rows import TOPIC, with_nulls
from watersmeet._plan.declaration import FLAG
from watersmeet._plan.nodes import Node, SourceNode, patterns_of
from watersmeet._plan.physical import Flow, Operator, Physical
from watersmeet._spark import session
from watersmeet._spark.columns import Unread, empty_frame, layers_of, without_origins
from watersmeet._spark.dataflow.stage import Stage, columns_of, opened, outlets_of, peeks_of, timed, with_times
from watersmeet._worker.ended_rows import HEADERS, OnError, error_policies
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.formats.json import nullable
from watersmeet._worker.pack import Fused, StageColumns, time_column
from watersmeet._worker.wire import Labels, written_by_spark
from watersmeet.errors import ConfigError

# Programs that Spark runs in the middle of a level of this process: a small query over the rows at hand.
#
# So the test driver keeps its levels, stores and clocks in its own process, whatever functions a topology has (law 4:
# where a function is evaluated changes no result). Workers never do this: there Spark evaluates between two levels.


@dataclass(frozen=True)
class NotFused:
    """Why Spark evaluates the functions of a stage."""

    column: str  # the stage's column that has to be Spark's; empty where it is not one alone
    why: str  # what is not known in the level: the name of a class of Spark's, as a rule


@dataclass(frozen=True)
class Question:
    """What Spark is asked for."""

    spark: SparkSession  # the session
    schema: StructType  # of the frame that the functions begin with
    over: Callable[[DataFrame], DataFrame]  # makes the frame with all columns of it
    columns: StructType  # those that are wanted, with their types
    why: NotFused  # why the level cannot make them

    def answer(self, rows: pa.Table) -> pa.Table:
        """The columns, and the number of the row that each row of them was made of."""
        numbers = pa.array(np.arange(len(rows), dtype=np.int64))
        indexed = rows.select(self.schema.names).cast(arrow_schema(self.schema)).append_column(GIVEN, numbers)
        # a struct that is null has nulls where a field itself never is: neither Arrow's cast nor a row knows that
        schema = StructType([StructField(GIVEN, LongType()), *(_with_nulls(column) for column in self.columns)])
        with session.overridden(self.spark, session.AT_START):
            frame = self.spark.createDataFrame(indexed, StructType([*self.schema, schema[GIVEN]]))
            columns = [F.col(column.name).cast(column.dataType).alias(column.name) for column in schema]
            return self.over(frame).select(columns).toArrow().cast(arrow_schema(schema))


def _with_nulls(field: StructField) -> StructField:
    return StructField(field.name, nullable(field.dataType), True)


@dataclass(frozen=True)
class AskedProgram(Program):
    """A program with columns that Spark makes."""

    question: Question = field(kw_only=True)  # what it is asked

    @property
    def why(self) -> NotFused:
        """Why the level cannot make the columns."""
        return self.question.why

    @property
    def idle(self) -> bool:
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(self.question.schema.names)

    @property
    def explodes(self) -> bool:
        return True

    def __call__(self, rows: pa.Table) -> pa.Table:
        """See base class; what Spark raises goes out as it is."""
        answer = self.question.answer(rows)
        table = rows.take(answer.column(GIVEN))
        for name in answer.column_names:
            at = table.schema.get_field_index(name)
            column = answer.column(name)
            table = table.set_column(at, name, column) if at >= 0 else table.append_column(name, column)
        return table

    def failing(self, rows: pa.Table) -> Mapping[int, EvaluationError]:  # type: ignore[override]
        """See base class: Spark says of no row that it fails alone."""
        return {}


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
    """The programs of sources' functions in packing."""

    program: Program  # makes them
    stage: Stage  # says what they are called; its frame is empty
    timing: Program  # makes the times of records that have them by a function, before all else


class Fusion:
    """How operators hand on their results, where they do.

    Parameters
    ----------
    spark : the session.
    physical : the plan.
    asks : whether levels run where the session is, and so may ask Spark for columns that they cannot make.
    ships : whether outputs are written; a test driver shows them.
    """

    def __init__(self, spark: SparkSession, physical: Physical, *, asks: bool = False, ships: bool = True) -> None:
        self._spark = spark
        self._asks = asks
        self.physical = physical
        self.written = written_by_spark(physical) if ships else {}
        """Of which outputs Spark writes keys or values, as the last step of their stage."""
        self.at_sources: dict[str, NotFused | None] = {}
        """Why functions before the first level are Spark's, or None, by the name of the source; where asked for."""
        self._outcomes: dict[int, Fused | NotFused] = {}

    def take(self, earlier: Fusion) -> None:
        """Take what was found for the same plan, whatever its groups of levels are."""
        if earlier.physical.in_groups(()) == self.physical.in_groups(()):
            self._outcomes = earlier._outcomes

    def stage(self, number: int, frame: DataFrame, roots: frozenset[str]) -> Stage:
        """A stage of the plan over a frame, see `Stage`."""
        return Stage(self.physical, number, frame, roots, self.written)

    def fused(self, operator: Operator) -> Fused | None:
        """How the operator's results go on; None where Spark's columns stand behind it."""
        direct = self.physical.direct_edges(operator)
        if direct:
            return Fused(tuple(direct_outlet(self.physical, edge) for edge in direct))
        outcome = self._outcome(operator)
        return None if isinstance(outcome, NotFused) else outcome

    def _outcome(self, operator: Operator) -> Fused | NotFused:
        if operator.id not in self._outcomes:
            self._outcomes[operator.id] = self._tried(operator)
        return self._outcomes[operator.id]

    def by_spark(self, operator: Operator) -> NotFused | None:
        """Why the functions behind an operator are Spark's; None where they are not."""
        fused = self.fused(operator)
        if fused is not None:
            return _spark_reason(fused.program)
        outcome = self._outcome(operator)
        assert isinstance(outcome, NotFused)
        return outcome

    def gathers(self, level: int, labels: Labels) -> bool:
        """Whether a task packs the results of all its shards together: where they meet another exchange."""
        multiple = labels.shards > len(labels.ends) > 0
        goes_on = level < self.physical.levels or self.physical.ordered_exit
        operators = (operator for operator in self.physical.operators if operator.level == level)
        return multiple and goes_on and any(self.fused(operator) is not None for operator in operators)

    def of_sources(self, names: frozenset[str], schema: StructType, *, decodes: bool) -> AtSources | None:
        """The programs of sources' functions in packing; None if Spark evaluates them.

        Parameters
        ----------
        names : of sources that are read as one frame.
        schema : that frame's.
        decodes : whether packing decodes keys and values: else they are Spark's already.
        """
        outcome = self._of_frame(names, schema, decodes=decodes)
        reason = (
            outcome
            if isinstance(outcome, NotFused)
            else _spark_reason(outcome.program) or _spark_reason(outcome.timing)
        )
        self.at_sources |= dict.fromkeys(names, reason)
        return None if isinstance(outcome, NotFused) else outcome

    @without_origins()
    def _of_frame(self, names: frozenset[str], schema: StructType, *, decodes: bool) -> AtSources | NotFused:
        refused = refusal(self._spark)
        if refused is not None:
            return refused
        if not decodes and self._spark.conf.get(SWITCH, "") != "level":
            return NotFused("", "rows of a DataFrame")
        empty = empty_frame(self._spark, schema)
        timing = self._timing(empty, names)
        if isinstance(timing, NotFused):
            return timing
        stage = self.stage(0, empty, names)
        outlets = outlets_of(self.physical, stage, 0)
        columns = columns_of(outlets, peeks_of(self.physical, stage))
        program = self._or_asked(
            program_of(stage, columns, ", ".join(sorted(names))),
            empty.schema,
            lambda frame: self.stage(0, frame, names).frame,
            columns,
        )
        return program if isinstance(program, NotFused) else AtSources(program, stage, timing)

    def _or_asked(
        self,
        program: Program | NotFused,
        schema: StructType,
        over: Callable[[DataFrame], DataFrame],
        columns: Sequence[str],
    ) -> Program | NotFused:
        """The program, or, where levels may ask Spark, one that does."""
        if not self._asks or not isinstance(program, NotFused):
            return program
        output = over(empty_frame(self._spark, schema)).schema
        names = [name for name in columns if name in output.names]
        return AskedProgram(
            question=Question(self._spark, schema, over, StructType([output[name] for name in names]), program)
        )

    def _timing(self, empty: DataFrame, names: frozenset[str]) -> Program | NotFused:
        """The programs of these sources' times, if a function makes them; or the reason for Spark."""
        plan = self.physical.plan
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

    @without_origins()
    def _tried(self, operator: Operator) -> Fused | NotFused:
        refused = refusal(self._spark)
        if refused is not None:
            return refused
        fields = _root_fields(self.physical, operator)
        frame = empty_frame(self._spark, StructType(fields))
        node = frozenset({operator.node})
        stage = self.stage(operator.level, frame, node)
        outlets = outlets_of(self.physical, stage, operator.level)
        peeks = peeks_of(self.physical, stage)
        names = columns_of(outlets, peeks)
        program = self._or_asked(
            program_of(stage, names, operator.node),
            frame.schema,
            lambda rows: self.stage(operator.level, rows, node).frame,
            names,
        )
        if isinstance(program, NotFused):
            return program
        prefix = f"o{operator.id}_"
        renamed = {f.name: f.name.removeprefix(prefix) for f in fields if f.name.startswith(prefix)}
        schema = arrow_schema(StructType([f for f in fields if f.name != "root"]))
        structs = [f.name for f in fields if isinstance(f.dataType, StructType)]
        read = {} if isinstance(program, AskedProgram) else fields_read(program.layers, names, structs)
        columns = StageColumns(operator.id, tuple((short, name) for name, short in renamed.items()), schema)
        tolerates_errors = self._tolerates_errors(operator)
        # what ends is shown whole
        read_fields = {} if tolerates_errors else {renamed[name]: paths for name, paths in read.items()}
        return Fused(outlets, columns, program, peeks, read_fields, tolerates_errors)

    def _tolerates_errors(self, operator: Operator) -> bool:
        """Whether a result may end for which a function raises: not where later changes say what it would have been."""
        root = self.physical.roots[operator.id].id
        corrected = any({"old", "silent"} & flow.columns for flow in self.physical.flows if flow.root == root)
        return self.physical.plan.within.tolerates_errors(operator.node) and not corrected


def _spark_reason(program: Program) -> NotFused | None:
    """Why Spark makes a program's columns, where it does."""
    return program.why if isinstance(program, AskedProgram) else None


def program_of(stage: Stage, columns: list[str], owner: str) -> Program | NotFused:
    """The program of these columns of the stage; or the reason for Spark."""
    return _program(stage.frame, columns, owner, stage.needed(columns))


def _program(frame: DataFrame, columns: list[str], owner: str, read: Collection[str]) -> Program | NotFused:
    """The program of these columns of a frame; `read`: those that something reads after it."""
    layers = layers_of(frame)
    for projection in layers:
        if isinstance(unread := projection.get(""), Unread):
            return NotFused("", _WORDS.get(unread.why, unread.why))
    steps: list[Columns] = []
    for layer in needed([tuple(projection.items()) for projection in layers], columns):
        expressions: list[tuple[str, Expression]] = []
        for name, expression in layer:
            if isinstance(expression, Unread):
                return NotFused(name, _WORDS.get(expression.why, expression.why))
            reason = None if explodes([(name, expression)]) else unsupported(expression)
            if reason is not None:
                return NotFused(name, reason)
            expressions.append((name, expression))
        steps.append(tuple(expressions))
    left = reduced(steps, columns)
    return Program(left, owner, _unused(left, read))


def _unused(layers: Sequence[Columns], outputs: Collection[str]) -> frozenset[str]:
    """Columns of functions that nothing reads behind the last layer that makes rows of lists."""
    last = max((number for number, layer in enumerate(layers) if explodes(layer)), default=0)
    earlier, later = ([e for layer in group for _, e in layer] for group in (layers[: last + 1], layers[last + 1 :]))
    names = {name for layer in layers[:last] for name, _ in layer}.union(*map(operands, earlier))
    return frozenset(name for name in names if _OF_FLOWS.match(name)).difference(outputs, *map(operands, later))


def refusal(spark: SparkSession) -> NotFused | None:
    """Why the session has Spark evaluate all functions, if it has."""
    if spark.conf.get(SWITCH, "") == "spark":
        return NotFused("", f"{SWITCH} is spark")
    # the workers' texts and bytes are of other types
    return NotFused("", LARGE) if str(spark.conf.get(LARGE, "false")).lower() == "true" else None


def result_fields(physical: Physical, operator: Operator) -> list[tuple[str, DataType]]:
    prefix, key = f"o{operator.id}_", physical.plan.by_name[operator.node].shape.key
    columns = (("key", key), *physical.results(operator).columns)
    return [(prefix + name, BooleanType() if kind == FLAG else kind) for name, kind in columns]


def _root_fields(physical: Physical, operator: Operator) -> list[StructField]:
    fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("ts", LongType())]
    fields += [("headers", HEADERS)] if physical.plan.headers else []
    fields += [("silent", BooleanType())] if "silent" in operator.emits else []
    fields += [("late", BooleanType())] if operator.declaration.emits_late else []
    fields += result_fields(physical, operator)
    return [StructField(name, kind, True) for name, kind in fields]


# Where each of a topology's functions runs, as text: in the level, or by Spark, and then why; and where it may not.

_COLUMN = re.compile(r"([foe])(\d+)_")


def planned_engines(spark: SparkSession, physical: Physical) -> Iterator[str]:
    """A line for each function of a topology that is not started."""
    fusion = Fusion(spark, physical)
    for names, are_topics in _frames(physical):
        fusion.of_sources(names, _schema(physical.plan.sources, names), decodes=are_topics)
    yield from started_engines(physical, fusion)
    for operator in physical.operators:
        fold = getattr(operator.params, "fold", None)
        if fold is not None and (engine := how_it_runs(fold.typed(_arrow))) is not None:
            yield f"fold of {operator.node}: {engine}"


def separate_lookups(spark: SparkSession, physical: Physical) -> frozenset[str]:
    """Names of the lookups behind others before which Spark evaluates a function: a level cannot go on behind that."""
    return _behind_spark(physical, Fusion(spark, physical))


def _behind_spark(physical: Physical, fusion: Fusion) -> frozenset[str]:
    chained = (operator for operator in physical.operators if operator.head is not None)
    return frozenset(o.node for o in chained if any(fusion.fused(b) is None for b in physical.lookups_before(o)))


def group_numbers(fusion: Fusion, tasks: int) -> list[int]:
    """Of each level the number of its group; none: each has its own.

    One task has all shards of all levels, so that no exchange is needed between them; but before a function that Spark
    evaluates a group ends.
    """
    physical = fusion.physical
    if tasks > 1 or physical.levels < 2:
        return []
    cut = {operator.level for operator in physical.operators if fusion.fused(operator) is None}
    return [1 + sum(end < level for end in cut) for level in range(1, physical.levels + 1)]


def check_groups(physical: Physical, fusion: Fusion) -> None:
    """Raise where Spark evaluates a function between two levels of one group."""
    inner = {level for levels in physical.level_groups for level in levels[:-1]}
    names = sorted(o.node for o in physical.operators if o.level in inner and fusion.fused(o) is None)
    if names:
        raise ConfigError(
            "Spark evaluates functions that the workers evaluated when this checkpoint began.",
            given=f"functions behind {', '.join(names)}",
            hint="Start it once with evolve=True, which divides its levels anew.",
        )


def check_chains(physical: Physical, fusion: Fusion) -> None:
    """Raise where Spark evaluates a function before a lookup that is planned to follow another in its level."""
    names = sorted(_behind_spark(physical, fusion))
    if names:
        raise ConfigError(
            "In this session Spark evaluates functions that it did not evaluate when the topology was built.",
            given=f"functions before {', '.join(names)}",
            hint="Build the topology again: a lookup behind such a function takes a level of its own.",
        )


def _frames(physical: Physical) -> Iterator[tuple[frozenset[str], bool]]:
    """Names of the sources that are read as one frame, and whether they are topics."""
    for are_topics in (True, False):
        for is_global in (True, False):
            names = [
                source.name
                for source in physical.plan.sources
                if bool(source.origin.formats) == are_topics and (source.shape.kind == "global") == is_global
            ]
            if names:
                yield frozenset(names), are_topics


def check_on_error(spark: SparkSession, physical: Physical) -> None:
    """Refuse a topology before its start where errors are tolerated of a function that only Spark evaluates."""
    sources, policies = physical.plan.sources, physical.plan.within
    required = any(source.origin.policies.tolerates_errors for source in sources)
    if not required and not any(policies.tolerates_errors(operator.node) for operator in physical.operators):
        return
    fusion = Fusion(spark, physical)
    for names, are_topics in _frames(physical):
        if fusion.of_sources(names, _schema(sources, names), decodes=are_topics) is None:
            roots = {number: source.name for number, source in enumerate(sources) if source.name in names}
            refuse_by_spark(physical, error_policies(physical, roots), fusion)
    refuse_behind(physical, fusion)


def started_engines(physical: Physical, fusion: Fusion) -> Iterator[str]:
    """A line for each function, when all sources have been asked for."""
    verdicts: dict[str, dict[str, None]] = {}
    for name, flow in _used(physical):
        verdicts.setdefault(name, {})[_verdict(physical, fusion, name, flow)] = None
    lines: dict[str, None] = {}
    for node in physical.plan.nodes:
        if node.name in verdicts:
            for function in physical.plan.functions_of(node):
                lines[f"{function.role} of {_display_name(node)}: {'; '.join(verdicts[node.name])}"] = None
    yield from lines


def _display_name(node: Node) -> str:
    """A node's name as the user knows it: of a group's two halves, the group's."""
    return node.name.removesuffix("-old") if getattr(node, "half", None) == "old" else node.name


def _arrow(kind: DataType) -> Any:
    return with_nulls(arrow_type(kind))


def _used(physical: Physical) -> Iterator[tuple[str, Flow]]:
    """Nodes with functions in a flow's stage, and the flow."""
    for flow in physical.flows:
        computed = flow.operator is not None and physical.results(physical.operators[flow.operator]).made
        if flow.operator is None or computed:
            yield flow.node, flow
    for edge in physical.edges:
        if edge.reads.function is not None:
            yield physical.operators[edge.target].node, physical.flows[edge.flow]


def _verdict(physical: Physical, fusion: Fusion, node: str, flow: Flow) -> str:
    root = physical.flows[flow.root]
    if root.operator is None:
        reason = fusion.at_sources.get(root.node)
    else:
        reason = fusion.by_spark(physical.operators[root.operator])
    if reason is None:
        return "in the level" if root.operator is not None else "where records are packed"
    at = _node_of(physical, reason)
    return f"by Spark ({reason.why})" if at in (None, node) else f"by Spark, as what {at} has ({reason.why})"


def _node_of(physical: Physical, reason: NotFused) -> str | None:
    """The node with a function for Spark."""
    match = _COLUMN.match(reason.column)
    if match is None:
        return None
    number = int(match[2])
    if match[1] == "f":
        return physical.flows[number].node
    return physical.operators[number if match[1] == "o" else physical.edges[number].target].node


def _schema(sources: tuple[SourceNode, ...], names: frozenset[str]) -> StructType:
    fields: list[tuple[str, DataType]] = [("root", IntegerType()), ("reason", ByteType())]
    fields += [("ts", LongType()), ("partition", IntegerType()), ("offset", LongType())]
    fields += [("headers", HEADERS)] if any(source.origin.keeps_headers for source in sources) else []
    fields += [(TOPIC, StringType())] if patterns_of(sources) else []
    for number, source in enumerate(sources):
        if source.name in names and source.dead_letters_of is None:
            fields += [(f"s{number}_key", source.shape.key), (f"s{number}_value", source.shape.value)]
    return StructType([StructField(name, kind, True) for name, kind in fields])


def refuse_behind(physical: Physical, fusion: Fusion) -> None:
    """Raise where Spark evaluates functions behind an operator, and errors are tolerated there."""
    policies = physical.plan.within
    operators = [o for o in physical.operators if policies.tolerates_errors(o.node) and fusion.by_spark(o) is not None]
    roots = {physical.roots[operator.id].id for operator in operators}
    names = {flow.node for flow in physical.flows if flow.root in roots}
    nodes = [node for node in physical.plan.nodes if node.name in names]
    actions = [f"action of {node.name}: by Spark" for node in nodes if node.calls_python]
    if actions or any(map(physical.plan.functions_of, nodes)):
        owners = ", ".join(operator.node for operator in operators)
        _refuse(physical, fusion, "the builder" if policies.usual.tolerates_errors else owners, actions)


def refuse_by_spark(physical: Physical, policies: Mapping[int, OnError], fusion: Fusion) -> None:
    """Raise where errors are tolerated: Spark evaluates the functions, which fails its tasks."""
    if policies:
        _refuse(physical, fusion, ", ".join(policy.source for policy in policies.values()))


def _refuse(physical: Physical, fusion: Fusion, owner: str, actions: Sequence[str] = ()) -> None:
    written = (f"JSON of {name}: by Spark" for name in fusion.written)
    by_spark = [*(line for line in started_engines(physical, fusion) if "by Spark" in line), *actions, *written]
    raise ConfigError(
        "A function that Spark evaluates fails the query, whatever on_error says.",
        given=f"on_error of {owner}; {'; '.join(by_spark)}",
        hint="Write it with functions that the workers know; or leave on_error out: topology.describe() lists "
        "where each runs, and why.",
    )
