"""An output topic for each record, which a function names."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.test_flat_maps import functions_in
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
TOPICS = ["by-de", "by-fr"]


def country(value: Any) -> Any:
    return F.concat(F.lit("by-"), value)


def topology(selector: Any = country, policy: Any = "fail") -> wm.Topology:
    builder = wm.StreamsBuilder("chosen", on_error=policy)
    builder.stream("in", key="long", value="string", headers=True).to(selector, topics=TOPICS)
    return builder.build()


def fed(driver: TopologyTestDriver, *values: str | None) -> dict[str, list[Any]]:
    for number, value in enumerate(values):
        driver.pipe("in", number, value, ts=number, headers=[("to", b"by-de")])
    return {name: [record.value for record in driver.read(name)] for name in TOPICS}


@pytest.mark.parametrize(
    "selector",
    [
        country,
        lambda key, value: F.when(key >= 0, country(value)),
        lambda value, record: F.when(record["offset"] >= 0, country(value)),
        wm.python(lambda value: f"by-{value}", "string"),
    ],
)
def test_each_record_goes_to_the_topic_that_the_function_names(spark: SparkSession, selector: Any) -> None:
    made = topology(selector)
    wanted = {"by-de": ["de", "de"], "by-fr": ["fr"]}
    assert fed(TopologyTestDriver(made), "de", "fr", "de") == wanted
    with functions_in(spark, "spark"):
        assert fed(TopologyTestDriver(made, spark), "de", "fr", "de") == wanted


def test_a_name_that_is_none_of_the_topics_goes_by_on_error_with_its_text() -> None:
    skipped = TopologyTestDriver(topology(policy="skip"))
    assert fed(skipped, "de", "us", None, "fr") == {"by-de": ["de"], "by-fr": ["fr"]}
    assert skipped.drops == {("in", "function_error"): 2}
    sent = TopologyTestDriver(topology(policy=wm.DeadLetter("bad")))
    assert fed(sent, "us", "fr", None) == {"by-de": [], "by-fr": ["fr"]}
    told = [dict(letter.headers or ())["__streams.errors.message"] or b"" for letter in sent.read("bad")]
    assert [b"has this name: by-us; there are by-de, by-fr." in told[0], b": null;" in told[1]] == [True, True]
    with pytest.raises(wm.FunctionError, match="No topic of topics= has this name: by-us"):
        fed(TopologyTestDriver(topology()), "us")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda s: s.to(country, topics=[]), r"topics=\[\].*Hint: "),
        (lambda s: s.to(country, topics="by-de"), r"topics='by-de'.*Hint: "),
        (lambda s: s.to(country, topics=["a", "a"]), r"each once.*Hint: "),
        (lambda s: s.to("out", topics=["a"]), r"topics= is for a function.*Hint: "),
        (
            lambda s: s.to(lambda value: F.length(value), topics=["a"]),
            r"topic selector must return a name, not int.*Hint: ",
        ),
        (lambda s: s.to(country), r"function of batches"),
    ],
)
def test_what_names_no_topics_is_refused_with_the_way(mistake: Any, said: str) -> None:
    stream = wm.StreamsBuilder("mistakes").stream("in", key="long", value="string")
    with pytest.raises((TopologyError, FunctionError), match=f"(?s){said}"):
        mistake(stream)
