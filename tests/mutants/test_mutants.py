"""Each pitfall, put in: the net must tear. `docs/mutants.md` is the table of what this module tests.

A mutant is a function that takes a monkeypatch and breaks the engine in one way. Without mutants every net
holds, which the first test checks, so what tears is the mutant's doing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof import engine
from proof.histories.driver import RoughDriver
from tests.mutants.aggregates import OF_AGGREGATES
from tests.mutants.foreign_keys import (
    double_tombstone,
    forgets_within_the_batch,
    left_keys_shard,
    null_foreign_key_ignored,
    old_foreign_key_alive,
)
from tests.mutants.net import NETS, caught
from tests.mutants.window_aggregates import OF_WINDOWS
from tests.mutants.wtables import OF_WTABLES
from watersmeet._engine import exchange, keys, operator
from watersmeet._engine import operators as level
from watersmeet._engine.operators import foreign_key_join, stream_join, table_join
from watersmeet._engine.rows import position_columns
from watersmeet._engine.state import merge, runs
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.manifest import Manifest, TableLayout
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan import rewrite
from watersmeet._plan.declaration import TableSchema
from watersmeet.errors import StateError

Patch = pytest.MonkeyPatch
ROOT = Path(__file__).parents[2]


def no_order(patch: Patch) -> None:
    """Rows are taken in the order in which their blobs arrive."""
    patch.setattr(operator, "order_by", lambda columns: np.arange(len(columns[0]), dtype=np.int64))


def crash_between_levels(patch: Patch) -> None:
    """A crash between the commits of two levels leaves the first one's state of the crashed batch."""

    def restore(broken: Any, before: Any) -> None:
        empty = MemoryChunkStore().snapshot()
        for place, store in broken.stores.items():
            if place[0] > 0:
                store.restore(before.get(place, empty))

    patch.setattr(RoughDriver, "_restore", restore)


def spurious_tombstone(patch: Patch) -> None:
    """A tombstone is sent although nothing stood."""
    rule = table_join._current_rule

    def always(how: str, changes: Any) -> Any:
        emitted, joins, old_joins = rule(how, changes)
        return np.ones(len(emitted), dtype=np.bool_), joins, old_joins

    patch.setattr(table_join, "_current_rule", always)


def missing_tombstone(patch: Patch) -> None:
    """What no longer joins is not deleted."""
    rule = table_join._current_rule

    def never(how: str, changes: Any) -> Any:
        emitted, joins, old_joins = rule(how, changes)
        return emitted & joins, joins, old_joins

    patch.setattr(table_join, "_current_rule", never)


def sees_what_was_sent(patch: Patch) -> None:
    """A join keeps what the join before it sent, not what lookups see."""
    patch.setattr(table_join, "_views", lambda events, values: iter(()))


def key_prefix(patch: Patch) -> None:
    """A key that begins like another is taken for it."""
    grouped = operator.group_keys
    patch.setattr(exchange, "hash_keys", lambda k: np.zeros(len(k), dtype=np.int64))
    patch.setattr(operator, "group_keys", lambda h, k: grouped(h, pc.utf8_slice_codeunits(k, 0, 1)))


def late_update_ignored(patch: Patch) -> None:
    """An update of a table is dropped when its key has seen a later timestamp."""

    def run(context: Any, inputs: Any, state: Any) -> Iterator[pa.Table]:
        names = position_columns(context.slots)
        kept = {}
        for side, rows in inputs.items():
            rows, latest = rows.sort_by([(name, "ascending") for name in names]), defaultdict(int)
            flags = []
            for key, ts in zip(rows["key"].to_pylist(), rows["ts"].to_pylist(), strict=True):
                flags.append(ts >= latest[key])
                latest[key] = max(latest[key], ts)
            kept[side] = rows.filter(pa.array(flags))
        yield from table_join.run_table_table(context, kept, state)

    patch.setitem(level.OPERATORS, "table_table", run)


def closes_early(patch: Patch) -> None:
    """A null result comes when the window has passed, without waiting for the grace."""
    patch.setattr(stream_join.Rules, "close", lambda rules, ts, side: ts + np.array(rules.ahead)[side])


def null_after_match(patch: Patch) -> None:
    """Whoever is matched while it waits gets its null result all the same."""
    patch.setattr(runner(), "_learn_matches", lambda self: None)


def match_and_expiry(patch: Patch) -> None:
    """A match in the batch in which the window closes comes too late."""
    learn = runner()._learn_matches

    def late(self: Any) -> None:
        learn(self)
        self._met[:] = False

    patch.setattr(runner(), "_learn_matches", late)


def late_downstream(patch: Patch) -> None:
    """The time of an operator does not allow for what the operators above hold back."""
    settle = rewrite.settle_timing

    def without_lag(plan: Any, flows: Any, edges: Any, operators: Any) -> None:
        settle(plan, flows, edges, operators)
        for key, settled in operators.items():
            operators[key] = replace(settled, hold_back=0)

    patch.setattr(rewrite, "settle_timing", without_lag)


def boundary(patch: Patch) -> None:
    """A window closes at its last moment, not behind it."""
    close = stream_join.Rules.close
    patch.setattr(stream_join.Rules, "close", lambda rules, ts, side: close(rules, ts, side) - 1)


def through_floats(patch: Patch) -> None:
    """Integers with nulls among them go through floats, as pandas has it."""

    def decode(content: bytes) -> pa.Table:
        rows = plain(content)
        at = rows.schema.get_field_index("key")
        if rows.schema.field(at).type != pa.int64():
            return rows
        floats = rows.column(at).cast(pa.float64(), safe=False)
        return rows.set_column(at, "key", floats.cast(pa.int64(), safe=False))

    plain = engine.row_sizes.decode
    patch.setattr(engine.row_sizes, "decode", decode)


def empty_is_null(patch: Patch) -> None:
    """An empty text is taken for no key."""
    valid = exchange.valid

    def truthy(values: pa.Array) -> Any:
        found = valid(values)
        return found & np.array([value != "" for value in values.to_pylist()], dtype=np.bool_)

    patch.setattr(exchange, "valid", truthy)


def ends_at_zero_byte(patch: Patch) -> None:
    """A key ends where a zero byte stands, as in C."""
    packed = exchange._as_edge

    def cut(part: pa.Table, outlet: Any, slots: int) -> pa.Table:
        at = part.schema.get_field_index(outlet.key)
        ended = pc.replace_substring_regex(part.column(at), "\x00.*", "")
        return packed(part.set_column(at, outlet.key, ended), outlet, slots)

    patch.setattr(exchange, "_as_edge", cut)


def one_blob_at_a_time(patch: Patch) -> None:
    """The rows of one key are processed blob by blob, not together."""

    def run(context: Any, inputs: Any, state: Any) -> Iterator[pa.Table]:
        for side, rows in inputs.items():
            for piece in rows.to_batches():
                yield from table_join.run_table_table(context, {side: pa.Table.from_batches([piece])}, state)
                state.commit()

    patch.setitem(level.OPERATORS, "table_table", run)


def first_piece_only(patch: Patch) -> None:
    """Of a key with more rows than a piece holds only the first piece arrives."""
    split = exchange._split

    def some(*arguments: Any) -> Iterator[Any]:
        yield from (replace(routed_batch, rows=routed_batch.rows.slice(0, 4)) for routed_batch in split(*arguments))

    patch.setattr(exchange, "_split", some)


def collisions_meet(patch: Patch) -> None:
    """Keys that share a hash are taken for one."""
    patch.setattr(exchange, "hash_keys", lambda k: np.zeros(len(k), dtype=np.int64))
    patch.setattr(keys, "_split_collisions", lambda ordered, order, fresh, k: (order, fresh))


def merged_the_wrong_way(patch: Patch) -> None:
    """A merge keeps the older row of a key."""
    newest = merge.newest

    def older(rows: pa.RecordBatch, layout: TableLayout, **options: bool) -> np.ndarray:
        backwards = np.arange(len(rows))[::-1]
        return backwards[newest(rows.take(pa.array(backwards)), layout, **options)]

    patch.setattr(runs, "newest", older)


def tombstone_lost(patch: Patch) -> None:
    """A merge drops tombstones although older rows lie below."""
    changes = runs.Table.changes
    patch.setattr(runs.Table, "changes", lambda table, size, **_: changes(table, size, drop_tombstones=True))


def random_run_ids(patch: Patch) -> None:
    """Runs are named by something else than the state and the input."""
    numbers, writer = count(1_000), runs.RunWriter
    patch.setattr(runs, "RunWriter", lambda store, reader, _, size: writer(store, reader, next(numbers), size))


def crash_leaves_state(patch: Patch) -> None:
    """What a crashed batch wrote is still there when it is run again."""
    patch.setattr(MemoryChunkStore, "restore", lambda self, snapshot: None)


def seconds_in_32_bits(patch: Patch) -> None:
    """Timestamps are kept in 32 bits."""
    meta = operator.Events.meta
    patch.setattr(operator.Events, "meta", lambda self, rows, ts: meta(self, rows, ts & 0x7FFFFFFF))


def zero_is_no_time(patch: Patch) -> None:
    """A record at time zero is taken for one without a time and dropped."""
    piped = engine.EngineBatch.run_sources
    patch.setattr(engine.EngineBatch, "run_sources", lambda self, rows: piped(self, [row for row in rows if row.ts]))


def negative_is_a_time(patch: Patch) -> None:
    """Records before 1970 go through."""
    piped = engine.EngineBatch.run_sources

    def moved(self: Any, rows: list[Any]) -> None:
        piped(self, [replace(row, ts=abs(row.ts)) for row in rows])

    patch.setattr(engine.EngineBatch, "run_sources", moved)


def runner() -> Any:
    """The class that runs a windowed join over one batch."""
    return next(
        value for value in vars(stream_join).values() if isinstance(value, type) and hasattr(value, "_learn_matches")
    )


MUTANTS: list[tuple[Callable[[Patch], None], str]] = [
    (no_order, "table_table inner"),
    (old_foreign_key_alive, "foreign_key left"),
    (null_foreign_key_ignored, "foreign_key inner"),
    (forgets_within_the_batch, "foreign_key inner"),
    (double_tombstone, "foreign_key left"),
    (left_keys_shard, "foreign_key inner"),
    (crash_between_levels, "foreign_key inner"),
    (spurious_tombstone, "table_table outer"),
    (missing_tombstone, "table_table inner"),
    (sees_what_was_sent, "table_table chain"),
    (key_prefix, "table_table inner"),
    (late_update_ignored, "table_table inner"),
    (closes_early, "stream_stream left"),
    (null_after_match, "stream_stream left"),
    (match_and_expiry, "stream_stream left"),
    (late_downstream, "stream_stream chain"),
    (boundary, "stream_stream left"),
    (through_floats, "table_table left, long keys"),
    (empty_is_null, "table_table outer"),
    (ends_at_zero_byte, "table_table outer"),
    (one_blob_at_a_time, "table_table inner"),
    (first_piece_only, "table_table outer"),
    (collisions_meet, "table_table inner"),
    (merged_the_wrong_way, "table_table outer"),
    (tombstone_lost, "table_table outer"),
    (random_run_ids, "table_table inner"),
    (crash_leaves_state, "table_table inner"),
    (seconds_in_32_bits, "stream_table left"),
    (zero_is_no_time, "table_table outer"),
    (negative_is_a_time, "table_table outer"),
    *OF_WINDOWS,
    *OF_AGGREGATES,
    *OF_WTABLES,
]


@pytest.mark.parametrize(
    "net", [pytest.param(net, marks=() if number % 3 == 0 else pytest.mark.proof) for number, net in enumerate(NETS)]
)
def test_without_a_mutant_the_net_holds(net: str) -> None:
    assert caught(net) is None


@pytest.mark.parametrize(
    ("mutant", "net"),
    [
        pytest.param(mutant, net, id=mutant.__name__, marks=() if number % 4 == 0 else pytest.mark.proof)
        for number, (mutant, net) in enumerate(MUTANTS)
    ],
)
def test_the_net_tears(monkeypatch: Patch, mutant: Callable[[Patch], None], net: str) -> None:
    mutant(monkeypatch)
    assert caught(net, 200) is not None


@pytest.mark.parametrize("net", ["table_table inner", "foreign_key inner", "foreign_key left"])
def test_hash_collisions_alone_tear_nothing(monkeypatch: Patch, net: str) -> None:
    for module in (exchange, foreign_key_join, foreign_key_join):
        monkeypatch.setattr(module, "hash_keys", lambda k: np.zeros(len(k), dtype=np.int64))
    assert caught(net) is None


def test_a_cached_run_of_another_checkpoint_is_seen_unless_nobody_looks(tmp_path: Path, monkeypatch: Patch) -> None:
    def taken() -> pa.RecordBatch:
        cache = RunCache(tmp_path / "cache")
        cache.publish("other", pa.record_batch({"value": [1]}))
        os.replace(tmp_path / "cache" / "other.run", tmp_path / "cache" / "run.run")
        return cache.open("run", lambda: pa.record_batch({"value": [2]}))

    assert taken().column("value").to_pylist() == [2]
    monkeypatch.setattr(RunCache, "_is_right", lambda *_: True)
    assert taken().column("value").to_pylist() == [1]


def test_a_changed_table_on_old_state_is_refused_unless_nobody_looks(monkeypatch: Patch) -> None:
    store = MemoryChunkStore()
    totals = TableSchema("totals", (("key", pa.string()), ("value", pa.int64())))
    state = State(store)
    state.table(totals).put(pa.table({"hash": [1], "key": ["a"], "value": [1]}))
    state.commit()
    changed = replace(totals, columns=(("key", pa.string()), ("value", pa.string())))
    with pytest.raises(StateError, match="other columns"):
        State(store).table(changed)
    monkeypatch.setattr(runs.mf, "read", lambda content: Manifest())
    State(store).table(changed)


def test_the_table_of_mutants_names_every_mutant() -> None:
    text = (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")
    assert not [mutant.__name__ for mutant, _ in MUTANTS if f"`{mutant.__name__}`" not in text]
