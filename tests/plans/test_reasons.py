"""The table of reasons why rows end: one for operators, inputs and outputs, and the page of bad records has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import watersmeet._engine.operators  # noqa: F401  # all operators
from watersmeet._plan.declaration import OperatorDeclaration
from watersmeet._plan.reasons import BY_CODE, REASONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bad_records.md").read_text()


def declarations(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield from (below, *declarations(below))


def test_reasons_differ_in_name_and_code_and_the_page_of_bad_records_has_those_that_are_counted() -> None:
    assert len({reason.name for reason in REASONS}) == len(REASONS)
    assert len(BY_CODE) == sum(bool(reason.code) for reason in REASONS)
    for reason in REASONS:
        assert (f"| `{reason.name}` | {reason.text} |" in PAGE) == reason.is_drop


def test_an_operator_ends_rows_for_reasons_of_the_table_alone() -> None:
    ours = [kind for kind in declarations(OperatorDeclaration) if kind.__module__.startswith("watersmeet.")]
    ends = {reason for kind in ours for reason in kind.ends}
    assert (
        {"expired_window", "expired_version", "duplicate"}
        <= {reason.name for reason in ends}
        <= {r.name for r in REASONS}
    )
