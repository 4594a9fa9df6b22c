"""Plain Python functions over Arrow arrays: what they get, what they give, and what becomes of errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from watersmeet._engine.expressions.python_calls import PlainCall
from watersmeet._engine.expressions.tree import EvaluationError

LONG = pa.int64()


def given(call: PlainCall, *arrays: pa.Array) -> list[Any]:
    """Value and error of each row, as Spark is given them."""
    return [(row["value"], row["error"]) for row in call(*arrays).to_pylist()]


def test_an_error_is_a_value_for_spark_and_raised_in_the_level() -> None:
    call = PlainCall(lambda n: 6 // n, LONG, "share")
    own_line = f"(line {call.function.__code__.co_firstlineno} of {__file__})"
    values = pa.array([3, 0, None])
    assert given(call, values.slice(0, 1)) == [(2, None)]
    assert given(call, values) == [
        (2, None),
        (None, f"share raises ZeroDivisionError: integer division or modulo by zero. {own_line}"),
        (None, None),
    ]
    with pytest.raises(EvaluationError, match="share raises ZeroDivisionError"):
        call.values([values])


@pytest.mark.parametrize("wrong", ["x", 1.5, 2**63, (1,), {"n": 1}], ids=repr)
def test_what_is_not_of_the_type_is_an_error(wrong: object) -> None:
    ((value, error),) = given(PlainCall(lambda _: wrong, LONG, "wrong"), pa.array([1]))
    assert value is None
    assert "wrong returns a value that is not of the type int64" in error


def test_a_tuple_is_a_struct_and_one_of_another_length_an_error() -> None:
    pair = pa.struct([("k", pa.string()), ("n", LONG)])
    call = PlainCall(lambda n: ("a",) * n if n > 2 else ("a", n), pair, "pair")
    (good, bad) = given(call, pa.array([1, 3]))
    assert good == ({"k": "a", "n": 1}, None)
    assert "not of the type" in bad[1]


def test_times_are_in_utc_whatever_zone_they_come_in_and_one_that_python_has_not_fails_its_row_alone() -> None:
    zoned = pa.timestamp("us", "America/New_York")
    nested = pa.list_(pa.struct([("at", zoned)]))
    call = PlainCall(lambda values: f"{values[0]['at']}", pa.string(), "shown")
    micros = [[{"at": 0}], [{"at": 2**62}], None]
    plain = pa.array(micros, pa.list_(pa.struct([("at", LONG)])))
    found = given(call, plain.cast(nested))
    assert found[0] == (str(datetime(1970, 1, 1, tzinfo=UTC)), None)
    assert "no value for" in found[1][1]
    assert found[2] == (None, None)
