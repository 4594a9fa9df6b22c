"""What of a program is left out makes no other outputs, and what may fail is not left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.expressions.program import Columns, Program, fields_read, reduced
from watersmeet._engine.expressions.tree import Call, EvaluationError, Expression, Literal, Operand, type_of
from watersmeet._engine.row_sizes import Picked

ORDER = pa.struct([("item", pa.string()), ("amount", pa.float64())])
PAID = pa.struct([("paid", pa.float64()), ("method", pa.string())])
RESULT = pa.struct([("item", pa.string()), ("open", pa.float64()), ("method", pa.string())])
OUTPUTS = ("new", "active")


def call(function: str, *arguments: Expression, type: pa.DataType | None = None, **options: str) -> Call:
    return Call(function, arguments, type or pa.bool_(), options=tuple(options.items()))


def part(of: Expression, number: int) -> Call:
    return call("GetStructField", of, type=type_of(of).field(number).type, ordinal=str(number))


def joined(left: str, right: str, flag: str) -> Call:
    one, other = Operand(left, ORDER), Operand(right, PAID)
    zero = Literal(pa.scalar(0.0))
    rest = call("Subtract", part(one, 1), call("Coalesce", part(other, 0), zero, type=pa.float64()), type=pa.float64())
    names = [Literal(pa.scalar(field.name)) for field in RESULT]
    made = call("CreateNamedStruct", names[0], part(one, 0), names[1], rest, names[2], part(other, 1), type=RESULT)
    return call("CaseWhen", Operand(flag, pa.bool_()), made, type=RESULT)


def passed(name: str) -> Call:
    value = Operand(name, RESULT)
    above = call("GreaterThan", part(value, 1), Literal(pa.scalar(10.0)))
    return call("CaseWhen", call("CaseWhen", call("IsNotNull", value), above), value, type=RESULT)


def there(name: str, function: str = "IsNotNull") -> Call:
    return call(function, Operand(name, RESULT))


def layers(function: str = "IsNotNull") -> tuple[Columns, ...]:
    """A filter behind a join, as Spark's plan has it."""
    asked = there("old", function) if function == "IsNotNull" else call("Not", there("old", function))
    return (
        (("joined", joined("left", "right", "is")),),
        (("old_joined", joined("old_left", "old_right", "was")),),
        (("new", passed("joined")),),
        (("old", passed("old_joined")),),
        (("active", call("Or", there("new"), asked)),),
    )


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(4)

    def some(values: list[object]) -> list[object]:
        return [values[at] for at in rng.integers(0, len(values), count)]

    amounts: list[object] = [None, 5.0, 10.0, 50.0, float("nan"), -0.0]
    sides: dict[str, pa.Array] = {}
    for prefix, flag in (("", "is"), ("old_", "was")):
        orders = [{"item": item, "amount": n} for item, n in zip(some(["a", "", None]), some(amounts), strict=True)]
        paid = [{"paid": n, "method": how} for n, how in zip(some(amounts), some(["card", None]), strict=True)]
        sides[f"{prefix}left"] = pa.array([None if n % 7 == 0 else each for n, each in enumerate(orders)], ORDER)
        sides[f"{prefix}right"] = pa.array([None if n % 3 == 0 else each for n, each in enumerate(paid)], PAID)
        sides[flag] = pa.array(some([True, False, None]), pa.bool_())
    return pa.table(sides)


def shown(table: pa.Table) -> str:
    return repr(table.select(OUTPUTS).to_pylist())


@pytest.mark.parametrize("function", ["IsNotNull", "IsNull"])
def test_what_is_left_makes_the_same_and_reads_of_old_values_what_the_filter_looks_at(function: str) -> None:
    given, table = layers(function), rows(500)
    left = reduced(given, OUTPUTS)
    assert [name for layer in left for name, _ in layer] == ["joined", "new", "active"]
    assert shown(Program(left)(table)) == shown(Program(given)(table))
    sides = ("left", "right", "old_left", "old_right")
    read = fields_read(left, OUTPUTS, sides)
    assert read == {"left": (0, 1), "right": (0, 1), "old_left": (1,), "old_right": (0,)}
    # what is not read may as well be null
    pointers = np.arange(len(table))
    narrow = {name: Picked(table.column(name), pointers, read.get(name)).part(0, len(table)) for name in sides}
    others = {name: table.column(name) for name in ("is", "was")}
    assert shown(Program(left)(pa.table({**narrow, **others}))) == shown(Program(given)(table))


def test_a_column_that_may_fail_stays_and_fails() -> None:
    one, zero = Literal(pa.scalar(1)), Literal(pa.scalar(0))
    quotient = call("IntegralDivide", one, zero, type=pa.int64(), failOnError="true")
    pair = call("CreateNamedStruct", Literal(pa.scalar("q")), quotient, type=pa.struct([("q", pa.int64())]))
    asked = call("IsNotNull", Operand("pair", pair.type))
    failing: tuple[Columns, ...] = ((("pair", pair),), (("active", asked),))
    assert reduced(failing, ["active"]) == failing
    with pytest.raises(EvaluationError):
        Program(failing)(rows(2))
    # also where only something that is left out reads it
    apart: tuple[Columns, ...] = (
        (("q", quotient),),
        (("pair", call("CreateNamedStruct", Literal(pa.scalar("q")), Operand("q", pa.int64()), type=pair.type)),),
        (("active", asked),),
    )
    left = reduced(apart, ["active"])
    assert [name for layer in left for name, _ in layer] == ["q", "active"]
    with pytest.raises(EvaluationError):
        Program(left)(rows(2))


def test_a_name_of_two_columns_is_left_alone() -> None:
    again = (*layers(), (("joined", there("new")),))
    assert reduced(again, OUTPUTS) == again
    over = (
        (("left", part(Operand("left", ORDER), 0)),),
        (("active", call("IsNotNull", Operand("left", pa.string()))),),
    )
    assert reduced(over, ["active"]) == over


@pytest.mark.parametrize("chunks", [1, 3])
def test_fields_that_are_read_are_gathered_and_the_others_are_null(chunks: int) -> None:
    values = [None, {"item": "a", "amount": 1.0}, {"item": None, "amount": 2.0}, {"item": "b" * 50, "amount": None}]
    whole = pa.chunked_array([pa.array([None, *values], ORDER).slice(1)] * chunks)
    pointers = np.array([3, -1, 0, 2, 1, len(whole) - 1])
    wanted = Picked(whole, pointers).part(0, 6).to_pylist()
    for fields, blank in (((1,), "item"), ((0,), "amount")):
        picked = Picked(whole if chunks > 1 else whole.chunk(0), pointers, fields)
        assert picked.part(0, 6).to_pylist() == [None if each is None else {**each, blank: None} for each in wanted]
        assert (picked.sizes() <= Picked(whole, pointers).sizes()).all()
        assert picked.most() == picked.sizes().max()
    assert Picked(whole, pointers, ()).part(1, 3).to_pylist() == [None, None]
