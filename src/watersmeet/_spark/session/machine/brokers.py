"""Kafka as this machine sees it: whether a broker answers, under the names that the brokers give themselves."""

from __future__ import annotations

import socket

from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka

_SECONDS = 5.0


def checked_brokers(kafka: Kafka) -> str:
    """The brokers and the number of topics, as text.

    Raises
    ------
    ConfigError : the client is not installed, no broker answers, or one names itself by an address that this machine
        does not reach.
    """
    module = kafka_client.client()
    servers = [server.strip() for server in kafka.bootstrap_servers.split(",")]
    failures = [f"{server}: {failure}" for server in servers if (failure := _unreached(server))]
    if len(failures) == len(servers):
        raise ConfigError(
            f"No broker answers at {'; '.join(failures)}.",
            hint="Start Kafka, or correct the address and the port; in a container `localhost` is the container "
            "(docs/runbook.md#kafka).",
        )
    admin = kafka_client.admin(kafka)
    try:
        found = admin.list_topics(timeout=2 * _SECONDS)
    except module.KafkaException as error:
        raise ConfigError(
            f"{kafka.bootstrap_servers} is open, but does not answer as Kafka does: {error.args[0].name()}.",
            hint="A port with TLS or a login needs it in wm.Kafka: security_protocol=, sasl_mechanism= and the rest; "
            "`--config run.toml` gives them to the doctor.",
        ) from None
    named = [f"{broker.host}:{broker.port}" for broker in found.brokers.values()]
    for name in named:
        failure = _unreached(name)
        if failure:
            raise ConfigError(
                f"Kafka answers at {kafka.bootstrap_servers}, but a broker calls itself {name}: {failure}.",
                hint="Clients use that name: correct `advertised.listeners` of the broker, or make the name known to "
                "this machine (docs/runbook.md#kafka).",
            )
    return f"{', '.join(sorted(named))}; {len(found.topics)} topics"


def _unreached(server: str) -> str:
    """Why no connection can be made; "" if one was made."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:  # also of a name or a port that there cannot be
        return getattr(error, "strerror", None) or str(error)
    return ""
