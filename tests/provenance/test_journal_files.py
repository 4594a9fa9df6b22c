"""The journal's files: which are removed and when, and what a reader says of those that are gone. No Spark runs."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DecimalType, DoubleType, LongType, StructField, StructType, TimestampType

from watersmeet._spark.checkpoint.folders import local_folder
from watersmeet._spark.checkpoint.pattern_topics import TopicNumbers
from watersmeet._spark.journal import WHOLE, JournalBatch, JournalWriter, remove
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet.errors import ConfigError, CorruptData
from watersmeet.provenance import Why

DAY_MS = 86_400_000


def put(journal: Path, number: int, ended_ms: int | None) -> JournalBatch:
    """A batch of two files; None: it was broken off."""
    folder = journal / str(number)
    folder.mkdir(parents=True)
    for task in (0, 1):
        rows = pa.table({"offset": [number]})
        with pa.ipc.new_file(str(folder / f"records-0-{task}.arrow"), rows.schema) as file:
            file.write_table(rows)
    if ended_ms is not None:
        (folder / WHOLE).write_text(json.dumps({"ended_ms": ended_ms}))
    return JournalBatch(number, folder, ended_ms or 0)


def numbers(journal: Path) -> list[int]:
    return sorted(int(each.name) for each in journal.iterdir())


def begun(journal: Path, keep_ms: int | None, guard: Any = lambda: None) -> BatchGate:
    gate = BatchGate()
    JournalWriter(journal, keep_ms, guard, ("orders",)).join(gate)
    return gate


def test_a_batch_that_leaves_the_journal_while_it_is_read_is_never_read_in_part(tmp_path: Path) -> None:
    batch = put(tmp_path, 4, 7)
    assert len(list(batch.frames())) == 2
    frames = batch.frames()
    next(frames)
    remove(batch.folder)
    with pytest.raises(ConfigError, match=r"Batch 4 left the journal while it was read[\s\S]*Ask again"):
        list(frames)
    with pytest.raises(ConfigError, match="Batch 4 left the journal"):
        list(batch.frames())


def test_a_batch_that_is_removed_by_half_does_not_count_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = put(tmp_path, 4, 7)

    def killed(folder: Path, **options: Any) -> None:
        next(folder.glob("*.arrow")).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(batch.folder)
    assert [each.name for each in batch.folder.iterdir()] in (["records-0-0.arrow"], ["records-0-1.arrow"])
    with pytest.raises(ConfigError, match="left the journal"):
        list(batch.frames())


def test_a_damaged_file_of_the_journal_says_that_the_query_does_not_need_it(tmp_path: Path) -> None:
    batch = put(tmp_path, 4, 7)
    (batch.folder / "records-0-1.arrow").write_bytes(b"altered")
    with pytest.raises(CorruptData, match=r"Remove this folder of the journal; the query does not need it\."):
        list(batch.frames())


def test_a_query_that_was_passed_by_removes_nothing_of_the_journal(tmp_path: Path) -> None:
    put(tmp_path, 0, 1)
    put(tmp_path, 1, time.time_ns() // 1_000_000)

    def passed_by() -> None:
        raise ConfigError("The checkpoint is another query's.")

    gate = begun(tmp_path, None, passed_by)
    with pytest.raises(ConfigError, match="another query's"):
        gate.before_batch(1)
    assert numbers(tmp_path) == [0, 1]
    assert len(list((tmp_path / "1").iterdir())) == 3


def test_batches_that_are_too_old_leave_at_the_start_and_before_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10 * DAY_MS]
    monkeypatch.setattr("watersmeet._spark.journal.time.time_ns", lambda: now[0] * 1_000_000)
    put(tmp_path, 0, 8 * DAY_MS)
    put(tmp_path, 1, None)
    put(tmp_path, 2, 10 * DAY_MS - 5)
    put(tmp_path, 3, None)
    gate = begun(tmp_path, DAY_MS)
    assert numbers(tmp_path) == [2, 3]
    gate.before_batch(3)
    assert not list((tmp_path / "3").iterdir()), "a batch that was broken off begins anew"
    gate.behind_batch(3)
    now[0] += DAY_MS - 5
    gate.before_batch(4)
    gate.behind_batch(4)
    assert numbers(tmp_path) == [2, 3, 4]
    now[0] += 1
    gate.before_batch(5)
    assert numbers(tmp_path) == [3, 4, 5]


def test_a_journal_and_patterns_need_threads_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    nothing: Any = None
    place = local_folder(tmp_path)
    JournalWriter.joining(place, False, BatchGate(), lambda: None, [])
    with pytest.raises(ConfigError, match="explain='1 day' does not work with PYSPARK_PIN_THREAD=false"):
        JournalWriter.joining(place, "1 day", BatchGate(), lambda: None, [])
    with pytest.raises(ConfigError, match=r"wm\.TopicPattern\(\.\.\.\) does not work with PYSPARK_PIN_THREAD=false"):
        TopicNumbers(nothing, [], nothing, nothing, allow_recreated=False)


def test_the_json_of_an_answer_has_values_as_topics_have_them() -> None:
    kinds = {
        "raw": BinaryType(),
        "at": TimestampType(),
        "amount": DecimalType(30, 10),
        "share": DoubleType(),
        "far": LongType(),
    }
    value = StructType([StructField(name, kind) for name, kind in kinds.items()])
    fields = [StructField("key", BinaryType()), StructField("value", value), StructField("timestamp", TimestampType())]
    at = dt.datetime.fromtimestamp(1, dt.UTC)
    row = {"value": (b"\xff", at, Decimal("12345678901234567890.5"), math.nan, 2**62), "timestamp": at}
    node: Any = None
    text = Why("table", b"k", 0, (row,), (), 0, 0, (), StructType(fields), node, "").as_json()
    assert json.loads(text)["key"] == "aw=="
    assert (
        '"rows": [{"value":{"raw":"/w==","at":"1970-01-01T00:00:01.000000Z","amount":12345678901234567890.5000000000,'
        f'"share":"NaN","far":{2**62}}},"timestamp":"1970-01-01T00:00:01.000000Z"}}]'
    ) in text
