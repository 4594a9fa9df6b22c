"""The measure of the oracle: it gives every recording of the real engine, result for result.

Histories must all be built and equal. Vectors must be equal or be refused for a reason that is written down
here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from proof.conformance import measure
from proof.conformance_report import golden_table
from proof.conformance_runners import OracleRunner, RepairedOracleRunner
from proof.recordings import read
from tests.oracle.kit import HISTORIES, RECORDINGS, VECTORS

REFUSED_VECTORS = {
    "facts of a window builder, no records": 35,
    "internal processor: changes and wire messages (a test of its own compares them)": 16,
    "internal processor: its stores were filled by the test, the vector does not show with what": 19,
    "no result was recorded: the test looked into stores": 4,
    "section A row 11: the page's table closes one step early, the engine's recordings are followed": 2,
    "the test moved a clock between records, which the steps do not show": 2,
}
EVERY_NTH_REPAIRED = 5


def test_the_recordings_are_here() -> None:
    histories = sum(len(read(path)) for path in HISTORIES)
    vectors = sum(len(read(path)) for path in VECTORS)
    assert (len(HISTORIES), histories) == (46, 21_093)
    assert (len(VECTORS), vectors) == (34, 303)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_the_oracle_gives_every_recorded_history(path: Path) -> None:
    for summary in measure(OracleRunner(), read(path)):
        assert not summary.unsupported, summary.line()
        assert not summary.rows, summary.line()
        assert not summary.unexplained, golden_table(summary.unexplained[0])


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_the_oracle_gives_every_vector_that_describes_a_topology(path: Path) -> None:
    for summary in measure(OracleRunner(), read(path)):
        assert not summary.rows, summary.line()
        assert not summary.unexplained, golden_table(summary.unexplained[0])
        assert set(summary.unsupported) <= set(REFUSED_VECTORS), summary.line()


def test_every_vector_that_is_not_run_is_refused_for_a_known_reason() -> None:
    refused: Counter[str] = Counter()
    for path in VECTORS:
        for history in read(path):
            reason = OracleRunner().supports(history)
            if reason is not None:
                refused[reason] += 1
    assert refused == REFUSED_VECTORS


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_whatever_the_repaired_oracle_changes_has_a_row_in_section_a(path: Path) -> None:
    for summary in measure(RepairedOracleRunner(), read(path)[::EVERY_NTH_REPAIRED]):
        assert not summary.unexplained, golden_table(summary.unexplained[0])


def test_the_bytes_file_is_not_mistaken_for_vectors() -> None:
    assert (RECORDINGS / "bytes.json.gz").exists()
    assert all(path.name != "bytes.json.gz" for path in VECTORS)
