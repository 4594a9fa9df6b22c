"""Debezium's events and their keys: rows of a table, in JSON or in a format with a schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import DataType, StructType

from watersmeet._worker.formats.debezium import PAYLOAD, EnvelopeSerde, KeySerde, envelope_type, key_type, row_type
from watersmeet._worker.formats.families.family import Family, FamilyOf
from watersmeet._worker.formats.serdes import JsonSerde, Serde
from watersmeet.errors import TopologyError
from watersmeet.io.debezium import DebeziumFormat, DebeziumKeyFormat
from watersmeet.io.formats import Format
from watersmeet.io.schema_formats import SchemaFormat


@dataclass(frozen=True)
class _Debezium(Family):
    """What Debezium writes.

    Parameters
    ----------
    of : the family of the format that it writes in.
    """

    of: FamilyOf

    def type_of(self, form: Any) -> DataType:
        """As of each family."""
        return self.columns_of(form)

    def described(self, form: Any) -> str:
        """With what is within, however that is spelt."""
        inner = form.inner
        if isinstance(inner, SchemaFormat):
            return str(form).replace(str(inner), self.of(inner).described(inner), 1)
        return str(replace(form, inner=Format("json", self._row_type(form)))) if inner.schema else str(form)

    def columns_of(self, form: Any) -> StructType:
        """The columns of a row, or of a primary key.

        Raises
        ------
        TopologyError : there are none.
        """
        kind = self._row_type(form)
        if not isinstance(kind, StructType) or not kind.fields:
            what, hint = "Debezium's rows and keys have columns.", 'Name them: "id long, first_name string".'
            raise TopologyError(what, given=kind.simpleString(), hint=hint)
        return kind

    def _row_type(self, form: Any) -> DataType:
        return self.of(form.inner).type_of(form.inner)


class Envelopes(_Debezium):
    """Change events as rows."""

    def serde_of(self, form: DebeziumFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        row, times = self.columns_of(form), form.time == "source"
        if isinstance(form.inner, SchemaFormat):
            return EnvelopeSerde(self.of(form.inner).serde_of(form.inner, None), None, form.tombstones, times)
        envelope = JsonSerde(envelope_type(row, documents=form.documents))
        return EnvelopeSerde(envelope, JsonSerde(row) if form.documents else None, form.tombstones, times)

    def _row_type(self, form: DebeziumFormat) -> DataType:
        kind = super()._row_type(form)
        # its schema is the envelope's
        return row_type(kind) if isinstance(form.inner, SchemaFormat) else kind


class DebeziumKeys(_Debezium):
    """Keys of change events: the one column, or a struct of several."""

    def type_of(self, form: DebeziumKeyFormat) -> DataType:
        """As of each family."""
        columns = self.columns_of(form)
        return columns[0].dataType if len(columns) == 1 else columns

    def serde_of(self, form: DebeziumKeyFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        columns = self.columns_of(form)
        if isinstance(form.inner, SchemaFormat):
            return KeySerde(self.of(form.inner).serde_of(form.inner, None), tuple(columns.names))
        return KeySerde(JsonSerde(key_type(columns)), tuple(columns.names))

    def columns_of(self, form: DebeziumKeyFormat) -> StructType:
        """The columns of a primary key.

        Raises
        ------
        TopologyError : there are none, or one that JSON with its schema has too.
        """
        kind = super().columns_of(form)
        if PAYLOAD in kind.names and not isinstance(form.inner, SchemaFormat):
            what = f"A key with a column {PAYLOAD!r} cannot be told from one with its schema."
            hint = 'Without schemas (key.converter.schemas.enable=false) read it as wm.json("payload string").'
            raise TopologyError(what, given=kind.simpleString(), hint=hint)
        return kind
