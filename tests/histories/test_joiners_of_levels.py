"""Random topologies through Spark whose functions are expressions, which packing and the levels evaluate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from proof.histories.kinds import functions
from proof.histories.report import page
from proof.histories.spark import Bundle, bundle_of, check_bundle
from proof.oracle import functions as text
from watersmeet._spark.dataflow.fusion import SWITCH, Fusion


def plus(left: Column, right: Column) -> Column:
    """The joiner."""
    return F.concat(F.coalesce(left, F.lit("null")), F.lit("+"), F.coalesce(right, F.lit("null")))


def mapped(value: Column) -> Column:
    """The mapper."""
    return F.when(~value.endswith("3"), F.concat(F.lit("m("), value, F.lit(")")))


def ref(value: Column) -> Column:
    """What a value refers to."""
    bar = F.instr(value, "|")
    return F.when(bar > 1, F.left(value, bar - 1))


EXPRESSIONS: dict[Callable[..., Any], Callable[..., Column]] = {
    functions.plus: plus,
    functions.mapped: mapped,
    functions.long: lambda value: F.length(value) > 2,
    text.ref: ref,
}


class WithExpressions(functions.ColumnLifts):
    """Lifts to expressions what has one here, all else to UDFs."""

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        return EXPRESSIONS.get(function) or super().lift(function, kind)


def bundles() -> list[Bundle]:
    """The first of a seed."""
    return list(islice((bundle_of(6, number, parts=5, cases=12) for number in count()), 3))


@pytest.mark.spark
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in (1, 2))])
def test_random_topologies_whose_functions_the_levels_evaluate_hold_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    found = []

    def noted(self: Fusion, *args: Any) -> Any:
        found.append(fused(self, *args))
        return found[-1]

    fused = Fusion.fused
    monkeypatch.setattr(Fusion, "fused", noted)
    monkeypatch.setattr("proof.histories.spark.ColumnFunctions", WithExpressions)
    spark.conf.set(SWITCH, "level")
    try:
        differences = check_bundle(bundles()[number], spark)
    finally:
        spark.conf.unset(SWITCH)
    assert not differences, page(differences[0])
    assert any(each is not None and each.program.layers for each in found)
