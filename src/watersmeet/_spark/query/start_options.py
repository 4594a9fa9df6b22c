"""The options of a start, checked when they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from watersmeet._plan.physical import Physical
from watersmeet._spark.checkpoint.facts import CheckpointFacts
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.windows import Duration, duration_ms


@dataclass(frozen=True)
class StartOptions:
    """How a topology is started; `Topology.start` says what each option means."""

    kafka: Kafka | None = None
    shards: int | None = None
    tasks: int | None = None
    trigger: Duration | None = None
    available_now: bool = False
    local_cache: str | None = None
    allow_partition_change: bool = False
    allow_changed_functions: bool = False
    allow_recreated_topics: bool = False
    evolve: bool = False
    idle_after: Duration | None = None
    record_cache: bool = False
    name: str | None = None
    metrics_port: int | str | None = None
    progress: bool = False
    explain: bool | Duration = False
    replace: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self._check_explain()
        self._check_replace()
        if self.metrics_port is not None:
            self._address(self.metrics_port)
        if self.idle_after is not None:
            self._check_idle_after()
        if self.trigger is not None and duration_ms(self.trigger, "trigger") < 0:
            raise ConfigError(
                f"The interval between two batches must not be negative: trigger={self.trigger!r}.",
                hint='trigger="1 second"; left out, a batch follows the other.',
            )
        if self.trigger is not None and self.available_now:
            raise ConfigError(
                f"Give either available_now=True or trigger={self.trigger!r}, not both: a query that stops has no "
                "interval.",
                hint="Leave one of them out.",
            )
        for part in ("shards", "tasks"):
            given = getattr(self, part)
            if given is not None and (not isinstance(given, int) or given < 1):
                raise ConfigError(
                    f"The number of {part} must be 1 or more: {part}={given!r:.80}.", hint=f"Leave it out, or {part}=4."
                )
        if self.kafka is not None and not isinstance(self.kafka, Kafka):
            raise ConfigError(
                f"The connection to a cluster must be a wm.Kafka, and not {self._without_secrets(self.kafka)}.",
                hint=f"Write kafka=wm.Kafka({self._address_of(self.kafka)!r}).",
            )

    @staticmethod
    def _without_secrets(given: Any) -> str:
        """The value given in place of a connection, if it is an address and holds no secret."""
        plain = isinstance(given, str) and re.fullmatch(r"[\w.:,-]+", given)
        return f"kafka={given!r}" if plain else f"a {type(given).__name__} (kafka=...)"

    @staticmethod
    def _address_of(given: Any) -> str:
        return given if isinstance(given, str) and re.fullmatch(r"[\w.-]+:\d+", given) else "host:9092"

    def _check_idle_after(self) -> None:
        if self.idle_after_ms < 1_000:
            raise ConfigError(
                f"idle_after must be 1 second or more: idle_after={self.idle_after!r}.",
                given=f"idle_after={self.idle_after!r}",
                hint='idle_after="1 minute"',
            )
        if self.available_now:
            raise ConfigError(
                f"Give either available_now=True or idle_after={self.idle_after!r}, not both: a query that stops "
                "does not wait.",
                given=f"available_now=True, idle_after={self.idle_after!r}",
                hint="Leave one of them out.",
            )

    def _check_explain(self) -> None:
        if isinstance(self.explain, bool):
            return
        fits = isinstance(self.explain, str | timedelta)
        if not fits or duration_ms(self.explain, "explain") < 1:
            raise ConfigError(
                f"explain must be True, or how long the journal is kept: explain={self.explain!r:.80}.",
                hint='explain="1 day"; explain=True keeps it for ever.',
            )

    def _check_replace(self) -> None:
        named = [] if self.replace is None else self.replace
        if isinstance(named, str) or not all(isinstance(name, str) for name in named):
            raise ConfigError(
                f"replace= takes a list of names of tables: replace={self.replace!r:.120}.",
                given=f"replace={self.replace!r:.120}",
                hint='replace=["open-orders"]',
            )
        if named and not self.evolve:
            raise ConfigError(
                f"replace={list(named)!r} is for a changed topology, and evolve=True is left out.",
                given=f"replace={list(named)!r}",
                hint="topology.start(..., evolve=True, replace=[...]); leave replace= out otherwise.",
            )

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port at which Prometheus asks; None: it does not."""
        return None if self.metrics_port is None else self._address(self.metrics_port)

    @staticmethod
    def _address(given: int | str) -> tuple[str, int]:
        host, _, port = given.rpartition(":") if isinstance(given, str) else ("", "", str(given))
        if isinstance(given, bool) or not port.isdecimal() or int(port) >= 1 << 16:
            raise ConfigError(
                f"metrics_port must be a port, or a host and a port: metrics_port={given!r:.80}.",
                given=f"metrics_port={given!r}",
                hint='metrics_port=9400 for all addresses of this machine; metrics_port="127.0.0.1:9400" for one.',
            )
        return host.strip("[]") or "0.0.0.0", int(port)

    @property
    def idle_after_ms(self) -> int:
        """`idle_after` in ms, 0 where it is off."""
        return 0 if self.idle_after is None else duration_ms(self.idle_after, "idle_after")

    @property
    def trigger_options(self) -> dict[str, Any]:
        """What DataStreamWriter.trigger takes."""
        if self.available_now:
            return {"availableNow": True}
        interval = 0 if self.trigger is None else duration_ms(self.trigger, "trigger")
        return {"processingTime": f"{interval} milliseconds"}


def refuse_idle_time(topology: Physical, options: StartOptions) -> None:
    """Raise where an idle time is given, and nothing waits for time.

    Raises
    ------
    ConfigError : so it is.
    """
    if options.idle_after_ms and not topology.timed:
        raise ConfigError(
            f"idle_after={options.idle_after!r} has no effect: nothing in this topology waits for time.",
            given=f"idle_after={options.idle_after!r}",
            hint="Leave it out: it is for windowed joins of streams.",
        )


def layout_of(options: StartOptions, stored: CheckpointFacts | None, parallelism: int) -> tuple[int, int]:
    """(shards, tasks): as given, else as the checkpoint has them, else the defaults.

    Parameters
    ----------
    stored : what the checkpoint records, if there is one.
    parallelism : tasks that Spark has by default; of fewer shards there are as many tasks as shards.

    Raises
    ------
    ConfigError : there are more tasks than shards.
    """
    before = stored.tasks if stored else parallelism
    tasks = options.tasks or min(before, options.shards or before)
    shards = options.shards or (stored.shards if stored else 2 * tasks)
    if shards < tasks:
        raise ConfigError(
            f"tasks={tasks} is more than shards={shards}.",
            hint="Give more shards, or fewer tasks: a task has at least one shard of each operator.",
        )
    return shards, tasks
