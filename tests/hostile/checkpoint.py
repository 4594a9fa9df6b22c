"""Files of a checkpoint that were altered: watersmeet's record and numbers, Spark's plans."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.hostile.mutations import OTHER, RIGHT, WRONG, mutated, other_json
from watersmeet._spark.checkpoint import record, spark_logs
from watersmeet._spark.checkpoint.folders import on_this_machine
from watersmeet._spark.checkpoint.record import Checkpoint, CheckpointFacts, look
from watersmeet._spark.metrics import lifetime
from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._worker.counts import Counts, Measure


def checkpoint_files(chance: random.Random, number: int) -> str:
    """The record, the numbers or a plan of a checkpoint that was altered; a sealed one has its sum made anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = on_this_machine(name)
        assert folder is not None
        (Path(name) / "watersmeet").mkdir()
        facts = CheckpointFacts("topology", "4.3", 4, 2, {"blob": 1}, {"in": 2}, addresses={"n": {"t": [1, 2]}})
        checkpoint = Checkpoint(folder, "0" * 32, facts)
        checkpoint.record()
        (Path(name) / "offsets").mkdir()
        (Path(name) / "commits").mkdir()
        (Path(name) / "metadata").write_text('{"id":"x"}')
        for n in range(2):
            ends = json.dumps({"in": {"0": 5 + n, "1": 7 + n}})
            (Path(name) / f"offsets/{n}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{ends}')
            (Path(name) / f"commits/{n}").write_text('v1\n{"nextBatchWatermarkMs":0}')
        folder.put("watersmeet/totals/1", lifetime._text(_totals(), checkpoint.id))
        before = _told(checkpoint)
        files = sorted(file for file in Path(name).rglob("*") if file.is_file())
        file = chance.choice(files)
        sealed = chance.random() < 0.4 and "watersmeet" in str(file)
        file.write_bytes(_sealed_text(chance, file.read_text()) if sealed else mutated(chance, file.read_bytes()))
        found = _told(checkpoint)
        # numbers that cannot be read begin anew
        if found in (before, (*before[:-1], None)):
            return RIGHT
        # Spark keeps no sums of its plans: what can be read is taken for what it says
        return OTHER if sealed or "watersmeet" not in str(file) else WRONG


def _totals() -> Totals:
    """Numbers of two batches."""
    names = (Measure("consumed", "left"), Measure("rows", "t"))
    counts = Counts(Counter({("n", "late"): 3}), sizes={(names[1], 7): 40})
    return Totals(CountedPlan(names), counts, batches=2, first=0, last=1)


def _told(checkpoint: Checkpoint) -> Any:
    found = look(checkpoint.folder)
    planned = spark_logs.checked_last_batch(checkpoint.folder, 0)
    ends = spark_logs.committed_ends(checkpoint.folder)
    numbers = lifetime.read(checkpoint)
    return found.last, found.batches, planned, ends, None if numbers is None else numbers.totals.to_json()


def _sealed_text(chance: random.Random, text: str) -> bytes:
    if text.startswith("{"):
        body = json.loads(text)
        del body["sha256"]
        body = other_json(chance, body)
        return json.dumps({**body, "sha256": record._digest(body)}, sort_keys=True).encode()
    body = other_json(chance, json.loads(text.partition(" ")[2]))
    told = json.dumps(body)
    return f"{lifetime._digest(told)} {told}".encode()
