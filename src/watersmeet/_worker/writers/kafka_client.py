"""The Python client of Kafka: settings, what must exist at a start, errors in plain words.

Law 6: whatever goes wrong between here and the broker is said, with what to do. No setting's value ever gets
into a message, since it may be a secret.
"""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from watersmeet._worker.background import TookTooLong, call_with_timeout
from watersmeet.errors import ConfigError, SinkError
from watersmeet.extras import installing
from watersmeet.io.kafka import Kafka

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
NO_RETURN: Final = "Kafka's client does not return from a call."
UNCONFIRMED: Final = "Kafka has not confirmed all records."
OWN = "watersmeet."
"""What settings of our own begin with, which travel with those of the client and are not given to it."""
RETRY, MARKS = f"{OWN}retry.ms", f"{OWN}marks"
T = TypeVar("T")
_PROPERTY = re.compile(r'configuration property:? "([^"]*)"')


def client() -> Any:
    """The module confluent_kafka.

    Raises
    ------
    ConfigError : it is not installed.
    """
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
    own = {RETRY: str(kafka.retry_timeout_ms)}
    return {**kafka.options, **kafka.producer, **own, "bootstrap.servers": kafka.bootstrap_servers}


def seconds(settings: Mapping[str, Any]) -> float:
    """How long to wait for an answer: the client's request.timeout.ms."""
    return int(settings.get("request.timeout.ms", WAIT)) / 1000


def make(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A client of class `kind`.

    Raises
    ------
    ConfigError : it does not take these settings.
    """
    # a transactional call of librdkafka's whose answer was lost goes on only when a connection changes its state
    # (librdkafka's issue 5456): that one of them is closed for its rest brings such a call back
    usual = {"log_level": 4, "connections.max.idle.ms": int(1000 * seconds(settings))}
    given = {name: value for name, value in settings.items() if not name.startswith(OWN)}
    try:
        # at 4, warnings: what it says of its own end goes past the logger
        return kind({**usual, **given}, logger=LOG)
    except client().KafkaException as error:
        # librdkafka's sentence quotes the value as well
        name = _PROPERTY.search(str(error))
        raise ConfigError(
            "The Kafka client refuses a setting.",
            given=name.group(1) if name else error.args[0].name(),
            hint="Settings of Spark's source alone (sasl.jaas.config, ssl.truststore...) belong in wm.Kafka(..., "
            "consumer={...}), settings of the sink alone in producer={...}.",
        ) from None


def can_ask(kafka: Kafka) -> bool:
    """Whether the client is installed, and has what it needs to log in: not where settings for Java alone say it."""
    java_alone = any(name.startswith(("sasl.", "ssl.", "security.")) for name in kafka.consumer)
    return find_spec("confluent_kafka") is not None and not java_alone


def admin(kafka: Kafka) -> Any:
    """A client that asks about topics.

    Raises
    ------
    ConfigError : the client is not installed, or does not take the connection's settings.
    """
    client()
    return make(importlib.import_module("confluent_kafka.admin").AdminClient, client_settings(kafka))


def check_topics(kafka: Kafka, topics: Iterable[str]) -> None:
    """Raise unless the cluster answers and has all these topics.

    Raises
    ------
    ConfigError : a topic is missing.
    SinkError : no broker answers.
    """
    try:
        found = admin(kafka).list_topics(timeout=seconds(client_settings(kafka))).topics
    except client().KafkaException as error:
        raise explained(error.args[0], f"the servers {kafka.bootstrap_servers}") from None
    missing = sorted(set(topics) - set(found))
    if missing:
        raise ConfigError(
            f"Unknown topic {', '.join(missing):.200}: Kafka does not have it.",
            given=", ".join(missing),
            hint="Create it first, with the partitions it is to have; there are: " + _some(found),
        )


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

    Raises
    ------
    SinkError : it has not come back.
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


def explained(error: Any, what: str) -> SinkError:
    """A KafkaError in plain words.

    Parameters
    ----------
    error : a confluent_kafka.KafkaError.
    what : what was being written, or where to.
    """
    found = SinkError("Kafka refuses the records.", given=f"{what}: {error.name()}: {error.str()}")
    for names, message, hint in _EXPLANATIONS:
        if error.name() in names:
            found = SinkError(message, given=f"{what}: {error.name()}", hint=hint)
    return passing(found) if error.retriable() or error.name() in _PASSING | _UNANSWERED else found


def may_pass(error: SinkError) -> bool:
    """Whether an error of a writer of Kafka's may pass by itself, also where only its text has reached the driver."""
    named = {*re.findall(r"\b[A-Z_]+\b", str(error.given))}
    return error.passing or error.message in (NO_RETURN, UNCONFIRMED) or bool(named & (_PASSING | _UNANSWERED))


def passing(error: SinkError) -> SinkError:
    """The error, as one that may pass by itself."""
    error.passing = True
    return error


def _some(found: Iterable[str]) -> str:
    names = sorted(name for name in found if not name.startswith("__"))
    shown = ", ".join(names[:10]) or "none"
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


_EXPLANATIONS: tuple[tuple[frozenset[str], str, str], ...] = (
    (
        frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_RESOLVE"}),
        "Kafka does not answer.",
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
        "Kafka does not have a topic of an output.",
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
