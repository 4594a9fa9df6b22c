"""Formats of single values, written as Kafka's own serializers write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql.types import DataType, DecimalType

from watersmeet._worker.formats.families.family import Family
from watersmeet._worker.formats.serdes import DecimalSerde, Serde
from watersmeet.io.formats import DecimalFormat


@dataclass(frozen=True)
class Simple(Family):
    """Values of one type.

    Parameters
    ----------
    kind : the type.
    serde : reads and writes them.
    some : whether some values of the type alone are written.
    """

    kind: DataType
    serde: Serde
    some: bool = False

    def type_of(self, form: Any) -> DataType:
        """As of each family."""
        return self.kind

    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        """As of each family."""
        return self.serde

    def refuses(self, form: Any) -> bool:
        """As of each family."""
        return self.some


class Decimals(Family):
    """Decimals of the format's precision and scale."""

    def type_of(self, form: DecimalFormat) -> DataType:
        """As of each family."""
        return DecimalType(form.precision, form.scale)

    def serde_of(self, form: DecimalFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        return DecimalSerde(form.precision, form.scale)


class Primitive(Simple):
    """Values that Spark's expressions can read and write (`_spark/formats/columns.py`)."""

    is_primitive: ClassVar[bool] = True
