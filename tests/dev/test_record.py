"""The recorder's histories: what is drawn is a function of its seed, and is what the recordings hold."""

from __future__ import annotations

import gzip
import json

import pytest

from dev.jars import JARS
from dev.record.__main__ import INTO, SEED, drawn, recorded
from dev.record.families import FILES

FIRST = 40


@pytest.mark.parametrize("name", FILES)
def test_the_recordings_are_of_the_histories_that_their_seed_draws(name: str) -> None:
    with gzip.open(INTO / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        kept = [json.loads(line) for line in lines]
    histories = [json.loads(line) for line in drawn(name, SEED).splitlines()]
    assert len(kept) == len(histories) == FILES[name][0]
    for was, is_now in zip(kept, histories, strict=True):
        # a step is a record, or an advance of the wall clock
        steps = [{field: value for field, value in step.items() if field != "expect"} for step in was["steps"]]
        assert (was["id"], was["kind"], was["params"], steps) == tuple(is_now[field] for field in is_now)


def test_another_seed_draws_other_histories() -> None:
    assert drawn("cogroup", 1) != drawn("cogroup", 2)


@pytest.mark.proof
@pytest.mark.skipif(not (JARS / "streams").exists(), reason="the jars of Kafka Streams are those of make jars")
@pytest.mark.parametrize("name", FILES)
def test_kafka_streams_says_again_what_it_said(name: str) -> None:
    first = "".join(drawn(name, SEED).splitlines(keepends=True)[:FIRST])
    kept = gzip.decompress((INTO / f"{name}.jsonl.gz").read_bytes()).decode("utf-8")
    assert recorded(first) == "".join(kept.splitlines(keepends=True)[:FIRST])
