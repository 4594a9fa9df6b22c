"""Which operators hand their results on within their level: those behind which no function of Spark's stands.

Their joiners are expressions, if they have one, and nothing changes a row between them and the edges and sinks they
reach. What they give is packed where it is made: it need not become rows of Spark's and be packed again.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from millpond._engine.exchange.outlets import FlowColumns, direct_outlet, edge_outlet, exit_outlets
from millpond._engine.exchange.routing import Outlet
from millpond._engine.expressions.expression import Expression, Record
from millpond._plan.physical import Flow, Operator, Physical
from millpond._spark.dataflow.expressions import expression_of
from millpond._spark.dataflow.processor import Fused
from millpond._spark.dataflow.stage import is_step
from millpond._spark.formats.arrow_types import arrow_type

# In Arrow the same wherever they come from: timestamps have the session's zone, and so a type of their own.
_PLAIN = (BinaryType, BooleanType, ByteType, DoubleType, FloatType, IntegerType, LongType, ShortType, StringType)
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


class Fusion:
    """How operators hand on their results, where they do.

    Parameters
    ----------
    spark : the session.
    physical : the plan.
    headers : whether records carry headers: then none does.
    leaving : whether the sinks are written from wire rows, so that the last level may hand on to them, too.
    """

    def __init__(self, spark: SparkSession, physical: Physical, *, headers: bool, direct_sinks: bool) -> None:
        self._spark = spark
        self._physical = physical
        self._direct_sinks = direct_sinks
        self._expressions: dict[int, Expression | Record] = {}
        large = str(spark.conf.get(_LARGE, "false")).lower() == "true"
        fit = () if headers or large else physical.operators
        self._found = {o.id for o in fit if not physical.direct_edges(o) and self._fits(o)}

    def fused(self, operator: Operator) -> Fused | None:
        """How the operator's results go on; None where Spark's columns stand behind it."""
        direct = self._physical.direct_edges(operator)
        if direct:
            return Fused(tuple(direct_outlet(self._physical, edge) for edge in direct))
        if operator.id not in self._short:
            return None
        kind = self._physical.plan.by_name[operator.node].shape.value
        expression = self._expressions.get(operator.id)
        return Fused(self._outlets(operator), expression, arrow_type(kind))

    @cached_property
    def exit(self) -> bool:
        """Whether all of the last level's results, which the sinks read in their order, are handed on."""
        last = [o for o in self._physical.operators if o.level == self._physical.levels]
        return self._direct_sinks and all(o.id in self._found for o in last)

    @cached_property
    def _short(self) -> set[int]:
        physical = self._physical
        if physical.ordered_exit or self.exit:
            return self._found
        return {o for o in self._found if physical.operators[o].level < physical.levels}

    def _outlets(self, operator: Operator) -> tuple[Outlet, ...]:
        flows = self._flows(operator)
        columns = self._columns(operator)
        edges = [e for e in self._physical.stage_edges(operator.level) if self._physical.flows[e.flow] in flows]
        exits = exit_outlets(
            self._physical, operator.level, lambda flow: columns if flow in flows else FlowColumns("", "")
        )
        return (*(edge_outlet(self._physical, e, lambda _: columns) for e in edges), *(o for o in exits if o.key))

    def _columns(self, operator: Operator) -> FlowColumns:
        root = self._physical.roots[operator.id]
        old, silent = "old" if root.carries_old else None, "silent" if root.silent else None
        return FlowColumns("key", "value", old, silent=silent)

    def _flows(self, operator: Operator) -> tuple[Flow, ...]:
        root = self._physical.roots[operator.id].id
        return tuple(f for f in self._physical.flows if f.root == root)

    def _fits(self, operator: Operator) -> bool:
        physical = self._physical
        node = physical.plan.by_name[operator.node]
        flows = self._flows(operator)
        edges = [e for e in physical.edges if physical.flows[e.flow] in flows]
        changed = any(is_step(physical.node(f)) or f.drops_silent or f.drops_null_key for f in flows)
        if changed or any(physical.side(e).function is not None for e in edges):
            return False
        return _is_primitive(node.shape.key) and _is_primitive(node.shape.value) and self._has_value(operator)

    def _has_value(self, operator: Operator) -> bool:
        """Whether the results have values, or an expression makes them."""
        results = self._physical.results(operator)
        if not results.made:
            return True
        value, *others = results.made
        if value.column != "value" or any(made.column != "old" for made in others):
            return False
        shape = self._physical.plan.by_name[operator.node].shape
        kinds = {"key": shape.key, **dict(results.columns)}
        given = [kinds[name] for name in value.operands]
        expression = expression_of(self._spark, value.function, value.operands, given, shape.value)
        if expression is not None:
            self._expressions[operator.id] = expression
        return expression is not None


def _is_primitive(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_primitive(field.dataType) for field in kind.fields)
    return type(kind) in _PLAIN
