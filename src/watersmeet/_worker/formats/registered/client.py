"""Schema Registries, asked through confluent-kafka's client: at a start by the driver, for unknown numbers by tasks.

Law 6: what the registry does not have is something else than a registry that does not answer, which fails the query.
No setting's value gets into a message, since it may be a secret; into a pickled function goes one half of them
(`session.credentials`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

from watersmeet._worker.background import TookTooLong, call_with_timeout
from watersmeet._worker.formats.guarded.budgets import SCHEMA_REFERENCES
from watersmeet._worker.formats.registered.answers import bounded, seconds_of
from watersmeet._worker.formats.registered.packages import needed
from watersmeet._worker.secrets import REGISTRIES, received
from watersmeet.errors import ConfigError, SourceError, WatersmeetError

T = TypeVar("T")
_NOT_FOUND = 404
_NO_SCHEMA = (40403,)
_NO_VERSION = (40401, 40402, *_NO_SCHEMA)
"""What the registry itself answers; an HTTP 404 alone may come from whatever stands in front of it."""
_CLIENTS: dict[str, Any] = {}
"""By their settings: a process asks for each schema once."""
_OTHERS: list[Mapping[str, Any]] = []
_SHOWN = 300


@dataclass(frozen=True)
class RegisteredSchema:
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


class Endless(LookupError):
    """The references of a schema have no end; says which."""


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
        """The settings of the client."""
        found: dict[str, Any] = received(self.half, REGISTRIES)[str(self.number)]
        return found


@dataclass(frozen=True, eq=False)
class Reached:
    """A registry as this process reaches it; no function that is pickled may hold it."""

    settings: Mapping[str, Any] = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("settings of a Schema Registry are not pickled")


class RegistryClient:
    """The requests to one registry.

    Parameters
    ----------
    settings : of confluent-kafka's client.

    Raises
    ------
    ConfigError : the client is not installed, or does not take them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        text = json.dumps(dict(settings), sort_keys=True, default=str)
        self._url, self._name = str(settings["url"]), text
        self._seconds = seconds_of(settings)
        if text not in _CLIENTS:
            _CLIENTS[text] = _made(settings)
        self._client = _CLIENTS[text]

    def by_id(self, number: int, form: str | None = None) -> RegisteredSchema:
        """The schema of this number.

        Parameters
        ----------
        form : how the registry is to give it; None: as it is.

        Raises
        ------
        Missing : there is none.
        Endless : it refers to itself, or to too many others.
        SourceError : the registry does not answer.
        """
        call = partial(self._client.get_schema, number, fmt=form)
        found = self._asked(call, f"schema {number}", SourceError, _NO_SCHEMA)
        return self._whole(found)

    def of_subject(self, subject: str, version: int | None) -> RegisteredSchema:
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
        return RegisteredSchema(one.text, one.kind, one.references, found.schema_id, subject, found.version)

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

    def _whole(self, schema: Any) -> RegisteredSchema:
        found: dict[str, str] = {}
        self._collect(schema, found, ())
        return RegisteredSchema(self._text(schema), schema.schema_type or "AVRO", tuple(found.items()))

    def _text(self, schema: Any) -> str:
        if not isinstance(schema.schema_str, str):
            raise SourceError(
                "The Schema Registry does not answer.",
                given=f"{self._url}: an answer without a schema",
                hint="Check that the address is that of a Schema Registry.",
            )
        return schema.schema_str

    def _collect(self, schema: Any, found: dict[str, str], above: tuple[str, ...]) -> None:
        for each in schema.references or ():
            if each.name in above:
                raise Endless(f"the registry's schema {each.name} refers to itself")
            if each.name not in found:
                what = f"version {each.version} of {each.subject}"
                asked = self._asked(partial(self._client.get_version, each.subject, each.version), what, SourceError)
                if len(found) + len(above) >= SCHEMA_REFERENCES:
                    raise Endless(f"it refers to more than {SCHEMA_REFERENCES} others")
                self._collect(asked.schema, found, (*above, each.name))
                found[each.name] = self._text(asked.schema)

    def _asked(
        self, call: Callable[[], T], what: str, kind: type[WatersmeetError], missing: Sequence[int] = _NO_VERSION
    ) -> T:
        errors = needed("confluent_kafka.schema_registry.error")
        try:
            return call_with_timeout(self._seconds, call, "a call of the Schema Registry")
        except errors.SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in missing:
                raise Missing(f"the registry has no {what}: {error.error_message}") from None
            raise kind(
                "The Schema Registry refuses.",
                given=f"{self._url}, {what}: {str(error.error_message)[:_SHOWN]} (HTTP {error.http_status_code}, "
                f"{error.error_code})",
                hint=_hint(error.http_status_code),
            ) from None
        except Exception as error:
            if isinstance(error, TookTooLong) and _CLIENTS.get(self._name) is self._client:
                # what still waits for its answer ends with it, and the next call begins anew
                _CLIENTS.pop(self._name).__exit__()
            # its text may quote what was sent
            raise kind(
                "The Schema Registry does not answer.",
                given=f"{self._url}, {what}: {type(error).__name__}",
                hint="Check that it is up and that the address is right, and start the query again: it continues "
                "where it stopped. To wait longer: wm.SchemaRegistry(..., timeout=30, max_retries=3).",
            ) from None


def _forked() -> None:
    """In a process that another one has begun as its copy: leave that one's connections alone."""
    # kept, so that nothing closes them here
    _OTHERS.append(dict(_CLIENTS))
    _CLIENTS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _hint(status: int) -> str:
    if status in (401, 403):
        return "See that the login may do this: wm.SchemaRegistry(..., username=, password=)."
    if status in (409, 422):
        return "Change the schema so that it is compatible, or the subject's compatibility in the registry."
    return "The fault is the registry's. Start the query again later: it continues where it stopped."


def _module() -> Any:
    return needed("confluent_kafka.schema_registry")


def _made(settings: Mapping[str, Any]) -> Any:
    try:
        return bounded(_module().SchemaRegistryClient(dict(settings)))
    except WatersmeetError:
        raise
    except Exception:
        # the client's sentence may quote the value
        raise ConfigError(
            "The client of the Schema Registry refuses a setting.",
            given=", ".join(sorted(settings)),
            hint="They are those of confluent-kafka's SchemaRegistryClient, such as ssl_ca_location=.",
        ) from None
