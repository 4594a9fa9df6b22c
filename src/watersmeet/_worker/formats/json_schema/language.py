"""JSON Schema as a language of schemas: JSON texts say themselves what they are, the schema what they may be."""

from __future__ import annotations

import json
from typing import ClassVar

from pyspark.sql.types import DataType

from watersmeet._worker.formats.json_schema import documents, types
from watersmeet._worker.formats.json_schema.types import node_of
from watersmeet._worker.formats.json_schema.validation import validator
from watersmeet._worker.formats.json_schema.values import JsonSchemaWriter, Texts
from watersmeet._worker.formats.registered.language import Language, References, SchemaReading, Writer


class JsonSchema(Language):
    """JSON Schema: a value is read by the reader's schema alone."""

    registered_as: ClassVar[str] = "JSON"
    hint: ClassVar[str] = (
        "Give a schema of objects with properties, maps (additionalProperties), arrays and simple types, each of one "
        'type or of that and null ("type": ["null", "string"]); none may hold itself.'
    )

    def type_of(self, text: str, references: References = ()) -> DataType:
        """As of each language."""
        return node_of(self.whole(text, references)).kind

    def whole(self, text: str, references: References = ()) -> str:
        """As of each language; the order of properties is that of the type."""
        return json.dumps(documents.whole(text, references))

    def reading(self, text: str, *, validate: bool) -> SchemaReading:
        """As of each language."""
        return Texts(text, validate=validate)

    def schema_for(self, kind: DataType, name: str) -> str:
        """As of each language."""
        return json.dumps(types.schema_for(kind, name))

    def misfit(self, text: str, kind: DataType) -> str | None:
        """As of each language: of an object the order does not matter, and numbers may be narrower."""
        return types.misfit(node_of(text), kind)

    def writer(self, text: str, kind: DataType, header: bytes, what: str, *, validate: bool) -> Writer:
        """As of each language."""
        return JsonSchemaWriter(text, kind, header, what, validate)

    def name_of(self, text: str) -> str | None:
        """As of each language: its title."""
        found = json.loads(text).get("title")
        return found if isinstance(found, str) and found else None

    def check(self, text: str) -> None:
        """As of each language."""
        validator(text)
