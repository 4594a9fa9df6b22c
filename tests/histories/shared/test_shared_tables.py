"""Histories of several joins of one table: the engine, which stores it once, says what the oracle says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from proof import layout
from proof.histories import check
from proof.histories.check import topology_of
from proof.histories.report import page
from proof.histories.subjects.shared_tables import shared_case_of
from watersmeet._engine.matching import with_rows_of_owner
from watersmeet._engine.operator import OperatorContext, operator_table
from watersmeet._engine.operators import stream_table_join
from watersmeet._engine.rows import ints
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._plan.physical import StoreReader

SEED = 54
COUNT = 100
Rows = Mapping[int, pa.Table]


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 10))])
def test_joins_of_one_table_give_what_the_oracle_says(piece: int) -> None:
    for number in range(piece * COUNT, (piece + 1) * COUNT):
        found = check(shared_case_of(SEED, number))
        assert found is None, page(found)


def test_most_of_these_histories_have_a_shared_table_and_some_reach_it_and_the_stream_with_one_record() -> None:
    plans = [topology_of(shared_case_of(SEED, number).blueprint).physical for number in range(0, COUNT * 10, 4)]
    readers = [[plan.operators[number] for number in plan.readers] for plan in plans]
    assert sum(map(bool, readers)) > len(plans) // 2
    assert sum(any(operator.shared_root for operator in some) for some in readers) > len(plans) // 20
    assert any(operator.level > 1 for some in readers for operator in some)


@pytest.mark.parametrize("broken", ["the state", "the batch's rows", "one row too few"])
def test_a_lookup_of_a_shared_table_that_is_wrong_is_seen(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(how: StoreReader, own: Rows, owners: Rows) -> Rows:
        rows = with_rows_of_owner(how, own, owners)
        if how.side not in rows:
            return rows
        return {**rows, how.side: rows[how.side].slice(1)} if broken == "one row too few" else own

    def empty(context: OperatorContext, state: State) -> Table:
        return operator_table(context, state if context.reader is None else State(MemoryChunkStore()))

    if broken == "the state":
        monkeypatch.setattr(stream_table_join, "operator_table", empty)
    else:
        monkeypatch.setattr(layout, "with_rows_of_owner", wrong)
    assert any(check(shared_case_of(SEED, number)) is not None for number in range(40))


def test_rows_of_the_table_come_to_a_reader_at_the_position_of_its_own_way() -> None:
    table = pa.table({"hash": np.array([5, 7, 5]), "p0": np.array([1, 1, 1]), "p1": np.array([3, 4, 9])})
    stream = pa.table({"hash": np.array([5]), "p0": np.array([2]), "p1": np.array([0])})
    rows = with_rows_of_owner(StoreReader(1, "b.right", side=1, slot=1, shift=2), {0: stream}, {1: table, 0: stream})
    assert rows[0] is stream
    assert ints(rows[1], "p1").tolist() == [5, 11]
    assert ints(rows[1], "hash").tolist() == [5, 5]
    assert with_rows_of_owner(StoreReader(1, "b.right", side=1, slot=1, shift=2), {}, {1: table}) == {}
