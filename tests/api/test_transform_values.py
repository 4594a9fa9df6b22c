"""KTable.transform_values: a transformer with state and timers over the changes of a table, whose result is a table."""

from __future__ import annotations

from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


class Times:
    """Says how often a row has changed, and forgets rows 100 ms after their last change."""

    def init(self, context: Any) -> None:
        self.times = context.get_store("times")

    def transform(self, record: Any, context: Any) -> Any:
        self.times.put((self.times.get() or 0) + 1)
        context.set_timer(record.timestamp + 100)
        return None if record.value is None else f"{record.value}{self.times.get()}"

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=None)


TIMES = wm.ValueStore("times", "long")


def driver_of(*, joined: bool = False) -> TopologyTestDriver:
    builder = wm.StreamsBuilder("transformed")
    table = builder.table("users", key="string", value="string")
    result = table.transform_values(Times, value="string", stores=[TIMES], store="result")
    if joined:
        clicks = builder.stream("clicks", key="string", value="string")
        result_of = clicks.left_join(result, lambda click, user: user)
        result_of.to("out")
    else:
        result.to_stream().to("out")
    return TopologyTestDriver(builder.build())


def read(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(each.key, each.value, each.ts) for each in driver.read("out")]


def test_each_change_of_a_row_gives_its_new_value_and_a_deletion_is_one() -> None:
    driver = driver_of()
    for value, ts in (("x", 0), ("y", 5), (None, 6), ("z", 7)):
        driver.pipe("users", "a", value, ts=ts)
    assert read(driver) == [("a", "x1", 0), ("a", "y2", 5), ("a", None, 6), ("a", "z4", 7)]
    assert list(driver.get_store("result").all()) == [("a", "z4")]


def test_a_timer_changes_the_row_before_the_record_that_moves_time_there_and_joins_see_it() -> None:
    driver = driver_of(joined=True)
    driver.pipe("users", "a", "x", ts=0)
    for ts in (50, 99, 100):
        driver.pipe("clicks", "a", "c", ts=ts)
    assert [value for _, value, _ in read(driver)] == ["x1", "x1", None]


class Wrong:
    def transform(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("transformer", "error", "said"),
    [(object, TopologyError, "has no method transform"), (Wrong, FunctionError, "transform of the processor Wrong")],
)
def test_what_is_no_transformer_is_refused_where_it_is_given(transformer: Any, error: Any, said: str) -> None:
    table = wm.StreamsBuilder("wrong").table("users", key="string", value="string")
    with pytest.raises(error, match=said):
        table.transform_values(transformer, value="string")
