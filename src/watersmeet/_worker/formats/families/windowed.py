"""Windowed keys: a key of any other format, and the times of its window."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, LongType, StructField, StructType

from watersmeet._worker.formats.families.family import Family, FamilyOf
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.formats.windowed import FIELDS, WindowedSerde
from watersmeet.io.windowed_formats import WindowedFormat


@dataclass(frozen=True)
class Windowed(Family):
    """Keys of windows.

    Parameters
    ----------
    of : the family of the key within.
    sessions : whether a window's end is written too.
    """

    of: FamilyOf
    sessions: bool

    def type_of(self, form: WindowedFormat) -> DataType:
        """As of each family."""
        kinds = (self.of(form.inner).type_of(form.inner), LongType(), LongType())
        return StructType([StructField(name, kind) for name, kind in zip(FIELDS, kinds, strict=True)])

    def serde_of(self, form: WindowedFormat, kind: DataType | None) -> Serde:
        """As of each family."""
        within = self.of(form.inner).serde_of(form.inner, None if kind is None else _windowed(kind)[0])
        return WindowedSerde(form.kind, within, self.sessions, form.size_ms)

    def described(self, form: WindowedFormat) -> str:
        """With what is within, however that is spelt."""
        return str(form).replace(str(form.inner), self.of(form.inner).described(form.inner), 1)

    def fits(self, form: WindowedFormat, kind: DataType) -> bool:
        """As of each family."""
        found = _windowed(kind)
        return bool(found) and self.of(form.inner).fits(form.inner, found[0])

    def written_by_workers(self, form: WindowedFormat, kind: DataType) -> bool:
        """As of each family."""
        found = _windowed(kind)
        return bool(found) and self.of(form.inner).written_by_workers(form.inner, found[0])

    def refuses(self, form: WindowedFormat) -> bool:
        """As of each family."""
        return True

    def written_type(self, form: WindowedFormat) -> str:
        """As of each family."""
        return f"struct<key:{self.of(form.inner).written_type(form.inner)},start:bigint,end:bigint>"

    def hint(self, form: WindowedFormat, other: str) -> str:
        """As of each family."""
        return f'It is for keys of windows, structs of key, start and end; here take "{other}".'


def _windowed(kind: DataType) -> list[DataType]:
    """The types of key, start and end of windowed keys; nothing where it is no type of such keys."""
    if not isinstance(kind, StructType) or tuple(kind.names) != FIELDS:
        return []
    key, *times = (each.dataType for each in kind.fields)
    return [key, *times] if all(isinstance(time, LongType) for time in times) else []
