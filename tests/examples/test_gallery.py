"""The gallery's programs: each gives what it says of itself, and the page lists them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.gallery import page, programs

ROOT = Path(__file__).parents[2]
ON_SPARK = (
    "aggregating.word_count",
    "joins.orders_customers_products",
    "processors.events_in_order",
    "windows.views_by_region",
)
"""Those that are run on Spark, too."""


@pytest.fixture(scope="module", autouse=True)
def utc(spark: SparkSession) -> Iterator[None]:
    """Times as text are those of UTC, as in a session of `wm.session`."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


def test_there_are_many_programs_of_all_subjects() -> None:
    assert len(programs.names()) >= 60
    assert {name.split(".")[0] for name in programs.names()} == set(page.SUBJECTS)


def shown(outcome: programs.Outcome) -> dict[str, Any]:
    return {"records": outcome.records, "stores": outcome.stores, "dropped": outcome.dropped}


@pytest.mark.parametrize("name", programs.names())
def test_a_program_gives_what_it_says_in_the_drivers_own_process(spark: SparkSession, name: str) -> None:
    of = programs.program(name)
    expected = {
        "records": of.EXPECTED,
        "stores": getattr(of, "STORES", {}),
        "dropped": getattr(of, "DROPPED", {}),
    }
    found = programs.outcome(of)
    assert shown(found) == expected
    assert found.runs_in == "process"


@pytest.mark.parametrize("name", programs.names())
def test_a_program_gives_the_same_record_by_record(spark: SparkSession, name: str) -> None:
    of = programs.program(name)
    assert programs.outcome(of, one_by_one=True).records == of.EXPECTED


@pytest.mark.parametrize("name", ON_SPARK)
def test_a_program_gives_the_same_on_spark(spark: SparkSession, name: str) -> None:
    of = programs.program(name)
    found = programs.outcome(of, spark)
    assert (found.records, found.runs_in) == (of.EXPECTED, "spark")


@pytest.mark.parametrize("name", programs.names())
def test_a_program_says_what_it_does_and_which_tutorial_it_is(name: str) -> None:
    of = programs.program(name)
    assert programs.title(of).endswith(".")
    assert len(programs.title(of)) < 170
    assert programs.source(of).endswith(".")
    assert (of.topology.__doc__ or "").strip()


def test_the_page_lists_all_programs() -> None:
    assert page.written() == (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"), (
        "python -m examples.gallery.page writes it"
    )
