"""Expressions over Arrow arrays: references, constants, and rows that are not evaluated."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.expressions.evaluate import RowsOfArrays, unsupported
from watersmeet._engine.expressions.program import Program, needed
from watersmeet._engine.expressions.tree import Call, EvaluationError, Literal, Operand

TEXT, LONG = pa.string(), pa.int64()
PERSON = pa.struct([("name", TEXT), ("age", LONG)])
COLUMNS = {
    "key": pa.array(["a", "b", None, "d"]),
    "value": pa.array(
        [{"name": "Ann", "age": 1}, None, {"name": None, "age": 3}, {"name": "Eve", "age": None}], PERSON
    ),
}
ROWS = RowsOfArrays(4, COLUMNS.__getitem__)
KEY, VALUE = Operand("key", TEXT), Operand("value", PERSON)
NAME = Call("GetStructField", (VALUE,), TEXT, options=(("ordinal", "0"),))


def test_a_field_is_null_where_its_struct_is() -> None:
    assert ROWS.evaluate(NAME).to_pylist() == ["Ann", None, None, "Eve"]


def test_a_struct_is_made_of_names_and_values() -> None:
    names = [Literal(pa.scalar(name)) for name in ("k", "n")]
    made = Call("CreateNamedStruct", (names[0], KEY, names[1], NAME), pa.struct([("k", TEXT), ("n", TEXT)]))
    assert unsupported(made) is None
    assert ROWS.evaluate(made).to_pylist()[1:3] == [{"k": "b", "n": None}, {"k": None, "n": None}]


def test_texts_stand_behind_one_another_and_are_null_where_one_of_them_is() -> None:
    both = Call("Concat", (KEY, Literal(pa.scalar("-")), NAME), TEXT)
    assert ROWS.evaluate(both).to_pylist() == ["a-Ann", None, None, "d-Eve"]


@pytest.mark.parametrize("value", [pa.scalar(None, TEXT), pa.scalar(1.5), pa.scalar([1, 2]), pa.scalar({"a": 1})])
def test_a_constant_is_the_same_in_each_row(value: pa.Scalar) -> None:
    assert ROWS.evaluate(Literal(value)).to_pylist() == [value.as_py()] * 4


def test_rows_that_a_mask_leaves_out_are_not_evaluated() -> None:
    some = ROWS.where(np.array([True, False, False, True]))
    assert (len(some), some.evaluate(NAME).to_pylist()) == (2, ["Ann", "Eve"])
    assert some.where(np.array([False, True])).evaluate(KEY).to_pylist() == ["d"]


def test_an_expression_says_which_of_its_functions_is_not_known() -> None:
    unknown = Call("SchemaOfJson", (KEY,), TEXT)
    assert unsupported(Call("Concat", (KEY, unknown), TEXT)) == "SchemaOfJson"
    assert unsupported(Call("Length", (Operand("n", pa.list_(LONG)),), pa.int32())) is not None
    twice = (Literal(pa.scalar("x")), KEY) * 2
    assert unsupported(Call("CreateNamedStruct", twice, pa.struct([("x", TEXT), ("x", TEXT)]))) is not None


def test_an_operand_comes_with_all_its_parts_nullable() -> None:
    strict = pa.struct([pa.field("x", LONG, nullable=False)])
    rows = RowsOfArrays(1, lambda _: pa.array([{"x": 1}], strict))
    assert rows.evaluate(Operand("value", strict)).type == pa.struct([("x", LONG)])


def test_what_cannot_be_computed_names_its_condition() -> None:
    assert str(EvaluationError("DIVIDE_BY_ZERO", "Division by zero.")) == "[DIVIDE_BY_ZERO] Division by zero."


def test_a_program_makes_columns_layer_after_layer_and_only_those_that_are_needed() -> None:
    layers = (
        (("name", NAME), ("unused", Literal(pa.scalar(1)))),
        (("key", Operand("name", TEXT)), ("both", Call("Concat", (KEY, Operand("name", TEXT)), TEXT))),
    )
    kept = needed(layers, ["key", "both"])
    assert [[name for name, _ in layer] for layer in kept] == [["name"], ["key", "both"]]
    program = Program(kept)
    assert set(program.reads) == {"key", "value", "name"}
    made = program(pa.table(COLUMNS))
    assert made.column("key").to_pylist() == ["Ann", None, None, "Eve"]
    # of the layer's columns none sees another
    assert made.column("both").to_pylist() == ["aAnn", None, None, "dEve"]


def test_an_error_names_the_first_record_without_a_value() -> None:
    rows = pa.table({"n": [1, 0, 5, 0], "offset": [10, 11, 12, 13], "srcpart": [(7 << 32) | 3] * 4})
    program = Program(
        ((("it", Call("Divide", (Literal(pa.scalar(1.0)), Operand("n", pa.float64())), pa.float64())),),), "join"
    )
    rows = rows.set_column(0, "n", rows.column("n").cast(pa.float64()))
    with pytest.raises(EvaluationError, match=r"DIVIDE_BY_ZERO.* behind join, at partition 3, offset 11\."):
        program(rows)
