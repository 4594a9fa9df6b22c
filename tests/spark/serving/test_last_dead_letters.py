"""The last dead letters as the page shows them, of records as a consumer has them. No Kafka."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet._spark.serving import page
from watersmeet._spark.serving.page import SECONDS, LetterTopics, letter_of
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka

PREFIX = "__streams.errors."


def letter(key: bytes | None, value: bytes | None, **headers: bytes) -> dict[str, Any]:
    return letter_of(("bad", 1, 7, 5_000), key, value, [(PREFIX + name, text) for name, text in headers.items()])


def test_a_letter_says_where_its_record_was_and_why_it_ended() -> None:
    place = {"topic": b"orders", "partition": b"3", "offset": b"42", "timestamp": b"1000"}
    found = letter(b"k", b"{}", operator=b"totals", reason=b"late", message=b"too late", **place)
    assert (found["record"], found["time"], found["time_ms"]) == ("orders-3@42", "1970-01-01T00:00:01.000+00:00", 1000)
    assert (found["operator"], found["reason"], found["message"]) == ("totals", "late", "too late")
    assert (found["key"], found["key_text"], found["value_text"]) == ("aw==", "k", "{}")


def test_of_a_huge_or_unreadable_letter_a_bounded_text_is_shown() -> None:
    found = letter(b"\xff\x00", b"x" * 1_000_000, timestamp=b"no number")
    assert (found["key_text"], found["record"], found["time_ms"]) == ("\\xff\x00", None, 5000)
    assert found["value_text"] == "x" * 200 + "..."
    assert len(str(letter(b"\xff" * 10_000, b"\xff" * 10_000))) < 2_000


def test_a_letter_of_nulls_and_without_headers_is_shown_as_such() -> None:
    found = letter(None, None)
    assert [found[name] for name in ("key", "key_text", "value_text", "operator", "reason", "record")] == [None] * 6


def test_a_connection_that_only_java_knows_is_answered_with_what_to_do() -> None:
    kafka = Kafka("localhost:1", consumer={"security.protocol": "SASL_SSL", "sasl.jaas.config": "secret"})
    with pytest.raises(ConfigError, match=r"(?s)Dead letters are not shown.*Hint: Install the extra kafka") as refused:
        LetterTopics(kafka, ("bad",)).last()
    assert "secret" not in str(refused.value)


class SlowConsumer:
    """A Kafka that needs a second for each answer, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = list[tuple[str, int]]()

    def monotonic(self) -> float:
        return self.now

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict.fromkeys(range(8)))})

    def get_watermark_offsets(self, place: tuple[str, int], timeout: float) -> tuple[int, int]:
        self.now += 1
        self.asked.append(place)
        return 0, 0

    def close(self) -> None:
        """Nothing."""


def test_a_look_ends_in_time_however_many_partitions_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowConsumer()
    client = SimpleNamespace(
        Consumer=None, KafkaException=RuntimeError, TopicPartition=lambda topic, number: (topic, number)
    )
    monkeypatch.setattr(page.kafka_client, "client", lambda: client)
    monkeypatch.setattr(page.kafka_client, "make", lambda *_: slow)
    monkeypatch.setattr(page, "time", slow)
    assert LetterTopics(Kafka("localhost:1"), ("one", "two", "three")).last() == []
    assert slow.now == SECONDS
    assert slow.asked == [*(("one", n) for n in range(8)), ("two", 0), ("two", 1)]
