"""Histories of windowed aggregates whose keys lie in several partitions, some of them lagging."""

from __future__ import annotations

import pytest

from proof.histories import check
from proof.histories.case import of_json, to_json
from proof.histories.report import page
from proof.histories.subjects.shared_windows import shared_case_of

SEED = 26
COUNT = 40


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 8))])
def test_windows_of_keys_in_several_partitions_are_those_of_record_by_record(piece: int) -> None:
    for number in range(piece * COUNT, (piece + 1) * COUNT):
        found = check(shared_case_of(SEED, number))
        assert found is None, page(found)


def test_such_a_history_has_keys_in_several_partitions_and_says_all_that_it_depends_on() -> None:
    cases = [shared_case_of(SEED, number) for number in range(20)]
    shared = [
        len({record.partition for record in case.records if record.key == case.records[-1].key}) for case in cases
    ]
    assert sum(count > 1 for count in shared) > len(cases) // 2
    assert [of_json(to_json(case)) for case in cases] == cases
