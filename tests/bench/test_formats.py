"""The bench of formats, small: each reads what it has written, and the table tells all of them."""

from __future__ import annotations

from bench.studies.inputs.formats import JSON, formats, orders, table, turn


def test_each_format_reads_the_orders_that_it_has_written_and_has_a_row() -> None:
    forms = formats()
    made = turn(forms, orders(50))
    assert list(made) == list(forms)
    rows = table([made, made], 50).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == [f"| {name}" for name in forms]
    assert rows[2].startswith(f"| {JSON} | ")
    assert rows[2].endswith(" | 1.00 | 1.00 |")
