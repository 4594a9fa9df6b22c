"""The records of a round, drawn from a seed and written while the query reads them.

The feed is never more than some batches ahead of the query, so that data flows for as long as the round lasts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from confluent_kafka import Producer

from chaos.joins import SIDES, Join

# the client says whenever a broker that was killed does not answer
LOG = logging.getLogger("chaos.kafka")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False
KEYS = 30
CHUNK, AHEAD = 100, 600
"""Records that are written at once, and by how many the feed may be ahead."""
BASE = 1_700_000_000_000
BAD = b"\xff"
"""A value that begins so is no text."""
_GLOBAL_SHARE = 0.15
_PAUSE_SECONDS = 0.05


class Drawn(NamedTuple):
    """A record before it is written."""

    side: str
    key: str
    value: str | bytes | None
    ts: int


def records(join: Join, seed: str) -> Iterator[Drawn]:
    """Records without end: few keys, each value another one, tombstones in tables, times late and equal."""
    chance = Random(seed)
    share = _GLOBAL_SHARE if "global" in join.sides else 0.4
    time = BASE
    for number in range(1 << 62):
        time += chance.choice((0, 1, 5, 20))
        side = int(chance.random() < share)
        late = chance.random()
        ts = time - (chance.randrange(3_000) if late < 0.03 else chance.randrange(400) if late < 0.3 else 0)
        value: str | bytes | None = f"{_reference(chance)}|{number}"
        if join.sides[side] != "stream" and chance.random() < 0.15:
            value = None
        if join.bad and chance.random() < join.bad:
            value = BAD + b"%d" % number
        yield Drawn(SIDES[side], f"k{chance.randrange(KEYS)}", value, ts)


def _reference(chance: Random) -> str:
    return "" if chance.random() < 0.05 else f"k{chance.randrange(KEYS)}"


class Feed(threading.Thread):
    """Writes records in the background until it is stopped.

    Parameters
    ----------
    servers : of the broker, which may die and come back.
    topics : of the sides.
    drawn : what to write.
    consumed : how many records the query has planned so far.
    """

    def __init__(
        self, servers: str, topics: dict[str, str], drawn: Iterator[Drawn], consumed: Callable[[], int]
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self._topics, self._drawn, self._consumed = topics, drawn, consumed
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self.written = 0
        settings = {
            "bootstrap.servers": servers,
            # a broker that dies and comes back must leave each record once, in order
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.timeout.ms": 900_000,
        }
        self._producer = Producer(settings, logger=LOG)

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            while not self._ended.is_set():
                if self.written - self._consumed() < AHEAD:
                    self._write(CHUNK)
                self._ended.wait(_PAUSE_SECONDS)
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        """Write no more; returns when everything is written."""
        self._ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _write(self, count: int) -> None:
        for record in islice(self._drawn, count):
            self._producer.produce(self._topics[record.side], record.value, record.key, timestamp=record.ts)
        if self._producer.flush(900):
            raise RuntimeError("Kafka has not confirmed all records of the feed.")
        self.written += count
