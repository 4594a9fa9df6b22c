"""Batches of whole transactions: whatever is known when, none is cut, none is left that has ended. No Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import watersmeet as wm
from watersmeet._spark.batches.synchronized_inputs import SynchronizedInputs
from watersmeet._spark.batches.transaction_order import TransactionOrder
from watersmeet.errors import ConfigError

LOG, TABLES, PARTITIONS = "shop.transaction", ("shop.s.orders", "shop.s.customers"), 2
LIMIT, TRANSACTIONS = 12, 20


class Message:
    """A record as Kafka's client has it."""

    def __init__(self, offset: int, said: Any) -> None:
        self._offset, self.said = offset, said

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return None if self.said is None else json.dumps(self.said).encode()


def event(transaction: str | None) -> Any:
    return {"op": "u", "transaction": transaction and {"id": transaction, "total_order": 1}}


def history(seed: int) -> dict[tuple[str, int], list[Message]]:
    """Transactions of which the tables and a table that nobody reads have events.

    Of odd seeds several are open at a time, and their events lie mixed in the partitions.
    """
    draw = random.Random(seed)
    found = {
        (LOG, 0): list[Any](),
        **{(table, number): list[Any]() for table in TABLES for number in range(PARTITIONS)},
    }
    for place in found:
        found[place] += [event(None)] * (draw.randrange(3) if place[0] != LOG else 0)
    open_, number = dict[str, tuple[int, Counter[str]]](), 0
    while open_ or number < TRANSACTIONS:
        if number < TRANSACTIONS and len(open_) < (4 if seed % 2 else 1):
            open_[f"t{number}"] = draw.choice([0, 1, 2, 5, 30]), Counter()
            found[LOG, 0].append({"status": "BEGIN", "id": f"t{number}"})
            number += 1
        name = draw.choice([*open_])
        left, counts = open_[name]
        if left:
            table = draw.choice((*TABLES, "shop.s.others"))
            counts[table] += 1
            open_[name] = left - 1, counts
            if table in TABLES:
                place = (table, draw.randrange(PARTITIONS))
                found[place].append(event(name))
                # the null behind a deletion
                found[place] += [None] * (draw.random() < 0.2)
            continue
        said = [{"data_collection": table.removeprefix("shop."), "event_count": n} for table, n in counts.items()]
        end = {"status": "END", "id": name, "event_count": sum(counts.values()), "data_collections": said}
        found[LOG, 0].append(end if draw.random() < 0.5 else {"payload": end})
        del open_[name]
    return {place: [Message(offset, said) for offset, said in enumerate(all_)] for place, all_ in found.items()}


def named(message: Message) -> str | None:
    return message.said and message.said["transaction"] and message.said["transaction"]["id"]


def ends_of(records: dict[tuple[str, int], list[Message]], seed: int) -> list[dict[tuple[str, int], int]]:
    """Where batches end, if partitions become known piece by piece; two starts go on in the middle."""
    draw, ends = random.Random(seed), [dict.fromkeys(records, 0)]
    for turns in (10, 20, 2_000):
        order = TransactionOrder(ends[-1], [LOG], ends[0])
        known = {place: order.since(place) for place in records}
        for _ in range(turns):
            for place, all_ in records.items():
                piece = all_[known[place] : known[place] + draw.randrange(5)]
                if piece and order.known(place) < order.wanted(20):
                    known[place] = piece[-1].offset() + 1
                    order.add(place, piece, known[place])
            if (found := order.take((), LIMIT)) is not None:
                ends.append(found)
    return ends


@pytest.mark.parametrize("seed", range(80))
def test_each_batch_has_whole_transactions_in_the_order_of_their_ends_and_all_of_them_come(seed: int) -> None:
    records = history(seed)
    ends = ends_of(records, seed)
    said = [each.said.get("payload", each.said) for each in records[LOG, 0]]
    ended = [each["id"] for each in said if each["status"] == "END"]
    wanted = Counter(named(each) for place, all_ in records.items() if place[0] != LOG for each in all_)
    last = -1
    for before, end in pairwise(ends):
        batch = Counter(
            named(each)
            for place, all_ in records.items()
            if place[0] != LOG
            for each in all_[before[place] : end[place]]
        )
        names = [name for name in batch if name]
        assert all(batch[name] == wanted[name] for name in names)
        numbers = sorted(map(ended.index, names))
        assert not numbers or numbers[0] > last
        last = numbers[-1] if numbers else last
    # of the log, transactions without events may be left: no batch is made for them alone
    assert all(ends[-1][place] == len(all_) for place, all_ in records.items() if place[0] != LOG)


@pytest.mark.parametrize("read", [0, 1])
def test_a_transaction_without_an_end_waits_and_whatever_lies_behind_one_of_its_events(read: int) -> None:
    order = TransactionOrder(dict.fromkeys([(LOG, 0), (TABLES[0], 0), (TABLES[1], 0)], 0), [LOG])
    begins = [Message(n, {"status": "BEGIN", "id": name}) for n, name in enumerate("ab")]
    counted = [{"data_collection": table.removeprefix("shop."), "event_count": 1} for table in TABLES]
    ends = [Message(2 + n, {"status": "END", "id": name, "data_collections": counted}) for n, name in enumerate("ba")]
    order.add((LOG, 0), [*begins, ends[0]], 3)
    # b has ended; its event in the first table lies behind one of a
    order.add((TABLES[0], 0), [Message(0, event("a")), Message(1, event("b"))], 2)
    order.add((TABLES[1], 0), [Message(0, event("b")), Message(1, event("a"))][: 1 + read], 1 + read)
    assert order.take((), 1) is None
    order.add((LOG, 0), ends[1:], 4)
    if not read:
        assert order.take((), 1) is None
        order.add((TABLES[1], 0), [Message(1, event("a"))], 2)
    assert order.take((), 1) == {(LOG, 0): 4, (TABLES[0], 0): 2, (TABLES[1], 0): 2}


def test_no_rows_of_a_snapshot_are_taken_while_a_partition_has_not_answered() -> None:
    places = [(LOG, 0), (TABLES[0], 0), (TABLES[1], 0)]
    order = TransactionOrder(dict.fromkeys(places, 0), [LOG])
    order.add((TABLES[0], 0), [Message(0, event(None))], 1)
    assert order.take(places, 10) is None
    order.add((TABLES[1], 0), [Message(0, event(None))], 1)
    assert order.take(places, 10) == {(LOG, 0): 0, (TABLES[0], 0): 1, (TABLES[1], 0): 1}


def test_a_transaction_that_began_before_what_is_read_is_not_waited_for() -> None:
    order = TransactionOrder({(LOG, 0): 7, (TABLES[0], 0): 3}, [LOG])
    order.add((TABLES[0], 0), [Message(3, event("t"))], 4)
    assert order.take((), 10) is None
    end = {"status": "END", "id": "t", "data_collections": [{"data_collection": "s.orders", "event_count": 2}]}
    order.add((LOG, 0), [Message(7, end)], 8)
    assert order.take((), 10) == {(LOG, 0): 8, (TABLES[0], 0): 4}


def test_topics_of_no_database_are_read_as_they_come() -> None:
    order = TransactionOrder({(LOG, 0): 0, (TABLES[0], 0): 0, ("clicks", 0): 0}, [LOG])
    order.add((TABLES[0], 0), [Message(0, event("t"))], 1)
    order.add(("clicks", 0), [Message(0, {"transaction": {"id": "t"}}), Message(1, "no event")], 2)
    assert order.take((), 10) == {(LOG, 0): 0, (TABLES[0], 0): 0, ("clicks", 0): 2}


def inputs(value: Any, topic: str = "shop.s.orders", **kafka: Any) -> SynchronizedInputs:
    builder = wm.StreamsBuilder("orders")
    builder.stream(topic, key="string", value=value, name="orders").to("out", value="json")
    return SynchronizedInputs.of(builder.build().physical.plan.sources, wm.Kafka("localhost:9092", **kafka))


@pytest.mark.usefixtures("spark")
def test_inputs_that_name_no_transactions_and_logs_of_no_input_are_refused() -> None:
    assert inputs(wm.debezium("amount long"), transactions=LOG).topics == {"shop.s.orders": 0}
    with pytest.raises(ConfigError, match=r"(?s)'orders' has none such: its format is.*Hint: Read it with wm.debezium"):
        inputs(wm.json("amount long"), transactions=LOG)
    with pytest.raises(ConfigError, match=r"(?s)No input is a table of the database.*'hr.transaction'.*begin with 'hr"):
        inputs(wm.debezium("amount long"), transactions=["hr.transaction"])
    with pytest.raises(ConfigError, match=r"(?s)not both.*Hint: Leave one"):
        wm.Kafka("localhost:9092", transactions=LOG, max_task_idle="1 second")
    with pytest.raises(ConfigError, match=r"(?s)must name topics of Debezium's transactions.*Hint"):
        wm.Kafka("localhost:9092", transactions="transactions of the shop")
