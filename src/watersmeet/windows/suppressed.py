"""Suppressed: which changes of a table are held back, for how long, and in how large a buffer (KIP-328).

Vocabulary, frozen and checked when made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.names import answering
from watersmeet.windows.durations import Duration, KafkaName, duration_ms, not_negative

WhenFull = Literal["emit", "shut down", "grow"]


@answering
@dataclass(frozen=True)
class BufferConfig(metaclass=KafkaName):
    """How much is held back at most, and what happens then.

    Parameters
    ----------
    most_records, most_bytes : limits of each partition's buffer; None: without.
    when_full : "emit" sends the oldest entries early, "shut down" stops the query; "grow": there is no limit.
    """

    most_records: int | None = None
    most_bytes: int | None = None
    when_full: WhenFull = "emit"

    def __post_init__(self) -> None:
        limit: Any
        for limit, what in ((self.most_records, "records"), (self.most_bytes, "bytes")):
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
                raise TopologyError(
                    f"A buffer's limit of {what} must be a whole number of 0 or more, not {limit!r}.",
                    hint="BufferConfig.max_records(1000), BufferConfig.max_bytes(64_000_000), or without a limit "
                    "BufferConfig.unbounded().",
                )
        if self.when_full not in get_args(WhenFull):
            raise TopologyError(
                f"Unknown when_full={self.when_full!r}.",
                hint="Take 'emit', 'shut down' or 'grow'; or emit_early_when_full(), shut_down_when_full().",
            )

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """As much as there is."""
        return cls(when_full="grow")

    @classmethod
    def max_records(cls, limit: int) -> BufferConfig:
        """At most so many records, then the oldest are sent early."""
        return cls(most_records=limit)

    @classmethod
    def max_bytes(cls, limit: int) -> BufferConfig:
        """At most so many bytes, then the oldest records are sent early."""
        return cls(most_bytes=limit)

    def with_max_records(self, limit: int) -> BufferConfig:
        """The same with a limit of records, too."""
        return replace(self, most_records=limit, when_full="emit" if self.when_full == "grow" else self.when_full)

    def with_max_bytes(self, limit: int) -> BufferConfig:
        """The same with a limit of bytes, too."""
        return replace(self, most_bytes=limit, when_full="emit" if self.when_full == "grow" else self.when_full)

    def with_no_bound(self) -> BufferConfig:
        """The same without a limit."""
        return BufferConfig.unbounded()

    def emit_early_when_full(self) -> BufferConfig:
        """The same; where it is full, the oldest are sent early."""
        return replace(self, when_full="emit")

    def shut_down_when_full(self) -> BufferConfig:
        """The same; where it is full, the query stops."""
        return replace(self, when_full="shut down")

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.when_full != "grow" and (self.most_records is not None or self.most_bytes is not None)

    @property
    def is_strict(self) -> bool:
        """Whether nothing is sent early."""
        return self.when_full != "emit"


@answering
@dataclass(frozen=True)
class Suppressed(metaclass=KafkaName):
    """What `KTable.suppress` holds back.

    Parameters
    ----------
    limit_ms : how long after the first change of a key that is held back; None: until its window closes.
    buffer : how much is held back at most.
    """

    limit_ms: int | None
    buffer: BufferConfig

    def __post_init__(self) -> None:
        if self.limit_ms is not None:
            not_negative(self.limit_ms, "time limit", "Suppressed.until_time_limit('1 hour', buffer)")
        _check_buffer(self.buffer)

    @classmethod
    def until_time_limit(cls, limit: Duration, buffer: BufferConfig) -> Suppressed:
        """Changes are held back for `limit` of stream time; of a key the last one is sent."""
        return cls(duration_ms(limit, "time limit"), buffer)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        """Of each window one result is sent, when window and grace have passed; of a windowed table only.

        Raises
        ------
        TopologyError : the buffer would send results early, which then are not the last ones.
        """
        _check_buffer(buffer)
        if not buffer.is_strict:
            raise TopologyError(
                f"A buffer that sends records early cannot hold final results back: {_made(buffer)}.",
                hint="Take BufferConfig.unbounded(), or shut_down_when_full() of the buffer.",
            )
        return cls(None, buffer)


def _check_buffer(given: Any) -> None:
    """Raise where it is no buffer."""
    if isinstance(given, BufferConfig):
        return
    limit = f"BufferConfig.max_records({given})" if type(given) is int else "BufferConfig.max_records(1000)"
    raise TopologyError(
        f"buffer takes a BufferConfig, and not {given!r:.80}.", hint=f"Take BufferConfig.unbounded(), or {limit}."
    )


def _made(buffer: BufferConfig) -> str:
    """A buffer as it is made."""
    if buffer.most_bytes is not None:
        return f"BufferConfig.max_bytes({buffer.most_bytes})"
    return f"BufferConfig.max_records({buffer.most_records})"
