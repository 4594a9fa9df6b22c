"""The captures of real Debezium: all are here, and a capture made again is the same but for its times and positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dev.debezium import captures
from dev.debezium.__main__ import main
from dev.debezium.captures import CAPTURES, INTO, Event, events_of, schemas_of

_OF_THE_RUN = {"ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "pos", "gtid", "thread"}


def test_each_capture_lies_in_a_file_and_no_file_is_left_over() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in INTO.iterdir()} == {each.name for each in CAPTURES}


@pytest.mark.parametrize("name", [each.name for each in CAPTURES])
def test_a_capture_has_events_of_debezium_and_of_avro_the_schemas_that_they_name(name: str) -> None:
    events, schemas = events_of(name), schemas_of(name)
    assert events
    for topic, key, value in events:
        assert topic.startswith(("shop", "__debezium-heartbeat.shop"))
        for each in filter(None, (key, value)):
            if schemas:
                assert each[0] == 0
                assert int.from_bytes(each[1:5]) in schemas
            else:
                # a delete that is flattened is JSON's null
                assert isinstance(json.loads(each), dict) or each == b"null"


@pytest.mark.parametrize("name", ["postgres.changes.transactions", "mariadb.changes.schemas"])
def test_a_capture_that_is_made_again_is_the_same_but_for_times_and_positions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _lasting(events_of(name))
    main(["--into", str(tmp_path), name])
    monkeypatch.setattr(captures, "INTO", tmp_path)
    assert _lasting(events_of(name)) == first


def _lasting(events: list[Event]) -> list[Any]:
    return [(topic, *(_without(json.loads(each or b"null")) for each in (key, value))) for topic, key, value in events]


def _without(value: Any) -> Any:
    """Without what belongs to one run; a transaction's id is a text, and a row's a number."""
    if isinstance(value, list):
        return [_without(each) for each in value]
    if not isinstance(value, dict):
        return value
    left = {name: each for name, each in value.items() if name not in _OF_THE_RUN}
    return {name: _without(each) for name, each in left.items() if name != "id" or not isinstance(each, str)}
