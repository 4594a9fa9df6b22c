"""Schema Registries, asked through confluent-kafka's client: at a start by the driver, for unknown numbers by tasks.

Law 6: what the registry does not have is something else than a registry that does not answer, which fails the query.
No setting's value gets into a message, since it may be a secret; into a pickled function goes one half of them
(`session.credentials`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

from millpond._spark.formats.registered.packages import needed
from millpond._spark.session.credentials import REGISTRIES, received
from millpond.errors import ConfigError, MillpondError, SourceError

T = TypeVar("T")
_NOT_FOUND = 404
_CLIENTS: dict[str, Any] = {}
"""By their settings: a process asks for each schema once."""


@dataclass(frozen=True)
class Registered:
    """A schema that a registry has.

    Parameters
    ----------
    text : as it is registered.
    kind : "AVRO", "PROTOBUF" or "JSON".
    references : texts of the schemas that it refers to, those first that others of them need, by the names they have.
    id, subject, version : its own, where they are known.
    """

    text: str
    kind: str
    references: tuple[tuple[str, str], ...] = ()
    id: int | None = None
    subject: str = ""
    version: int | None = None


class Missing(LookupError):
    """The registry answers that it does not have it; says what."""


@dataclass(frozen=True)
class Handed:
    """A registry as tasks reach it.

    Parameters
    ----------
    half : of all registries' settings.
    number : this one's among them.
    """

    half: bytes = field(repr=False)
    number: int

    @property
    def settings(self) -> dict[str, Any]:
        """What the client is told."""
        found: dict[str, Any] = received(self.half, REGISTRIES)[str(self.number)]
        return found


@dataclass(frozen=True, eq=False)
class Reached:
    """A registry as this process reaches it; no function that is pickled may hold it."""

    settings: Mapping[str, Any] = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("settings of a Schema Registry are not pickled")


class RegistryClient:
    """What is asked of one registry.

    Parameters
    ----------
    settings : of confluent-kafka's client.

    Raises
    ------
    ConfigError : the client is not installed, or does not take them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        text = json.dumps(dict(settings), sort_keys=True, default=str)
        self._url = str(settings["url"])
        if text not in _CLIENTS:
            _CLIENTS[text] = _made(settings)
        self._client = _CLIENTS[text]

    def by_id(self, number: int, form: str | None = None) -> Registered:
        """The schema of this number.

        Parameters
        ----------
        form : how the registry is to give it; None: as it is.

        Raises
        ------
        Missing : there is none.
        SourceError : the registry does not answer.
        """
        found = self._asked(lambda: self._client.get_schema(number, fmt=form), f"schema {number}", SourceError)
        return self._whole(found)

    def of_subject(self, subject: str, version: int | None) -> Registered:
        """A version of a subject, or its latest.

        Raises
        ------
        Missing : there is none.
        ConfigError : the registry does not answer.
        """
        self._client.clear_latest_caches()
        wanted: Any = "latest" if version is None else version
        found = self._asked(lambda: self._client.get_version(subject, wanted), f"subject {subject}", ConfigError)
        one = self._whole(found.schema)
        return Registered(one.text, one.kind, one.references, found.schema_id, subject, found.version)

    def id_of(self, subject: str, text: str, kind: str, *, register: bool) -> int:
        """The number of a schema of a subject.

        Parameters
        ----------
        register : whether one that the subject does not have is registered.

        Raises
        ------
        Missing : the subject does not have it.
        ConfigError : the registry refuses it, or does not answer.
        """
        schema = _module().Schema(text, kind)
        if register:
            found = self._asked(
                lambda: self._client.register_schema(subject, schema), f"subject {subject}", ConfigError
            )
        else:
            asked = self._asked(lambda: self._client.lookup_schema(subject, schema), f"subject {subject}", ConfigError)
            found = asked.schema_id
        return int(found)

    def _whole(self, schema: Any) -> Registered:
        found: dict[str, str] = {}
        self._collect(schema, found)
        return Registered(schema.schema_str, schema.schema_type or "AVRO", tuple(found.items()))

    def _collect(self, schema: Any, found: dict[str, str]) -> None:
        for each in schema.references or ():
            if each.name not in found:
                what = f"version {each.version} of {each.subject}"
                asked = self._asked(partial(self._client.get_version, each.subject, each.version), what, SourceError)
                self._collect(asked.schema, found)
                found[each.name] = asked.schema.schema_str

    def _asked(self, call: Callable[[], T], what: str, kind: type[MillpondError]) -> T:
        errors = needed("confluent_kafka.schema_registry.error")
        try:
            return call()
        except errors.SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                raise Missing(f"the registry has no {what}: {error.error_message}") from None
            raise kind(
                "The Schema Registry refuses.",
                given=f"{self._url}, {what}: {error.error_message} (HTTP {error.http_status_code}, {error.error_code})",
                hint=_hint(error.http_status_code),
            ) from None
        except Exception as error:
            # its text may quote what was sent
            raise kind(
                "The Schema Registry does not answer.",
                given=f"{self._url}, {what}: {type(error).__name__}",
                hint="See that it is up and the address is right; the query goes on where it stopped when it is "
                "started again. How long to wait: mp.SchemaRegistry(..., timeout=30, max_retries=3).",
            ) from None


def _hint(status: int) -> str:
    if status in (401, 403):
        return "See that the login may do this: mp.SchemaRegistry(..., username=, password=)."
    if status in (409, 422):
        return "Change the schema so that it is compatible, or the subject's compatibility in the registry."
    return "What is wrong is the registry's own; the query goes on where it stopped when it is started again."


def _module() -> Any:
    return needed("confluent_kafka.schema_registry")


def _made(settings: Mapping[str, Any]) -> Any:
    try:
        return _module().SchemaRegistryClient(dict(settings))
    except MillpondError:
        raise
    except Exception:
        # the client's sentence may quote the value
        raise ConfigError(
            "The client of the Schema Registry refuses a setting.",
            given=", ".join(sorted(settings)),
            hint="They are those of confluent-kafka's SchemaRegistryClient, such as ssl_ca_location=.",
        ) from None
