"""Recordings of the real Kafka Streams through the engine alone: every history whose operators exist."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from proof.conformance_compare import judge
from proof.golden import read as read_golden
from proof.recordings import History, read
from proof.runners.engine import EngineRunner
from proof.runners.vectors import new_values

RECORDINGS = Path(__file__).parent.parent / "recordings"
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.md"))
KINDS = (
    "table_table",
    "stream_table",
    "table_ops",
    "three_way",
    "table_chain_same",
    "rekey_stream_table",
    "fk_join",
    "table_join_then_fk",
    "global_join",
    "stream_aggregate",
    "table_aggregate",
    "fk_then_aggregate",
    "stream_table_count",
    "stream_stream_count",
    "aggregate_join_table",
    "rekey_count",
    "merge_count",
    "windowed_aggregate",
    "stream_stream_window",
    "cogroup",
    "suppress_then_aggregate",
    "fk_then_suppress",
    "aggregate_then_fk",
    "fk_chain_same",
    "window_then_aggregate",
    "headers",
    "timestamps",
    "processor_dedup",
    "processor_reorder",
    "processor_expire",
    "processor_totals",
)
# Where the engine may differ from a recording, by rows of section A (docs/semantics/differences.md): the faults of
# stream joins (1, 2, 8, 14), of foreign-key joins (4, 5, 6) and global joins (9), of windowed aggregates (7, 10, 15 and
# 16), of suppress (17, 28), of grace and versioned tables (3, 18), the record cache (12), 0.10.2's timestamps (19), the
# time of operators behind others (21), old values (29, 37, 38), lookups behind a suppress (30) and the bytes of its
# buffer (33), the times of cogrouped streams (36), the ways of a foreign-key join's messages (39), joins of tables
# of one source (48).
ALLOWED = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 18, 19, 21, 28, 29, 30, 33, 36, 37, 38, 39, 48}
LARGE = 80
"""Histories of a file of which every twelfth runs without --proof."""


def files() -> list[Path]:
    """Recordings of the kinds whose operators exist, and all vectors."""
    histories = [p for p in (RECORDINGS / "histories").iterdir() if p.name.split(".")[0] in KINDS]
    return sorted([*histories, *(RECORDINGS / "vectors").iterdir()])


def supported(path: Path, runner: EngineRunner) -> list[History]:
    """The histories of a file that the runner can build."""
    return [new_values(h) for h in read(path) if runner.supports(h) is None]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_engine_says_what_kafka_streams_said(path: Path, pytestconfig: pytest.Config) -> None:
    runner = EngineRunner()
    histories = supported(path, runner)
    if len(histories) > LARGE and not pytestconfig.getoption("--proof"):
        # `make conformance` and --proof run them all
        histories = histories[::12]
    verdicts = [judge(h, out) for h, out in zip(histories, runner.run_many(histories), strict=True)]
    wrong = [v.history.id for v in verdicts if not v.equal and not (v.rows and v.rows <= ALLOWED)]
    assert not wrong


def test_a_group_that_comes_and_goes_between_two_suppressed_changes_is_told() -> None:
    (path,) = (RECORDINGS / "histories").glob("suppress_then_aggregate*")
    runner = EngineRunner()
    histories = [h for h in supported(path, runner) if h.id.startswith("supp-twice-log/r000")]
    verdicts = [judge(history, runner.run(history)) for history in histories]
    assert {v.history.id for v in verdicts if not (v.equal or v.rows)} == set()
    assert len(verdicts) == 10


def test_every_kind_of_recording_is_really_there() -> None:
    runner = EngineRunner()
    counts = {path.name: len(supported(path, runner)) for path in files()}
    assert sum(counts.values()) > 4_100
    assert all(counts[path.name] for path in files() if path.parent.name == "histories")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("cuts", [None, 1, 2, 5])
def test_golden_tables_hold_in_one_batch_and_in_many(path: Path, cuts: int | None) -> None:
    for history in read_golden(path):
        output = EngineRunner(cuts=cuts).run(history)
        assert [list(step.expect or ()) for step in history.steps] == output


def sample(per_family: int) -> list[History]:
    """The first histories of each family of parameters."""
    runner, chosen = EngineRunner(), []
    for path in files():
        families: dict[str, int] = {}
        for history in supported(path, runner):
            family = history.id.split("/")[0]
            families[family] = families.get(family, 0) + 1
            if families[family] <= per_family:
                chosen.append(history)
    return chosen


@pytest.mark.parametrize(
    ("batches", "shards"),
    [
        pytest.param(batches, shards, marks=() if (batches, shards) in ((2, 4), (7, 9), (50, 1)) else pytest.mark.proof)
        for batches, shards in product([1, 2, 7, 50], [1, 2, 4, 9])
    ],
)
def test_batches_and_shards_change_nothing(batches: int, shards: int) -> None:
    for history in sample(1)[::3]:
        size = max(1, -(-len(history.steps) // batches))
        expected = EngineRunner(shards=2).run(history)
        assert EngineRunner(shards=shards, cuts=size).run(history) == expected, history.id
