"""Processors behind what holds back, and in partitions with times of their own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from tests.engine.processors.test_processors import Calls, Timed, results
from tests.engine.stream_kit import PLUS
from tests.engine.time.test_positions_of_held_results import Row, run
from watersmeet.processors import ListStore, MapStore, ValueStore
from watersmeet.windows import JoinWindows

CUTS = [(), (1,), (2,), (3,), (1, 2, 3)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize(("wait", "order"), [(3, "x0:1 t:2 x5:3"), (30, "x0:1 x5:2 t:3")])
def test_a_timer_stands_among_rows_that_a_join_has_let_go_by_its_own_moment(
    cuts: tuple[int, ...], shards: int, wait: int, order: str
) -> None:
    """One record lets go of both rows and of the timer that the first of them sets."""

    def counted(context: Any, value: str) -> None:
        count = context.get_store("n")
        count.put((count.get() or 0) + 1)
        context.forward(value=f"{value}:{count.get()}")

    def process(record: Any, context: Any) -> None:
        counted(context, record.value.removesuffix("+null"))
        if record.value.startswith("x0"):
            context.set_timer(context.stream_time + wait)

    builder = arrow_builder("behind")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    joined = s.left_join(r, PLUS, JoinWindows(10, 10, 0))
    on_timer = lambda key, timestamp, context: counted(context, "t")  # noqa: E731
    one = lambda key, value: pa.array(["one"] * len(key), pa.string())  # noqa: E731
    stores = [ValueStore("n", "long")]
    processed = joined.process_values(lambda: Timed(process, on_timer), value="string", stores=stores)
    processed.select_key(one).to_table().to_stream().to("out")
    rows: list[Row] = [
        ("s", "k", "x0", 0, 0),
        ("s", "k", "x5", 5, 0),
        ("s", "z", "z", 1_000, 0),
        ("s", "z", "z", 1_001, 0),
    ]
    (out,) = run(builder.build(), rows, cuts, shards, "out")
    assert [value for value, _ in out] == order.split()


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", [*CUTS, (4,), (1, 4)])
def test_an_entry_and_a_timer_go_by_the_time_of_the_partition_whose_record_has_set_them(
    cuts: tuple[int, ...], shards: int
) -> None:
    class Keeps(Timed):
        def init(self, context: Any) -> None:
            self.map = context.get_store("map")

        def process(self, record: Any, context: Any) -> None:
            context.forward(value=f"{record.value}: {[key for key, _ in self.map.all()]} at {context.stream_time}")
            if record.value == "put":
                self.map.put("x", 1)
                context.set_timer(20)

    builder = arrow_builder("partitions")
    stream = builder.stream("s", key="string", value="string")
    on_timer = lambda key, timestamp, context: context.forward(value=f"timer: {context.stream_time}")  # noqa: E731
    processed = stream.process_values(
        lambda: Keeps(lambda *_: None, on_timer),
        value="string",
        stores=[MapStore("map", "string", "long", ttl="10 ms")],
    )
    processed.to("out")
    rows: list[Row] = [
        ("s", "k", "put", 0, 0),
        ("s", "k", "read", 100, 1),
        ("s", "z", "z", 101, 0),
        ("s", "k", "read", 102, 1),
    ]
    (out,) = run(builder.build(), rows, [cut for cut in cuts if cut < len(rows)], shards, "out")
    assert [value for value, _ in out if not value.startswith("z")] == [
        "put: [] at 0",
        "read: ['x'] at 100",
        "timer: 20",
        "read: [] at 102",
    ]


@pytest.mark.parametrize("cuts", CUTS)
def test_an_entry_of_another_partition_is_judged_where_no_timers_are(cuts: tuple[int, ...]) -> None:
    class Keeps:
        def process(self, record: Any, context: Any) -> None:
            value = context.get_store("value")
            context.forward(value=f"{record.value}: {value.get()}")
            if record.value == "put":
                value.put("x")

    builder = arrow_builder("partitions")
    stores = [ValueStore("value", "string", ttl="10 ms")]
    builder.stream("s", key="string", value="string").process_values(Keeps, value="string", stores=stores).to("out")
    given = (("k", "put", 0, 0), ("k", "read", 100, 1), ("z", "z", 101, 0), ("k", "read", 102, 1))
    (out,) = run(builder.build(), [("s", *record) for record in given], cuts, 2, "out")
    assert [value for value, _ in out] == ["put: None", "read: x", "z: None", "read: None"]


def test_a_record_for_which_a_processor_raises_takes_back_all_that_it_has_done() -> None:
    def process(record: Any, context: Any) -> None:
        bad, store, names = record.value == "bad", context.get_store("map"), context.get_store("list")
        before = f"{store.all()} {names.get()} {context.get_store('value').get()}"
        context.get_store("value").put(record.value)
        store.put(record.value, record.timestamp)
        if bad:
            store.delete("x")
            names.put([])
            context.delete_timer(50)
            context.set_timer(40)
            context.set_timer(0)
        names.append(record.value)
        context.set_timer(50)
        context.forward(value=before)
        if bad:
            raise ValueError(record.value)

    stores = [MapStore("map", "string", "long"), ListStore("list", "string"), ValueStore("value", "string")]
    given = (
        ("a", "x", 0),
        ("a", "bad", 1),
        ("a", "y", 2),
        ("b", "bad", 2),
        ("a", "bad", 3),
        ("b", "z", 3),
        ("c", "w", 99),
    )
    fired = lambda key, timestamp, context: context.forward(value=f"t{timestamp}")  # noqa: E731
    found = results(process, given, fired, stores=stores, on_error="skip")
    assert found == results(process, [row for row in given if row[1] != "bad"], fired, stores=stores)
    assert [value for key, value, _ in found if key == "a"] == ["[] [] None", "[('x', 0)] ['x'] x", "t50"]


def test_what_is_sent_with_an_earlier_time_is_late_behind_as_in_kafka_streams() -> None:
    builder = arrow_builder("late")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    earlier = lambda record, context: context.forward(record, timestamp=max(0, record.timestamp - 50))  # noqa: E731
    s.process_values(lambda: Calls(earlier), value="string").left_join(r, PLUS, JoinWindows(10, 10, 0)).to("out")
    (out,) = run(builder.build(), [("s", "k", "late", 100, 0), ("r", "k", "r", 101, 0)], (), 1, "out")
    assert out == [("late+null", 50)]
