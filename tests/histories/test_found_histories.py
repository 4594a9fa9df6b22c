"""What random histories found once, each made as small as possible (docs/soak.md): it holds."""

from __future__ import annotations

import pytest

from proof.histories import Case, Input, Op, Ref, check
from proof.histories.blueprint import Blueprint
from proof.histories.report import page

FOUND = {
    "records of one time that come in another order than their streams are joined as they came": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("stream", (), {}),
                Op("stream_stream", (Ref(0), Ref(1)), {"how": "left", "before": 5, "after": 0, "grace": 86_400_000}),
                Op("to", (Ref(2),), {}),
            ),
            keys="long",
            generation="old",
        ),
        (Input("n1", 9007199254740992, "1", 0, 1), Input("n0", 9007199254740992, "1", 0, 1)),
        shuffle=147,
        partitioned=True,
    ),
    "a foreign key finds what suppress has sent of a change that came late": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("to_table", (Ref(0),), {"history": 30}),
                Op("suppress", (Ref(1),), {"ms": 5}),
                Op("table", (), {}),
                Op("foreign_key", (Ref(2), Ref(3)), {"how": "left"}),
                Op("table_to", (Ref(4),), {}),
            ),
            keys="long",
            generation="current",
        ),
        (
            Input("n0", 9007199254740992, "1", 46),
            Input("n3", 9007199254740993, "1", 51),
            Input("n0", 9007199254740992, "|6", 24),
        ),
        shuffle=395,
    ),
    "an aggregate's history passes a record behind one that was let go with it under a key that begins alike": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op(
                    "window_aggregate",
                    (Ref(0),),
                    {"windows": "hopping", "size": 10, "grace": 3, "close": True, "fold": "reduce"},
                ),
                Op("windowed_table_group", (Ref(1),), {"fold": "reduce", "history": 5}),
                Op("to_stream", (Ref(2),), {}),
                Op("to", (Ref(3),), {}),
            ),
        ),
        (Input("n0", "a", "1", 0), Input("n0", "a\0", "a|4", 1), Input("n0", "a", "a|4", 8), Input("n0", "a", "1", 30)),
    ),
    "a stream that is joined under a grace closes the windows of the table": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op(
                    "window_aggregate",
                    (Ref(0),),
                    {"windows": "session", "size": 10, "grace": 0, "close": True, "fold": "count"},
                ),
                Op("windowed_table_group", (Ref(1),), {"fold": "set", "history": 5}),
                Op("stream", (), {}),
                Op("stream_table", (Ref(3), Ref(2)), {"how": "inner", "grace": 4}),
                Op("table_to", (Ref(1),), {}),
                Op("to", (Ref(4),), {}),
            ),
        ),
        (Input("n0", "a", "a|4", 0), Input("n3", "", "b|5", 20), Input("n3", "", "b|5", 30)),
    ),
    "a record without a key moves the time of a left join with a grace, though the topic behind does not take it": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("table", (), {"history": 30}),
                Op("stream_table", (Ref(0), Ref(1)), {"how": "left", "grace": 1}),
                Op("repartition", (Ref(2),), {}),
                Op("to", (Ref(3),), {}),
            ),
            keys="long",
        ),
        (Input("n0", 9007199254740992, "1", 0), Input("n0", None, "1", 1)),
    ),
    "a join knows by itself what it was told of a suppressed versioned table": Case(
        Blueprint(
            ops=(
                Op("table", (), {"history": 30}),
                Op("suppress", (Ref(0),), {"ms": 20}),
                Op("table_table", (Ref(1), Ref(0)), {"how": "left"}),
                Op("table_to", (Ref(2),), {}),
            ),
        ),
        (Input("n0", "a", "1", 32), Input("n0", "a", None, 19), Input("n0", "a", None, 52), Input("n0", "a", "1", 74)),
    ),
    "a batch is cut where a join of an earlier generation would be given its records in another order": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("stream", (), {}),
                Op("stream_stream", (Ref(0), Ref(1)), {"how": "inner", "before": 0, "after": 20, "grace": 86400000}),
                Op("to", (Ref(2),), {}),
            ),
            generation="old",
        ),
        (Input("n1", "a", "1", 66), Input("n0", "a", "1", 66)),
        partitioned=True,
    ),
    "a table's history goes by the time of the partition of what a join let go": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("stream_stream", (Ref(0), Ref(0)), {"how": "left", "before": -1, "after": 5, "grace": 0}),
                Op("to_table", (Ref(1),), {"history": 0}),
                Op("table_to", (Ref(2),), {}),
            ),
        ),
        (
            Input("n0", "a", "1", 66, 1),
            Input("n0", "b", "1", 87, 0),
            Input("n0", None, None, 95, 0),
            Input("n0", "a", None, 95, 1),
        ),
        partitioned=True,
    ),
    "a group takes back what suppress has sent, whichever partitions its changes lie in": Case(
        Blueprint(
            ops=(
                Op("table", (), {}),
                Op("suppress", (Ref(0),), {"ms": 1}),
                Op("table_aggregate", (Ref(1),), {"fold": "log"}),
                Op("table_to", (Ref(2),), {}),
            ),
        ),
        (
            Input("n0", "a", "a|1", 0, 0),
            Input("n0", "a", "a|2", 1, 1),
            Input("n0", "b", None, 2, 1),
            Input("n0", "b", None, 9, 0),
        ),
        partitioned=True,
    ),
    "a processor of keys that are not a number sends under its own key": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("process", (Ref(0),), {"record": [["forward"]], "timer": [], "lasts": {}}),
                Op("to", (Ref(1),), {}),
            ),
            keys="double",
            values="array",
        ),
        (Input("n0", "a", "1", 0),),
    ),
    "the wall clock moves no time that no record has told": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("table", (), {"history": 200}),
                Op("stream_table", (Ref(0), Ref(1)), {"how": "inner", "grace": 1}),
                Op("to", (Ref(2),), {}),
            ),
        ),
        (Input("n1", "b", "1", 0), Input("n1", "a", "1", 1), Input("n0", "a", "1", 2)),
        clock=((1, 1090), (2, 1180)),
        idle_after=40,
    ),
    "a processor's time stays where the wall clock lets windows of another partition go": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op(
                    "window_aggregate",
                    (Ref(0),),
                    {"windows": "hopping", "size": 20, "grace": 30, "close": True, "fold": "wm.collect_list"},
                ),
                Op("windowed_stream", (Ref(1),), {}),
                Op(
                    "process",
                    (Ref(2),),
                    {"record": [["time"], ["set_wall", 5]], "timer": [], "wall": [["null"]], "lasts": {}},
                ),
                Op("to", (Ref(3),), {}),
            ),
            keys="long",
        ),
        (Input("n0", 2**53, "b|5", 25, 2), Input("n0", 2**53, "1", 1, 0)),
        partitioned=True,
        clock=((1, 1001), (2, 1181)),
        idle_after=1,
    ),
    "the time of a processor behind rows that a join has let go is the same with timers and without": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op("stream_stream", (Ref(0), Ref(0)), {"how": "left", "before": -5, "after": 20, "grace": 3}),
                Op("process", (Ref(1),), {"record": [["time"]], "timer": [], "lasts": {}}),
                Op("to", (Ref(2),), {}),
            ),
            keys="long",
        ),
        (Input("n0", 2**53, "1", 23), Input("n0", 2**53, "1", 98)),
    ),
    "a record that comes as the input rests sees the wall clock, and not the moment that let it go": Case(
        Blueprint(
            ops=(
                Op("stream", (), {}),
                Op(
                    "window_aggregate",
                    (Ref(0),),
                    {"windows": "sliding", "size": 10, "grace": 30, "close": False, "fold": "reset"},
                ),
                Op(
                    "window_aggregate",
                    (Ref(0),),
                    {"windows": "hopping", "size": 10, "grace": 0, "close": True, "fold": "wm.min"},
                ),
                Op("wtable_wtable", (Ref(1), Ref(2)), {"how": "left", "keep": 40, "shift": "same"}),
                Op("stream_aggregate", (Ref(0),), {"fold": "wm.last", "history": 200}),
                Op("windowed_stream", (Ref(3),), {}),
                Op(
                    "process_table",
                    (Ref(5), Ref(4)),
                    {"record": [["forward"], ["set_wall", 0]], "timer": [], "wall": [["forward"]], "lasts": {}},
                ),
                Op("stream_aggregate", (Ref(6),), {"fold": "reduce"}),
                Op("table_to", (Ref(7),), {}),
            ),
        ),
        (Input("n0", "a", "a|b|7", 0, 1), Input("n0", "b", "1", 1, 0)),
        partitioned=True,
        clock=((1, 1001), (2, 1041)),
        idle_after=10,
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_history_that_once_differed_holds(name: str) -> None:
    found = check(FOUND[name])
    assert found is None, page(found)
