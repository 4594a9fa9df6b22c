"""Hints are followed: what an error tells its reader to write is written, and it works (design rule of errors)."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from types import NoneType
from typing import Any, get_args

import pytest

import watersmeet as wm
from proof.arrow import arrow_builder
from tests.engine.kit import PLUS, REF
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.query.query import Query
from watersmeet._spark.serving.client import ServedTable
from watersmeet.errors import MissingName, TopologyError, WatersmeetError, WrongCall
from watersmeet.hints import argument_types, elsewhere, public
from watersmeet.processors import Context, ListState, MapState, Record, ValueState
from watersmeet.provenance import Why
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.testing.stores import EntryStore, KeyValueStore, VersionedKeyValueStore, WindowStore
from watersmeet.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

TEXTS: dict[str, Any] = {"key": "string", "value": "string"}
KINDS = {"KStream": wm.KStream, "KTable": wm.KTable, "WTable": wm.WTable, "GlobalKTable": wm.GlobalKTable}
KINDS |= {"KGroupedStream": wm.KGroupedStream, "KGroupedTable": wm.KGroupedTable}
KINDS |= {"Topology": wm.Topology, "StreamsBuilder": wm.StreamsBuilder, "CogroupedKStream": wm.CogroupedKStream}
KINDS |= {each.__name__: each for each in (wm.TimeWindowedKStream, wm.SessionWindowedKStream)}
KINDS |= {each.__name__: each for each in (wm.TimeWindows, wm.SlidingWindows, wm.SessionWindows, wm.CalendarWindows)}
KINDS |= {each.__name__: each for each in (TopologyTestDriver, TestInputTopic, TestOutputTopic, Query, ServedTable)}
KINDS |= {each.__name__: each for each in (wm.JoinWindows, TestRecord, KeyValueStore, VersionedKeyValueStore)}
KINDS |= {each.__name__: each for each in (WindowStore, EntryStore, wm.ValueStore, wm.ListStore, wm.MapStore)}
KINDS |= {each.__name__: each for each in (wm.Store, wm.TableClient, Why)}
KINDS |= {each.__name__: each for each in (wm.Aggregate, Metrics, Context, Record, ValueState, ListState, MapState)}
WINDOWS = wm.JoinWindows.of_time_difference_and_grace("5 minutes", "1 minute")


class Names:
    """A builder with an input of each kind, as the hints' examples call them."""

    def __init__(self) -> None:
        self.builder = arrow_builder("hints")
        self.stream = self.builder.stream("stream", **TEXTS)
        self.other = self.builder.stream("other", **TEXTS)
        self.table = self.builder.table("table", **TEXTS)
        self.numbers = self.builder.stream("numbers", key="long", value="string")
        self.countries = self.builder.global_table("countries", **TEXTS)


Act = Callable[[Names], Any]
FOLLOWED: list[tuple[Act, str, Act]] = [
    (
        lambda n: n.table.join(n.countries, PLUS),
        "foreign_key=",
        lambda n: n.table.join(n.countries, PLUS, foreign_key=REF),
    ),
    (lambda n: n.stream.join(n.countries, PLUS), " key=", lambda n: n.stream.join(n.countries, PLUS, key=REF)),
    (
        lambda n: n.table.outer_join(n.countries, PLUS),
        "left_join(table, joiner, foreign_key=...)",
        lambda n: n.table.left_join(n.countries, PLUS, foreign_key=REF),
    ),
    (
        lambda n: n.stream.outer_join(n.countries, PLUS, WINDOWS),
        "left_join(table, joiner, key=...)",
        lambda n: n.stream.left_join(n.countries, PLUS, key=REF),
    ),
    (
        lambda n: n.stream.join(n.numbers, PLUS, WINDOWS),
        "stream.select_key",
        lambda n: n.stream.join(n.numbers.select_key(REF), PLUS, WINDOWS),
    ),
    (
        lambda n: n.table.join(n.numbers.to_table(), PLUS),
        "table.to_stream().select_key(lambda key, value: key.cast(...)).to_table()",
        lambda n: n.table.join(n.numbers.to_table(name="t").to_stream().select_key(REF).to_table(), PLUS),
    ),
    (
        lambda n: n.stream.join(n.table, PLUS, key=REF),
        "stream.select_key(...).join(table",
        lambda n: n.stream.select_key(REF).join(n.table, PLUS),
    ),
    (lambda n: n.stream.join(n.table, PLUS, WINDOWS), "Leave windows= out", lambda n: n.stream.join(n.table, PLUS)),
    (
        lambda n: n.stream.join(n.other, PLUS),
        "JoinWindows.of_time_difference_and_grace(",
        lambda n: n.stream.join(n.other, PLUS, WINDOWS),
    ),
    (lambda n: n.stream.merge(n.table), "table.to_stream()", lambda n: n.stream.merge(n.table.to_stream())),
    (lambda n: n.table.join(n.stream, PLUS), "to_table()", lambda n: n.table.join(n.stream.to_table(), PLUS)),
    (lambda n: n.table.join(n.stream, PLUS), "stream.join(table", lambda n: n.stream.join(n.table, PLUS)),
    (
        lambda n: n.table.one_to_many_join(n.stream, PLUS, key=REF),
        "stream.to_table()",
        lambda n: n.table.one_to_many_join(n.stream.to_table(), PLUS, key=REF),
    ),
    (
        lambda n: n.countries.join(n.table, PLUS, key=REF),
        "stream.join(table, joiner, key=...)",
        lambda n: n.stream.join(n.countries, PLUS, key=REF),
    ),
    (
        lambda n: n.stream.split({}),
        "split({'large': predicate}, default='rest')",
        lambda n: n.stream.split({}, default="rest"),
    ),
    (
        lambda n: n.builder.table("stream", **TEXTS),
        "one of them name=",
        lambda n: n.builder.table("stream", name="again", **TEXTS),
    ),
    (lambda n: n.builder.stream("x", key="string"), '"string"', lambda n: n.builder.stream("x", **TEXTS)),
    (lambda n: n.builder.stream("x", order="a", **TEXTS), "key=, value=", lambda n: n.builder.stream("x", **TEXTS)),
    (
        lambda n: n.stream.to(wm.Writer("console")),
        "to(..., name=...)",
        lambda n: n.stream.to(wm.Writer("console"), name="c"),
    ),
    (lambda n: n.stream.to(n.table), "stream.to('topic')", lambda n: n.stream.to("topic")),
    (lambda n: n.stream.to("table"), "another topic", lambda n: n.stream.to("another")),
    (lambda n: n.stream.to("table"), "that through() returns", lambda n: n.stream.through("far").to("farther")),
    (
        lambda n: wm.Topic("t", "string", "string", on_undecodable="drop"),
        '"skip"',
        lambda n: wm.Topic("t", "string", "string", on_undecodable="skip"),
    ),
    (
        lambda n: wm.StreamsBuilder("t", on_undecodable="drop"),  # type: ignore[arg-type]
        'wm.DeadLetter("topic")',
        lambda n: n.builder.stream("t", on_undecodable=wm.DeadLetter("bad"), **TEXTS),
    ),
    (
        lambda n: WINDOWS.grace("2 minutes"),
        "of_time_difference_and_grace",
        lambda n: wm.JoinWindows.of("1 day").grace("0 ms"),
    ),
]


@pytest.mark.parametrize(("mistake", "hint", "followed"), FOLLOWED, ids=[hint for _, hint, _ in FOLLOWED])
def test_a_hint_that_is_followed_works(mistake: Act, hint: str, followed: Act) -> None:
    with pytest.raises(WatersmeetError) as error:
        mistake(Names())
    assert hint in (error.value.hint or "")
    names = Names()
    followed(names)
    names.stream.to("somewhere", name="else")
    names.builder.build()


def test_names_of_kafka_streams_and_pyspark_are_answered_with_what_they_are_called_here() -> None:
    names = Names()
    asked = {
        "leftJoin": lambda: names.table.leftJoin,
        "mapValues": lambda: names.stream.mapValues,
        "toStream": lambda: names.table.toStream,
        "selectKey": lambda: names.stream.selectKey,
        "globalTable": lambda: names.builder.globalTable,
        "ofTimeDifferenceAndGrace": lambda: wm.JoinWindows.ofTimeDifferenceAndGrace,
    }
    for name, ask in asked.items():
        with pytest.raises(MissingName) as error:
            ask()
        snake = re.sub("([A-Z])", r"_\1", name).lower()
        assert error.value.hint == f"Here it is called {snake}."


@pytest.mark.parametrize("name", ["transform", "transform_values"])
def test_what_kafka_streams_did_by_transformers_is_answered_with_mappers_and_processors(name: str) -> None:
    with pytest.raises(MissingName, match=f"KStream has no '{name}'") as error:
        getattr(Names().stream, name)
    assert "map_values(mapper)" in (error.value.hint or "")
    assert "process_values(Processor, value='type', stores=[...])" in (error.value.hint or "")


def test_what_stands_for_another_name_is_there_and_the_name_is_not() -> None:
    for owner, answers in elsewhere().items():
        if owner.startswith("SQL "):
            continue
        has = wm.__all__ if owner == "watersmeet" else public(KINDS[owner])
        # what is said of streams stands for tables, too, where they do not have the name
        inherited = elsewhere()["KStream"] if owner == "KTable" else {}
        assert not set(has) & (set(answers) - set(inherited)), owner
        for answer in answers.values():
            for called in re.findall(r"(?:^|\)\.|other\.|stream\.|builder\.|topology\.|, or )(\w+)\(", answer):
                assert called in wm.__all__ or any(called in public(kind) for kind in KINDS.values()), answer


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("timestamp", 'A timestamp is written as "long", ms since 1970'),
        ("date", 'A date is written as "int", days since 1970'),
        ("decimal(12,2)", "Write wm.decimal(12, 2)."),
        ("struct<a: int>", 'Write wm.json("struct<a: int>").'),
        ("bigint", 'Did you mean "long"?'),
    ],
)
def test_a_type_of_sparks_in_the_place_of_a_format_is_answered_with_one_that_has_it(given: str, hint: str) -> None:
    with pytest.raises(TopologyError, match=f"Unknown format '{re.escape(given)}'") as error:
        Names().builder.stream("typed", key="string", value=given)
    assert (error.value.hint or "").startswith(hint)


@pytest.mark.parametrize(("name", "hint"), [("Column", "from pyspark.sql import Column"), ("lit", "F.lit(...)")])
def test_a_name_of_pysparks_is_answered_with_where_it_is(name: str, hint: str) -> None:
    with pytest.raises(MissingName, match=re.escape(hint)):
        getattr(wm, name)


def test_a_slip_of_the_pen_is_answered_with_what_is_near() -> None:
    with pytest.raises(MissingName, match="Did you mean filter_not"):
        Names().stream.filterot  # noqa: B018
    assert not hasattr(Names().stream, "__array__")


def test_what_is_added_behind_build_is_refused_and_building_twice_is_not() -> None:
    names = Names()
    names.stream.to("out")
    assert names.builder.build().describe() == names.builder.build().describe()
    with pytest.raises(TopologyError, match="has been built"):
        names.stream.to("late")


def test_each_type_of_a_public_signature_is_one_that_arguments_are_checked_by() -> None:
    methods = [getattr(kind, name, None) for kind in KINDS.values() for name in public(kind)]
    functions = [each for each in (*methods, *map(wm.__dict__.get, wm.__all__)) if hasattr(each, "__wrapped__")]
    assert len(functions) > 150
    for function in functions:
        kinds = argument_types(function.__wrapped__)[0]
        parameters = inspect.signature(function).parameters.values()
        assert {each.name for each in parameters if each.annotation is not each.empty} == set(kinds), function


def test_the_options_of_overloads_are_those_of_the_method_each_with_the_types_of_all() -> None:
    options = inspect.signature(wm.KStream.join).parameters
    assert list(options)[:4] == ["self", "other", "joiner", "windows"]
    assert {*list(options)[4:]} == {"match", "generation", "name", "grace", "key", "window_of", "keep"}
    assert options["windows"].default is None
    assert options["keep"].default is None
    assert inspect.signature(wm.KTable.one_to_many_join).parameters["key"].default is inspect.Parameter.empty
    kinds, _ = argument_types(wm.StreamsBuilder.table.__wrapped__)
    assert {wm.Snapshot, wm.Backfill, NoneType} == {*get_args(kinds["bootstrap"])}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hedaers": True}, r"has no option hedaers=True\. Hint: Did you mean headers=\?"),
        ({"name": ""}, r"takes no name=''\. Hint: name= is a text"),
        ({"store": "s"}, "has no option store='s'"),
    ],
)
def test_an_option_that_is_unpacked_is_answered_as_any_other(options: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongCall) as refused:
        arrow_builder("unpacked").stream("in", **TEXTS, **options)
    assert re.search(says, " ".join(str(refused.value).split()))


@pytest.mark.parametrize("stream_first", [True, False])
def test_a_topic_that_the_topology_both_reads_and_writes_is_refused(stream_first: bool) -> None:
    builder = arrow_builder("circle")
    stream = builder.stream("in", **TEXTS)
    if stream_first:
        builder.stream("both", **TEXTS)
        with pytest.raises(TopologyError, match="'both'"):
            stream.to(wm.TopicSink("both"), name="out")
    else:
        stream.to("both")
        with pytest.raises(TopologyError, match="'both'"):
            builder.table("both", name="in again", **TEXTS)


def test_what_is_shown_of_a_topology_and_its_parts_says_what_they_are() -> None:
    names = Names()
    names.stream.to("out")
    assert repr(names.stream) == "KStream('stream', key=string, value=string)"
    assert (
        repr(names.builder.table("t", store="kept", **TEXTS)) == "KTable('t', key=string, value=string, store='kept')"
    )
    topology = names.builder.build()
    assert repr(topology).startswith("Topology('hints', inputs=['stream', 'other',")
    assert "outputs=['out']" in repr(topology)
    assert {"describe", "start"} <= set(dir(topology))


def test_a_topology_with_json_before_there_is_a_session_is_told_to_make_one() -> None:
    program = "import watersmeet as wm; wm.StreamsBuilder('x').table('t', key='long', value=wm.json('a int'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ConfigError: A topology of Spark Columns needs a Spark session." in done.stderr
    assert "Hint: Make one first: spark = watersmeet.session(...)." in done.stderr
