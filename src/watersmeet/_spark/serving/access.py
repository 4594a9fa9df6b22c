"""Who may read: the address that is listened on, a token, certificates. Nobody else's machine, unless that is said."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watersmeet.errors import ConfigError

LEAST_TOKEN = 16
_IN_PEM = 'tls=("server.crt", "server.key"), both in PEM.'
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_BEARER = "bearer "


@dataclass(frozen=True)
class Access:
    """Where is listened, and who may read."""

    # host, port: the address; port 0: any free one
    host: str
    port: int
    flight_port: int  # the port of Arrow Flight
    token: str | None = field(default=None, repr=False)  # what a reader has to send; None: nothing
    tls: tuple[Path, Path] | None = None  # files of the certificate and of its key; None: nothing is encrypted

    @classmethod
    def of(cls, address: str, flight: Any, token: Any, tls: Any) -> Access:
        """The access that the options of `serve` give, of whatever types a file of options has them."""
        host, port = _address(address)
        if flight is not None and (
            not isinstance(flight, int) or isinstance(flight, bool) or not 0 <= flight < 1 << 16
        ):
            raise ConfigError(f"flight_port={flight!r} is no port.", hint="Leave it out: it is the next one then.")
        if token is not None and not _is_token(token):
            raise ConfigError(
                f"token= must have {LEAST_TOKEN} characters or more, all of them printable ASCII.",
                given=f"one of {len(token)}" if isinstance(token, str) else f"a value of type {type(token).__name__}",
                hint='token=secrets.token_urlsafe() makes one; keep it where the readers find it: os.environ["..."].',
            )
        if token is None and tls is None and not _is_here(host):
            raise ConfigError(
                f"Any machine that reaches address={address!r} could read the tables: token= and tls= are missing.",
                hint='query.serve("127.0.0.1:8815", ...) serves this machine alone; or give token=, best with tls=.',
            )
        return cls(host, port, (port + 1 if port else 0) if flight is None else flight, token, _files(tls))

    def admits(self, authorization: str | None) -> bool:
        """Whether somebody may read who sends this as `authorization`; in a time that does not tell how near it is."""
        if self.token is None:
            return True
        header = authorization or ""
        bearer = header[: len(_BEARER)].lower() == _BEARER
        token = header[len(_BEARER) :] if bearer else ""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()) and bearer

    def is_addressed(self, host: str | None) -> bool:
        """Whether a request is for us by its `host`, where nothing else is asked for.

        Else a page of another site may ask, under a name that means this machine.
        """
        if self.token is not None or not _is_here(self.host):
            return True
        name = (host or "").rpartition(":")[0] if not (host or "").endswith("]") else host or ""
        return (name or host or "").strip("[]").lower() in {*_HERE, self.host}

    def bound(self) -> socket.socket:
        """The socket that listens."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # by its number: else asyncio leaves Nagle's algorithm on, and an answer waits 40 ms for the reader's receipt
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            raise self.taken(self.port, error.strerror or str(error)) from None
        return listener

    def taken(self, port: int, reason: str) -> ConfigError:
        """The error of a port that cannot be had."""
        option = "address" if port == self.port else "flight_port"
        return ConfigError(
            f"Nothing can be served at {self.host}:{port} ({option}=): {reason}.",
            hint="Each query has ports of its own, one for HTTP and one for Arrow Flight; port 0 takes a free one.",
        )


def _address(address: str) -> tuple[str, int]:
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ConfigError(f"address={address!r} is no host and port.", hint='query.serve("127.0.0.1:8815", ...)')
    return host.strip("[]"), int(port)


def _is_token(token: object) -> bool:
    return isinstance(token, str) and len(token) >= LEAST_TOKEN and token.isascii() and token.isprintable()


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _files(tls: Any) -> tuple[Path, Path] | None:
    if tls is None:
        return None
    are_paths = isinstance(tls, list | tuple) and all(isinstance(path, str | os.PathLike) for path in tls)
    paths = [Path(path) for path in tls] if are_paths else []
    absent = next((file for file in paths if not file.is_file()), None)
    if len(paths) == 2 and absent is not None:
        raise ConfigError(f"tls={tls!r:.200} names a file that is not there: {str(absent)!r}.", hint=_IN_PEM)
    if len(paths) != 2:
        raise ConfigError(
            f"tls={tls!r:.200} must name two files, of the certificate and of its key.",
            hint=_IN_PEM,
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths[0], paths[1], _refuse_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(
            f"tls={tls!r:.200} has no certificate and key that belong together: {reason}.",
            hint=f"{_IN_PEM} The key is the one that the certificate was made for, and has no password.",
        ) from None
    return paths[0], paths[1]


def _refuse_password() -> str:
    raise ValueError("the key has a password")
