"""Where each of a topology's functions runs, as text: in the level, or by Spark, and then why; and where it may not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, StringType, StructField, StructType

from watersmeet._engine.aggregates.of_plan import how_it_runs
from watersmeet._engine.rows.topic_slots import TOPIC
from watersmeet._engine.rows.types import with_nulls
from watersmeet._plan.nodes import Node, SourceNode, patterns_of
from watersmeet._plan.physical import Flow, Physical
from watersmeet._spark.dataflow.asked import NotFused
from watersmeet._spark.dataflow.fusion import Fusion
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.dead_letters import HEADERS, OnError
from watersmeet._worker.wire.dead_letters import outliving
from watersmeet.errors import ConfigError

_COLUMN = re.compile(r"([foe])(\d+)_")


def planned_engines(spark: SparkSession, physical: Physical, *, direct_sinks: bool) -> Iterator[str]:
    """A line for each function of a topology that is not started.

    Parameters
    ----------
    direct_sinks : whether the sinks can be written from wire rows.
    """
    fusion = Fusion(spark, physical, direct_sinks=direct_sinks)
    for names, are_topics in _frames(physical):
        fusion.of_sources(names, _schema(physical.plan.sources, names), decodes=are_topics)
    yield from started_engines(physical, fusion)
    for operator in physical.operators:
        fold = getattr(operator.params, "fold", None)
        if fold is not None and (how := how_it_runs(fold.typed(_arrow))) is not None:
            yield f"fold of {operator.node}: {how}"


def _frames(physical: Physical) -> Iterator[tuple[frozenset[str], bool]]:
    """Names of the sources that are read as one frame, and whether they are topics."""
    for are_topics in (True, False):
        for whole in (True, False):
            some = [
                source.name
                for source in physical.plan.sources
                if bool(source.origin.formats) == are_topics and (source.shape.kind == "global") == whole
            ]
            if some:
                yield frozenset(some), are_topics


def check_outlived(spark: SparkSession, physical: Physical, *, direct_sinks: bool) -> None:
    """Refuse a topology before its start if a record is to outlive a function that only Spark evaluates.

    Raises
    ------
    ConfigError : names the functions.
    """
    sources, within = physical.plan.sources, physical.plan.within
    asked = any(source.origin.policies.outlives_errors for source in sources)
    if not asked and not any(within.outlives(operator.node) for operator in physical.operators):
        return
    fusion = Fusion(spark, physical, direct_sinks=direct_sinks)
    for names, are_topics in _frames(physical):
        if fusion.of_sources(names, _schema(sources, names), decodes=are_topics) is None:
            roots = {number: source.name for number, source in enumerate(sources) if source.name in names}
            refuse_by_spark(physical, outliving(physical, roots), fusion)
    refuse_behind(fusion.physical, fusion)


def started_engines(physical: Physical, fusion: Fusion) -> Iterator[str]:
    """A line for each function, when all sources have been asked for."""
    verdicts: dict[str, dict[str, None]] = {}
    for name, flow in _used(physical):
        verdicts.setdefault(name, {})[_verdict(physical, fusion, name, flow)] = None
    lines: dict[str, None] = {}
    for node in physical.plan.nodes:
        if node.name in verdicts:
            for given in physical.plan.functions_of(node):
                lines[f"{given.role} of {_display_name(node)}: {'; '.join(verdicts[node.name])}"] = None
    yield from lines


def _display_name(node: Node) -> str:
    """A node's name as the user knows it: of a group's two halves, the group's."""
    return node.name.removesuffix("-old") if getattr(node, "half", None) == "old" else node.name


def _arrow(kind: DataType) -> Any:
    return with_nulls(arrow_type(kind))


def _used(physical: Physical) -> Iterator[tuple[str, Flow]]:
    """Nodes with functions in a flow's stage, and the flow."""
    for flow in physical.flows:
        made = flow.operator is not None and physical.results(physical.operators[flow.operator]).made
        if flow.operator is None or made:
            yield flow.node, flow
    for edge in physical.edges:
        if edge.reads.function is not None:
            yield physical.operators[edge.target].node, physical.flows[edge.flow]


def _verdict(physical: Physical, fusion: Fusion, node: str, flow: Flow) -> str:
    root = physical.flows[flow.root]
    if root.operator is None:
        why = fusion.at_sources.get(root.node)
    else:
        why = fusion.by_spark(physical.operators[root.operator])
    if why is None:
        return "in the level" if root.operator is not None else "where records are packed"
    at = _node_of(physical, why)
    return f"by Spark ({why.why})" if at in (None, node) else f"by Spark, as what {at} has ({why.why})"


def _node_of(physical: Physical, why: NotFused) -> str | None:
    """The node with a function for Spark."""
    found = _COLUMN.match(why.column)
    if found is None:
        return None
    number = int(found[2])
    if found[1] == "f":
        return physical.flows[number].node
    return physical.operators[number if found[1] == "o" else physical.edges[number].target].node


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
    """Raise where Spark evaluates functions behind an operator, and records are to outlive what fails.

    Raises
    ------
    ConfigError : names the functions.
    """
    within = physical.plan.within
    operators = [o for o in physical.operators if within.outlives(o.node) and fusion.by_spark(o) is not None]
    roots = {physical.roots[operator.id].id for operator in operators}
    names = {flow.node for flow in physical.flows if flow.root in roots}
    nodes = [node for node in physical.plan.nodes if node.name in names]
    shown = [f"action of {node.name}: by Spark" for node in nodes if node.calls_python]
    if shown or any(map(physical.plan.functions_of, nodes)):
        named = ", ".join(operator.node for operator in operators)
        _refuse(physical, fusion, "the builder" if within.usual.outlives_errors else named, shown)


def refuse_by_spark(physical: Physical, policies: Mapping[int, OnError], fusion: Fusion) -> None:
    """Raise where a record is to outlive what fails: Spark evaluates the functions, which fails its tasks.

    Raises
    ------
    ConfigError : names the functions.
    """
    if policies:
        _refuse(physical, fusion, ", ".join(each.source for each in policies.values()))


def _refuse(physical: Physical, fusion: Fusion, owner: str, shown: Sequence[str] = ()) -> None:
    by_spark = [*(line for line in started_engines(physical, fusion) if "by Spark" in line), *shown]
    raise ConfigError(
        "A function that Spark evaluates fails the query, whatever on_error says.",
        given=f"on_error of {owner}; {'; '.join(by_spark)}",
        hint="Write it with functions that the workers know; or leave on_error out: topology.describe() lists "
        "where each runs, and why.",
    )
