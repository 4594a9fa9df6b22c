"""The words for inputs and outputs: what they refuse, in three parts, and what they never show."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import WatersmeetError
from watersmeet.io.formats import Format
from watersmeet.io.inputs import Rows
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import ForeachBatch, Writer
from watersmeet.io.policies import DeadLetter
from watersmeet.io.topics import Topic, TopicSink

CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Topic("orders"), "The topic 'orders' needs a format for its keys"),
        (lambda: Topic("orders", "string"), "The topic 'orders' needs a format for its values"),
        (lambda: Topic("orders", "string", "avro"), "Unknown format"),
        (lambda: Topic("orders", "string", "json"), "JSON is read with a schema"),
        (lambda: Topic("no topic", "string", "string"), "This cannot be the name of a Kafka topic"),
        (lambda: Topic("..", "string", "string"), "This cannot be the name of a Kafka topic"),
        (lambda: Topic("t" * 250, "string", "string"), "This cannot be the name of a Kafka topic"),
        (lambda: Topic("t", "string", "string", on_undecodable="drop"), "Unknown policy"),
        (lambda: DeadLetter("no topic"), "This cannot be the name of a Kafka topic"),
        (lambda: Format("string", "a int"), "The format 'string' takes no schema"),
        (lambda: wm.json(5), "This is not a schema"),
        (lambda: Format.of(None), "Unknown format"),
        (lambda: Rows([1, 2], key="a", timestamp="b"), "wm.Rows takes a DataFrame"),
        (lambda: TopicSink("t", delivery="twice"), "Unknown delivery"),
        (lambda: Writer(""), "wm.Writer needs a format"),
        (lambda: Writer("kafka"), "Writer('kafka') may write records twice"),
        (lambda: ForeachBatch("print"), "ForeachBatch takes a function"),
        (lambda: Kafka("h:1", max_records_per_batch=0), "The limit of records per batch must be 1 or more"),
        (lambda: Kafka("h:1", starting_offsets="middle"), "Unknown starting_offsets"),
        (lambda: Kafka("h:1", source={"minPartitions": 9}), "wm.Kafka(source=...) does not take the option"),
        (
            lambda: Kafka("h:1", source={"maxrecordsperpartition": 9}),
            "wm.Kafka(source=...) does not take the option",
        ),
    ],
)
def test_what_is_ill_formed_cannot_be_made_and_the_error_says_what_was_given_and_has_a_hint(
    make: Callable[[], Any], what: str
) -> None:
    with pytest.raises(WatersmeetError) as error:
        make()
    assert error.value.message.startswith(what)
    # the value stands in the sentence, or behind it
    assert error.value.given is not None or len(error.value.message) > len(what) + 2
    assert error.value.hint


def test_formats_may_be_named_by_a_word() -> None:
    topic = Topic("t", "long", wm.json("a int"))
    assert (topic.key, topic.value) == (Format("long"), Format("json", "a int"))
    assert TopicSink("t").key is None
    assert TopicSink("t", "string", "json").value == wm.json()


def test_a_connection_shows_only_what_is_known_to_be_harmless() -> None:
    with pytest.warns(UserWarning, match=r"'some\.new\.setting'"):
        kafka = Kafka(
            "h:1",
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_username=CANARY,
            sasl_password=CANARY,
            consumer={"sasl.jaas.config": CANARY, "some.new.setting": CANARY},
            producer={"ssl.key.password": CANARY},
            source={"kafka.ssl.keystore.password": CANARY},
        )
    shown = f"{kafka!r} {kafka} {[kafka]}"
    assert CANARY not in shown
    assert "security.protocol='SASL_SSL'" in shown
    assert "sasl.jaas.config=..." in shown


def test_an_address_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(WatersmeetError) as error:
        Kafka(f"user:{CANARY}@h:1")
    assert CANARY not in str(error.value)


def test_a_writer_shows_the_names_of_its_options_alone() -> None:
    assert CANARY not in repr(Writer("jdbc", url=CANARY))
    assert Writer("memory", "q", truncate="q").options == {"truncate": "q"}
    assert hash(Writer("csv", "x", header=True)) == hash(Writer("csv", "x", header="true"))


def test_options_survive_copies_and_pickles() -> None:
    for it in (
        Kafka("h:1", security_protocol="SASL_SSL", consumer={"ssl.key.password": "x"}),
        Writer("parquet", path="p", maxRecordsPerFile=1),
        Topic("t", "int", "long"),
    ):
        assert copy.deepcopy(it) == it
        assert pickle.loads(pickle.dumps(it)) == it
