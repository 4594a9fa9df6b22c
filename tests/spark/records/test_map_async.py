"""map_async: in the driver's process, in a notebook's loop, and on Spark; what ends there, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[dict[str, int]]:
    known = {"open": 1}
    yield known
    known["open"] = 0


async def looked_up(key: str | None, value: str, client: dict[str, int]) -> dict[str, Any]:
    """The later in a batch, the sooner it answers."""
    for _ in range(10 - len(value)):
        await asyncio.sleep(0)
    if value == "bad":
        raise ValueError("nobody knows it")
    if value == "never":
        await asyncio.Event().wait()
    return {"key": key, "length": len(value), "open": client["open"]}


def topology(**options: Any) -> wm.Topology:
    builder = wm.StreamsBuilder("asked")
    stream = builder.stream("in", key="string", value="string", headers=True)
    told = stream.map_async(
        looked_up, returns="struct<key: string, length: int, open: int>", client=connection, name="asked", **options
    )
    told.to("out")
    told.filter(lambda value: value["length"] > 1).group_by_key().count().to_stream().to("counts")
    return builder.build()


def fed(driver: TopologyTestDriver) -> dict[str, list[Any]]:
    for ts, (key, value) in enumerate(
        [("k", "a"), (None, "bb"), ("k", "bad"), ("k", "never"), ("k", None), ("k", "cc")]
    ):
        driver.pipe("in", key, value, ts=ts, headers=[("at", str(ts).encode())])
    out = [(r.key, r.value and tuple(r.value.asDict().values()), r.ts, r.headers) for r in driver.read("out")]
    letters = [(r.value, dict(r.headers)["__streams.errors.message"].decode()) for r in driver.read("bad")]
    return {"out": out, "counts": [(r.key, r.value, r.ts) for r in driver.read("counts")], "bad": letters}


OUTLIVED = {"timeout": "200 ms", "on_error": wm.DeadLetter("bad")}
EXPECTED = {
    "out": [
        ("k", ("k", 1, 1), 0, (("at", b"0"),)),
        (None, (None, 2, 1), 1, (("at", b"1"),)),
        ("k", None, 4, (("at", b"4"),)),
        ("k", ("k", 2, 1), 5, (("at", b"5"),)),
    ],
    "counts": [("k", 1, 5)],
    "bad": [
        (b"bad", "The coroutine function looked_up raises ValueError: nobody knows it. In a function of asked."),
        (
            b"never",
            "The coroutine function looked_up has not answered in time: timeout=200 ms. In a function of asked.",
        ),
    ],
}


def test_results_keep_the_order_of_their_records_and_what_fails_or_is_late_is_a_dead_letter() -> None:
    driver = TopologyTestDriver(topology(**OUTLIVED))
    assert fed(driver) == EXPECTED
    assert driver.runs_in == "process", driver.why_spark
    assert driver.drops[("asked", "dead_letter")] == 2


def test_spark_gives_the_same(spark: SparkSession) -> None:
    with TopologyTestDriver(topology(**OUTLIVED), spark) as driver:
        assert fed(driver) == EXPECTED


def test_beneath_a_loop_that_runs_as_in_a_notebook_it_is_the_same() -> None:
    async def cell() -> dict[str, list[Any]]:
        return fed(TopologyTestDriver(topology(**OUTLIVED)))

    assert asyncio.run(cell()) == EXPECTED


def test_without_a_policy_the_first_error_ends_the_query_and_the_calls_that_are_under_way() -> None:
    driver = TopologyTestDriver(topology(timeout=None))
    driver.pipe("in", "k", "never", ts=0)
    driver.pipe("in", "k", "bad", ts=1)
    with pytest.raises(
        FunctionError, match=r"(?s)looked_up raises ValueError: nobody knows it\..*of asked\..*on_error= says"
    ):
        driver.read("out")


def test_no_more_calls_are_under_way_than_are_allowed() -> None:
    under_way, most = set[str](), list[int]()

    async def counted(value: str) -> int:
        under_way.add(value)
        most.append(len(under_way))
        for _ in range(3):
            await asyncio.sleep(0)
        under_way.discard(value)
        return int(value)

    builder = wm.StreamsBuilder("bounded")
    builder.stream("in", key="string", value="string").map_async(counted, returns="long", concurrency=3).to("out")
    driver = TopologyTestDriver(builder.build())
    for number in range(20):
        driver.pipe("in", "k", str(number), ts=number)
    assert [record.value for record in driver.read("out")] == list(range(20))
    assert max(most) == 3


def test_every_reader_below_has_the_answer_of_one_call() -> None:
    calls: list[str] = []

    async def numbered(value: str) -> int:
        calls.append(value)
        return len(calls)

    builder = wm.StreamsBuilder("once")
    told = builder.stream("in", key="string", value="string").map_async(numbered, returns="long")
    told.to("one")
    told.map_values(lambda value: value + 0).to("other")
    told.group_by_key().agg(last=wm.last(lambda value: value)).to_stream().to("last")
    driver = TopologyTestDriver(builder.build())
    for number in range(3):
        driver.pipe("in", "k", str(number), ts=number)
    assert [r.value for r in driver.read("one")] == [r.value for r in driver.read("other")] == [1, 2, 3]
    assert [r.value["last"] for r in driver.read("last")] == [1, 2, 3]
    assert len(calls) == 3


def test_an_answer_of_another_type_is_an_error_of_its_record() -> None:
    async def text(value: str) -> str:
        return value

    builder = wm.StreamsBuilder("typed", on_error="skip")
    builder.stream("in", key="string", value="string").map_async(text, returns="long", name="asked").to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "k", "no number", ts=0)
    assert driver.read("out") == []
    assert driver.drops == {("asked", "function_error"): 1}


def plain(value: str) -> str:
    return value


async def of_none() -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "options", "error", "text"),
    [
        (plain, {}, FunctionError, r"(?s)The function plain is no coroutine function\..*async def plain\(value\)"),
        (of_none, {}, FunctionError, "The coroutine function takes 0 arguments, and gets 1 or 2"),
        ("url", {}, FunctionError, "The coroutine function must be a function, not 'url'"),
        (
            looked_up,
            {"concurrency": 0, "client": connection},
            TopologyError,
            r"(?s)concurrency=0.*Hint: concurrency=100",
        ),
        (looked_up, {"timeout": "0 ms", "client": connection}, TopologyError, r"(?s)timeout='0 ms'.*Hint: timeout='5"),
        (
            looked_up,
            {"timeout": 5, "client": connection},
            TopologyError,
            "must be a duration of whole milliseconds, not 5",
        ),
        (looked_up, {"client": "url"}, FunctionError, r"(?s)client='url'.*Hint: A class"),
        (looked_up, {"on_error": "ignore", "client": connection}, TopologyError, "on_error='ignore'"),
    ],
)
def test_what_cannot_be_called_is_refused_where_it_is_written(
    function: Any, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    stream = wm.StreamsBuilder("refused").stream("in", key="string", value="string")
    with pytest.raises(error, match=text):
        stream.map_async(function, returns="string", **options)
