"""Each row of section A on a history as small as it gets: what the engine does, what the repair does.

The engine's side of these is recorded too (findings, histories); the repaired side is what the row states.
"""

from __future__ import annotations

from typing import Any

import pytest

from proof.oracle import ROWS, EngineFailsError, Result, Semantics, Topology, build
from proof.oracle.graph import Node
from proof.oracle.parts import window_aggregate
from proof.oracle.records import Windowed
from proof.oracle.tables.table import TableSource
from proof.oracle.tables.table_map_values import TableMapValues
from proof.oracle.tables.table_table import TableTableJoin
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS
from proof.oracle.windows.suppress import Suppress
from tests.oracle.kit import Steps, emitted, window

FAITHFUL = Semantics()
Results = list[list[Result]]


def both(kind: str, params: dict[str, Any], steps: Steps, row: int, version: str = "4.3.0") -> tuple[Results, Results]:
    """What the engine emits, and what it emits with this row alone repaired."""
    repaired = Semantics(version, rows=frozenset({row}))
    return emitted(kind, params, steps, Semantics(version)), emitted(kind, params, steps, repaired)


def joined(how: str, before: int, after: int, grace: int) -> dict[str, Any]:
    return {"type": how, "before_ms": before, "after_ms": after, "grace_ms": grace}


def windows(kind: str, grace: int, **more: Any) -> dict[str, Any]:
    return {"window": kind, "grace_ms": grace, "agg": "log", **more}


def test_row_1_a_dropped_record_that_moves_time_lets_go_of_pending_records() -> None:
    steps = [("left", "k", "a", 100), ("right", None, "b", 111)]
    engine, repaired = both("stream_stream", joined("left", 10, 10, 0), steps, 1)
    assert engine == [[], []]
    assert repaired == [[], [Result("k", "a+null", 100)]]


def test_row_2_a_record_inside_grace_waits_for_its_partner() -> None:
    steps = [("left", "x", "x", 100), ("left", "k", "l", 80), ("right", "k", "r", 85)]
    engine, repaired = both("stream_stream", joined("left", 10, 10, 100), steps, 2)
    assert engine[1:] == [[Result("k", "l+null", 80)], [Result("k", "l+r", 85)]]
    assert repaired[1:] == [[], [Result("k", "l+r", 85)]]


def test_row_3_a_null_key_in_a_left_join_with_grace_is_emitted_at_once() -> None:
    params = {"type": "left", "right_versioned_ms": 30, "grace_ms": 10}
    steps = [("left", None, "a", 100)]
    with pytest.raises(EngineFailsError, match="key cannot be null"):
        emitted("stream_table", params, steps, FAITHFUL)
    repaired = emitted("stream_table", params, steps, Semantics(rows=frozenset({3})))
    assert repaired == [[Result(None, "a+null", 100)]]


def test_row_4_an_inner_row_that_loses_its_foreign_key_loses_its_result() -> None:
    steps = [("right", "p", "b", 1), ("left", "k", "p|a", 2), ("left", "k", "a", 3), ("left", "k", "p|c", 4)]
    engine, repaired = both("fk_join", {"type": "inner"}, steps, 4, "4.0.0")
    assert engine[2:] == [[], []]
    assert repaired[2:] == [[Result("k", None, 3)], [Result("k", "p|c+b", 4)]]


def test_row_5_a_left_row_gives_one_result_per_update_and_one_tombstone_per_delete() -> None:
    steps = [("right", "p", "b", 1), ("left", "k", "q|a", 2), ("left", "k", "p|c", 3), ("left", "k", None, 4)]
    engine, repaired = both("fk_join", {"type": "left"}, steps, 5, "4.0.0")
    assert engine[2:] == [[Result("k", "p|c+null", 3), Result("k", "p|c+b", 3)], [Result("k", None, 4)] * 2]
    assert repaired[2:] == [[Result("k", "p|c+b", 3)], [Result("k", None, 4)]]


@pytest.mark.parametrize("row", [4, 5])
def test_rows_4_and_5_are_fixed_in_the_current_engine(row: int) -> None:
    steps = [("left", "k", "q|a", 2), ("left", "k", "a", 3), ("left", "k", "p|a", 4), ("left", "k", None, 5)]
    for how in ("inner", "left"):
        engine, repaired = both("fk_join", {"type": how}, steps, row)
        assert engine == repaired


def test_row_6_a_right_triggered_result_carries_the_larger_timestamp() -> None:
    steps = [("left", "k", "p|a", 20), ("right", "p", "b", 5)]
    engine, repaired = both("fk_join", {"type": "inner"}, steps, 6)
    assert engine[1] == [Result("k", "p|a+b", 5)]
    assert repaired[1] == [Result("k", "p|a+b", 20)]


def test_row_7_a_jump_of_time_loses_no_final_result() -> None:
    steps = [("input", "k", "a", 100), ("input", "k", "b", 140)]
    engine, repaired = both("windowed_aggregate", windows("tumbling", 0, size_ms=10, emit="close"), steps, 7)
    assert engine == [[], []]
    assert repaired == [[], [window("k", 100, 110, "0+a", 100)]]


def test_row_8_an_optimised_self_join_pairs_what_an_ordinary_one_pairs() -> None:
    params = {**joined("inner", 10, 10, 0), "optimization": "all"}
    steps = [("input", "k", "a", 100), ("input", "k", "b", 81)]
    engine, repaired = both("self_join", params, steps, 8)
    assert engine[1] == []
    assert repaired[1] == [Result("k", "b+b", 81)]


def test_row_8_a_negative_bound_keeps_a_record_from_meeting_itself() -> None:
    params = {**joined("inner", -2, 10, 0), "optimization": "all"}
    engine, repaired = both("self_join", params, [("input", "k", "a", 100)], 8)
    assert engine == [[Result("k", "a+a", 100)]]
    assert repaired == [[]]


def test_row_9_a_left_join_keeps_a_row_whose_mapped_key_is_null() -> None:
    engine, repaired = both("global_join", {"type": "left"}, [("left", "k", "a", 1)], 9, "4.0.0")
    assert engine == [[]]
    assert repaired == [[Result("k", "a+null", 1)]]


@pytest.mark.parametrize("spec", [windows("tumbling", 0, size_ms=10), windows("session", 0, gap_ms=10)])
def test_row_10_windows_ignore_null_values(spec: dict[str, Any]) -> None:
    engine, repaired = both("windowed_aggregate", spec, [("input", "k", None, 5)], 10)
    assert [result.value for result in engine[0]] == ["0+null"]
    assert repaired == [[]]


def test_row_14_a_partner_at_the_boundary_is_still_there() -> None:
    steps = [("left", "k", "a", 100), ("left", "other", "b", 115), ("right", "k", "c", 115)]
    engine, repaired = both("stream_stream", joined("inner", 0, 15, 0), steps, 14)
    assert engine[2] == []
    assert repaired[2] == [Result("k", "a+c", 115)]


def test_row_15_a_session_at_the_close_time_is_merged_not_restarted() -> None:
    steps = [("input", "k", "a", 60), ("input", "k", "b", 45), ("input", "k", "c", 46)]
    engine, repaired = both("windowed_aggregate", windows("session", 5, gap_ms=10), steps, 15)
    assert engine[2] == [window("k", 46, 46, "0+c", 46)]
    assert repaired[2] == [window("k", 45, 45, None, 45), window("k", 45, 46, "0&0+b+c", 46)]


def test_row_16_the_predecessor_is_there_while_its_right_window_may_be_made() -> None:
    steps = [
        ("input", "k", "a", 58),
        ("input", "o", "b", 68),
        ("input", "o", "c", 69),
        ("input", "k", "d", 67),
    ]
    engine, repaired = both("windowed_aggregate", windows("sliding", 0, difference_ms=10), steps, 16)
    assert engine[3] == []
    assert repaired[3] == [window("k", 59, 69, "0+d", 67)]


def test_row_17_a_final_result_comes_once() -> None:
    spec = windows("sliding", 0, difference_ms=10, suppress={"until": "window_closes"})
    steps = [("input", "k", "a", 100), ("input", "k", "b", 100), ("input", "k", "c", 120)]
    engine, repaired = both("windowed_aggregate", spec, steps, 17)
    assert engine[:2] == [[window("k", 90, 100, "0+a", 100)], [window("k", 90, 100, "0+a+b", 100)]]
    assert repaired == [[], [], [window("k", 90, 100, "0+a+b", 100)]]


def test_row_18_an_older_put_after_a_tombstone_at_the_latest_time_is_not_the_latest() -> None:
    params = {"type": "inner", "left_versioned_ms": 100}
    steps = [("right", "k", "r", 1), ("left", "k", "a", 10), ("left", "k", None, 10), ("left", "k", "b", 5)]
    engine, repaired = both("table_table", params, steps, 18)
    assert engine[3] == [Result("k", "b+r", 5)]
    assert repaired[3] == []


def test_row_21_time_behind_a_filter_is_the_time_of_the_source() -> None:
    params = {"input_materialized": True, "ops": [{"op": "filter"}, {"op": "suppress", "ms": 10}]}
    steps = [("input", "k", "a2", 100), ("input", "m", "b3", 110)]
    engine, repaired = both("table_ops", params, steps, 21)
    assert engine == [[], []]
    assert repaired == [[], [Result("k", "a2", 100)]]


def test_row_21_a_result_that_was_held_back_is_not_late_behind_the_join() -> None:
    params = {**joined("left", 10, 10, 0), "size_ms": 10, "window_grace_ms": 0}
    steps = [
        ("left", "k", "a", 109),
        ("left", "m", "b", 118),
        ("right", "m", "r", 119),
        ("left", "z", "c", 400),
    ]
    engine, repaired = both("stream_stream_window", params, steps, 21)
    assert [window("k", 100, 110, "0+a+null", 109)] not in engine
    assert repaired[3] == [window("k", 100, 110, "0+a+null", 109)]


def test_row_30_what_was_sent_keeps_its_timestamp_while_a_change_is_held_back() -> None:
    params = {"type": "inner", "left_ops": [{"op": "suppress", "ms": 10}]}
    steps = [("left", "k", "a", 9), ("left", "x", "b", 30), ("left", "k", "c", 31), ("right", "k", "r", 5)]
    engine, repaired = both("table_table", params, steps, 30)
    assert engine[3] == [Result("k", "a+r", 5)]
    assert repaired[3] == [Result("k", "a+r", 9)]


def test_row_28_what_was_held_back_goes_before_the_change_that_ends_its_wait() -> None:
    params = {"agg": "log", "suppress": {"until": "time_limit", "ms": 10}}
    steps = [("input", "k", "a", 8), ("input", "k", "b", 20), ("input", "x", "c", 40)]
    engine, repaired = both("stream_aggregate", params, steps, 28)
    assert engine == [[], [Result("k", "0+a+b", 20)], []]
    assert repaired == [[], [Result("k", "0+a", 8)], [Result("k", "0+a+b", 20)]]


def test_row_27_held_rows_of_one_timestamp_come_by_key_and_not_by_what_arrived_before_them() -> None:
    params = {"type": "left", "right_versioned_ms": 30, "grace_ms": 10}
    steps = [("left", "", "a", 100), ("left", "\0", "b", 100), ("left", "", "c", 100), ("left", "m", "d", 110)]
    engine, repaired = both("stream_table", params, steps, 27)
    a, b, c = Result("", "a+null", 100), Result("\0", "b+null", 100), Result("", "c+null", 100)
    assert engine == [[], [], [], [b, a, c]]
    assert repaired == [[], [], [], [a, c, b]]


@pytest.mark.parametrize(("rows", "counted"), [(frozenset(), ["1", "2"]), (frozenset({29}), ["1", "1"])])
def test_row_29_a_session_that_is_replaced_is_counted_once_by_a_group_below(rows: Any, counted: Any) -> None:
    topology, source = Topology(Semantics(rows=rows)), Node()
    topology.source("in", source)
    sessions = window_aggregate(topology, source, windows("session", 0, gap_ms=5), AGGREGATORS["count"])
    groups = GroupTable(topology, sessions, lambda key, count: (key.key, count))
    counts = TableAggregate(topology, groups.topic, AGGREGATORS["count"])
    topology.sink(TableMapValues(counts, str))
    said = [topology.pipe("in", "k", "a", 10)[-1].value for _ in range(2)]
    assert said == counted
    assert topology.pipe("in", "k", "a", 12)[-1].value == counted[-1]


@pytest.mark.parametrize(("rows", "seen"), [(frozenset(), True), (frozenset({31}), False)])
def test_row_31_a_table_that_emits_on_close_shows_what_it_has_sent(rows: Any, seen: bool) -> None:
    topology, source = Topology(Semantics(rows=rows)), Node()
    topology.source("in", source)
    params = windows("tumbling", 0, size_ms=10, emit="close")
    table = window_aggregate(topology, source, params, AGGREGATORS["count"])
    topology.pipe("in", "k", "a", 5)
    assert (table.get(Windowed("k", 0, 10)) is not None) == seen
    topology.pipe("in", "k", "b", 10)
    assert table.get(Windowed("k", 0, 10)) == (1, 5)


@pytest.mark.parametrize(("rows", "seen"), [(frozenset(), None), (frozenset({32}), (1, 5))])
def test_row_32_a_window_is_looked_up_however_long_ago_it_closed(rows: Any, seen: Any) -> None:
    topology, source = Topology(Semantics(rows=rows)), Node()
    topology.source("in", source)
    table = window_aggregate(topology, source, windows("tumbling", 0, size_ms=10), AGGREGATORS["count"])
    topology.pipe("in", "k", "a", 5)
    topology.pipe("in", "x", "b", 1_000)
    assert table.get(Windowed("k", 0, 10)) == seen


@pytest.mark.parametrize(("rows", "values"), [(frozenset(), ["0+b", "0+c"]), (frozenset({34}), ["0+b", "0+b+c"])])
def test_row_34_what_a_fold_has_deleted_begins_anew_once(rows: Any, values: Any) -> None:
    topology, source = Topology(Semantics(rows=rows)), Node()
    topology.source("in", source)
    aggregate = StreamAggregate(topology, source, AGGREGATORS["reset"], history_ms=50)
    topology.sink(aggregate)
    assert [each.value for each in topology.pipe("in", "k", "3", 100)] == [None]
    found = [topology.pipe("in", "k", value, ts) for value, ts in (("b", 60), ("c", 70))]
    assert [result.value for results in found for result in results] == values
    # both are older than the deletion
    assert aggregate.get("k") is None
    assert aggregate.get_as_of("k", 75) == (values[-1], 70)


@pytest.mark.parametrize(("rows", "values"), [(frozenset(), ["0+b", "0+b+c"]), (frozenset({18}), ["0+b", "0+c"])])
def test_row_18_a_fold_that_deletes_an_aggregate_at_its_own_time_is_forgotten(rows: Any, values: Any) -> None:
    topology, source = Topology(Semantics(rows=rows)), Node()
    topology.source("in", source)
    topology.sink(StreamAggregate(topology, source, AGGREGATORS["reset"], history_ms=50))
    assert [topology.pipe("in", "k", value, 100)[0].value for value in ("a", "3")] == ["0+a", None]
    found = [topology.pipe("in", "k", value, ts) for value, ts in (("b", 60), ("c", 70))]
    assert [result.value for results in found for result in results] == values


@pytest.mark.parametrize(("rows", "sent"), [(frozenset(), [(None, 32), (None, 52)]), (frozenset({35}), [(None, 32)])])
def test_row_35_no_tombstone_for_a_row_that_a_join_was_not_told_of(rows: Any, sent: Any) -> None:
    topology = Topology(Semantics(rows=rows | {21, 28}))
    table = TableSource(topology, history_ms=30)
    topology.source("in", table)
    topology.sink(TableTableJoin(topology, (Suppress(topology, table, 20), table), "left", lambda left, right: left))
    # what comes late is sent in place of what it comes behind
    found = [topology.pipe("in", "a", *each) for each in (("1", 32), (None, 19), (None, 52), ("1", 74))]
    assert [(result.value, result.ts) for results in found for result in results] == sent


def test_row_33_bytes_are_those_of_key_and_value_or_what_an_entry_takes_in_memory() -> None:
    held = {"op": "suppress", "ms": 10, "max_bytes": 20}
    steps = [("input", "k", "p|a", 1), ("input", "m", "p|b", 2)]
    engine, repaired = both("suppress_then_aggregate", {"input_ops": [held]}, steps, 33)
    # in memory each takes 37: time, key, value, and the record's timestamp, offset, topic and partition; here 12
    assert engine == [[Result("p", "0+a", 1)], [Result("p", "0+a+b", 2)]]
    assert repaired == [[], [Result("p", "0+a", 1)]]


def test_row_36_cogrouped_streams_have_one_time() -> None:
    params = {"streams": 2, "window": "tumbling", "size_ms": 10, "grace_ms": 0}
    steps = [("s0", "k", "a", 100), ("s1", "k", "b", 5)]
    engine, repaired = both("cogroup", params, steps, 36)
    assert engine[1] == [window("k", 0, 10, "0-b", 5)]
    assert repaired[1] == []


def test_row_36_a_window_that_was_final_is_final() -> None:
    params = {"streams": 2, "window": "tumbling", "size_ms": 10, "grace_ms": 0, "suppress": {"until": "window_closes"}}
    steps = [("s0", "k", "a", 5), ("s0", "k", "b", 10), ("s1", "k", "c", 6)]
    engine, repaired = both("cogroup", params, steps, 36)
    # the store has forgotten the window, so it begins anew
    assert engine[1:] == [[window("k", 0, 10, "0+a", 5)], [window("k", 0, 10, "0-c", 6)]]
    assert repaired[1:] == [[window("k", 0, 10, "0+a", 5)], []]


def test_row_37_a_group_behind_a_suppress_takes_back_what_it_was_given() -> None:
    params = {"agg": "log", "input_ops": [{"op": "suppress", "ms": 5}]}
    steps = [("c", "y|9", 0), ("a", "x|1", 10), ("a", "y|2", 11), ("a", "z|3", 12), ("b", "q", 40)]
    engine, repaired = both("suppress_then_aggregate", params, [("input", *step) for step in steps], 37)
    assert engine[1] == repaired[1] == [Result("y", "0+9", 0)]
    # y never had 2
    assert engine[4] == [Result("y", "0+9-2", 12), Result("z", "0+3", 12)]
    assert repaired[4] == [Result("z", "0+3", 12)]


@pytest.mark.parametrize("spec", [windows("tumbling", 0, size_ms=10), windows("sliding", 0, difference_ms=10)])
def test_row_38_what_a_window_begins_with_is_no_old_value(spec: dict[str, Any]) -> None:
    steps = [("input", "k", "a", 5), ("input", "k", "b", 25)]
    engine, repaired = both("window_then_aggregate", spec, steps, 38)
    assert engine[1][-1].value == "0+0+a-0+0+b"
    assert repaired[1][-1].value == "0+0+a+0+b"


def test_row_39_what_one_record_causes_by_two_ways_is_joined_where_it_comes() -> None:
    params = {"type": "inner", "type2": "inner", "fk": "ref", "fk2": "ref"}
    steps = [("right", "p", "b", 1), ("left", "k", "p|a", 2), ("right", "p", "c", 3)]
    engine, repaired = both("fk_chain_same", params, steps, 39)
    assert engine[1] == repaired[1] == [Result("k", "p|a+b+b", 2)]
    assert engine[2] == [Result("k", "p|a+c+c", 3)]
    assert repaired[2] == [Result("k", "p|a+c+b", 3), Result("k", "p|a+c+c", 3)]


def test_a_row_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown rows of section A: \[99\]"):
        Semantics(rows=frozenset({99}))


def test_rows_are_exceptions_from_either_side() -> None:
    assert Semantics(rows=frozenset({2})).repaired(2)
    assert not Semantics(rows=frozenset({2})).repaired(1)
    assert not Semantics(faithful=False, rows=frozenset({2})).repaired(2)
    assert Semantics(faithful=False, rows=frozenset({2})).repaired(1)


def test_a_run_knows_which_rows_it_could_depend_on() -> None:
    semantics = Semantics()
    build("stream_stream", joined("left", 10, 10, 0), semantics).pipe("left", "k", "a", 1)
    assert semantics.asked <= set(ROWS)
    assert {1, 2, 14} <= semantics.asked
    assert 6 not in semantics.asked
