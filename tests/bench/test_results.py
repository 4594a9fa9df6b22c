"""What the benchmarks keep: results of several runs come together, and table and picture say the same."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.measuring.measure import Batch, Usage, rates
from bench.measuring.turns import Turn
from bench.reports import picture, report
from bench.reports.results import (
    FIGURES,
    OURS,
    OURS_CACHED,
    OURS_PLAIN,
    STREAMS_CACHED,
    Run,
    Section,
    Table,
    better,
    load,
    pairs,
    runs_of,
    save,
)

STATE_METRICS = ("rocksdbGetCount", "rocksdbPutCount", "rocksdbTotalBytesRead", "rocksdbTotalBytesWritten")


def run(factor: float) -> Run:
    return Run(1_000, dict.fromkeys(FIGURES, factor), {"pack": factor})


def section(ours: list[float], theirs: list[float], notes: tuple[str, ...] = ()) -> Section:
    runs = {OURS: [run(each) for each in ours], "Kafka Streams": [run(each) for each in theirs]}
    return Section("join", "a join", runs, notes, [Table(["a"], [["1"]])])


def test_a_ratio_is_of_the_medians() -> None:
    runs = section([10, 20, 90], [1, 10, 1000]).runs
    assert report.ratio(runs, "Kafka Streams", "records/s, second half") == 2.0


def test_a_table_shows_median_smallest_and_largest() -> None:
    text = report.side_by_side(section([10, 20, 90], [5, 10, 30]).runs, "Kafka Streams")
    assert "| records/s, second half | 20 (10 to 90) | 10 (5 to 30) | 2.0 |" in text
    assert "| CPU-seconds | 20 (10 to 90) | 10 (5 to 30) |  |" in text


def test_the_record_cache_is_compared_with_the_others_and_not_with_watersmeet_itself() -> None:
    both = {**section([20], [5]).runs, OURS_CACHED: [run(40)]}
    assert pairs(both) == [(OURS, "Kafka Streams"), (OURS_CACHED, "Kafka Streams")]
    shown = report.section_text(Section("join", "a join", both))
    assert "|  | watersmeet, record cache | Kafka Streams | ratio |" in shown
    assert "| records/s, second half | 40 | 5 | 8.0 |" in shown
    assert ">join, record cache, beside Kafka Streams<" in picture.drawn([Section("join", "a join", both)])


def test_a_contender_may_have_fewer_turns() -> None:
    text = report.side_by_side(section([10, 20, 90], [5]).runs, "Kafka Streams")
    assert "| median (min to max) | watersmeet | Kafka Streams | ratio |" in text
    assert "| records/s, second half | 20 (10 to 90) | 5 | 4.0 |" in text
    assert "| turns | 3 | 1 |  |" in text
    assert "| turns |" not in report.side_by_side(section([1, 2], [3, 4]).runs, "Kafka Streams")


def test_results_are_read_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = section([1, 2], [3], ("note",))
    save(tmp_path / "a.json", "a machine", [kept])
    machines, (found,) = load([tmp_path / "a.json"])
    assert machines == ["a machine"]
    assert report.section_text(found) == report.section_text(kept)


def test_turns_of_several_runs_come_together(tmp_path: Path) -> None:
    save(tmp_path / "a.json", "m", [section([1], [2], ("same",))])
    save(tmp_path / "b.json", "m", [section([3], [4], ("same",)), Section("other", "another")])
    machines, found = load([tmp_path / "a.json", tmp_path / "b.json"])
    assert machines == ["m"]
    assert [each.name for each in found] == ["join", "other"]
    assert [each.figures["CPU-seconds"] for each in found[0].runs[OURS]] == [1, 3]
    assert list(found[0].notes) == ["same"]


def test_a_file_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ValueError, match="does not hold results"):
        load([tmp_path / "a.json"])


def test_the_picture_has_a_bar_for_each_ratio() -> None:
    drawn = picture.drawn([section([40], [10]), Section("alone", "no one beside", {OURS: [run(1)]})])
    tree = ElementTree.fromstring(drawn)
    texts = [each.text for each in tree.iter() if each.tag.endswith("text")]
    assert texts.count("4.0") == len(picture.FIGURES)
    assert "join, beside Kafka Streams" in texts
    assert not [text for text in texts if text and "alone" in text]


def test_turns_that_are_not_compared_are_shown_by_their_tables_alone() -> None:
    alone = Section("shards", "many", {"shards 4": [run(1)]}, tables=[Table(["a"], [["1"]])])
    assert report.section_text(alone).startswith("## many\n\n| a |\n|---|\n| 1 |\n\n### shards 4\n")


def test_what_a_shard_costs_is_shown_per_batch() -> None:
    batches = tuple(Batch(10 * n, 10 * n + 5, 100) for n in range(4))
    usage = Usage(looks=[(0, 1), (15, 3), (35, 7)])
    state = dict.fromkeys(STATE_METRICS, 4000000.0)
    turn = Turn("shards 4", rates(0, batches), batches, usage, 2_000_000, {"state": state, "work": {"tasks": 6.0}})
    assert turn.rates.half_time == 15
    rows = dict(report.shards([turn]).rows)
    assert (rows["seconds"], rows["CPU-seconds"]) == ("5.00 (5.00 to 5.00)", "2.00")
    assert rows["state: MB read, written"] == "4.00, 4.00"
    assert (rows["tasks"], rows["checkpoint at the end, MB"]) == ("6.0", "2.0")


def test_the_brokers_cpu_stands_beside_that_of_a_turn_and_is_none_of_it() -> None:
    batches = tuple(Batch(10 * n, 10 * n + 5, 100) for n in range(4))
    usage, broker = Usage(cpu={1: 7}, looks=[(0, 1), (15, 3), (35, 7)]), Usage(looks=[(15, 20), (35, 26)])
    runs = runs_of(
        [
            Turn(who, rates(0, batches), batches, usage, 0, {}, broker=broker if who != "alone" else None)
            for who in (OURS, "Kafka Streams", "alone")
        ]
    )
    assert runs[OURS][0].figures["CPU-seconds"] == 7
    shown = report.side_by_side(runs, "Kafka Streams")
    assert "| the broker's CPU-seconds, second half | 6 | 6 |  |" in shown
    assert "| records per CPU-second, second half, the broker's with them | 20 | 20 | 1.0 |" in shown
    assert "broker" not in report.side_by_side(runs, "alone")


def test_a_bar_grows_with_the_ratio_and_stays_in_the_picture() -> None:
    places = [picture._place(ratio) for ratio in (0.01, 0.5, 1, 2, 40, 1e6)]
    assert places == sorted(places)
    assert picture.LEFT <= places[0] < picture._place(1) < places[-1] <= picture.WIDTH - picture.RIGHT


def test_the_better_setting_of_kafka_streams_is_what_counts() -> None:
    cached = Section(
        "kafka join", "a join", {**section([40], [10]).runs, STREAMS_CACHED: [run(20)], OURS_PLAIN: [run(50)]}
    )
    assert better(cached.runs) == STREAMS_CACHED
    summary = report.summary([cached, section([1], [1])])
    assert "| join | 1 | 40 |  | 10 | 20 |  |" in summary
    assert "| join | 2.00 |  | 0.80 | 2.00 | 2.00 | 40; 20 |" in summary
    assert "kafka join, beside Kafka Streams, cache<" in picture.drawn([cached])
    assert "kafka join, beside Kafka Streams<" not in picture.drawn([cached])


def test_nothing_compared_is_no_picture() -> None:
    with pytest.raises(ValueError, match="no ratio"):
        picture.drawn([Section("alone", "no one beside", {OURS: [run(1)]})])
