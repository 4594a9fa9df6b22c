"""Protobuf as a language of schemas: a schema is a message, in a file with others."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import DataType

from watersmeet._worker.formats.protobuf.types import (
    BadIndex,
    header_of,
    message_of,
    payload_of,
    type_of_message,
    written_by,
)
from watersmeet._worker.formats.protobuf.values import Messages, ProtobufWriter, columns_of
from watersmeet._worker.formats.registered.language import (
    BadSchema,
    Language,
    References,
    Refused,
    SchemaReading,
    Writer,
    WriterValues,
)
from watersmeet.errors import ConfigError


class Protobuf(Language):
    """Protobuf: a message is read as another one of its name."""

    registered_as: ClassVar[str] = "PROTOBUF"
    asked_as: ClassVar[str | None] = "serialized"
    hint: ClassVar[str] = "Take a message that holds neither itself nor a group."

    def type_of(self, text: str, references: References = ()) -> DataType:
        """As of each language."""
        return type_of_message(message_of(text))

    def whole(self, text: str, references: References = ()) -> str:
        """As of each language."""
        return text

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        """As of each language."""
        return _ProtobufReading(text)

    def schema_for(self, kind: DataType, name: str) -> str:
        """As of each language: never, fields have numbers that no type has."""
        raise BadSchema("a message is not made of a type")

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        """As of each language."""
        return ProtobufWriter(text, header and header + header_of(message_of(text)), what)

    def name_of(self, text: str) -> str | None:
        """As of each language."""
        name: str = message_of(text).full_name
        return name

    def registration(self, text: str) -> str:
        """As of each language: the file's descriptor."""
        file = message_of(text).file
        needs = [each.name for each in file.dependencies if not each.name.startswith("google/protobuf/")]
        if needs:
            raise ConfigError(
                f"The file {file.name} of a sink with a registry must not import other files.",
                given=f"{file.name} needs {', '.join(needs)}",
                hint="Declare all messages in the same file; google/protobuf/... may be imported.",
            )
        return base64.b64encode(file.serialized_pb).decode()

    def display_text(self, text: str) -> str:
        """As of each language: the message's name."""
        return str(self.name_of(text))


class _ProtobufReading:
    def __init__(self, text: str) -> None:
        self._message = message_of(text)

    def bare(self) -> WriterValues:
        return Messages(self._message)

    def written(self, text: str, references: References) -> WriterValues:
        return _Indexed(written_by(text, [each for _, each in references]), self._message)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return columns_of(self._message, values)


class _Indexed:
    """Messages of a registered file, with the place of each one's message in it in front."""

    def __init__(self, file: Any, message: Any) -> None:
        self._file, self._message, self._messages = file, message, Messages(message)
        self._refused: dict[tuple[int, ...], str | None] = {}

    def value(self, data: bytes) -> Any:
        try:
            index, payload = payload_of(data)
        except BadIndex as error:
            raise Refused(str(error)) from None
        if index not in self._refused:
            self._refused[index] = self._file.refuses(index, self._message)
        why = self._refused[index]
        if why is not None:
            raise Refused(why)
        return self._messages.value(payload)
