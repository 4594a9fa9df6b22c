"""Questions that an input answers for itself.

Vocabulary: nobody else asks which input something is. One table (`_spark/sources/kinds.py`) maps its class to the
reader.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from watersmeet.io.formats import Format, FormatName
from watersmeet.io.policies import Policies
from watersmeet.io.topic_names import StartingOffsets

Function = Callable[..., Any]


class Origin(ABC):  # noqa: B024  an input that sorts nothing out answers none of it otherwise
    """The origin of an input: it answers the questions of the plan, the start and the checkpoint.

    Attributes
    ----------
    shown : what a picture of the topology calls it.
    frame : the DataFrame that it is read from, as one partition, numbered by one task; None: from none.
    """

    shown: ClassVar[str] = ""
    frame: Any = None

    @property
    def default_name(self) -> str | None:
        """The input's name where the user gives none; None: he has to give one."""
        return None

    @property
    def topic(self) -> str | None:
        """The Kafka topic, if its records have the partitions and offsets of one; else None.

        One source of Spark's reads all topics, as bytes, which the workers decode.
        """
        return None

    @property
    def pattern(self) -> str | None:
        """The pattern of the topics' names, if it reads all topics with such names; `topic` is then its text."""
        return None

    def reads(self, topic: str | None) -> bool:
        """Whether it reads the Kafka topic of this name."""
        return topic is not None and self.topic == topic

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """Formats of the parts of a record that come as bytes."""
        return {}

    @property
    def keeps_headers(self) -> bool:
        """Whether its records have headers."""
        return False

    @property
    def policies(self) -> Policies:
        """Its policies for bad records, if it has policies and names them."""
        return Policies()

    @property
    def begins_at(self) -> StartingOffsets | None:
        """Where its topic is read from where there is no checkpoint yet; None: where the connection says."""
        return None

    @property
    def timestamp_extractor(self) -> Function | None:
        """The user's function that gives its records' times; None: they have their own."""
        return None

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """Why its own kind drops records, besides what every input may drop them for."""
        return ()

    def under(self, policies: Policies) -> Self:
        """The same input under these policies, if it has some."""
        return self


@dataclass(frozen=True)
class SortedOut(Origin):
    """Bad records of another input, or of the topology, on their way to a topic: nothing is read."""

    goes_to: str

    shown = "dead letters"
