"""Schema Registries, asked through confluent-kafka's client: at a start by the driver, for unknown numbers by tasks.

Law 6: what the registry does not have is something else than a registry that does not answer, which fails the query.
No setting's value gets into a message, since it may be a secret; into a pickled function goes one half of them
(`session.handed_over`).
"""

from __future__ import annotations

import importlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.types import DataType

from watersmeet._worker.formats.limits import ANSWER_BYTES, SCHEMA_REFERENCES
from watersmeet._worker.process import REGISTRIES, TookTooLong, call_with_timeout, received
from watersmeet.errors import ConfigError, SourceError, WatersmeetError, did_you_mean, installing

# Libraries of formats, which only those need who use the formats.


def needed(name: str) -> Any:
    """The module of this name."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "A format needs a package that is not installed.",
            given=str(error),
            hint=f"{installing('registry')}, on the driver and on every executor.",
        ) from None


# Limits of an answer of a registry: its bytes, and the time until all of them are there.
#
# The client of confluent-kafka bounds only how long it waits for the next byte, and keeps whatever comes.

_RETRIES, _WAIT_MS, _MOST_WAIT_MS = 3, 1_000, 20_000
"""The client's own, where nothing else is said."""
_GRACE = 1.0
"""For what it does beside waiting, in seconds."""


class TooLarge(Exception):
    """An answer has more bytes than are taken."""


def seconds_of(settings: Mapping[str, Any]) -> float:
    """How long a call may take with all its retries, by the client's settings."""
    retries = int(settings.get("max.retries", _RETRIES))
    first, most = settings.get("retries.wait.ms", _WAIT_MS), settings.get("retries.max.wait.ms", _MOST_WAIT_MS)
    pauses: float = sum(min(float(most), float(first) * 2.0**tried) for tried in range(retries)) / 1_000
    tries: float = (retries + 1) * float(settings.get("timeout") or 0)
    return len(str(settings.get("url", "")).split(",")) * (tries + pauses) + _GRACE


def bounded(client: Any) -> Any:
    """The client, which takes no answer of more than so many bytes."""
    try:
        session = client._rest_client.session
        hooks = session.event_hooks
        # a short answer may be a long one, packed
        session.headers["Accept-Encoding"] = "identity"
    except AttributeError as error:
        raise ConfigError(
            "The size of the Schema Registry's answers cannot be limited.",
            given=str(error),
            hint="Take a version of confluent-kafka that watersmeet is tested with: 2.12 to 2.16.",
        ) from None
    stream = needed("confluent_kafka.schema_registry.common._httpx_compat").httpx.SyncByteStream
    session.event_hooks = hooks | {"response": [*hooks["response"], lambda response: _bound(response, stream)]}
    return client


def _bound(response: Any, stream: Any) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise TooLarge("an answer that is packed, which was not asked for")
    response.stream = _of(stream)(response.stream)


def _of(stream: Any) -> Any:
    class Bounded(stream):  # type: ignore[misc]
        """A stream of bytes that ends in an error behind the last that is taken."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __iter__(self) -> Iterator[bytes]:
            count = 0
            for chunk in self._inner:
                count += len(chunk)
                if count > ANSWER_BYTES:
                    raise TooLarge(f"an answer of more than {ANSWER_BYTES} bytes")
                yield chunk

        def close(self) -> None:
            self._inner.close()

    return Bounded


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
    """A schema that a registry has."""

    text: str  # as it is registered
    kind: str  # "AVRO", "PROTOBUF" or "JSON"
    # texts of the schemas that it refers to, those first that others of them need, by the names they have
    references: tuple[tuple[str, str], ...] = ()
    # id, subject, version: its own, where they are known
    id: int | None = None
    subject: str = ""
    version: int | None = None


class Missing(LookupError):
    """The registry answers that it does not have it; says what."""


class Endless(LookupError):
    """The references of a schema have no end; says which."""


@dataclass(frozen=True)
class Handed:
    """A registry as tasks reach it."""

    half: bytes = field(repr=False)  # of all registries' settings
    number: int  # this one's among them

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = received(self.half, REGISTRIES)[str(self.number)]
        return settings


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
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        text = json.dumps(dict(settings), sort_keys=True, default=str)
        self._url, self._name = str(settings["url"]), text
        self._seconds = seconds_of(settings)
        if text not in _CLIENTS:
            _CLIENTS[text] = _make_client(settings)
        self._client = _CLIENTS[text]

    def by_id(self, number: int, form: str | None = None) -> RegisteredSchema:
        """The schema of this number.

        Parameters
        ----------
        form : how the registry is to give it; None: as it is.
        """
        call = partial(self._client.get_schema, number, fmt=form)
        schema = self._request(call, f"schema {number}", SourceError, _NO_SCHEMA)
        return self._with_references(schema)

    def of_subject(self, subject: str, version: int | None) -> RegisteredSchema:
        """A version of a subject, or its latest."""
        self._client.clear_latest_caches()
        selector: Any = "latest" if version is None else version
        registered = self._request(
            lambda: self._client.get_version(subject, selector), f"subject {subject}", ConfigError
        )
        schema = self._with_references(registered.schema)
        return RegisteredSchema(
            schema.text, schema.kind, schema.references, registered.schema_id, subject, registered.version
        )

    def id_of(self, subject: str, text: str, kind: str, *, register: bool) -> int:
        """The number of a schema of a subject.

        Parameters
        ----------
        register : whether one that the subject does not have is registered.
        """
        schema = _module().Schema(text, kind)
        if register:
            number = self._request(
                lambda: self._client.register_schema(subject, schema), f"subject {subject}", ConfigError
            )
        else:
            registered = self._request(
                lambda: self._client.lookup_schema(subject, schema), f"subject {subject}", ConfigError
            )
            number = registered.schema_id
        return int(number)

    def _with_references(self, schema: Any) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._collect(schema, references, ())
        return RegisteredSchema(self._text(schema), schema.schema_type or "AVRO", tuple(references.items()))

    def _text(self, schema: Any) -> str:
        if not isinstance(schema.schema_str, str):
            raise SourceError(
                "The Schema Registry does not answer.",
                given=f"{self._url}: an answer without a schema",
                hint="Check that the address is that of a Schema Registry.",
            )
        return schema.schema_str

    def _collect(self, schema: Any, references: dict[str, str], above: tuple[str, ...]) -> None:
        for reference in schema.references or ():
            if reference.name in above:
                raise Endless(f"the registry's schema {reference.name} refers to itself")
            if reference.name not in references:
                target = f"version {reference.version} of {reference.subject}"
                referenced = self._request(
                    partial(self._client.get_version, reference.subject, reference.version), target, SourceError
                )
                if len(references) + len(above) >= SCHEMA_REFERENCES:
                    raise Endless(f"it refers to more than {SCHEMA_REFERENCES} others")
                self._collect(referenced.schema, references, (*above, reference.name))
                references[reference.name] = self._text(referenced.schema)

    def _request(
        self, call: Callable[[], T], subject: str, kind: type[WatersmeetError], missing: Sequence[int] = _NO_VERSION
    ) -> T:
        errors = needed("confluent_kafka.schema_registry.error")
        try:
            return call_with_timeout(self._seconds, call, "a call of the Schema Registry")
        except errors.SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in missing:
                raise Missing(f"the registry has no {subject}: {error.error_message}") from None
            raise kind(
                "The Schema Registry refuses.",
                given=f"{self._url}, {subject}: {str(error.error_message)[:_SHOWN]} (HTTP {error.http_status_code}, "
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
                given=f"{self._url}, {subject}: {type(error).__name__}",
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


def _make_client(settings: Mapping[str, Any]) -> Any:
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


# The interface of a language of schemas: its types, how values are read by a schema, and how they are written.
#
# Avro, Protobuf and JSON Schema are one each, found by a format's kind (`schemas.LANGUAGES`). Law 6: bytes that are not
# to the letter a value of their schema have a reason.

References = Sequence[tuple[str, str]]
"""Names and texts of the schemas that one refers to, those first that others of them need."""
Writer = Callable[[pa.Array], pa.Array]
"""Makes bytes of values, null of null; `EncodingError` where one is none of the schema's."""


class BadSchema(ValueError):
    """A schema is none, or none that values can be read or written by; says why, and `meant` what may be meant."""

    meant = ""


def unknown_type(name: str, types: Sequence[str], message: str) -> BadSchema:
    """The error of a type that the language of a schema does not have, with one that may be meant.

    Parameters
    ----------
    types : those that it has.
    """
    words = {"int": "integer", "long": "integer", "double": "number", "float": "number", "bool": "boolean"}
    words |= {"text": "string", "str": "string", "varchar": "string", "list": "array", "map": "object"}
    words |= {"integer": "int", "bigint": "long", "number": "double", "timestamp": "long", "object": "record"}
    error = BadSchema(message)
    error.meant = did_you_mean(words[name] if words.get(name) in types else name, types, form=repr)
    return error


class Refused(ValueError):
    """Bytes are no value of the schema; says why."""


class Unwritable(ValueError):
    """A value is not one that the schema has; says why."""


class WriterValues(Protocol):
    """How values of one writer's schema are read."""

    def value(self, data: bytes) -> Any:
        """A value; `Refused` where the bytes are none."""
        ...


class SchemaReading(Protocol):
    """How values are read by one schema."""

    def bare(self) -> WriterValues: ...

    def written(self, text: str, references: References) -> WriterValues:
        """Values of a registered schema; `BadSchema`, or `Refused`, where they cannot be read."""
        ...

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]: ...


class Language(ABC):
    """A language of schemas. It has no state."""

    registered_as: ClassVar[str]
    """As the registry calls it."""
    asked_as: ClassVar[str | None] = None
    """How the registry is to give schemas; None: as they are."""
    hint: ClassVar[str]
    """What schemas have a type."""

    @abstractmethod
    def type_of(self, text: str, references: References = ()) -> DataType:
        """The Spark type of a schema's values, everything within nullable."""

    @abstractmethod
    def whole(self, text: str, references: References = ()) -> str:
        """The schema with all that it refers to: what a checkpoint has, and workers get."""

    @abstractmethod
    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        """How values are read by a whole schema.

        Parameters
        ----------
        validate : whether they are looked at by all that it says, where its type does not say it all.
        """

    @abstractmethod
    def schema_for(self, kind: DataType, name: str) -> str:
        """A schema of values of a type, everything within them nullable.

        Parameters
        ----------
        name : of what it describes.
        """

    def misfit(self, text: str, kind: DataType) -> str | None:
        """Why values of a type, all within nullable, are not written by a whole schema; None where they are."""
        schema_type = self.type_of(text)
        return None if schema_type == kind else f"its schema is of {schema_type.simpleString()}"

    @abstractmethod
    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        """The writer of values of a type by a whole schema.

        Parameters
        ----------
        header : what stands in front of each: the zero byte and the schema's number, or nothing.
        what : names the values to the user.
        validate : as of `reading`.
        """

    @abstractmethod
    def name_of(self, text: str) -> str | None:
        """The full name of what a schema describes."""

    def registration(self, text: str) -> str:
        return text

    def check(self, text: str) -> None:
        """Raise unless values can be looked at by all that a whole schema says (`validate`)."""
        raise NotImplementedError(f"{self.registered_as} values are always checked by their whole schema")

    def display_text(self, text: str) -> str:
        return text
