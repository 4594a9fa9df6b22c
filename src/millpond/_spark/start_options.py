"""The options of a start, checked when they are given. Made by `query`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from millpond.errors import ConfigError
from millpond.options import Kafka
from millpond.windows import Duration, duration_ms


@dataclass(frozen=True)
class StartOptions:
    """How a topology is started.

    Parameters
    ----------
    kafka : the connection, where the topology reads or writes topics.
    shards : shards of each operator, fixed at the first start; default 2 per task.
    tasks : tasks of each exchange, fixed at the first start; default Spark's parallelism (the cores).
    trigger : processing interval ("1 second"); None: a batch follows the other.
    available_now : process what is there, in batches of the rate limit, and stop.
    local_cache : folder of the machine's cache of state; default below the system's temporary folder.
    allow_partition_change : start although a topic has another number of partitions than at the first start.
    idle_after : a duration ("1 minute"): when no record has come for so long, time goes on with the wall
        clock, so that pending results of windowed joins come out. Off by default. See `Topology.start` for what
        it gives up.
    record_cache : whether a key of a table gives one result per batch, from what it was before to what it is then,
        instead of one for each change (in Kafka Streams: statestore.cache.max.bytes above 0). What streams look up is
        not cached. Off by default; it may be another one at each start, behind a `drain()`.
    name : the query's name in Spark.
    """

    kafka: Kafka | None = None
    shards: int | None = None
    tasks: int | None = None
    trigger: str | None = None
    available_now: bool = False
    local_cache: str | None = None
    allow_partition_change: bool = False
    idle_after: Duration | None = None
    record_cache: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if self.idle_after is not None:
            self._check_idle_after()
        for part in ("shards", "tasks"):
            given = getattr(self, part)
            if given is not None and (not isinstance(given, int) or given < 1):
                raise ConfigError(f"The number of {part} is 1 or more.", given=repr(given))
        if self.kafka is not None and not isinstance(self.kafka, Kafka):
            raise ConfigError(
                "kafka= is the connection to a cluster.",
                given=type(self.kafka).__name__,
                hint='topology.start(..., kafka=mp.Kafka("host:9092"))',
            )

    def _check_idle_after(self) -> None:
        if self.idle_after_ms < 1_000:
            raise ConfigError(
                "The input has rested when nothing came for a second or more.",
                given=f"idle_after={self.idle_after!r}",
                hint='idle_after="1 minute"',
            )
        if self.available_now:
            raise ConfigError(
                "A query that stops when everything is processed does not wait for the input to rest.",
                given=f"available_now=True, idle_after={self.idle_after!r}",
                hint="Leave one of them out.",
            )

    @property
    def idle_after_ms(self) -> int:
        """`idle_after` in ms, 0 where it is off."""
        return 0 if self.idle_after is None else duration_ms(self.idle_after, "idle_after")

    @classmethod
    def of(cls, given: dict[str, Any]) -> StartOptions:
        """Options by name.

        Raises
        ------
        ConfigError : there is no such option.
        """
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ConfigError("start has no such option.", given=unknown, hint=f"Take one of {', '.join(known)}.")
        return cls(**given)

    @property
    def trigger_options(self) -> dict[str, Any]:
        """What DataStreamWriter.trigger takes."""
        if self.available_now:
            return {"availableNow": True}
        return {"processingTime": self.trigger or "0 seconds"}
