"""What is large is cut by its bytes: results, changes, runs; here with limits that small values pass."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineBatch, EngineDriver
from tests.engine.state.state_kit import declared
from tests.engine.stream_kit import PLUS
from watersmeet._engine import row_sizes
from watersmeet._engine import rows as columns
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.row_sizes import Picked, cut, in_pieces, row_bytes
from watersmeet._engine.rows import gather, joined
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import SourceError
from watersmeet.windows import JoinWindows

LIMIT = 10_000
LARGE = "x" * 1_000
"""Of results of this size ten fit into the limit."""


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sizes, "RESULT_BYTES", LIMIT)
    monkeypatch.setattr(columns, "ARRAY_BYTES", LIMIT)


@pytest.mark.parametrize(
    ("values", "kind", "least"),
    [
        (["", "abc", None, "é"], pa.string(), [0, 3, 0, 2]),
        ([b"", b"abcd"], pa.large_binary(), [0, 4]),
        ([{"a": "abc", "b": 1}, {"a": "", "b": 2}], pa.struct([("a", pa.string()), ("b", pa.int64())]), [11, 8]),
        ([[1, 2], [], [3]], pa.list_(pa.int64()), [16, 0, 8]),
        ([1, None], pa.int64(), [8, 8]),
        ([{"a": 1}, {}], pa.map_(pa.string(), pa.int64()), [9, 0]),
    ],
)
def test_the_bytes_of_rows_are_told_from_all_types_of_values(values: list[Any], kind: Any, least: list[int]) -> None:
    array = pa.array([*values, *values], kind).slice(len(values))
    found = row_bytes(array)
    assert ((found >= least) & (found <= np.array(least) + 32)).all()
    assert row_bytes(array, np.array([1, 0])).tolist() == found[[1, 0]].tolist()
    assert row_bytes(pa.chunked_array([array, array])).tolist() == [*found, *found]


def test_rows_are_cut_where_their_bytes_are_full_and_a_large_row_stands_alone() -> None:
    assert list(cut(np.array([4, 4, 4, 99, 1, 1]), 8)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    pieces = list(in_pieces({"n": pa.array(range(5)), "v": Picked(pa.array(["abcd", None]), np.array([0] * 5))}, 16))
    assert [piece.column("n").to_pylist() for piece in pieces] == [[0, 1], [2, 3], [4]]
    assert [len(piece) for piece in in_pieces({"v": Picked(pa.array(["a"]), np.zeros(0, dtype=np.int64))})] == [0]


@pytest.mark.usefixtures("low_limits")
def test_values_in_chunks_are_gathered_as_from_one_array() -> None:
    chunks = [[LARGE + str(n) for n in range(begin, begin + 5)] for begin in (0, 5, 10)]
    values = joined([pa.array(chunk) for chunk in chunks], pa.string())
    assert isinstance(values, pa.ChunkedArray)
    pointers = np.array([14, -1, 0, 7, 7, 3, -1])
    expected = pa.array([LARGE + str(n) if n >= 0 else None for n in pointers])
    assert gather(values, pointers).equals(expected)


class Watched(EngineDriver):
    """A driver that notes how many bytes each table of an operator's results has."""

    def __init__(self, builder: Any, **options: Any) -> None:
        super().__init__(builder.build(), **options)
        self.bytes: list[int] = []

    def new_batch(self) -> EngineBatch:
        return _Watched(self)


class _Watched(EngineBatch):
    def _run_operator(self, *given: Any) -> Any:
        for rows in super()._run_operator(*given):
            driver = self._driver
            assert isinstance(driver, Watched)
            driver.bytes.append(sum(int(row_bytes(column).sum()) for column in rows.columns))
            yield rows


def to_one(value: pa.Array) -> pa.Array:
    return pa.array(["one"] * len(value), pa.string())


def shared(kind: str) -> Any:
    """A join in which many rows meet one."""
    builder = arrow_builder("large")
    if kind in TABLES:
        many, one = (builder.table(name, key="string", value="string") for name in ("many", "one"))
        joined = {
            "table_table": lambda: many.left_join(one, PLUS),
            "multi_join": lambda: many.multi_join([one], PLUS, how="left"),
            "foreign_key": lambda: many.join(one, PLUS, foreign_key=to_one),
            "one_to_many": lambda: one.one_to_many_join(many, PLUS, key=to_one, result_key=lambda one, many: many),
        }[kind]()
        joined.to_stream().to("out")
        return builder
    stream = builder.stream("many", key="string", value="string")
    if kind == "stream_stream":
        other = builder.stream("one", key="string", value="string")
        stream.outer_join(other, PLUS, JoinWindows(1_000, 1_000, 0)).to("out")
    elif kind == "global_lookup":
        everywhere = builder.global_table("one", key="string", value="string")
        stream.join(everywhere, PLUS, key=lambda key, value: key).to("out")
    else:
        stream.join(builder.table("one", key="string", value="string"), PLUS).to("out")
    return builder


TABLES = ("table_table", "multi_join", "foreign_key", "one_to_many")
KINDS = (*TABLES, "stream_stream", "global_lookup", "stream_table")


def said(driver: EngineDriver, kind: str) -> list[tuple[Any, Any, int]]:
    """What many small rows and two versions of a large one give, in two batches."""
    keys = [f"k{n}" if kind in ("foreign_key", "one_to_many") else "one" for n in range(60)]
    for batch in range(2):
        driver.pipe("one", "one", f"{batch}{LARGE}", ts=batch)
        for number, key in enumerate(keys):
            driver.pipe("many", key, f"v{number}", ts=batch)
        driver.pipe("one", "one", f"{batch}+{LARGE}", ts=batch)
        driver.run_batch()
    return [(r.key, r.value, r.ts) for r in driver.read("out")]


@pytest.mark.parametrize("kind", KINDS)
def test_results_that_share_a_large_value_come_in_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = said(Watched(shared(kind), shards=1), kind)
    monkeypatch.setattr(row_sizes, "RESULT_BYTES", LIMIT)
    monkeypatch.setattr(columns, "ARRAY_BYTES", LIMIT)
    driver = Watched(shared(kind), shards=1)
    assert said(driver, kind) == expected
    assert len(expected) >= 60
    assert max(driver.bytes) < 2 * LIMIT
    assert len(driver.bytes) > 6


@pytest.mark.usefixtures("low_limits")
def test_a_hot_key_is_merged_into_runs_of_bounded_size_and_read_back() -> None:
    schema = pa.schema([("hash", pa.int64()), ("key", pa.string()), ("sub", pa.int64()), ("value", pa.string())])
    store, policy = MemoryChunkStore(), Policy(segment=LIMIT, small=LIMIT)
    for commit in range(4):
        state = State(store, policy=policy)
        table = state.table(declared("t", schema, identity=("key", "sub")))
        keys = pa.array(["hot"] * 40)
        subs = np.arange(40) + 20 * commit
        values = [f"{commit}{LARGE}"] * 40
        table.put(pa.table({"hash": hash_keys(keys), "key": keys, "sub": subs, "value": pa.array(values)}))
        state.commit(compact=commit == 3)
    state = State(store, policy=policy)
    runs = list(state.manifest.tables["t"].runs())
    assert sum(run.rows for run in runs) == 100
    assert max(run.size for run in runs) < 2 * LIMIT
    table = state.table(declared("t", schema, identity=("key", "sub")))
    found = table.rows(hash_keys(pa.array(["hot"])), pa.array(["hot"])).rows
    newest = {sub: value[0] for sub, value in zip(found["sub"].to_pylist(), found["value"].to_pylist(), strict=True)}
    assert Counter(newest.values()) == {"0": 20, "1": 20, "2": 20, "3": 40}
    assert sum(map(len, table.scan())) == 100


@pytest.mark.usefixtures("low_limits")
def test_keys_that_share_a_hash_are_found_over_the_pieces_of_a_run() -> None:
    schema = pa.schema([("hash", pa.int64()), ("key", pa.string()), ("value", pa.string())])
    state = State(MemoryChunkStore(), policy=Policy(segment=LIMIT))
    table = state.table(declared("t", schema))
    keys = pa.array([f"k{number}" for number in range(50)])
    same = np.full(50, 42, dtype=np.int64)
    table.put(pa.table({"hash": same, "key": keys, "value": pa.array([LARGE + k for k in keys.to_pylist()])}))
    state.commit()
    assert len(list(state.manifest.tables["t"].runs())) > 3
    found = table.point(same, keys)
    assert found.aligned("value").to_pylist() == [LARGE + key for key in keys.to_pylist()]


def test_a_record_above_the_limit_is_refused_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table(
        {"root": [0, 1], "partition": [2, 3], "offset": [7, 8], "s0_value": ["a", None], "s1_value": ["", LARGE]}
    )
    row_sizes.refuse_large(frame, {})
    monkeypatch.setattr(row_sizes, "LARGEST_RECORD", 900)
    row_sizes.refuse_large(frame.slice(0, 1), {})
    with pytest.raises(SourceError, match=r"orders is too large(.|\n)*partition 3, offset 8: 1,0.. bytes, 900"):
        row_sizes.refuse_large(frame, {1: "orders"})
    of_pattern = frame.append_column("topic", pa.array(["orders-eu", "orders-us"]))
    with pytest.raises(SourceError, match="topic orders-us, partition 3, offset 8: 1,"):
        row_sizes.refuse_large(of_pattern, {1: "orders-.*"})


def test_blobs_of_rows_of_very_different_sizes_are_cut_by_what_each_has() -> None:
    rows = pa.table({"value": ["a"] * 50 + [LARGE] * 50})
    pieces = list(row_sizes.pieces(rows, LIMIT))
    assert pa.concat_tables(pieces).equals(rows)
    assert max(piece.nbytes for piece in pieces) <= 2 * LIMIT
