"""Histories of joins of WTables whose keys lie in several partitions, some of them lagging."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proof.histories import check
from proof.histories.case import of_json, to_json
from proof.histories.report import page
from proof.histories.subjects.shared_wtables import shared_wtables_case_of

SEED = 26
COUNT = 40


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 8))])
def test_joins_of_wtables_of_keys_in_several_partitions_are_those_of_record_by_record(piece: int) -> None:
    for number in range(piece * COUNT, (piece + 1) * COUNT):
        case = shared_wtables_case_of(SEED, number)
        every = tuple(range(1, len(case.records)))
        for cut in (case, replace(case, cuts=(), shards=1), replace(case, cuts=every, replay=False)):
            found = check(cut)
            assert found is None, page(found)


def test_such_a_history_joins_wtables_and_has_keys_in_several_partitions() -> None:
    cases = [shared_wtables_case_of(SEED, number) for number in range(40)]
    shared = [len({each.partition for each in case.records if each.key == case.records[-1].key}) for case in cases]
    assert sum(count > 1 for count in shared) > len(cases) // 2
    kinds = {op.kind for case in cases for op in case.blueprint.ops}
    assert kinds >= {"stream_wtable", "table_wtable", "wtable_table", "wtable_wtable"}
    assert [of_json(to_json(case)) for case in cases] == cases
