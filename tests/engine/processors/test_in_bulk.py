"""process_batch: records of many keys at once; what is done for each key in order does not depend on batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.processors import ListStore, MapStore, ValueStore


class Dedup:
    """Sends what was not there, vectorised."""

    def process_batch(self, records: pa.Table, states: Any) -> pa.Table:
        seen = states["seen"].rows()
        known = set(zip(seen["group"].to_pylist(), seen["entry"].to_pylist(), strict=True))
        pairs = list(zip(records["group"].to_pylist(), records["value"].to_pylist(), strict=True))
        fresh = [at for at, pair in enumerate(pairs) if pair not in known and pairs.index(pair) == at]
        group, entry = ([pairs[at][part] for at in fresh] for part in (0, 1))
        states["seen"].put(pa.table({"group": group, "entry": entry, "value": [True] * len(fresh)}))
        return pa.table({"record": fresh, "value": entry})


class Totals:
    """Running totals of lengths, under another key."""

    def process_batch(self, records: pa.Table, states: Any) -> pa.Table:
        group = records["group"].to_numpy()
        before, kept = np.zeros(group[-1] + 1, dtype=np.int64), states["total"].rows()
        before[kept["group"].to_numpy()] = kept["value"].to_numpy()
        length = np.array([len(value) for value in records["value"].to_pylist()])
        sums = np.cumsum(length)
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        totals = sums - (sums - length)[starts][group] + before[group]
        last = np.append(starts[1:], len(group)) - 1
        # a total of twelve or more begins anew
        states["total"].put(pa.table({"group": group[last], "value": pa.array(totals[last], mask=totals[last] >= 12)}))
        keys = [f"{key}!" for key in records["key"].to_pylist()]
        time = records["timestamp"].to_numpy() + 1
        return pa.table({"record": np.arange(len(group)), "value": totals, "key": keys, "timestamp": time})


def results(make: Any, rows: Sequence[tuple[str, str, int]], stores: Sequence[Any], **sends: Any) -> list[list[Any]]:
    """All results, for each way to cut the rows."""
    builder = arrow_builder("bulk")
    stream = builder.stream("in", key="string", value="string")
    send = stream.process if "key" in sends else stream.process_values
    send(make, stores=stores, **sends).to("out")
    topology, found = builder.build(), []
    for shards, cuts in ((1, ()), (2, range(1, len(rows))), (3, range(0, len(rows), 3))):
        driver = EngineDriver(topology, shards=shards)
        for begin, end in pairwise(sorted({0, len(rows), *cuts})):
            for key, value, ts in rows[begin:end]:
                driver.pipe("in", key, value, ts=ts)
            driver.run_batch()
        found.append([(each.key, each.value, each.ts) for each in driver.read("out")])
    return found


def drawn() -> list[tuple[str, str, int]]:
    dice = Random(3)
    return [(dice.choice("abcd"), dice.choice(("x", "yy", "zzz")) + dice.choice("12"), at) for at in range(60)]


def test_a_dedup_of_whole_batches_sends_the_same_however_the_records_are_cut() -> None:
    whole, *cut = results(Dedup, drawn(), [MapStore("seen", "string", pa.bool_())], value="string")
    told, seen = [], set()
    for key, value, ts in drawn():
        if (key, value) not in seen:
            told.append((key, value, ts))
            seen.add((key, value))
    assert whole == told
    assert cut == [told, told]


def test_results_of_a_batch_have_keys_and_times_of_their_own_and_the_places_of_their_records() -> None:
    (whole,) = results(
        Totals,
        [("b", "xxx", 1), ("a", "yy", 2), ("b", "z", 3)],
        [ValueStore("total", pa.int64())],
        key="string",
        value=pa.int64(),
    )[:1]
    assert whole == [("b!", 3, 2), ("a!", 2, 3), ("b!", 4, 4)]


def test_a_null_value_deletes_an_entry_and_one_that_is_not_there_leaves_nothing_behind() -> None:
    rows = [("a", "x" * 7, at) for at in range(4)]
    _, one_by_one, _ = results(Totals, rows, [ValueStore("total", pa.int64())], key="string", value=pa.int64())
    assert [value for _, value, _ in one_by_one] == [7, 14, 7, 14]


def test_elements_of_a_list_are_entries_with_their_numbers() -> None:
    class Lengths:
        def process_batch(self, records: pa.Table, states: Any) -> pa.Table:
            kept = states["all"].rows()
            states["all"].put(pa.table({"group": [0], "entry": [len(kept)], "value": [records["value"][0].as_py()]}))
            return pa.table({"record": [0], "value": [f"{kept['value'].to_pylist()}"]})

    _, one_by_one, _ = results(
        Lengths, [("a", "1", 0), ("a", "2", 1), ("a", "3", 2)], [ListStore("all", "string")], value="string"
    )
    assert [value for _, value, _ in one_by_one] == ["[]", "['1']", "['1', '2']"]


def test_a_batch_may_give_nothing() -> None:
    class Quiet:
        def process_batch(self, records: pa.Table, states: Any) -> None:
            return None

    assert results(Quiet, [("a", "1", 0)], [], value="string")[0] == []


def of(given: Any) -> Any:
    """A processor that gives this."""

    class Gives:
        def process_batch(self, records: pa.Table, states: Any) -> Any:
            return given(records, states)

    return Gives


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda records, states: records, "gives \\['group', 'key', 'value', 'timestamp'\\] for a batch"),
        (lambda records, states: [1], "gives list for a batch"),
        (lambda records, states: pa.table({"record": [1], "value": ["a"]}), "numbers that are none of those"),
        (lambda records, states: pa.table({"record": [0], "value": [b"\xff"]}), "gives a column 'value' of the type"),
        (lambda records, states: states["seen"].put(records), "puts \\[.*\\], into the store 'seen'"),
        (
            lambda records, states: states["seen"].put(
                pa.table({"group": [0, 0], "entry": ["a", "a"], "value": [True, None]})
            ),
            "puts one entry twice, into the store 'seen'",
        ),
        (
            lambda records, states: 1 // 0,
            r"raises in process_batch: ZeroDivisionError(.|\n)*Hint: Catch the exception in process_batch",
        ),
    ],
)
def test_what_a_batch_cannot_give_is_said(given: Any, said: str) -> None:
    with pytest.raises(FunctionError, match=said):
        results(of(given), [("a", "1", 0)], [MapStore("seen", "string", pa.bool_())], value="string")


def test_what_goes_by_one_record_does_not_go_with_batches() -> None:
    class Both(Dedup):
        def process(self, record: Any, context: Any) -> None:
            pass

    class Timed(Dedup):
        def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
            pass

    lasting = MapStore("seen", "string", pa.bool_(), ttl="1 hour")
    builder = arrow_builder("wrong")
    stream = builder.stream("in", key="string", value="string")
    for make, options, said in (
        (Both, {}, "has process_batch, and the method process"),
        (Timed, {}, "has process_batch, and the method on_timer"),
        (Dedup, {"stores": [lasting]}, "has process_batch, and the store 'seen' with a ttl"),
        (Dedup, {"tables": {"rows": stream.to_table()}}, "has process_batch, and the table 'rows' to read"),
    ):
        with pytest.raises(TopologyError, match=said):
            stream.process_values(make, value="string", **options)
    kept = MapStore("seen", "string", pa.bool_())
    for number in range(2):
        stream.process_values(Dedup, value="string", stores=[kept], name=f"dedup-{number}")
    with pytest.raises(TopologyError, match="'dedup-0' shares a store, and is called with many records at once"):
        builder.build()
