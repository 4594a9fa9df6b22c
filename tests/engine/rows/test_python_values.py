"""Plain Python functions see the same values in one batch and in many: random folds over nested types (law 1)."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.kit import by_step, driver_of
from watersmeet._engine.rows.python_values import python_values, stored_value_of
from watersmeet.aggregates import python
from watersmeet.errors import FunctionError
from watersmeet.windows import SessionWindows, TimeWindows

UTC = "UTC"


class Row(tuple[Any, ...]):
    """As Spark's: a tuple that knows the names of its fields."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, given: dict[str, Any]) -> Row:
        row = cls(given.values())
        row.names = tuple(given)
        return row

    def asDict(self) -> dict[str, Any]:
        return dict(zip(self.names, self, strict=True))


LEAVES: tuple[pa.DataType, ...] = (
    pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date32(),
    pa.decimal128(10, 2), pa.decimal128(38, 18), pa.timestamp("us", tz=UTC), pa.timestamp("us"),
)  # fmt: skip
KEYS = (pa.string(), pa.int64(), pa.date32(), pa.decimal128(10, 2))
TZ = dt.timezone(dt.timedelta(hours=5))


def drawn_type(dice: random.Random, depth: int) -> pa.DataType:
    kind = dice.choice(("leaf", "struct", "list", "map", "map")) if depth else "leaf"
    match kind:
        case "struct":
            return pa.struct([(f"f{n}", drawn_type(dice, depth - 1)) for n in range(dice.randint(1, 3))])
        case "list":
            return pa.list_(drawn_type(dice, depth - 1))
        case "map":
            return pa.map_(dice.choice(KEYS), drawn_type(dice, depth - 1))
    return dice.choice(LEAVES)


def drawn_value(dice: random.Random, kind: pa.DataType, *, null: bool = True) -> Any:
    """A value as people write it: lists as tuples, structs as rows, maps as pairs, numbers and times of other kinds."""
    if null and dice.random() < 0.15:
        return None
    if pa.types.is_struct(kind):
        made = {field.name: drawn_value(dice, field.type) for field in kind}
        if dice.random() < 0.2:
            made.pop(dice.choice(list(made)))
            return made
        return Row.of(dict(reversed(made.items()))) if dice.random() < 0.2 else made
    if pa.types.is_list(kind):
        items = [drawn_value(dice, kind.value_type) for _ in range(dice.randint(0, 3))]
        return tuple(items) if dice.random() < 0.3 else items
    if pa.types.is_map(kind):
        pairs = [
            (drawn_value(dice, kind.key_type, null=False), drawn_value(dice, kind.item_type))
            for _ in range(dice.randint(0, 3))
        ]
        return pairs if dice.random() < 0.3 else dict(pairs)
    return leaf(dice, kind)


def leaf(dice: random.Random, kind: pa.DataType) -> Any:
    number = dice.randint(-9, 9)
    if pa.types.is_integer(kind):
        return dice.choice((number, float(number)))
    if pa.types.is_floating(kind):
        return dice.choice((number, number / 3, -0.0))
    if pa.types.is_decimal(kind):
        return dice.choice((number, Decimal(number), Decimal(number).scaleb(-1), Decimal("1.50")))
    if pa.types.is_timestamp(kind):
        moment = dt.datetime(2024, 1, 1, 12) + dt.timedelta(hours=number, microseconds=number)
        return dice.choice((moment, moment.replace(tzinfo=TZ), moment.replace(tzinfo=dt.UTC)))
    if pa.types.is_date32(kind):
        day = dt.datetime(2024, 1, 10) + dt.timedelta(days=number)
        return dice.choice((day, day.date()))
    if pa.types.is_boolean(kind):
        return number > 0
    text = str(number)
    if pa.types.is_binary(kind):
        return dice.choice((text.encode(), bytearray(text.encode()), text))
    return dice.choice((text, text.encode()))


def seen(value: Any) -> str:
    """A value with the types of all that is in it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{seen(key)}: {seen(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[" + ", ".join(map(seen, value)) + "]"
    return f"{type(value).__name__} {value!r}"


def results(kind: pa.DataType, seed: int, cuts: set[int], build: Callable[[Any, Any], Any]) -> list[Any]:
    """What a fold of this type gives, whose functions note what they see in what they give."""

    def given(*arguments: Any) -> Any:
        # what is made follows from what is seen, to the type of each part
        dice = random.Random(f"{seed} " + " ".join(map(seen, arguments)))
        return {"seen": " ".join(map(seen, arguments))[-400:], "kept": drawn_value(dice, kind)}

    state = pa.struct([("seen", pa.string()), ("kept", kind)])
    driver = driver_of(lambda b: build(b.stream("in", key="string", value="string"), (given, state)))
    steps = [("in", "ab"[n % 2], str(n), n) for n in range(7)]
    return by_step(driver, steps, cuts=cuts)


def plain(stream: Any, fold: Any) -> Any:
    function, state = fold
    return stream.group_by_key().aggregate(lambda: {"seen": "", "kept": None}, python(function, returns=state))


def by_window(stream: Any, fold: Any) -> Any:
    function, state = fold
    grouped = stream.group_by_key().windowed_by(TimeWindows(4, 4, 100))
    return grouped.aggregate(lambda: {"seen": "", "kept": None}, python(function, returns=state))


def by_session(stream: Any, fold: Any) -> Any:
    function, state = fold
    grouped = stream.group_by_key().windowed_by(SessionWindows(3, 100))
    made = python(function, returns=state)
    return grouped.aggregate(lambda: {"seen": "", "kept": None}, made, made)


def of_table(stream: Any, fold: Any) -> Any:
    function, state = fold
    made = python(function, returns=state)
    grouped = stream.to_table().group_by(lambda key, value: (key, value))
    return grouped.aggregate(lambda: {"seen": "", "kept": None}, made, made)


BUILDS = (plain, by_window, by_session, of_table)


@pytest.mark.parametrize("seed", [*range(24), *(pytest.param(n, marks=pytest.mark.proof) for n in range(24, 400))])
def test_a_fold_of_any_type_sees_the_same_in_one_batch_and_in_a_batch_for_each_record(seed: int) -> None:
    dice = random.Random(seed)
    kind, build = drawn_type(dice, 3), BUILDS[seed % len(BUILDS)]
    whole = results(kind, seed, set(), build)
    assert any(whole)
    assert seen(whole) == seen(results(kind, seed, set(range(1, 7)), build)), kind


def test_a_map_in_state_is_always_a_dictionary() -> None:
    state = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])

    def count(value: str, aggregate: dict[str, Any]) -> dict[str, Any]:
        return {"m": {**aggregate["m"], value: aggregate["m"].get(value, 0) + 1}}

    def build(builder: Any) -> Any:
        stream = builder.stream("in", key="string", value="string")
        return stream.group_by_key().aggregate(lambda: {"m": {}}, python(count, returns=state))

    steps = [("in", "k", text, n) for n, text in enumerate("aba")]
    for cuts in (set[int](), {1, 2}):
        last = by_step(driver_of(build), steps, cuts=cuts)[-1]
        assert [dict(value["m"]) for _, value, _ in last] == [{"a": 2, "b": 1}]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_is_what_is_read_back(seed: int) -> None:
    dice = random.Random(seed)
    kind = drawn_type(dice, 3)
    kept = stored_value_of(kind)
    values = [kept(drawn_value(dice, kind)) for _ in range(20)]
    assert seen(values) == seen(python_values(pa.array(values, kind)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), math.nan),
        (pa.int64(), True),
        (pa.int8(), 300),
        (pa.string(), 1),
        (pa.decimal128(4, 2), Decimal("1.005")),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
        (pa.struct([("a", pa.int64())]), (1, 2)),
        (pa.list_(pa.int64()), "12"),
        (pa.list_(pa.int64()), {"a": 1}),
        (pa.list_(pa.int64()), 1),
        (pa.map_(pa.string(), pa.int64()), {None: 1}),
        (pa.map_(pa.string(), pa.int64()), [1, 2]),
    ],
)
def test_what_is_not_of_the_type_is_refused_and_not_made_into_another_value(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(FunctionError, match="not of the aggregate's type"):
        stored_value_of(kind)(value)


def test_a_tuple_is_a_struct_at_any_depth() -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    stored = stored_value_of(pa.struct([("one", inner), ("all", pa.list_(inner))]))
    assert stored(((1, "x"), [(2, "y")])) == {"one": {"a": 1, "b": "x"}, "all": [{"a": 2, "b": "y"}]}
