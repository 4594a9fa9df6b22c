"""Headers of results beside those of Kafka Streams 4.3 under `dsl.store.format=headers`: each record has one.

Kafka Streams gives each result the header of the record that was processed when the result was sent. Where a result
has waited this is a stranger's; there it is one of its own records' here (row 41 of section A).
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from proof.arrow import arrow_builder
from proof.recordings import History, read
from proof.runners.engine import by_step
from proof.runners.library import ArrowLibrary
from proof.runners.topologies import build_recorded, shards_of
from tests.engine.headers_kit import Told, one_header

FILE = Path(__file__).parent.parent / "recordings" / "histories" / "headers.jsonl.gz"
OWN = re.compile("-close$|^headers-session|^headers-stream-stream-(left|outer)$")
"""Families with results that have waited, or that have no headers in Kafka Streams: sessions."""


def families() -> dict[str, list[tuple[History, Any]]]:
    recorded = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).decode().splitlines()]
    found: dict[str, list[tuple[History, Any]]] = {}
    for history, row in zip(read(FILE), recorded, strict=True):
        found.setdefault(history.id.split("/")[0], []).append((history, row["steps"]))
    return found


FAMILIES = families()


def results(history: History, cuts: int | None) -> list[list[tuple[str, Any, Any, int]]]:
    """Key, value, timestamp and the steps in the headers of each result, by step."""
    builder, outputs = build_recorded(history, ArrowLibrary(), lambda g: arrow_builder("recorded", generation=g))
    driver = Told(builder.build(), shards=shards_of(history, 2))
    driver.told = lambda piped: one_header("step", piped.step)
    for number, step in enumerate(history.steps):
        if cuts and number % cuts == 0:
            driver.run_batch()
        driver.pipe(str(step.topic), step.key, step.value, ts=step.ts)
    driver.run_batch()
    found = by_step(history, {name: driver.read(name) for name in outputs}, outputs)
    return [[(str(r.key), *seen(r.value), r.ts) for r in step] for step in found]


def seen(value: Any) -> tuple[Any, Any]:
    return value["value"], [int(header["value"]) for header in value["headers"] or []]


def recorded_of(step: Any) -> list[tuple[str, Any, Any, int]]:
    from proof.oracle.records import Windowed

    made = []
    for result in step["expect"]:
        key = Windowed(**result["key"]) if isinstance(result["key"], dict) else result["key"]
        made.append((str(key), result["value"], result["headers"], result["ts"]))
    return made


@pytest.mark.parametrize("cuts", [None, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_results_have_the_headers_that_kafka_streams_gives_or_those_of_their_own_records(
    family: str, cuts: int | None
) -> None:
    same = own = 0
    for history, steps in FAMILIES[family]:
        for step, mine in zip(steps, results(history, cuts), strict=True):
            theirs = {(key, value, ts): headers for key, value, headers, ts in recorded_of(step)}
            for key, value, headers, ts in mine:
                if (key, value, ts) not in theirs:
                    continue  # rows of section A: the results themselves are compared elsewhere
                if headers == theirs[key, value, ts]:
                    same += 1
                    continue
                assert OWN.search(family), (history.id, value, headers, theirs[key, value, ts])
                # values are numbered by their steps, and what is added last stands last; but a sliding window that
                # begins behind a late record is changed by it
                told = [int(number) - 1 for number in re.findall(r"[vb](\d+)", value or "")]
                late = "sliding" in family and told[-1:] < headers
                # a tombstone says no step: it has one header, of a step that there is
                gone = value is None and len(headers) == 1 and headers[0] < len(steps)
                assert gone or late or headers == told[-1:], (history.id, value, headers)
                own += 1
    assert same + own > 10
    assert bool(own) == bool(OWN.search(family)), (same, own)
