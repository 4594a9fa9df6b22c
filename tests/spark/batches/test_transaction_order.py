"""Batches of whole transactions: whatever is known when, none is cut, none is left that has ended. No Spark."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

import watersmeet as wm
from dev.debezium.captures import CAPTURES, events_of
from watersmeet._spark.batches.batches import SynchronizedInputs, TransactionOrder, Watch
from watersmeet.errors import ConfigError, SourceError

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


def event(transaction: str | None, position: int = 1) -> Any:
    """As the connector of PostgreSQL writes it: the position in its log stands behind the number."""
    return {"op": "u", "transaction": transaction and {"id": f"{transaction}:{position}", "total_order": 1}}


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
            open_[f"{number}"] = draw.choice([0, 1, 2, 5, 30]), Counter()
            found[LOG, 0].append({"status": "BEGIN", "id": f"{number}:{draw.randrange(1_000)}"})
            number += 1
        name = draw.choice([*open_])
        left, counts = open_[name]
        if left:
            table = draw.choice((*TABLES, "shop.s.others"))
            counts[table] += 1
            open_[name] = left - 1, counts
            if table in TABLES:
                place = (table, draw.randrange(PARTITIONS))
                found[place].append(event(name, draw.randrange(1_000)))
                # the null behind a deletion
                found[place] += [None] * (draw.random() < 0.2)
            continue
        said = [{"data_collection": table.removeprefix("shop."), "event_count": n} for table, n in counts.items()]
        end = {
            "status": "END",
            "id": f"{name}:{draw.randrange(1_000)}",
            "event_count": sum(counts.values()),
            "data_collections": said,
        }
        found[LOG, 0].append(end if draw.random() < 0.5 else {"payload": end})
        del open_[name]
    return {place: [Message(offset, said) for offset, said in enumerate(all_)] for place, all_ in found.items()}


def named(message: Message) -> str | None:
    return message.said and message.said["transaction"] and message.said["transaction"]["id"].partition(":")[0]


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
            awaited = [place for place, all_ in records.items() if known[place] < len(all_)]
            if (found := order.take(awaited, LIMIT)) is not None:
                ends.append(found)
    return ends


@pytest.mark.parametrize("seed", range(80))
def test_each_batch_has_whole_transactions_in_the_order_of_their_ends_and_all_of_them_come(seed: int) -> None:
    records = history(seed)
    ends = ends_of(records, seed)
    said = [each.said.get("payload", each.said) for each in records[LOG, 0]]
    ended = [each["id"].partition(":")[0] for each in said if each["status"] == "END"]
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
    begins = [Message(n, {"status": "BEGIN", "id": name}) for n, name in enumerate(["1:7", "2:7"])]
    counted = [{"data_collection": table.removeprefix("shop."), "event_count": 1} for table in TABLES]
    ends = [
        Message(2 + n, {"status": "END", "id": name, "data_collections": counted})
        for n, name in enumerate(["2:9", "1:9"])
    ]
    order.add((LOG, 0), [*begins, ends[0]], 3)
    # 2 has ended; its event in the first table lies behind one of 1
    order.add((TABLES[0], 0), [Message(0, event("1")), Message(1, event("2"))], 2)
    order.add((TABLES[1], 0), [Message(0, event("2")), Message(1, event("1"))][: 1 + read], 1 + read)
    assert order.take((), 1) is None
    order.add((LOG, 0), ends[1:], 4)
    if not read:
        assert order.take((), 1) is None
        order.add((TABLES[1], 0), [Message(1, event("1"))], 2)
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
    order.add((TABLES[0], 0), [Message(3, event("4"))], 4)
    assert order.take((), 10) is None
    end = {"status": "END", "id": "4:8", "data_collections": [{"data_collection": "s.orders", "event_count": 2}]}
    order.add((LOG, 0), [Message(7, end)], 8)
    assert order.take((), 10) == {(LOG, 0): 8, (TABLES[0], 0): 4}


def test_topics_of_no_database_are_read_as_they_come() -> None:
    order = TransactionOrder({(LOG, 0): 0, (TABLES[0], 0): 0, ("clicks", 0): 0}, [LOG])
    order.add((TABLES[0], 0), [Message(0, event("4"))], 1)
    order.add(("clicks", 0), [Message(0, {"transaction": {"id": "t"}}), Message(1, "no event")], 2)
    assert order.take((), 10) == {(LOG, 0): 0, (TABLES[0], 0): 0, ("clicks", 0): 2}


@dataclass
class Written:
    """What Debezium's connector of PostgreSQL writes of updates of rows, also when it is killed and started again.

    Parameters
    ----------
    draw : where it is killed.

    Attributes
    ----------
    states : of all rows, behind each transaction.
    """

    draw: random.Random
    topics: dict[tuple[str, int], list[Any]] = field(
        default_factory=lambda: {(LOG, 0): [], **{(table, n): [] for table in TABLES for n in range(PARTITIONS)}}
    )
    states: list[dict[Any, int]] = field(default_factory=lambda: [{}])

    def write(self, transactions: int, kills: int) -> None:
        """Write so many transactions; what it has written it writes again from somewhere before, also from within."""
        log, lsn = list[tuple[int, str, int, int]](), 0
        for number in range(transactions):
            for _ in range(self.draw.choice([1, 2, 3, 9])):
                lsn += 1
                log.append((number, self.draw.choice(TABLES), self.draw.randrange(8), lsn))
            rows = {(table, row): at for of, table, row, at in log if of == number}
            self.states.append({**self.states[-1], **rows})
        ends = sorted(self.draw.randrange(len(log)) for _ in range(kills))
        begin = 0
        for end in [*ends, len(log)]:
            self._run(log, begin, end)
            begin = max(0, end - self.draw.choice([0, 1, 2, 5, 30]))

    def _run(self, log: list[tuple[int, str, int, int]], begin: int, end: int) -> None:
        counts = Counter[str]()
        for n, (number, table, row, at) in enumerate(log[begin:end], begin):
            if n == begin or log[n - 1][0] != number:
                # as Debezium does, it counts from 1 again where it goes on within a transaction
                counts = Counter()
                self.topics[LOG, 0].append({"status": "BEGIN", "id": f"{number}:{at}"})
            counts[table] += 1
            named = {"id": f"{number}:{at}", "data_collection_order": counts[table]}
            source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table.rpartition(".")[2]}
            said = {"op": "u", "row": row, "at": at, "source": source, "transaction": named}
            self.topics[table, row % PARTITIONS].append(said)
            if n + 1 == len(log) or log[n + 1][0] != number:
                counted = [
                    {"data_collection": f"s.{t.rpartition('.')[2]}", "event_count": c} for t, c in counts.items()
                ]
                end_of_it = {"status": "END", "id": f"{number}:{at + 1}", "data_collections": counted}
                self.topics[LOG, 0].append(end_of_it)

    def state(self, ends: dict[tuple[str, int], int]) -> dict[Any, int]:
        """All rows as what lies before these offsets says."""
        tables = {place: said for place, said in self.topics.items() if place[0] != LOG}
        return {(place[0], each["row"]): each["at"] for place, said in tables.items() for each in said[: ends[place]]}


@pytest.mark.parametrize("seed", range(60))
def test_what_debezium_repeats_when_it_is_started_again_never_shows_rows_of_two_times(seed: int) -> None:
    written = Written(random.Random(seed))
    written.write(transactions=20, kills=seed % 5)
    records = {place: [Message(n, each) for n, each in enumerate(said)] for place, said in written.topics.items()}
    ends, last = ends_of(records, seed), 0
    for end in ends:
        # a boundary of transactions, and none before the one of the batch before
        last = written.states.index(written.state(end), last)
    assert written.state(ends[-1]) == written.states[-1]


@pytest.mark.parametrize(
    "name", [each.name for each in CAPTURES if each.mode.startswith("transactions") and "avro" not in each.mode]
)
@pytest.mark.parametrize("seed", range(3))
def test_batches_of_real_events_of_debezium_have_whole_transactions(name: str, seed: int) -> None:
    log, tables, whole = list[Message](), defaultdict[tuple[str, int], list[Message]](list), Counter[str]()
    for topic, key, value in events_of(name):
        said = None if value is None else json.loads(value)
        said = said and said.get("payload", said)
        if topic == LOG:
            log.append(Message(len(log), said))
        elif topic != "shop.message" and (said is None or "op" in said):
            place = (topic, 0 if key is None else sum(key) % PARTITIONS)
            tables[place].append(Message(len(tables[place]), said))
            whole[identity(tables[place][-1])] += 1
    records = {(LOG, 0): log, **{place: tables[place] for place in sorted(tables)}}
    ends = ends_of(records, seed)
    for before, end in pairwise(ends):
        batch = Counter(
            identity(each)
            for place, said in records.items()
            if place[0] != LOG
            for each in said[before[place] : end[place]]
        )
        assert all(batch[name] == whole[name] for name in batch if name)
    assert all(ends[-1][place] == len(said) for place, said in records.items() if place[0] != LOG)


def identity(message: Message) -> str:
    """The transaction of a real event, written out for each connector."""
    named = message.said and message.said.get("transaction")
    return "" if not named else named["id"].partition(":")[0]


@pytest.mark.parametrize(
    ("connector", "first", "second"),
    [
        ("postgresql", "571:53195829", "572:53195829"),
        ("mysql", "0e4d5dcd-a33b-11ea-80f1-02010a22a99e:10", "0e4d5dcd-a33b-11ea-80f1-02010a22a99e:11"),
        ("mysql", "0e4d5dcd-a33b-11ea-80f1-02010a22a99e:tag:10", "0e4d5dcd-a33b-11ea-80f1-02010a22a99e:tag:11"),
        ("mysql", "file=mysql-bin.000003,pos=484", "file=mysql-bin.000003,pos=485"),
        ("mariadb", "0-7-11", "0-7-12"),
        ("sqlserver", "00000025:00000d08:0025", "00000025:00000d08:0026"),
        ("db2", "00000000:00000000:00000000054bfc9a", "00000000:00000000:00000000054bfc9b"),
        ("oracle", "0a001b0043050000", "0a001b0043050001"),
        ("oracle", "5.6.641", "5.6.642"),
        ("informix", "571:53195832", "572:53195832"),
        ("mongodb", "1462833718356672513", "1462833718356672514"),
        ("mongodb", '{"id": {"$uuid": "aB"}, "uid": "x"}:1', '{"id": {"$uuid": "ab"}, "uid": "x"}:1'),
        ("vitess", '[{"keyspace":"k","shard":"0","gtid":"MySQL56/e03e:1-68"}]', '[{"keyspace":"k","shard":"0"}]'),
    ],
)
def test_the_transactions_of_each_connector_are_told_apart(connector: str, first: str, second: str) -> None:
    order = TransactionOrder({(LOG, 0): 0, (TABLES[0], 0): 0}, [LOG])
    counted = [{"data_collection": "s.orders", "event_count": 1}]
    said = [{"status": status, "id": each} for each in (first, second) for status in ("BEGIN", "END")]
    order.add((LOG, 0), [Message(n, {**each, "data_collections": counted}) for n, each in enumerate(said)], 4)
    source = {"connector": connector, "schema": "s", "table": "orders"}
    order.add((TABLES[0], 0), [Message(0, {"source": source, "transaction": {"id": first}})], 1)
    assert order.take((), 10) == {(LOG, 0): 2, (TABLES[0], 0): 1}
    assert order.waiting()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            {"transaction": {"id": "no id"}},
            r"not know how shop.s.orders names its transactions: id 'no id'.*Hint: Kn",
        ),
        ({"transaction": {}}, r"does not know how shop.s.orders names its transactions: id 'None'"),
        (
            {"source": {"connector": "cassandra", "table": "orders"}},
            r"the connector 'cassandra'.*Hint: Known are db2",
        ),
        (
            {"source": {"connector": "mysql", "db": "x", "table": "orders"}},
            r"cannot count the events of shop.s.orders: it has those of the table x.orders.*Hint: Let the topic",
        ),
    ],
)
def test_events_whose_transactions_are_not_known_are_an_error(read: Any, words: str) -> None:
    order = TransactionOrder({(LOG, 0): 0, (TABLES[0], 0): 0}, [LOG])
    with pytest.raises(SourceError, match=f"(?s){words}"):
        order.add((TABLES[0], 0), [Message(0, {"op": "c", **read})], 1)


@pytest.mark.parametrize("said", [{"op": "c"}, {"status": "END", "id": "?"}, {"status": "COMMIT", "id": "1:1"}])
def test_other_records_in_the_topic_of_transactions_are_an_error(said: Any) -> None:
    with pytest.raises(SourceError, match=r"(?s)shop.transaction.*Hint:"):
        TransactionOrder({(LOG, 0): 0}, [LOG]).add((LOG, 0), [Message(0, said)], 1)


@pytest.mark.parametrize(
    ("connector", "table", "topic"),
    [
        ("postgresql", "public.my table", "shop.public.my_table"),
        ("postgresql", "public.a$b", "shop.public.a_b"),
        ("mysql", "inventory.\U0001f600", "shop.inventory.__"),
        ("oracle", "ORCLPDB1.DEBEZIUM.A#B", "shop.DEBEZIUM.A_B"),
        ("sqlserver", "testDB.dbo.my table", "shop.testDB.dbo.my_table"),
        ("mongodb", "inventory.a b", "shop.inventory.a_b"),
    ],
)
def test_a_table_is_counted_in_the_topic_that_debezium_names_for_it(connector: str, table: str, topic: str) -> None:
    order = TransactionOrder({(LOG, 0): 0, (topic, 0): 0}, [LOG])
    counted = [{"data_collection": table, "event_count": 2}]
    said = [{"status": "BEGIN", "id": "7:1"}, {"status": "END", "id": "7:3", "data_collections": counted}]
    order.add((LOG, 0), [Message(n, each) for n, each in enumerate(said)], 2)
    *owners, name = table.split(".")
    source = {"connector": connector, **dict(zip(("db", "schema")[-len(owners) :], owners, strict=True)), "table": name}
    events = [{"source": source, "transaction": {"id": f"7:{n}", "data_collection_order": n}} for n in (1, 2)]
    order.add((topic, 0), [Message(0, events[0])], 1)
    assert order.take((), 10) is None
    assert order.waiting() == {
        "7": f"transaction 7 of shop.transaction has ended, and events of it are missing: {topic} has 1 of 2"
    }
    order.add((topic, 0), [Message(1, events[1])], 2)
    assert order.take((), 10) == {(LOG, 0): 2, (topic, 0): 2}


def test_tables_whose_topics_have_one_name_are_counted_together() -> None:
    order = TransactionOrder({(LOG, 0): 0, ("shop.s.a_b", 0): 0}, [LOG])
    counted = [{"data_collection": table, "event_count": 1} for table in ("s.a b", "s.a_b")]
    said = [{"status": "BEGIN", "id": "7:1"}, {"status": "END", "id": "7:3", "data_collections": counted}]
    order.add((LOG, 0), [Message(n, each) for n, each in enumerate(said)], 2)
    order.add(("shop.s.a_b", 0), [Message(0, {"transaction": {"id": "7:1", "data_collection_order": 1}})], 1)
    assert order.take((), 10) is None


def test_what_is_waited_for_longer_than_the_limit_is_said_once_and_what_is_left_with_its_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    order = TransactionOrder({(LOG, 0): 0, (TABLES[0], 0): 0}, [LOG])
    order.add((TABLES[0], 0), [Message(n, event("7")) for n in range(3)], 3)
    assert order.take((), 10) is None
    seconds = iter([0.0, 59.0, 60.0, 1_000.0])
    watch = Watch(60, clock=lambda: next(seconds))
    with caplog.at_level("WARNING", "watersmeet.query"):
        watch.look(order)
        watch.look(order)
        assert not caplog.messages
        watch.look(order)
        watch.look(order)
        [said] = caplog.messages
        assert "waited for 60 seconds: transaction 7 has an event (at offset 0 of partition 0 of shop.s.orders)" in said
        assert "no end in shop.transaction" in said
        watch.end(order)
    assert "leaves records for the next start: 3 of shop.s.orders. transaction 7 has" in caplog.messages[-1]


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
