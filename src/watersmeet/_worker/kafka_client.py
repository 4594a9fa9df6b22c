"""The Python client of Kafka: settings, what must exist at a start, errors in plain words.

Law 6: whatever goes wrong between here and the broker is said, with what to do. No setting's value ever gets
into a message, since it may be a secret.
"""

from __future__ import annotations

import importlib
import logging
import operator
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import pyarrow as pa

from watersmeet._engine import row_sizes
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan, Marker, is_in, older
from watersmeet._worker.process import TookTooLong, call_with_timeout
from watersmeet.errors import ConfigError, SinkError, installing, passing
from watersmeet.io.kafka import Kafka, setting_in_error

LOG = logging.getLogger("watersmeet.kafka")
# The client's own lines (a fenced producer alone prints four) repeat what our errors say: shown to who asks.
LOG.addHandler(logging.NullHandler())
LOG.propagate = False

WAIT = "30000"
_PASSING = frozenset(
    {
        *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
        *("CONCURRENT_TRANSACTIONS", "UNSTABLE_OFFSET_COMMIT"),
    }
)
_UNANSWERED = frozenset(
    {
        *("_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE"),
        *("_RETRY", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"),
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
        *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "UNSTABLE_OFFSET_COMMIT"),
    }
)
"""Faults of the network and of brokers that stop and start: what was tried may be tried again with a new client."""
SILENT: Final = "Kafka does not answer."
NO_TOPIC: Final = "Kafka does not have a topic of an output."
NO_RETURN: Final = "Kafka's client does not return from a call."
UNCONFIRMED: Final = "Kafka has not confirmed all records."
OWN = "watersmeet."
"""What settings of our own begin with, which travel with those of the client and are not given to it."""
RETRY, MARKS = f"{OWN}retry.ms", f"{OWN}marks"
_SOON = 5.0
"""Seconds for an answer about a query that has ended anyway, or about a limit that has a default."""
_LARGEST = 1_048_588
"""Kafka's default of `max.message.bytes`."""
T = TypeVar("T")
_PROPERTY = re.compile(r'configuration property:? "([^"]*)"', re.IGNORECASE)


def client() -> Any:
    """The module confluent_kafka."""
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError as error:
        raise ConfigError(
            "A Kafka sink needs the package confluent-kafka.",
            given=str(error),
            hint=f"{installing('kafka')}, on the driver and on every executor.",
        ) from None


def client_settings(kafka: Kafka) -> dict[str, str]:
    """The settings of any librdkafka client of this cluster."""
    internal = {RETRY: str(kafka.retry_timeout_ms)}
    return {**kafka.options, **kafka.producer, **internal, "bootstrap.servers": kafka.bootstrap_servers}


def seconds(settings: Mapping[str, Any]) -> float:
    """How long to wait for an answer: the client's request.timeout.ms."""
    return int(settings.get("request.timeout.ms", WAIT)) / 1000


def make(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A client of class `kind`."""
    # a transactional call of librdkafka's whose answer was lost goes on only when a connection changes its state
    # (librdkafka's issue 5456): that one of them is closed for its rest brings such a call back
    usual = {"log_level": 4, "connections.max.idle.ms": int(1000 * seconds(settings))}
    options = {name: value for name, value in settings.items() if not name.startswith(OWN)}
    try:
        # at 4, warnings: what it says of its own end goes past the logger
        return kind({**usual, **options}, logger=LOG)
    except client().KafkaException as error:
        raise _refused_setting(error, options) from None


def _refused_setting(error: Any, options: Mapping[str, Any]) -> ConfigError:
    """The error for settings that librdkafka does not take; its own sentence may quote a value."""
    message = str(error)
    quoted = _PROPERTY.search(message)
    by_length = sorted(options, key=len, reverse=True)
    name = quoted[1] if quoted else next((name for name in by_length if name in message), None)
    if name is not None and name.endswith(".location"):
        fault = "it holds something else" if Path(str(options[name])).is_file() else "there is none"
        return ConfigError(
            f"The Kafka client cannot use the file of {name}: {fault}.",
            hint="Give the path of a file in PEM that is on the driver's machine and on every executor's: "
            "ssl_ca_location= has the authority's certificate, not the broker's own.",
        )
    if "SASL mechanism" in message or "sasl.username" in message:
        return ConfigError(
            "The Kafka client has no login.",
            given="sasl.username" if "sasl.username" in message else "sasl.mechanism",
            hint="security_protocol='SASL_SSL' needs sasl_mechanism='PLAIN' or 'SCRAM-SHA-512', sasl_username= and "
            "sasl_password=. Kerberos (GSSAPI, what is taken without sasl_mechanism) is not in this client.",
        )
    # it may call a setting by another name than was given
    name = name if name in options else next((n for n in by_length if str(options[n]) in message.split()), name)
    value = f"={setting_in_error(str(options[name]))}" if name is not None and name in options else ""
    limits = re.search(r"(?:outside allowed range|supported values?:) .*", message)
    return ConfigError(
        f"The Kafka client refuses the setting {name or error.args[0].name()}{value}.",
        hint=f"{limits[0]:.200}: producer={{...}} of wm.Kafka has librdkafka's settings."
        if limits
        else "Settings of the client that reads alone (sasl.jaas.config, ssl.truststore...) belong in wm.Kafka(..., "
        "consumer={...}), settings of the one that writes alone in producer={...}.",
    )


def can_ask(kafka: Kafka) -> bool:
    """Whether the client is installed, and has what it needs to log in: not where settings for Java alone say it."""
    java_alone = any(name.startswith(("sasl.", "ssl.", "security.")) for name in kafka.consumer)
    return find_spec("confluent_kafka") is not None and not java_alone


def admin(kafka: Kafka, **overrides: Any) -> Any:
    """A client that asks about topics.

    Parameters
    ----------
    overrides : settings of this client alone.
    """
    client()
    return make(importlib.import_module("confluent_kafka.admin").AdminClient, {**client_settings(kafka), **overrides})


def check_topics(kafka: Kafka, topics: Iterable[str]) -> None:
    """Raise unless the cluster answers and has all these topics."""
    try:
        existing = admin(kafka).list_topics(timeout=seconds(client_settings(kafka))).topics
    except client().KafkaException as error:
        raise explained(error.args[0], f"the servers {kafka.bootstrap_servers}") from None
    missing = sorted(set(topics) - set(existing))
    if missing:
        raise ConfigError(
            f"Unknown topic {', '.join(missing):.200}: Kafka does not have it.",
            given=", ".join(missing),
            hint="Create it first, with the partitions it is to have; there are: " + _sample(existing),
        )


def missing_topics(kafka: Kafka, topics: Iterable[str]) -> set[str]:
    """Those of these topics that Kafka does not have; none if it cannot be asked."""
    if not can_ask(kafka):
        return set()
    try:
        return {*topics} - {*admin(kafka).list_topics(timeout=_SOON).topics}
    except (client().KafkaException, ConfigError):
        return set()


def largest_batch(kafka: Kafka, topics: Collection[str]) -> int:
    """Bytes of the largest batch of records that one of these topics takes; Kafka's default if it cannot be asked."""
    if not topics or not can_ask(kafka):
        return _LARGEST
    asks = importlib.import_module("confluent_kafka.admin")
    wanted = [asks.ConfigResource(asks.ResourceType.TOPIC, name) for name in topics]
    try:
        asking = admin(kafka)  # which has to live until it is answered
        found = asking.describe_configs(wanted, request_timeout=_SOON).values()
        return max(int(answer.result()["max.message.bytes"].value) for answer in found)
    except (client().KafkaException, ConfigError):
        return _LARGEST


def patiently(call: Callable[[], T], wait: float) -> T:
    """What `call` returns; called again while Kafka says that it will work soon.

    A coordinator that moves or has just been made (the first use of a cluster's groups) answers so.
    """
    until = time.monotonic() + wait
    while True:
        try:
            return call()
        except client().KafkaException as error:
            passing = error.args[0].retriable() or error.args[0].name() in _PASSING
            if not passing or time.monotonic() > until:
                raise
            time.sleep(0.1)


def returning(call: Callable[[], T], limit: float) -> T:
    """What `call` returns, in a thread that is given up where it has not come back after `limit` seconds.

    librdkafka limits its transactional calls itself, but one that is under way while the broker dies may never end:
    seen with 2.16, in `rd_kafka_txn_op_req0`, when the broker had been back for seven minutes.
    """
    try:
        return call_with_timeout(limit, call, "a call of Kafka's client")
    except TookTooLong:
        raise passing(
            SinkError(
                NO_RETURN,
                given=f"waited {limit:.0f} s",
                hint="Start the query again, which runs the batch again with a new client; was a broker restarted?",
            )
        ) from None


def explained(error: Any, target: str) -> SinkError:
    """A KafkaError in plain words.

    Parameters
    ----------
    error : a confluent_kafka.KafkaError.
    target : what was being written, or where to.
    """
    explanation = SinkError("Kafka refuses the records.", given=f"{target}: {error.name()}: {error.str()}")
    for names, message, hint in _EXPLANATIONS:
        if error.name() in names:
            explanation = SinkError(message, given=f"{target}: {error.name()}", hint=hint)
    return passing(explanation) if error.retriable() or error.name() in _PASSING | _UNANSWERED else explanation


def is_transient(error: SinkError) -> bool:
    """Whether an error of a writer of Kafka's may pass by itself, also where only its text has reached the driver."""
    codes = {*re.findall(r"\b[A-Z_]+\b", str(error.given))}
    return error.passing or error.message in (NO_RETURN, UNCONFIRMED) or bool(codes & (_PASSING | _UNANSWERED))


def _sample(topics: Iterable[str]) -> str:
    names = sorted(name for name in topics if not name.startswith("__"))
    text = ", ".join(names[:10]) or "none"
    return text if len(names) <= 10 else f"{text} and {len(names) - 10} more"


_EXPLANATIONS: tuple[tuple[frozenset[str], str, str], ...] = (
    (
        frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_RESOLVE"}),
        SILENT,
        "Check that the brokers are up and that bootstrap_servers is right, and start the query again: it "
        "continues where it stopped. To wait longer: producer={'request.timeout.ms': ..., "
        "'message.timeout.ms': ...}.",
    ),
    (
        frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "_MSG_SIZE_TOO_LARGE"}),
        "A record is larger than Kafka takes.",
        "Raise message.max.bytes here (producer={'message.max.bytes': ...}) and max.message.bytes of the "
        "topic, or write smaller values.",
    ),
    (
        frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}),
        NO_TOPIC,
        "Create it, with the partitions it is to have, and start the query again.",
    ),
    (
        frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}),
        "Another writer has taken over: this task is not the only one that writes this batch, or its "
        "transaction took longer than Kafka waits.",
        "Run one query per checkpoint. If there is only one: take smaller batches, or raise "
        "producer={'transaction.timeout.ms': ...} (the broker's limit is transaction.max.timeout.ms).",
    ),
    (
        frozenset({"INVALID_TRANSACTION_TIMEOUT"}),
        "The broker does not allow transactions this long.",
        "Lower producer={'transaction.timeout.ms': ...} to the broker's transaction.max.timeout.ms.",
    ),
    (
        frozenset({"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}),
        "This user may not write in transactions.",
        "Exactly once needs the rights WRITE and DESCRIBE on the transactional ids, and READ on the groups, that begin "
        'with the application id; or take delivery="at_least_once".',
    ),
    (
        frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}),
        "This user may not write to the topic.",
        "Give it the right WRITE on the topic.",
    ),
    (
        frozenset({"UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE"}),
        "This broker knows no transactions.",
        'Take delivery="at_least_once".',
    ),
)


# Writes records to Kafka from a Python worker: plainly, or as one transaction per task and batch.
#
# Exactly once: the number of the batch is committed as an offset of the task's own consumer group, with the batch's
# plan as its metadata, in the transaction that writes the batch, so both are in or neither is. A task that is run again
# finds its number there and writes nothing; where the number has another plan, it fails. The transactional id fences a
# writer that was given up but still lives. A producer outlives the task: making one costs a connection and a round of
# fencing.

DEFAULTS: dict[str, Any] = {
    # where Kafka's own clients put a key: so that Kafka Streams can read the topic as co-partitioned
    "partitioner": "murmur2_random",
    # keeps the order over retries, and with it each key's
    "enable.idempotence": True,
    # memory of a worker is bounded by this, not by what the broker is behind with
    "queue.buffering.max.kbytes": 65_536,
    "linger.ms": 20,
}
TRANSACTION_TIMEOUT = 300_000
RETRY_MS = 300_000
"""As `Kafka(..., retry_timeout=)`, where nothing says otherwise."""
_LEEWAY = 3
"""How many times as long as Kafka has for an answer the client has to come back with it."""
KEPT = 4
"""Producers that a worker keeps: each has threads and connections, and tasks move from worker to worker."""

BY_KEY = -1
"""The partition of a record whose key decides it: the client's own word for it."""
Headers = list[tuple[str, bytes | None]]
_senders: dict[tuple[Any, ...], Sender] = {}


class Sender:
    """Writes records; those of one key reach the topic in the order in which they are given.

    Attributes
    ----------
    retry_seconds : for how long a batch is tried again.
    takeovers : how often it has taken its transactional id over, if it has one.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        retry = int(settings.get(RETRY, RETRY_MS))
        # without a transaction the client itself tries again
        self._settings = {**DEFAULTS, "message.timeout.ms": max(retry, 1_000), **settings}
        self.retry_seconds = retry / 1000
        self._wait = seconds(settings)
        self.takeovers = 0
        self._producer: Any = None
        self._failed: Any = None
        self._counts: dict[str, int] = {}

    @property
    def partitions_by_murmur(self) -> bool:
        """Whether the client puts a record where murmur2 of its key says, and one without a key anywhere."""
        return bool(self._settings["partitioner"] == DEFAULTS["partitioner"])

    def begin(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Open a batch; False: it is in already."""
        self._counts = {}
        if self._producer is None:
            self._open()
        return True

    def send(
        self,
        topics: Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Sequence[int],
        headers: Sequence[Headers | None],
        partitions: Sequence[int],
    ) -> int:
        """Write records, given by their parts, all of one length; their number."""
        nothing = [None] * len(topics)
        # as `produce` takes them; the client has no call for many records that takes headers along
        parts = (topics, values, keys, partitions, nothing, nothing, times, headers)
        moving = [iter(part) for part in parts]
        while True:  # a turn each time that the queue is full
            try:
                deque(map(self._producer.produce, *moving), maxlen=0)
                break
            except BufferError:
                self._put_when_there_is_room(*_last(parts, moving))
            except client().KafkaException as error:
                raise _refused(error, *_last(parts, moving)) from None
        self._producer.poll(0)
        self._check()
        return len(topics)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has, for this batch; 1 for none: the write then says what is wrong."""
        if topic not in self._counts:
            try:
                metadata = patiently(lambda: self._producer.list_topics(topic, self._wait), self._wait)
            except client().KafkaException as error:
                raise explained(error.args[0], f"topic {topic!r}") from None
            self._counts[topic] = len(metadata.topics[topic].partitions) or 1
        return self._counts[topic]

    def commit(self, batch: int, plan: BatchPlan = UNKNOWN) -> None:
        """Return when all is written."""
        left = self._producer.flush()
        self._check()
        if left:
            raise SinkError(UNCONFIRMED, given=f"{left} left")

    def abandon(self) -> None:
        """Give up what is under way, and this producer with it."""
        producer, self._producer = self._producer, None
        self._failed = None
        if producer is not None:
            with suppress(Exception):
                producer.purge()

    def _open(self) -> None:
        self._failed = None
        settings = {**self._settings, "on_delivery": self._delivered, "delivery.report.only.error": True}
        self._producer = make(client().Producer, settings)

    def _put_when_there_is_room(self, *record: Any) -> None:
        """The same record until the queue takes it, so that the order stays."""
        while True:
            self._producer.poll(0.1)
            self._check()
            try:
                self._producer.produce(*record)
                return
            except BufferError:
                continue
            except client().KafkaException as error:
                raise _refused(error, *record) from None

    def _delivered(self, error: Any, record: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = (error, f"topic {record.topic()!r}")

    def _check(self) -> None:
        if self._failed is not None:
            raise explained(*self._failed)


class TransactionalSender(Sender):
    """Writes each batch as one transaction of one task, or of the driver."""

    def __init__(self, settings: Mapping[str, Any], name: str, topic: str) -> None:
        timeout = int(settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT))
        limits = {"transaction.timeout.ms": timeout, "message.timeout.ms": min(timeout, 120_000)}
        super().__init__({**limits, **settings, "transactional.id": name})
        self._name = name
        self._timeout = timeout / 1000
        # an offset is of a partition of a topic that exists
        self._mark = (str(settings.get(MARKS, topic)), 0)
        self._marker: Marker | None = None
        self._group: Any = None

    def holds(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Whether Kafka has the batch: asked where this id is yet to be taken over, else as it was seen last."""
        try:
            if self._producer is None:
                self._take_over()
        except client().KafkaException as error:
            self.abandon()
            raise explained(error.args[0], f"transactional id {self._name!r}") from None
        return self._is_in(batch, plan)

    def begin(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Open the transaction with its marker.

        The marker goes first: if another worker has taken this task over since we last wrote, Kafka refuses now, before
        a record is read that could not be read again.
        """
        self._counts = {}
        if self._marker is not None and self._marker.batch >= batch:
            # others may have written since: what Kafka says now decides, not what this worker remembers
            self.abandon()
        reused = self._producer is not None
        try:
            return self._open_transaction(batch, plan)
        except client().KafkaException as error:
            self.abandon()
            if not reused:
                raise explained(error.args[0], f"transactional id {self._name!r}") from None
        return self.begin(batch, plan)

    def commit(self, batch: int, plan: BatchPlan = UNKNOWN) -> None:
        """Commit records and marker together."""
        try:
            # it writes out what is left first, which may take as long as the transaction may
            patiently(lambda: self._call("commit_transaction", limit=self._timeout), self._wait)
        except client().KafkaException as error:
            # a record that was refused says more than the transaction that it broke
            self._check()
            raise explained(error.args[0], f"transactional id {self._name!r}") from None
        self._check()
        self._marker = Marker(batch, plan)

    def abandon(self) -> None:
        """Abort what is under way."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.purge()
                self._call("abort_transaction", 10, limit=10)
        super().abandon()

    def _open_transaction(self, batch: int, plan: BatchPlan) -> bool:
        if self._producer is None:
            self._take_over()
        if self._is_in(batch, plan):
            return False
        mark = client().TopicPartition(*self._mark, batch, plan.text())
        self._producer.begin_transaction()
        arguments = ([mark], self._group, self._wait)
        patiently(lambda: self._call("send_offsets_to_transaction", *arguments), self._wait)
        return True

    def _is_in(self, batch: int, plan: BatchPlan) -> bool:
        return is_in(self._marker, batch, plan, self._name)

    def _call(self, name: str, *arguments: Any, limit: float = 0.0) -> Any:
        """The result of a transactional call of the client; one that hangs is left behind with its client."""
        call = getattr(self._producer, name)
        try:
            return returning(lambda: call(*arguments), limit + _LEEWAY * self._wait)
        except SinkError:
            # whatever else it is asked, to abort or to end, would hang as well
            self._producer = None
            raise

    def _take_over(self) -> None:
        """Fence all others that write for this task, end what they left open, and see which batch is in."""
        self._open()
        self.takeovers += 1
        patiently(lambda: self._call("init_transactions", self._wait), self._wait)
        settings = {n: v for n, v in self._settings.items() if n not in ("transactional.id", *DEFAULTS)}
        settings |= {"group.id": self._name, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = make(client().Consumer, settings)
        try:
            # only now is the marker final: no transaction of this id is open any more
            self._marker = _read_marker(consumer, self._mark, self._wait)
            self._group = consumer.consumer_group_metadata()
        finally:
            consumer.close()


def refuse_later(kafka: Kafka, names: Sequence[str], topic: str, planned: int) -> None:
    """Raise if Kafka has a batch of one of these tasks that comes after the batch `planned`.

    Parameters
    ----------
    names : the tasks' transactional ids.
    topic : the one with offsets that mark the batches.
    """
    settings = {n: v for n, v in client_settings(kafka).items() if n not in DEFAULTS}
    # what an open transaction holds does not count: it will be ended
    settings |= {"isolation.level": "read_uncommitted", "enable.auto.commit": "false"}
    wait = seconds(settings)
    for name in names:  # one question per task
        consumer = make(client().Consumer, {**settings, "group.id": name})
        try:
            marker = _read_marker(consumer, (topic, 0), wait)
        except client().KafkaException as error:
            raise explained(error.args[0], f"group {name!r}") from None
        finally:
            consumer.close()
        if marker is not None and marker.batch > planned:
            raise older(f"the last batch planned is {planned}, batch {marker.batch} is in ({name})")


def _read_marker(consumer: Any, mark: tuple[str, int], wait: float) -> Marker | None:
    """The batch that the consumer's group has committed as offset of this partition, and its plan; None: none."""

    def look() -> Marker | None:
        committed = consumer.committed([client().TopicPartition(*mark)], timeout=wait)[0]
        if committed.error is not None:
            raise client().KafkaException(committed.error)
        return Marker.of(int(committed.offset), committed.metadata) if committed.offset >= 0 else None

    return patiently(look, wait)


def sender(settings: Mapping[str, Any], name: str | None, topic: str) -> Sender:
    """This worker's sender: of the transactional id `name`, or a plain one if None."""
    key = (os.getpid(), name, topic, tuple(sorted(settings.items())))
    instance = _senders.pop(key, None)
    if instance is None:
        instance = Sender(settings) if name is None else TransactionalSender(settings, name, topic)
    _senders[key] = instance
    while len(_senders) > KEPT:
        _senders.pop(next(iter(_senders))).abandon()
    return instance


def _last(parts: Sequence[Sequence[Any]], moving: Sequence[Any]) -> list[Any]:
    """The record that was given last: what it has of each part, as `produce` takes it."""
    at = len(parts[0]) - operator.length_hint(moving[0]) - 1
    return [part[at] for part in parts]


def _refused(error: Any, topic: str, value: bytes | None, key: bytes | None, *_: Any) -> Exception:
    size = len(key or b"") + len(value or b"")
    return explained(error.args[0], f"topic {topic!r}, a record of {size} bytes")


# A batch's transaction, tried again while Kafka does not answer: for so long as `Kafka(..., retry_timeout=)` says.
#
# Records of an aborted transaction are gone with it, so they are kept until the transaction is in: in memory if they
# are few, else in a file (law 9). If the answer to a commit was lost, the batch's marker shows whether it is in: so
# each record is in once, however often it is sent.

PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the second attempt, and twice as many before each further one, up to the longest."""
KEPT_BYTES = 8 << 20
"""Of records that are kept in memory."""


class Faults:
    """The faults of one batch: how long they have lasted, and whether it is tried again.

    Parameters
    ----------
    limit : seconds from the first fault on for which it is.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._pause = PAUSE
        self._since: float | None = None

    def passed(self) -> None:
        """Something went well: what comes later is another fault."""
        self._since, self._pause = None, PAUSE

    def again(self, error: SinkError) -> None:
        """Wait a little before the next attempt."""
        current = time.monotonic()
        self._since = current if self._since is None else self._since
        if not error.passing:
            raise error
        if current + self._pause > self._since + self._limit:
            raise SinkError(
                error.message,
                given=f"{error.given}; tried again for {current - self._since:.0f} s",
                hint=f"{error.hint or ''} To try for longer: wm.Kafka(..., retry_timeout=...).".strip(),
            ) from error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


class RetriedTransaction:
    """A task's transaction of one batch.

    Parameters
    ----------
    out : writes it.
    start : opens it, with its marker; False: it is in already.
    send : gives it records.
    commit : commits it.
    is_once : whether it is a transaction of Kafka's; what is written plainly the client itself tries again.

    Attributes
    ----------
    is_in : whether Kafka had it before all of it was sent.
    """

    def __init__(
        self,
        out: Sender,
        start: Callable[[], bool],
        send: Callable[[pa.RecordBatch | pa.Table], object],
        commit: Callable[[], None],
        *,
        is_once: bool,
    ) -> None:
        self._initial_takeovers = out.takeovers
        self._out, self._start, self._send, self._commit = out, start, send, commit
        self._is_once = is_once
        self._faults = Faults(out.retry_seconds if is_once else 0)
        self._sent = _StoredRecords()
        self._is_open = False
        self.is_in = False

    @property
    def takeovers(self) -> int:
        """How often its transactional id was taken over for it."""
        return self._out.takeovers - self._initial_takeovers

    def begin(self) -> bool:
        """Open it; False: it is in already."""
        self._until_done(lambda: None)
        return not self.is_in

    def send(self, records: pa.RecordBatch | pa.Table) -> None:
        """Write records."""
        # what is sent anew has them
        fresh = not self._is_open and self._is_once
        if self._is_once:
            self._sent.add(records)
        if fresh:
            self._until_done(lambda: None)
        else:
            self._until_done(lambda: self._send(records), again=lambda: None)

    def commit(self) -> None:
        """Commit it."""
        try:
            self._until_done(self._commit)
        finally:
            self._sent.close()

    def abandon(self) -> None:
        self._sent.close()
        self._out.abandon()

    def _until_done(self, call: Callable[[], object], again: Callable[[], object] | None = None) -> None:
        """Call within the open transaction; where a fault ends that, behind all that was sent in it (`again`)."""
        while not self.is_in:
            try:
                self._opened()
                if not self.is_in:
                    call()
                self._faults.passed()
                return
            except SinkError as error:
                self._is_open = False
                self._out.abandon()
                self._faults.again(error)
                call = call if again is None else again

    def _opened(self) -> None:
        """Have it open, with all that was sent in it."""
        if self._is_open:
            return
        self.is_in = not self._start()
        if not self.is_in:
            for records in self._sent:
                self._send(records)
            self._is_open = True


class _StoredRecords:
    """Records, to be read again from the first on."""

    def __init__(self) -> None:
        self._buffer: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._sizes: list[int] = []

    def add(self, records: pa.RecordBatch | pa.Table) -> None:
        rows = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
        self._buffer.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > KEPT_BYTES:
            self._put()

    def __iter__(self) -> Iterator[pa.Table]:
        if self._file is not None:
            self._file.seek(0)
            for size in self._sizes:
                yield row_sizes.decode(self._file.read(size))
        yield from self._buffer

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._buffer, self._sizes, self._file = [], [], None

    def _put(self) -> None:
        if self._file is None:
            # where Spark itself puts what does not fit, if it says so
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
            self._file = tempfile.TemporaryFile(dir=folder, prefix="watersmeet-")  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        for rows in self._buffer:
            content = row_sizes.encode(rows, compress=False)
            self._file.write(content)
            self._sizes.append(len(content))
        self._buffer, self._bytes = [], 0
