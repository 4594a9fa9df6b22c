"""The marker in Kafka names the plan of its batch: who comes second with another plan is told, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from dev.broker import KafkaBroker
from tests.kafka.faults.test_exactly_once import send, values
from tests.kafka.topics import new_topic
from watersmeet._engine import row_sizes
from watersmeet._worker.batch_plan import BatchPlan, Marker, plan_of_log
from watersmeet._worker.kafka_client import TransactionalSender
from watersmeet._worker.writers.kafka import DriverCommit, driver_name
from watersmeet.errors import ConfigError


def plan_to(end: int, topology: str = "one") -> BatchPlan:
    return plan_of_log(f'v1\n{{}}\n{{"in":{{"0":{end}}}}}', topology, epoch=2, where="offsets")


def held(first: int, end: int) -> dict[int, bytes]:
    texts = [b"%d" % number for number in range(first, end)]
    columns = {"topic": pa.array([0] * len(texts), pa.int32()), "key": texts, "value": texts, "ts": [1] * len(texts)}
    return {0: row_sizes.encode(pa.table(columns))}


def driver(broker: KafkaBroker, topic: str, planned: int, guard: Callable[[], None] = lambda: None) -> DriverCommit:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return DriverCommit(settings, f"app-{topic}", [topic], planned, guard)


def marker(broker: KafkaBroker, group: str, topic: str) -> Marker:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0]
    consumer.close()
    return Marker.of(int(found.offset), found.metadata)


def write(driver: DriverCommit, batch: int, first: int, end: int, plan: BatchPlan) -> None:
    if not driver.begins(batch, plan):
        driver.write(batch, held(first, end), None, plan)


@pytest.mark.parametrize("other", [plan_to(4), plan_to(6, "another topology")], ids=["ends", "topology"])
def test_a_driver_with_another_plan_of_a_batch_ends_and_tells_both(broker: KafkaBroker, other: BatchPlan) -> None:
    topic = new_topic(broker)
    # a rolling deploy: both go on behind batch 6
    old, new = driver(broker, topic, 6), driver(broker, topic, 6)
    write(old, 7, 0, 6, plan_to(6))
    with pytest.raises(ConfigError) as caught:
        write(new, 7, 0, 4, other)
    assert "Another query has written batch 7" in str(caught.value)
    assert str(plan_to(6)) in str(caught.value)
    assert str(other) in str(caught.value)
    new.close()
    old.close()
    assert values(broker, topic) == list(range(6))


def test_a_batch_that_is_run_again_by_the_same_plan_is_in(broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    first = driver(broker, topic, -1)
    write(first, 0, 0, 3, plan_to(3))
    first.close()
    again = driver(broker, topic, 0)
    assert again.begins(0, plan_to(3))
    write(again, 1, 3, 5, plan_to(5))
    again.close()
    assert values(broker, topic) == list(range(5))
    assert marker(broker, driver_name(f"app-{topic}"), topic) == Marker(1, plan_to(5))


def test_a_task_with_another_plan_of_a_batch_ends_too(broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    one, other = (TransactionalSender(settings, f"app-{topic}-0", topic) for _ in range(2))
    assert one.begin(0, plan_to(1))
    send(one, topic, b"0")
    one.commit(0, plan_to(1))
    with pytest.raises(ConfigError, match="Another query has written batch 0"):
        other.begin(0, plan_to(2))
    other.abandon()
    one.abandon()


def test_who_was_passed_by_commits_nothing_and_is_told_that(broker: KafkaBroker) -> None:
    topic = new_topic(broker)

    def passed_by() -> None:
        raise ConfigError("Another query has taken this checkpoint over")

    stale, owner = driver(broker, topic, -1, passed_by), driver(broker, topic, 0)
    with pytest.raises(ConfigError, match="taken this checkpoint over"):
        write(stale, 0, 0, 3, plan_to(3))
    write(owner, 0, 0, 3, plan_to(3))
    write(owner, 1, 3, 4, plan_to(4))
    # not that the output is ahead, which would be said of a checkpoint that is old
    with pytest.raises(ConfigError, match="taken this checkpoint over"):
        write(stale, 0, 0, 3, plan_to(3))
    owner.close()
    stale.close()
    assert values(broker, topic) == list(range(4))
