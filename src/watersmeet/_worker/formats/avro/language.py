"""Avro as a language of schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import DataType

from watersmeet._worker.formats.avro.types import (
    Schema,
    record_name,
    schema_for,
    schema_of,
    type_of_schema,
    written_schema,
)
from watersmeet._worker.formats.avro.values import AvroWriter, WriterSchema, columns_of
from watersmeet._worker.formats.registered.language import Language, References, SchemaReading, Writer, WriterValues


class Avro(Language):
    """Avro: a value is resolved from its writer's schema to the reader's."""

    registered_as: ClassVar[str] = "AVRO"
    hint: ClassVar[str] = "Give a schema of records, arrays, maps, enums, and unions with null; none may hold itself."

    def type_of(self, text: str, references: References = ()) -> DataType:
        """As of each language."""
        return type_of_schema(_schema(text, references))

    def whole(self, text: str, references: References = ()) -> str:
        """As of each language."""
        return json.dumps(_schema(text, references), sort_keys=True)

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        """As of each language."""
        return _AvroReading(text)

    def schema_for(self, kind: DataType, name: str) -> str:
        """As of each language."""
        record = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
        return json.dumps(schema_of(json.dumps(schema_for(kind, f"_{record}" if record[0].isdigit() else record))))

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        """As of each language."""
        return AvroWriter(text, header, what)

    def name_of(self, text: str) -> str | None:
        """As of each language."""
        return record_name(schema_of(text))


class _AvroReading:
    def __init__(self, text: str) -> None:
        self._read = schema_of(text)

    def bare(self) -> WriterValues:
        return WriterSchema(self._read, self._read)

    def written(self, text: str, references: References) -> WriterValues:
        return WriterSchema(written_schema(text, [each for _, each in references]), self._read)

    def columns(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        return columns_of(self._read, values)


def _schema(text: str, references: References) -> Schema:
    return schema_of(text, [each for _, each in references])
