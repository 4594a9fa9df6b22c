"""Rows of lists in a program: which there are, what they carry, and how many are made at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet._engine.expressions import program as explosion
from watersmeet._engine.expressions.program import Program, TooManyRows
from watersmeet._engine.expressions.tree import Call, EvaluationError, Operand

LISTS = pa.list_(pa.list_(pa.int64()))
VALUES = [[[1, 2], [3]], [], None, [[], None, [0]]]


def spread(of: Operand, prefix: str) -> tuple[tuple[str, Call], ...]:
    kinds = (("pos", pa.int32()), ("col", of.type.value_type))
    return tuple((prefix + part, Call("PosExplode", (of,), kind, options=(("part", part),))) for part, kind in kinds)


OUTER = spread(Operand("v", LISTS), "a_")
INNER = spread(Operand("a_col", LISTS.value_type), "b_")
ROWS = pa.table({"v": pa.array(VALUES, LISTS), "k": ["w", "x", "y", "z"]})


def test_each_element_is_a_row_and_what_has_none_stays_one() -> None:
    made = Program((OUTER,))(ROWS)
    assert made.select(["k", "a_pos", "a_col"]).to_pylist() == [
        {"k": k, "a_pos": pos, "a_col": col}
        for k, pos, col in [
            ("w", 0, [1, 2]),
            ("w", 1, [3]),
            ("x", None, None),
            ("y", None, None),
            ("z", 0, []),
            ("z", 1, None),
            ("z", 2, [0]),
        ]
    ]


def test_columns_that_nothing_reads_are_not_repeated() -> None:
    made = Program((OUTER, INNER), gone=frozenset({"v", "a_col"}))(ROWS)
    assert {"v", "a_col"}.isdisjoint(made.column_names)
    assert made.column("b_col").to_pylist() == [1, 2, 3, None, None, None, None, 0]


def test_errors_of_rows_are_those_of_the_rows_that_they_were_made_of() -> None:
    divided = Call("Divide", (Operand("b_col", pa.int64()),) * 2, pa.int64(), options=(("evalMode", "ANSI"),))
    by_zero = Call("IntegralDivide", divided.arguments, pa.int64(), options=divided.options)
    program = Program((OUTER, INNER, (("c", by_zero),)), "it")
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        program(ROWS)
    assert list(program.failing(ROWS)) == [3]
    first, second = ValueError("first"), ValueError("second")
    whole = Program((OUTER, INNER))
    assert whole.given(whole(ROWS), {0: first, 2: second, 4: second}) == {0: first, 2: second}


def test_more_than_memory_is_for_is_made_in_parts_down_to_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program((OUTER, INNER))
    whole = program(ROWS).column("b_col").to_pylist()
    monkeypatch.setattr(explosion, "MOST_ROWS", 1)

    def parts(rows: pa.Table) -> list[pa.Table]:
        try:
            return [program(rows)]
        except TooManyRows as many:
            return [made for part in many.slices(rows) for made in parts(part)]

    made = parts(ROWS)
    assert [value for part in made for value in part.column("b_col").to_pylist()] == whole
    assert len(made) == len(ROWS)
