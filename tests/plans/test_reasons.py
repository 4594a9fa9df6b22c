"""The table of reasons why rows end: one for operators, inputs and outputs, and the page of bad records has it."""

from __future__ import annotations

from pathlib import Path

from watersmeet._plan.reasons import BY_CODE, REASONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bad_records.md").read_text()


def test_reasons_differ_in_name_and_code_and_the_page_of_bad_records_has_those_that_are_counted() -> None:
    assert len({reason.name for reason in REASONS}) == len(REASONS)
    assert len(BY_CODE) == sum(bool(reason.code) for reason in REASONS)
    for reason in REASONS:
        assert (f"| `{reason.name}` | {reason.text} |" in PAGE) == reason.is_drop
