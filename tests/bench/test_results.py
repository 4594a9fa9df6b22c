"""What the benchmarks keep: results of several runs come together, and table and picture say the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
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
from bench.studies import tpch
from examples.gallery import programs

ROOT = Path(__file__).resolve().parents[2]
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


def test_the_picture_says_its_finding_and_has_a_bar_for_each_ratio_faster_or_slower() -> None:
    compared = section([40], [10]), replace(section([5], [10]), name="slow")
    drawn = picture.drawn([*compared, Section("alone", "no one beside", {OURS: [run(1)]})])
    tree = ElementTree.fromstring(drawn)
    texts = [each.text for each in tree.iter() if each.tag.endswith("text")]
    assert {"4.0", "0.5", "join", "slow", "Kafka Streams"} <= set(texts)
    assert texts[0] == "Faster than Kafka Streams in 1 of 2 workloads, 4.0 times at most"
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
    assert ">2.0<" in picture.drawn([cached])
    assert ">4.0<" not in picture.drawn([cached])


def test_nothing_compared_is_no_picture() -> None:
    with pytest.raises(ValueError, match="no ratio"):
        picture.drawn([Section("alone", "no one beside", {OURS: [run(1)]})])


# Pages and README have the figures of the files from which they come.

FIGURES_OF_PAGES = sorted((ROOT / "bench" / "figures").glob("*.json"))
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def rows_of(text: str) -> dict[str, list[str]]:
    """The rows of Markdown's tables by the first word of their first cell."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0].partition(":")[0].strip("`"): row[1:] for row in cells}


def ratios_of_figures() -> dict[str, list[str]]:
    _, sections = load(FIGURES_OF_PAGES)
    table = rows_of(report.summary(sections).split("\n\n")[1])
    return {name: row[:2] + row[3:] for name, row in table.items() if name and not name.startswith("-")}


def test_the_table_and_the_picture_of_the_page_are_those_of_the_figures() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = rows_of(page)
    measured = ratios_of_figures()
    assert len(measured) > 20
    assert {name: shown.get(name) for name in measured} == measured
    drawn = picture.drawn(load(FIGURES_OF_PAGES)[1])
    assert (ROOT / "docs" / "performance.svg").read_text(encoding="utf-8") == drawn


def test_the_picture_of_tpch_is_that_of_its_figures() -> None:
    sections = load([ROOT / "bench" / "figures" / "2026-11-30-tpch.json"])[1]
    assert (ROOT / "docs" / "tpch.svg").read_text(encoding="utf-8") == tpch.drawn(sections)


def test_the_readme_gives_the_range_of_all_measured_ratios_with_the_slower_ones() -> None:
    rows = ratios_of_figures()
    rates = {name: float(row[0]) for name, row in rows.items()}
    cached = [float(row[1]) for row in rows.values() if row[1]]
    memory = [
        float(own.replace(",", "")) / float(other.replace(",", ""))
        for own, other in (row[-1].split("; ") for row in rows.values())
    ]
    more = [name for name, rate in rates.items() if rate >= 1.5]
    slower = sorted(name.removeprefix("nexmark_") for name, rate in rates.items() if rate < 1)
    started = [float(row[3]) for row in rows.values()]
    assert f"reads {min(rates.values()):.1f} to {max(rates.values()):.1f} times as many records a second" in README
    assert f"in {len(more)} of {len(rates)} workloads at least 1.5 times" in README
    assert slower == ["q3", "q5", "q8"]
    assert f"q3, {rates['nexmark_q3']:.2f}" in README
    assert f"q5, {rates['nexmark_q5']:.2f}" in README
    assert f"q8, {rates['nexmark_q8']:.2f}" in README
    assert f"With the record cache it is {min(cached):.1f} to {max(cached):.1f} times" in README
    assert f"from the start of the process {min(started):.1f} to {max(started):.1f} times" in README
    assert f"{min(memory):.0f} to {max(memory):.0f} times the memory" in README


def test_the_readmes_other_figures_are_those_of_their_pages() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    histories, equal, explained, unexplained, not_run = rows_of(pages["conformance"])["engine"]
    assert unexplained == "0"
    assert f"{histories} [recordings" in README
    assert f"{equal} are exactly equal, {explained} differ as a row" in README
    assert f"{not_run} cannot be run" in README
    results = next(line for line in pages["faults"].splitlines() if "--kills 204" in line).split("|")
    assert (
        f"[204 kills](docs/faults.md) of drivers, workers and brokers under load: {results[5].strip()} results"
        in README
    )
    assert results[6].strip() == "0"
    longest = max(int(row[0].replace(",", "")) for row in rows_of(pages["soak"]).values() if row[0][:1].isdigit())
    assert f"the longest run {longest:,}" in README
    simulated = re.search(r"^([\d,]+) seeds from", pages["faults"], re.MULTILINE)
    assert simulated is not None
    assert f"{simulated[1]} seeds of a [simulation]" in README
    median = rows_of(pages["performance"])["result readable, s"][0].split(",")[0]
    assert f"{float(median):.1f} s for a topology of one level" in README
    assert f"{len(programs.names())} small programs" in README
