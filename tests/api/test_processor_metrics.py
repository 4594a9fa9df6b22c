"""Counters and timers of processors' own, and the builder's wrapper of processors."""

from __future__ import annotations

from typing import Any

import pytest

import watersmeet as wm
from watersmeet._spark.metrics.exporters import families
from watersmeet._spark.metrics.metrics import metrics_as_json, metrics_of_json
from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._worker.counts import Counts, Measure
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


class Looks:
    """Counts hits, and times how long it looks."""

    def init(self, context: Any) -> None:
        self.metrics = context.metrics

    def process(self, record: Any, context: Any) -> None:
        with self.metrics.time("look"):
            self.metrics.count("letters", len(record.value))
        self.metrics.count("seen")
        if record.value == "bad":
            raise ValueError("bad")
        context.forward(record)


def driver_of(processor: Any, *, wrapper: Any = None, on_error: Any = "fail") -> TopologyTestDriver:
    builder = wm.StreamsBuilder("looks", on_error=on_error, processor_wrapper=wrapper)
    read = builder.stream("in", key="string", value="string")
    read.process_values(processor, value="string", name="look").to("out")
    return TopologyTestDriver(builder.build())


def values(driver: TopologyTestDriver) -> list[Any]:
    return [each.value for each in driver.read("out")]


def test_a_processor_counts_by_names_of_its_own_over_all_batches() -> None:
    driver = driver_of(Looks)
    for value in ("one", "three"):
        driver.pipe("in", "a", value, ts=1)
        assert values(driver) == [value]
    assert driver.counters == {"look": {"letters": 8, "seen": 2}}


def test_a_record_that_ends_with_an_error_has_counted_nothing() -> None:
    driver = driver_of(Looks, on_error="skip")
    driver.pipe("in", "a", "bad", ts=1)
    driver.pipe("in", "a", "one", ts=2)
    assert values(driver) == ["one"]
    assert driver.counters == {"look": {"letters": 3, "seen": 1}}


@pytest.mark.parametrize(("arguments", "said"), [(("hits", -1), "0 or more"), ((1,), "must be a text")])
def test_a_counter_with_a_wrong_name_or_number_is_refused(arguments: Any, said: str) -> None:
    class Wrong:
        def process(self, record: Any, context: Any) -> None:
            context.metrics.count(*arguments)

    driver = driver_of(Wrong)
    driver.pipe("in", "a", "one", ts=1)
    with pytest.raises(FunctionError, match=said):
        driver.read("out")


def test_counters_and_timers_reach_the_metrics_of_a_query_prometheus_and_the_checkpoint() -> None:
    counts = Counts()
    counts.note_numbers({("counted", "look", "seen"): 3, ("timed_calls", "look", "ask"): 2})
    counts.note_numbers({("counted", "look", "seen"): 4, ("timed_ns", "look", "ask"): 500_000_000})
    counts.note_numbers({("counted", "gone", "seen"): 1})
    totals = Totals(CountedPlan((Measure("processed", "look", "process"),)))
    totals.count(0, counts, 0)
    kept = Totals.from_json(totals.to_json())
    metrics = kept.metrics(active=True, at_ms=0)
    assert metrics.counters == {"look": {"seen": 7}}
    assert {name: (timer.calls, timer.seconds) for name, timer in metrics.timers["look"].items()} == {"ask": (2, 0.5)}
    assert metrics_of_json(metrics_as_json(metrics)).timers == metrics.timers
    samples = {name: taken for name, _, _, taken in families(metrics)}
    assert samples["watersmeet_counter_total"] == [(("look", "seen"), 7.0)]
    assert samples["watersmeet_timer_calls_total"] == [(("look", "ask"), 2.0)]
    assert samples["watersmeet_timer_seconds_total"] == [(("look", "ask"), 0.5)]


class Marked:
    """Wraps a processor: marks each value that it gets."""

    def __init__(self, name: str, processor: Any) -> None:
        self._name, self._processor = name, processor

    def init(self, context: Any) -> None:
        self._processor.init(context)

    def process(self, record: Any, context: Any) -> None:
        record.value = f"{self._name}: {record.value}"
        self._processor.process(record, context)


def test_a_wrapper_gets_each_processor_with_the_name_of_its_operator() -> None:
    driver = driver_of(Looks, wrapper=lambda name, processor: lambda: Marked(name, processor()))
    driver.pipe("in", "a", "one", ts=1)
    assert values(driver) == ["look: one"]
    names: list[str] = []

    def noting(name: str, processor: Any) -> Any:
        names.append(name)
        return processor

    builder = wm.StreamsBuilder("names", processor_wrapper=noting)
    stream, table = (getattr(builder, kind)(kind, key="string", value="string") for kind in ("stream", "table"))
    stream.process(Looks, value="string", name="one").to("out")
    stream.map_values(lambda value: value).to("plain")

    class Upper:
        def transform(self, record: Any, context: Any) -> Any:
            return record.value

    table.transform_values(Upper, value="string", name="two").to("rows")
    assert names == ["one", "two"]


def test_what_a_wrapper_gives_must_be_a_processor_and_it_is_told_so_where_the_processor_is_put_in() -> None:
    with pytest.raises(TopologyError, match="processor_wrapper must give a class"):
        driver_of(Looks, wrapper=lambda name, processor: processor())
    with pytest.raises(FunctionError, match="processor_wrapper takes other arguments"):
        wm.StreamsBuilder("names", processor_wrapper=lambda processor: processor)
