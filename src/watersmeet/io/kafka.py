"""The connection to a Kafka cluster."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.errors import ConfigError, TopologyError, did_you_mean
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
    >>> login = {"sasl_mechanism": "PLAIN", "sasl_username": "ann", "sasl_password": "canary"}
    >>> Kafka("localhost:9092", security_protocol="SASL_SSL", **login)
    Kafka('localhost:9092', sasl.mechanism='PLAIN', sasl.password=..., sasl.username=..., security.protocol='SASL_SSL')
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
            "consumer": _client_settings("consumer", consumer or {}),
            "producer": _client_settings("producer", producer or {}),
            "options": _client_settings("", options),
            "source": setting_texts("wm.Kafka(source=...)", source or {}),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check_settings()

    def _check_settings(self) -> None:
        of_client = {name[6:]: value for name, value in self.source.items() if name[:6].lower() == "kafka."}
        of_source = {name: value for name, value in self.source.items() if name[:6].lower() != "kafka."}
        _check_settings("source", of_source, _SOURCE)
        _check_settings("source", of_client, _JAVA)
        _check_settings("", self.options, _JAVA | _LIBRDKAFKA)
        for side, settings, names in (("consumer", self.consumer, _JAVA), ("producer", self.producer, _LIBRDKAFKA)):
            _check_settings(side, settings, names)
            _check_security({**self.options, **settings})

    def __repr__(self) -> str:
        parts = [repr(self.bootstrap_servers), *_setting_texts(self.options)]
        sides = {side: ", ".join(_setting_texts(getattr(self, side))) for side in ("consumer", "producer", "source")}
        parts += [f"{side}=({settings})" for side, settings in sides.items() if settings]
        return f"Kafka({', '.join(parts)})"


_ONE_TASK = "Leave it out: it gives one partition to several tasks, and its records lose their order."
_OWN = "Leave it out: watersmeet names the topics itself."
_REFUSED = {
    **dict.fromkeys(("minpartitions", "maxrecordsperpartition"), _ONE_TASK),
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), _OWN),
    "startingoffsets": 'Kafka(..., starting_offsets="earliest") or "latest".',
    "endingoffsets": "Leave it out: a stream has no end.",
    "maxoffsetspertrigger": "Kafka(..., max_records_per_batch=...).",
    "minoffsetspertrigger": "Leave it out: it holds records back for a time that no replay repeats.",
    "maxtriggerdelay": "Leave it out: it holds records back for a time that no replay repeats.",
    "includeheaders": "Leave it out: it follows from headers=True of a topic.",
    "kafka.bootstrap.servers": "They are the first argument of Kafka(...).",
}
_BYTES = "Leave it out: records are bytes, and key= and value= of a topic are their formats."
_ADDRESS = "They are the first argument: wm.Kafka('host:9092')."
_REFUSED_OF_CLIENTS = {
    "auto.offset.reset": 'Kafka(..., starting_offsets="earliest") or "latest".',
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), _ADDRESS),
    "enable.auto.commit": "Leave it out: the checkpoint says what has been read.",
    **dict.fromkeys(("key.deserializer", "key.serializer", "value.deserializer", "value.serializer"), _BYTES),
    "transactional.id": "Leave it out: each task has its own, which begins with the application_id.",
}
"""The settings of the clients that Spark's source or watersmeet sets itself."""
_BOTH = frozenset(
    """
    allow.auto.create.topics check.crcs client.dns.lookup client.id client.rack connections.max.idle.ms
    enable.metrics.push fetch.max.bytes fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    metadata.max.age.ms metadata.recovery.strategy partition.assignment.strategy reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.token.endpoint.url
    security.protocol session.timeout.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.location ssl.keystore.password
    """.split()  # noqa: SIM905
)
_JAVA = _BOTH | frozenset(
    """
    auto.commit.interval.ms auto.include.jmx.reporter default.api.timeout.ms exclude.internal.topics fetch.max.wait.ms
    interceptor.classes metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    receive.buffer.bytes sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name security.providers send.buffer.bytes
    socket.connection.setup.timeout.max.ms ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
    """.split()  # noqa: SIM905
)
"""The settings of Kafka's Java consumer, 3.9, which reads."""
_LIBRDKAFKA = _BOTH | frozenset(
    """
    acks api.version.fallback.ms api.version.request api.version.request.timeout.ms batch.num.messages batch.size
    broker.address.family broker.address.ttl broker.version.fallback compression.codec compression.level
    compression.type debug delivery.timeout.ms enable.gapless.guarantee enable.idempotence enable.random.seed
    enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification enabled_events fetch.error.backoff.ms
    fetch.message.max.bytes fetch.queue.backoff.ms fetch.wait.max.ms https.ca.location https.ca.pem linger.ms
    log.connection.close log_level max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes
    message.max.bytes message.send.max.retries message.timeout.ms metadata.recovery.rebootstrap.trigger.ms partitioner
    plugin.library.paths queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages queuing.strategy receive.message.max.bytes
    reconnect.backoff.jitter.ms request.required.acks retries sasl.kerberos.keytab sasl.kerberos.principal
    sasl.mechanisms sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.method sasl.oauthbearer.scope sasl.password sasl.username
    socket.blocking.max.ms socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.crl.location ssl.curves.list ssl.engine.id ssl.engine.location ssl.key.location ssl.key.pem ssl.providers
    ssl.sigalgs.list statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse transaction.timeout.ms
    """.split()  # noqa: SIM905
)
"""The settings of librdkafka, 2.16, which writes, and asks about topics."""
_SOURCE = frozenset(
    """
    failOnDataLoss fetchOffset.numRetries fetchOffset.retryIntervalMs groupIdPrefix kafkaConsumer.pollTimeoutMs
    startingOffsetsByTimestamp startingOffsetsByTimestampStrategy startingTimestamp
    """.split()  # noqa: SIM905
)
"""The options of Spark's Kafka source that it reads of a stream."""
_ELSEWHERE = {
    **dict.fromkeys(
        ("username", "user", "api.key", "password", "api.secret"),
        "security_protocol='SASL_SSL', sasl_mechanism='PLAIN', sasl_username=..., sasl_password=...",
    ),
    **dict.fromkeys(("ssl", "tls", "use.ssl"), "security_protocol='SSL'"),
    **dict.fromkeys(("ssl.cafile", "cafile", "ssl.ca"), "security_protocol='SSL', ssl_ca_location='/etc/ca.pem'"),
    **dict.fromkeys(("bootstrap", "servers", "brokers", "broker"), _ADDRESS.removesuffix(".")),
    **dict.fromkeys(("topic", "topics"), "An input or an output has it: builder.stream('orders', ...)"),
    **dict.fromkeys(
        ("schema.registry", "schema.registry.url"),
        "A format has it: wm.avro(registry=wm.SchemaRegistry('http://host'))",
    ),
    "buffer.memory": "producer={'queue.buffering.max.kbytes': 65536}",
    "max.request.size": "producer={'message.max.bytes': 10_000_000}",
    **dict.fromkeys(("startingOffsets", "offset"), "starting_offsets='earliest'"),
    **dict.fromkeys(("maxOffsetsPerTrigger", "batch.records"), "max_records_per_batch=100_000"),
}
"""Settings of other clients, and what they are here."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_WORDS: dict[str, Sequence[str]] = {
    "security.protocol": _PROTOCOLS,
    **dict.fromkeys(("sasl.mechanism", "sasl.mechanisms"), _MECHANISMS),
    "isolation.level": ("read_committed", "read_uncommitted"),
    **dict.fromkeys(("compression.type", "compression.codec"), ("none", "gzip", "snappy", "lz4", "zstd")),
    "partitioner": ("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "metadata.recovery.strategy": ("none", "rebootstrap"),
    "startingOffsetsByTimestampStrategy": ("error", "latest"),
}
"""The settings that have one of some words."""
_SWITCH = re.compile(
    r"^(allow|check|enable|exclude)\.|\.(disable|enable|reporter|request|sparse|urlencode)$|^failOnDataLoss$"
)
_NUMBER = re.compile(
    r"\.(bytes|connection|kbytes|messages|ms|records|retries|samples|seconds|size)$|^retries$|numRetries$|Ms$"
)
_READERS = {"consumer": "Kafka's Java client", "producer": "librdkafka", "source": "Spark's source"}
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
    scheme = next((part[:-3] for part in re.findall(r"\w+://", servers) if part[:-3].upper() not in _PROTOCOLS), None)
    wrong = next((port for port in ports if not 0 < port < 65536), None)
    if scheme or wrong is not None:
        fault = f"an address of {scheme.upper()}" if scheme else f"the port {wrong}"
        raise ConfigError(
            f"Kafka needs the addresses of its servers with their ports, and got {fault}.",
            hint="Give host and port of the brokers themselves, ports are 1 to 65535: wm.Kafka('host:9092').",
        )
    if start not in ("earliest", "latest"):
        raise ConfigError(
            f"Unknown starting_offsets={start!r}.",
            hint='Take "earliest" or "latest"; where a checkpoint exists, it decides.',
        )


def _check_settings(side: str, settings: Mapping[str, str], names: Collection[str]) -> None:
    """Raise unless each setting of one side, or of both (""), is there, and has a value of its kind.

    Parameters
    ----------
    names : those that the side has.

    Raises
    ------
    ConfigError : one is not the user's to set, is misspelt, is another client's, or has a value of another kind.
    """
    owner = f"wm.Kafka({side}=...)" if side else "wm.Kafka"
    by_name = {name.lower(): name for name in names}
    refused = _REFUSED if names is _SOURCE else _REFUSED_OF_CLIENTS
    for name, value in settings.items():
        if name.lower() in refused:
            kind = "option" if names is _SOURCE else "setting"
            raise ConfigError(f"{owner} does not take the {kind} {name!r}.", hint=refused[name.lower()])
        if name.lower() not in by_name:
            _check_unknown(side, owner, name, by_name)
        fits, kind = _kind_of(name)
        if not fits(value):
            text = setting_in_error(value)
            assigned = f"{name!r}: {text}" if side else f"{name.replace('.', '_')}={text}"
            by_word = {word.upper().replace("-", "_"): word for word in _WORDS.get(name, ())}
            hint = did_you_mean(
                value.upper().replace("-", "_"), by_word, form=by_word.__getitem__, suffix=f"{name} is {kind}."
            )
            raise ConfigError(f"{owner} takes no {assigned}.", hint=hint)


def setting_in_error(value: str) -> str:
    """A setting's value in an error: what is no number or plain word may be a secret, typed in the wrong place."""
    if re.fullmatch(r"-?[\d.]+", value):
        return value
    return repr(value) if re.fullmatch(r"-?[\d.]+ ?[A-Za-z]{0,12}|[A-Za-z_-]{0,18}", value) else "..."


def _check_unknown(side: str, owner: str, name: str, by_name: Mapping[str, str]) -> None:
    """Raise if the cure of an unknown setting is known; warn where it would be passed over, and not be missed."""
    clients = {"consumer": _JAVA, "producer": _LIBRDKAFKA}
    client = next((client for client, names in clients.items() if name in names), None)

    def option(near: str) -> str:
        return repr(by_name[near]) if side else f"{by_name[near].replace('.', '_')}="

    meant = did_you_mean(name.lower(), by_name, form=option, cutoff=0.8)
    message = f"{owner} has no setting {name!r}{f': {_READERS[side]} does not know it' if side else ''}."
    if name in _ELSEWHERE:
        hint = f"{_ELSEWHERE[name]}."
    elif client is not None:
        hint = f"It is one of {_READERS[client]}: wm.Kafka(..., {client}={{{name!r}: ...}})."
    elif meant:
        hint = meant
    elif not side:
        hint = f"Settings of one client have a place of their own: consumer={{{name!r}: ...}}, or producer=."
    else:
        # librdkafka itself refuses what it does not know
        if side != "producer" and not name.startswith("config."):
            warning = f"{message}\nHint: It has no effect unless a class that you have added reads it."
            warnings.warn(warning, stacklevel=6)
        return
    raise ConfigError(message, hint=hint)


def _kind_of(name: str) -> tuple[Callable[[str], object], str]:
    """(whether a value is of a setting's kind, the kind in words)."""
    if name in _WORDS:
        words = _WORDS[name]
        by_case = str.upper if words is _PROTOCOLS else str
        return lambda value: by_case(value) in words, f"one of {', '.join(words)}"
    if _SWITCH.search(name):
        return lambda value: value.lower() in ("true", "false"), "True or False"
    if name in ("acks", "request.required.acks"):
        return re.compile("all|-1").fullmatch, "'all': with fewer answers records are lost"
    if name in ("linger.ms", "queue.buffering.max.ms"):
        return re.compile(r"[0-9]+(\.[0-9]+)?").fullmatch, "a number of milliseconds, 0 or more"
    if not _NUMBER.search(name):
        return lambda value: True, ""
    if name == "max.poll.records":
        return re.compile("0*[1-9][0-9]*").fullmatch, "a whole number, 1 or more"
    may_be_negative = name.endswith((".buffer.bytes", ".idle.ms", ".refresh.interval.ms"))
    return re.compile("-1|[0-9]+" if may_be_negative else "[0-9]+").fullmatch, "a whole number, 0 or more"


def _check_security(settings: Mapping[str, str]) -> None:
    """Raise unless what is said of a login and of TLS goes together: a client would leave the rest out."""
    login = [name for name in ("sasl.mechanism", "sasl.username", "sasl.password") if name in settings]
    login += ["sasl.mechanism"] * ("sasl.mechanisms" in settings)
    protocol = settings.get("security.protocol")
    for prefix, without, protocols in (
        ("sasl.", "a login", "'SASL_SSL', or 'SASL_PLAINTEXT' where the brokers have no TLS"),
        ("ssl.", "TLS", "'SSL', or 'SASL_SSL' with a login"),
    ):
        name = next((name for name in settings if name.startswith(prefix)), None)
        if name is not None and protocol is None:
            raise ConfigError(
                f"The setting {name!r} has no effect without security_protocol: the clients would connect without "
                f"{without}.",
                hint=f"Add security_protocol={protocols}.",
            )
    lacking = {"sasl.mechanism", "sasl.username", "sasl.password"} - {*login}
    if lacking and {"sasl.username", "sasl.password"} & {*login} and "sasl.jaas.config" not in settings:
        raise ConfigError(
            f"The login of wm.Kafka has no {', no '.join(sorted(name.replace('.', '_') for name in lacking))}.",
            hint="security_protocol='SASL_SSL', sasl_mechanism='PLAIN' or 'SCRAM-SHA-512', sasl_username=..., "
            "sasl_password=...",
        )


def _transactions(transactions: Any, max_task_idle: Any) -> tuple[str, ...]:
    names = (transactions,) if isinstance(transactions, str) else tuple(transactions)
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.[\w-]+", name):
            raise ConfigError(
                f"transactions= must name topics of Debezium's transactions: transactions={transactions!r:.80}.",
                hint='"shop.transaction", if topic.prefix of the connector is "shop".',
            )
    if names and max_task_idle is not None:
        raise ConfigError(
            f"Give either transactions={transactions!r:.80} or max_task_idle={max_task_idle!r}, not both: "
            f"a batch ends either "
            "between transactions or at a time.",
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
        raise ConfigError(f"{option} must not be negative: {subject}.", hint=_WAITS[option])
    return milliseconds


def _setting_texts(settings: Mapping[str, str]) -> list[str]:
    return [f"{n}={v!r}" if n in _HARMLESS else f"{n}=..." for n, v in sorted(settings.items())]


def _client_settings(side: str, options: Mapping[str, Any]) -> dict[str, str]:
    texts = setting_texts(f"wm.Kafka({side}=...)" if side else "wm.Kafka", options)
    # librdkafka has two names with an underscore
    return {
        (name if name in _LIBRDKAFKA else name.replace("_", ".")).removeprefix("kafka."): text
        for name, text in texts.items()
    }


def setting_texts(owner: str, settings: Mapping[Any, Any]) -> dict[str, str]:
    """Settings as Kafka and Spark read them: texts, true and false in small letters.

    Parameters
    ----------
    owner : what they were given to, in the error.

    Raises
    ------
    ConfigError : a name is no text, or a value no text, number, or True or False.
    """
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            kind = "None" if value is None else f"a {type(value).__name__}"
            hint = "A setting is a name with a text, a number, True or False; leave out a setting to keep its default."
            raise ConfigError(f"{owner} takes no setting {name!r:.80}: {kind}.", hint=hint)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}


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
            hint='starting_offsets={0: 1200, 1: 1187}, "earliest" or "latest".',
        )


def is_number(value: Any) -> bool:
    """Whether this is a number of a partition, an offset or a time."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
