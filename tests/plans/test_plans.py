"""Plans are what they were: descriptions and plans in levels of many topologies, beside their kept texts.

Who changes a plan on purpose writes the texts anew and shows the difference:
`python -m tests.plans.write` in the repository's root.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.plans.topologies import KEPT, KEPT_WITH_SPARK, kept, text_of


def as_kept(name: str) -> None:
    said, wanted = text_of(name).splitlines(), kept(name).read_text(encoding="utf-8").splitlines()
    changed = [(now, was) for now, was in zip(said, wanted, strict=False) if now != was]
    assert changed[:5] == []
    assert len(said) == len(wanted)


@pytest.mark.parametrize("name", KEPT)
def test_the_plans_of_many_topologies_are_as_they_are_kept(name: str) -> None:
    as_kept(name)


@pytest.mark.spark
@pytest.mark.parametrize("name", KEPT_WITH_SPARK)
def test_the_plans_of_demo_and_benchmark_are_as_they_are_kept(name: str, spark: SparkSession) -> None:
    as_kept(name)
