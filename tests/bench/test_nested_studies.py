"""The studies of nested values and of rows that pass levels, small: both ways give the same, and what passes counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.measuring.profiles import part_of
from bench.studies.inputs.nested_chain import KERNELS
from bench.studies.inputs.nested_column import BINARY, NESTED, OPENING, compared
from bench.studies.inputs.passing import passed, ran, seconds_of
from bench.workloads.nested import Size, prepared

SMALL = Size(orders=200, customers=60, products=40, countries=10, files=4)


def test_values_with_one_binary_column_give_the_results_of_nested_ones(tmp_path: Path) -> None:
    found = compared(prepared(tmp_path, SMALL), SMALL)
    assert {name: len(each) for name, each in found.items()} == {NESTED: 2, BINARY: 2}
    assert [OPENING in each.seconds for parts in found.values() for each in parts] == [False, False, True, True]
    assert all(each.sent for parts in found.values() for each in parts)


def test_tables_pass_the_levels_before_their_join(tmp_path: Path) -> None:
    chain = ran(prepared(tmp_path, SMALL), SMALL)
    told = passed(chain)
    assert {name: levels for name, (levels, _, _) in told.items()} == {
        "orders": 0,
        "customers": 1,
        "countries": 3,
        "products": 5,
    }
    # a file of updates has an eighth of the orders
    assert told["orders"][2] == 200 + 2 * 25
    assert all(sent > 0 for _, sent, _ in told.values())
    names = [name.rpartition("_")[2] for name in seconds_of(chain)]
    assert names == ["send", "receive"] * 3 + ["to the output"]


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (["pyarrow/compute.py:take", "_engine/rows.py:gather", "_engine/row_sizes.py:_part"], "take"),
        (["_engine/row_sizes.py:row_bytes", "_engine/row_sizes.py:pieces"], "sizes of rows"),
        (
            ["pyarrow/ipc.py:new_stream", "_engine/row_sizes.py:encode", "_engine/x.py:f"],
            "blobs written",
        ),
        (["_engine/state/merge.py:joined", "_engine/state/runs.py:Table.point"], "arrays put together, merges"),
    ],
)
def test_the_innermost_work_on_columns_decides(stack: list[str], part: str) -> None:
    assert part_of(stack, KERNELS) == part
