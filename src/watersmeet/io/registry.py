"""The connection to a Schema Registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigError
from watersmeet.names import answering

_HARMLESS = frozenset({"timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"})
_URL = re.compile(r"https?://[^@\s]+")


@answering
@dataclass(frozen=True, init=False, repr=False)
class SchemaRegistry:
    """The connection to a Schema Registry. Its repr shows no secrets.

    Parameters
    ----------
    url : "https://host:8081", several with commas between them; no user or password in it.
    username, password : of HTTP's basic authentication.
    options : settings of confluent-kafka's `SchemaRegistryClient` by its names, with dots or underscores:
        `ssl_ca_location`, `ssl_certificate_location`, `ssl_key_location`, `bearer_auth_...`, `timeout` (s, default 30),
        `max_retries` (default 3).

    Raises
    ------
    ConfigError : the address is none.

    Examples
    --------
    >>> SchemaRegistry("http://localhost:8081", username="ann", password="canary")
    SchemaRegistry('http://localhost:8081', basic.auth.user.info=...)
    """

    url: str
    options: Mapping[str, Any]

    def __init__(self, url: str, *, username: str | None = None, password: str | None = None, **options: Any) -> None:
        # the address itself is not shown: a user may have put a password there
        if not all(_URL.fullmatch(each.strip()) for each in str(url).split(",")):
            raise ConfigError(
                "The address of a Schema Registry must be a URL without a user or a password.",
                hint='wm.SchemaRegistry("https://host:8081", username="...", password="...")',
            )
        given = {name.replace("_", "."): value for name, value in options.items()}
        if (username is None) != (password is None):
            raise ConfigError(
                f"The {'password' if password is None else 'username'} is missing.",
                given=f"only {'username' if password is None else 'password'}=",
                hint='wm.SchemaRegistry("https://host:8081", username="...", password="...")',
            )
        if username is not None:
            given["basic.auth.user.info"] = f"{username}:{password}"
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "options", given)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of confluent-kafka's client; they may hold secrets."""
        return {"timeout": 30, **self.options, "url": self.url}

    def __repr__(self) -> str:
        shown = [f"{n}={v!r}" if n in _HARMLESS else f"{n}=..." for n, v in sorted(self.options.items())]
        return f"SchemaRegistry({', '.join([repr(self.url), *shown])})"

    def __hash__(self) -> int:
        return hash(self.url)
