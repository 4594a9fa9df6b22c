"""Records for which folds and functions of peek raise: skipped or dead letters, in its process and on Spark."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import ConfigError
from watersmeet.testing.driver import TopologyTestDriver

BAD = wm.DeadLetter("bad")
FOLDS = ("totals", "cogrouped", "hopping", "sliding", "sessions")


def folding(policy: Any) -> wm.Topology:
    """Folds of each kind, which divide by the parts of an order."""
    builder = wm.StreamsBuilder("folds", on_error=policy)
    orders = builder.stream(
        "orders", key="string", value=wm.json("amount int, parts int"), on_error="fail", headers=True
    )
    grouped = orders.group_by_key()

    def adds(order: Any, total: Any) -> Any:
        return total + order["amount"] / order["parts"]

    plain = wm.python(lambda order, total: total + order["amount"] / order["parts"])
    hopping = wm.TimeWindows.of_size_and_grace("10 ms", "20 ms").advance_by("5 ms")
    sliding = wm.SlidingWindows.of_time_difference_and_grace("10 ms", "20 ms")
    sessions = wm.SessionWindows.of_inactivity_gap_and_grace("5 ms", "20 ms")
    none = lambda: F.lit(0.0)  # noqa: E731
    grouped.aggregate(none, adds, name="totals").to_stream().to("totals")
    grouped.cogroup(plain).aggregate(none, name="cogrouped").to_stream().to("cogrouped")
    grouped.windowed_by(hopping).aggregate(none, plain, name="hopping").to_stream().to("hopping")
    grouped.windowed_by(sliding).aggregate(none, adds, name="sliding").to_stream().to("sliding")
    merged = grouped.windowed_by(sessions).aggregate(none, adds, lambda one, other: one + other, name="sessions")
    merged.to_stream().to("sessions")
    return builder.build()


def piped(driver: TopologyTestDriver, count: int) -> TopologyTestDriver:
    chance = Random(5)
    for number in range(count):
        value = {"amount": number, "parts": chance.choice([0, 1, 2, 4])}
        driver.pipe("orders", chance.choice("ab"), value, ts=number, headers=[("n", b"%d" % number)])
    return driver


def test_without_a_policy_a_fold_that_raises_fails_the_query(spark: SparkSession) -> None:
    driver = piped(TopologyTestDriver(folding("fail")), 5)
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|division by zero"):
        driver.read("totals")


def test_folds_go_on_as_if_records_for_which_they_raise_had_not_come_wherever_the_driver_runs(
    spark: SparkSession,
) -> None:
    letters = piped(TopologyTestDriver(folding(BAD)), 40)
    skipping = piped(TopologyTestDriver(folding("skip")), 40)
    on_spark = piped(TopologyTestDriver(folding(BAD), spark), 40)
    assert [each.runs_in for each in (letters, skipping, on_spark)] == ["process", "process", "spark"]
    fine = TopologyTestDriver(folding("skip"))
    chance, ended = Random(5), 0
    for number in range(40):
        value = {"amount": number, "parts": chance.choice([0, 1, 2, 4])}
        key = chance.choice("ab")
        ended += value["parts"] == 0
        if value["parts"]:
            fine.pipe("orders", key, value, ts=number)
    assert ended > 5
    for fold in FOLDS:
        expected = [(r.key, r.value, r.ts) for r in fine.read(fold)]
        for driver in (letters, skipping, on_spark):
            assert [(r.key, r.value, r.ts) for r in driver.read(fold)] == expected, (fold, driver.runs_in)
    assert skipping.drops == {(fold, "function_error"): ended for fold in FOLDS}
    assert letters.drops == on_spark.drops == {(fold, "dead_letter"): ended for fold in FOLDS}
    told = [sorted(map(shown, driver.read("bad"))) for driver in (letters, on_spark)]
    assert told[0] == told[1]
    assert Counter(each[0] for each in told[0]) == dict.fromkeys(FOLDS, ended)


def shown(letter: Any) -> tuple[Any, ...]:
    told = {name: value.decode() for name, value in letter.headers}
    ours = {name.removeprefix("__streams.errors."): value for name, value in told.items()}
    assert letter.value == b'{"amount":%d,"parts":0}' % letter.ts
    assert ours["n"] == ours["timestamp"] == ours["offset"] == str(letter.ts)
    assert (ours["topic"], ours["partition"], ours["reason"]) == ("orders", "0", "function_error")
    assert ours["exception"] == "watersmeet.errors.FunctionError"
    assert "DIVIDE_BY_ZERO" in ours["message"] or "ZeroDivisionError('division by zero')" in ours["message"]
    return ours["operator"], letter.key, letter.value, ours["message"]


def test_an_argument_of_an_aggregate_by_name_ends_the_record_before_the_aggregate(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("arguments", on_error="skip")
    orders = builder.stream("orders", key="string", value=wm.json("amount int, parts int"))
    orders.group_by_key().agg(total=wm.sum(lambda order: order["amount"] / order["parts"])).to_stream().to("totals")
    driver = piped(TopologyTestDriver(builder.build()), 20)
    ended = driver.drops.get(("orders", "function_error"), 0) if driver.read("totals") else 0
    assert ended > 2


def refuses(numbers: list[int]) -> Any:
    """A function that is shown amounts, notes them, and raises for some."""

    def shows(order: Any) -> None:
        numbers.append(order["amount"])
        if order["amount"] % 5 == 0:
            raise ValueError(order["amount"])

    return shows


def peeking(policy: Any, first: list[int], second: list[int], behind: list[int]) -> wm.Topology:
    builder = wm.StreamsBuilder("peeks", on_error=policy)
    orders = builder.stream("orders", key="string", value=wm.json("amount int, parts int"))
    orders.peek(refuses(first)).peek(lambda order: second.append(order["amount"])).to("shown")
    orders.map_values(lambda order: F.lit(12) / order["parts"]).to("shares")
    last = orders.group_by_key().aggregate(lambda: F.struct(F.lit(0).alias("amount")), latest, name="latest")
    last.to_stream().peek(refuses_later(behind)).to("latest")
    return builder.build()


def latest(order: Any, _: Any) -> Any:
    return F.struct(order["amount"].alias("amount"))


def refuses_later(numbers: list[int]) -> Any:
    def shows(order: Any) -> None:
        numbers.append(order["amount"])
        if order["amount"] % 7 == 0:
            raise ValueError(order["amount"])

    return shows


@pytest.mark.parametrize("policy", ["skip", BAD], ids=["skip", "letters"])
def test_a_function_of_peek_that_raises_ends_the_record_as_any_other_does(spark: SparkSession, policy: Any) -> None:
    first: list[int] = []
    second: list[int] = []
    behind: list[int] = []
    driver = piped(TopologyTestDriver(peeking(policy, first, second, behind)), 40)
    assert driver.runs_in == "process", driver.why_spark
    chance, parts = Random(5), []
    for _ in range(40):
        parts.append(chance.choice([0, 1, 2, 4]))
        chance.choice("ab")
    divided = [number for number in range(40) if parts[number]]
    fine = [number for number in divided if number % 5]
    assert [record.ts for record in driver.read("shown")] == fine
    # a record that ends for another function is not shown
    assert first == divided
    # an operator's results come key by key
    assert second == sorted(behind) == fine
    assert [record.ts for record in driver.read("shares")] == fine
    assert [record.ts for record in driver.read("latest")] == [number for number in fine if number % 7]
    reason = "function_error" if policy == "skip" else "dead_letter"
    later = sum(number % 7 == 0 for number in fine)
    assert driver.drops == {("orders", reason): 40 - len(fine), ("latest", reason): later}
    if policy == BAD:
        letters = {letter.ts: dict(letter.headers or ()) for letter in driver.read("bad")}
        assert sorted(letters) == [number for number in range(40) if number not in fine or number % 7 == 0]
        said = {number: (told["__streams.errors.message"] or b"").decode() for number, told in letters.items()}
        assert all(f"ValueError({n})" in said[n] for n in letters if n in divided)


def test_without_a_policy_a_function_of_peek_that_raises_fails_the_query(spark: SparkSession) -> None:
    driver = piped(TopologyTestDriver(peeking("fail", [], [], [])), 1)
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|0"):
        driver.read("shown")


def test_a_function_of_peek_in_a_stage_that_spark_evaluates_is_refused_with_a_policy(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("refused", on_error="skip")
    orders = builder.stream("orders", key="string", value=wm.json("amount int, parts int"), on_error="fail")
    counts = orders.group_by_key().count(name="counts").to_stream().peek(print, name="shows")
    counts.map_values(lambda count: F.initcap(count.cast("string"))).to("counts")
    with pytest.raises(ConfigError, match="action of shows: by Spark"):
        builder.build()
