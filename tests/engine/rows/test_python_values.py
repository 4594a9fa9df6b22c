"""Plain Python functions see the same values in one batch and in many: random folds over nested types (law 1)."""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.kit import by_step, driver_of
from watersmeet._engine.rows import python_values, stored_value_of
from watersmeet.aggregates.user_defined import python
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


class Word(str):
    """A text of a class of its own, as members of an enumeration are."""


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
        return dice.choice((moment.replace(tzinfo=TZ), moment.replace(tzinfo=dt.UTC))) if kind.tz else moment
    if pa.types.is_date32(kind):
        return dt.date(2024, 1, 10) + dt.timedelta(days=number)
    if pa.types.is_boolean(kind):
        return number > 0
    text = str(number)
    if pa.types.is_binary(kind):
        return dice.choice((text.encode(), bytearray(text.encode()), memoryview(text.encode())))
    return dice.choice((text, Word(text), f"é{text}"))


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
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
        (pa.struct([("a", pa.int64())]), (1, 2)),
        (pa.list_(pa.int64()), "12"),
        (pa.list_(pa.int64()), {"a": 1}),
        (pa.list_(pa.int64()), 1),
        (pa.list_(pa.int64()), {1}),
        (pa.list_(pa.int64()), b"12"),
        (pa.list_(pa.decimal128(4, 2)), [Decimal("123.00")]),
        (pa.map_(pa.string(), pa.int64()), {"\ud83d": 1}),
        (pa.map_(pa.string(), pa.int64()), {None: 1}),
        (pa.map_(pa.string(), pa.int64()), [1, 2]),
    ],
)
def test_what_is_not_of_a_nested_type_is_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(FunctionError, match="not of the aggregate's type"):
        stored_value_of(kind)(value)


def test_a_tuple_is_a_struct_at_any_depth() -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    stored = stored_value_of(pa.struct([("one", inner), ("all", pa.list_(inner))]))
    assert stored(((1, "x"), [(2, "y")])) == {"one": {"a": 1, "b": "x"}, "all": [{"a": 2, "b": "y"}]}


MOMENT = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
SAMPLES: tuple[Any, ...] = (
    True, np.bool_(True), 5, 300, 2**31, 2**63, 2**53 + 1, 2**1100, np.int64(5), 5.0, 5.5, 1e300, math.inf, math.nan,
    np.float32(0.1), Decimal("1.00"), Decimal("1E+2"), Decimal("1.005"), Decimal("123.00"), Decimal("NaN"),
    Decimal("-0.00"), Decimal("1E+99999999"), "x", "é", "\ud83d", "5", Word("x"), b"x", b"\xff", bytearray(b"x"),
    uuid.UUID(int=5), MOMENT, MOMENT.replace(tzinfo=None), MOMENT.astimezone(TZ), MOMENT.date(), dt.timedelta(1),
    dt.time(1), np.datetime64("2020-01-01"), [1], {1}, {"x": 1}, (1,), object(), pa.scalar(5),
)  # fmt: skip
ZONELESS = MOMENT.replace(tzinfo=None)
WHOLE: list[Any] = [5, np.int64(5), 5.0, Decimal("1.00"), Decimal("-0.00")]
FLOATS: list[Any] = [5, 300, 2**31, np.int64(5), 5.0, 5.5, math.inf, math.nan, np.float32(0.1)]
TEXTS: list[Any] = ["x", "é", "5", Word("x")]
BYTES: list[Any] = [b"x", b"\xff", bytearray(b"x")]
TAKEN: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, np.bool_(True)],
    pa.int8(): [*WHOLE, Decimal("1E+2"), Decimal("123.00")],
    pa.int32(): [*WHOLE, 300, Decimal("1E+2"), Decimal("123.00")],
    pa.int64(): [*WHOLE, 300, 2**31, 2**53 + 1, Decimal("1E+2"), Decimal("123.00")],
    pa.float32(): [*FLOATS, 2**63],
    pa.float64(): [*FLOATS, 1e300, 2**63],
    pa.decimal128(4, 2): [5, np.int64(5), Decimal("1.00"), Decimal("-0.00")],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): [MOMENT.date()],
    pa.timestamp("us", tz=UTC): [MOMENT, MOMENT.astimezone(TZ)],
    pa.timestamp("us"): [ZONELESS],
    pa.duration("us"): [dt.timedelta(1)],
    pa.null(): [],
}


@pytest.mark.parametrize("kind", TAKEN, ids=str)
def test_a_type_takes_the_values_that_it_holds_and_refuses_each_other_one(kind: pa.DataType) -> None:
    stored, taken = stored_value_of(kind), []
    for value in SAMPLES:
        try:
            kept = stored(value)
        except FunctionError:
            continue
        taken.append(value)
        assert seen([kept]) == seen(python_values(pa.array([kept], kind)))
        same = int(value) if isinstance(value, np.integer) else value
        assert kept == same or kept != kept, "it is the same value, not another"
    assert [*map(seen, taken)] == [seen(value) for value in SAMPLES if seen(value) in {*map(seen, TAKEN[kind])}]
    assert stored(None) is None


def test_a_time_without_a_zone_is_refused_with_the_zone_that_it_needs() -> None:
    with pytest.raises(FunctionError, match=r"a time needs its zone: datetime\(2026, 1, 31, tzinfo=timezone.utc\)"):
        stored_value_of(pa.timestamp("us", tz=UTC))(ZONELESS)


def test_a_value_whose_repr_raises_is_refused_all_the_same() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError("no text")

    with pytest.raises(FunctionError, match="Given: a Odd"):
        stored_value_of(pa.int64())(Odd())
