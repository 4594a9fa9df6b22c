"""The interface of a family of formats: its types, its serdes, and its texts.

A format is a class of `io` that the user makes, and one line in the table of `formats`; what it shares with others it
has from here. Law 6: what a format does not write is refused when the topology is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.sql.types import DataType, StringType

from watersmeet._worker.formats.serdes import Serde


class Family(ABC):
    """Formats of one kind, or of some that differ in nothing that matters here. It has no state."""

    is_primitive: ClassVar[bool] = False
    """Whether Spark has expressions to read and write the values."""

    @abstractmethod
    def type_of(self, form: Any) -> DataType:
        """The Spark type of the format's values; all fields within it may be null.

        Raises
        ------
        TopologyError : it has none.
        """

    @abstractmethod
    def serde_of(self, form: Any, kind: DataType | None) -> Serde:
        """The serde of the format in the workers.

        Parameters
        ----------
        kind : type of the values; None: the format's own.
        """

    def described(self, form: Any) -> str:
        """The format in describe() and in a checkpoint, however it is spelt."""
        return str(form)

    def fits(self, form: Any, kind: DataType) -> bool:
        """Whether the format writes values of this type."""
        made = self.type_of(form)
        # collations are types of their own
        return type(made) is type(kind) and (made == kind or isinstance(kind, StringType))

    def written_by_workers(self, form: Any, kind: DataType) -> bool:
        """Whether no expression of Spark's is needed to write values of this type."""
        return self.type_of(form) == kind

    def refuses(self, form: Any) -> bool:
        """Whether there are values of its type that the format does not write."""
        return False

    def written_type(self, form: Any) -> str:
        """Values of what type it writes, as errors say it."""
        return self.type_of(form).simpleString()

    def hint(self, form: Any, other: str) -> str:
        """The hint if it does not write values of a type.

        Parameters
        ----------
        other : name of a format that does.
        """
        return f'Take the format "{other}", or change the values with .cast("{self.type_of(form).simpleString()}").'


FamilyOf = Callable[[Any], Family]
"""A format's family: what those that hold other formats are made with."""
