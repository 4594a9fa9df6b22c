"""Random topologies through Spark whose joiners the levels evaluate: results are handed on where they are made.

Not among them are left joins of tables with global ones: there a joiner that gives null, as this one does where an
operand is, has no agreed meaning yet.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from millpond._spark.dataflow.fusion import Fusion
from millpond.testing.proof.histories import Op
from millpond.testing.proof.histories.kinds import functions
from millpond.testing.proof.histories.report import page
from millpond.testing.proof.histories.spark import Bundle, bundle_of, check_bundle


def behind(left: str | None, right: str | None) -> str | None:
    """Both texts; null where one of them is."""
    return None if left is None or right is None else left + right


class WithExpressions(functions.ColumnFunctions):
    """Lifts the joiner to what Spark and the levels call `concat`, all else to UDFs."""

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        return F.concat if function is behind else super().lift(function, kind)


def bundles() -> list[Bundle]:
    """The first of a seed that have a joiner and are not left out."""
    found = (bundle_of(6, number, parts=5, cases=12) for number in count())
    agreed = (b for b in found if not any(map(is_left_out, b.cases[0].blueprint.ops)))
    return list(islice(agreed, 3))


def is_left_out(op: Op) -> bool:
    return op.kind.startswith("table_global") and op.params["how"] != "inner"


@pytest.mark.spark
@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in (1, 2))])
def test_random_topologies_whose_levels_pack_themselves_hold_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    found = []

    def noted(self: Fusion, *args: Any) -> Any:
        found.append(fused(self, *args))
        return found[-1]

    fused = Fusion.fused
    monkeypatch.setattr(Fusion, "fused", noted)
    monkeypatch.setattr(functions, "plus", behind)
    monkeypatch.setattr("millpond.testing.proof.histories.spark.ColumnFunctions", WithExpressions)
    differences = check_bundle(bundles()[number], spark)
    assert not differences, page(differences[0])
    assert any(each is not None and each.columns is not None for each in found)
