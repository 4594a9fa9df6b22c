"""Values beside the partitions that a partitioner gives them: of any other format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.types import DataType, LongType, StructField, StructType

from watersmeet._worker.formats.families.family import Family, FamilyOf
from watersmeet._worker.formats.placed import FIELDS, PlacedSerde
from watersmeet._worker.formats.serdes import Serde
from watersmeet.io.formats import Format, PlacedFormat


@dataclass(frozen=True)
class PlacedValues(Family):
    """Structs of a value and a partition.

    Parameters
    ----------
    of : the family of the value's format.
    by_type : the format of values of a type.
    """

    of: FamilyOf
    by_type: Callable[[DataType], Format]

    def type_of(self, form: PlacedFormat) -> DataType:
        """As of each family."""
        kinds = (self.of(form.inner).type_of(form.inner), LongType())
        return StructType([StructField(name, kind) for name, kind in zip(FIELDS, kinds, strict=True)])

    def serde_of(self, form: PlacedFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        within = None if kind is None else _value_type(kind)
        inner = self._inner(form, within)
        return PlacedSerde(self.of(inner).serde_of(inner, within))

    def described(self, form: PlacedFormat) -> str:
        """As of each family: as the value is written, since that is what is in the topic."""
        return "by type" if form.by_type else self.of(form.inner).described(form.inner)

    def fits(self, form: PlacedFormat, kind: DataType) -> bool:
        """As of each family."""
        within = _value_type(kind)
        inner = self._inner(form, within)
        return self.of(inner).fits(inner, within)

    def written_by_workers(self, form: PlacedFormat, kind: DataType) -> bool:
        """As of each family."""
        within = _value_type(kind)
        inner = self._inner(form, within)
        return self.of(inner).written_by_workers(inner, within)

    def refuses(self, form: PlacedFormat) -> bool:
        """As of each family."""
        return not form.by_type and self.of(form.inner).refuses(form.inner)

    def _inner(self, form: PlacedFormat, kind: DataType | None) -> Format:
        return self.by_type(kind) if form.by_type and kind is not None else form.inner


def _value_type(kind: DataType) -> DataType:
    assert isinstance(kind, StructType), f"a value beside its partition is a struct, not {kind}"
    return kind["value"].dataType
