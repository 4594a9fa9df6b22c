"""Two tables that a batch changes together are never seen apart: amounts that move between them stay what they were."""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.serving.kit import Inputs, RunningQuery, until

ACCOUNTS, TRANSFERS, BATCHES, START = 50, 400, 6, 1_000


def topology(inputs: Inputs) -> wm.Topology:
    """What left accounts and what came to them, each a table of its own: their sums are the same after each batch."""
    builder = wm.StreamsBuilder("bank")
    frame = inputs.read("transfers", "id long, giver long, taker long, amount long, ts long")
    transfers = builder.stream(frame, name="transfers", key="id", value=["giver", "taker", "amount"], timestamp="ts")
    nothing = wm.ForeachBatch(lambda frame, batch: frame.count())
    for side in ("giver", "taker"):
        by_side = transfers.group_by(lambda key, value, side=side: value[side])
        by_side.agg(total=wm.sum(lambda value: value["amount"]), store=side).to(nothing, name=f"{side}-out")
    return builder.build()


def transfers(dice: random.Random, batch: int) -> list[dict[str, Any]]:
    return [
        {
            "id": batch * TRANSFERS + number,
            "giver": dice.randrange(ACCOUNTS),
            "taker": dice.randrange(ACCOUNTS),
            "amount": dice.randrange(1, START),
            "ts": batch * TRANSFERS + number,
        }
        for number in range(TRANSFERS)
    ]


def sums_at_one_batch(url: str) -> tuple[int, int, int]:
    reads = {"reads": [{"table": "giver", "limit": 10_000}, {"table": "taker", "limit": 10_000}]}
    asked = urllib.request.Request(f"{url}/read", json.dumps(reads).encode())
    with urllib.request.urlopen(asked, timeout=60) as given:
        said = json.loads(given.read())
    assert {each["batch"] for each in said["answers"]} == {said["batch"]}
    giver, taker = (sum(row["value"]["total"] for row in each["rows"]) for each in said["answers"])
    return said["batch"], giver, taker


class Readers:
    """Threads that read both tables all the time.

    Attributes
    ----------
    wrong : answers that contradict each other, or the ones before.
    seen : the batches that were seen.
    """

    def __init__(self, url: str) -> None:
        self.wrong: list[Any] = []
        self.seen: set[int] = set()
        self._url, self._ended = url, threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(2)]

    def begin(self) -> None:
        for each in self._threads:
            each.start()

    def end(self) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    def _read(self) -> None:
        last = -1
        with wm.connect(self._url) as tables:
            giver, taker = tables.table("giver"), tables.table("taker")
            while not self._ended.is_set():
                batch, given, taken = sums_at_one_batch(self._url)
                if given != taken or batch < last:
                    self.wrong.append((last, batch, given, taken))
                last = batch
                self.seen.add(batch)
                first = giver.to_arrow()
                second = taker.to_arrow(batch=wm.batch_of(first))
                totals = [pc.sum(pc.struct_field(table["value"], "total")).as_py() for table in (first, second)]
                if totals[0] != totals[1]:
                    self.wrong.append((wm.batch_of(first), *totals))


def test_two_tables_read_at_one_batch_never_disagree_while_the_query_runs(spark: SparkSession, tmp_path: Any) -> None:
    made = RunningQuery(spark, tmp_path, Inputs(spark, tmp_path / "in"))
    query, dice = made.start(topology(made.inputs)), random.Random(5)
    readers = Readers(str(query.serve("127.0.0.1:0", tables=["giver", "taker"]).url))
    try:
        made.inputs.put("transfers", *transfers(dice, 0))
        made.caught_up()
        readers.begin()
        for batch in range(1, BATCHES):
            made.inputs.put("transfers", *transfers(dice, batch))
            query.processAllAvailable()
        last = made.caught_up()
        assert query.table("giver").get(0, at_least=last).batch == last
        readers.end()
    finally:
        query.stop()
    assert not readers.wrong
    assert len(readers.seen) > 1


def test_a_batch_of_ones_own_is_waited_for_and_one_that_does_not_come_is_said(
    spark: SparkSession, tmp_path: Any
) -> None:
    made = RunningQuery(spark, tmp_path, Inputs(spark, tmp_path / "in"))
    query, dice = made.start(topology(made.inputs)), random.Random(6)
    query.serve(tables=["giver"])
    try:
        made.inputs.put("transfers", *transfers(dice, 0))
        # no batch but the first is to come
        made.caught_up()
        assert query.table("giver").get(0, at_least=0).batch == 0
        with pytest.raises(wm.WatersmeetError, match="has not reached at_least=1 in time"):
            query.table("giver").get(0, at_least=1, timeout=0.1)
    finally:
        query.stop()
    with pytest.raises(wm.ConfigError, match="No tables are served"):
        query.table("giver")


def test_a_replica_that_grows_too_large_says_so_and_the_query_goes_on(spark: SparkSession, tmp_path: Any) -> None:
    made = RunningQuery(spark, tmp_path, Inputs(spark, tmp_path / "in"))
    query, dice = made.start(topology(made.inputs)), random.Random(7)
    query.serve(tables=["giver"], max_bytes=1_000)
    try:
        made.inputs.put("transfers", *transfers(dice, 0))
        until(lambda: query._served is not None and query._served._replica.refused is not None)
        with pytest.raises(wm.ConfigError, match="larger than the replica may be"):
            query.table("giver").get(0, at_least=0, timeout=60)
        made.inputs.put("transfers", *transfers(dice, 1))
        query.processAllAvailable()
        assert query.isActive
    finally:
        query.stop()
