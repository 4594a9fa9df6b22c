"""Records' times by a function of key and value: in the driver's process, in levels and under Spark; every policy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.test_flat_maps import functions_in
from watersmeet.errors import FunctionError, SourceError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.windows import LONGEST_MS

pytestmark = pytest.mark.usefixtures("spark")
VALUE = wm.json("at timestamp, ms long, n int")
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_577_880_000_000
EXTRACTORS: dict[str, Callable[..., Any]] = {
    "a timestamp": lambda value: value["at"],
    "a long": lambda value: value["ms"],
    "of key and value": lambda key, value: F.when(key == "k", value["ms"]),
    "plain Python": wm.python(lambda value: value["ms"] if value else None, "long"),
}


def topology(extractor: Any, policy: Any = None, *, by_spark: bool = False) -> wm.Topology:
    builder = wm.StreamsBuilder("timed")
    stream = builder.stream("in", key="string", value=VALUE, timestamp=extractor, on_invalid_timestamp=policy)
    stream.map_values(lambda value: F.log(value["n"]) if by_spark else value["n"]).to("out")
    return builder.build()


def times(driver: TopologyTestDriver) -> list[int]:
    return [record.ts for record in driver.read("out")]


@pytest.mark.parametrize("extractor", EXTRACTORS.values(), ids=EXTRACTORS)
@pytest.mark.parametrize("place", ["process", "level", "spark"])
def test_a_record_has_the_time_that_the_function_gives(spark: SparkSession, extractor: Any, place: str) -> None:
    made = topology(extractor)
    with functions_in(spark, "level" if place == "process" else place):
        driver = TopologyTestDriver(made, None if place == "process" else spark)
        assert driver.runs_in == ("process" if place == "process" else "spark"), driver.why_spark
        driver.pipe("in", "k", {"at": NOON, "ms": NOON_MS, "n": 1}, ts=5)
        driver.pipe("in", "k", {"at": NOON, "ms": NOON_MS, "n": 2}, ts=-1)
        assert times(driver) == [NOON_MS, NOON_MS]
        assert driver.drops == {}


@pytest.mark.parametrize(
    ("ms", "said"), [(NOON_MS // 1000, r"in 1970.*\* 1000"), (NOON_MS * 1_000, r"beyond the year 3000.*/ 1000")]
)
def test_a_time_of_another_unit_is_a_warning_that_names_the_unit(spark: SparkSession, ms: int, said: str) -> None:
    driver = TopologyTestDriver(topology(lambda value: value["ms"]))
    driver.pipe("in", "k", {"ms": ms, "n": 1}, ts=0)
    with pytest.warns(UserWarning, match=rf"(?s)timestamp= of 'in'.*{said}"):
        assert times(driver) == [ms]


BAD: dict[str, dict[str, Any]] = {
    "null": {"ms": None, "n": 1},
    "negative": {"ms": -1, "n": 1},
    "too late": {"ms": LONGEST_MS + 1, "n": 1},
}


@pytest.mark.parametrize("bad", [*BAD.values(), None], ids=[*BAD, "a tombstone"])
@pytest.mark.parametrize("by_spark", [False, True], ids=["in the level", "by Spark"])
def test_a_record_without_a_time_goes_by_its_inputs_policy(spark: SparkSession, bad: Any, by_spark: bool) -> None:
    found, drops = {}, {}
    for name, policy in {"skip": "skip", "own": "own", "letter": wm.DeadLetter("bad")}.items():
        driver = TopologyTestDriver(
            topology(EXTRACTORS["a long"], policy, by_spark=by_spark), spark if by_spark else None
        )
        driver.pipe("in", "k", {"ms": 7, "n": 1}, ts=1)
        driver.pipe("in", "k", bad, ts=2)
        driver.pipe("in", "k", bad, ts=-3)
        found[name], drops[name] = times(driver), driver.drops
        if name == "letter":
            letters = driver.read("bad")
            told = [dict(letter.headers or ()) for letter in letters]
            assert [(letter.key, letter.ts) for letter in letters] == [(b"k", 2), (b"k", 0)]
            assert {each["__streams.errors.reason"] for each in told} == {b"invalid_timestamp"}
            assert b"The timestamp extractor returns no time" in (told[0]["__streams.errors.message"] or b"")
            assert told[0]["__streams.errors.exception"] == b"watersmeet.errors.SourceError"
    assert found == {"skip": [7], "own": [7, 2], "letter": [7]}
    assert drops == {
        "skip": {("in", "invalid_timestamp"): 2},
        "own": {("in", "negative_timestamp"): 1},
        "letter": {("in", "dead_letter"): 2},
    }


@pytest.mark.parametrize("by_spark", [False, True], ids=["in the level", "by Spark"])
def test_a_record_that_ends_without_a_time_passes_no_filter_behind_its_input(
    spark: SparkSession, by_spark: bool
) -> None:
    found = {}
    for policy in ("skip", "own"):
        builder = wm.StreamsBuilder("filtered")
        options = {"timestamp": EXTRACTORS["a long"], "on_invalid_timestamp": policy}
        stream: Any = builder.stream("in", key="string", value=VALUE, **options)
        odd = stream.filter_not(lambda value: value["n"] % 2 == 0)
        odd.map_values(lambda value: F.log(value["n"]) if by_spark else value["n"]).to("out")
        driver = TopologyTestDriver(builder.build(), spark if by_spark else None)
        for value, ts in (({"ms": 7, "n": 1}, 1), (BAD["null"], 2), (BAD["negative"], -3), (BAD["too late"], 4)):
            driver.pipe("in", "k", value, ts=ts)
        found[policy] = times(driver)
    assert found == {"skip": [7], "own": [7, 2, 4]}


@pytest.mark.parametrize(("bad", "why"), [(BAD["null"], "null"), (BAD["negative"], "-1 ms")], ids=["null", "negative"])
def test_without_a_policy_it_fails_and_says_where(bad: Any, why: str) -> None:
    driver = TopologyTestDriver(topology(EXTRACTORS["a long"]))
    driver.pipe("in", "k", {"ms": 7, "n": 1}, ts=1)
    driver.pipe("in", "k", bad, ts=2)
    with pytest.raises(
        SourceError, match=f"(?s)of in returns no time for a record.*partition 0, offset 1: it gives {why}.*Hint: "
    ):
        driver.read("out")


def raising(value: Any) -> int:
    if value["n"] == 0:
        raise ValueError("no time at all")
    return int(value["ms"])


RAISING: dict[str, Any] = {
    "plain Python": wm.python(raising, "long"),
    "a Column": lambda value: (value["ms"] / value["n"] * value["n"]).cast("long"),
}


@pytest.mark.parametrize("extractor", RAISING.values(), ids=RAISING)
def test_an_extractor_that_raises_goes_by_the_policy_too_and_only_for_its_record(extractor: Any) -> None:
    found = {}
    for policy in ("skip", "own", wm.DeadLetter("bad")):
        driver = TopologyTestDriver(topology(extractor, policy))
        for ts, (ms, n) in enumerate(((7, 1), (8, 0), (9, 1), (10, 0))):
            driver.pipe("in", "k", {"ms": ms, "n": n}, ts=ts)
        found[str(policy)] = times(driver)
        if not isinstance(policy, str):
            assert len(driver.read("bad")) == 2
    assert list(found.values()) == [[7, 9], [7, 1, 9, 3], [7, 9]]
    driver = TopologyTestDriver(topology(extractor))
    driver.pipe("in", "k", {"ms": 8, "n": 0}, ts=0)
    with pytest.raises(SourceError, match=r"(?s)of in returns no time for a record.*offset 0"):
        driver.read("out")


def test_tables_and_global_tables_and_windows_go_by_the_given_times() -> None:
    builder = wm.StreamsBuilder("kinds")
    at = lambda value: value["ms"]  # noqa: E731
    clicks = builder.stream("clicks", key="string", value=VALUE, timestamp=at)
    table = builder.table(
        "table", key="string", value=VALUE, timestamp=at, on_invalid_timestamp="own", history="1 hour"
    )
    everywhere = builder.global_table("all", key="string", value=VALUE, timestamp=at)
    clicks.join(table, lambda click, row: F.struct(click["ms"].alias("ms"), row["n"].alias("n"))).to("joined")
    clicks.join(everywhere, lambda click, row: row["n"], key=lambda key, value: key).to("looked")
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    clicks.group_by_key().windowed_by(windows).count().to_stream().map_values(lambda key, count: key["start"]).to(
        "counts"
    )
    driver = TopologyTestDriver(builder.build())
    driver.pipe("all", "k", {"ms": 1, "n": 5}, ts=900)
    driver.pipe("table", "k", {"ms": 10, "n": 1}, ts=900)
    driver.pipe("table", "k", {"ms": 20, "n": 2}, ts=0)
    for ms in (15, 25, 12):
        driver.pipe("clicks", "k", {"ms": ms, "n": 0}, ts=1000 - ms)
    assert [tuple(r.value) for r in driver.read("joined")] == [(15, 1), (25, 2), (12, 1)]
    assert [(r.value, r.ts) for r in driver.read("looked")] == [(5, 15), (5, 25), (5, 12)]
    assert [r.value for r in driver.read("counts")] == [10, 20]
    assert driver.drops[next(drop for drop in driver.drops if drop[1] == "expired_window")] == 1


@pytest.mark.parametrize(
    ("extractor", "hint"),
    [
        (lambda value: value["n"], "cast\\('long'\\) \\* 1000"),
        (lambda value: F.to_date(value["at"]), "cast\\('timestamp'\\)"),
        (lambda value: F.lit("2020"), "F.to_timestamp"),
    ],
)
def test_what_is_no_time_is_refused_on_the_line_that_reads_the_topic(extractor: Any, hint: str) -> None:
    with pytest.raises(FunctionError, match=f"(?s)The timestamp extractor must return a time, not .*Hint: .*{hint}"):
        topology(extractor)


def test_options_that_do_not_fit_are_refused_with_their_cure() -> None:
    read = {"key": "string", "value": VALUE}
    with pytest.raises(TopologyError, match=r"(?s)timestamp='at'.*Hint: timestamp=lambda value: value\['at'\]"):
        wm.StreamsBuilder("a").stream("in", **read, timestamp="at")
    with pytest.raises(TopologyError, match=r"(?s)on_invalid_timestamp='skip'.*Hint: Give timestamp="):
        wm.StreamsBuilder("b").stream("in", **read, on_invalid_timestamp="skip")
    with pytest.raises(TopologyError, match=r'(?s)on_invalid_timestamp=\'drop\'.*Hint: Take "fail", "skip", "own"'):
        wm.StreamsBuilder("c").stream("in", **read, timestamp=lambda v: v["ms"], on_invalid_timestamp="drop")


def test_a_dataframes_time_may_be_a_function_of_key_and_value(spark: SparkSession, tmp_path: Any) -> None:
    rows = spark.createDataFrame([(1, "a", NOON, 5), (2, "a", NOON, 6)], "row int, id string, at timestamp, n int")
    builder = wm.StreamsBuilder("rows")
    read = builder.stream(rows, name="rows", key="id", order="row", timestamp=lambda value: value["at"])
    read.map_values(lambda value: value["n"]).to(wm.Writer("parquet", path=str(tmp_path / "out")), name="out")
    query = builder.build().start(spark, checkpoint=tmp_path / "cp", available_now=True)
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert {row["timestamp"].timestamp() for row in found.collect()} == {NOON.timestamp()}, found.columns
