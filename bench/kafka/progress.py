"""How far a contender has come with its inputs: Kafka Streams by what its group has committed, watersmeet by its
batches.

Who holds back a part of the inputs releases it as soon as the rest is done.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.kafka.inputs import PARTITIONS, Ends, Inputs

QUIET_SECONDS = 3.0
"""Many of Kafka Streams' commits, which come every 100 ms."""
MARKERS = 4
"""Most ends of transactions that may lie behind a partition's last record: one of each producer."""
_LOOK_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
_ASK_SECONDS = 10


class Progress:
    """What a group has consumed for good: asked by a consumer that has its name and never joins it.

    Attributes
    ----------
    moved : when what stands between two steps of the topology was last seen to go on; 0 if nothing does.
    """

    def __init__(self, servers: str, group: str, inputs: Inputs) -> None:
        # as Kafka Streams reads: the end of a partition is where no transaction is open
        settings = {"bootstrap.servers": servers, "group.id": group, "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._group = group
        self._inputs = inputs
        self._between = 0
        self.moved = 0.0

    def consumed(self) -> int:
        """Records of the inputs, without the end of the transaction behind them."""
        ends = self._inputs.ends
        committed = self._committed([*self._inputs.topics])
        return sum(min(each.offset, ends[(each.topic, each.partition)]) for each in committed)

    def caught_up(self) -> bool:
        """Whether the topics between two steps are read to their end, where there may be ends of transactions.

        Asked when the inputs are consumed: then what came of them is in these topics.
        """
        topics = [name for name in self._consumer.list_topics(timeout=_ASK_SECONDS).topics if self._is_between(name)]
        # the ends are asked for later: whoever is at an end has passed on what it read before it
        committed = self._committed(topics)
        total = sum(each.offset for each in committed)
        if total > self._between:
            self._between, self.moved = total, time.time()
        ends = [self._consumer.get_watermark_offsets(each, timeout=_ASK_SECONDS)[1] for each in committed]
        return max((end - each.offset for end, each in zip(ends, committed, strict=True)), default=0) <= MARKERS

    def is_final(self) -> bool:
        """The same for good: where ends of transactions may be records as well, nothing moves any more."""
        return self.caught_up() and time.time() - self.moved > QUIET_SECONDS

    def _is_between(self, topic: str) -> bool:
        own = topic.startswith(self._group) and topic not in self._inputs.topics
        return own and not re.search(r"-(out(-\d+)?|changelog)$", topic)

    def _committed(self, topics: list[str]) -> list[TopicPartition]:
        asked = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        try:
            found = self._consumer.committed(asked, timeout=_ASK_SECONDS) if asked else []
        except KafkaException:
            # its coordinator is not there yet
            found = asked
        return [TopicPartition(each.topic, each.partition, max(0, each.offset)) for each in found]


class Follower:
    """Follows a turn of watersmeet by its checkpoint, in a thread: releases the held part, and ends the turn behind it.

    Parameters
    ----------
    inputs : what the turn reads.
    work : folder of the turn, which is emptied.

    Raises
    ------
    confluent_kafka.KafkaException : at the end of the `with`, the held part could not be released.
    """

    def __init__(self, inputs: Inputs, work: Path) -> None:
        self._inputs = inputs
        self._work = work
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Follower:
        # a checkpoint that an earlier run has left would be believed
        shutil.rmtree(self._work, ignore_errors=True)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _follow(self) -> None:
        try:
            self._wait_for(self._inputs.readable)
            # between two looks of the query (`joins.start_on_kafka`)
            self._ended.wait(_PAUSE_SECONDS)
            self._inputs.release()
            self._wait_for(self._inputs.ends)
        except Exception as error:
            self._failure = error
        # gone already where the turn has failed
        if self._work.exists():
            (self._work / "stop").touch()

    def _wait_for(self, ends: Ends) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            read = batches_end(self._work / "checkpoint")
            if all(read.get(place, 0) >= end for place, end in ends.items()):
                return


def batches_end(checkpoint: Path) -> Mapping[tuple[str, int], int]:
    """Where the newest batch that is done ends, by topic and partition; empty before the first one."""
    done = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return {}
    # a version, settings of the batch, then a line for each source
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[2:]
    sources = [json.loads(line) for line in lines if line.startswith("{")]
    return {
        (topic, int(number)): offset
        for source in sources
        for topic, offsets in source.items()
        for number, offset in offsets.items()
    }
