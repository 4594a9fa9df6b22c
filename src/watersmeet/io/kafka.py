"""The connection to a Kafka cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigError
from watersmeet.names import answering
from watersmeet.windows.durations import Duration, duration_ms


@answering
@dataclass(frozen=True, init=False, repr=False)
class Kafka:
    """The connection to a Kafka cluster. Its repr shows no secrets.

    Parameters
    ----------
    bootstrap_servers : "host:port,host:port".
    max_records_per_batch : at most so many records in one batch, over all topics, in proportion to backlog.
    max_bytes_per_batch : about so many bytes of records, and of all that is made of them, in one batch: if a batch had
        more, the next one has fewer records.
    max_task_idle : for how long a batch waits for the partitions that have no records yet, as a duration: Kafka
        Streams' `max.task.idle.ms` (KIP-353, KIP-695). Batches then end at a time that all partitions have reached, so
        that inputs are merged by time over all batches, too. "0 seconds" waits for a partition only while Kafka has
        more records of it. None: each batch takes what is there, in proportion to backlog.
    transactions : names of the topics in which Debezium writes the ends of a database's transactions
        (`provide.transaction.metadata`), or of one: "shop.transaction". Batches then end between transactions of the
        tables that are read of it (topics "shop...."), so that no result shows a part of one.
    starting_offsets : where all but global tables begin where there is no checkpoint yet: "earliest" or "latest".
    consumer : settings of Kafka's Java client, which reads, by its names.
    producer : settings of librdkafka, which writes, by its names.
    retry_timeout : for how long a batch is written again while Kafka does not answer, from the first fault on, as a
        duration; then the query ends. It is what `task.timeout.ms` is in Kafka Streams (KIP-572), 5 minutes like it.
    source : further options of Spark's Kafka source, by Spark's names.
    options : settings of both clients, with dots or underscores: `security_protocol="SASL_SSL"`,
        `sasl_mechanism`, `sasl_username`, `sasl_password`, `ssl_ca_location` (PEM).

    Examples
    --------
    >>> Kafka("localhost:9092", security_protocol="SASL_SSL", sasl_password="canary")
    Kafka('localhost:9092', sasl.password=..., security.protocol='SASL_SSL')
    """

    bootstrap_servers: str
    max_records_per_batch: int
    max_bytes_per_batch: int
    max_task_idle_ms: int | None
    transactions: tuple[str, ...]
    starting_offsets: str
    retry_timeout_ms: int
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    source: Mapping[str, str]
    options: Mapping[str, str]

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        max_records_per_batch: int = 1_000_000,
        max_bytes_per_batch: int = 1 << 30,
        max_task_idle: Duration | None = None,
        transactions: str | Sequence[str] = (),
        starting_offsets: str = "earliest",
        retry_timeout: Duration = "5 minutes",
        consumer: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        _check_connection(bootstrap_servers, starting_offsets)
        _check_limit("records", max_records_per_batch)
        _check_limit("bytes", max_bytes_per_batch)
        object.__setattr__(self, "bootstrap_servers", bootstrap_servers)
        object.__setattr__(self, "max_records_per_batch", max_records_per_batch)
        object.__setattr__(self, "max_bytes_per_batch", max_bytes_per_batch)
        idle_ms = None if max_task_idle is None else _idle_ms(max_task_idle)
        object.__setattr__(self, "max_task_idle_ms", idle_ms)
        object.__setattr__(self, "transactions", _transactions(transactions, max_task_idle))
        object.__setattr__(self, "starting_offsets", starting_offsets)
        object.__setattr__(self, "retry_timeout_ms", _retry_ms(retry_timeout))
        object.__setattr__(self, "consumer", _client_settings(consumer or {}))
        object.__setattr__(self, "producer", _client_settings(producer or {}))
        object.__setattr__(self, "options", _client_settings(options))
        object.__setattr__(self, "source", {name: setting_text(value) for name, value in (source or {}).items()})
        refused = [name for name in self.source if name.lower() in _REFUSED]
        if refused:
            raise ConfigError(
                f"wm.Kafka(source=...) does not take the option {refused[0]!r}.",
                given=refused[0],
                hint=_REFUSED[refused[0].lower()],
            )

    def __repr__(self) -> str:
        shown = [repr(self.bootstrap_servers), *_setting_texts(self.options)]
        sides = {side: ", ".join(_setting_texts(getattr(self, side))) for side in ("consumer", "producer", "source")}
        shown += [f"{side}=({settings})" for side, settings in sides.items() if settings]
        return f"Kafka({', '.join(shown)})"


_ONE_TASK = "Leave it out: it gives one partition to several tasks, and its records lose their order."
_OWN = "Leave it out: watersmeet names the topics itself."
_REFUSED = {
    "minpartitions": _ONE_TASK,
    "maxrecordsperpartition": _ONE_TASK,
    "subscribe": _OWN,
    "subscribepattern": _OWN,
    "assign": _OWN,
    "startingoffsets": 'Kafka(..., starting_offsets="earliest") or "latest".',
    "endingoffsets": "Leave it out: a stream has no end.",
    "maxoffsetspertrigger": "Kafka(..., max_records_per_batch=...).",
    "minoffsetspertrigger": "Leave it out: it holds records back for a time that no replay repeats.",
    "maxtriggerdelay": "Leave it out: it holds records back for a time that no replay repeats.",
    "includeheaders": "Leave it out: it follows from headers=True of a topic.",
    "kafka.bootstrap.servers": "They are the first argument of Kafka(...).",
}
# The values that a repr may show; whatever is not known to be harmless may be a secret.
_HARMLESS = frozenset({"security.protocol", "sasl.mechanism", "client.id", "failOnDataLoss"})


def _check_limit(what: str, limit: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(
            f"The limit of {what} per batch must be 1 or more: max_{what}_per_batch={limit!r}.",
            hint="Leave it out, or give 1 or more.",
        )


def _check_connection(servers: Any, start: Any) -> None:
    if not isinstance(servers, str) or not re.fullmatch(r"[^@\s,]+:\d+(,[^@\s,]+:\d+)*", servers):
        plain = isinstance(servers, str) and re.fullmatch(r"[\w.-]+", servers)
        # of a text no more is shown than a host: a user may have put a whole URL with a password there
        shown = (
            repr(servers)
            if plain
            else f"a {type(servers).__name__}"
            if not isinstance(servers, str)
            else "no host:port"
        )
        hint = f"wm.Kafka({servers + ':9092'!r})" if plain else "wm.Kafka('host:9092,host:9092')"
        raise ConfigError(
            f"Kafka needs the addresses of its servers with their ports, and got {shown}.", hint=f"{hint}."
        )
    if start not in ("earliest", "latest"):
        raise ConfigError(
            f"Unknown starting_offsets={start!r}.",
            hint='Take "earliest" or "latest"; where a checkpoint exists, it decides.',
        )


def _transactions(given: Any, max_task_idle: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.[\w-]+", name):
            raise ConfigError(
                f"transactions= must name topics of Debezium's transactions: transactions={given!r:.80}.",
                given=f"transactions={given!r:.80}",
                hint='"shop.transaction", if topic.prefix of the connector is "shop".',
            )
    if names and max_task_idle is not None:
        raise ConfigError(
            f"Give either transactions={given!r:.80} or max_task_idle={max_task_idle!r}, not both: a batch ends either "
            "between transactions or at a time.",
            given=f"transactions={given!r:.80}, max_task_idle={max_task_idle!r}",
            hint="Leave one of them out.",
        )
    return names


def _idle_ms(given: Any) -> int:
    milliseconds = duration_ms(given, "max_task_idle")
    if milliseconds < 0:
        raise ConfigError(
            f"max_task_idle must not be negative: max_task_idle={given!r}.",
            given=f"max_task_idle={given!r}",
            hint='"0 seconds" waits while Kafka has more records of a partition; leave it out and no batch waits.',
        )
    return milliseconds


def _retry_ms(given: Any) -> int:
    milliseconds = duration_ms(given, "retry_timeout")
    if milliseconds < 0:
        raise ConfigError(
            f"retry_timeout must not be negative: retry_timeout={given!r}.",
            given=f"retry_timeout={given!r}",
            hint='"5 minutes"; "0 seconds" writes it once.',
        )
    return milliseconds


def _setting_texts(settings: Mapping[str, str]) -> list[str]:
    return [f"{n}={v!r}" if n in _HARMLESS else f"{n}=..." for n, v in sorted(settings.items())]


def _client_settings(given: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", ".").removeprefix("kafka."): setting_text(value) for name, value in given.items()}


def setting_text(value: Any) -> str:
    """A setting as Kafka and Spark read it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
