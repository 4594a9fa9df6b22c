"""A changed topology over the journal of the one before: the rows that differ, and the way of a record."""

from __future__ import annotations

import base64
import math
import random
import re
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.changes.views import contents, random_definition, random_rows, views
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet.cli.commands import main
from watersmeet.errors import ConfigError
from watersmeet.replay import Trace, _Pipe

OPTIONS: dict[str, Any] = {"key": "k", "value": "v", "timestamp": "ts"}


def priced(spark: SparkSession, folder: Path, method: str = "join", *, grows: bool = False) -> wm.Topology:
    builder = wm.StreamsBuilder("replayed")
    if grows:
        builder.stream(reader(spark, folder / "new"), name="new", **OPTIONS).to(wm.ForeachBatch(print), name="others")
    left = builder.table(reader(spark, folder / "left"), name="left", **OPTIONS)
    right = builder.table(reader(spark, folder / "right"), name="right", **OPTIONS)

    def joiner(one: Any, other: Any) -> Any:
        return F.concat(one, F.coalesce(other, F.lit("-")))

    reference = {"foreign_key": lambda value: F.ascii(value).cast("bigint") % 4}
    view = getattr(left, method)(right, joiner, **reference, name="view", store="view")
    view.group_by(lambda key, value: (value, value), name="groups").count(name="sizes", store="sizes")
    view.to_stream(name="rows").to(wm.ForeachBatch(Collector()), name="out")
    left.to_stream(name="left rows").filter(lambda key, value: value != "z").to(wm.ForeachBatch(print), name="stream")
    return builder.build()


@pytest.fixture(scope="module")
def journaled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a query that has run twice and kept its journal."""
    folder = tmp_path_factory.mktemp("replay")
    put(spark, folder / "left", *((key, value, key) for key, value in enumerate("abcdabcd")))
    put(spark, folder / "right", *((key, value, key) for key, value in enumerate("stu")))
    put(spark, folder / "new", (1, "n", 1))
    run(priced(spark, folder), spark, folder, explain=True)
    put(spark, folder / "right", (1, "xx", 20), (2, None, 21))
    run(priced(spark, folder), spark, folder, explain=True)
    return folder


def test_a_topology_that_did_not_change_gives_the_rows_that_stand(spark: SparkSession, journaled: Path) -> None:
    same = priced(spark, journaled)
    alone = same.replay(spark, checkpoint=journaled / "cp")
    assert alone.is_same, str(alone)
    assert {"store view", "store sizes"} <= {each.name for each in alone.comparisons}
    assert alone.notes == ("Outputs are not compared without the previous topology (out, stream): give previous=.",)
    both = same.replay(spark, checkpoint=journaled / "cp", previous=same)
    assert both.is_same, str(both)
    assert both.notes == ()
    assert {"output out", "output stream"} <= {each.name for each in both.comparisons}


def test_rows_that_a_changed_join_would_add_are_counted_and_shown(
    spark: SparkSession, journaled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = priced(spark, journaled, "left_join", grows=True)
    answer = changed.replay(spark, checkpoint=journaled / "cp", previous=priced(spark, journaled), limit=1)
    by_name = {each.name: each for each in answer.comparisons}
    view = by_name["store view"]
    assert (view.added, view.changed, view.removed, view.equal) == (4, 0, 0, 4)
    assert len(view.rows) == 1
    assert (by_name["output out"].added, by_name["output out"].equal) == (4, 4)
    assert by_name["output stream"].is_empty
    assert answer.notes == (
        "The journal has no records of the input new: it is new.",
        "The output others is new: nothing to compare it with.",
    )
    assert "  and 3 more" in str(answer)
    module = ModuleType("shop_changes")
    module.old, module.new = priced(spark, journaled), changed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_changes", module)
    command = ["diff", str(journaled / "cp"), "shop_changes:new", "--replay", "--previous", "shop_changes:old"]
    output = CliRunner().invoke(main, command).output
    assert "output out: 4 rows added, 0 rows changed, 0 rows removed, 4 rows equal" in output


def test_a_replay_of_what_the_inputs_have_now_counts_the_same_rows_as_that_of_a_journal_and_writes_nothing(
    spark: SparkSession, journaled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(Collector, "__call__", lambda self, frame, batch: written.append(batch))
    changed, previous = priced(spark, journaled, "left_join"), priced(spark, journaled)
    of_inputs = changed.replay(spark, previous=previous)
    of_journal = changed.replay(spark, checkpoint=journaled / "cp", previous=previous)
    assert (of_inputs.records, of_inputs.notes) == (of_journal.records, ())
    assert str(of_inputs.comparisons) == str(of_journal.comparisons)
    assert any(not each.is_empty for each in of_inputs.comparisons)
    assert written == []


def test_a_replay_of_inputs_says_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    topology = priced(spark, tmp_path)
    with pytest.raises(ConfigError, match="previous= are left out"):
        topology.replay(spark)
    with pytest.raises(ConfigError, match=r"kafka=Kafka\('host:9092'\) has no effect"):
        topology.replay(spark, checkpoint=tmp_path, kafka=wm.Kafka("host:9092"))
    for name in ("left", "right"):
        (tmp_path / name).mkdir(exist_ok=True)
    with pytest.raises(ConfigError, match="The inputs have no records to replay: left, right"):
        topology.replay(spark, previous=topology)


def test_the_way_of_a_record_is_shown_operator_by_operator_and_becomes_a_test_that_passes(
    spark: SparkSession, journaled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = priced(spark, journaled)
    way = topology.trace(spark, checkpoint=journaled / "cp", record="right, batch 1, row 0")
    assert way.record.value == "xx"
    assert way.outputs == {"out": ((0, "axx", 20), (4, "axx", 20)), "stream": ()}
    changes = {str(row) for step in way.steps for store in step.stores for row in store.rows}
    assert {'0: "at" -> "axx"', '4: "at" -> "axx"', '1: "t" -> "xx"'} <= changes
    assert [step.operator for step in way.steps] == ["foreign key", "foreign key", "table aggregate"]
    module = ModuleType("shop_topologies")
    module.orders = topology  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_topologies", module)
    text = way.to_test("shop_topologies:orders")
    # a notebook has it as a link
    (saved,) = re.findall('base64,([^"]+)"', way._repr_html_())
    assert base64.b64decode(saved).decode() == way.to_test("topologies:topology")
    # of the eight rows of the left table those that refer to it
    assert text.count("driver.pipe('left'") == 2
    command = ["trace", str(journaled / "cp"), "shop_topologies:orders", "--record", "right, batch 1, row 0", "--test"]
    assert CliRunner().invoke(main, command).output.endswith(text + "\n")
    scope: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), scope)
    scope["test_right_batch_1_row_0"]()
    wrong = text.replace("'axx'", "'ayy'")
    exec(compile(wrong, "exported", "exec"), scope)
    with pytest.raises(AssertionError):
        scope["test_right_batch_1_row_0"]()


def test_a_record_that_the_journal_does_not_have_is_named_with_one_that_it_has(
    spark: SparkSession, journaled: Path
) -> None:
    with pytest.raises(ConfigError, match="The journal has no record 'orders-0@7' in its batches 0 to 1") as error:
        priced(spark, journaled).trace(spark, checkpoint=journaled / "cp", record="orders-0@7")
    assert "record='left, batch 0, row 0'" in str(error.value)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.proof) for n in range(2, 202))])
def test_random_changes_differ_in_the_rows_that_their_replacement_counts(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    dice, tables = random.Random(seed), defaultdict[str, dict[int, str]](dict)
    old, new = (
        {name: random_definition(dice, kind) for name, kind in (("view 0", None), ("view 1", "foreign"))}
        for _ in range(2)
    )
    new["view 0"] = (old["view 0"][0], new["view 0"][1])
    random_rows(dice, spark, tmp_path, tables, 12)

    def made(definitions: Any) -> wm.Topology:
        return views(spark, tmp_path, definitions, lambda name: wm.ForeachBatch(Collector()))

    run(made(old), spark, tmp_path, explain=True)
    answer = made(new).replay(spark, checkpoint=tmp_path / "cp")
    planned = wm.plan_change(tmp_path / "cp", made(new), replace=list(new))
    assert planned.possible, str(planned)
    by_name = {each.name.removeprefix("store "): each for each in answer.comparisons}
    assert planned.replaced
    for item in planned.replaced:
        each = by_name[item.name]
        assert item.reason == f"{each.added} rows added, {each.changed} rows changed, {each.removed} rows removed"
    for name, definition in new.items():
        before, after = contents(tables, old[name]), contents(tables, definition)
        assert by_name[name].added == len(after.keys() - before.keys())
        assert by_name[name].removed == len(before.keys() - after.keys())


def test_a_trace_with_numbers_that_equal_nothing_is_saved_as_a_test_that_passes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder: Any = wm.StreamsBuilder("floats")
    builder.stream("in", key="long", value=wm.json("x double, y double")).to("out")
    monkeypatch.setitem(sys.modules, "shop_of_floats", SimpleNamespace(topology=builder.build()))
    numbers: Any = {"x": math.nan, "y": math.inf}
    record: Any = SimpleNamespace(place="in-0@0")
    trace = Trace(record, (), {"out": ((1, Row(**numbers), 1),)}, (_Pipe("in", 1, numbers, 1, ()),))
    names: dict[str, Any] = {}
    exec(trace.to_test("shop_of_floats:topology"), names)
    names["test_in_0_0"]()
    trace = replace(trace, outputs={"out": ((1, Row(**numbers | {"y": 0.0}), 1),)})
    exec(trace.to_test("shop_of_floats:topology"), names)
    with pytest.raises(AssertionError):
        names["test_in_0_0"]()
