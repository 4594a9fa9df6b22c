"""The connection to a Kafka cluster."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from watersmeet.errors import ConfigError, TopologyError
from watersmeet.hints import answering
from watersmeet.windows import Duration, duration_ms


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
    max_transaction_wait : if a query waits longer for the rest of a transaction, a warning says which, and what is
        missing, as a duration.
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
    max_transaction_wait_ms: int
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
        max_transaction_wait: Duration = "1 minute",
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
        fields = {
            "bootstrap_servers": bootstrap_servers,
            "max_records_per_batch": max_records_per_batch,
            "max_bytes_per_batch": max_bytes_per_batch,
            "max_task_idle_ms": None if max_task_idle is None else _wait_ms(max_task_idle, "max_task_idle"),
            "transactions": _transactions(transactions, max_task_idle),
            "max_transaction_wait_ms": _wait_ms(max_transaction_wait, "max_transaction_wait"),
            "starting_offsets": starting_offsets,
            "retry_timeout_ms": _wait_ms(retry_timeout, "retry_timeout"),
            "consumer": _client_settings(consumer or {}),
            "producer": _client_settings(producer or {}),
            "options": _client_settings(options),
            "source": {name: setting_text(value) for name, value in (source or {}).items()},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        _check_source(self.source)
        _check_names("consumer", self.consumer, _CONSUMER)
        _check_reading({**self.options, **self.consumer})
        _check_spelling(self.options)
        _check_security(self.options)

    def __repr__(self) -> str:
        parts = [repr(self.bootstrap_servers), *_setting_texts(self.options)]
        sides = {side: ", ".join(_setting_texts(getattr(self, side))) for side in ("consumer", "producer", "source")}
        parts += [f"{side}=({settings})" for side, settings in sides.items() if settings]
        return f"Kafka({', '.join(parts)})"


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
_BYTES = "Leave it out: records are read as bytes, and key= and value= of a topic are their formats."
_REFUSED_OF_CONSUMER = {
    "auto.offset.reset": 'Kafka(..., starting_offsets="earliest") or "latest".',
    "enable.auto.commit": "Leave it out: the checkpoint says what has been read.",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
}
"""The settings of the consumer that Spark's source sets itself, and refuses."""
_CONSUMER = frozenset(
    [
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "auto.offset.reset",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.mechanism",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "value.deserializer",
    ]
)
"""The settings of Kafka's Java consumer, 3.9."""
_CLIENT = _CONSUMER | {
    *("sasl.mechanisms", "sasl.password", "sasl.username"),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
}
"""The settings that both clients may be given by their options."""
_SOURCE = frozenset(
    [
        "failOnDataLoss",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
    ]
)
"""The options of Spark's Kafka source that it reads of a stream."""
_ELSEWHERE = {
    **dict.fromkeys(
        ("username", "user", "api.key"), "security_protocol='SASL_SSL', sasl_username=..., sasl_password=..."
    ),
    **dict.fromkeys(("password", "api.secret"), "security_protocol='SASL_SSL', sasl_username=..., sasl_password=..."),
    **dict.fromkeys(("ssl", "tls", "use.ssl"), "security_protocol='SSL'"),
    **dict.fromkeys(
        ("bootstrap", "servers", "brokers", "broker"), "They are the first argument: wm.Kafka('host:9092')"
    ),
    **dict.fromkeys(("startingOffsets", "offset"), "starting_offsets='earliest'"),
    **dict.fromkeys(("maxOffsetsPerTrigger", "batch.records"), "max_records_per_batch=100_000"),
}
"""Settings of other clients, and what they are here."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
# The values that a repr may show; whatever is not known to be harmless may be a secret.
_HARMLESS = frozenset({"security.protocol", "sasl.mechanism", "client.id", "failOnDataLoss"})


def _check_limit(unit: str, limit: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(
            f"The limit of {unit} per batch must be 1 or more: max_{unit}_per_batch={limit!r}.",
            hint="Leave it out, or give 1 or more.",
        )


def _check_connection(servers: Any, start: Any) -> None:
    if not isinstance(servers, str) or not re.fullmatch(r"[^@\s,;]+:\d+(,[^@\s,;]+:\d+)*", servers):
        plain = isinstance(servers, str) and re.fullmatch(r"[\w.-]+", servers)
        # of a text no more is shown than a host: a user may have put a whole URL with a password there
        description = (
            repr(servers)
            if plain
            else f"a {type(servers).__name__}"
            if not isinstance(servers, str)
            else "no host:port"
        )
        hint = f"wm.Kafka({servers + ':9092'!r})" if plain else "wm.Kafka('host:9092,host:9092')"
        raise ConfigError(
            f"Kafka needs the addresses of its servers with their ports, and got {description}.", hint=f"{hint}."
        )
    ports = [int(server.rpartition(":")[2]) for server in servers.split(",")]
    if ("://" in servers and servers.lower().startswith("http")) or not all(0 < port < 65536 for port in ports):
        fault = "an address of HTTP" if "://" in servers else f"the port {next(p for p in ports if not 0 < p < 65536)}"
        raise ConfigError(
            f"Kafka needs the addresses of its servers with their ports, and got {fault}.",
            hint="Give host and port of the brokers themselves, ports are 1 to 65535: wm.Kafka('host:9092').",
        )
    if start not in ("earliest", "latest"):
        raise ConfigError(
            f"Unknown starting_offsets={start!r}.",
            hint='Take "earliest" or "latest"; where a checkpoint exists, it decides.',
        )


def _check_source(source: Mapping[str, str]) -> None:
    """Raise if an option of Spark's source is not the user's to set, or is misspelt."""
    refused = next((name for name in source if name.lower() in _REFUSED), None)
    if refused is not None:
        raise ConfigError(
            f"wm.Kafka(source=...) does not take the option {refused!r}.",
            given=refused,
            hint=_REFUSED[refused.lower()],
        )
    _check_names("source", [name for name in source if name[:6].lower() != "kafka."], _SOURCE)


def _check_reading(settings: Mapping[str, str]) -> None:
    """Raise if a setting of the reading client is not the user's to set."""
    name = next((name for name in settings if name in _REFUSED_OF_CONSUMER), None)
    if name is not None:
        raise ConfigError(f"wm.Kafka does not take the setting {name!r}.", given=name, hint=_REFUSED_OF_CONSUMER[name])


def _check_spelling(settings: Mapping[str, str]) -> None:
    """Raise if a setting of both clients is misspelt; each of them has some that are not known here."""
    for name in settings:
        if name in _ELSEWHERE:
            raise ConfigError(f"wm.Kafka has no setting {name!r}.", given=name, hint=f"{_ELSEWHERE[name]}.")
        near = get_close_matches(name, _CLIENT, n=1, cutoff=0.94)
        if near and near[0] != name:
            raise ConfigError(
                f"wm.Kafka has no setting {name!r}.", given=name, hint=f"Did you mean {near[0].replace('.', '_')}=?"
            )


def _check_names(side: str, names: Collection[str], settings: Collection[str]) -> None:
    """Raise if a setting is misspelt, which its reader would pass over; warn of one that it does not have."""
    by_name = {name.lower(): name for name in settings}
    for name in names:
        if name.lower() in by_name or (side == "consumer" and name not in settings and name.startswith("config.")):
            continue
        near = get_close_matches(name.lower(), by_name, n=1, cutoff=0.85)
        reader = "Kafka" if side == "consumer" else "Spark"
        message = f"wm.Kafka({side}=...) has a setting that {reader} does not know: {name!r}."
        if near:
            raise ConfigError(message, given=name, hint=f"Did you mean {by_name[near[0]]!r}?")
        warnings.warn(f"{message}\nHint: It has no effect unless a class that you have added reads it.", stacklevel=5)


def _check_security(settings: Mapping[str, str]) -> None:
    """Raise unless what is said of a login and of TLS goes together: a client would leave the rest out."""
    protocol = settings.get("security.protocol", _PROTOCOLS[0]).upper()
    if protocol not in _PROTOCOLS:
        near = get_close_matches(protocol.replace("-", "_"), _PROTOCOLS, n=1, cutoff=0.8)
        meant = f"Did you mean {near[0]}? " if near else ""
        hint = f"{meant}security_protocol= is one of {', '.join(_PROTOCOLS)}."
        raise ConfigError("Unknown security_protocol.", hint=hint)
    if settings.get("sasl.mechanism", settings.get("sasl.mechanisms", _MECHANISMS[0])) not in _MECHANISMS:
        raise ConfigError("Unknown sasl_mechanism.", hint=f"sasl_mechanism= is one of {', '.join(_MECHANISMS)}.")
    if "security.protocol" in settings:
        return
    for prefix, without, protocols in (
        ("sasl.", "a login", "'SASL_SSL', or 'SASL_PLAINTEXT' where the brokers have no TLS"),
        ("ssl.", "TLS", "'SSL', or 'SASL_SSL' with a login"),
    ):
        name = next((name for name in settings if name.startswith(prefix)), None)
        if name is not None:
            raise ConfigError(
                f"The setting {name!r} has no effect without security_protocol: the clients would connect without "
                f"{without}.",
                given=name,
                hint=f"Add security_protocol={protocols}.",
            )


def _transactions(transactions: Any, max_task_idle: Any) -> tuple[str, ...]:
    names = (transactions,) if isinstance(transactions, str) else tuple(transactions)
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.[\w-]+", name):
            raise ConfigError(
                f"transactions= must name topics of Debezium's transactions: transactions={transactions!r:.80}.",
                given=f"transactions={transactions!r:.80}",
                hint='"shop.transaction", if topic.prefix of the connector is "shop".',
            )
    if names and max_task_idle is not None:
        raise ConfigError(
            f"Give either transactions={transactions!r:.80} or max_task_idle={max_task_idle!r}, not both: "
            f"a batch ends either "
            "between transactions or at a time.",
            given=f"transactions={transactions!r:.80}, max_task_idle={max_task_idle!r}",
            hint="Leave one of them out.",
        )
    return names


_WAITS = {
    "max_task_idle": '"0 seconds" waits while Kafka has more records of a partition; leave it out and no batch waits.',
    "max_transaction_wait": '"1 minute": a query that waits longer for the rest of a transaction says so.',
    "retry_timeout": '"5 minutes"; "0 seconds" writes it once.',
}
"""By option what is a good value."""


def _wait_ms(duration: Any, option: str) -> int:
    milliseconds = duration_ms(duration, option)
    if milliseconds < 0:
        subject = f"{option}={duration!r}"
        raise ConfigError(f"{option} must not be negative: {subject}.", given=subject, hint=_WAITS[option])
    return milliseconds


def _setting_texts(settings: Mapping[str, str]) -> list[str]:
    return [f"{n}={v!r}" if n in _HARMLESS else f"{n}=..." for n, v in sorted(settings.items())]


def _client_settings(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", ".").removeprefix("kafka."): setting_text(value) for name, value in options.items()}


def setting_text(value: Any) -> str:
    """A setting as Kafka and Spark read it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Arguments for Kafka topics: names, several names as one stream, patterns of names, and starting offsets.

StartingOffsets = Mapping[int, int] | Literal["earliest", "latest"]
_PATH = re.compile(r"/|\\\\|\.(?:parquet|json|csv|avro|orc)$")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OF_PYTHON = re.compile(r"\(\?P|\(\?\(|\(\?#|\(\?\w*[ax]|\{,|\\Z|\\A")
"""What Python's patterns have and Java's have not, or otherwise."""


@answering
@dataclass(frozen=True)
class TopicPattern:
    """Topics by a pattern of their names, as the source of a stream.

    Spark looks for topics with such names before each batch: one that is created later joins between two batches, and
    is read from its beginning. Kafka Streams: `StreamsBuilder.stream(Pattern)`; Spark: `subscribePattern`.

    Parameters
    ----------
    pattern : a regular expression for the whole name, such as "orders-.*"; Spark reads it as Java's `Pattern`.

    Raises
    ------
    TopologyError : it is no regular expression, or one that Java reads otherwise.

    Examples
    --------
    >>> orders = builder.stream(wm.TopicPattern("orders-.*"), key="string", value="string")  # doctest: +SKIP
    """

    pattern: str

    def __post_init__(self) -> None:
        pattern: Any = self.pattern
        if not isinstance(pattern, str) or not pattern:
            raise TopologyError(
                f"The pattern of a TopicPattern must be a text: pattern={pattern!r:.120}.",
                hint='wm.TopicPattern("orders-.*")',
            )
        construct = _OF_PYTHON.search(pattern)
        if construct is not None:
            raise TopologyError(
                f"wm.TopicPattern({pattern!r:.120}) has {construct[0]!r}, which Java's regular expressions "
                f"do not have or "
                "read otherwise.",
                hint="The whole name has to match, so no anchors are needed. Leave out named groups, comments and the "
                "flags a and x, and write {0,3} for {,3}.",
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)
                re.compile(pattern)
        except FutureWarning as warning:
            raise TopologyError(
                f"Java reads the set of characters in wm.TopicPattern({pattern!r:.120}) otherwise: {warning}.",
                hint="A set has characters and ranges alone: [a-z0-9]. Put a backslash before [, &, |, ~ or - in it.",
            ) from None
        except (re.error, OverflowError, RecursionError) as error:
            raise TopologyError(
                f"wm.TopicPattern({pattern!r:.120}) is not a regular expression: {error}.",
                hint='".*" stands for any characters, "[.]" for a dot: wm.TopicPattern("orders-.*").',
            ) from None


def matches(pattern: str, topic: str) -> bool:
    """Whether the whole name of a topic matches a pattern."""
    return re.fullmatch(pattern, topic) is not None


def check_topic(name: Any, *, writes: bool = False) -> None:
    """Raise where it cannot be the name of a topic; `writes`: of an output.

    Raises
    ------
    TopologyError : it cannot.
    """
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f"This cannot be the name of a Kafka topic: {name!r:.120}.", hint=_topic_hint(name, writes))


def _topic_hint(name: Any, writes: bool) -> str:
    """Hints for a wrong topic name: a path, or several names."""
    if isinstance(name, str) and _PATH.search(name):
        if writes and "://" in name and "sql" in name.partition("://")[0]:
            return (
                "A database: table.to(wm.DatabaseTable('postgresql://user:password@host:5432/shop', table='orders'))."
            )
        if writes:
            return f"Files are written by wm.Writer('parquet', path={name!r}): stream.to(..., name='files')."
        return (
            f"Files are read as a DataFrame: spark.readStream.schema(...).parquet({name!r}), then "
            "builder.stream(frame, name=..., key=..., timestamp=...)."
        )
    plain = "Letters, digits, '.', '_' and '-', at most 249 of them."
    if isinstance(name, str) and re.search(r"[,;]", name) and not writes:
        return f"{plain} Read several topics as a list: builder.stream({re.split('[,; ]+', name)!r:.120}, ...)."
    if isinstance(name, str) and re.search(r"[*|?]", name) and not writes:
        pattern = re.sub(r"(?<![.\])])\*", ".*", name).replace("?", ".")
        return f"{plain} A pattern of names: builder.stream(wm.TopicPattern({pattern!r:.120}), ...)."
    return plain


def are_topics(source: Any) -> bool:
    """Whether a source is a list of names, also one without any."""
    return isinstance(source, list | tuple | set) and all(isinstance(name, str) for name in source)


def check_topics(names: Any, bootstrap: Any) -> Sequence[str]:
    """The names, each once and in an order of their own.

    Raises
    ------
    TopologyError : there are none, one is there twice, they have no order, or a history is to be of all of them.
    """
    if isinstance(names, set):
        raise TopologyError(
            f"The topics need an order, which decides between records of one time, and a set has none: {names!r:.80}.",
            hint=f"builder.stream({sorted(names)!r:.80}, ...)",
        )
    if not names:
        raise TopologyError(
            "builder.stream([]) needs a topic: the list is empty.", hint="builder.stream(['orders'], ...)"
        )
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise TopologyError(f"The topic {twice!r} is named twice.", hint="Name each topic once.")
    if bootstrap is not None:
        raise TopologyError(
            f"bootstrap= belongs to one topic, and the stream has {len(names)} topics.",
            hint="Read each topic with its own bootstrap=, then merge: one.merge(other).",
        )
    return list(names)


def check_offsets(offsets: Any) -> None:
    """Raise unless these are places from where a topic is read.

    Raises
    ------
    TopologyError : they are none.
    """
    by_partition = isinstance(offsets, Mapping) and all(
        is_number(number) for pair in offsets.items() for number in pair
    )
    if not (by_partition and offsets) and offsets not in ("earliest", "latest"):
        raise TopologyError(
            f"starting_offsets must be offsets by the numbers of the partitions, not {offsets!r:.120}.",
            given=f"starting_offsets={offsets!r}",
            hint='starting_offsets={0: 1200, 1: 1187}, "earliest" or "latest".',
        )


def is_number(value: Any) -> bool:
    """Whether this is a number of a partition, an offset or a time."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
