"""The errors a user of watersmeet can meet: each says what is wrong, what was given, and what to do.

Vocabulary: imported by every layer, imports none. A message has three parts, because a person who reads
it at night needs all three: the fault, the thing that was given, and a line that starts with ``Hint:``.
"""

from __future__ import annotations


class WatersmeetError(Exception):
    """Base of every error that watersmeet raises on purpose.

    Parameters
    ----------
    message : what is wrong, one sentence.
    given : what was found instead, as the user wrote it; left out when there is nothing to show, or the message has it.
    hint : what to do about it.

    Attributes
    ----------
    passing : whether it may pass by itself, as when Kafka does not answer: what was tried may be tried again.
    """

    passing = False

    def __init__(self, message: str, *, given: object = None, hint: str | None = None) -> None:
        self.message = message
        self.given = given
        self.hint = hint
        parts = [message]
        if given is not None:
            parts.append(f"Given: {given}")
        if hint is not None:
            parts.append(f"Hint: {hint}")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds from `args`, the joined text: an error that crosses from a Spark worker
        # to the driver must keep its parts.
        return _rebuild, (type(self), self.message, self.given, self.hint)


def _rebuild(kind: type[WatersmeetError], message: str, given: object, hint: str | None) -> WatersmeetError:
    return kind(message, given=given, hint=hint)


class TopologyError(WatersmeetError):
    """The topology cannot be built as written: names, types, functions, settings of a node."""


class FunctionError(TopologyError):
    """A user's function does not fit: it failed, returned something other than a column, or raises for a record."""


class MissingName(TopologyError, AttributeError):
    """A name that is not there: it is called otherwise here, or is not there yet."""


class WrongCall(TopologyError, TypeError):
    """A call that does not fit: an option that is not there, an argument that is left out or has no place."""


class ConfigError(WatersmeetError):
    """A setting of the session, the source, the sink or the checkpoint does not fit."""


class ChangedTopology(ConfigError):
    """A checkpoint was written by another topology, shard count, generation or state format."""


class CorruptData(WatersmeetError):
    """Bytes that were written earlier (a blob, a state chunk, a file of a checkpoint) do not read back."""


class StateError(CorruptData):
    """The state of an operator is incomplete or contradicts its manifest."""


class SourceError(WatersmeetError):
    """A record of a source cannot be read; nothing of its batch is written."""


class SinkError(WatersmeetError):
    """Records could not be written to Kafka; none of their batch counts as written."""


class EncodingError(SinkError):
    """An output's format does not write a key or a value (KIP-399 calls it a serialization error)."""
