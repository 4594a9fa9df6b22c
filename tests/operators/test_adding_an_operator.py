"""Adding an operator: one declaration, one engine file, one method of a handle, and a line in a table.

The folder `distinct` holds all that such an operator is. It runs here without a change of anything else, beside what
the same operator gives one record at a time; CONTRIBUTING.md has the guide.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.lengths import examples
from tests.operators.distinct import engine
from tests.operators.distinct.declaration import Distinct
from tests.operators.distinct.handle import distinct
from watersmeet._engine import operators as level
from watersmeet.api.topology import Topology

Record = tuple[str | None, str | None]
RECORDS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, "x", "y"])), max_size=30)


@pytest.fixture(scope="module", autouse=True)
def _in_the_table() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(level.OPERATORS, Distinct.stem, engine.run)
        yield


def topology() -> Topology:
    """The operator between steps, and a table of its results joined with another table."""
    builder = arrow_builder("test")
    records = builder.stream("in", key="string", value="string").filter(lambda value: value.is_valid())
    latest = distinct(records).to_table()
    latest.to("out")
    latest.join(builder.table("other", key="string", value="string"), lambda one, other: one).to("joined")
    return builder.build()


def one_at_a_time(records: list[Record]) -> tuple[list[tuple[int, str, str]], int]:
    """(step, key and value of each result; how many records were repeated)."""
    last: dict[str, str] = {}
    given: list[tuple[int, str, str]] = []
    repeated = 0
    for step, (key, value) in enumerate(records):
        if key is None or value is None:
            continue
        if last.get(key) == value:
            repeated += 1
        else:
            given.append((step, key, value))
        last[key] = value
    return given, repeated


@settings(max_examples=examples(60), deadline=None)
@given(records=RECORDS, cuts=st.sets(st.integers(0, 30)), shards=st.sampled_from([1, 2, 5]))
def test_it_gives_what_one_record_at_a_time_gives_whatever_the_batches_and_shards(
    records: list[Record], cuts: set[int], shards: int
) -> None:
    driver = EngineDriver(topology(), shards=shards)
    for begin, end in pairwise(sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})):
        for step in range(begin, end):
            driver.pipe("in", *records[step], ts=step)
        driver.run_batch()
    given, repeated = one_at_a_time(records)
    assert [(r.step, r.key, r.value) for r in driver.read("out")] == given
    assert driver.drops["distinct-1", "repeated"] == repeated


def test_its_description_has_its_node_its_level_and_its_store() -> None:
    lines = topology().describe().splitlines()
    assert "  distinct distinct-1 <- filter-1: stream of string -> string" in lines
    assert "  level 1: distinct distinct-1 (keeps distinct-1.last)" in lines


def test_its_results_stay_in_their_partition_and_need_no_last_exchange() -> None:
    builder = arrow_builder("test")
    distinct(builder.stream("in", key="string", value="string")).to("out")
    physical = builder.build().physical
    assert (physical.levels, physical.slots, physical.ordered_exit) == (1, 1, False)


def test_it_lies_in_three_files() -> None:
    files = Path(__file__).with_name("distinct").glob("[a-z]*.py")
    assert sorted(file.stem for file in files) == ["declaration", "engine", "handle"]
