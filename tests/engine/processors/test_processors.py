"""Processors: records and timers of a key in the order of the sequence, whatever the batches, shards and partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from watersmeet.errors import FunctionError
from watersmeet.processors import ListStore, MapStore, ValueStore

Row = tuple[str, str | None, int]


class Calls:
    """A processor of functions."""

    def __init__(self, process: Callable[..., Any], on_timer: Callable[..., Any] | None = None) -> None:
        self._process, self._on_timer = process, on_timer

    def process(self, record: Any, context: Any) -> None:
        self._process(record, context)


class Timed(Calls):
    """The same with timers."""

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        assert self._on_timer is not None
        self._on_timer(key, timestamp, context)


def results(
    process: Callable[..., Any],
    rows: Sequence[Row],
    on_timer: Callable[..., Any] | None = None,
    *,
    stores: Sequence[Any] = (),
    **options: Any,
) -> list[tuple[Any, Any, int]]:
    """All results; the same however the rows are cut and sharded."""
    kind = Calls if on_timer is None else Timed
    builder = arrow_builder("processors", **options)
    stream = builder.stream("in", key="string", value="string")
    stream.process_values(lambda: kind(process, on_timer), value="string", stores=stores).to("out")
    topology, found = builder.build(), []
    for shards, cuts in ((1, ()), (2, range(1, len(rows))), (3, range(0, len(rows), 2))):
        driver = EngineDriver(topology, shards=shards)
        for begin, end in pairwise(sorted({0, len(rows), *cuts})):
            for key, value, ts in rows[begin:end]:
                driver.pipe("in", key, value, ts=ts)
            driver.run_batch()
        found.append([(result.key, result.value, result.ts) for result in driver.read("out")])
    assert found[1:] == found[:-1]
    return found[0]


# -- timers ------------------------------------------------------------------------------------------------------


def test_a_timer_fires_directly_before_the_record_that_moves_time_there() -> None:
    def process(record: Any, context: Any) -> None:
        context.set_timer(record.timestamp + 10)
        context.forward(value=f"{record.value} at {context.stream_time}")

    def on_timer(key: str, timestamp: int, context: Any) -> None:
        context.forward(value=f"{key} fires at {timestamp}, {context.stream_time}")

    rows = [("a", "1", 0), ("b", "2", 5), ("a", "3", 9), ("b", "4", 10), ("c", "5", 15)]
    assert results(process, rows, on_timer) == [
        ("a", "1 at 0", 0),
        ("b", "2 at 5", 5),
        ("a", "3 at 9", 9),
        ("a", "a fires at 10, 10", 10),
        ("b", "4 at 10", 10),
        ("b", "b fires at 15, 15", 15),
        ("c", "5 at 15", 15),
    ]


def test_timers_of_one_moment_fire_in_the_order_of_their_keys_and_those_of_several_in_the_order_of_time() -> None:
    rows = [("b", "", 3), ("a", "", 5), ("c", "", 5), ("z", "", 100)]
    process = lambda record, context: context.set_timer(20 if record.key != "c" else 10)  # noqa: E731
    fired = results(process, rows, lambda key, timestamp, context: context.forward(value="f"))
    assert [(key, ts) for key, _, ts in fired] == [("c", 10), ("a", 20), ("b", 20), ("z", 20)]


def test_a_timer_for_a_time_that_has_passed_fires_at_once_behind_what_the_record_sends() -> None:
    def process(record: Any, context: Any) -> None:
        for moment in (7, 3, 7):
            context.set_timer(moment)
        context.forward(value="sent")

    rows = [("a", "", 7), ("b", "", 8)]
    fired = results(process, rows, lambda key, timestamp, context: context.forward(value=f"t{timestamp}"))
    assert fired == [
        (key, value, ts) for key, at in (("a", 7), ("b", 8)) for value, ts in (("sent", at), ("t3", 3), ("t7", 7))
    ]


def test_a_timer_that_a_timer_sets_fires_in_its_turn_also_when_time_jumps() -> None:
    def on_timer(key: str, timestamp: int, context: Any) -> None:
        context.forward(value=f"t{timestamp}")
        if timestamp < 40:
            context.set_timer(timestamp + 10)
        if timestamp == 20:
            context.set_timer(5)

    process = lambda record, context: context.set_timer(record.timestamp + 10) if record.timestamp < 50 else None  # noqa: E731
    rows = [("a", "", 0), ("b", "", 5), ("z", "", 1000)]
    fired = [(key, value) for key, value, _ in results(process, rows, on_timer)]
    assert fired == [
        ("a", "t10"),
        ("b", "t15"),
        ("a", "t20"),
        ("a", "t5"),
        ("a", "t15"),
        ("a", "t25"),
        ("b", "t25"),
        ("a", "t30"),
        ("a", "t35"),
        ("b", "t35"),
        ("a", "t40"),
        ("a", "t45"),
        ("b", "t45"),
    ]


def test_a_key_has_one_timer_of_a_moment_and_one_that_is_deleted_does_not_fire() -> None:
    def process(record: Any, context: Any) -> None:
        if record.value == "set":
            context.set_timer(50)
            context.set_timer(60)
        elif record.value == "delete":
            context.delete_timer(50)
        elif record.value == "both":
            context.delete_timer(60)
            context.set_timer(60)

    rows = [("a", "set", 0), ("a", "set", 1), ("a", "delete", 2), ("a", "both", 3), ("a", "", 100)]
    assert results(process, rows, lambda key, timestamp, context: context.forward(value=f"t{timestamp}")) == [
        ("a", "t60", 60)
    ]


def test_a_timer_that_sets_itself_for_now_for_ever_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from watersmeet._engine.operators import process as engine

    monkeypatch.setattr(engine, "_ENDLESS", 100)
    with pytest.raises(FunctionError, match=r"(?s)sets a timer for now in each call of on_timer.*Hint: "):
        results(
            lambda record, context: context.set_timer(0),
            [("a", "", 7)],
            lambda key, timestamp, context: context.set_timer(timestamp),
        )


def test_what_has_fired_or_was_deleted_leaves_no_row_behind() -> None:
    builder = arrow_builder("rows")
    stream = builder.stream("in", key="string", value="string")
    set_one = lambda record, context: context.set_timer(record.timestamp + 5) if record.value else None  # noqa: E731
    stream.process_values(lambda: Timed(set_one, lambda *_: None), value="string").to("out")
    driver = EngineDriver(builder.build(), shards=1)
    for number in range(30):
        driver.pipe("in", f"k{number % 4}", "x", ts=number)
        driver.run_batch()
    driver.pipe("in", "z", "", ts=1_000)
    driver.run_batch()
    driver.pipe("in", "z", "", ts=1_001)
    driver.run_batch()
    # time has passed them; runs that hold nothing else are dropped
    from watersmeet._engine.operators.process_state import lasting
    from watersmeet._engine.state.runs import State

    states = [State(store, None) for store in driver.stores.values()]
    assert sum(run.rows for state in states for entry in state.manifest.tables.values() for run in entry.runs()) == 0
    assert lasting(states[0], pa.table({"key": []})).num_rows == 0


# -- stores ------------------------------------------------------------------------------------------------------


def test_a_map_is_in_the_order_of_its_keys_and_belongs_to_the_records_key() -> None:
    class Ordered:
        def init(self, context: Any) -> None:
            self.map = context.get_store("map")

        def process(self, record: Any, context: Any) -> None:
            if record.value is None:
                self.map.delete(5)
            else:
                self.map.put(int(record.value), record.value)
            context.forward(
                value=f"{[k for k, _ in self.map.all()]} {[k for k, _ in self.map.range(4, 7)]} {self.map.get(9)}"
            )

    builder = arrow_builder("map")
    stream = builder.stream("in", key="string", value="string")
    stream.process_values(Ordered, value="string", stores=[MapStore("map", "long", "string")]).to("out")
    for size in (1, 6):
        driver = EngineDriver(builder.build(), shards=2)
        for number, (key, value) in enumerate(
            [("a", "9"), ("a", "5"), ("b", "7"), ("a", "4"), ("a", None), ("a", "5")]
        ):
            driver.pipe("in", key, value, ts=number)
            if number % size == 0:
                driver.run_batch()
        driver.run_batch()
        assert [result.value for result in driver.read("out")] == [
            "[9] [] 9",
            "[5, 9] [5] 9",
            "[7] [7] None",
            "[4, 5, 9] [4, 5] 9",
            "[4, 9] [4] 9",
            "[4, 5, 9] [4, 5] 9",
        ]


def test_an_entry_lasts_for_its_time_and_anew_when_it_is_put_again() -> None:
    class Lasting:
        def init(self, context: Any) -> None:
            self.list, self.value, self.map = (context.get_store(name) for name in ("list", "value", "map"))

        def process(self, record: Any, context: Any) -> None:
            context.forward(value=f"{self.list.get()} {self.value.get()} {self.map.all()}")
            if record.value is not None:
                self.list.append(record.value)
                self.value.put(record.value)
                self.map.put(record.value, context.stream_time)

    stores = [ListStore("list", "string", ttl="10 ms"), ValueStore("value", "string", ttl="10 ms")]
    builder = arrow_builder("ttl")
    stream = builder.stream("in", key="string", value="string")
    stream.process_values(Lasting, value="string", stores=[*stores, MapStore("map", "string", "long", ttl="10 ms")]).to(
        "out"
    )
    rows = [("a", "x", 0), ("a", "y", 4), ("a", "x", 9), ("a", None, 13), ("a", None, 14), ("a", None, 19)]
    expected = [
        "[] None []",
        "['x'] x [('x', 0)]",
        "['x', 'y'] y [('x', 0), ('y', 4)]",
        "['y', 'x'] x [('x', 9), ('y', 4)]",
        "['x'] x [('x', 9)]",
        "[] None []",
    ]
    for size in (1, 2, 6):
        driver = EngineDriver(builder.build(), shards=1)
        for number, (key, value, ts) in enumerate(rows):
            driver.pipe("in", key, value, ts=ts)
            if number % size == 0:
                driver.run_batch()
        driver.run_batch()
        assert [result.value for result in driver.read("out")] == expected


def test_a_value_that_is_changed_in_place_is_not_changed_in_the_store() -> None:
    kind = pa.struct([("seen", pa.list_(pa.string()))])

    class Changing:
        def process(self, record: Any, context: Any) -> None:
            store = context.get_store("value")
            value = store.get() or {"seen": []}
            given = list(value["seen"])
            value["seen"].append(record.value)
            if record.value != "lost":
                store.put(value)
                value["seen"].append("afterwards")
            context.forward(value=",".join(given))

    builder = arrow_builder("place")
    stream = builder.stream("in", key="string", value="string")
    stream.process_values(Changing, value="string", stores=[ValueStore("value", kind)]).to("out")
    for every in (1, 9):
        driver = EngineDriver(builder.build(), shards=1)
        for number, value in enumerate(["a", "lost", "b", "c"]):
            driver.pipe("in", "k", value, ts=number)
            if number % every == 0:
                driver.run_batch()
        driver.run_batch()
        assert [result.value for result in driver.read("out")] == ["", "a", "a", "a,b"]


# -- what is sent, and what raises -------------------------------------------------------------------------------


def test_records_without_a_key_end_counted_and_those_without_a_value_do_not() -> None:
    builder = arrow_builder("nulls")
    stream = builder.stream("in", key="string", value="string")
    forward = lambda record, context: context.forward(record)  # noqa: E731
    stream.process_values(lambda: Calls(forward), value="string", name="p").to("out")
    driver = EngineDriver(builder.build())
    driver.pipe("in", "a", None, ts=1)
    driver.pipe("in", None, "x", ts=2)
    driver.run_batch()
    assert [(r.key, r.value, r.ts) for r in driver.read("out")] == [("a", None, 1)]
    assert driver.drops[("p", "null_key")] == 1
    assert not driver.drops[("p", "null_value")]


def test_process_sends_records_under_other_keys_and_a_fold_behind_it_has_them_in_order() -> None:
    def process(record: Any, context: Any) -> None:
        context.set_timer(record.timestamp + 10)
        context.forward(key=1, value=record.value, timestamp=record.timestamp + 1)
        context.forward(key=2, value=record.value)

    builder = arrow_builder("keys")
    stream = builder.stream("in", key="string", value="string")
    on_timer = lambda key, timestamp, context: context.forward(key=2, value=f"{key}{timestamp}")  # noqa: E731
    made = stream.process(lambda: Timed(process, on_timer), key="long", value="string", name="p")
    made.to_table().to_stream().to("out")
    for size in (1, 4):
        driver = EngineDriver(builder.build(), shards=3)
        for number, (key, ts) in enumerate([("b", 0), ("a", 0), ("c", 30)]):
            driver.pipe("in", key, f"{key}!", ts=ts)
            if number % size == 0:
                driver.run_batch()
        driver.run_batch()
        assert [(r.key, r.value, r.ts) for r in driver.read("out")] == [
            (1, "b!", 1),
            (2, "b!", 0),
            (1, "a!", 1),
            (2, "a!", 0),
            (2, "a10", 10),
            (2, "b10", 10),
            (1, "c!", 31),
            (2, "c!", 30),
        ]


@pytest.mark.parametrize(
    ("process", "message"),
    [
        (lambda r, c: c.forward(value=3), "Calls sends a value that is not of its type, string: 3"),
        (
            lambda r, c: c.forward(r, key="other"),
            "Calls sends a record under another key: 'other'.*Hint: process_values",
        ),
        (lambda r, c: c.forward(r, timestamp=-1), "Calls sends a record of a wrong time: -1.*Hint: "),
        (lambda r, c: c.forward(r, timestamp=1.5), "Calls sends a record of a wrong time: 1.5.*Hint: "),
        (lambda r, c: c.get_store("none"), "Calls has no store 'none'.*its stores: map.*Hint: "),
        (
            lambda r, c: c.get_store("map").put("x", "y"),
            "Calls puts a value into 'map' that is not of its type, int64: 'y'",
        ),
        (lambda r, c: c.get_store("map").put(3, 4), "Calls has a key of 'map' that is not of its type, string: 3"),
        (lambda r, c: c.get_store("map").put(None, 4), "A key of the map 'map' cannot be null.*Hint: "),
        (
            lambda r, c: c.set_timer(5),
            "sets a timer for a time, but has no method on_timer.*Hint: Write def on_timer",
        ),
        (lambda r, c: r.headers, "The records carry no headers.*Hint: Read the topic with its headers"),
        (
            lambda r, c: 1 / 0,
            r"Calls raises in process: ZeroDivisionError: division by zero.*test_processors.py, line \d+; key 'a'.*"
            r"Hint: To go on without such records: on_error=.*DeadLetter.* of builder.policies\('process-in', ",
        ),
    ],
)
def test_what_a_processor_does_wrong_is_said_with_its_name(process: Any, message: str) -> None:
    with pytest.raises(FunctionError, match=rf"(?s){message}"):
        results(process, [("a", "x", 0)], stores=[MapStore("map", "string", "long")])


def test_a_record_says_where_it_comes_from() -> None:
    builder = arrow_builder("origin")
    one, two = (builder.stream(name, key="string", value="string") for name in ("one", "two"))
    told = lambda r, c: c.forward(value=f"{r.topic} {r.partition} {r.offset} {r!r}")  # noqa: E731
    one.merge(two).process_values(lambda: Calls(told), value="string").to("out")
    driver = EngineDriver(builder.build(), partitioned=True)
    driver.pipe("one", "a", "x", ts=1, partition=2)
    driver.pipe("two", "a", "y", ts=2, partition=1)
    driver.run_batch()
    assert [r.value for r in driver.read("out")] == [
        "one 2 0 Record(key='a', value='x', timestamp=1)",
        "two 1 1 Record(key='a', value='y', timestamp=2)",
    ]


def test_the_short_form_keeps_a_state_of_each_key_and_sends_what_it_gives() -> None:
    def step(key: str, value: str, state: int, context: Any) -> tuple[int | None, list[str]]:
        return (None, ["done"]) if state == 2 else (state + 1, [f"{value}{state}@{context.stream_time}"] * (state % 2))

    builder = arrow_builder("short")
    grouped = builder.stream("in", key="string", value="string").group_by_key()
    grouped.process(lambda: 0, step, state="long", returns="string", name="steps").to("out")
    for size in (1, 9):
        driver = EngineDriver(builder.build())
        for number in range(7):
            driver.pipe("in", "a", "v" if number != 1 else None, ts=number)
            if number % size == 0:
                driver.run_batch()
        driver.run_batch()
        assert [r.value for r in driver.read("out")] == ["v1@2", "done", "v1@5", "done"]
        assert driver.drops[("steps", "null_value")] == 1


# -- attributes --------------------------------------------------------------------------------------------------


class Forwards:
    """Sends each record on."""

    everywhere: ClassVar[list[Any]] = []

    def init(self, context: Any) -> None:
        self.total, self.last, self.seen, self.queue = 0, None, set[str](), [[0]]
        self.counts: Counter[str] = Counter()
        self.part = Part()

    def process(self, record: Any, context: Any) -> None:
        self.change(record)
        context.forward(record)

    def change(self, record: Any) -> None:
        """What a class of these does besides."""


@dataclass
class Part:
    """A part of a processor."""

    count: int = 0


class Lazy(Forwards):
    """Computes once what all records share."""

    @cached_property
    def table(self) -> dict[str, int]:
        """Made when it is first asked for."""
        return {"a": 1}

    def change(self, record: Any) -> None:
        assert self.table["a"] == 1
        self.total = 0

    def close(self) -> None:
        """Ends what init began."""
        self.part = None  # type: ignore[assignment]


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "total": lambda self, record: setattr(self, "total", self.total + 1),
    "last": lambda self, record: setattr(self, "last", record),
    "seen": lambda self, record: self.seen.add(record.value),
    "queue": lambda self, record: self.queue[0].append(1),
    "counts": lambda self, record: self.counts.update(record.value),
    "part": lambda self, record: setattr(self.part, "count", 1),
    "everywhere": lambda self, record: self.everywhere.append(1),
    "new": lambda self, record: setattr(self, "new", 1),
}


def sent_by(make: Callable[[], Any], *, transforms: bool = False) -> list[Any]:
    """The values of three records in one batch."""
    builder = arrow_builder("attributes")
    if transforms:
        table = builder.table("in", key="string", value="string")
        table.transform_values(make, value="string").to_stream().to("out")
    else:
        builder.stream("in", key="string", value="string").process_values(make, value="string").to("out")
    driver = EngineDriver(builder.build(), shards=1)
    for number, value in enumerate("xyz"):
        driver.pipe("in", "k", value, ts=number)
    driver.run_batch()
    return [result.value for result in driver.read("out")]


@pytest.mark.parametrize("name", CHANGES)
def test_an_attribute_that_changes_after_init_is_refused_by_its_name(name: str) -> None:
    class Counts(Forwards):
        everywhere: ClassVar[list[Any]] = []
        change = CHANGES[name]  # type: ignore[assignment]

        def transform(self, record: Any, context: Any) -> Any:
            self.change(record)
            return record.value

    for transforms in (False, True):
        with pytest.raises(FunctionError, match=rf"Counts changes its attribute '{name}' after init") as error:
            sent_by(Counts, transforms=transforms)
        assert "context.get_store" in str(error.value.hint)
        Counts.everywhere.clear()


def test_attributes_that_init_makes_and_close_ends_are_no_state() -> None:
    assert sent_by(Lazy) == ["x", "y", "z"]
