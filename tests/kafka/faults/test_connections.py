"""A start and the doctor say what is wrong with a connection to Kafka: TLS, the login, another server at the port."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from watersmeet._spark.machine import check_brokers, checked_brokers
from watersmeet.errors import ConfigError

LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "ann", "sasl_password": "canary"}
JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="canary" '
    'user_ann="canary";'
)
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
}


def said(servers: str, **options: Any) -> str:
    """What is wrong with a connection; the doctor says the same as a start, and no password."""
    errors = []
    for check in (check_brokers, checked_brokers):
        with pytest.raises(ConfigError) as error:
            check(wm.Kafka(servers, **options))
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert "canary" not in errors[0]
    return errors[0]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys and certificates of two servers called localhost."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("own", "other"):
        files = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"))
        named = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1")
        subprocess.run([*made, *named, *files], check=True, capture_output=True)
    pair = ("-in", str(folder / "own.crt"), "-inkey", str(folder / "own.key"), "-out", str(folder / "own.p12"))
    subprocess.run(["openssl", "pkcs12", "-export", "-password", "pass:secret", *pair], check=True, capture_output=True)
    return folder


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a server of HTTP."""
    with http.server.ThreadingHTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_port}"
        server.shutdown()


def test_a_login_that_a_broker_refuses_is_said_as_such() -> None:
    with KafkaBroker(settings=SASL) as broker:
        servers = broker.bootstrap_servers
        assert "127.0.0.1" in checked_brokers(wm.Kafka(servers, sasl_mechanism="PLAIN", **LOGIN))
        assert "refuses the login" in said(servers, sasl_mechanism="PLAIN", **{**LOGIN, "sasl_password": "no canary"})
        assert "does not take the login's mechanism" in said(servers, sasl_mechanism="SCRAM-SHA-256", **LOGIN)
        assert "does not speak TLS" in said(servers, security_protocol="SSL")
        assert "A port with TLS or a login needs it" in said(servers)


def test_a_certificate_that_is_not_trusted_is_told_from_a_port_without_tls(certificates: Path) -> None:
    tls = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(certificates / "own.p12"),
        "ssl.keystore.password": "secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "own.crt"),
        "ssl.endpoint.identification.algorithm": "",
    }
    with KafkaBroker(settings=tls) as broker:
        named = broker.bootstrap_servers.replace("127.0.0.1", "localhost")
        check_brokers(wm.Kafka(named, security_protocol="SSL", ssl_ca_location=str(certificates / "own.crt")))
        for more in ({}, {"ssl_ca_location": str(certificates / "other.crt")}):
            assert "does not trust" in said(named, security_protocol="SSL", **more)
        assert "security_protocol='SSL'" in said(named)


def test_a_server_of_http_is_no_broker(page: str) -> None:
    assert f"The port {page} speaks HTTP" in said(page)


def test_a_file_or_a_login_that_is_missing_is_named(page: str, certificates: Path) -> None:
    missing = said(page, security_protocol="SSL", ssl_ca_location=str(certificates / "none.pem"))
    assert "cannot use the file of ssl.ca.location: there is none" in missing
    wrong = said(page, security_protocol="SSL", ssl_ca_location=str(certificates / "own.p12"))
    assert "cannot use the file of ssl.ca.location: it holds something else" in wrong
    for more in ({}, {"sasl_mechanism": "PLAIN"}):
        assert "The Kafka client has no login." in said(page, security_protocol="SASL_SSL", **more)


def test_a_start_asks_before_it_does_anything(spark: SparkSession, tmp_path: Path) -> None:
    b = wm.StreamsBuilder("asks")
    b.stream("in", key="string", value="string").to("out")
    checkpoint = tmp_path / "checkpoint"
    for servers in ("localhost:1", "nowhere.invalid:9092"):
        with pytest.raises(ConfigError, match=f"No broker answers at {servers}") as error:
            b.build().start(spark, checkpoint=str(checkpoint), kafka=wm.Kafka(servers))
        assert error.value.passing
    assert not checkpoint.exists()
