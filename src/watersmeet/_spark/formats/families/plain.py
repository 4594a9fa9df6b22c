"""Formats of single values, as Kafka's own serializers have them; texts, bytes and integers also as Spark columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from watersmeet._spark.formats.families.family import Family
from watersmeet._spark.formats.serdes import NOT_TEXT, WIDTHS, DecimalSerde, Serde, wrong_width
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
    """Decimals of as many digits as the format says."""

    def type_of(self, form: DecimalFormat) -> DataType:
        """As of each family."""
        return DecimalType(form.precision, form.scale)

    def serde_of(self, form: DecimalFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        return DecimalSerde(form.precision, form.scale)


class Primitive(Simple):
    """Values that Spark has expressions to read and write."""

    is_primitive: ClassVar[bool] = True

    def encode(self, form: Any, value: Column, kind: DataType | None) -> Column:
        """Text as UTF-8, numbers as their two's complement, the highest byte first. Needs `formats.ENCODING`."""
        return value.cast("binary")

    def reason_of(self, form: Any, raw: Column) -> Column:
        """Why bytes are not of the format; null where they are, and where they are null."""
        length = F.octet_length(raw)
        said = F.concat(F.lit(wrong_width(form.kind, "")), length.cast("string"))
        return F.when(length != WIDTHS[form.kind], said)

    def value_of(self, form: Any, raw: Column, reason: Column) -> Column:
        """The value; null where there is a reason."""
        return F.when(reason.isNull() & raw.isNotNull(), self.made_of(form, raw))

    def made_of(self, form: Any, raw: Column) -> Column:
        """The value of bytes that are of the format."""
        # base -10 makes the bits of 8 bytes a signed number; 4 bytes never reach its sign
        digits = F.when(F.octet_length(raw) == WIDTHS[form.kind], F.hex(raw))
        number = F.conv(digits, 16, -10).cast("bigint")
        if WIDTHS[form.kind] == WIDTHS["long"]:
            return number
        return F.when(number >= 2**31, number - 2**32).otherwise(number).cast("int")


class Bytes(Primitive):
    """Bytes as they are."""

    def encode(self, form: Any, value: Column, kind: DataType | None) -> Column:
        """Themselves."""
        return value

    def reason_of(self, form: Any, raw: Column) -> Column:
        """Nothing is wrong with any."""
        return F.lit(None).cast("string")

    def value_of(self, form: Any, raw: Column, reason: Column) -> Column:
        """Themselves."""
        return raw


class Text(Primitive):
    """Text as UTF-8."""

    def reason_of(self, form: Any, raw: Column) -> Column:
        """It is not UTF-8."""
        return F.when(~F.is_valid_utf8(raw.cast("string")), F.lit(NOT_TEXT))

    def made_of(self, form: Any, raw: Column) -> Column:
        """The text."""
        return raw.cast("string")
