"""Formats with a schema of a language of its own, such as Avro."""

from __future__ import annotations

from pyspark.sql.types import DataType

from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.families.family import Family
from watersmeet._worker.formats.json_types import nullable
from watersmeet._worker.formats.serdes import Serde
from watersmeet.io.schema_formats import SchemaFormat


class RegisteredFamily(Family):
    """Values with a schema, alone or in a Schema Registry."""

    def type_of(self, form: SchemaFormat) -> DataType:
        """As of each family.

        Raises
        ------
        TopologyError : the schema has no type.
        ConfigError : the registry does not have it, or does not answer.
        """
        return schemas.type_of(form)

    def serde_of(self, form: SchemaFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        return schemas.serde_of(form, None if kind is None else nullable(kind))

    def described(self, form: SchemaFormat) -> str:
        """With its type, where that is known."""
        return schemas.described(form)

    def fits(self, form: SchemaFormat, kind: DataType) -> bool:
        """As of each family."""
        return schemas.misfit(form, nullable(kind)) is None

    def written_by_workers(self, form: SchemaFormat, kind: DataType) -> bool:
        """As of each family."""
        return self.fits(form, kind)

    def refuses(self, form: SchemaFormat) -> bool:
        """As of each family."""
        return True

    def written_type(self, form: SchemaFormat) -> str:
        """As of each family."""
        return "types that its language has" if form.schema is None else super().written_type(form)

    def hint(self, form: SchemaFormat, other: str) -> str:
        """As of each family."""
        return "Make values of the schema's types, its fields in its order; without a schema one is made of the type."
