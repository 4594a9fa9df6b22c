"""The interface of a language of schemas: its types, how values are read by a schema, and how they are written.

Avro, Protobuf and JSON Schema are one each, found by a format's kind (`schemas.LANGUAGES`). Law 6: bytes that are not
to the letter a value of their schema have a reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

References = Sequence[tuple[str, str]]
"""Names and texts of the schemas that one refers to, those first that others of them need."""
Writer = Callable[[pa.Array], pa.Array]
"""Makes bytes of values, null of null; `EncodingError` where one is none of the schema's."""


class BadSchema(ValueError):
    """A schema is none, or none that values can be read or written by; says why."""


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

    def bare(self) -> WriterValues:
        """Values without a number in front."""
        ...

    def written(self, text: str, references: References) -> WriterValues:
        """Values of a registered schema; `BadSchema`, or `Refused`, where they cannot be read."""
        ...

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """The values as a column, and why some are none."""
        ...


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
        """The Spark type of a schema's values, everything within nullable.

        Raises
        ------
        BadSchema : it has none.
        """

    @abstractmethod
    def whole(self, text: str, references: References = ()) -> str:
        """The schema with all that it refers to: what a checkpoint has, and workers get.

        Raises
        ------
        BadSchema : it is none.
        """

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

        Raises
        ------
        BadSchema : there is none.
        """

    def misfit(self, text: str, kind: DataType) -> str | None:
        """Why values of a type, all within nullable, are not written by a whole schema; None where they are."""
        made = self.type_of(text)
        return None if made == kind else f"its schema is of {made.simpleString()}"

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
        """The schema as the registry is given it.

        Raises
        ------
        ConfigError : the registry cannot have it.
        """
        return text

    def check(self, text: str) -> None:
        """Raise unless values can be looked at by all that a whole schema says (`validate`).

        Raises
        ------
        BadSchema : it is none by its own language.
        ConfigError : a package that it takes is not installed.
        """
        raise NotImplementedError(f"{self.registered_as} values are always checked by their whole schema")

    def display_text(self, text: str) -> str:
        """The schema as errors show it."""
        return text
